"""Replicas that are out of reach while their topic is deleted, and come back: on a disk that failed, in a broker that
slept.

What comes back belongs to a topic that nobody wants any more. It must not be forgotten, and nobody may find it under
the same name afterwards: the deletion waits, says for what, and ends when it is there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.refusal import Exit
from lethe.cluster.kafka import KafkaBroker
from lethe.cluster.local import LocalCluster
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import BrokerId, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, Exists, GetData, Present
from lethe.protocol.zookeeper.znodes import decode_topic
from lethe.survey.directories import read_log_dir
from lethe.survey.leftovers import leftovers
from lethe.survey.views import Directory
from tests.fakes.command_line import Lethe
from tests.interop.clients import bootstrap, produce, read_all, value
from tests.interop.conditions import (
    complaints,
    create,
    delete,
    gone_everywhere,
    is_known_to_all,
    is_whole,
    plan,
    states,
    survey,
    until,
)
from tests.interop.conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]

OLD = range(2_000)
NEW = range(1_000_000, 1_000_400)
THREE = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
MANY = THREE * 30
"""So many that a broker is busy deleting them for a while."""
IN_DOUBT_S = 4.0

Rows = Sequence[tuple[int, ...]]


# --- what is looked at --------------------------------------------------------------------------------------------


async def in_service(session: ZooKeeperSession, version: str, **topics: Rows) -> None:
    """Creates them and waits until every replica is in sync and every broker tells clients."""
    await create(session, *(plan(name, *rows, version=version) for name, rows in topics.items()))
    await until(is_known_to_all(session, 3, *topics), "all brokers know the topics")
    for name, rows in topics.items():
        await until(is_whole(session, name, rows), f"{name} is whole")


async def topic_id(session: ZooKeeperSession, topic: str) -> TopicId | None:
    (found,) = await session.read([GetData(paths.topic(topic))])
    assert isinstance(found, Data)
    return decode_topic(topic, found.data).topic_id


async def is_listed(session: ZooKeeperSession, topic: str) -> bool:
    """It has a znode or a marker."""
    listed = await topic_znodes.list_topics(session)
    return topic in {*listed.names, *listed.marked}


async def explanation(cluster: LocalCluster, topic: str) -> str:
    """What `lethe explain` says of it."""
    return (await Lethe(cluster.zookeeper_connect)("explain", topic)).out


def living(topic: str, *log_dirs: Path) -> list[tuple[Path, Directory]]:
    """Replicas of the topic there that nobody has begun to remove, with their paths."""
    views = (read_log_dir(BrokerId(0), log_dir, (topic,)) for log_dir in log_dirs)
    return [
        (Path(view.path, found.name), found)
        for view in views
        for found in view.directories
        if found.kind is DirectoryKind.REPLICA
    ]


def holders(cluster: LocalCluster, topic: str) -> set[int]:
    """Brokers with living replicas of the topic."""
    return {broker for broker, log_dirs in cluster.log_dirs.items() if living(topic, *log_dirs)}


# --- what they all end with ---------------------------------------------------------------------------------------


async def the_name_is_used_again(
    cluster: LocalCluster, session: ZooKeeperSession, version: str, topic: str, rows: Rows
) -> None:
    """At once: it is empty, and then has new records only, on every replica."""
    await in_service(session, version, **{topic: rows})
    assert await read_all(bootstrap(cluster), topic, len(rows)) == []
    await only_new_records(cluster, session, topic, rows)


async def only_new_records(cluster: LocalCluster, session: ZooKeeperSession, topic: str, rows: Rows) -> None:
    """Records are taken; these are all that clients can read, and all that is on any disk, under the topic's own id."""
    stored = await produce(bootstrap(cluster), topic, NEW)
    assert [record.number for record in stored] == list(NEW)
    assert sorted(await read_all(bootstrap(cluster), topic, len(rows))) == sorted(stored)
    await until(is_whole(session, topic, rows), f"{topic} is whole")
    log_dirs = [log_dir for each in cluster.log_dirs.values() for log_dir in each]
    replicas = living(topic, *log_dirs)
    assert len(replicas) == sum(map(len, rows)), "every replica has one directory"
    wanted_id = await topic_id(session, topic)
    assert [found.topic_id for _, found in replicas] == [wanted_id] * len(replicas)
    by_partition: dict[int, set[bytes]] = {}
    for path, found in replicas:
        assert found.topic_partition is not None
        records = b"".join(file.read_bytes() for file in sorted(path.glob("*.log")))
        assert not any(value(number) in records for number in OLD), f"an old record is in {path}"
        by_partition.setdefault(found.topic_partition.partition, set()).add(records)
    assert {partition: len(contents) for partition, contents in by_partition.items()} == dict.fromkeys(
        range(len(rows)), 1
    ), "all replicas of a partition are the same, byte for byte"
    everything = b"".join(records for contents in by_partition.values() for records in contents)
    assert all(value(number) in everything for number in NEW)

    async def is_clean() -> bool:
        seen = await survey(cluster, session)
        return seen.is_complete and not leftovers(seen)

    await until(is_clean, "the survey is clean")


