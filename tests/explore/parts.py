"""How one controller's process goes on: its steps, and its requests at ZooKeeper. `world` says what may be joined."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from lethe.controller.core import events
from lethe.controller.core.config import CoreConfig
from lethe.controller.core.effects import ProbeBrokers, ReadZnodes
from lethe.controller.core.events import Event, ProbeOutcome, ProbesCompleted
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.versions import LATEST
from lethe.protocol.vocabulary import BrokerId, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    MultiDone,
    MultiOutcome,
    Operation,
    Read,
    ReadFailed,
    ReadOutcome,
    ZkError,
)
from lethe.protocol.zookeeper.packing import MultiPlan
from lethe.protocol.zookeeper.znodes import OfflineReplicas
from tests.explore import checks
from tests.explore.actions import Scene
from tests.explore.contexts import Contexts, Step
from tests.explore.interning import Numbers
from tests.explore.processes import Pending, Process
from tests.explore.trash import goes_in
from tests.explore.zookeeper import ZooKeeper
from tests.fakes.zookeeper_model import Fired

CHANGED_BY_OTHERS: Final = (
    paths.controller(),
    paths.controller_epoch(),
    paths.broker_ids(),
    paths.broker_topics(),
    paths.delete_topics(),
    paths.lethe(),
)
"""What anybody in this world writes, but for the states of partitions, which only active controllers write."""


class Wrote(NamedTuple):
    """A controller's multi was applied, or refused."""

    operations: tuple[Operation, ...]
    outcome: MultiOutcome


class Heard(NamedTuple):
    """The core has made a step on this event."""

    event: Event
    step: Step


Told = Wrote | Heard


class Moved(NamedTuple):
    """What became of ZooKeeper and of one process, and what others notice of it."""

    zookeeper: int
    process: int
    fired: tuple[Fired, ...] = ()
    """Watches of other sessions."""
    removed: TopicId | None = None
    """The topic whose znode was removed."""
    problem: str | None = None
    told: tuple[Told, ...] = ()


class _Course:
    """A `Moved` in the making."""

    def __init__(self, zookeeper: int, process: Process) -> None:
        self.zookeeper = zookeeper
        self.process = process
        self.fired: list[Fired] = []
        self.removed: TopicId | None = None
        self.problem: str | None = None
        self.told: list[Told] = []

    def blame(self, problem: str | None) -> None:
        """Keep the first problem."""
        self.problem = self.problem or problem


