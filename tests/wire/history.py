"""One small history of a cluster, played the same way under Kafka's controller and under ours: what it is, in phases.

Each phase begins when nothing passes between controller and brokers any more, and ends when ZooKeeper says what was to
be reached and every live broker was told of it; so that what is recorded in a phase belongs to it, however slow the
machine is. Topics have the ids that are given here, or none where that version of Kafka knows none.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.partition_requests import request_election, request_reassignment
from lethe.admin.topic_alteration import CurrentTopicZnodes, TopicChange, change_topics, read_topics
from lethe.admin.topic_plans import TopicPlan, creation_operations, deletion_operation
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.vocabulary import LeaderAndIsr, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MultiDone,
    Operation,
    Present,
)
from lethe.protocol.zookeeper.znodes import decode_controller
from tests.wire.cluster import (
    BROKERS,
    CONTROLLER,
    START_LIMIT_S,
    Brokers,
    RecordedCluster,
    RecordingFailed,
    recorded_cluster,
    until,
)
from tests.wire.probe import deletes, gets_producer_id, known
from tests.wire.recording import Exchange, Recording, Who

FIRST_WITH_ALTER_PARTITION: Final = (2, 7, 0)
FIRST_WITH_TOPIC_IDS: Final = (2, 8, 0)
FIRST_WITH_PRODUCER_IDS: Final = (3, 0, 0)
_PAUSE_LIMIT_S: Final = 7.0
"""Shorter than the timeout of sessions: who is stopped must not lose its own."""
_IDS: Final = {
    "orders": uuid.UUID("6f1c2f0e-8d3a-4b57-9a3e-0c1d2e3f4a5b"),
    "audit": uuid.UUID("2b9e8d7c-6f50-4a1b-8c3d-4e5f60718293"),
    "payments": uuid.UUID("1d7b4c6a-55e2-4f0b-8a94-b3c2d1e0f9a8"),
}

Leadership = tuple[int, tuple[int, ...]]
"""Leader and ISR, the latter sorted."""


class History:
    """Its public coroutines are the phases, in their order; the docstring of each says what happens in it."""

    def __init__(self, cluster: RecordedCluster, session: ZooKeeperSession) -> None:
        self.cluster: Final = cluster
        self._session = session

    # --- the phases -----------------------------------------------------------------------------------------------

    async def the_first_broker_joins(self) -> None:
        """The controller has been alone so far."""
        await self._start(1)

    async def the_second_broker_joins(self) -> None:
        """Next to the first."""
        await self._start(2)

    async def a_topic_is_created(self) -> None:
        """`orders`, two partitions on both brokers, each led by another."""
        await self._create(TopicPlan("orders", self._id("orders"), ((1, 2), (2, 1))))
        await self._reached(orders=[(1, (1, 2)), (2, (1, 2))])

    async def two_topics_are_created_at_once(self) -> None:
        """`payments`, one partition without a second replica; `audit`, one on both, for which any replica may lead."""
        audit = TopicPlan("audit", self._id("audit"), ((1, 2),), {"unclean.leader.election.enable": "true"})
        await self._create(TopicPlan("payments", self._id("payments"), ((1,),)), audit)
        await self._reached(payments=[(1, (1,))], audit=[(1, (1, 2))])

    async def an_idempotent_producer_comes(self) -> None:
        """It gets its id from a broker, which since 3.0 has a block of them from the controller. Not with agents."""
        if self.cluster.has_agents:
            return
        await until(lambda: gets_producer_id(self.cluster), "broker 1 had no producer id")
        if self.cluster.version >= FIRST_WITH_PRODUCER_IDS:

            async def is_answered() -> bool:
                return any(e.api is ApiKey.ALLOCATE_PRODUCER_IDS and e.response for e in self.cluster.exchanges())

            await until(is_answered, "no broker got a block of producer ids")

    async def a_partition_is_added(self) -> None:
        """A third one of `orders`."""

        def plan(now: CurrentTopicZnodes) -> TopicChange:
            return TopicChange(now, {2: (1, 2)})

        changes = [plan(now) for now in await read_topics(self._session, ["orders"])]
        _, outcomes = await change_topics(self._session, changes, plan)
        _demand(outcome.problem for outcome in outcomes)
        await self._reached(orders=[(1, (1, 2)), (2, (1, 2)), (1, (1, 2))])

    async def a_leader_is_killed(self) -> None:
        """Broker 1, which leads all partitions but one; that of `payments` has nobody else."""
        await self.cluster.brokers[1].kill()
        await self._reached(orders=[(2, (2,))] * 3, payments=[(-1, (1,))], audit=[(2, (2,))])

    async def it_comes_back(self) -> None:
        """And into every ISR."""
        async with self._isr_change():
            await self._start(1)
            await self._reached(orders=[(2, (1, 2))] * 3, payments=[(1, (1,))], audit=[(2, (1, 2))])

    async def preferred_replicas_are_elected(self) -> None:
        """Of `orders` and `audit`; one of these partitions is led by its preferred replica."""
        partitions = [*(TopicPartition("orders", number) for number in range(3)), TopicPartition("audit", 0)]
        _demand([(await request_election(self._session, partitions)).problem])
        await self._reached(orders=[(1, (1, 2)), (2, (1, 2)), (1, (1, 2))], audit=[(1, (1, 2))])

    async def a_replica_is_added(self) -> None:
        """Broker 2 gets one of `payments`, by reassignment."""
        async with self._isr_change():
            await self._reassign((1, 2))
            await self._reached(payments=[(1, (1, 2))])

    async def a_replica_is_removed(self) -> None:
        """That of broker 1, which leads."""
        await self._reassign((2,))
        await self._reached(payments=[(2, (2,))])

    async def a_broker_is_shut_down(self) -> None:
        """Broker 2 asks for leave, and gets it although it has the only replica of `payments`."""
        if await self.cluster.brokers[2].stop() not in (0, 143):
            raise RecordingFailed("broker 2 was not shut down in good order")
        await self._reached(orders=[(1, (1,))] * 3, payments=[(-1, (2,))], audit=[(1, (1,))])

    async def the_other_one_is_killed(self) -> None:
        """Nobody is left who could be told."""
        await self.cluster.brokers[1].kill()
        await self._reached(orders=[(-1, (1,))] * 3, audit=[(-1, (1,))])

    async def the_first_is_started_again(self) -> None:
        """It leads `payments`, and `audit` although it was not in sync; `orders` waits for broker 1."""
        await self._start(2)
        await self._reached(orders=[(-1, (1,))] * 3, payments=[(2, (2,))], audit=[(2, (2,))])

    async def the_other_one_comes_back(self) -> None:
        """It leads `orders`, and follows in `audit`."""
        async with self._isr_change():
            await self._start(1)
            await self._reached(orders=[(1, (1, 2))] * 3, audit=[(2, (1, 2))])

    async def control_is_given_up_and_taken_again(self) -> None:
        """`/controller` is removed while no other than the controller can stand."""
        await self._change_hands()

    async def two_topics_are_deleted_at_once(self) -> None:
        """`payments`, whose only replica is on broker 2, and `audit`."""
        await self._delete("payments", "audit")
        await self._gone("payments", "audit")

    async def a_topic_is_deleted_while_a_broker_is_dead(self) -> None:
        """Broker 2 is killed, and then `orders` is marked: broker 1 deletes its replicas."""
        await self.cluster.brokers[2].kill()
        await self._reached(orders=[(1, (1,))] * 3)
        await self.cluster.quiet()
        await self._delete("orders")

        async def is_deleted_there() -> bool:
            return any(e.api is ApiKey.STOP_REPLICA and deletes(e) and e.response for e in self._told_since())

        await until(is_deleted_there, "broker 1 was not asked to delete")

    async def control_changes_hands_in_the_middle_of_it(self) -> None:
        """As before, while only broker 1 lives."""
        await self._change_hands()

    async def the_dead_broker_returns(self) -> None:
        """And the deletion is finished."""
        await self._start(2)
        await self._gone("orders")

    # --- what phases do -------------------------------------------------------------------------------------------

    async def _change_hands(self) -> None:
        others = [broker for broker in self.cluster.brokers.values() if broker.is_running]
        for each in others:
            each.pause()
        try:
            await self._write([Delete(paths.CONTROLLER)], "remove /controller")
            await until(
                lambda: _has_control(self._session), "the controller did not take control again", _PAUSE_LIMIT_S
            )
            # They are sent something, and will answer when they go on.
            await until(self._all_told, "the controller did not tell the brokers that it leads", _PAUSE_LIMIT_S)
        finally:
            for each in others:
                each.resume()

    @asynccontextmanager
    async def _isr_change(self) -> AsyncIterator[None]:
        """Leaves when the controller has read what leaders tell through ZooKeeper of an ISR that has changed meanwhile.
        They do so seconds after they have written it; since 2.7 they ask the controller instead."""
        if self.cluster.version >= FIRST_WITH_ALTER_PARTITION:
            yield
            return
        is_told = asyncio.Event()
        async with self.cluster.session(lambda _: is_told.set()) as session:
            await session.read([GetChildren(paths.ISR_CHANGE_NOTIFICATION, watch=True)])
            yield

            async def is_read() -> bool:
                (found,) = await session.read([GetChildren(paths.ISR_CHANGE_NOTIFICATION)])
                return is_told.is_set() and isinstance(found, Children) and not found.names

            await until(is_read, "the change of the ISR was not told, or not read")

    async def _start(self, number: int) -> None:
        await self.cluster.brokers[number].start(START_LIMIT_S)

        async def is_told() -> bool:
            return any(e.api is ApiKey.UPDATE_METADATA and e.response for e in self._told_since(number))

        await until(is_told, f"broker {number} was told of no broker")

    def _id(self, name: str) -> TopicId | None:
        return TopicId(_IDS[name]) if self.cluster.version >= FIRST_WITH_TOPIC_IDS else None

    async def _create(self, *plans: TopicPlan) -> None:
        """All in one write, so that the controller learns of all at once."""
        operations = [each for plan in plans for each in creation_operations(plan, config_exists=False)]
        await self._write(operations, f"create {[plan.name for plan in plans]}")

    async def _delete(self, *names: str) -> None:
        """All in one write, as well."""
        await self._write([deletion_operation(name) for name in names], f"mark {names}")

    async def _write(self, operations: Sequence[Operation], what: str) -> None:
        outcome = await self._session.multi(operations)
        if not isinstance(outcome, MultiDone):
            raise RecordingFailed(f"could not {what}: {outcome}")

    async def _reassign(self, replicas: tuple[int, ...]) -> None:
        wanted = {TopicPartition("payments", 0): replicas}
        _demand([(await request_reassignment(self._session, wanted, may_merge=False)).problem])

        async def is_taken() -> bool:
            (left,) = await self._session.read([Exists(paths.REASSIGN_PARTITIONS)])
            return not isinstance(left, Present)

        await until(is_taken, "the reassignment did not end")

    async def _gone(self, *names: str) -> None:
        async def is_gone() -> bool:
            wanted = [Exists(path(name)) for name in names for path in (paths.topic, paths.delete_topic)]
            return not any(isinstance(each, Present) for each in await self._session.read(wanted))

        await until(is_gone, f"{names} were not deleted")

    async def _all_told(self) -> bool:
        live = {number for number, broker in self.cluster.brokers.items() if broker.is_running}
        return {each.broker for each in self._told_since()} == live

    # --- what phases wait for -------------------------------------------------------------------------------------

    def _told_since(self, number: int | None = None) -> list[Exchange]:
        """What brokers, or one of them, were told in this phase."""
        found = self.cluster.exchanges(BROKERS if number is None else (number,))
        return [each for each in found if each.phase == self.cluster.phase]

    async def _reached(self, **topics: Sequence[Leadership]) -> None:
        """Waits until ZooKeeper has these leaderships, and every live broker was told of them."""
        wanted = {
            TopicPartition(name, number): state
            for name, states in topics.items()
            for number, state in enumerate(states)
        }

        async def is_reached() -> bool:
            states = await topic_znodes.read_states(self._session, list(wanted))
            found = {p: (s.leader, tuple(sorted(s.isr))) for p, s in states.items() if isinstance(s, LeaderAndIsr)}
            if found != wanted:
                return False
            live = [number for number, broker in self.cluster.brokers.items() if broker.is_running]
            told = [known(self.cluster.exchanges((number,))) for number in live]
            return all(
                isinstance(s, LeaderAndIsr) and all(k.get(p) == (s.leader_epoch, s.partition_epoch) for k in told)
                for p, s in states.items()
            )

        try:
            await until(is_reached, "")
        except RecordingFailed:
            states = await topic_znodes.read_states(self._session, list(wanted))
            raise RecordingFailed(f"wanted {wanted}, found {states}") from None


def _demand(problems: Iterable[str | None]) -> None:
    for problem in problems:
        if problem is not None:
            raise RecordingFailed(problem)


PHASES: Final[Mapping[str, Callable[[History], Awaitable[None]]]] = {
    name.replace("_", " "): phase
    for name, phase in vars(History).items()
    if inspect.iscoroutinefunction(phase) and not name.startswith("_")
}


async def _has_control(session: ZooKeeperSession) -> bool:
    """Whether `/controller` names the controller that is recorded."""
    (found,) = await session.read([GetData(paths.CONTROLLER)])
    return isinstance(found, Data) and decode_controller(found.data).broker_id == CONTROLLER


async def record(who: Who, brokers: Brokers, work_dir: Path) -> Recording:
    """Plays the history and returns everything that passed between the controller and the two brokers. Raises
    RecordingFailed, and what starting a cluster raises."""
    async with recorded_cluster(who, brokers, work_dir) as cluster, cluster.session() as session:
        await cluster.controller.start(START_LIMIT_S)
        history = History(cluster, session)
        await until(lambda: _has_control(session), "the controller did not take control")
        for name, phase in PHASES.items():
            await cluster.begin(name)
            await phase(history)
        await cluster.quiet()
        return Recording(who, str(cluster.version), tuple(cluster.exchanges()))
