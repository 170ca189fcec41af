"""Tells a text from the size of a frame, as Kafka and ZooKeeper send it: four bytes, big-endian.

    HTTP/1.1 400 …     1,213,486,160 as a size: `HTTP`
    SSH-2.0-…          1,397,966,893 as a size: `SSH-`

Four printable bytes are a size above 512 MiB.
"""

from __future__ import annotations


def text_of_size(size: int) -> str | None:
    """Return the four characters that were read as this size, which is not negative; None if not all are printable."""
    text = size.to_bytes(4).decode("latin-1")
    return text if text.isascii() and text.isprintable() else None
