"""Authentication without I/O: SASL mechanisms and JAAS texts. Nonces and times are arguments."""
