"""TLS for connections and listeners: stores of keys and certificates, the secrets that open them, and contexts."""
