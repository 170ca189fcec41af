"""From a survey of a real cluster to topics that are gone: only those that nobody has touched since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from lethe.cluster.local import LocalCluster
from tests.fakes.command_line import Lethe
from tests.fakes.kept_surveys import keep_survey, run_pipeline
from tests.interop.clients import bootstrap, produce
from tests.interop.conditions import (
    create,
    has_no_directories,
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

EVERYWHERE = [(1, 2), (2, 1)]
TOPICS = ("never", "left", "read", "written", "kept", "marked")


async def test_only_what_nobody_has_touched_is_deleted(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path
) -> None:
    async with kafka_cluster(version, 2, controllers=0, log_dirs=1) as cluster, cluster.session() as zookeeper:
        await kafka_leads(zookeeper)
        await create(zookeeper, *(plan(name, *EVERYWHERE, version=version) for name in TOPICS))
        await until(is_known_to_all(zookeeper, 2, *TOPICS), "all brokers know the topics")
        for name in TOPICS:
            await until(is_whole(zookeeper, name, EVERYWHERE), f"{name} is whole")
        for name in ("left", "read", "written"):
            await produce(bootstrap(cluster), name, range(50))
        await commit(cluster, "left")
        await keep_survey(cluster, tmp_path / "surveys")
        # Topics this young are candidates by force only.
        await run_pipeline(tmp_path / "surveys", tmp_path / "lake", "--unwritten-days", "0", "--force")
        await produce(bootstrap(cluster), "written", range(1))
        lethe = Lethe(cluster.zookeeper_connect, limit_s=240.0)
        options = (
            "topics",
            "delete",
            "--from-candidates",
            str(tmp_path / "lake"),
            "--protect",
            "k*",
            "--protect",
            "mark*",
        )
        async with reading(cluster, "read"):
            dry = await lethe(*options, "--dry-run", "--json")
            ran = await lethe(*options, "--yes", "--json", "--at-once", "1")
        assert dry.code == ran.code == 0, (dry, ran)
        assert dry.data["could_not_be_asked"] == []
        planned = {each["topic"]: (each["groups"], each["notes"]) for each in dry.data["topics"]}
        assert planned == {"never": ([], ["never written"]), "left": ([{"group": "was-here", "state": "Empty"}], [])}
        left_out = {each["topic"]: each["why"] for each in dry.data["left_out"]}
        assert left_out["read"].startswith("consumer group is-here reads it now")
        assert " bytes and has " in left_out["written"]
        assert left_out["kept"] == "it is protected by k*"
        assert sorted(left_out) == ["kept", "marked", "read", "written"], "internal topics are no candidates"
        assert {each["topic"]: each["state"] for each in ran.data["topics"]} == {"never": "deleted", "left": "deleted"}
        await until(has_no_directories(cluster, "never", "left"), "their bytes are gone", limit_s=150.0)
        for name in ("read", "written", "kept", "marked"):
            assert await is_whole(zookeeper, name, EVERYWHERE)()


async def commit(cluster: LocalCluster, topic: str) -> None:
    """A group that has read the topic, and left."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap(cluster), group_id="was-here", auto_offset_reset="earliest"
    )
    async with consumer, asyncio.timeout(120):
        await consumer.getone()
        await consumer.commit({TopicPartition(topic, number): 1 for number in range(len(EVERYWHERE))})


@asynccontextmanager
async def reading(cluster: LocalCluster, topic: str) -> AsyncIterator[None]:
    """A group that reads the topic all the time."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap(cluster), group_id="is-here", auto_offset_reset="earliest"
    )
    async with consumer:
        async with asyncio.timeout(120):
            await consumer.getone()
        yield
