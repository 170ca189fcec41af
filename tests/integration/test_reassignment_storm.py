"""Half of a busy cluster is deleted while all of it is being moved and its controllers are killed: nothing is left."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_plans import TopicPlan
from lethe.admin.topic_znodes import create_topics, mark_for_deletion
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.vocabulary import ReplicaAssignment, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Children, Create, Data, GetChildren, GetData, MultiDone
from lethe.survey.leftovers import leftovers
from lethe.survey.take import take_survey

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


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not await condition():
        assert time.monotonic() < deadline, f"not within {LIMIT_S:g} s: {what}"
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


async def in_service(session: ZooKeeperSession) -> bool:
    """Every partition has a state."""
    wanted = [GetData(paths.partition_state(name, n)) for name, count in PARTITIONS.items() for n in range(count)]
    return all(isinstance(outcome, Data) for outcome in await session.read(wanted))


async def test_500_topics_deleted_while_2000_partitions_move_and_the_controller_is_killed_three_times() -> None:
    settings = ClusterSettings(
        brokers=len(BROKERS),
        controllers=2,
        broker_properties={
            "replica.catch.up.delay.ms": "200",
            "lethe.fill.bytes": "4096",
            "log.segment.delete.delay.ms": "1000",
        },
    )
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        plans = [
            TopicPlan(name, fresh_topic_id(), tuple(before(number) for number in range(count)))
            for name, count in PARTITIONS.items()
        ]
        await create_topics(session, plans)
        await until(lambda: in_service(session), "every partition has a leader")

        targets = {TopicPartition(name, n): after(n) for name, count in PARTITIONS.items() for n in range(count)}
        assert len(targets) == 2000
        data = znodes.encode_reassignment(targets)
        assert isinstance(await session.multi((Create(paths.reassign_partitions(), data),)), MultiDone)

        async def moving() -> bool:
            return any(a.is_being_reassigned for a in (await assignments(session, LIVING)).values())

        await until(moving, "the first partition moves")
        await mark_for_deletion(session, DOOMED)
        for _ in range(KILLS):
            controller = await cluster.active_controller(60)
            await controller.kill()
            await controller.start(60)
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

        async def clean() -> bool:
            return not leftovers(await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs))

        await until(clean, "the survey finds nothing left over")
