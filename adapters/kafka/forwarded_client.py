"""One client's connection through the proxy to a broker. `forwarding_proxy` has the theory."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

from lethe.adapters.kafka.connection_state import PeerClosed
from lethe.adapters.kafka.forwarding_proxy import CHUNK_BYTES, ForwardingProxy, NoBrokerAvailable, Upstream
from lethe.adapters.streams import send
from lethe.protocol.kafka.connection import ServerConnection
from lethe.protocol.kafka.forwarding import HEAD_BYTES, MoreBytesNeeded, RequestHead, gets_answer
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.kafka.queries import ApiVersionsResponse

MAX_UNANSWERED: Final = 100
"""Limit of open requests of one client; at the limit no more are read from it."""
_ANSWER_HEAD: Final = struct.Struct(">ii")


class ForwardedClient:
    """Copies one client's requests to a broker, and the answers back, until `close`.

    `more` reads from the client into `protocol` and raises at the end of the stream; `lost` closes the client's
    connection with a reason; `spawn` starts the task that copies answers.
    """

    def __init__(
        self,
        proxy: ForwardingProxy,
        listener: str,
        protocol: ServerConnection,
        client: asyncio.StreamWriter,
        *,
        more: Callable[[], Awaitable[None]],
        lost: Callable[[str], None],
        spawn: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
        max_idle_ms: int,
    ) -> None:
        self._proxy = proxy
        self._listener = listener
        self._protocol = protocol
        self._client = client
        self._more = more
        self._lost = lost
        self._spawn = spawn
        self._max_idle_s = max_idle_ms / 1000
        self._versions: ApiVersionsResponse | None = None
        self._upstream: Upstream | None = None
        self._answers: asyncio.Task[None] | None = None
        self._unanswered: deque[int] = deque()
        self._progress = asyncio.Event()
        self._ended: NoBrokerAvailable | PeerClosed | None = None
        """Why no more is copied, as its caller learns it."""

    async def api_versions(self) -> ApiVersionsResponse:
        """Return the versions for this client. Raises NoBrokerAvailable."""
        if self._versions is None:
            if self._upstream is None:
                self._versions = await self._proxy.versions(self._listener)
            else:
                self._versions = await self._proxy.versions_of(self._upstream)
        return self._versions

    async def forward(self, head: RequestHead) -> None:
        """Copy the next request, whose head is there. Raises NoBrokerAvailable, PeerClosed, ProtocolError, OSError."""
        answered = await self._gets_answer(head)
        upstream = await self._open()
        await self._until(MAX_UNANSWERED - 1)
        if answered:
            self._unanswered.append(head.correlation_id)
        self._proxy.counts.requests += 1
        left = head.size + 4
        while left:
            piece = self._protocol.take(min(left, CHUNK_BYTES))
            if not piece:
                await self._more()
                continue
            left -= len(piece)
            self._proxy.counts.bytes_in += len(piece)
            try:
                async with asyncio.timeout(self._max_idle_s):
                    await send(upstream.writer, (piece,))
            except ConnectionError as error:
                raise self._ended or NoBrokerAvailable(f"broker {upstream.target.broker}: {error}") from error

    async def settled(self) -> None:
        """Wait until all copied requests are answered. Raises NoBrokerAvailable if the broker's connection has ended,
        PeerClosed if the client's has."""
        await self._until(0)

    def close(self) -> None:
        """Close the broker's connection; open requests stay unanswered."""
        if self._answers is not None:
            self._answers.cancel()
        if self._upstream is not None:
            self._upstream.writer.transport.abort()
            self._proxy.closed(self._upstream)
            self._upstream = None

    # --- requests -------------------------------------------------------------------------------------------------

    async def _gets_answer(self, head: RequestHead) -> bool:
        looked_at = HEAD_BYTES
        while True:
            wanted = min(head.size + 4, looked_at)
            if self._protocol.pending_bytes < wanted:
                await self._more()
                continue
            try:
                return gets_answer(self._protocol.peek(wanted), head)
            except MoreBytesNeeded:
                # Each look begins anew, so one for each byte that arrives would take a time quadratic in their number.
                looked_at = max(1024, 4 * looked_at)

    async def _open(self) -> Upstream:
        if self._upstream is None:
            try:
                self._upstream = await self._proxy.connect(self._listener, self._versions)
            except NoBrokerAvailable:
                self._proxy.counts.failures += 1
                raise
            self._answers = self._spawn(self._copy_answers(self._upstream))
        return self._upstream

    async def _until(self, at_most: int) -> None:
        while len(self._unanswered) > at_most and self._ended is None:
            self._progress.clear()
            await self._progress.wait()
        if self._ended is not None:
            raise self._ended

    # --- answers --------------------------------------------------------------------------------------------------

    async def _copy_answers(self, upstream: Upstream) -> None:
        broker = upstream.target.broker
        try:
            while True:
                await self._copy_answer(upstream.reader)
        except asyncio.IncompleteReadError as error:
            where = "in the middle of an answer" if error.partial else "the connection"
            self._broker_failed(f"broker {broker} closed {where}")
        except (ProtocolError, OSError) as error:
            self._broker_failed(f"broker {broker}: {error}")
        except _ClientFailed as error:
            self._end(PeerClosed(), str(error))

    async def _copy_answer(self, reader: asyncio.StreamReader) -> None:
        head = await reader.readexactly(_ANSWER_HEAD.size)
        size, correlation_id = _ANSWER_HEAD.unpack(head)
        self._proxy.check_answer(size)
        if not self._unanswered or correlation_id != self._unanswered[0]:
            raise ProtocolError(f"an answer with correlation id {correlation_id} came, which is not the next")
        await self._write(head)
        left = size - 4
        while left:
            piece = await reader.read(min(left, CHUNK_BYTES))
            if not piece:
                raise asyncio.IncompleteReadError(head, left)
            left -= len(piece)
            await self._write(piece)
        self._unanswered.popleft()
        self._progress.set()

    async def _write(self, piece: bytes) -> None:
        """Raises _ClientFailed."""
        try:
            async with asyncio.timeout(self._max_idle_s):
                await send(self._client, (piece,))
        except TimeoutError:
            raise _ClientFailed(f"it did not read an answer within {self._max_idle_s:g} s") from None
        except OSError as error:
            raise _ClientFailed(f"it did not take an answer: {error}") from error
        self._proxy.counts.bytes_out += len(piece)

    def _broker_failed(self, reason: str) -> None:
        self._proxy.counts.failures += 1
        self._end(NoBrokerAvailable(reason), reason)

    def _end(self, error: NoBrokerAvailable | PeerClosed, reason: str) -> None:
        self._ended = error
        self._progress.set()
        self._lost(reason)


class _ClientFailed(Exception):
    """An answer of the broker cannot be given to the client."""
