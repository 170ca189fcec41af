"""ZooKeeper at the other end of slow, breakable connections: the model as the server, and a session seen by its client.

Theory of operation. A session has one connection, first in first out in both directions; a watch that a write sets off
is on its way before the answer to that write. When the connection breaks, the server has received some prefix of what
was under way; of the rest it never hears. Writes then end as unknown, reads are asked again after the reconnect, and
watches are set again as a client does it. A session that has expired at the server answers nothing any more: its owner
goes on believing until it is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Create,
    GetData,
    MultiDone,
    MultiOutcome,
    MultiUnknown,
    Operation,
    Read,
    ReadOutcome,
    WatchFired,
)
from tests.fakes.zookeeper_model import ZooKeeperModel
from tests.simulation import describe
from tests.simulation.mix import Mix
from tests.simulation.settings import Knowledge
from tests.simulation.world import Pipe, World

NOBODY = -1
"""Epoch version of a writer that is no controller."""


class Writer(NamedTuple):
    """Who writes, and for a controller the version of `/controller_epoch` that its term stands on."""

    name: str
    epoch_version: int = NOBODY
    knowledge: Knowledge | None = None
    """What a controller knew of the configuration when it decided to write."""

    @property
    def is_controller(self) -> bool:
        return self.epoch_version != NOBODY


ANYBODY = Writer("anybody")


class Observer(Protocol):
    """Sees every write that took effect."""

    def applied(self, writer: Writer, operations: Sequence[Operation], epoch_version_before: int) -> None: ...


Reads = tuple[Read, ...]
ThenRead = Callable[[tuple[ReadOutcome, ...]], None]
ThenWritten = Callable[[MultiOutcome], None]


@dataclass(slots=True, eq=False)
class _Request:
    """Under way, or waiting for a connection."""

    reads: Reads = ()
    operations: tuple[Operation, ...] = ()
    writer: Writer = ANYBODY
    then_read: ThenRead | None = None
    then_written: ThenWritten | None = None
    reached: bool = False


class Ensemble:
    """The server, with the operator's own session, which knows no delay."""

    def __init__(self, world: World, mix: Mix) -> None:
        self.world = world
        self.mix = mix
        self.model = ZooKeeperModel(lambda: world.now_ms)
        self.observer: Observer | None = None
        self.clients: dict[int, Client] = {}
        self._operator = self.model.open_session()
        for root in paths.PERSISTENT_ROOTS:
            for path in (*paths.ancestors_of(root), root):
                self.model.multi(self._operator, [Create(path, None)])

    def connect(self, name: str, on_watch: Callable[[WatchFired], None], on_lost: Callable[[str], None]) -> Client:
        """A new session, at once."""
        client = Client(self, name, self.model.open_session(), on_watch, on_lost)
        self.clients[client.session] = client
        return client

    def operate(self, *operations: Operation) -> bool:
        """A write by an operator; False where it failed."""
        outcome = self.apply(self._operator, Writer("operator"), operations)
        return isinstance(outcome, MultiDone)

    def apply(self, session: int, writer: Writer, operations: Sequence[Operation]) -> MultiOutcome:
        """Apply a write and let the observer and the watchers know."""
        before = self.epoch_version
        outcome = self.model.multi(session, operations)
        self.world.note(writer.name, lambda: f"writes {describe.write(operations, outcome)}")
        if isinstance(outcome, MultiDone) and self.observer is not None:
            self.observer.applied(writer, operations, before)
        self.dispatch()
        return outcome

    def look(self, path: str) -> ReadOutcome:
        """What a read of the data would answer now."""
        return self.model.read(self._operator, GetData(path))

    def expire(self, session: int) -> None:
        """The server gives the session up; whoever owns it learns that later."""
        if self.model.is_alive(session):
            self.world.note("zookeeper", f"expires session {session}")
            self.model.close_session(session)
            self.dispatch()

    def dispatch(self) -> None:
        """Send what has fired on its way."""
        for session, watch in self.model.take_fired():
            client = self.clients.get(session)
            if client is not None:
                client.watch_fired(watch)

    @property
    def epoch_version(self) -> int:
        """Version of `/controller_epoch` as it is; NOBODY where there is none."""
        node = self.model.node(paths.CONTROLLER_EPOCH)
        return NOBODY if node is None else node.version


