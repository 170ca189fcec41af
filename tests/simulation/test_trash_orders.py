"""The rule that a marked topic stays by request only while nothing of it is deleted for its marker."""

from __future__ import annotations

import uuid

import pytest

from lethe.broker.core.effects import CreateReplica, RenameForDeletion
from lethe.controller.core import mutation
from lethe.controller.core.effects import Send
from lethe.protocol.kafka.control import StopReplicaPartition, StopReplicaRequest, StopReplicaTopic
from lethe.protocol.vocabulary import (
    EPOCH_DURING_DELETE,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    EpochVersion,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicId,
    TopicPartition,
)
from tests.simulation import invariants, trash
from tests.simulation.cluster import Cluster
from tests.simulation.disk import Directory
from tests.simulation.ensemble import Writer
from tests.simulation.ledger import Incarnation
from tests.simulation.world import Violation, World

ID = TopicId(uuid.UUID(int=1))
CZXID = 9
BROKER = BrokerId(1)
PARTITION = TopicPartition("t0", 0)
WRITER = Writer("controller 1001")
OF_DELETION, OF_REASSIGNMENT = EPOCH_DURING_DELETE, 4
LATER = 1
"""Version of `/controller_epoch` in a later term than that of the controller."""


class Marked:
    """Topic t0 has been queued for an earlier marker, and a second one is there now."""

    def __init__(self) -> None:
        self.cluster = Cluster(World(0))
        self.controller = self.cluster.controllers[0]
        self.topic = Incarnation("t0", 1, topic_id=ID, czxid=CZXID, asked=True, condemned=True, marker=2)
        ledger, memory = self.cluster.ledger, self.controller.context.cluster
        ledger.living["t0"] = ledger.by_zxid[CZXID, "t0"] = ledger.by_id[ID] = self.topic
        memory.epoch_version = EpochVersion(self.cluster.ensemble.epoch_version)
        mutation.add_topic(memory, "t0", ID, {0: ReplicaAssignment((BROKER,))})
        memory.topics["t0"].created_zxid = CZXID
        mutation.queue_deletion(memory, "t0", 0)
        self.topic.released[0, BROKER] = None

    def order(self, leader_epoch: int) -> None:
        """The controller asks the broker to delete its replica."""
        row = StopReplicaPartition(0, leader_epoch, True)
        request = StopReplicaRequest(BROKER, ControllerEpoch(1), (StopReplicaTopic("t0", (row,)),))
        trash.deletions_ordered(self.cluster, self.controller, Send(BROKER, BrokerEpoch(1), 1, request))

    def delete(self) -> None:
        """The broker renames the replica's directory."""
        agent = self.cluster.agents[BROKER]
        log_dir = next(iter(agent.disk.log_dirs))
        agent.disk.log_dirs[log_dir]["t0-0"] = Directory(PARTITION, ID, ID)
        operation = RenameForDeletion(log_dir, PARTITION, ID, "t0-0.0-delete")
        invariants.disk_operation_is_allowed(self.cluster, agent, operation)
        del agent.disk.log_dirs[log_dir]["t0-0"]

    def create(self) -> None:
        """The broker has a replica again, which is empty."""
        agent = self.cluster.agents[BROKER]
        operation = CreateReplica(next(iter(agent.disk.log_dirs)), PARTITION, ID)
        invariants.disk_operation_is_allowed(self.cluster, agent, operation)

    def stay(self) -> None:
        """The marker is removed by request."""
        trash.s4_nothing_of_it_is_gone(WRITER, self.topic)


def test_a_replica_that_a_reassignment_removes_is_no_deletion_of_its_topic() -> None:
    marked = Marked()
    marked.order(OF_REASSIGNMENT)
    marked.delete()
    marked.stay()


def test_a_topic_whose_name_is_marked_for_an_earlier_one_stays() -> None:
    marked = Marked()
    marked.topic.marker = 0
    marked.stay()


def test_the_order_counts_before_it_is_done_and_after() -> None:
    marked = Marked()
    marked.order(OF_DELETION)
    with pytest.raises(Violation, match="replicas of it are deleted"):
        marked.stay()
    marked.delete()
    with pytest.raises(Violation, match="replicas of it are deleted"):
        marked.stay()


def test_an_order_for_an_earlier_marker_counts_where_it_is_done_for_this_one() -> None:
    marked = Marked()
    marked.order(OF_DELETION)
    marked.topic.marker += 1
    marked.stay()
    marked.delete()
    with pytest.raises(Violation, match="replicas of it are deleted"):
        marked.stay()


def test_an_order_for_an_earlier_marker_does_not_count_once_the_replica_is_created_again() -> None:
    marked = Marked()
    marked.order(OF_DELETION)
    marked.topic.marker += 1
    marked.create()
    marked.order(OF_REASSIGNMENT)
    marked.delete()
    marked.stay()


def test_an_order_of_a_controller_that_was_deposed_counts_where_a_broker_has_obeyed() -> None:
    marked = Marked()
    marked.controller.context.cluster.epoch_version = EpochVersion(LATER)
    marked.order(OF_DELETION)
    marked.stay()
    marked.delete()
    with pytest.raises(Violation, match="replicas of it are deleted"):
        marked.stay()


def test_no_replica_in_sync_may_be_deleted_by_whatever_order() -> None:
    marked = Marked()
    marked.order(OF_REASSIGNMENT)
    marked.delete()
    marked.topic.states[0] = LeaderAndIsr(BROKER, 1, (BROKER,), ControllerEpoch(1), 0)
    with pytest.raises(Violation, match="in sync have deleted 0"):
        marked.stay()
