"""The audit: rules about what must never happen, applied to journal and surveys.

`rules` is the table of rules and the entry; each other module holds the rules of one subject, as pure functions from
the tables to violations.
"""
