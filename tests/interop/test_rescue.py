"""Deletions that hang under Kafka's own controller, and are rescued: each is seen to be stuck first.

They are those that users report: a deletion interrupted between two znodes, a znode that nobody understands, brokers
that are gone or frozen, reassignments in the way, deletion switched off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.cluster.local import LocalCluster
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Data, Delete, Exists, GetData, Present, SetData
from lethe.protocol.zookeeper.znodes import (
    ConfigChange,
    TopicZnode,
    decode_topic,
    encode_config,
    encode_config_change,
    encode_reassignment,
    encode_topic,
)
from tests.fakes.zookeeper_cluster import apply, delete_tree
from tests.interop.clients import bootstrap, produce
from tests.interop.conditions import (
    controller,
    create,
    delete,
    directories,
    gone_everywhere,
    is_known_to_all,
    is_whole,
    plan,
    until,
)
from tests.interop.conftest import MakeCluster
from tests.interop.stuck import Story, epoch_of, nobody_in_control

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]

EVERYWHERE = [(1, 2, 3), (2, 3, 1)]


async def there_is(session: ZooKeeperSession, path: str) -> bool:
    (found,) = await session.read([Exists(path)])
    return isinstance(found, Present)


async def control_settles(session: ZooKeeperSession) -> None:
    """One of Kafka's controllers has control and keeps it."""

    async def keeps_it() -> bool:
        before = await epoch_of(session)
        await asyncio.sleep(3.0)
        return before == await epoch_of(session) and await controller(session) is not None

    await until(keeps_it, "one controller keeps control")


async def in_service(
    session: ZooKeeperSession, brokers: int, version: str, **topics: Sequence[tuple[int, ...]]
) -> None:
    """Creates them and waits until every replica is in sync."""
    await create(session, *(plan(name, *rows, version=version) for name, rows in topics.items()))
    await until(is_known_to_all(session, brokers, *topics), "all brokers know the topics")
    for name, rows in topics.items():
        await until(is_whole(session, name, rows), f"{name} is whole")


def living(cluster: LocalCluster, topic: str) -> list[str]:
    """Directories of the topic that no broker has begun to remove."""
    return [each for each in directories(cluster, topic) if not each.endswith("-delete")]


async def test_a_deletion_interrupted_between_two_znodes_makes_every_controller_fall_over(
    kafka_cluster: MakeCluster, version: str
) -> None:
    async with kafka_cluster(version, controllers=0) as cluster, cluster.session() as session:
        await in_service(session, 3, version, half=EVERYWHERE, other=EVERYWHERE, kept=EVERYWHERE)
        story = Story("A deletion interrupted between two znodes", version, cluster, session)
        async with nobody_in_control(cluster) as operator:
            (found,) = await operator.read([GetData(paths.topic("half"))])
            assert isinstance(found, Data)
            znode = decode_topic("half", found.data)
            moving = ReplicaAssignment((3, 1, 2), adding=(3,), removing=(2,))
            torn = TopicZnode({**znode.assignments, 0: moving}, znode.topic_id)
            await apply(
                operator,
                SetData(paths.topic("half"), encode_topic(torn), ANY_VERSION),
                Delete(paths.partition_state("half", 0)),
                Delete(paths.topic_partition("half", 0)),
                Create(paths.delete_topic("half"), None),
            )
        await delete(session, "other")
        before = await epoch_of(session)
        await story.stays_stuck("half", "other")
        elections = await epoch_of(session) - before
        assert elections >= 10, "controllers take turns at falling over"
        story.note("Meanwhile, of /controller_epoch", f"{elections} elections")

        ran = await story.rescue()
        assert ran.code == 0, ran
        await gone_everywhere(cluster, session, "half", "other")
        await control_settles(session)
        await story.look("Afterwards one of Kafka's controllers has control and keeps it", "half", "other", "kept")
        assert len(living(cluster, "kept")) == 6
        await until(is_whole(session, "kept", EVERYWHERE), "what nobody wanted gone is whole")
        story.finish()


