"""Topics with remote segments: which of these a deletion removes, and which it leaves, under either controller.

A broker deletes the remote segments of a partition together with its replica, where its process leads the partition.
So the leader runs, sleeps through a takeover, or restarts during the deletion. The remote storage is Kafka's
`LocalTieredStorage`, a directory that both brokers share.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.rescue_control import RescueController, TakeoverSettings, in_control
from lethe.cluster.kafka import KafkaBroker
from lethe.cluster.kafka_fetch import KafkaUnavailable, KafkaVersion
from lethe.cluster.local import LocalCluster
from lethe.controller.core.scope import EVERYTHING
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Delete
from tests.fakes.tiered_storage import (
    broker_properties,
    fetch_local_tiered_storage,
    remote_files,
    why_not,
)
from tests.fakes.zookeeper_cluster import apply
from tests.interop.clients import bootstrap, produce
from tests.interop.conditions import (
    controller,
    create,
    delete,
    gone_everywhere,
    is_known_to_all,
    is_whole,
    kafka_leads,
    plan,
    until,
)
from tests.interop.conftest import MakeCluster
from tests.interop.stuck import epoch_of, take
from tests.interop.test_lost_and_found import explanation, holders

pytestmark = [
    pytest.mark.interop,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

logger = logging.getLogger(__name__)
INITIALIZED = "Initialized topic-based RLMM resources successfully"
CONTROLLERS = [pytest.param(False, id="kafka"), pytest.param(True, id="lethe")]
RECORDS = range(1_000)
SEGMENT_BYTES = 20_000
"""More than one batch of the producer."""
BROKERS = 2


@dataclass(frozen=True, slots=True)
class Tiered:
    """A cluster of two real brokers; `leader` leads every topic of a test and is not in control."""

    version: str
    cluster: LocalCluster
    session: ZooKeeperSession
    storage: Path
    leader: KafkaBroker
    follower: KafkaBroker

    def remote(self, *topics: str) -> list[str]:
        """Files of these topics in remote storage."""
        return [name for topic in topics for name in remote_files(self.storage, topic)]

    async def is_deleted_by_follower(self, topic: str) -> None:
        """Waits until the leader alone has a replica."""

        async def condition() -> bool:
            return holders(self.cluster, topic) == {self.leader.id}

        await until(condition, f"broker {self.follower.id} has deleted its replica of {topic}")

    async def gone(self, *topics: str) -> None:
        """Waits until these are gone from ZooKeeper, metadata caches and local disks."""
        await gone_everywhere(self.cluster, self.session, *topics)
        logger.info("Kafka %s: %s gone, %d remote files left", self.version, topics, len(self.remote(*topics)))

    async def elect_again(self) -> None:
        """Has Kafka's brokers elect a controller; a broker that sleeps cannot be elected."""
        epoch = await epoch_of(self.session)
        await apply(self.session, Delete(paths.CONTROLLER))

        async def is_elected() -> bool:
            return await epoch_of(self.session) > epoch

        await until(is_elected, "a controller is elected")
        await kafka_leads(self.session)

    async def under_lethe(self, work: Callable[[], Awaitable[None]]) -> None:
        """Has Lethe take control, do this, and give control back."""
        ibp = InterBrokerProtocol.parse(KafkaVersion.parse(self.version).inter_broker_protocol)
        means = TakeoverSettings(self.cluster.zookeeper_connect, BrokerId(1999), ibp, BrokerReach("PLAINTEXT"))

        async def elected(guest: RescueController) -> None:
            await guest.elected()
            await work()

        await in_control(means, EVERYTHING, elected)


# --- the cluster --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def tiered(
    kafka_cluster: MakeCluster, version: str, directory: Path, *topics: str, controllers: int = 0
) -> AsyncIterator[Tiered]:
    """Makes it, under Lethe where it has controllers, and waits until every closed segment is in remote storage.

    Both brokers have a replica of each topic, except of `alone`, of which the leader has the only one.
    """
    parsed = KafkaVersion.parse(version)
    if reason := why_not(parsed):
        pytest.skip(reason)
    try:
        jar = fetch_local_tiered_storage(parsed, print)
    except KafkaUnavailable as error:
        pytest.skip(str(error))
    storage = directory / "remote"
    properties = broker_properties(jar, storage)
    async with (
        # Brokers with several log directories refuse tiered storage. A controller that is not listed serves no producer
        # ids, which brokers need to write the metadata of remote segments.
        kafka_cluster(
            version, BROKERS, controllers=controllers, listed=True, log_dirs=1, properties=properties
        ) as cluster,
        cluster.session() as session,
    ):
        holder = await controller(session)
        assert holder is not None
        leader = next(broker for broker in cluster.kafka_brokers if broker.id != holder.broker_id)
        (follower,) = (broker for broker in cluster.kafka_brokers if broker is not leader)
        await remote_metadata_is_served(cluster)
        made = Tiered(version, cluster, session, storage, leader, follower)
        for topic in topics:
            await create_tiered(made, topic, (leader.id,) if topic == "alone" else (leader.id, follower.id))
            await fill(made, topic)
        yield made