class Processes:
    """All states of the controllers' processes met so far, and the transitions between them."""

    def __init__(
        self,
        topic: str,
        controllers: Sequence[BrokerId],
        brokers: Sequence[BrokerId],
        zk: ZooKeeper,
        scene: Scene,
    ) -> None:
        self._scene = scene
        self.numbers: Numbers[Process] = Numbers()
        self.contexts = Contexts()
        self._topic = topic
        self._controllers = tuple(controllers)
        self._brokers = tuple(brokers)
        self._zookeeper = zk
        self._step = lru_cache(None)(self._stepped)
        self._go_on = lru_cache(None)(self._gone_on)
        self._goes_on = lru_cache(None)(self._may_go_on)
        self.serve = lru_cache(None)(self._serve)
        self.connect = lru_cache(None)(self._connect)
        self.lose_session = lru_cache(None)(self._lose_session)
        self.notice = lru_cache(None)(self._notice)
        self.crash = lru_cache(None)(self._crash)
        self.lose_answer = lru_cache(None)(self._lose_answer)

    def down(self) -> int:
        """Return the process of a controller that was never started."""
        none = tuple(None for _ in self._brokers)
        return self.numbers.of(Process(channels=none, strays=tuple(() for _ in self._brokers)))

    def started(self, process: int, controller: int) -> int:
        """Return a new process on the same machine; strays of an earlier one are still on their way."""
        session = self._controllers[controller]
        owes = self._scene.owe and not self._is_kafka(session)
        config = CoreConfig(
            session,
            LATEST,
            auto_leader_rebalance_enable=False,
            tombstone_timeout_ms=0,
            trash_look_ms=0,
            offline_replicas=OfflineReplicas.OWE if owes else OfflineReplicas.WAIT,
        )
        down = self.numbers[process]
        return self.numbers.of(down._replace(context=self.contexts.fresh(config), pending=()))

    def _is_kafka(self, session: int) -> bool:
        return self._scene.kafka and session == self._controllers[-1]

    # --- transitions -----------------------------------------------------------------------------------------------

    def step(self, zookeeper: int, process: int, session: int, event: Event) -> Moved:
        """The core takes an event, which the process has no more."""
        moved = self._step(process, event)
        if not self._goes_on(moved.process):
            return moved._replace(zookeeper=zookeeper)
        after = self._go_on(zookeeper, moved.process, session)
        return after._replace(told=moved.told + after.told, problem=moved.problem or after.problem)

    def _stepped(self, process: int, event: Event) -> Moved:
        course = _Course(-1, self.numbers[process])
        self._take(course, event)
        return self._moved(course)

    def _gone_on(self, zookeeper: int, process: int, session: int) -> Moved:
        course = _Course(zookeeper, self.numbers[process])
        self._follow(course, session)
        return self._moved(course)

    def _may_go_on(self, process: int) -> bool:
        return self.numbers[process].closes_session or self._is_quiet(self.numbers[process])

    def _connect(self, zookeeper: int, number: int, session: int) -> Moved:
        course = _Course(self._zookeeper.open(zookeeper, session), self.numbers[number]._replace(has_session=True))
        self._take(course, events.SessionEstablished(session, session.to_bytes(32)))
        self._follow(course, session)
        return self._moved(course)

    def _lose_session(self, zookeeper: int, number: int, session: int) -> Moved:
        course = _Course(zookeeper, self.numbers[number].without_session())
        self._take(course, events.SessionLost("it has expired"))
        self._follow(course, session)
        return self._moved(course)

    def _serve(self, zookeeper: int, number: int, session: int, up: tuple[bool, ...]) -> Moved:
        """ZooKeeper serves the process's first request, or the brokers answer its probe."""
        course = _Course(zookeeper, self.numbers[number])
        self._first_request(course, session, up)
        self._follow(course, session)
        return self._moved(course)

    def _notice(self, number: int, fired: Fired) -> int:
        return self.numbers.of(self.numbers[number].noticing(events.from_watch(fired.watch)))

    def _crash(self, number: int) -> int:
        return self.numbers.of(self.numbers[number].crashed())

    def _lose_answer(self, number: int, broker: int) -> int:
        return self.numbers.of(self.numbers[number].answered(broker, None))

    # --- their parts -----------------------------------------------------------------------------------------------

    def _moved(self, course: _Course) -> Moved:
        number = self.numbers.of(course.process)
        told = tuple(course.told)
        return Moved(course.zookeeper, number, tuple(course.fired), course.removed, course.problem, told)

    def _take(self, course: _Course, event: Event) -> None:
        step = self.contexts.step(course.process.context, event)
        course.told.append(Heard(event, step))
        course.blame(step.problem)
        course.process = course.process.stepped(step, self._brokers)

    def _follow(self, course: _Course, session: int) -> None:
        """What follows from a step at once: quiet reads, and the end of the session."""
        while True:
            if course.process.closes_session:
                self._close_session(course, session)
            elif self._is_quiet(course.process):
                self._first_request(course, session, ())
            else:
                return

    def _close_session(self, course: _Course, session: int) -> None:
        course.zookeeper, fired = self._zookeeper.close(course.zookeeper, session)
        course.fired.extend(each for each in fired if each.session != session)
        course.process = course.process.without_session()
        self._take(course, events.SessionLost("it was closed"))

    def _is_quiet(self, process: Process) -> bool:
        """The first request only reads what nobody else writes."""
        effect = process.pending[0].effect if process.pending and process.has_session else None
        return isinstance(effect, ReadZnodes) and not any(_changes(read.path) for read in effect.reads)

    def _first_request(self, course: _Course, session: int, up: tuple[bool, ...]) -> None:
        pending = course.process.pending[0]
        course.process = course.process._replace(pending=course.process.pending[1:])
        match pending.effect:
            case ReadZnodes(id=number, reads=reads):
                course.zookeeper, outcomes = self._zookeeper.read(course.zookeeper, session, reads)
                if self._is_kafka(session):
                    outcomes = tuple(map(_without_debts, reads, outcomes))
                self._result(course, events.ZnodesRead(number, outcomes))
            case ProbeBrokers(id=number, targets=targets):
                alive = dict(zip(self._brokers, up, strict=True))
                answers = tuple(_probed(each.broker, alive[each.broker]) for each in targets)
                self._result(course, ProbesCompleted(number, answers))
            case _:
                self._multi(course, session, pending)

    def _result(self, course: _Course, result: events.Result) -> None:
        """The core steps at once where it waits for the result; that of a write in the background is an event."""
        process = course.process
        if not process.is_up:
            return
        if result.id in self.contexts.summary(process.context).awaited:
            self._take(course, result)
        elif isinstance(result, events.ZnodesWritten):
            course.process = process._replace(background=(*process.background, result))

    def _multi(self, course: _Course, session: int, pending: Pending) -> None:
        effect = pending.effect
        assert not isinstance(effect, ReadZnodes | ProbeBrokers)
        plan = MultiPlan(effect.groups, effect.fence)
        for outcome in pending.outcomes:
            before = plan.next_multi()
            assert before is not None
            plan.settle(before, outcome)
        multi = plan.next_multi()
        assert multi is not None
        done = self._write(course, session, multi.operations)
        plan.settle(multi, done)
        if not plan.is_done:
            again = pending._replace(outcomes=(*pending.outcomes, done))
            course.process = course.process._replace(pending=(again, *course.process.pending))
            return
        self._result(course, events.ZnodesWritten(effect.id, plan.outcomes, plan.controller_moved))

    def _write(self, course: _Course, session: int, operations: tuple[Operation, ...]) -> MultiOutcome:
        before = self._zookeeper.view(course.zookeeper)
        done = self._zookeeper.multi(course.zookeeper, session, operations)
        course.zookeeper = done.state
        course.told.append(Wrote(operations, done.outcome))
        after = self._zookeeper.view(done.state)
        for each in done.fired:
            if each.session == session:
                course.process = course.process.noticing(events.from_watch(each.watch))
            else:
                course.fired.append(each)
        if isinstance(done.outcome, MultiDone):
            if before.has_topic and not after.has_topic and not goes_in(before.standing, after.standing):
                course.removed = before.topic_id
            course.blame(checks.s4_marker_goes_last(self._topic, operations, before, after))
            if course.process.is_up:
                version = self.contexts.summary(course.process.context).epoch_version
                course.blame(checks.s5_write_is_current(operations, version, before))
        return done.outcome


def _probed(broker: BrokerId, is_up: bool) -> ProbeOutcome:
    error = int(ErrorCode.STALE_CONTROLLER_EPOCH) if is_up else None
    return ProbeOutcome(broker, error, None if is_up else "no answer in time")


def _without_debts(read: Read, outcome: ReadOutcome) -> ReadOutcome:
    return ReadFailed(ZkError.NO_NODE) if _is_below(read.path, paths.DEBTS) else outcome


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _changes(path: str) -> bool:
    """Return whether anybody else may write the znode, or a child of it."""
    return any(_is_below(path, each) for each in CHANGED_BY_OTHERS) or path == paths.migration()
