"""Topics that were in service before the controller comes to serve them: their states are read, and taken over.

the topic                                                        the controller
---------------------------------------------------------------  ---------------------------------------------------
was made anew under another controller, and the trash has a      loads it at the takeover, and removes the entry: it
former one of its name that was back already                     reserves no name, and nothing of it is for this topic
has a znode that cannot be understood at the takeover            reads its states when the znode is repaired
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from lethe.protocol.kafka.control import LeaderAndIsrRequest
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, LeaderAndIsr, ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, Operation, SetData, ZkError
from lethe.protocol.zookeeper.znodes import (
    TopicZnode,
    TrashPhase,
    encode_config,
    encode_state,
    encode_topic,
)
from tests.fakes.one_controller import OneController
from tests.scenarios.moves import assignment, catch_up
from tests.scenarios.plot import cluster, led, refusals, with_topic
from tests.scenarios.test_advertising import SELF, listed
from tests.scenarios.test_trash import entry, mark, phase_of, settings, trashed, with_offsets_left
from tests.scenarios.test_trash_under_trouble import tree
from tests.scenarios.test_undelete_marked import request

MINUTE_MS = 60_000
ANEW = TopicId(uuid.UUID(int=7))


def served_anew(world: OneController, *replicas: int, partitions: int = 1, adding: tuple[int, ...] = ()) -> None:
    """Another controller has served a topic orders, led by the first replica under leader epoch 4."""
    state = encode_state(LeaderAndIsr(replicas[0], 4, replicas, world.context.cluster.epoch))
    assignments = {number: ReplicaAssignment((*replicas, *adding), adding) for number in range(partitions)}
    world.write(
        Create(paths.topic("orders"), encode_topic(TopicZnode(assignments, ANEW))),
        Create(paths.topic_partitions("orders"), None),
        Create(paths.topic_partition("orders", 0), None),
        Create(paths.partition_state("orders", 0), state),
    )


def made_anew(world: OneController) -> None:
    """Another controller takes over, deletes orders, and serves another topic of this name."""
    world.crash()
    world.write(*(Delete(path) for path in tree("orders")))
    if world.exists(paths.delete_topic("orders")):
        world.write(Delete(paths.delete_topic("orders")))
    world.write(Create(paths.config_topic("orders"), encode_config({"retention.ms": "6000"})))
    served_anew(world, 3, 2)
    world.groups.committed.clear()
    world.groups.with_members.clear()


def announced(world: OneController) -> list[tuple[int, int, bool]]:
    """(broker, leader, is it new) of each row about orders in a LeaderAndIsr."""
    return [
        (send.broker, row.leader, row.is_new)
        for send in world.take_sent()
        if isinstance(send.request, LeaderAndIsrRequest)
        for topic in send.request.topics
        for row in topic.partitions
        if topic.topic == "orders"
    ]


def elects_when_its_leader_dies(world: OneController, *before: int) -> bool:
    """Whether the controller leads orders."""
    assert led(world, "orders") == (before[0], 4, before)
    world.stop_broker(before[0])
    world.run()
    return led(world, "orders") == (before[1], 5, before[1:]) and world.context.cluster.offline_partitions == 0


def freezing() -> OneController:
    """Topic orders is on its way into the trash."""
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    assert phase_of(world) is TrashPhase.FREEZING
    return world


def restoring() -> OneController:
    """Topic orders is back, and neither offsets nor settings are restored yet."""
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (1,))
    with_topic(world, "orders", (1, 2))
    world.groups.commit("readers", "orders", 0, 42)
    trashed(world)
    world.groups.problem = "no answer"
    request(world, "orders")
    assert phase_of(world) is TrashPhase.RESTORING
    world.groups.problem = None
    return world


@pytest.mark.parametrize("before", [freezing, restoring, with_offsets_left])
def test_topic_made_anew_is_led_although_the_trash_has_an_entry_of_its_predecessor(
    before: Callable[[], OneController],
) -> None:
    world = before()
    made_anew(world)
    world.elect()
    assert entry(world) is None
    assert not world.context.cluster.quarantined_topics
    assert refusals(world, "partition/orders-0") == []
    assert elects_when_its_leader_dies(world, 3, 2)


@pytest.mark.parametrize("before", [freezing, restoring, with_offsets_left])
def test_it_gets_nothing_of_its_predecessor_while_the_entry_cannot_be_removed(
    before: Callable[[], OneController],
) -> None:
    world = before()
    made_anew(world)
    world.read_only |= dict.fromkeys((paths.trashed("orders"), paths.trashed_offsets("orders", 0)), ZkError.NO_AUTH)
    world.elect()
    world.advance(MINUTE_MS)
    world.advance(MINUTE_MS)
    assert world.groups.committed == {}
    assert settings(world) == {"retention.ms": "6000"}
    assert entry(world) is not None
    world.read_only.clear()
    world.advance(MINUTE_MS)
    assert entry(world) is None
    assert world.groups.committed == {}
    assert settings(world) == {"retention.ms": "6000"}
    assert elects_when_its_leader_dies(world, 3, 2)


def unreadable(
    *replicas: int, partitions: int = 1, adding: tuple[int, ...] = (), world: OneController | None = None
) -> tuple[OneController, Operation]:
    """Topic orders, led by the first of these brokers, could not be read at the takeover. Return its repair, too."""
    world = cluster() if world is None else world
    world.crash()
    served_anew(world, *replicas, partitions=partitions, adding=adding)
    found = world.read(paths.topic("orders"))
    assert found is not None
    assert found.data is not None
    world.write(SetData(paths.topic("orders"), b"?", ANY_VERSION))
    world.elect()
    assert list(world.context.cluster.quarantined_topics) == ["orders"]
    world.take_sent()
    return world, SetData(paths.topic("orders"), found.data, ANY_VERSION)


def test_topic_whose_znode_is_repaired_is_led_as_before() -> None:
    world, repair = unreadable(2, 1)
    world.write(repair)
    world.run()
    assert refusals(world, "partition/orders-0") == []
    assert sorted(announced(world)) == [(1, 2, False), (2, 2, False)]
    assert elects_when_its_leader_dies(world, 2, 1)


def test_leader_is_elected_at_once_where_the_former_one_is_away() -> None:
    world, repair = unreadable(2, 1)
    world.stop_broker(2)
    world.write(repair)
    world.run()
    assert led(world, "orders") == (1, 6, (1,)), "as at a takeover: first there is no leader"


def test_partition_without_a_state_gets_its_first_one() -> None:
    world, repair = unreadable(2, 1, partitions=2)
    world.write(repair)
    world.run()
    assert led(world, "orders") == (2, 4, (2, 1))
    assert led(world, "orders", 1) == (2, 0, (2, 1))
    assert sorted(announced(world)) == [(1, 2, False), (1, 2, True), (2, 2, False), (2, 2, True)]


def test_reassignment_goes_on_that_its_znode_has() -> None:
    world, repair = unreadable(2, 1, adding=(3,))
    world.write(repair)
    world.run()
    assert (3, 2) in [row[:2] for row in announced(world)]
    catch_up(world, "orders", 0, 2, 1, 3)
    assert assignment(world, "orders") == ReplicaAssignment((2, 1, 3))


def test_replica_on_a_controller_is_reassigned_and_not_rewritten() -> None:
    """What has the controller's id may be a broker with the only records."""
    world, repair = unreadable(SELF, world=listed(1, 2))
    world.write(repair)
    world.run()
    assert assignment(world, "orders").adding, "not a controller"
    assert assignment(world, "orders").removing == (SELF,)
