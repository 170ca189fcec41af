"""Exhaustive search of a small world: every state that two controllers, two brokers and one topic can reach."""
