"""The audit: does what was written down agree with what must never happen?

`rules` is the table of rules and the entry; each other module holds the rules of one subject, as pure functions from
the tables to violations.
"""
