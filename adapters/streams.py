"""Writing to a stream, alike on every event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


async def send(writer: asyncio.StreamWriter, pieces: Iterable[bytes | bytearray | memoryview]) -> None:
    """Write these bytes, and wait while the buffer is full. Raises OSError; after the
    connection's end, ConnectionResetError.

    On a connection that has ended, asyncio's own loop fails when the writer drains, uvloop with a RuntimeError at the
    write: one that a task group would take for the end of everything."""
    if writer.is_closing():
        raise ConnectionResetError("the connection has ended")
    writer.writelines(pieces)
    await writer.drain()
