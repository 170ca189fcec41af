"""Bytes to immutable values and back: the lowest layer, pure, importing nothing of Lethe above it."""
