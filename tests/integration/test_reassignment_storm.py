"""Half of a busy cluster is deleted while all of it is being moved and its controllers are killed: nothing is left.

The moves are in `/admin/reassign_partitions`, or come from a client that sends them as Cruise Control does: in batches,
each when the one before it has ended, and some are cancelled. It throttles what moves, and ends that after each batch.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_plans import TopicPlan
from lethe.admin.topic_znodes import create_topics, live_brokers, mark_for_deletion
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.kafka.admin_configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterableResource,
    AlterOperation,
)
from lethe.protocol.vocabulary import ReplicaAssignment, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Children, Create, Data, GetChildren, GetData, MultiDone
from lethe.survey.leftovers import leftovers
from lethe.survey.take import take_survey
from tests.fakes.administrator import (
    Address,
    Administrator,
    alter_configs,
    cancel_moves,
    delete_topics,
    move_partitions,
    moving,
)
from tests.fakes.listed_controller import address_of

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

BROKERS: Final = (1, 2, 3, 4)
DOOMED: Final = tuple(f"doomed-{number:03}" for number in range(500))
LIVING: Final = tuple(f"living-{number:03}" for number in range(100))
PARTITIONS: Final = {**dict.fromkeys(DOOMED, 2), **dict.fromkeys(LIVING, 10)}
KILLS: Final = 3
LIMIT_S: Final = 400.0


def fresh_topic_id() -> TopicId:
    return TopicId(uuid.uuid4())


def before(number: int) -> tuple[int, ...]:
    return BROKERS[number % 4], BROKERS[(number + 1) % 4]


def after(number: int) -> tuple[int, ...]:
    return BROKERS[(number + 2) % 4], BROKERS[(number + 1) % 4]


async def until(condition: Callable[[], Awaitable[bool]], what: str, limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not await condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        await asyncio.sleep(0.05)


async def names(session: ZooKeeperSession, path: str) -> tuple[str, ...]:
    (found,) = await session.read([GetChildren(path)])
    return found.names if isinstance(found, Children) else ()


async def assignments(session: ZooKeeperSession, topics: tuple[str, ...]) -> dict[TopicPartition, ReplicaAssignment]:
    found = await session.read([GetData(paths.topic(name)) for name in topics])
    return {
        TopicPartition(name, number): assignment
        for name, outcome in zip(topics, found, strict=True)
        if isinstance(outcome, Data)
        for number, assignment in znodes.decode_topic(name, outcome.data).assignments.items()
    }


async def create(session: ZooKeeperSession, partitions: Mapping[str, int]) -> None:
    """Create the topics, and wait until every partition has a state."""
    plans = [
        TopicPlan(name, fresh_topic_id(), tuple(before(number) for number in range(count)))
        for name, count in partitions.items()
    ]
    await create_topics(session, plans)
    states = [GetData(paths.partition_state(name, n)) for name, count in partitions.items() for n in range(count)]

    async def in_service() -> bool:
        return all(isinstance(outcome, Data) for outcome in await session.read(states))

    await until(in_service, "every partition has a leader")


async def kill_controller(cluster: LocalCluster) -> None:
    controller = await cluster.active_controller(60)
    await controller.kill()
    await controller.start(60)


async def nothing_left_over(cluster: LocalCluster, session: ZooKeeperSession) -> None:
    async def clean() -> bool:
        return not leftovers(await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs))

    await until(clean, "the survey finds nothing left over")


def storm_settings() -> ClusterSettings:
    return ClusterSettings(
        brokers=len(BROKERS),
        controllers=2,
        broker_properties={
            "replica.catch.up.delay.ms": "200",
            "lethe.fill.bytes": "4096",
            "log.segment.delete.delay.ms": "1000",
        },
    )


async def test_500_topics_deleted_while_2000_partitions_move_and_the_controller_is_killed_three_times() -> None:
    async with LocalCluster(storm_settings()) as cluster, cluster.session() as session:
        await create(session, PARTITIONS)
        targets = {TopicPartition(name, n): after(n) for name, count in PARTITIONS.items() for n in range(count)}
        assert len(targets) == 2000
        data = znodes.encode_reassignment(targets)
        assert isinstance(await session.multi((Create(paths.reassign_partitions(), data),)), MultiDone)

        async def any_moves() -> bool:
            return any(a.is_being_reassigned for a in (await assignments(session, LIVING)).values())

        await until(any_moves, "the first partition moves")
        await mark_for_deletion(session, DOOMED)
        for _ in range(KILLS):
            await kill_controller(cluster)
        await cluster.active_controller(60)

        async def all_gone() -> bool:
            return not await names(session, paths.delete_topics())

        async def all_moved() -> bool:
            now = await assignments(session, LIVING)
            return all(now[tp] == ReplicaAssignment(targets[tp]) for tp in now)

        async def nothing_is_asked_for() -> bool:
            (request,) = await session.read([GetData(paths.reassign_partitions())])
            return not isinstance(request, Data)

        await until(all_gone, "every marked topic is deleted")
        await until(all_moved, "every living partition has its target")
        await until(nothing_is_asked_for, "the list of what is asked for is empty")
        assert sorted(await names(session, paths.broker_topics())) == sorted(LIVING)

        await nothing_left_over(cluster, session)


RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def throttled_replicas(partitions: Iterable[int]) -> dict[str, tuple[str, ...]]:
    """Settings of a topic: what these partitions are read from, and what they are written to."""
    numbers = tuple(partitions)
    return {
        setting: tuple(f"{n}:{broker}" for n in numbers for broker in side(n))
        for setting, side in zip(REPLICAS, (before, after), strict=True)
    }


async def settings(session: ZooKeeperSession, *at: str) -> list[dict[str, str]]:
    found = await session.read([GetData(path) for path in at])
    return [
        znodes.decode_config(path, outcome.data if isinstance(outcome, Data) else None)
        for path, outcome in zip(at, found, strict=True)
    ]


class Throttles:
    """Kafka's throttles of reassignments, in ZooKeeper and by requests: a rate at each broker, which is asked for it
    itself, and the replicas that move in the settings of their topics, which the controller is asked for."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session

    async def set_rates(self, operation: AlterOperation, rate: str | None) -> None:
        brokers, _ = await live_brokers(self._session)
        for broker in brokers:
            host, port = broker.endpoints[0].host, broker.endpoints[0].port

            async def address(at: tuple[str, int] = (host, port)) -> tuple[str, int]:
                return at

            client = Administrator(address)
            try:
                changes = tuple(AlterableConfig(name, rate, operation) for name in RATES)
                await alter_configs(client, [AlterableResource(BROKER_RESOURCE, str(broker.id), changes)])
            finally:
                await client.close()
            (now,) = await settings(self._session, paths.config_broker(broker.id))
            assert [now.get(name) for name in RATES] == [rate, rate], (broker.id, now)

    async def begin(self, client: Administrator, batch: Collection[TopicPartition]) -> None:
        """Throttle what is going to move, beside what is throttled already."""
        changed = sorted(await self._change(client, batch, AlterOperation.APPEND))
        # A doomed topic may be gone by now.
        living = [name for name in changed if name not in DOOMED]
        for name, now in zip(living, await settings(self._session, *map(paths.config_topic, living)), strict=True):
            for setting, asked in throttled_replicas(tp.partition for tp in batch if tp.topic == name).items():
                assert set(asked) <= set(now.get(setting, "").split(",")), (name, now)

    async def end(self, client: Administrator, batch: Collection[TopicPartition]) -> None:
        await self._change(client, batch, AlterOperation.SUBTRACT)

    async def _change(
        self, client: Administrator, batch: Collection[TopicPartition], operation: AlterOperation
    ) -> set[str]:
        resources = []
        for name in dict.fromkeys(tp.topic for tp in batch):
            asked = throttled_replicas(tp.partition for tp in batch if tp.topic == name)
            changes = (AlterableConfig(setting, ",".join(values), operation) for setting, values in asked.items())
            resources.append(AlterableResource(TOPIC_RESOURCE, name, tuple(changes)))
        return await alter_configs(client, resources)


