"""Kafka's protocol over asyncio sockets: a client connection and a server."""