@pytest.mark.slow
async def test_a_topic_znode_that_nobody_understands_holds_up_every_deletion(
    kafka_cluster: MakeCluster, version: str
) -> None:
    async with kafka_cluster(version, controllers=0) as cluster, cluster.session() as session:
        await in_service(session, 3, version, poison=EVERYWHERE, orders=EVERYWHERE)
        story = Story("A topic znode that nobody understands", version, cluster, session)
        (good,) = await session.read([GetData(paths.topic("poison"))])
        assert isinstance(good, Data)
        async with nobody_in_control(cluster) as operator:
            await apply(operator, SetData(paths.topic("poison"), b'{"version":2,"partitions":{"0":"1"}}', ANY_VERSION))
        await delete(session, "orders")
        await story.stays_stuck("orders")

        ran = await story.rescue()
        assert ran.code == 1, "the znode is still there for the others to fall over"
        assert "cannot be understood" in ran.out
        assert paths.topic("poison") in ran.out
        assert "orders is gone" in ran.out
        assert not await there_is(session, paths.topic("orders"))
        assert living(cluster, "orders") == []
        assert len(living(cluster, "poison")) == 6, "nothing is deleted that nobody asked for"

        await apply(session, SetData(paths.topic("poison"), good.data, ANY_VERSION))
        await control_settles(session)
        await gone_everywhere(cluster, session, "orders")
        await story.look("The znode repaired, one of Kafka's controllers keeps control", "orders", "poison")
        story.finish()


@pytest.mark.slow
async def test_a_broker_that_does_not_return_is_named_and_its_topics_wait_for_it(
    kafka_cluster: MakeCluster, version: str
) -> None:
    async with kafka_cluster(version, 4, controllers=0) as cluster, cluster.session() as session:
        topics: dict[str, Sequence[tuple[int, ...]]] = {
            "dead": [(1, 4)],
            "moving": [(1, 2)],
            "byhand": [(1, 2, 4)],
            "kept": [(1, 2, 3)],
        }
        await in_service(session, 4, version, **topics)
        holder = await controller(session)
        await cluster.kafka_broker(4).kill()

        async def is_away() -> bool:
            return not await there_is(session, paths.broker_id(4)) and (await controller(session)) is not None

        await until(is_away, "broker 4 is away and somebody in control")
        story = Story("A broker that does not return", version, cluster, session)
        target = {TopicPartition("moving", 0): (1, 4), TopicPartition("forgotten", 0): (1, 2)}
        await apply(session, Create(paths.REASSIGN_PARTITIONS, encode_reassignment(target)))
        await asyncio.sleep(2.0)
        # Written again it is looked at by nobody: what is in it stays for ever.
        if await there_is(session, paths.REASSIGN_PARTITIONS):
            await apply(session, SetData(paths.REASSIGN_PARTITIONS, encode_reassignment(target), ANY_VERSION))
        await delete(session, "dead", "moving", "byhand")
        await asyncio.sleep(2.0)
        await delete_tree(session, paths.topic("byhand"))
        story.note(
            "Told", "broker 4 was killed; moving was to go to it; the znode of byhand was removed by hand afterwards"
        )
        await story.stays_stuck("dead", "moving")

        ran = await story.rescue()
        assert ran.code == 1, ran
        # One line for both, unless they wait since different seconds.
        assert "2 topics (dead, moving) remain:" in ran.out or (
            "dead remains:" in ran.out and "moving remains:" in ran.out
        )
        waits = [line for line in ran.out.splitlines() if line.startswith("    ")]
        assert len(waits) in (1, 2), "every other broker has deleted its replicas"
        assert all("waits for broker 4, which is not registered in ZooKeeper" in line for line in waits)
        await story.look(
            "Back in control, Kafka's controller has the other replicas made again, empty", "dead", "moving"
        )
        assert not await there_is(session, paths.REASSIGN_PARTITIONS)
        assert not await there_is(session, paths.delete_topic("byhand"))
        assert len(living(cluster, "kept")) == 3
        assert holder is not None

        await cluster.kafka_broker(4).start()
        again = await story.rescue()
        assert again.code == 0, again
        left = [name for name in ("dead", "moving") if (await topic_znodes.list_topics(session)).names.count(name)]
        assert left == []
        await until(lambda: _nothing_living(cluster, "dead", "moving"), "all replicas are gone")
        await story.look("Broker 4 has returned", "dead", "moving", "byhand")
        story.finish()


async def _nothing_living(cluster: LocalCluster, *topics: str) -> bool:
    return not any(living(cluster, topic) for topic in topics)


