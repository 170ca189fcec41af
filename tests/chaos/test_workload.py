"""What the work asks of a stand-in ZooKeeper, in which a stand-in controller removes what is marked."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import cast

from lethe.admin.topic_znodes import list_topics
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, MultiDone
from tests.chaos.cluster import ChaosCluster
from tests.chaos.workload import AGENT_NAMES, KAFKA_NAMES, Workload
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper

ACTS = 400
PARENTS = (
    *("/brokers", "/brokers/ids", "/brokers/topics", "/config", "/config/topics"),
    *("/admin", "/admin/delete_topics"),
)


async def remove_marked(session: FakeSession) -> int:
    """Remove the znodes of marked topics; return their number."""
    listed = await list_topics(session)
    for name in listed.marked:
        deletes = [Delete(path(name)) for path in (paths.topic, paths.config_topic, paths.delete_topic)]
        assert isinstance(await session.multi(deletes), MultiDone)
    return len(listed.marked)


async def test_every_kind_of_work_is_done_and_counted_as_it_was_asked() -> None:
    zookeeper, most_at_once, removed = FakeZooKeeper(), 0, 0
    stand_in = SimpleNamespace(local=SimpleNamespace(session=lambda: zookeeper.open_session(lambda _: None)))
    workload = Workload(cast(ChaosCluster, stand_in), 7)
    async with zookeeper.open_session(lambda _: None) as session:
        for path in PARENTS:
            assert isinstance(await session.multi([Create(path, b"")]), MultiDone)
        source = random.Random(7)
        for _ in range(ACTS):
            await workload._act(session, source)
            at_once = await remove_marked(session)
            most_at_once, removed = max(most_at_once, at_once), removed + at_once
        listed = await list_topics(session)
    assert set(workload.asked) == {"create", "delete", "expand", "reassign"}
    assert min(workload.asked.values()) > 0
    assert workload.asked["delete"] == removed
    assert workload.asked["create"] == removed + len(listed.names)
    assert set(listed.names) <= {*AGENT_NAMES, *KAFKA_NAMES}
    assert most_at_once > 1, "many are deleted at once"
