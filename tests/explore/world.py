"""The small world: its states, what can happen in each, and what follows.

Two controllers (the real core), two brokers (`kafka_broker`), ZooKeeper, and one topic with one partition on both
brokers. The topic is marked for deletion at any moment, and created again, under a new id, when its znodes are gone.

A state is a tuple of numbers, one for each part; equal parts have equal numbers (`interning`), so equal states are
equal tuples. What happens to a part is computed once and remembered.

What is not interleaved, and why nothing is lost by that:

* The result of a read or write that the core awaits is stepped together with the request at ZooKeeper. The core takes
  no other event before, and all that the step does is put requests on FIFO channels, where they may wait as long as
  another order would have made them wait. Without a process to hear it, the request alone happens.
* A read of znodes that nobody else in this world writes happens at once: it commutes with everything.
* A crash between two effects of a step is a crash after the step, since what was sent may never arrive, and what was
  written may not be applied before the session ends.
* What a broker does with one request is one transition. A crash in the middle of it has one partition to hit: it is
  done or not done, and the answer may get lost.
* A stray that its broker would refuse is gone: epochs only rise.

What is left out: a dead controller starts again only when no other is up; brokers do not ask the controller for
anything; no broker lives on without its session; no disk fails; no time limit for silent brokers ends. With a trash
there are no consumer groups, retention removes nothing, and brokers read notifications of settings at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from lethe.controller.core.context import Role
from lethe.controller.core.effects import Send, WatchTrash
from lethe.controller.core.events import TimerFired
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, MultiDone, Operation
from lethe.protocol.zookeeper.znodes import TrashPhase
from tests.explore import checks, trash
from tests.explore.actions import Action, Kind, Scene
from tests.explore.canonical import START_MS
from tests.explore.choices import ABSENCES, FREE, LOSSES, Choice, Choices, choices_of
from tests.explore.interning import Numbers
from tests.explore.kafka_broker import KafkaBroker, is_without_effect, receive
from tests.explore.operator import Operator
from tests.explore.parts import Moved, Processes, Told
from tests.explore.zookeeper import LATER, OPERATOR, View, ZooKeeper
from tests.fakes.zookeeper_model import Fired

TOPIC: Final = "orders"
CONTROLLERS: Final = (BrokerId(1000), BrokerId(1001))
BROKERS: Final = (BrokerId(1), BrokerId(2))
LIVES: Final = tuple(TopicId(uuid.UUID(int=number)) for number in (2, 3))
"""The ids of the topics that have the name one after the other; 0 and 1 are reserved."""
MORTAL: Final = 1
"""The broker that goes away and returns, by its place in `BROKERS`."""

State = tuple[int, ...]
"""ZooKeeper, controllers, brokers, stage, faults that are left: numbers of parts, at the places below."""
ZOOKEEPER: Final = 0
CONTROLLER: Final = 1
BROKER: Final = CONTROLLER + len(CONTROLLERS)
STAGE: Final = BROKER + len(BROKERS)
"""0: A lives; 1: A was marked; 2: B was created."""
PAUSE: Final = STAGE + 1
"""0: never; 1: deletions are paused; 2: they were."""
REQUEST: Final = PAUSE + 1
"""1: A was requested back, or its deletion from the trash; 2: A came back, and was marked again."""
GRACE: Final = REQUEST + 1
"""1: the grace period of A is over."""
FAULT: Final = GRACE + 1


class Transition(NamedTuple):
    """What can happen in a state, and the state after it."""

    action: Action
    state: State
    problem: str | None
    told: tuple[Told, ...]


class World:
    """Parts, numbered, and the transitions between states."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.operator = Operator(TOPIC, LIVES, BROKERS, scene)
        self.zookeeper = ZooKeeper(TOPIC, BROKERS)
        self.processes = Processes(TOPIC, CONTROLLERS, BROKERS, self.zookeeper, scene)
        self.brokers: Numbers[KafkaBroker] = Numbers()
        self._choices: dict[tuple[int, int], Choices] = {}
        self._receive = lru_cache(None)(self._received)
        self._prune = lru_cache(None)(self._pruned)
        self._rests = lru_cache(None)(self._at_rest)

    # --- what can happen -------------------------------------------------------------------------------------------

    def transitions(self, state: State) -> Iterator[Transition]:
        """Yield everything that can happen, in an order that is always the same."""
        view = self.zookeeper.view(state[ZOOKEEPER])
        for write, at, operations in self.operator.writes(state[STAGE], state[PAUSE], state[REQUEST], view):
            yield self._operate(state, write, STAGE + at, operations)
        yield from self._mortal(state, view.sessions)
        for who, session in enumerate(CONTROLLERS):
            number = state[CONTROLLER + who]
            choices = self._choices.get((number, who))
            if choices is None:
                choices = self._choices[number, who] = choices_of(self.processes, number, who, BROKERS)
            for choice in choices.always:
                if choice.fault == FREE or self._may_fail(state, choice):
                    yield from self._chosen(state, choice)
            for choice in choices.with_session if session in view.sessions else choices.without_session:
                if choice.fault == FREE or state[FAULT + choice.fault]:
                    yield from self._chosen(state, choice)

    def _may_fail(self, state: State, choice: Choice) -> bool:
        if choice.fault == LOSSES and not self.brokers[state[BROKER + choice.action.what]].is_up:
            return True
        return state[FAULT + choice.fault] > 0

    def _chosen(self, state: State, choice: Choice) -> Iterator[Transition]:
        action, process, fault, event, send = choice
        who = action.who
        after = list(state)
        if fault != FREE:
            after[FAULT + fault] = max(0, after[FAULT + fault] - 1)
        session = CONTROLLERS[who]
        if send is not None:
            if self.brokers[state[BROKER + action.what]].is_up:
                yield self._deliver(after, choice, send)
            return
        if event is not None:
            if isinstance(event, TimerFired) and isinstance(event.timer, WatchTrash):
                after[GRACE] |= self._expires(process)
            yield self._moved(after, action, self.processes.step(state[ZOOKEEPER], process, session, event))
            return
        match action.kind:
            case Kind.SERVE:
                up = tuple(self.brokers[each].is_up for each in state[BROKER:STAGE])
                yield self._moved(after, action, self.processes.serve(state[ZOOKEEPER], process, session, up))
            case Kind.CONNECT:
                yield self._moved(after, action, self.processes.connect(state[ZOOKEEPER], process, session))
            case Kind.START:
                if not any(self.processes.numbers[each].is_up for each in state[CONTROLLER:BROKER]):
                    started = self.processes.started(process, who)
                    yield self._moved(after, action, self.processes.connect(state[ZOOKEEPER], started, session))
            case Kind.LEARN:
                yield self._moved(after, action, self.processes.lose_session(state[ZOOKEEPER], process, session))
            case Kind.EXPIRE | Kind.SESSION_ENDS:
                after[CONTROLLER + who] = process
                after[ZOOKEEPER], fired = self.zookeeper.close(state[ZOOKEEPER], session)
                yield self._done(action, after, fired)
            case Kind.CRASH:
                after[CONTROLLER + who] = self.processes.crash(process)
                yield self._done(action, after)
            case Kind.ANSWER_LOST:
                after[CONTROLLER + who] = self.processes.lose_answer(process, action.what)
                yield self._done(action, after)
            case _:
                raise ValueError(f"{action} is not complete without an event or a request")

    # --- the operator ----------------------------------------------------------------------------------------------

    def _operate(self, state: State, write: int, at: int, operations: tuple[Operation, ...]) -> Transition:
        done = self.zookeeper.multi(state[ZOOKEEPER], OPERATOR, operations, LATER)
        assert isinstance(done.outcome, MultiDone), done
        after = list(state)
        after[ZOOKEEPER] = done.state
        after[at] += 1
        return self._done(Action(Kind.OPERATE, write), after, done.fired)

    # --- brokers ---------------------------------------------------------------------------------------------------

    def _mortal(self, state: State, sessions: tuple[int, ...]) -> Iterator[Transition]:
        """Yield what can happen to the broker that goes away and returns."""
        at = BROKER + MORTAL
        broker = self.brokers[state[at]]
        after = list(state)
        if broker.is_up:
            if state[FAULT + ABSENCES]:
                after[FAULT + ABSENCES] -= 1
                after[at] = self.brokers.of(broker.crashed())
                yield self._done(Action(Kind.LEAVE, MORTAL), after)
        elif broker.id in sessions:
            after[ZOOKEEPER], fired = self.zookeeper.close(state[ZOOKEEPER], broker.id)
            yield self._done(Action(Kind.BROKER_SESSION_ENDS, MORTAL), after, fired)
        elif not self.scene.gone:
            back = broker.returned()
            after[at] = self.brokers.of(back)
            after[ZOOKEEPER], fired = self.register(state[ZOOKEEPER], back)
            yield self._done(Action(Kind.RETURN, MORTAL), after, fired)

    def register(self, zookeeper: int, broker: KafkaBroker) -> tuple[int, tuple[Fired, ...]]:
        """A broker's process opens its session and registers."""
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092 + broker.id)
        data = znodes.encode_broker(Broker(broker.id, BrokerEpoch(-1), (endpoint,)), timestamp_ms=START_MS)
        create = Create(paths.broker_id(broker.id), data, ephemeral=True)
        opened = self.zookeeper.open(zookeeper, broker.id)
        done = self.zookeeper.multi(opened, broker.id, (create,), broker.epoch)
        assert isinstance(done.outcome, MultiDone), done
        return done.state, done.fired

    def _deliver(self, after: list[int], choice: Choice, send: Send) -> Transition:
        action, process = choice[:2]
        at = BROKER + action.what
        broker, process, deleted, problem = self._receive(after[at], process, action, send)
        if deleted is not None:
            view = self.zookeeper.view(after[ZOOKEEPER])
            is_asked = after[STAGE] and not view.trash.keeps and (view.is_marked or view.topic_id != LIVES[0])
            problem = checks.s2_was_asked_for(deleted, LIVES[:is_asked], self.brokers[broker]) or problem
        after[at], after[CONTROLLER + action.who] = broker, process
        return self._done(action, after, problem=problem)

    def _received(
        self, broker: int, process: int, action: Action, send: Send
    ) -> tuple[int, int, TopicId | None, str | None]:
        """A request arrives: the broker and its sender after it, the topic whose records it deleted, a problem."""
        received = receive(self.brokers[broker], send)
        if action.kind is Kind.DELIVER:
            sender = self.processes.numbers[process]
            process = self.processes.numbers.of(sender.answered(action.what, received.answer))
        problem = checks.s3_serves_its_own(received.broker)
        return self.brokers.of(received.broker), process, received.deleted, problem

    # --- the state after it ----------------------------------------------------------------------------------------

    def _moved(self, after: list[int], action: Action, moved: Moved) -> Transition:
        zookeeper, process, fired, removed, problem, told = moved
        if zookeeper != after[ZOOKEEPER]:
            problem = problem or self._gone_too_early(after, zookeeper, removed)
        after[ZOOKEEPER], after[CONTROLLER + action.who] = zookeeper, process
        return self._done(action, after, fired, problem, told)

    def _done(
        self,
        action: Action,
        after: list[int],
        fired: tuple[Fired, ...] = (),
        problem: str | None = None,
        told: tuple[Told, ...] = (),
    ) -> Transition:
        """Tell the controllers whose watches went off, and drop the strays that have no effect any more."""
        for each in fired:
            at = CONTROLLER + CONTROLLERS.index(BrokerId(each.session))
            after[at] = self.processes.notice(after[at], each)
        brokers = tuple(after[BROKER:STAGE])
        for at in range(CONTROLLER, BROKER):
            after[at] = self._prune(after[at], brokers)
        if self.scene.has_trash:
            problem = problem or self._shown_in_trash(after)
        return Transition(action, tuple(after), problem, told)

    def _pruned(self, number: int, brokers: tuple[int, ...]) -> int:
        process = self.processes.numbers[number]
        for at, strays in enumerate(process.strays):
            left = tuple(each for each in strays if not is_without_effect(self.brokers[brokers[at]], *each))
            if len(left) < len(strays):
                process = process.with_strays(at, left)
        return self.processes.numbers.of(process)

    def _gone_too_early(self, state: list[int], zookeeper: int, removed: TopicId | None) -> str | None:
        """Return what is wrong with the removal of a topic's znode, a debt or a marker."""
        brokers = [self.brokers[each] for each in state[BROKER:STAGE]]
        before = self.zookeeper.view(state[ZOOKEEPER])
        problem = None if removed is None else checks.s1_gone_everywhere(removed, brokers, before)
        later = self.zookeeper.view(zookeeper)
        if self.scene.has_trash:
            is_over = state[GRACE] == 1
            problem = problem or trash.problem_of(brokers, before.standing, later.standing, is_over=is_over)
        return (
            problem or checks.debts_are_paid(brokers, before, later) or checks.comes_back_whole(brokers, before, later)
        )

    def _shown_in_trash(self, after: list[int]) -> str | None:
        """Return what brokers show of a topic in the trash although their controller has done all; end its grace."""
        view = self.zookeeper.view(after[ZOOKEEPER])
        entry = view.trash.entry
        if entry is None:
            after[GRACE] = 0
        if entry is None or entry.phase is not TrashPhase.TRASHED or view.has_topic:
            return None
        if not any(self._rests(number, view.epoch_version) for number in after[CONTROLLER:BROKER]):
            return None
        return trash.hidden_problem((self.brokers[each] for each in after[BROKER:STAGE]), entry.topic_id)

    def _expires(self, process: int) -> int:
        return int(self.processes.contexts.summary(self.processes.numbers[process].context).expires)

    # --- looking ---------------------------------------------------------------------------------------------------

    def is_ended(self, state: State) -> bool:
        """A is gone everywhere, and B is served by both brokers under a controller that has nothing left to do. Or A
        was brought back, and is served.

        A broker that never returns may have kept A, if it owes that; so may one that a controller without debts leads.
        """
        view = self.zookeeper.view(state[ZOOKEEPER])
        if view.is_marked or not view.has_topic or view.has_request:
            return False
        if not state[STAGE] or (state[PAUSE] == 1 and view.topic_id == LIVES[1]):
            return False
        if self.scene.has_trash and (view.trash.entry is not None or view.trash.settings != trash.SETTINGS):
            return False
        leading = [who for who in range(len(CONTROLLERS)) if self._rests(state[CONTROLLER + who])]
        return bool(leading) and all(
            self._is_well(self.brokers[number], view, leading) for number in state[BROKER:STAGE]
        )

    def _is_well(self, broker: KafkaBroker, view: View, leading: list[int]) -> bool:
        owes = (broker.id, LIVES[0]) in view.debts
        if owes and broker.log_of == LIVES[0]:
            return not broker.is_up if self.scene.gone else self.scene.kafka and broker.is_up and leading == [1]
        if not broker.is_up:
            return self.scene.gone and broker.log_of in (None, view.topic_id)
        hosted = broker.hosted
        serves = hosted is not None and hosted.topic_id == broker.shown == view.topic_id and not hosted.is_stopped
        # What one without debts has had deleted is still noted: Lethe's next controller finds it paid.
        return serves and (not owes or (self.scene.kafka and leading == [1]))

    def _at_rest(self, number: int, epoch_version: int | None = None) -> bool:
        """Whether this controller is active and has nothing left to do; with a version of /controller_epoch, in that
        term."""
        process = self.processes.numbers[number]
        if not process.is_up or not process.is_idle:
            return False
        summary = self.processes.contexts.summary(process.context)
        is_current = epoch_version in (None, summary.epoch_version)
        return summary.role is Role.ACTIVE and is_current and not summary.deletions
