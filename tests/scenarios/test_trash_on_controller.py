"""A topic in the trash that has a replica on an advertised controller."""

from __future__ import annotations

from lethe.protocol.vocabulary import TopicPartition
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import with_topic
from tests.scenarios.test_advertising import SELF, listed, replicas
from tests.scenarios.test_trash import trashed
from tests.scenarios.test_undelete_marked import request


def with_replica_on_controller() -> OneController:
    """Both brokers have a replica of topic `orders`, so the controller's id stays; the topic is in the trash."""
    world = with_topic(listed(1, 2), "orders", (1, 2, SELF))
    assert replicas(world, "orders") == [(1, 2, SELF)]
    return trashed(world)


def test_broker_that_comes_meanwhile_gets_the_replica_when_the_topic_is_back() -> None:
    """Found by the simulator, seed 2007: the replica stayed on the controller until the next broker came."""
    world = with_replica_on_controller()
    world.start_broker(3)
    world.run()
    request(world, "orders")
    assert world.context.cluster.topics["orders"].partitions[0].assignment.target == (1, 2, 3)


def test_replica_stays_on_the_controller_where_no_broker_has_come() -> None:
    world = with_replica_on_controller()
    request(world, "orders")
    assert replicas(world, "orders") == [(1, 2, SELF)]
    assert TopicPartition("orders", 0) not in world.context.cluster.reassignments
