"""Writing to a stream, alike on every event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


async def send(writer: asyncio.StreamWriter, pieces: Iterable[bytes | bytearray | memoryview]) -> None:
    """Write these bytes, and wait while the buffer is full. Raises OSError: ConnectionResetError on a connection that
    has ended.

    There asyncio's own loop fails when the writer drains, and uvloop with a RuntimeError at the write."""
    if writer.is_closing():
        raise ConnectionResetError("the connection has ended")
    writer.writelines(pieces)
    await writer.drain()