class Rebalance:
    """Moves every partition, a batch at a time; each third one of a batch is sent back at once."""

    def __init__(self, partitions: Mapping[str, int], batches: int, throttles: Throttles) -> None:
        self._throttles = throttles
        by_number = sorted((n, name) for name, count in partitions.items() for n in range(count))
        self._partitions = [TopicPartition(name, number) for number, name in by_number]
        self._size = -(-len(self._partitions) // batches)
        self.begun = 0
        """Batches."""
        self.asked: dict[TopicPartition, tuple[int, ...]] = {}
        """The replicas that were last asked for, of topics that lived then."""

    def _batches(self) -> Iterator[list[TopicPartition]]:
        for first in range(0, len(self._partitions), self._size):
            yield self._partitions[first : first + self._size]

    async def run(self, address: Address) -> None:
        client = Administrator(address)
        await self._throttles.set_rates(AlterOperation.SET, "100000000")
        try:
            for batch in self._batches():
                self.begun += 1
                await self._throttles.begin(client, batch)
                targets = {tp: after(tp.partition) for tp in batch}
                # A reassignment puts the target first, also in its origin: Kafka's controller does the same.
                origins = {tp: ReplicaAssignment(before(tp.partition)).reassign_to(targets[tp]).origin for tp in batch}
                self.asked |= {tp: targets[tp] for tp in await move_partitions(client, targets)}
                cancelled = await cancel_moves(client, {tp: origins[tp] for tp in batch[::3]})
                self.asked |= {tp: origins[tp] for tp in cancelled}

                async def has_ended() -> bool:
                    return await moving(client) == set()

                await until(has_ended, f"nothing of batch {self.begun} moves any more", 60)
                await self._throttles.end(client, batch)
            await self._throttles.set_rates(AlterOperation.DELETE, None)
        finally:
            await client.close()


async def kill_meanwhile(cluster: LocalCluster, rebalance: Rebalance, batches: int) -> None:
    """Kill the active controller in every second batch."""
    assert batches > 2 * KILLS
    for number in range(1, KILLS + 1):

        async def is_due(number: int = number) -> bool:
            return rebalance.begun >= 2 * number

        await until(is_due, f"batch {2 * number} begins")
        await kill_controller(cluster)


BATCHES: Final = 8
FEW: Final = {**dict.fromkeys(DOOMED[:20], 2), **dict.fromkeys(LIVING[:12], 5)}


@pytest.mark.parametrize("partitions", [pytest.param(FEW, id="few"), pytest.param(PARTITIONS, id="many")])
async def test_client_moves_partitions_while_topics_are_deleted_and_the_controller_is_killed_three_times(
    partitions: dict[str, int],
) -> None:
    async with LocalCluster(storm_settings()) as cluster, cluster.session() as session:
        await create(session, partitions)
        doomed = tuple(name for name in partitions if name in DOOMED)
        living = tuple(name for name in partitions if name in LIVING)
        rebalance = Rebalance(partitions, BATCHES, Throttles(session))

        async def address() -> tuple[str, int]:
            return address_of(await cluster.active_controller())

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(rebalance.run(address))
            tasks.create_task(delete_topics(address, doomed, len(doomed) // 10))
            tasks.create_task(kill_meanwhile(cluster, rebalance, BATCHES))
        assert sorted(await names(session, paths.broker_topics())) == sorted(living)
        assert await assignments(session, living) == {
            tp: ReplicaAssignment(replicas) for tp, replicas in rebalance.asked.items() if tp.topic in LIVING
        }
        # Some moves were cancelled, and some were not.
        assert {replicas == after(tp.partition) for tp, replicas in rebalance.asked.items()} == {True, False}
        throttled = [*map(paths.config_topic, living), *map(paths.config_broker, BROKERS)]
        for at, now in zip(throttled, await settings(session, *throttled), strict=True):
            assert not {name: value for name, value in now.items() if value}, (at, now)
        await nothing_left_over(cluster, session)
