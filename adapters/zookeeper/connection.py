"""One TCP connection to one ZooKeeper server, from handshake to loss.

Theory of operation. ZooKeeper answers the requests of a connection in order, so the pending ones are a queue and each
answer must carry the xid of the first. Any violation (another xid, an impossible length, a malformed body) makes the
connection untrustworthy: it is aborted once, with a reason. FIN and RST abort it too; they arrive as callbacks, so they
are noticed at once. Every request ends exactly once: with an `Answer`, with `Skipped` if the answer was too large, or
with `Dropped`. It never ends with an exception.

The clock is the event loop's (monotonic, seconds). This module does not retry, wait or handle sessions.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from lethe.adapters.security.handshakes import shows_refusal
from lethe.adapters.zookeeper import wire
from lethe.adapters.zookeeper.tls_failures import (
    ALERT,
    ENDED_AFTER_HANDSHAKE,
    IS_TLS_PORT,
    MAYBE_TLS_PORT,
    tls_failure,
)
from lethe.protocol.counting import counted
from lethe.protocol.frame_text import text_of_size
from lethe.protocol.zookeeper.operations import ZkError

_LENGTH: Final = struct.Struct("!i")
_UNPARSABLE: Final = (struct.error, *wire.UNPARSABLE)
_ABSURD_BYTES: Final = 1 << 30
_PING: Final = wire.pack_ping()


class Answer(NamedTuple):
    """The server's answer: an error, or the parsed body."""

    zxid: int
    error: ZkError | None
    value: Any
    code: int = 0
    """The server's error code."""


class Skipped(NamedTuple):
    """The answer exceeded the size limit."""

    size_bytes: int


class Dropped(NamedTuple):
    """The connection broke before the answer: the request may or may not have been carried out."""

    reason: str


Completion = Answer | Skipped | Dropped


class _Pending(NamedTuple):
    xid: int
    sent_at: float
    parse: Callable[[bytes, int], Any]
    completion: asyncio.Future[Completion]
    on_answer: Callable[[Answer], None] | None


