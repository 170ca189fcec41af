"""A real broker that keeps its session, answers nothing (SIGSTOP) and hosts nothing of a topic that is deleted.

The deletion ends, and the broker owes the answer to the tombstone. It drops the topic as soon as it answers again, also
where a new topic has the name by then. A controller that is stopped meanwhile waits for the answer, or says that it
leaves without it; afterwards one of Kafka's controllers has control, which would not send the tombstone again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.refusal import Exit
from lethe.cluster.daemons import ControllerDaemon
from lethe.cluster.kafka import KafkaBroker
from lethe.cluster.local import LocalCluster
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Exists, Present
from tests.fakes.command_line import Lethe
from tests.interop.clients import bootstrap, produce, read_all, value
from tests.interop.conditions import (
    answers,
    complaints,
    create,
    delete,
    is_known_to_all,
    is_whole,
    kafka_leads,
    plan,
    until,
)
from tests.interop.conftest import MakeCluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(900),
]

LIMIT_MS = 1_500
SESSION_MS = 400_000
"""So long a stopped broker is registered."""
SILENT = 3
BESIDE = [(1, 2), (2, 1), (1, 2)]
"""Replicas on the other two brokers."""
AGAIN = [(2, 1), (1, 2)]
"""One partition less: a cache that shows three has the old topic, also where Kafka knows no topic ids."""
EVERYWHERE = [(1, 2, 3), (3, 1, 2)]
OLD, NEW = range(200), range(1_000_000, 1_000_200)


@pytest.fixture
def patient_zookeeper() -> Iterator[str]:
    """One that allows sessions as long as that."""
    with EmbeddedZooKeeper(ZooKeeperSettings(tick_time_ms=4_000)) as zookeeper:
        yield zookeeper.connect_string


def a_cluster(make: MakeCluster, version: str, zookeeper: str, grace_ms: int) -> LocalCluster:
    """Three brokers, one of which stays registered while it is stopped, and one controller of ours."""
    return make(
        version,
        zookeeper_connect=zookeeper,
        controller_properties={
            "lethe.tombstone.timeout.ms": str(LIMIT_MS),
            "lethe.stop.grace.ms": str(grace_ms),
            "controller.takeover": "always",
            "controller.takeover.interval.ms": "1000",
        },
        own_properties={SILENT: {"zookeeper.session.timeout.ms": str(SESSION_MS)}},
    )


async def in_service(session: ZooKeeperSession, version: str, **topics: Sequence[tuple[int, ...]]) -> None:
    await create(session, *(plan(name, *rows, version=version) for name, rows in topics.items()))
    for name, rows in topics.items():
        await until(is_whole(session, name, rows), f"{name} is whole")
    await until(is_known_to_all(session, 3, *topics), f"all brokers know {sorted(topics)}")


async def caches(session: ZooKeeperSession, topic: str) -> dict[int, CachedTopic | None]:
    """What the brokers that answer show of the topic."""
    return {int(told.broker): told.cache.get(topic) for told in await answers(session) if told.cache is not None}


async def has_no_ghost(session: ZooKeeperSession, topic: str) -> None:
    """Nobody would drop one, so what all three brokers show once decides."""
    shown: dict[int, CachedTopic | None] = {}

    async def all_answer() -> bool:
        shown.update(await caches(session, topic))
        return shown.keys() == {1, 2, SILENT}

    await until(all_answer, "all brokers show their caches")
    assert set(shown.values()) == {None}, shown


async def is_registered(session: ZooKeeperSession, broker: int) -> bool:
    (found,) = await session.read([Exists(paths.broker_id(broker))])
    return isinstance(found, Present)


async def ends_without_it(session: ZooKeeperSession, silent: KafkaBroker, topic: str) -> None:
    """The broker is stopped, the topic deleted: its znodes go although the broker is registered and says nothing."""
    silent.pause()
    await delete(session, topic)

    async def is_gone() -> bool:
        listed = await topic_znodes.list_topics(session)
        return topic not in {*listed.names, *listed.marked}

    await until(is_gone, f"the znodes of {topic} are gone")
    assert await is_registered(session, SILENT)
    assert SILENT not in await caches(session, topic), "it answers nothing"


async def names_what_is_unseen(lethe: Lethe) -> None:
    """The survey finds nothing left over, and says that it has not seen the silent broker."""
    surveyed = await lethe("survey")
    assert surveyed.code == Exit.UNREACHABLE, surveyed
    assert "Nothing is left over, as far as could be seen." in surveyed.out
    assert f"broker {SILENT}" in surveyed.out, surveyed


def says(controller: ControllerDaemon, words: str) -> bool:
    return words in controller.process.output()


async def test_a_deletion_ends_without_a_silent_broker_which_never_mixes_up_the_next_topic_of_the_name(
    kafka_cluster: MakeCluster, patient_zookeeper: str, version: str
) -> None:
    async with (
        a_cluster(kafka_cluster, version, patient_zookeeper, 500) as cluster,
        cluster.session() as session,
    ):
        lethe = Lethe(cluster.zookeeper_connect)
        silent = cluster.kafka_broker(SILENT)
        await in_service(session, version, orders=BESIDE, kept=EVERYWHERE)
        await produce(bootstrap(cluster), "orders", OLD)
        kept = sorted(await produce(bootstrap(cluster), "kept", OLD))
        await ends_without_it(session, silent, "orders")
        try:
            explained = await lethe("explain", "orders", "--timeout-ms", "5000")
            assert explained.code == 3, explained
            assert "gone as far as could be seen" in explained.out
            assert f"broker {SILENT} has not confirmed that its metadata cache has dropped it" in explained.out
            everything = await lethe("explain", "--all", "--timeout-ms", "5000")
            assert f"Broker {SILENT} has not confirmed that its metadata cache has dropped 1 topic" in everything.out
            await names_what_is_unseen(lethe)

            await create(session, plan("orders", *AGAIN, version=version))
            await until(is_whole(session, "orders", AGAIN), "the new topic is whole")

            async def others_know_it() -> bool:
                shown = await caches(session, "orders")
                return shown.keys() == {1, 2} and all(
                    each is not None and each.partitions == (0, 1) for each in shown.values()
                )

            await until(others_know_it, "brokers 1 and 2 show the new topic")
            assert await is_registered(session, SILENT)
        finally:
            silent.resume()

        seen: list[CachedTopic | None] = []

        async def has_the_new_one() -> bool:
            shown = await caches(session, "orders")
            if SILENT in shown:
                seen.append(shown[SILENT])
            return shown.keys() == {1, 2, SILENT} and len(set(shown.values())) == 1

        await until(has_the_new_one, f"broker {SILENT} shows what the others show")
        assert seen[-1] is not None
        assert seen[-1].partitions == (0, 1)
        for each in seen:
            assert each in (None, seen[-1]) or each.partitions == (0, 1, 2), f"old and new are mixed: {each}"
        stored = await produce(bootstrap(cluster), "orders", NEW)
        assert sorted(await read_all(bootstrap(cluster), "orders", len(AGAIN))) == sorted(stored)
        on_disk = [
            file.read_bytes()
            for log_dirs in cluster.log_dirs.values()
            for log_dir in log_dirs
            for file in log_dir.glob("orders-?/*.log")
        ]
        assert any(value(NEW[0]) in content for content in on_disk)
        assert not any(value(number) in content for number in OLD for content in on_disk)
        assert sorted(await read_all(bootstrap(cluster), "kept", len(EVERYWHERE))) == kept

        async def is_settled() -> bool:
            return (await lethe("explain", "--all")).code == 0

        await until(is_settled, "nothing is owed")
        assert complaints(cluster) == []


async def test_a_controller_that_is_stopped_waits_for_the_answer_and_otherwise_says_what_it_leaves(
    kafka_cluster: MakeCluster, patient_zookeeper: str, version: str
) -> None:
    async with (
        a_cluster(kafka_cluster, version, patient_zookeeper, 100_000) as cluster,
        cluster.session() as session,
    ):
        (ours,) = cluster.controllers
        silent = cluster.kafka_broker(SILENT)
        await in_service(session, version, orders=BESIDE, payments=BESIDE, kept=EVERYWHERE)

        # It answers within the grace.
        await ends_without_it(session, silent, "orders")
        stopping = asyncio.create_task(ours.stop(110.0))
        try:

            async def it_waits() -> bool:
                return says(ours, f"waiting up to 100 s for broker {SILENT}")

            await until(it_waits, "the controller waits")
            assert ours.is_running
        finally:
            silent.resume()
            code = await stopping
        assert code == 0, ours.process.output_tail()
        assert not says(ours, f"broker {SILENT} has not confirmed that its metadata cache has dropped topic orders")
        await kafka_leads(session)
        await has_no_ghost(session, "orders")
        # What Kafka's controller announces afterwards brings nothing back.
        await in_service(session, version, later=EVERYWHERE)
        await has_no_ghost(session, "orders")

        # It does not answer.
        ours.properties["lethe.stop.grace.ms"] = "500"
        await ours.start()
        await cluster.active_controller()
        await ends_without_it(session, silent, "payments")
        try:
            assert await ours.stop(60.0) == 4, ours.process.output_tail()
            assert says(ours, f"waiting up to 0.5 s for broker {SILENT}")
            assert says(ours, f"broker {SILENT} has not confirmed that its metadata cache has dropped topic payments")
            assert await kafka_leads(session) in (1, 2)
            await names_what_is_unseen(Lethe(cluster.zookeeper_connect))
        finally:
            silent.resume()
        await until(is_known_to_all(session, 3, "kept", "later"), "the broker is back")
