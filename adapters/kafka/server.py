"""Server for Kafka's protocol: accepts connections, passes requests to a handler, sends the responses in order.

Theory of operation. One task per connection, all in one TaskGroup inside `serve`: read a complete request, await the
handler, write the response, repeat. A second request on the same connection waits in the socket, so TCP slows down a
peer that floods, and no queue grows without limit. A request must be complete some time after its first byte, and all
unfinished ones have a common limit (`adapters.kafka.limits`). A peer's fault ends only its own connection, with one
line in the log.

The owner provides a table of the APIs and versions that are served; ApiVersions is answered from it. With a forwarding
proxy, the other APIs are forwarded to a broker.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from lethe.adapters.kafka.binding import BACKLOG, listen_at_once, why_not_bound
from lethe.adapters.kafka.forwarded_client import ForwardedClient
from lethe.adapters.kafka.forwarding_proxy import CHUNK_BYTES as FORWARDED_BYTES
from lethe.adapters.kafka.forwarding_proxy import ForwardingProxy, NoBrokerAvailable
from lethe.adapters.kafka.limits import CHUNK_BYTES, ServerLimits, ServerLoad
from lethe.protocol.counting import counted
from lethe.protocol.kafka.codec import Decoded, RequestHeader
from lethe.protocol.kafka.connection import Buffers, ServerConnection
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.forwarding import OwnApis
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.kafka.queries import ApiVersionsRequest, Request, Response
from lethe.protocol.kafka.versions import SPOKEN, VersionRange

_LOG: Final = logging.getLogger(__name__)


class Peer(NamedTuple):
    """The other end of a connection."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Close(NamedTuple):
    """Returned by a handler instead of a response: close the connection. The reason goes to the log."""

    reason: str


Handler = Callable[[RequestHeader, Request, Peer], Awaitable[Response | Close]]
"""Answer one request. If it raises, the connection is closed and the error logged with its traceback."""


class ListenFailed(Exception):
    """The server cannot listen on the address."""


