"""Control changes hands while topics are in the trash of real brokers, and they come back as they were."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiokafka import AIOKafkaConsumer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.trash import read_trash
from lethe.cluster.local import LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Exists, Present
from lethe.protocol.zookeeper.znodes import TrashPhase
from tests.fakes.command_line import Lethe
from tests.interop.clients import Stored, bootstrap, produce, read_all
from tests.interop.conditions import complaints, create, is_known_to_all, is_whole, kafka_leads, plan, until
from tests.interop.conftest import MakeCluster
from tests.interop.trashed_topics import (
    GROUPS,
    PROPERTIES,
    SHORT,
    Bytes,
    Kept,
    are_out_of_the_trash,
    bytes_on_disk,
    commit_to_all,
    expected_offsets,
    identities,
    kept_of,
    needs_topic_ids,
    produce_to_all,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(900),
]

INSISTING = {"controller.takeover": "always", "controller.takeover.interval.ms": "1000"}
NAMES = [f"t{number}" for number in range(SHORT.topics)]
ROWS = SHORT.rows(0)


async def into_the_trash(
    cluster: LocalCluster, session: ZooKeeperSession, lethe: Lethe, version: str
) -> tuple[dict[str, Kept], Bytes]:
    """Topics with records, settings and committed offsets go into the trash, and one of the same kind stays; what the
    former had."""
    settings = {"retention.ms": "3600000", "max.message.bytes": "500000"}
    await create(session, *(plan(name, *ROWS, version=version, **settings) for name in (*NAMES, "stays")))
    await until(is_known_to_all(session, 2, *NAMES, "stays"), "all brokers know the topics")
    for name in (*NAMES, "stays"):
        await until(is_whole(session, name, ROWS), f"{name} is whole")
    await produce_to_all(cluster, NAMES, SHORT)
    await commit_to_all(cluster, NAMES, SHORT)
    before, stored = await kept_of(cluster, NAMES, SHORT), bytes_on_disk(cluster, NAMES)
    assert {name: each.committed for name, each in before.items()} == expected_offsets(NAMES, SHORT)
    assert sum(len(each.records) for each in before.values()) == SHORT.topics * SHORT.records
    assert len(stored) == 2 * len(ROWS) * len(NAMES)
    gone = await lethe("topics", "delete", "--grace", "1h", "--wait", "--yes", *NAMES)
    assert gone.code == 0, gone
    await are_kept(cluster, session, stored)
    return before, stored


async def are_kept(cluster: LocalCluster, session: ZooKeeperSession, stored: Bytes) -> None:
    """They are in the trash, with every byte."""
    entries = await session.read([Exists(paths.trashed(name)) for name in NAMES])
    assert all(isinstance(each, Present) for each in entries)
    assert set((await identities(session, NAMES)).values()) == {None}
    assert bytes_on_disk(cluster, NAMES) == stored


async def are_as_before(cluster: LocalCluster, session: ZooKeeperSession, before: dict[str, Kept]) -> None:
    await are_out_of_the_trash(session, NAMES, SHORT.limit_s)
    for name in NAMES:
        await until(is_whole(session, name, ROWS), f"{name} is whole again", SHORT.limit_s)
    assert await kept_of(cluster, NAMES, SHORT) == before
    more = await produce(bootstrap(cluster), NAMES[0], range(1_000, 1_010))
    assert len(more) == 10, "and it is in service"


async def goes_on(cluster: LocalCluster, numbers: range, stored: Sequence[Stored]) -> list[Stored]:
    """The topic in service takes more records, and has all of them."""
    now = [*stored, *await produce(bootstrap(cluster), "stays", numbers)]
    assert len(now) == len(stored) + len(numbers)
    assert sorted(await read_all(bootstrap(cluster), "stays", len(ROWS))) == sorted(now)
    return now


async def test_kafkas_controller_in_between_loses_nothing_of_the_trash(
    kafka_cluster: MakeCluster, version: str
) -> None:
    """Each broker restarts under Kafka's controller, so that both of them lead it, and load the logs anew."""
    needs_topic_ids(version)
    async with (
        kafka_cluster(
            version, brokers=2, listed=True, properties=PROPERTIES, controller_properties=INSISTING
        ) as cluster,
        cluster.session() as session,
    ):
        lethe = Lethe(cluster.zookeeper_connect)
        before, stored = await into_the_trash(cluster, session, lethe, version)
        others = await goes_on(cluster, range(10), [])
        assert await cluster.controllers[0].stop() == 0
        led = set()
        for broker in cluster.kafka_brokers:
            led.add(await kafka_leads(session))
            await are_kept(cluster, session, stored)
            await broker.stop()
            await broker.start()
            await until(is_whole(session, "stays", ROWS), "stays is whole after the restart")
            others = await goes_on(cluster, range(broker.id * 100, broker.id * 100 + 10), others)
        led.add(await kafka_leads(session))
        assert led == {1, 2}, "both of Kafka's controllers were in charge"
        await are_kept(cluster, session, stored)
        refused = await lethe("topics", "undelete", *NAMES)
        assert refused.code != 0, refused
        await are_kept(cluster, session, stored)

        await cluster.controllers[0].start()
        await cluster.active_controller()
        await are_kept(cluster, session, stored)
        back = await lethe("topics", "undelete", *NAMES)
        assert back.code == 0, back
        await are_as_before(cluster, session, before)
        await goes_on(cluster, range(1_000, 1_010), others)
        assert complaints(cluster) == []


async def phases(session: ZooKeeperSession) -> set[TrashPhase | None]:
    """The phases of all entries; None: one that cannot be understood."""
    return {None if view.entry is None else view.entry.phase for view in await read_trash(session)}


@asynccontextmanager
async def member(cluster: LocalCluster, group: str) -> AsyncIterator[None]:
    """A consumer of the topic in service, so that nobody else commits offsets of its group."""
    consumer = AIOKafkaConsumer("stays", bootstrap_servers=bootstrap(cluster), group_id=group, enable_auto_commit=False)
    async with consumer:

        async def has_joined() -> bool:
            return len(consumer.assignment()) == len(ROWS)

        await until(has_joined, f"a member of {group} has joined")
        yield


async def test_another_controller_of_ours_brings_topics_back(kafka_cluster: MakeCluster, version: str) -> None:
    """The first is killed while they are in the trash, the second while offsets of a group with a member wait."""
    needs_topic_ids(version)
    async with (
        kafka_cluster(
            version, brokers=2, controllers=2, listed=True, properties=PROPERTIES, controller_properties=INSISTING
        ) as cluster,
        cluster.session() as session,
    ):
        lethe, waiting = Lethe(cluster.zookeeper_connect), GROUPS[0]
        before, stored = await into_the_trash(cluster, session, lethe, version)
        first = await cluster.active_controller()
        await first.kill()
        second = await cluster.active_controller()
        assert second is not first
        await are_kept(cluster, session, stored)
        await first.start()

        async with member(cluster, waiting):
            back = await lethe("topics", "undelete", *NAMES)
            assert back.code == 0, back

            async def wait_for_the_group() -> bool:
                return await phases(session) == {TrashPhase.OFFSETS}

            await until(wait_for_the_group, "only offsets of the group with a member are left")
            await second.kill()
            assert await cluster.active_controller() is first
            found = await kept_of(cluster, NAMES, SHORT)
            assert await phases(session) == {TrashPhase.OFFSETS}
            for name in NAMES:
                was = before[name]
                assert found[name] == replace(was, committed={**was.committed, waiting: [None] * len(ROWS)})
        await are_as_before(cluster, session, before)
