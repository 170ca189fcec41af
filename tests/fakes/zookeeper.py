"""An asyncio ZooKeeper on top of the model, with the interface of the real session and faults on demand.

    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(on_watch) as session: ...

Watches are delivered before the answer of the request that made them go off, to whichever sessions hold them. A session
that is disconnected neither hears nor is heard until it is reconnected or expired.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from lethe.adapters.zookeeper.bulk import FEWEST_TOGETHER
from lethe.adapters.zookeeper.interface import OnWatch, SessionLost, WriteRefused, ZooKeeperUnavailable
from lethe.protocol.zookeeper.operations import (
    Create,
    Data,
    GetData,
    MultiDone,
    MultiFailed,
    MultiOutcome,
    MultiUnknown,
    Operation,
    Read,
    ReadOutcome,
    ZkError,
)
from lethe.protocol.zookeeper.packing import GroupOutcome, MultiPlan
from lethe.protocol.zookeeper.paths import ancestors_of
from tests.fakes.zookeeper_model import ZooKeeperModel

TIMEOUT_MS = 18_000


class FakeZooKeeper:
    """One ensemble, shared by the sessions opened on it."""

    def __init__(self, model: ZooKeeperModel | None = None) -> None:
        self.model = model or ZooKeeperModel()
        self.sessions: dict[int, FakeSession] = {}
        self.unavailable: str | None = None
        """While set, no session can be opened, for this reason."""

    @asynccontextmanager
    async def open_session(self, on_watch: OnWatch) -> AsyncIterator[FakeSession]:
        """A new session, closed at the end."""
        if self.unavailable is not None:
            raise ZooKeeperUnavailable(f"no ZooKeeper answered: {self.unavailable}")
        session = FakeSession(self, on_watch)
        self.sessions[session.session_id] = session
        try:
            yield session
        finally:
            await session.close()

    def expire(self, session_id: int) -> None:
        """ZooKeeper gives the session up."""
        self.sessions[session_id].end("expired by ZooKeeper")

    def deliver(self) -> None:
        """Hands what has fired to the sessions concerned."""
        for fired in self.model.take_fired():
            holder = self.sessions.get(fired.session)
            if holder is not None and holder.connected:
                holder.on_watch(fired.watch)


class _Watching(NamedTuple):
    """What a session watched when its connection broke, after that zxid."""

    zxid: int
    present: tuple[str, ...]
    missing: tuple[str, ...]
    children: tuple[str, ...]


class FakeSession:
    """See adapters.zookeeper.interface.ZooKeeperSession; below that, the faults that a test can ask for."""

    def __init__(self, zookeeper: FakeZooKeeper, on_watch: OnWatch) -> None:
        self._zookeeper = zookeeper
        self._model = zookeeper.model
        self._lost = asyncio.Event()
        self._lost_reason: str | None = None
        self.connections = 1
        self._online = asyncio.Event()
        self._online.set()
        self._at_disconnect = _Watching(0, (), (), ())
        self._replies_to_lose: deque[bool] = deque()
        self.on_watch = on_watch
        self.before_watches: Callable[[], Awaitable[None]] | None = None
        """What happens after znodes were read together, and before their watches are armed."""
        self._session_id = self._model.open_session()
        self.out_of_touch = False
        """As after a pause of the process that was longer than the session's timeout."""

    # --- faults ---------------------------------------------------------------------------------------------------

    def lose_next_reply(self, *, applied: bool) -> None:
        """The next multi ends as MultiUnknown, applied or not."""
        self._replies_to_lose.append(applied)

    def disconnect(self) -> None:
        """The connection breaks; the session lives. Requests wait."""
        armed = self._model.armed(self._session_id)
        present = tuple(path for path in armed.data if self._model.node(path) is not None)
        missing = tuple(path for path in armed.data if path not in present)
        self._at_disconnect = _Watching(self._model.zxid, present, missing, armed.children)
        self._model.forget_watches(self._session_id)
        self._online.clear()

    def reconnect(self) -> None:
        """The connection is back: watches are set again, and go off for what has changed meanwhile."""
        self.connections += 1
        self._online.set()
        self._model.set_watches(self._session_id, *self._at_disconnect)
        self._zookeeper.deliver()

    def end(self, reason: str) -> None:
        """The session is over, for this reason."""
        if self._lost_reason is None:
            self._lost_reason = reason
            self._lost.set()
            self._online.set()
            self._model.close_session(self._session_id)
            self._zookeeper.sessions.pop(self._session_id, None)
            self._zookeeper.deliver()

    # --- the interface --------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def negotiated_timeout_ms(self) -> int:
        return TIMEOUT_MS

    @property
    def lost(self) -> asyncio.Event:
        return self._lost

    @property
    def lost_reason(self) -> str | None:
        return self._lost_reason

    @property
    def connected(self) -> bool:
        return self._online.is_set() and self._lost_reason is None

    @property
    def in_touch(self) -> bool:
        return self._lost_reason is None and not self.out_of_touch

    @property
    def write_window(self) -> int:
        return 1

    async def read(self, reads: Sequence[Read]) -> list[ReadOutcome]:
        await self._turn()
        if sum(read.watch and isinstance(read, GetData) for read in reads) < FEWEST_TOGETHER:
            return [self._model.read(self._session_id, read) for read in reads]
        outcomes = [
            self._model.read(self._session_id, read._replace(watch=False) if isinstance(read, GetData) else read)
            for read in reads
        ]
        zxid = self._model.zxid
        if self.before_watches is not None:
            await self.before_watches()
            await self._turn()
        found = [
            read.path
            for read, outcome in zip(reads, outcomes, strict=True)
            if read.watch and isinstance(read, GetData) and isinstance(outcome, Data)
        ]
        self._model.set_watches(self._session_id, zxid, found)
        self._zookeeper.deliver()
        return outcomes

    async def multi(self, operations: Sequence[Operation]) -> MultiOutcome:
        await self._turn()
        if self._replies_to_lose:
            if self._replies_to_lose.popleft():
                self._model.multi(self._session_id, operations)
                self._zookeeper.deliver()
            return MultiUnknown("the connection broke before the answer")
        outcome = self._model.multi(self._session_id, operations)
        self._zookeeper.deliver()
        return outcome

    async def multis(self, multis: Sequence[Sequence[Operation]]) -> list[MultiOutcome]:
        outcomes: list[MultiOutcome] = []
        for operations in multis:
            try:
                outcomes.append(await self.multi(operations))
            except SessionLost as lost:
                if not outcomes:
                    raise
                outcomes.append(MultiUnknown(str(lost)))
        return outcomes

    async def write(self, plan: MultiPlan) -> tuple[GroupOutcome, ...]:
        sent = 0
        while planned := plan.next_multi():
            try:
                plan.settle(planned, await self.multi(planned.operations))
            except SessionLost as lost:
                plan.settle(planned, MultiUnknown(str(lost)))
                if not sent:
                    raise
                plan.abandon(str(lost))
            sent += 1
        return plan.outcomes

    async def ensure_path(self, path: str) -> None:
        for each in (*ancestors_of(path), path):
            _demand(await self.multi((Create(each, None),)), each, ZkError.NODE_EXISTS)

    async def close(self) -> None:
        self.end("closed")

    async def _turn(self) -> None:
        await asyncio.sleep(0)
        await self._online.wait()
        if self._lost_reason is not None:
            raise SessionLost(self._lost_reason)


def _demand(outcome: MultiOutcome, path: str, tolerated: ZkError) -> None:
    match outcome:
        case MultiDone():
            return
        case MultiFailed(_, error) if error is tolerated:
            return
        case MultiFailed(_, error):
            raise WriteRefused(path, error)
        case MultiUnknown():
            raise RuntimeError("a test must not lose the replies of recursive helpers")
