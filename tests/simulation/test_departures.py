"""A replica may still lie on a disk when its topic's znode goes only where it departed and its order is on its way, or
where it is a second copy that no order reaches."""

from __future__ import annotations

import uuid

import pytest

from lethe.broker.core.effects import CreateReplica
from lethe.controller.core.effects import OpenChannel, Send
from lethe.protocol.kafka.control import (
    ControlRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaTopic,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
)
from lethe.protocol.vocabulary import (
    LEADER_DURING_DELETE,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    ReplicaAssignment,
    TopicId,
    TopicPartition,
)
from tests.simulation import departures
from tests.simulation.cluster import Cluster
from tests.simulation.disk import Directory, LogDir
from tests.simulation.ensemble import Writer
from tests.simulation.ledger import Incarnation
from tests.simulation.network import Channel
from tests.simulation.world import World

TOPIC = TopicId(uuid.UUID(int=1))
LATER_MS = 10_000_000
"""Longer than any limit for an answer to a tombstone."""


def stop(partition: int, *, delete: bool = True) -> StopReplicaRequest:
    rows = (StopReplicaPartition(partition, 1, delete),)
    return StopReplicaRequest(BrokerId(1000), ControllerEpoch(1), (StopReplicaTopic("t0", rows),))


def tombstone() -> UpdateMetadataRequest:
    rows = (UpdateMetadataPartition(0, 1, LEADER_DURING_DELETE, 0, (), 0, (1,)),)
    return UpdateMetadataRequest(BrokerId(1000), ControllerEpoch(1), (UpdateMetadataTopic("t0", TOPIC, rows),), ())


def may_stay(*requests: ControlRequest, after_ms: int = LATER_MS, departed: bool = True) -> bool:
    """Broker 2 hears nothing; these requests wait for it, and so much later the znode of t0 goes."""
    cluster = Cluster(World(0))
    incarnation = Incarnation("t0", 1, topic_id=TOPIC, assignments={0: ReplicaAssignment((1,))}, asked=True)
    if departed:
        incarnation.departed[0, 2] = None
    controller, agent = cluster.controllers[0], cluster.agents[BrokerId(2)]
    agent.is_silent = True
    channel = Channel(cluster, controller, OpenChannel(agent.id, BrokerEpoch(7), Endpoint("PLAINTEXT", "b2", 9092)))
    controller.channels[agent.id] = channel
    for number, request in enumerate(requests):
        channel.put(Send(agent.id, BrokerEpoch(7), number, request))
    cluster.world.now_ms += after_ms
    return departures.may_stay(
        cluster, Writer(controller.name, 1), agent, incarnation, 0, next(iter(agent.disk.log_dirs))
    )


def makes_beside_a_broken_log_dir(*, maimed: bool, topic_id: TopicId = TOPIC) -> Incarnation:
    """Broker 2 makes t0-0 anew; in a log directory of it that does not work lies one of this id."""
    cluster = Cluster(World(0))
    incarnation = Incarnation("t0", 1, topic_id=TOPIC, assignments={0: ReplicaAssignment((2,))}, asked=True)
    cluster.ledger.by_id[TOPIC] = incarnation
    if maimed:
        incarnation.maimed[0] = None
    agent, replica = cluster.agents[BrokerId(2)], TopicPartition("t0", 0)
    agent.disk.log_dirs = {"/2a": LogDir(), "/2b": LogDir()}
    agent.disk.log_dirs["/2a"]["t0-0"] = Directory(replica, topic_id, topic_id)
    agent.disk.broken["/2a"] = "Input/output error"
    departures.made(cluster, agent, CreateReplica("/2b", replica, TOPIC))
    return incarnation


def test_where_a_maimed_partition_is_made_beside_a_broken_log_directory_with_it() -> None:
    incarnation = makes_beside_a_broken_log_dir(maimed=True)
    assert incarnation.copies == {(0, 2, "/2a"): None}
    assert not incarnation.strays, "orders reach the one that was made"
    incarnation.ingest({0: ReplicaAssignment((2,)), 1: ReplicaAssignment((2,))})
    assert (0, 2, "/2a") in incarnation.copies, "partitions are added; the other copy is where it was"


def test_not_where_nobody_has_removed_its_state_or_another_topic_lies_there() -> None:
    assert not makes_beside_a_broken_log_dir(maimed=False).copies
    assert not makes_beside_a_broken_log_dir(maimed=True, topic_id=TopicId(uuid.UUID(int=2))).copies


def test_where_its_order_is_on_its_way_ahead_of_the_tombstone() -> None:
    assert may_stay(stop(0), tombstone())


@pytest.mark.parametrize(
    "requests",
    [(), (tombstone(),), (stop(0),), (stop(1), tombstone()), (stop(0, delete=False), tombstone())],
    ids=["nothing", "no order", "no tombstone", "another partition", "told to stop only"],
)
def test_nowhere_else(requests: tuple[ControlRequest, ...]) -> None:
    assert not may_stay(*requests)


def test_not_before_the_limit_for_the_tombstone_has_passed() -> None:
    assert not may_stay(stop(0), tombstone(), after_ms=0)


def test_not_for_an_assigned_replica() -> None:
    assert not may_stay(stop(0), tombstone(), departed=False)
