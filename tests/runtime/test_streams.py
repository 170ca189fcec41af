"""What is sent on a connection that has ended is refused in the same way on every event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine

import pytest
import uvloop

from lethe.adapters.streams import send


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_connection_that_has_ended_is_reset(run: Callable[[Coroutine[None, None, None]], None]) -> None:
    """An answer to a client that was gone ended a controller on uvloop (chaos, seed 62)."""

    async def scenario() -> None:
        async with await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1") as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            await send(writer, (b"one", b"two"))
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            with pytest.raises(ConnectionResetError):
                await send(writer, (b"three",))

    run(scenario())