class Connection(asyncio.Protocol):
    """Created by `connect`."""

    def __init__(self, on_event: Callable[[bytes], None], max_reply_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_event = on_event
        self._max_reply_bytes = max_reply_bytes
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._wanted = 4
        self._to_skip = 0
        self._pending: deque[_Pending] = deque()
        self._specials: dict[int, deque[_Pending]] = {wire.PING_XID: deque(), wire.AUTH_XID: deque()}
        self._xid = 0
        self._handshake: asyncio.Future[bytes] = self._loop.create_future()
        self.closed: Final[asyncio.Future[str]] = self._loop.create_future()
        """Done, with the reason, once the connection is lost."""
        self.is_tls_refused = False
        """True once one side has refused the other in TLS: with TLS 1.3 a server does so after the handshake."""
        self.last_sent_at = self.last_received_at = self._loop.time()
        self.confirmed_at = self._loop.time()
        """Send time of the newest answered request: the server has heard from us then or later."""

    @property
    def is_open(self) -> bool:
        """False once the connection is known to be lost."""
        return not self.closed.done()

    @property
    def oldest_unanswered_at(self) -> float | None:
        """Send time of the oldest unanswered request; None if there is none."""
        queues = (self._pending, *self._specials.values())
        return min((queue[0].sent_at for queue in queues if queue), default=None)

    # --- sending --------------------------------------------------------------------------------------------------

    async def shake_hands(self, request: bytes) -> wire.SessionGrant:
        """Send the connect request, which comes first. Raises ConnectionError without an answer."""
        self.last_sent_at = self._loop.time()
        self._write(request)
        try:
            granted = wire.parse_connect(await self._handshake)
        except _UNPARSABLE as error:
            self.drop(_unparsable("answer to the connect request", error))
            raise ConnectionError(self.closed.result()) from error
        self.confirmed_at = self.last_sent_at
        return granted

    def send(
        self, request: wire.Request, *, xid: int | None = None, on_answer: Callable[[Answer], None] | None = None
    ) -> asyncio.Future[Completion]:
        """Send at once and return a future that only the caller cancels.

        `on_answer` is called when the answer is read, before later frames of the connection are handled.
        """
        completion: asyncio.Future[Completion] = self._loop.create_future()
        if self.closed.done():
            completion.set_result(Dropped(self.closed.result()))
            return completion
        if xid is None:
            self._xid = xid = self._xid % 0x7FFFFFFF + 1
        now = self._loop.time()
        queue = self._specials.get(xid, self._pending)
        queue.append(_Pending(xid, now, request.parse, completion, on_answer))
        self.last_sent_at = now
        self._write(_LENGTH.pack(xid) + request.payload)
        return completion

    def ping(self) -> None:
        """Send a ping, which the server has to answer."""
        self._specials[wire.PING_XID].append(
            _Pending(wire.PING_XID, self._loop.time(), _PING.parse, self._loop.create_future(), None)
        )
        self.last_sent_at = self._loop.time()
        self._write(_LENGTH.pack(wire.PING_XID) + _PING.payload)

    def _write(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.write(_LENGTH.pack(len(frame)) + frame)

    def drop(self, reason: str) -> None:
        """Abort the connection; all pending requests end as Dropped."""
        if self.closed.done():
            return
        self.closed.set_result(reason)
        if self._transport is not None:
            self._transport.abort()
        if not self._handshake.done():
            self._handshake.set_exception(ConnectionError(reason))
            self._handshake.exception()
        for queue in (self._pending, *self._specials.values()):
            while queue:
                _end(queue.popleft(), Dropped(reason))
        self._buffer.clear()

    # --- receiving: called by the event loop ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A TCP transport both reads and writes; uvloop's does too, without being derived from Transport.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        said: str | None = None
        if isinstance(exc, ssl.SSLError):
            self.is_tls_refused, said = shows_refusal(exc), tls_failure(exc)
        self.drop(said or self._unanswered(f"connection lost: {exc}" if exc else "connection closed"))

    def eof_received(self) -> None:
        self.drop(self._unanswered("connection closed by the server"))

    def _unanswered(self, reason: str) -> str:
        """Return the reason for the end of the connection, with what may be behind it before the first answer."""
        if self._handshake.done() or self._buffer or self._transport is None:
            return reason
        has_tls = self._transport.get_extra_info("ssl_object") is not None
        return f"{reason}: {ENDED_AFTER_HANDSHAKE if has_tls else MAYBE_TLS_PORT}"

    def data_received(self, data: bytes) -> None:
        if self.closed.done():
            return
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
        self._buffer += data
        if not self._handshake.done() and self._buffer.startswith(ALERT):
            self.drop(IS_TLS_PORT)
            return
        if len(self._buffer) < self._wanted:
            return
        try:
            self._take_frames()
        except _UNPARSABLE as error:
            self.drop(_unparsable("answer", error))

    def _take_frames(self) -> None:
        """Handle all complete frames in the buffer."""
        at = 0
        buffer = self._buffer
        self._wanted = 4
        while len(buffer) - at >= 4 and not self.closed.done():
            (size,) = _LENGTH.unpack_from(buffer, at)
            if not 0 <= size <= _ABSURD_BYTES:
                raise ValueError(_no_frame(size))
            if size > self._max_reply_bytes:
                if len(buffer) - at < 4 + wire.HEADER.size:
                    self._wanted = 4 + wire.HEADER.size
                    break
                self._skip(size, bytes(buffer[at + 4 : at + 4 + wire.HEADER.size]))
                held = min(size, len(buffer) - at - 4)
                self._to_skip = size - held
                at += 4 + held
                continue
            if len(buffer) - at - 4 < size:
                self._wanted = 4 + size
                break
            frame = bytes(memoryview(buffer)[at + 4 : at + 4 + size])
            at += 4 + size
            self._take_frame(frame)
        del buffer[:at]

    def _take_frame(self, frame: bytes) -> None:
        self.last_received_at = self._loop.time()
        if not self._handshake.done():
            self._handshake.set_result(frame)
            return
        xid, zxid, code = wire.HEADER.unpack_from(frame)
        body = frame[wire.HEADER.size :]
        if xid == wire.WATCH_XID:
            self._on_event(body)
            return
        pending = self._answered(xid)
        # The request has left the queue, so it must end here even if the parser raises.
        try:
            value = None if code else pending.parse(body, zxid)
        except _UNPARSABLE as error:
            _end(pending, Dropped(_unparsable("answer", error)))
            raise
        answer = Answer(zxid, wire.error_of(code) if code else None, value, code)
        if pending.on_answer is not None:
            pending.on_answer(answer)
        _end(pending, answer)

    def _skip(self, size: int, header: bytes) -> None:
        self.last_received_at = self._loop.time()
        if not self._handshake.done():
            raise ValueError(f"an answer of {counted(size, 'byte')} to the connect request")
        xid, _, _ = wire.HEADER.unpack(header)
        _end(self._answered(xid), Skipped(size))

    def _answered(self, xid: int) -> _Pending:
        """Return the pending request that an answer with this xid belongs to."""
        queue = self._specials.get(xid, self._pending)
        if not queue or queue[0].xid != xid:
            expected = queue[0].xid if queue else "none"
            raise ValueError(f"an answer to request {xid} where {expected} is expected")
        pending = queue.popleft()
        self.confirmed_at = max(self.confirmed_at, pending.sent_at)
        return pending


def _no_frame(size: int) -> str:
    text = text_of_size(size) if size >= 0 else None
    what = f"a frame of {counted(size, 'byte')}" if text is None else f"the text {text!r} is no frame"
    return f"{what}: the server does not speak ZooKeeper's protocol"


def _unparsable(what: str, error: Exception) -> str:
    return f"unparsable {what}: {'it ends too early' if isinstance(error, struct.error) else error}"


def _end(pending: _Pending, completion: Completion) -> None:
    if not pending.completion.done():
        pending.completion.set_result(completion)


async def connect(
    host: str,
    port: int,
    on_event: Callable[[bytes], None],
    *,
    max_reply_bytes: int,
    timeout_s: float,
    make_tls_context: Callable[[], ssl.SSLContext] | None = None,
) -> Connection:
    """Open a TCP connection, with TLS if there is a context for it, and without ZooKeeper's handshake.

    Raises OSError, of which TimeoutError and ssl.SSLError are subclasses; and what `make_tls_context` raises.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        # Files may have changed and are then read again, which can take long.
        context = None if make_tls_context is None else await asyncio.to_thread(make_tls_context)
        name = None if context is None else host
        _, connection = await loop.create_connection(
            lambda: Connection(on_event, max_reply_bytes), host, port, ssl=context, server_hostname=name
        )
    return connection
