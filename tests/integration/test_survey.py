"""The survey on real ZooKeeper and agents: it finds what was planted, each kind in its place, and invents none."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.refusal import Exit
from lethe.admin.topic_plans import TopicPlan, creation_operations
from lethe.cli.survey import survey_answer
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.findings import Place, Reason
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.kafka.disk_formats import PARTITION_METADATA, encode_partition_metadata
from lethe.protocol.vocabulary import LeaderAndIsr, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData
from lethe.protocol.zookeeper.znodes import encode_config, encode_reassignment, encode_state
from lethe.survey.leftovers import Leftover, leftovers
from lethe.survey.take import take_survey
from lethe.survey.views import LogDirSource, Survey
from tests.fakes.zookeeper_cluster import apply, delete_tree

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes]

BOTH = ((1, 2), (2, 1))
TAG = "00112233445566778899aabbccddeeff"
Finding = tuple[Place, Reason, str, int | None]


async def until(condition: Callable[[], Awaitable[bool]], what: str, limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not await condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        await asyncio.sleep(0.05)


def plan(name: str, number: int) -> TopicPlan:
    return TopicPlan(name, TopicId(uuid.UUID(int=0x1000 + number)), BOTH)


async def create(session: ZooKeeperSession, cluster: LocalCluster, *plans: TopicPlan) -> None:
    """Creates them and waits until they are everywhere: on disks, too, and known to be there."""
    assert [outcome.problem for outcome in await topic_znodes.create_topics(session, plans)] == [None] * len(plans)

    async def is_everywhere() -> bool:
        survey = await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs)
        kept = [d for view in survey.log_dirs for d in view.directories if d.kind is DirectoryKind.REPLICA]
        replicas = [d for d in kept if d.size_bytes > 1_000]
        names = {each.name for each in plans}
        known = all(answer.cache is not None and answer.cache.keys() >= names for answer in survey.answers)
        stored = sum(d.topic_partition is not None and d.topic_partition.topic in names for d in replicas)
        return (
            known
            and stored == 4 * len(plans)
            and sizes_told(await take_survey(session, PLAINTEXT_REACH)) == sizes_found(survey)
        )

    await until(is_everywhere, "the topics are everywhere")


def sizes_found(survey: Survey) -> list[dict[TopicPartition | None, int | None]]:
    """Of segments, by directory, as read from the disks."""
    return [{d.topic_partition: d.segment_bytes for d in view.directories} for view in survey.log_dirs]


def sizes_told(survey: Survey) -> list[dict[TopicPartition | None, int | None]]:
    """The same as brokers tell them; they do so once what they have written is safe on disk."""
    return [{d.topic_partition: d.size_bytes for d in view.directories} for view in survey.log_dirs]


def directory_of(cluster: LocalCluster, broker: int, name: str) -> Path:
    (found,) = [log_dir / name for log_dir in cluster.broker(broker).log_dirs if (log_dir / name).exists()]
    return found


def summary(findings: tuple[Leftover, ...]) -> set[Finding]:
    return {(found.place, found.reason, found.topic, found.broker) for found in findings}


async def test_every_kind_of_leftover_is_found_and_nothing_else(zookeeper_chroot: str) -> None:
    settings = ClusterSettings(
        controllers=1,
        brokers=2,
        zookeeper_connect=zookeeper_chroot,
        session_timeout_ms=60_000,
        broker_properties={"lethe.fill.bytes": "5000"},
    )
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        await create(session, cluster, plan("alive", 1), plan("lost", 2), plan("renewed", 3))
        healthy = await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs)
        assert leftovers(healthy) == ()
        assert healthy.problems == ()
        _agrees_with_what_brokers_tell(healthy, await take_survey(session, PLAINTEXT_REACH))
        assert (await survey_answer(session, PLAINTEXT_REACH, {})).exit is Exit.OK

        # The controller would mend some of it.
        await cluster.controllers[0].kill()
        await _plant(session, cluster)
        survey = await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs)
        findings = leftovers(survey)
        assert summary(findings) == {
            (Place.ZOOKEEPER, Reason.MARKER_WITHOUT_TOPIC, "ghost", None),
            (Place.ZOOKEEPER, Reason.CONFIG_WITHOUT_TOPIC, "ghost", None),
            (Place.ZOOKEEPER, Reason.REASSIGNMENT_WITHOUT_TOPIC, "ghost", None),
            (Place.ZOOKEEPER, Reason.INCOMPLETE_TOPIC, "half", None),
            *((Place.CACHE, Reason.CACHED_WITHOUT_TOPIC, "lost", broker) for broker in (1, 2)),
            *((Place.DISK, Reason.DIRECTORY_WITHOUT_TOPIC, "lost", broker) for broker in (1, 2)),
            *((Place.CACHE, Reason.CACHED_OTHER_INCARNATION, "renewed", broker) for broker in (1, 2)),
            *((Place.DISK, Reason.DIRECTORY_OF_OTHER_INCARNATION, "renewed", broker) for broker in (1, 2)),
            (Place.CACHE, Reason.IN_NO_CACHE, "untold", None),
            *((Place.DISK, Reason.REPLICA_WITHOUT_DIRECTORY, "untold", broker) for broker in (1, 2)),
            (Place.DISK, Reason.DIRECTORY_WITHOUT_TOPIC, "nobodys", 1),
            (Place.DISK, Reason.DIRECTORY_OF_OTHER_INCARNATION, "alive", 1),
            (Place.DISK, Reason.DIRECTORY_NOT_ASSIGNED, "alive", 2),
            (Place.DISK, Reason.NOT_RECLAIMED_YET, "old", 2),
            (Place.DISK, Reason.STRAY_DIRECTORY, "odd", 2),
            (Place.DISK, Reason.REPLICA_WITHOUT_DIRECTORY, "alive", 2),
        }
        assert survey.problems == ()
        stray = next(found for found in findings if found.reason is Reason.STRAY_DIRECTORY)
        assert stray.size_bytes == 3
        lost = [found for found in findings if found.topic == "lost" and found.place is Place.DISK]
        assert len(lost) == 4
        assert all(found.size_bytes > 5000 for found in lost)

        answer = await survey_answer(
            session, PLAINTEXT_REACH, {number: [*dirs] for number, dirs in cluster.log_dirs.items()}
        )
        assert answer.exit is Exit.NO
        assert isinstance(answer.data, dict)
        assert json.loads(json.dumps(answer.data))["counts"]["zookeeper"]["left_over"] == 3

        # A dead broker is not missed where ZooKeeper does not have it any more; its disks are still seen.
        await cluster.broker(2).stop()
        without = await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs)
        assert [answer.broker for answer in without.answers] == [1]
        assert (Place.DISK, Reason.STRAY_DIRECTORY, "odd", 2) in summary(leftovers(without))
        assert (Place.DISK, Reason.REPLICA_WITHOUT_DIRECTORY, "alive", 2) not in summary(leftovers(without))


def _agrees_with_what_brokers_tell(local: Survey, told: Survey) -> None:
    """Directories as read from the disks, and as their brokers tell of them."""
    assert {view.source for view in told.log_dirs} == {LogDirSource.BROKER}
    assert leftovers(told) == ()
    assert told.problems == ()
    for mine, theirs in zip(local.log_dirs, told.log_dirs, strict=True):
        assert (mine.broker, mine.path) == (theirs.broker, theirs.path)
    assert sizes_told(told) == sizes_found(local)


async def _plant(session: ZooKeeperSession, cluster: LocalCluster) -> None:
    # In ZooKeeper.
    await apply(session, Create(paths.delete_topic("ghost"), None))
    await apply(session, Create(paths.config_topic("ghost"), encode_config({})))
    targets = {TopicPartition("ghost", 0): (1,), TopicPartition("alive", 1): (1, 2)}
    await apply(session, Create(paths.REASSIGN_PARTITIONS, encode_reassignment(targets)))
    for name, number in (("half", 7), ("untold", 8)):
        await apply(session, *creation_operations(plan(name, number), config_exists=False))
        await session.ensure_path(paths.topic_partition(name, 0))
        await session.ensure_path(paths.topic_partition(name, 1))
    state = encode_state(LeaderAndIsr(1, 0, (1, 2), 1))
    for partition in (0, 1):
        await apply(session, Create(paths.partition_state("untold", partition), state))
    # What is done by hand when a deletion hangs, and what breaks by it.
    await delete_tree(session, paths.topic("lost"))
    await delete_tree(session, paths.config_topic("lost"))
    renewed = creation_operations(plan("renewed", 99), config_exists=True)[1]
    assert isinstance(renewed, Create)
    await apply(session, SetData(renewed.path, renewed.data, ANY_VERSION))
    # On disks.
    one, two = cluster.broker(1), cluster.broker(2)
    (one.log_dirs[0] / "nobodys-0").mkdir()
    elsewhere = next(log_dir for log_dir in one.log_dirs if not (log_dir / "alive-0").exists())
    (elsewhere / "alive-0").mkdir()
    other_id = encode_partition_metadata(TopicId(uuid.UUID(int=0x4711)))
    (elsewhere / "alive-0" / PARTITION_METADATA).write_bytes(other_id)
    (two.log_dirs[0] / "alive-9").mkdir()
    (two.log_dirs[1] / f"old-0.{TAG}-delete").mkdir()
    (two.log_dirs[1] / f"odd-0.{TAG}-stray").mkdir()
    (two.log_dirs[1] / f"odd-0.{TAG}-stray" / "0.log").write_bytes(b"abc")
    shutil.rmtree(directory_of(cluster, 2, "alive-0"))


async def test_a_broker_that_does_not_answer_is_a_problem_and_not_an_end(zookeeper_chroot: str) -> None:
    settings = ClusterSettings(controllers=1, brokers=2, zookeeper_connect=zookeeper_chroot, session_timeout_ms=60_000)
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        await create(session, cluster, plan("alive", 1))
        await cluster.broker(2).kill()
        survey = await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs)
        assert [answer.cache is None for answer in survey.answers] == [False, True]
        (problem,) = survey.problems
        assert problem.where == "broker 2"
        assert "cannot connect" in problem.what
        assert leftovers(survey) == ()
        assert (await survey_answer(session, PLAINTEXT_REACH, {})).exit is Exit.UNREACHABLE
