"""Security of connections: TLS, SASL, secrets and rights, with their files, sockets, randomness and ZooKeeper."""
