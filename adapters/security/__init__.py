"""Security of connections: TLS, SASL and secrets, with their files, sockets and randomness."""
