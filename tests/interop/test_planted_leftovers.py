"""Leftovers planted in a real cluster: `lethe survey --out` and the pipeline find each of them, and invent none.

Kafka's own controller has charge of the cluster. For the look it is held off by somebody who has control and does
nothing: a controller removes a marker that is of no topic as soon as it sees it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.cluster.local import LocalCluster
from lethe.pipeline import tables
from lethe.protocol.findings import Reason
from lethe.protocol.kafka.codec import encode_control_body
from lethe.protocol.kafka.connection import highest_common_version
from lethe.protocol.kafka.control import (
    ApiKey,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch, TopicId, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.znodes import encode_config
from tests.fakes.kept_surveys import keep_survey, rows_of, run_pipeline
from tests.fakes.zookeeper_cluster import apply
from tests.interop.clients import bootstrap, produce
from tests.interop.conditions import create, is_known_to_all, is_whole, kafka_leads, plan, until
from tests.interop.conftest import MakeCluster
from tests.interop.stuck import NOBODY, epoch_of, nobody_in_control

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(900),
]

EVERYWHERE = [(1, 2, 3), (2, 3, 1)]
EARLIER = TopicId(uuid.UUID(int=2**100 + 5))


class Found(NamedTuple):
    place: str
    reason: str
    what: str
    broker: int | None


async def test_each_is_found_and_none_is_invented(kafka_cluster: MakeCluster, version: str, tmp_path: Path) -> None:
    async with kafka_cluster(version, controllers=0, log_dirs=1) as cluster, cluster.session() as zookeeper:
        await kafka_leads(zookeeper)
        await create(zookeeper, *(plan(name, *EVERYWHERE, version=version) for name in ("kept", "again")))
        for name in ("kept", "again"):
            await until(is_known_to_all(zookeeper, 3, name), f"all know {name}")
            await until(is_whole(zookeeper, name, EVERYWHERE), f"{name} is whole")
        assert len(await produce(bootstrap(cluster), "kept", range(100))) == 100
        planted = [*plant_on_disk(cluster)]
        if has_ids(version):
            await cluster.kafka_broker(3).stop()
            planted.append(plant_other_incarnation(cluster))
        async with nobody_in_control(cluster) as operator:
            planted += await plant_in_zookeeper(operator)
            planted.append(await plant_in_cache(operator, 1))
            ran = await keep_survey(cluster, tmp_path / "surveys")
        assert (ran.code, ran.data["problems"]) == (1, []), ran
    await run_pipeline(tmp_path / "surveys", tmp_path / "lake")
    rows = rows_of(tmp_path / "lake", tables.LEFTOVERS)
    found = [Found(row["place"], row["reason"], row["what"], row["broker"]) for row in rows]
    assert sorted(found, key=str) == sorted(planted, key=str)


def has_ids(version: str) -> bool:
    return tuple(map(int, version.split("."))) >= (2, 8)


# --- planting -----------------------------------------------------------------------------------------------------


def plant_on_disk(cluster: LocalCluster) -> Iterator[Found]:
    """Directories as a deletion leaves them that a broker slept through: of no topic, and of a partition too many."""
    for broker, name, reason in (
        (1, "ghost-on-disk-0", Reason.DIRECTORY_WITHOUT_TOPIC),
        (2, "kept-7", Reason.DIRECTORY_NOT_ASSIGNED),
    ):
        directory = cluster.log_dirs[broker][0] / name
        directory.mkdir()
        (directory / "00000000000000000000.log").write_bytes(b"x" * 1000)
        yield Found("disk", reason.code, str(directory), broker)


def plant_other_incarnation(cluster: LocalCluster) -> Found:
    """As if the topic had been deleted and made again while its broker was away."""
    directory = cluster.log_dirs[3][0] / "again-0"
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_to_text(EARLIER)}")
    return Found("disk", Reason.DIRECTORY_OF_OTHER_INCARNATION.code, str(directory), 3)


async def plant_in_zookeeper(operator: ZooKeeperSession) -> list[Found]:
    config, marker = paths.config_topic("ghost-config"), paths.delete_topic("ghost-marker")
    await apply(operator, Create(config, encode_config({"retention.ms": "1"})), Create(marker, None))
    return [
        Found("zookeeper", Reason.CONFIG_WITHOUT_TOPIC.code, config, None),
        Found("zookeeper", Reason.MARKER_WITHOUT_TOPIC.code, marker, None),
    ]


async def plant_in_cache(operator: ZooKeeperSession, number: int) -> Found:
    """One broker is told of a topic by whoever has control, and no other is."""
    brokers, _ = await topic_znodes.live_brokers(operator)
    (broker,) = (broker for broker in brokers if broker.id == number)
    epoch = await epoch_of(operator)
    ghost = UpdateMetadataTopic(
        "ghost-in-cache", EARLIER, (UpdateMetadataPartition(0, epoch, number, 0, (number,), 0, (number,)),)
    )
    request = UpdateMetadataRequest(BrokerId(NOBODY), ControllerEpoch(epoch), (ghost,), brokers)
    end = broker.plaintext_endpoint
    assert end is not None
    async with await KafkaConnection.open(end.host, end.port, "operator") as connection:
        spoken = highest_common_version(ApiKey.UPDATE_METADATA, await connection.offered_versions())
        answer = await connection.send_body(encode_control_body(request, spoken), broker.epoch)
    assert answer == UpdateMetadataResponse(0)
    return Found("cache", Reason.CACHED_WITHOUT_TOPIC.code, "ghost-in-cache", number)