# --- a disk that fails --------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_deletion_waits_for_a_disk_that_failed_in_the_middle_of_it(
    kafka_cluster: MakeCluster, version: str
) -> None:
    """The broker dies while it deletes, returns with one of its two disks, and with both some time later."""
    async with kafka_cluster(version, listed=True, log_dirs=2) as cluster, cluster.session() as session:
        await in_service(session, version, orders=MANY, kept=THREE)
        await produce(bootstrap(cluster), "orders", OLD)
        kept = await produce(bootstrap(cluster), "kept", OLD)
        victim = cluster.kafka_broker(3)
        await dies_while_it_deletes(cluster, session, victim, "orders")

        disk = max(victim.log_dirs, key=lambda log_dir: len(living("orders", log_dir)))
        (other,) = set(victim.log_dirs) - {disk}
        before = [path.name for path, _ in living("orders", disk)]
        assert before, "there is something left to be deleted"
        away = fails(disk)
        await victim.start(120)
        await waits_for_the_disk(cluster, session, disk, other)
        assert [path.name for path, _ in living("orders", away)] == before
        new = ("orders", "--partitions", "1", "--replication-factor", "1")
        refused = await Lethe(cluster.zookeeper_connect)("topics", "create", *new)
        assert refused.code == Exit.NO, f"the name is not free yet: {refused}"
        assert "marked for deletion" in refused.err

        await victim.stop()
        heals(disk, away)
        await victim.start(120)
        await gone_everywhere(cluster, session, "orders")
        await the_name_is_used_again(cluster, session, version, "orders", THREE)
        await until(is_whole(session, "kept", THREE), "what nobody wanted gone is whole")
        assert sorted(await read_all(bootstrap(cluster), "kept", len(THREE))) == sorted(kept)
        # Brokers complain about every replica that may lie on the failed disk, and only about these.
        assert [each for each in complaints(cluster) if "KafkaStorageException" not in each] == []


async def dies_while_it_deletes(
    cluster: LocalCluster, session: ZooKeeperSession, victim: KafkaBroker, topic: str
) -> None:
    """Every other broker has deleted its replicas; the victim has begun to, and has not said so."""
    victim.pause()
    await delete(session, topic)

    async def only_it_has_any() -> bool:
        return holders(cluster, topic) == {victim.id}

    await until(only_it_has_any, f"only broker {victim.id} has replicas")
    whole = len(living(topic, *victim.log_dirs))
    victim.resume()
    deadline = time.monotonic() + 60.0
    # Looked at without a pause: it has a fraction of a second from the first replica to its answer.
    while len(living(topic, *victim.log_dirs)) == whole:
        assert time.monotonic() < deadline, f"broker {victim.id} has not begun to delete"
    await victim.kill()
    assert topic in (await topic_znodes.list_topics(session)).marked, "it had no time to confirm"


def fails(disk: Path) -> Path:
    """A broker finds a file where the directory was, which is as good as a dead disk to it, also for root. Where the
    directory is now."""
    away = disk.with_name(f"{disk.name}.away")
    disk.rename(away)
    disk.write_bytes(b"")
    return away


