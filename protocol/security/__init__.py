"""Authentication and rights without I/O: SASL mechanisms, JAAS texts, principals, ACLs and verdicts.

Nonces and times are arguments.
"""
