"""Our authorizer and principals beside Kafka's compiled ones."""
