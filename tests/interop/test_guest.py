"""Three real brokers under a controller that they do not see: topics come, go, and leave nothing."""

from __future__ import annotations

import pytest

from tests.interop.conditions import (
    complaints,
    controller,
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


async def test_topics_come_and_go(kafka_cluster: MakeCluster, version: str) -> None:
    assignment = [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2)]
    names = [f"orders-{number}" for number in range(20)]
    async with kafka_cluster(version) as cluster, cluster.session() as session:
        active = await cluster.active_controller()
        await create(session, *(plan(name, *assignment, version=version) for name in names))
        await until(is_known_to_all(session, 3, *names), "all brokers know the topics")
        for name in names:
            await until(is_whole(session, name, assignment), f"{name} is whole")
        await delete(session, *names)
        await gone_everywhere(cluster, session, *names)
        # The same names at once again, and away with them.
        await create(session, *(plan(name, *assignment, version=version) for name in names[:5]))
        await until(is_known_to_all(session, 3, *names[:5]), "all brokers know the new topics")
        await delete(session, *names[:5])
        await gone_everywhere(cluster, session, *names)
        holder = await controller(session)
        assert holder is not None
        assert holder.broker_id == active.id
        assert complaints(cluster) == []