class _Connection:
    """State of one connection."""

    __slots__ = ("begun_s", "busy", "closing", "listener", "lost_because", "peer", "reader", "task", "writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: Peer, listener: str) -> None:
        self.listener = listener
        self.lost_because: str | None = None
        """The server's reason for ending it, if the peer did not cause the end."""
        self.reader = reader
        self.writer = writer
        self.peer = peer
        self.busy = False
        """A request is with the handler, or its response is being written."""
        self.closing = False
        self.begun_s: float | None = None
        """When the first byte of an incomplete request arrived, on the event loop's clock."""
        self.task: asyncio.Task[None] | None = None

    def abort(self) -> None:
        self.closing = True
        self.writer.transport.abort()

    def lose(self, reason: str) -> None:
        """End it for a reason of the server."""
        self.lost_because = reason
        self.abort()


class _PeerClosed(Exception):
    """The peer has closed its end."""


class _Unfinished(Exception):
    """A request was not complete in time."""


class KafkaServer:
    """One or several listening addresses with one handler.

    `listen` binds and reports errors, `serve` accepts until `stop`:

        server = KafkaServer(handler, served)
        await server.listen("127.0.0.1", 0)
        group.create_task(server.serve(), name="kafka-server")
    """

    def __init__(
        self,
        handler: Handler,
        served: Mapping[ApiKey, VersionRange] = SPOKEN,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - frozen
        name: str = "kafka",
        note_request: Callable[[ApiKey, int], None] = lambda _api, _bytes: None,
        proxy: ForwardingProxy | None = None,
        claims: OwnApis = OwnApis(),  # noqa: B008 - frozen
        load: ServerLoad | None = None,
    ) -> None:
        """`note_request` receives the API and the size of every request for the handler. Servers that share a `load`
        share the limits on connections and unfinished requests."""
        self._handler = handler
        self._served = dict(served)
        self._limits = limits
        self.load = ServerLoad(limits) if load is None else load
        """Open connections and unfinished requests, shared or its own."""
        self._name = name
        self._note_request = note_request
        self._proxy = proxy
        self._claims = claims
        self._listeners: list[asyncio.Server] = []
        self._connections: dict[_Connection, None] = {}
        self._group: asyncio.TaskGroup | None = None
        self._stopping = asyncio.Event()
        self._started = asyncio.Event()
        self._chunk_bytes = CHUNK_BYTES if proxy is None else FORWARDED_BYTES
        self._grace_ms = 0
        self._refusing = False

    # --- addresses ------------------------------------------------------------------------------------------------

    async def listen(self, host: str | None, port: int, listener: str = "") -> Peer:
        """Bind an address and return it; None is every interface, port 0 a free port. Raises ListenFailed.

        A forwarding proxy connects clients of this `listener` to the brokers' listeners of the same name. The kernel
        accepts connections from now on; `serve` serves them.
        """
        try:
            accept = functools.partial(self._accept, listener)
            server = await asyncio.start_server(
                accept, host, port, limit=self._chunk_bytes, start_serving=False, backlog=BACKLOG
            )
            listen_at_once(server)
        except (OSError, OverflowError) as error:
            raise ListenFailed(why_not_bound(host, port, error)) from error
        self._listeners.append(server)
        return _peer_of(server.sockets[0].getsockname())

    @property
    def addresses(self) -> tuple[Peer, ...]:
        """Every bound address."""
        return tuple(_peer_of(s.getsockname()) for listener in self._listeners for s in listener.sockets)

    # --- life -----------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Accept and answer until `stop` is called or this is cancelled; no connection outlives it."""
        if self._stopping.is_set():
            return
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for listener in self._listeners:
                    await listener.start_serving()
                self._started.set()
                await self._stopping.wait()
            finally:
                self._stopping.set()
                self._close_listeners()
            await self._wind_down()

    async def started(self) -> None:
        """Wait until connections are being served."""
        await self._started.wait()

    def stop(self, grace_ms: int = 5_000) -> None:
        """Make `serve` end: idle connections close now, busy ones after their response or after `grace_ms`."""
        self._grace_ms = grace_ms
        self._stopping.set()
        if self._group is None:
            self._close_listeners()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

    async def _wind_down(self) -> None:
        for connection in list(self._connections):
            connection.closing = True
            if not connection.busy:
                connection.abort()
        tasks = [c.task for c in self._connections if c.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._grace_ms / 1000)
            for task in late:
                task.cancel()

    # --- connections ----------------------------------------------------------------------------------------------

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    def close_connections(self, reason: str) -> int:
        """Close every connection, busy ones after their response; return their number.

        New connections are still accepted. A controller that has lost control calls this, so that its peers look for
        the new one.
        """
        closed = list(self._connections)
        for connection in closed:
            connection.closing = True
            if not connection.busy:
                connection.abort()
        if closed:
            _LOG.info("%s: closed %s: %s", self._name, counted(len(closed), "connection"), reason)
        return len(closed)

    def _accept(self, listener: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = _peer_of(writer.get_extra_info("peername"))
        if self._stopping.is_set() or self._group is None:
            writer.transport.abort()
            return
        if self.load.connections >= self._limits.max_connections:
            if not self._refusing:
                _LOG.warning(
                    "%s: refused %s: there are %s already, raise max.connections if that is too few",
                    *(self._name, peer, counted(self.load.connections, "connection")),
                )
            self._refusing = True
            writer.transport.abort()
            return
        self._refusing = False
        connection = _Connection(reader, writer, peer, listener)
        self._connections[connection] = None
        self.load.connections += 1
        connection.task = self._group.create_task(self._run(connection), name=f"{self._name}-connection-{peer}")

    async def _run(self, connection: _Connection) -> None:
        peer = connection.peer
        try:
            reason = await self._converse(connection)
            lost = connection.lost_because
            level = logging.DEBUG if lost is None else logging.INFO
            _LOG.log(level, "%s: closed the connection of %s: %s", self._name, peer, lost or reason)
        except NoBrokerAvailable as error:
            _LOG.info("%s: closed the connection of %s, which cannot be forwarded: %s", self._name, peer, error)
        except ProtocolError as error:
            _LOG.warning("%s: closed the connection of %s: %s", self._name, peer, error)
        except _Unfinished as error:
            _LOG.info("%s: closed the connection of %s: %s", self._name, peer, error)
        except TimeoutError:
            limit_ms = self._limits.max_idle_ms
            _LOG.info("%s: closed the connection of %s: it neither sent nor read for %d ms", self._name, peer, limit_ms)
        except OSError as error:
            _LOG.info("%s: lost the connection of %s: %s", self._name, peer, error)
        finally:
            del self._connections[connection]
            self.load.connections -= 1
            self.load.hold(connection, 0)
            connection.closing = True
            connection.writer.close()

    async def _converse(self, connection: _Connection) -> str:
        """Serve one connection to its end; return why it ended."""
        protocol = ServerConnection(
            self._served, self._limits.max_request_bytes, passes_on=self._proxy is not None, claims=self._claims
        )
        forwarded = self._forwarded_client(connection, protocol)
        try:
            return await self._serve(connection, protocol, forwarded)
        except _PeerClosed:
            if connection.closing:
                return "by the server"
            protocol.end_of_stream()
            return "by the peer"
        finally:
            if forwarded is not None:
                forwarded.close()

    def _forwarded_client(self, connection: _Connection, protocol: ServerConnection) -> ForwardedClient | None:
        group = self._group
        if self._proxy is None or group is None:
            return None
        name = f"{self._name}-answers-{connection.peer}"

        async def more() -> None:
            await self._receive(connection, protocol)

        return ForwardedClient(
            self._proxy,
            connection.listener,
            protocol,
            connection.writer,
            more=more,
            lost=connection.lose,
            spawn=lambda work: group.create_task(work, name=name),
            max_idle_ms=self._limits.max_idle_ms,
        )

    async def _receive(self, connection: _Connection, protocol: ServerConnection) -> None:
        """Read once from the peer. Raises _PeerClosed at the end of the stream."""
        async with asyncio.timeout(self._limits.max_idle_ms / 1000):
            data = await connection.reader.read(self._chunk_bytes)
        if not data:
            raise _PeerClosed
        protocol.receive(data)

    async def _collect(self, connection: _Connection, protocol: ServerConnection) -> None:
        """Read more of a request that is buffered until it is complete. Raises _PeerClosed, _Unfinished."""
        now_s, limit_ms = asyncio.get_running_loop().time(), self._limits.max_receive_ms
        if not protocol.pending_bytes:
            connection.begun_s = None
        elif connection.begun_s is None:
            connection.begun_s = now_s
        left_s = None if connection.begun_s is None else max(0.0, connection.begun_s + limit_ms / 1000 - now_s)
        deadline = asyncio.timeout(left_s)
        try:
            async with deadline:
                await self._receive(connection, protocol)
        except TimeoutError:
            if not deadline.expired():
                raise
            arrived = (
                f"{counted(protocol.pending_bytes, 'byte')} of a request arrived within {limit_ms} ms, and not the rest"
            )
            raise _Unfinished(f"{arrived} (lethe.request.receive.timeout.ms)") from None
        self.load.hold(connection, protocol.pending_bytes)

    async def _serve(
        self, connection: _Connection, protocol: ServerConnection, forwarded: ForwardedClient | None
    ) -> str:
        while not connection.closing:
            foreign = protocol.foreign_head()
            if foreign is not None and forwarded is not None:
                await forwarded.forward(foreign)
                continue
            request = protocol.next_request()
            if request is None:
                await self._collect(connection, protocol)
                continue
            connection.begun_s = None
            self.load.hold(connection, protocol.pending_bytes)
            if forwarded is not None:
                await forwarded.settled()
            connection.busy = True
            if isinstance(request, Decoded):
                self._note_request(request.header.api, protocol.request_bytes)
                answer: Buffers | Close
                if forwarded is not None and isinstance(request.value, ApiVersionsRequest):
                    answer = protocol.reply(await forwarded.api_versions())
                else:
                    answer = await self._answer(protocol, request, connection.peer)
                if isinstance(answer, Close):
                    return answer.reason
                await self._write(connection, answer)
            else:
                await self._write(connection, request)
            connection.busy = False
        return "by the server"

    async def _answer(self, protocol: ServerConnection, request: Decoded, peer: Peer) -> Buffers | Close:
        """Return the handler's response as bytes. The handler's own faults are caught, so that no peer is blamed."""
        api, version = request.header.api, request.header.version
        try:
            answer = await self._handler(request.header, request.value, peer)
            return answer if isinstance(answer, Close) else protocol.reply(answer)
        except Exception as error:  # noqa: BLE001 - one request that cannot be handled must not end the others
            _LOG.error("%s: cannot handle %s v%d of %s", self._name, api.name, version, peer, exc_info=error)
            return Close(f"its {api.name} could not be handled")

    async def _write(self, connection: _Connection, buffers: Buffers) -> None:
        if connection.writer.is_closing():
            return
        connection.writer.writelines(buffers)
        async with asyncio.timeout(self._limits.max_idle_ms / 1000):
            await connection.writer.drain()


def _peer_of(address: object) -> Peer:
    match address:
        case (str(host), int(port), *_):
            return Peer(host, port)
        case _:
            # The peer was gone before its address was read.
            return Peer("unknown", 0)
