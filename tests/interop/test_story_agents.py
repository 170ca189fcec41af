"""Kafka's own controller over our agents: it brings topics up, grows them, moves their leaders and deletes them, and
has nothing to complain of.

The controller is a real broker that holds no replica: topics are placed on the agents alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from lethe.admin import topic_znodes
from lethe.cluster.local import LocalCluster
from tests.fakes.command_line import Lethe
from tests.interop.conditions import (
    complaints,
    controller,
    create,
    directories,
    gone_everywhere,
    is_known_to_all,
    plan,
    states,
    until,
)
from tests.interop.conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(400)]
KAFKA = 4
REPLICAS = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
GROWN = [*REPLICAS, (3, 2, 1), (1, 3, 2)]
AGENT = {"replica.catch.up.delay.ms": "200", "log.segment.delete.delay.ms": "200"}


def assignment(replicas: Sequence[Sequence[int]]) -> str:
    """As commands take it."""
    return ",".join(":".join(map(str, each)) for each in replicas)


def only_on(cluster: LocalCluster, broker: int, *topics: str) -> Callable[[], Awaitable[bool]]:
    """Of each of these topics that broker has directories, and no other has any."""

    async def condition() -> bool:
        return all({name.split("/")[0] for name in directories(cluster, each)} == {str(broker)} for each in topics)

    return condition


async def test_the_life_of_a_topic(kafka_cluster: MakeCluster, version: str) -> None:
    cluster = kafka_cluster(version, 1, agents=3, controllers=0, agent_properties=AGENT)
    async with cluster, cluster.session() as session:
        lethe = Lethe(cluster.zookeeper_connect)

        async def leaders(partitions: int) -> list[tuple[int, list[int]] | None]:
            found = await states(session, "orders", partitions)
            return [None if state is None else (state.leader, sorted(state.isr)) for state in found]

        def lead(*wanted: int) -> Callable[[], Awaitable[bool]]:
            async def condition() -> bool:
                return await leaders(len(wanted)) == [(leader, [1, 2, 3]) for leader in wanted]

            return condition

        holder = await controller(session)
        assert holder is not None
        assert holder.broker_id == KAFKA
        names = [f"other-{number}" for number in range(10)]
        await create(session, *(plan(name, *REPLICAS, version=version) for name in ("orders", *names)))
        await until(is_known_to_all(session, 4, "orders", *names), "all brokers know the topics")
        await until(lead(1, 2, 3), "the preferred replicas lead")

        assert (await lethe("topics", "alter", "orders", "--replica-assignment", assignment(GROWN))).code == 0
        await until(lead(1, 2, 3, 3, 1), "the new partitions have leaders")

        # An agent dies: others lead, and get its replica back into the ISR when it returns.
        await cluster.broker(3).kill()

        async def led_by_the_others() -> bool:
            return await leaders(5) == [(1, [1, 2]), (2, [1, 2]), (1, [1, 2]), (2, [1, 2]), (1, [1, 2])]

        await until(led_by_the_others, "the others lead")
        await cluster.broker(3).start()
        await until(lead(1, 2, 1, 2, 1), "the agent is back in every ISR")
        elected = await lethe("partitions", "elect", "--preferred", "--all")
        assert elected.code == 0, elected.err
        await until(lead(1, 2, 3, 3, 1), "the preferred replicas lead again")

        # An agent leaves in good order: the controller lets it go.
        assert await cluster.broker(2).stop(30) == 0
        assert "the controller has let this broker go" in cluster.broker(2).log_file.read_text()
        assert all(found is not None and found[0] != 2 for found in await leaders(5))
        await cluster.broker(2).start()

        # A replica moves: away from one agent, and back.
        for target in ([1, 2], [1, 2, 3]):
            moved = await lethe("partitions", "reassign", f"orders:0={','.join(map(str, target))}", "--yes", "--wait")
            assert moved.code == 0, moved.err

        # Deleted while an agent is down, and finished by its return.
        await cluster.broker(1).kill()
        assert (await lethe("topics", "delete", "--topic", "orders", *(f"--topic={name}" for name in names))).code == 0
        await until(only_on(cluster, 1, "orders", *names), "only the dead agent has directories")
        assert (await topic_znodes.list_topics(session)).marked == tuple(sorted(["orders", *names]))
        await cluster.broker(1).start()
        await gone_everywhere(cluster, session, "orders", *names)

        # The name is used again at once, by another topic.
        await create(session, plan("orders", *REPLICAS, version=version))
        await until(lead(1, 2, 3), "the new topic has leaders")
        await until(is_known_to_all(session, 4, "orders"), "all brokers know the new topic")
        assert (await lethe("topics", "delete", "--topic", "orders")).code == 0
        await gone_everywhere(cluster, session, "orders")
        assert complaints(cluster) == []
        holder = await controller(session)
        assert holder is not None
        assert holder.broker_id == KAFKA