def heals(disk: Path, away: Path) -> None:
    """Everything is as it was."""
    disk.unlink()
    away.rename(disk)


async def waits_for_the_disk(cluster: LocalCluster, session: ZooKeeperSession, disk: Path, other: Path) -> None:
    """It is named, and nothing but it is waited for."""
    words = f"whose log directory {disk} has failed"

    async def is_explained() -> bool:
        return words in await explanation(cluster, "orders")

    await until(is_explained, "the failed directory is named")

    async def the_other_disk_is_done() -> bool:
        return not living("orders", other)

    await until(the_other_disk_is_done, "what lies on the other disk is deleted")
    deadline = time.monotonic() + IN_DOUBT_S
    while time.monotonic() < deadline:
        listed = await topic_znodes.list_topics(session)
        assert "orders" in listed.marked
        assert "orders" in listed.names
        await asyncio.sleep(0.2)
    assert words in await explanation(cluster, "orders")


# --- a leader that sleeps -----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_leader_that_slept_through_a_deletion_has_nothing_of_it_afterwards(
    kafka_cluster: MakeCluster, version: str
) -> None:
    """It is stopped (SIGSTOP) until its session has expired, and takes itself for the leader when it wakes. Topics with
    replicas on it wait for it; another one is made anew meanwhile, this time on it too."""
    async with kafka_cluster(version, listed=True) as cluster, cluster.session() as session:
        sleeper = cluster.kafka_broker(1)
        topics: dict[str, Rows] = {"orders": THREE, "alone": [(1,), (1,)], "beside": [(2, 3), (3, 2)], "kept": THREE}
        await in_service(session, version, **topics)
        for name in topics:
            await produce(bootstrap(cluster), name, OLD)
        kept = sorted(await read_all(bootstrap(cluster), "kept", len(THREE)))
        (state, *_) = await states(session, "orders", 1)
        assert state is not None
        assert state.leader == sleeper.id

        sleeper.pause()
        try:
            await is_given_up(session, sleeper, "orders")
            await delete(session, "orders", "alone", "beside")
            await waits_for_the_sleeper(cluster, session, sleeper)

            async def beside_is_gone() -> bool:
                return not await is_listed(session, "beside")

            await until(beside_is_gone, "the topic without replicas on it is gone")
            await create(session, plan("beside", *THREE, version=version))
        finally:
            sleeper.resume()

        for name in ("orders", "alone"):

            async def is_free(name: str = name) -> bool:
                return not await is_listed(session, name)

            await until(is_free, f"the name {name} is free")
            await the_name_is_used_again(cluster, session, version, name, THREE if name == "orders" else [(1,), (1,)])
        await until(is_whole(session, "beside", THREE), "the topic that was made meanwhile is whole")
        await only_new_records(cluster, session, "beside", THREE)
        await until(is_whole(session, "kept", THREE), "what nobody wanted gone is whole")
        assert sorted(await read_all(bootstrap(cluster), "kept", len(THREE))) == kept
        assert complaints(cluster) == []


async def is_given_up(session: ZooKeeperSession, sleeper: KafkaBroker, topic: str) -> None:
    """Its session has expired, and others lead what it led."""

    async def others_lead() -> bool:
        (registered,) = await session.read([Exists(paths.broker_id(sleeper.id))])
        found = await states(session, topic, len(THREE))
        return not isinstance(registered, Present) and all(
            state is not None and state.leader not in (sleeper.id, -1) for state in found
        )

    await until(others_lead, f"broker {sleeper.id} is given up")


async def waits_for_the_sleeper(cluster: LocalCluster, session: ZooKeeperSession, sleeper: KafkaBroker) -> None:
    """Every other broker has deleted its replicas, and it is named."""

    async def only_it_has_any() -> bool:
        return all(holders(cluster, name) == {sleeper.id} for name in ("orders", "alone"))

    await until(only_it_has_any, f"only broker {sleeper.id} has replicas")
    for name in ("orders", "alone"):
        assert f"waits for broker {sleeper.id}, which is not registered" in await explanation(cluster, name)
        assert await is_listed(session, name)
