"""Topics whose znodes name the zero id: the controller gives them ids, real brokers take these, and deletions end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.vocabulary import ZERO_TOPIC_ID, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData
from lethe.protocol.zookeeper.znodes import decode_topic
from tests.interop.conditions import (
    complaints,
    create,
    delete,
    gone_everywhere,
    is_known_to_all,
    is_whole,
    plan,
    until,
)
from tests.interop.conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(400)]

NAMES = ("one", "other")
BOTH = [(1, 2), (2, 1)]


async def test_topics_under_the_zero_id_are_deleted(kafka_cluster: MakeCluster, version: str) -> None:
    has_ids = version != "2.5.1"
    async with kafka_cluster(version, brokers=2) as cluster, cluster.session() as session:
        await cluster.active_controller()
        await create(session, *(replace(plan(name, *BOTH, version=version), topic_id=ZERO_TOPIC_ID) for name in NAMES))
        await until(is_known_to_all(session, 2, *NAMES), "both brokers know the topics")
        for name in NAMES:
            await until(is_whole(session, name, BOTH), f"{name} is whole")
        ids = {await written_id(session, name) for name in NAMES}
        assert len(ids - {None}) == (2 if has_ids else 0)
        await delete(session, *NAMES)
        await gone_everywhere(cluster, session, *NAMES)
        assert complaints(cluster) == []


async def written_id(session: ZooKeeperSession, name: str) -> TopicId | None:
    (found,) = await session.read([GetData(paths.topic(name))])
    assert isinstance(found, Data)
    return decode_topic(name, found.data).topic_id
