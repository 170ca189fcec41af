"""Codecs between bytes and immutable values: the lowest layer, pure, importing nothing of Lethe above it."""

if __name__ != "lethe.protocol":
    raise ImportError("import lethe.protocol: under its bare name each of its modules would exist twice")