class Client:
    """One session, seen from its owner."""

    def __init__(
        self,
        ensemble: Ensemble,
        name: str,
        session: int,
        on_watch: Callable[[WatchFired], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self.session = session
        self.connected = True
        self.over = False
        """Its owner has given it up, or knows that it is lost."""
        self._ensemble = ensemble
        self._world = ensemble.world
        self._name = name
        self._on_watch = on_watch
        self._on_lost = on_lost
        self._up = Pipe(ensemble.world, ensemble.mix.zookeeper_ms)
        self._down = Pipe(ensemble.world, ensemble.mix.zookeeper_ms)
        self._connection = 0
        self._under_way: deque[_Request] = deque()
        self._waiting: deque[_Request] = deque()
        self._watches: deque[WatchFired] = deque()
        self._to_set_again: tuple[int, list[str], list[str], tuple[str, ...]] = (0, [], [], ())

    # --- asking ----------------------------------------------------------------------------------------------------

    def read(self, reads: Reads, then: ThenRead) -> None:
        """Ask; the answer comes unless the session is lost."""
        self._send(_Request(reads=reads, then_read=then))

    def multi(self, operations: tuple[Operation, ...], writer: Writer, then: ThenWritten) -> None:
        """Write; the outcome comes unless the session is lost."""
        self._send(_Request(operations=operations, writer=writer, then_written=then))

    @property
    def is_idle(self) -> bool:
        """Alive at the server, connected, and nothing is on its way to the owner or from it."""
        waiting = self._under_way or self._waiting or self._watches
        return self.connected and not waiting and self._ensemble.model.is_alive(self.session)

    def _send(self, request: _Request) -> None:
        if self.over:
            return
        if not self.connected:
            self._waiting.append(request)
            return
        self._under_way.append(request)
        connection = self._connection
        self._up.send(lambda: self._arrive(request, connection))

    def _arrive(self, request: _Request, connection: int) -> None:
        if connection != self._connection or not self._ensemble.model.is_alive(self.session):
            return
        world, mix = self._world, self._ensemble.mix
        if request.operations and not self.over and world.chance(mix.p_reply_of_write_lost):
            # The connection breaks just before or just after the server has seen the write.
            self.disconnect(world.between(10, mix.session_timeout_ms // 2))
            return
        answer = self._serve(request)
        self._down.send(lambda: self._answered(request, answer, connection))

    def _serve(self, request: _Request) -> Callable[[], None]:
        request.reached = True
        if request.operations:
            outcome = self._ensemble.apply(self.session, request.writer, request.operations)
            then_written = request.then_written
            return lambda: None if then_written is None else then_written(outcome)
        outcomes = tuple(self._ensemble.model.read(self.session, read) for read in request.reads)
        then_read = request.then_read
        return lambda: None if then_read is None else then_read(outcomes)

    def _answered(self, request: _Request, answer: Callable[[], None], connection: int) -> None:
        if connection == self._connection and not self.over:
            self._under_way.remove(request)
            answer()

    # --- watches ---------------------------------------------------------------------------------------------------

    def watch_fired(self, watch: WatchFired) -> None:
        """The server sends it; while the connection is broken it waits."""
        self._watches.append(watch)
        if self.connected:
            connection = self._connection
            self._down.send(lambda: self._deliver(connection))

    def _deliver(self, connection: int) -> None:
        if connection == self._connection and not self.over:
            self._on_watch(self._watches.popleft())

    # --- trouble ---------------------------------------------------------------------------------------------------

    def disconnect(self, for_ms: int) -> None:
        """Break the connection and make it again after a while; too long a while, and the session has expired."""
        if self.over or not self.connected:
            return
        self._world.note(self._name, f"loses its connection to ZooKeeper for {for_ms} ms")
        self._break()
        timeout_ms = self._ensemble.mix.session_timeout_ms
        if for_ms > timeout_ms:
            self._world.after(timeout_ms, lambda: self._ensemble.expire(self.session))
        self._world.after(for_ms, self._reconnect)

    def lose(self, believing_ms: int) -> None:
        """The session expires at the server now; the owner is told after a while."""
        if self.over:
            return
        self._ensemble.expire(self.session)
        self._world.after(believing_ms, lambda: self._tell_lost("it has expired"))

    def abandon(self, expires_after_ms: int) -> None:
        """The owner has died: some prefix of what was under way arrives, and the session expires later."""
        if self.connected:
            self._receive_prefix()
        self._connection += 1
        self.over = True
        self._world.after(expires_after_ms, lambda: self._forget())

    def close(self) -> None:
        """The owner closes the session: the server hears of it after everything that was sent before."""
        self.over = True
        if self.connected:
            self._up.send(self._forget)
        else:
            self._world.after(self._ensemble.mix.session_timeout_ms, self._forget)

    def _forget(self) -> None:
        self._ensemble.expire(self.session)
        self._ensemble.clients.pop(self.session, None)

    def _receive_prefix(self) -> None:
        """What was under way reaches the server up to some point, and nothing after it."""
        for request in list(self._under_way):
            if request.reached:
                continue
            if self._world.chance(0.5) or not self._ensemble.model.is_alive(self.session):
                return
            self._serve(request)

    def _break(self) -> None:
        self._receive_prefix()
        self._connection += 1
        self.connected = False
        model = self._ensemble.model
        if model.is_alive(self.session):
            armed = model.armed(self.session)
            present = [path for path in armed.data if model.node(path) is not None]
            missing = [path for path in armed.data if model.node(path) is None]
            self._to_set_again = (model.zxid, present, missing, armed.children)
            model.forget_watches(self.session)
        broken, self._under_way = self._under_way, deque()
        again: deque[_Request] = deque()
        for request in broken:
            if request.then_written is not None:
                self._world.after(1, _unknown(self, request.then_written))
            else:
                request.reached = False
                again.append(request)
        self._waiting = again + self._waiting

    def _reconnect(self) -> None:
        if self.over:
            return
        if not self._ensemble.model.is_alive(self.session):
            self._tell_lost("it had expired when the connection was made again")
            return
        self.connected = True
        missed, self._watches = self._watches, deque()
        for watch in missed:
            self.watch_fired(watch)
        self._ensemble.model.set_watches(self.session, *self._to_set_again)
        self._ensemble.dispatch()
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            self._send(request)

    def _tell_lost(self, why: str) -> None:
        if not self.over:
            self.over = True
            self._connection += 1
            self._ensemble.clients.pop(self.session, None)
            self._on_lost(why)


def _unknown(client: Client, then: ThenWritten) -> Callable[[], None]:
    def tell() -> None:
        if not client.over:
            then(MultiUnknown("the connection broke before the answer"))

    return tell
