"""Ghosts in the metadata caches of real brokers: a controller that takes over has them dropped, and so has a rescue.

Kafka's own controller has charge of the cluster. A ghost is planted by whoever has control for a moment: one broker is
told of a topic, and no other is, as when the tombstone of a topic never came to that broker.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.cluster.local import LocalCluster
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.codec import encode_control_body
from lethe.protocol.kafka.connection import highest_common_version
from lethe.protocol.kafka.control import (
    ApiKey,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch
from lethe.survey.brokers import ask_all, broker_asker
from tests.fakes.command_line import Lethe
from tests.interop.clients import bootstrap, produce
from tests.interop.conditions import create, is_known_to_all, is_whole, kafka_leads, plan, until
from tests.interop.conftest import MakeCluster
from tests.interop.stuck import NOBODY, RESCUE_LIMIT_S, epoch_of, nobody_in_control
from tests.interop.test_planted_leftovers import EARLIER

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]

EVERYWHERE = [(1, 2, 3), (2, 3, 1)]
GONE, KEPT = "gone-long-ago", "kept"


async def plant(operator: ZooKeeperSession, number: int, topic: str, *partitions: int) -> None:
    """Tell one broker of these partitions, in the name of the present epoch."""
    brokers, _ = await topic_znodes.live_brokers(operator)
    (broker,) = (broker for broker in brokers if broker.id == number)
    epoch = await epoch_of(operator)
    rows = tuple(UpdateMetadataPartition(n, epoch, number, 0, (number,), 0, (number,)) for n in partitions)
    request = UpdateMetadataRequest(
        BrokerId(NOBODY), ControllerEpoch(epoch), (UpdateMetadataTopic(topic, EARLIER, rows),), brokers
    )
    end = broker.plaintext_endpoint
    assert end is not None
    async with await KafkaConnection.open(end.host, end.port, "operator") as connection:
        spoken = highest_common_version(ApiKey.UPDATE_METADATA, await connection.offered_versions())
        answer = await connection.send_body(encode_control_body(request, spoken), broker.epoch)
    assert answer == UpdateMetadataResponse(0)


async def caches(session: ZooKeeperSession) -> dict[int, dict[str, CachedTopic]]:
    """What every registered broker shows."""
    brokers, _ = await topic_znodes.live_brokers(session)
    answers = await ask_all(brokers, broker_asker(PLAINTEXT_REACH))
    assert all(answer.cache is not None for answer in answers), answers
    return {int(answer.broker): dict(answer.cache or {}) for answer in answers}


async def haunted(cluster: LocalCluster, session: ZooKeeperSession, version: str) -> None:
    """A topic with records; broker 1 shows one that is gone, broker 2 an earlier one of the living one's name."""
    await kafka_leads(session)
    await create(session, plan(KEPT, *EVERYWHERE, version=version))
    await until(is_known_to_all(session, 3, KEPT), f"all know {KEPT}")
    await until(is_whole(session, KEPT, EVERYWHERE), f"{KEPT} is whole")
    assert len(await produce(bootstrap(cluster), KEPT, range(100))) == 100
    async with nobody_in_control(cluster) as operator:
        await plant(operator, 1, GONE, 0, 2)
        await plant(operator, 2, KEPT, 0, 1, 2, 3)
    await kafka_leads(session)
    shown = await caches(session)
    assert shown[1][GONE].partitions == (0, 2), "a takeover of Kafka's controller leaves the ghost"
    assert shown[2][KEPT].partitions == (0, 1, 2, 3), "and so it does the partitions that the topic has not"


async def is_cured(session: ZooKeeperSession) -> bool:
    shown = await caches(session)
    kept = {broker: cache.get(KEPT) for broker, cache in shown.items()}
    assert all(each is not None for each in kept.values()), "what lives is shown by every broker all the time"
    return all(GONE not in cache for cache in shown.values()) and len(set(kept.values())) == 1


async def nothing_is_lost(cluster: LocalCluster, session: ZooKeeperSession) -> None:
    await until(is_whole(session, KEPT, EVERYWHERE), f"{KEPT} is whole")
    stored = [d for roots in cluster.log_dirs.values() for root in roots for d in Path(root).glob(f"{KEPT}-*")]
    assert len(stored) == 6
    assert len(await produce(bootstrap(cluster), KEPT, range(100, 200))) == 100


async def test_a_controller_that_takes_over_has_ghosts_dropped(kafka_cluster: MakeCluster, version: str) -> None:
    always = {"controller.takeover": "always", "controller.takeover.interval.ms": "1000"}
    async with kafka_cluster(version, controller_properties=always) as cluster, cluster.session() as session:
        ours = await cluster.active_controller()
        await ours.stop()
        await haunted(cluster, session, version)
        await ours.start()
        await cluster.active_controller()
        await until(lambda: is_cured(session), "no cache shows what is not there")
        await ours.stop()
        await kafka_leads(session)
        assert await is_cured(session)
        await nothing_is_lost(cluster, session)


@pytest.mark.slow
async def test_a_rescue_has_ghosts_dropped_and_says_so(kafka_cluster: MakeCluster, version: str) -> None:
    async with kafka_cluster(version, controllers=0) as cluster, cluster.session() as session:
        await haunted(cluster, session, version)
        lethe = Lethe(cluster.zookeeper_connect, limit_s=RESCUE_LIMIT_S)
        dry = await lethe("rescue", "--dry-run")
        assert dry.code == 1, dry
        assert f"The metadata cache of broker 1 shows topic {GONE} that ZooKeeper does not have" in dry.out
        assert f"The metadata cache of broker 2 shows topic {KEPT}" in dry.out
        ran = await lethe("rescue", "--yes", "--json")
        assert ran.code == 0, ran
        cured = {(row["broker"], row["topic"]) for row in ran.data["metadata_caches"]["cured"]}
        assert cured == {(1, GONE), (2, KEPT)}
        assert ran.data["metadata_caches"]["ghosts"] == ran.data["metadata_caches"]["unseen"] == []
        assert await is_cured(session)
        await kafka_leads(session)
        await nothing_is_lost(cluster, session)
        again = await lethe("rescue", "--dry-run")
        assert (again.code, "metadata cache" in again.out) == (0, False), again