async def remote_metadata_is_served(cluster: LocalCluster) -> None:
    """Waits until both brokers can read and write the metadata of remote segments."""
    for broker in cluster.kafka_brokers:

        async def condition(broker: KafkaBroker = broker) -> bool:
            return INITIALIZED in broker.process.output()

        await until(condition, f"broker {broker.id} has initialized its remote log metadata manager")


async def create_tiered(made: Tiered, topic: str, row: Sequence[int]) -> None:
    """A topic of one partition that keeps little on local disks."""
    settings = {
        "remote_storage_enable": "true",
        "segment_bytes": str(SEGMENT_BYTES),
        "local_retention_bytes": str(SEGMENT_BYTES),
    }
    await create(made.session, plan(topic, row, version=made.version, **settings))
    await until(is_known_to_all(made.session, BROKERS, topic), f"both brokers know {topic}")
    await until(is_whole(made.session, topic, [row]), f"{topic} is whole")


async def fill(made: Tiered, topic: str) -> None:
    """Writes records; every segment that they fill is copied."""
    await produce(bootstrap(made.cluster), topic, RECORDS)

    async def is_copied() -> bool:
        *closed, _ = local_segments(made.leader, topic)
        copied = remote_segments(made, topic)
        return bool(closed) and len(copied) >= len(RECORDS) * 100 // SEGMENT_BYTES and set(closed) <= set(copied)

    await until(is_copied, f"every closed segment of {topic} is in remote storage")


def local_segments(broker: KafkaBroker, topic: str) -> list[int]:
    """First offsets of the segments on its disk; the last one is not closed."""
    return sorted(int(found.stem) for log_dir in broker.log_dirs for found in log_dir.glob(f"{topic}-0/*.log"))


def remote_segments(made: Tiered, topic: str) -> list[int]:
    """First offsets of the segments in remote storage."""
    return sorted(int(Path(name).name.partition("-")[0]) for name in made.remote(topic) if name.endswith(".log"))


# --- the leader's process lives -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lethe", CONTROLLERS)
async def test_a_leader_that_runs_deletes_remote_segments(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path, lethe: bool
) -> None:
    async with tiered(kafka_cluster, version, tmp_path, "orders", "kept", controllers=int(lethe)) as made:
        kept = made.remote("kept")
        await delete(made.session, "orders")
        await made.gone("orders")
        assert made.remote("orders") == []
        assert made.remote("kept") == kept


@pytest.mark.parametrize("lethe", CONTROLLERS)
async def test_a_leader_that_sleeps_through_a_takeover_deletes_remote_segments(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path, lethe: bool
) -> None:
    """Kafka's controller begins the deletion, another one ends it. Kafka's sends the leader a LeaderAndIsr with leader
    -1 first, Lethe's sends none; neither takes the leadership from the leader's process."""
    async with tiered(kafka_cluster, version, tmp_path, "orders") as made:
        made.leader.pause()
        await delete(made.session, "orders")
        await made.is_deleted_by_follower("orders")
        assert made.remote("orders") != []

        async def wake() -> None:
            made.leader.resume()
            await made.gone("orders")

        if lethe:
            await made.under_lethe(wake)
        else:
            await made.elect_again()
            await wake()
        assert made.remote("orders") == []


# --- the leader's process ends ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lethe", CONTROLLERS)
async def test_a_leader_that_restarts_in_the_deletion_leaves_remote_segments(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path, lethe: bool
) -> None:
    """`orders`: it sleeps when it is to delete, and is killed. `alone`: it is away when the topic is marked."""
    async with tiered(kafka_cluster, version, tmp_path, "orders", "alone", controllers=int(lethe)) as made:
        before = made.remote("orders", "alone")
        made.leader.pause()
        await delete(made.session, "orders")
        await made.is_deleted_by_follower("orders")
        await made.leader.kill()
        await made.leader.wait_forgotten()
        await delete(made.session, "alone")
        for topic in ("orders", "alone"):
            assert f"{topic} has segments in remote storage, which lethe does not look at" in await explanation(
                made.cluster, topic
            )
        await made.leader.start()
        await made.gone("orders", "alone")
        assert made.remote("orders", "alone") == before


async def test_a_leader_that_restarts_before_a_takeover_leaves_remote_segments_and_holds_nothing_up(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path
) -> None:
    """`begun`: Kafka's controller has begun the deletion and written leader -1. `marked`: nobody is in control when it
    is marked, and its state znode names the leader that restarts. Kafka's controller announces that leader, which
    answers StopReplica with an error then, and halts the deletion."""
    async with tiered(kafka_cluster, version, tmp_path, "begun", "marked") as made:
        before = made.remote("begun", "marked")
        made.leader.pause()
        await delete(made.session, "begun")
        await made.is_deleted_by_follower("begun")
        async with made.cluster.session() as nobody:
            await take(nobody)
            await made.leader.kill()
            await delete(made.session, "marked")
            await made.leader.start()
            assert set((await topic_znodes.list_topics(made.session)).marked) == {"begun", "marked"}
            await made.under_lethe(lambda: made.gone("begun", "marked"))
        assert made.remote("begun", "marked") == before