@pytest.mark.slow
async def test_a_frozen_controller_is_replaced_and_its_own_replicas_are_waited_for(
    kafka_cluster: MakeCluster, version: str
) -> None:
    """It holds `/controller` for as long as its session lasts, and that can be set to minutes."""
    long = {"zookeeper.session.timeout.ms": "120000"}
    async with kafka_cluster(version, controllers=0, properties=long) as cluster, cluster.session() as session:
        holder = await controller(session)
        assert holder is not None
        frozen = int(holder.broker_id)
        others = [number for number in (1, 2, 3) if number != frozen]
        rows: list[tuple[int, ...]] = [tuple(others), (*others, frozen)]
        await in_service(session, 3, version, orders=rows)
        story = Story("A controller that is frozen", version, cluster, session)
        cluster.kafka_broker(frozen).pause()
        try:
            await delete(session, "orders")
            story.note("Told", f"the process of broker {frozen}, which is in control, was stopped (SIGSTOP)")
            await story.stays_stuck("orders")
            assert len(living(cluster, "orders")) == 5

            ran = await story.rescue("--patience-ms", "8000")
            assert ran.code == 1, ran
            assert f"waits for broker {frozen}, which is registered but does not answer" in ran.out
            assert [each for each in living(cluster, "orders") if not each.startswith(f"{frozen}/")] == []
            after = await controller(session)
            assert after is not None
            assert int(after.broker_id) in others, "Kafka has another controller now"
            await story.look("The frozen one still sleeps", "orders")
        finally:
            cluster.kafka_broker(frozen).resume()
        await gone_everywhere(cluster, session, "orders")
        final = await controller(session)
        assert final is not None
        assert final.broker_id == after.broker_id, "who was robbed stands by"
        await story.look("It was woken, and Kafka's new controller has finished", "orders")
        story.finish()


@pytest.mark.slow
async def test_deletion_switched_off_is_respected_unless_somebody_says_otherwise(
    kafka_cluster: MakeCluster, version: str
) -> None:
    off = {"delete.topic.enable": "false"}
    async with kafka_cluster(version, controllers=0, properties=off) as cluster, cluster.session() as session:
        await in_service(session, 3, version, orders=EVERYWHERE, kept=EVERYWHERE)
        story = Story("Deletion is switched off", version, cluster, session)
        await delete(session, "orders")

        async def is_dropped() -> bool:
            return not await there_is(session, paths.delete_topic("orders"))

        await until(is_dropped, "Kafka's controller drops the marker")
        await story.look("Kafka's controller drops the marker, and that is all", "orders")

        ran = await story.rescue("--topic", "orders")
        assert ran.code == 1
        assert "delete.topic.enable is false" in ran.err
        assert len(living(cluster, "orders")) == 6

        ran = await story.rescue("--topic", "orders", "--even-if-disabled")
        assert ran.code == 0, ran
        await gone_everywhere(cluster, session, "orders")
        await story.look("Afterwards", "orders", "kept")
        assert len(living(cluster, "kept")) == 6
        story.finish()


@pytest.mark.slow
async def test_a_reassignment_that_crawls_holds_up_a_deletion_although_every_broker_is_alive(
    kafka_cluster: MakeCluster, version: str
) -> None:
    """A throttle that somebody forgot. After a failover Kafka's controller deletes no topic that is being moved."""
    slow = {"replica.fetch.max.bytes": "1024", "replica.fetch.response.max.bytes": "1024"}
    async with kafka_cluster(version, controllers=0, properties=slow) as cluster, cluster.session() as session:
        config = {"leader_replication_throttled_replicas": "*", "follower_replication_throttled_replicas": "*"}
        await create(session, plan("moving", (1, 2), version=version, **config))
        await until(is_whole(session, "moving", [(1, 2)]), "moving is whole")
        throttle = {"leader.replication.throttled.rate": "1", "follower.replication.throttled.rate": "1"}
        await produce(bootstrap(cluster), "moving", range(4_000))
        await session.ensure_path(paths.config_changes())
        for broker in (1, 2, 3):
            await apply(
                session,
                Create(paths.config_broker(broker), encode_config(throttle)),
                Create(paths.config_change(), encode_config_change(ConfigChange(f"brokers/{broker}")), sequential=True),
            )
        await asyncio.sleep(2.0)
        target = {TopicPartition("moving", 0): (1, 3)}
        async with nobody_in_control(cluster) as operator:
            await apply(operator, Create(paths.REASSIGN_PARTITIONS, encode_reassignment(target)))
        await until(lambda: there_is_adding(session, "moving"), "Kafka's controller has begun to move it")
        async with nobody_in_control(cluster) as operator:
            await apply(operator, Create(paths.delete_topic("moving"), None))
        story = Story("A reassignment that crawls", version, cluster, session)

        async def has_arrived() -> bool:
            return "3/moving-0" in living(cluster, "moving") and (await controller(session)) is not None

        await until(has_arrived, "broker 3 has a directory for it")
        story.note("Told", "moving goes from broker 2 to broker 3 under a throttle of one byte a second")
        await story.stays_stuck("moving")

        ran = await story.rescue()
        assert ran.code == 0, ran
        await gone_everywhere(cluster, session, "moving")
        await story.look("Afterwards", "moving")
        story.finish()


async def there_is_adding(session: ZooKeeperSession, topic: str) -> bool:
    """The topic's znode says that a replica is being added."""
    (found,) = await session.read([GetData(paths.topic(topic))])
    if not isinstance(found, Data):
        return False
    return any(each.adding for each in decode_topic(topic, found.data).assignments.values())
