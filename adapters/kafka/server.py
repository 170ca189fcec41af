"""Server for Kafka's protocol: accepts connections, passes requests to a handler, sends the responses in order.

Theory of operation. One task per connection, all in one TaskGroup inside `serve`: read a complete request, await the
handler, write the response, repeat. A second request on the same connection waits in the socket, so TCP slows down a
peer that floods, and no queue grows without limit. A request must be complete some time after its first byte, and all
unfinished ones have a common limit (`adapters.kafka.limits`). A peer's fault ends only its own connection, with one
line in the log.

The owner provides a table of the APIs and versions that are served; ApiVersions is answered from it. With a forwarding
proxy, the other APIs are forwarded to a broker.

A listener may require TLS and SASL (`adapters.kafka.admission`). A connection counts from the moment it is accepted.
Where there are too many, the one that has been at its handshake or login for longest makes room for the new one; if
there is none, the new one is refused. So clients that never finish a login keep nobody out.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import Final, TypeVar

from lethe.adapters.kafka.admission import OPEN, Admission
from lethe.adapters.kafka.binding import BACKLOG, listen_at_once, why_not_bound
from lethe.adapters.kafka.connection_state import Connection, NotAdmitted, NotForwarded, Unfinished
from lethe.adapters.kafka.forwarding_proxy import CHUNK_BYTES as FORWARDED_BYTES
from lethe.adapters.kafka.forwarding_proxy import ForwardingProxy, NoBrokerAvailable
from lethe.adapters.kafka.limits import CHUNK_BYTES, ServerLimits, ServerLoad
from lethe.adapters.kafka.peers import Close, Handler
from lethe.adapters.kafka.served_connection import Conversation, MayForward, Service
from lethe.adapters.kafka.tls_door import HandshakeFailed, TlsDoor, shake_hands
from lethe.adapters.peers import Peer, peer_of, peer_of_socket
from lethe.adapters.security.audit import AuditLog
from lethe.protocol.counting import counted
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.forwarding import OwnApis
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.kafka.versions import SPOKEN, VersionRange

__all__ = ["Close", "Handler", "KafkaServer", "ListenFailed", "Peer"]

_LOG: Final = logging.getLogger(__name__)
T = TypeVar("T")


class ListenFailed(Exception):
    """The server cannot listen on the address."""


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
        refuse_forwarding: MayForward = lambda _peer, _listener: None,
    ) -> None:
        """`note_request` receives the API and the size of each request for the handler, and of ApiVersions where there
        is a proxy. Servers that share a `load` share the limits on connections and unfinished requests."""
        self.load = ServerLoad(limits) if load is None else load
        """Open connections and unfinished requests, shared or its own."""
        self.refused: Final = AuditLog(_LOG)
        """Connections that were refused: their handshakes, logins, and what is not forwarded."""
        self._service = Service(
            name,
            handler,
            dict(served),
            limits,
            self.load,
            note_request,
            proxy,
            claims,
            refuse_forwarding,
            CHUNK_BYTES if proxy is None else FORWARDED_BYTES,
        )
        self._limits = limits
        self._name = name
        self._listeners: list[asyncio.Server] = []
        self._doors: dict[asyncio.Server, TlsDoor] = {}
        self._connections: dict[Connection, None] = {}
        self._conversations: dict[asyncio.Task[None], Conversation] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        """One for each connection that was accepted."""
        self._logging_in: dict[asyncio.Task[None], Peer] = {}
        """Those whose handshake or login is not finished; the oldest first."""
        self._group: asyncio.TaskGroup | None = None
        self._stopping = asyncio.Event()
        self._started = asyncio.Event()
        self._grace_ms = 0
        self._refusing = False

    # --- addresses ------------------------------------------------------------------------------------------------

    async def listen(self, host: str | None, port: int, listener: str = "", admission: Admission = OPEN) -> Peer:
        """Bind an address and return it; None is every interface, port 0 a free port. Raises ListenFailed.

        A forwarding proxy connects clients of this `listener` to the brokers' listeners of the same name. The kernel
        accepts connections from now on; `serve` serves them.
        """
        try:
            accept = functools.partial(self._accept, listener, admission)
            server = await asyncio.start_server(
                accept, host, port, limit=self._service.chunk_bytes, start_serving=False, backlog=BACKLOG
            )
            listen_at_once(server)
        except (OSError, OverflowError) as error:
            raise ListenFailed(why_not_bound(host, port, error)) from error
        self._listeners.append(server)
        if admission.tls is not None:
            self._doors[server] = TlsDoor(server, functools.partial(self._accept_socket, listener, admission))
        return peer_of(server.sockets[0].getsockname())

    @property
    def addresses(self) -> tuple[Peer, ...]:
        """Every bound address."""
        return tuple(peer_of(s.getsockname()) for listener in self._listeners for s in listener.sockets)

    # --- life -----------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Accept and answer until `stop` is called or this is cancelled; no connection outlives it."""
        if self._stopping.is_set():
            return
        async with asyncio.TaskGroup() as group:
            self._group = group
            doors = []
            try:
                for listener in self._listeners:
                    door = self._doors.get(listener)
                    if door is None:
                        await listener.start_serving()
                    else:
                        doors.append(group.create_task(door.run(), name=f"{self._name}-tls-door"))
                self._started.set()
                await self._stopping.wait()
            finally:
                self._stopping.set()
                for accepting in doors:
                    accepting.cancel()
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
        for door in self._doors.values():
            door.close()

    async def _wind_down(self) -> None:
        for connection in list(self._connections):
            connection.closing = True
            if not connection.busy:
                connection.abort()
        for task in [*self._logging_in]:
            task.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._grace_ms / 1000)
            for task in late:
                task.cancel()

    # --- connections ----------------------------------------------------------------------------------------------

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return len(self._tasks)

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

    async def unless_left(self, answer: asyncio.Future[T]) -> T:
        """Return the answer to the request that the current task handles, which may take long. Its handler ends with an
        exception, and the connection with it, once the client has closed or reset it."""
        task = asyncio.current_task()
        assert task is not None
        return await self._conversations[task].unless_left(answer)

    def request_bytes(self) -> int:
        """Return how large the request was on the wire that the current task handles."""
        task = asyncio.current_task()
        assert task is not None
        return self._conversations[task].request_bytes

    def _accept(
        self, listener: str, admission: Admission, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a connection that needs no handshake."""
        peer = peer_of(writer.get_extra_info("peername"))
        if not self._has_room(peer):
            writer.transport.abort()
            return
        connection = Connection(reader, writer, peer, listener, admission)
        self._begin(peer, self._run(connection, self._login_ends_s(admission)), admission.sasl is not None)

    def _accept_socket(self, listener: str, admission: Admission, accepted: socket.socket) -> None:
        peer = peer_of_socket(accepted)
        if not self._has_room(peer):
            accepted.close()
            return
        self._begin(peer, self._shake_hands(listener, admission, accepted, peer), True)

    def _has_room(self, peer: Peer) -> bool:
        """Whether a further connection is served; the oldest one that has not logged in may have to go for it."""
        if self._stopping.is_set() or self._group is None:
            return False
        if self.load.connections >= self._limits.max_connections and not self._close_oldest_login():
            if not self._refusing:
                _LOG.warning(
                    "%s: refused %s: there are %s already, raise max.connections if that is too few",
                    *(self._name, peer, counted(self.load.connections, "connection")),
                )
            self._refusing = True
            return False
        self._refusing = False
        return True

    def _close_oldest_login(self) -> bool:
        task = next(iter(self._logging_in), None)
        if task is None:
            return False
        peer = self._logging_in.pop(task)
        task.cancel()
        self.refused.note(
            ("full", peer.host),
            f"{self._name}: closed the connection of {peer}, which has not logged in, for another one: there are "
            f"{counted(self._limits.max_connections, 'connection')}; raise max.connections if that is too few",
        )
        return True

    def _begin(self, peer: Peer, work: Coroutine[None, None, None], logs_in: bool) -> None:
        assert self._group is not None
        self.load.connections += 1
        task = self._group.create_task(work, name=f"{self._name}-connection-{peer}")
        self._tasks.add(task)
        if logs_in:
            self._logging_in[task] = peer
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self.load.connections -= 1
        self._tasks.discard(task)
        self._conversations.pop(task, None)
        self._logging_in.pop(task, None)

    def _login_ends_s(self, admission: Admission) -> float:
        return asyncio.get_running_loop().time() + admission.max_login_ms / 1000

    async def _shake_hands(self, listener: str, admission: Admission, accepted: socket.socket, peer: Peer) -> None:
        login_ends_s = self._login_ends_s(admission)
        try:
            opened = await shake_hands(accepted, admission, peer, self._service.chunk_bytes)
        except HandshakeFailed as error:
            admission.refused.note(error.reason)
            self.refused.note(("tls", listener, peer.host), f"{self._name}: refused {error}")
            return
        except Exception as error:  # noqa: BLE001 - see `_not_served`
            self._not_served(peer, error)
            return
        if admission.sasl is None:
            self._admitted()
        await self._run(Connection(opened.reader, opened.writer, opened.peer, listener, admission), login_ends_s)

    def _admitted(self) -> None:
        """Note that the connection of this task need not make room for others."""
        task = asyncio.current_task()
        if task is not None:
            self._logging_in.pop(task, None)

    async def _run(self, connection: Connection, login_ends_s: float) -> None:
        assert self._group is not None
        peer = connection.peer
        self._connections[connection] = None
        conversation = Conversation(
            self._service, connection, self._group, login_ends_s=login_ends_s, admitted=self._admitted
        )
        if (task := asyncio.current_task()) is not None:
            self._conversations[task] = conversation
        try:
            reason = await conversation.run()
            lost = connection.lost_because
            level = logging.DEBUG if lost is None else logging.INFO
            _LOG.log(level, "%s: closed the connection of %s: %s", self._name, peer, lost or reason)
        except NoBrokerAvailable as error:
            _LOG.info("%s: closed the connection of %s, which cannot be forwarded: %s", self._name, peer, error)
        except NotForwarded as error:
            self.refused.note(
                ("forwarding", connection.listener, connection.peer.principal),
                f"{self._name}: closed the connection of {peer}: {error}",
            )
        except NotAdmitted as error:
            connection.admission.refused.note(error.reason)
            self.refused.note(
                (error.reason, connection.listener, peer.host),
                f"{self._name}: closed the connection of {peer}: {error}",
            )
        except ProtocolError as error:
            _LOG.warning("%s: closed the connection of %s: %s", self._name, peer, error)
        except Unfinished as error:
            _LOG.info("%s: closed the connection of %s: %s", self._name, peer, error)
        except TimeoutError:
            limit_ms = self._limits.max_idle_ms
            _LOG.info("%s: closed the connection of %s: it neither sent nor read for %d ms", self._name, peer, limit_ms)
        except OSError as error:
            _LOG.info("%s: lost the connection of %s: %s", self._name, peer, error)
        except Exception as error:  # noqa: BLE001 - see `_not_served`
            self._not_served(peer, error)
        finally:
            del self._connections[connection]
            self.load.hold(connection, 0)
            connection.closing = True
            connection.writer.close()

    def _not_served(self, peer: Peer, error: Exception) -> None:
        """Log a fault of this process: one connection that cannot be served must not end the others."""
        _LOG.error("%s: closed the connection of %s, which could not be served", self._name, peer, exc_info=error)
