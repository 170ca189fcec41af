"""Performs the core's effects, in the order of the core.

`perform` takes the effects of one step and returns without waiting: it queues requests on the brokers' channels, sets
timers, records event records, and starts reads, writes and probes. `result` waits for the oldest of these. They start
first: encoding the requests of the same step may take long.

A result belongs to the session in which it was requested. If that session is lost, `result` returns None, and the
queued `SessionLost` follows. The outcome of a write in the background is posted, unless its session was lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol, assert_never

from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession
from lethe.controller.core.effects import (
    CloseChannel,
    CommitOffsets,
    DisconnectBrokers,
    Effect,
    HoldRequest,
    OpenChannel,
    ProbeBrokers,
    ReadCache,
    ReadOffsets,
    ReadZnodes,
    Record,
    RenewSession,
    Reply,
    Send,
    SetTimer,
    ShowBrokers,
    WriteZnodes,
)
from lethe.controller.core.events import ProbeOutcome, ProbesCompleted, Result, ZnodesRead, ZnodesWritten
from lethe.controller.runtime.timers import Timers
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.vocabulary import Broker, BrokerId
from lethe.protocol.zookeeper.operations import Operation, Read
from lethe.protocol.zookeeper.packing import FenceFailed, GroupDone, GroupFailed, GroupOutcome, GroupUnknown, MultiPlan


class ChannelSet(Protocol):
    """Channels to the brokers."""

    def open(self, effect: OpenChannel) -> None: ...
    def close(self, broker: BrokerId) -> None: ...
    def send(self, effect: Send) -> None: ...
    def close_all(self) -> None: ...


class SessionHolder(Protocol):
    """Holder of the current ZooKeeper session."""

    @property
    def session(self) -> ZooKeeperSession | None: ...
    def renew(self, reason: str) -> None: ...


class RequestAnswers(Protocol):
    """The listener, where brokers and clients wait for answers."""

    def reply(self, effect: Reply) -> None: ...
    def hold(self, effect: HoldRequest) -> None: ...
    def control_lost(self, reason: str) -> None: ...
    def show_brokers(self, brokers: tuple[Broker, ...]) -> None: ...


Probe = Callable[[ProbeBrokers], Awaitable[tuple[ProbeOutcome, ...]]]


class Background(NamedTuple):
    """Where writes in the background run, and where their outcomes and exceptions go."""

    spawn: Callable[[Coroutine[None, None, None]], object]
    post: Callable[[ZnodesWritten], None]
    fault: Callable[[Exception, str], None]


def _no_offsets(effect: ReadOffsets | CommitOffsets) -> None:
    raise LookupError(f"offsets of consumer groups are asked for by effect {effect.id}, and nothing here can")


def _no_cache_reader(effect: ReadCache) -> None:
    raise LookupError(f"the metadata cache of broker {effect.broker} is to be read, and nothing here can")


class Performer:
    """Performs the effects of one loop."""

    def __init__(
        self,
        sessions: SessionHolder,
        channels: ChannelSet,
        timers: Timers,
        record: Callable[[EventRecord], None],
        note_latency: Callable[[str, float, Mapping[str, int]], None],
        subject: str,
        answers: RequestAnswers | None = None,
        read_cache: Callable[[ReadCache], None] = _no_cache_reader,
        probe: Probe | None = None,
        background: Background | None = None,
        group_offsets: Callable[[ReadOffsets | CommitOffsets], None] = _no_offsets,
    ) -> None:
        self._sessions = sessions
        self._channels = channels
        self._timers = timers
        self._record = record
        self._note_latency = note_latency
        self._subject = subject
        self._probe = probe
        self._background = background
        self._answers = answers
        self._read_cache = read_cache
        self._group_offsets = group_offsets
        self._asked: deque[asyncio.Task[Result | None]] = deque()
        self._running: set[asyncio.Task[Result | None]] = set()

    def perform(self, effects: Sequence[Effect]) -> None:
        """Perform all effects without waiting."""
        self._ask(effects)
        for effect in effects:
            match effect:
                case Send():
                    self._channels.send(effect)
                case Reply() | HoldRequest():
                    self._answer(effect)
                case DisconnectBrokers(reason=reason):
                    self._lose_control(reason)
                case ShowBrokers(brokers=brokers):
                    self._show(brokers)
                case Record(record=record):
                    self._record(record)
                case ReadZnodes() | WriteZnodes() | ProbeBrokers():
                    pass
                case OpenChannel():
                    self._channels.open(effect)
                case CloseChannel(broker=broker):
                    self._channels.close(broker)
                case ReadCache():
                    self._read_cache(effect)
                case ReadOffsets() | CommitOffsets():
                    self._group_offsets(effect)
                case SetTimer(timer=timer, at_ms=at_ms):
                    self._timers.set(timer, at_ms)
                case RenewSession(reason=reason):
                    self._sessions.renew(reason)
                case _:
                    assert_never(effect)

    def _ask(self, effects: Sequence[Effect]) -> None:
        """Start the reads, writes and probes."""
        for effect in effects:
            if isinstance(effect, WriteZnodes) and effect.in_background:
                self._write_in_background(effect)
            elif isinstance(effect, ReadZnodes | WriteZnodes | ProbeBrokers):
                outcome = self._outcome(effect, self._sessions.session)
                task = asyncio.create_task(outcome, name=f"{type(effect).__name__} {effect.id}")
                self._asked.append(task)
                # What is forgotten goes on: the event loop alone would not keep its task alive.
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    def _answer(self, effect: Reply | HoldRequest) -> None:
        """Pass the answer on, or that it comes later, unless the session may have expired."""
        if self._answers is None:
            raise LookupError(f"request {effect.key} is answered or held, and no listener receives requests")
        session = self._sessions.session
        if session is None or not session.in_touch:
            self._answers.control_lost("there is no ZooKeeper session that is known to live")
        elif isinstance(effect, HoldRequest):
            self._answers.hold(effect)
        else:
            self._answers.reply(effect)

    def _lose_control(self, reason: str) -> None:
        if self._answers is not None:
            self._answers.control_lost(reason)

    def _show(self, brokers: tuple[Broker, ...]) -> None:
        if self._answers is not None:
            self._answers.show_brokers(brokers)

    async def result(self) -> Result | None:
        """Return the result of the oldest read, write or probe; None if its session is lost."""
        if not self._asked:
            raise LookupError("the core waits for a result of no request")
        return await self._asked.popleft()

    def forget_results(self) -> None:
        """Drop results that the core no longer waits for. What ZooKeeper was sent is not called back."""
        self._asked.clear()

    async def _outcome(
        self, asked: ReadZnodes | WriteZnodes | ProbeBrokers, session: ZooKeeperSession | None
    ) -> Result | None:
        if session is None or session.lost.is_set():
            return None
        started_s = time.monotonic()
        try:
            match asked:
                case ReadZnodes(id=number, reads=reads):
                    result: Result = ZnodesRead(number, tuple(await session.read(reads)))
                    self._note_latency(*_measured("read", _counted(reads), time.monotonic() - started_s))
                case WriteZnodes():
                    result = await self._written(asked, session)
                case ProbeBrokers(id=number):
                    if self._probe is None:
                        raise LookupError("the core asks for probes, and nothing here can send them")
                    result = ProbesCompleted(number, await self._probe(asked))
                case _:
                    assert_never(asked)
        except SessionLost:
            return None
        return result if self._is_current(session) else None

    def _is_current(self, session: ZooKeeperSession) -> bool:
        return not session.lost.is_set() and self._sessions.session is session

    async def _written(self, effect: WriteZnodes, session: ZooKeeperSession) -> ZnodesWritten:
        started_s = time.monotonic()
        plan = MultiPlan(effect.groups, effect.fence)
        written = ZnodesWritten(effect.id, await session.write(plan), plan.controller_moved)
        took_s = time.monotonic() - started_s
        counts = _counted(chain.from_iterable(effect.groups))
        self._note_latency(*_measured("write", counts, took_s))
        self._record(_write_record(self._subject, effect, counts, written.outcomes, took_s))
        return written

    def _write_in_background(self, effect: WriteZnodes) -> None:
        session, background = self._sessions.session, self._background
        if background is None:
            raise LookupError(f"write {effect.id} goes on in the background, and nothing here can run it")

        async def run() -> None:
            try:
                if session is None or not self._is_current(session):
                    return
                written = await self._written(effect, session)
                if self._is_current(session):
                    background.post(written)
            except SessionLost:
                return
            except Exception as error:  # noqa: BLE001 - the loop decides about every fault
                background.fault(error, "a write in the background")

        background.spawn(run())

    def drop_everything(self) -> None:
        """After a fault or at the end: close all channels, clear all timers, end what is being read and written."""
        self._lose_control("a fault")
        self.forget_results()
        for task in self._running:
            task.cancel()
        self._timers.clear()
        self._channels.close_all()


def _counted(operations: Iterable[Operation | Read]) -> dict[str, int]:
    """Return the number of operations by type."""
    return {each.__name__: count for each, count in Counter(map(type, operations)).items()}


def _measured(kind: str, counts: Mapping[str, int], took_s: float) -> tuple[str, float, Mapping[str, int]]:
    """Return the metric's label, the time, and the number of operations by type. The label is the type; for several
    types, `reads` or `writes`."""
    return (next(iter(counts)) if len(counts) == 1 else f"{kind}s"), took_s, counts


def _write_record(
    subject: str, asked: WriteZnodes, operations: Mapping[str, int], outcomes: Sequence[GroupOutcome], took_s: float
) -> EventRecord:
    results = Counter(_outcome_name(each) for each in outcomes if type(each) is not GroupDone)
    if done := len(outcomes) - results.total():
        results["done"] = done
    return EventRecord(
        EventRecordType.ZNODE_WRITE,
        subject,
        {
            "groups": len(asked.groups),
            "operations": dict(operations),
            "first_path": asked.groups[0][0].path if asked.groups else "",
            "outcomes": dict(results),
            "fenced": asked.fence is not None,
            "took_ms": round(took_s * 1000, 3),
        },
    )


def _outcome_name(outcome: GroupOutcome) -> str:
    match outcome:
        case GroupDone():
            return "done"
        case GroupFailed(error=error):
            return f"failed: {error.name}"
        case GroupUnknown():
            return "unknown"
        case FenceFailed():
            return "controller moved"
        case _:
            assert_never(outcome)
