"""Stories of Kafka's ControllerIntegrationTest that no other file tells."""

from __future__ import annotations

import dataclasses

import pytest

from lethe.controller.core import brokers
from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context, Role
from lethe.controller.core.effects import OpenChannel
from lethe.controller.core.preferred import FIRST_REBALANCE_MS
from lethe.controller.core.step_context import StepContext
from lethe.protocol.kafka.control import LeaderAndIsrRequest, UpdateMetadataRequest
from lethe.protocol.kafka.to_controller import AlterPartition, AlterPartitionRequest, AlterPartitionTopic
from lethe.protocol.kafka.versions import LATEST, InterBrokerProtocol
from lethe.protocol.listener_choice import ListenerChoice
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicId,
    TopicPartition,
)
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import another_is_elected_meanwhile, cluster, is_gone, led, state, with_topic

BEFORE_IDS = InterBrokerProtocol.parse("2.7")


def last_metadata(world: OneController, broker: int) -> UpdateMetadataRequest:
    """The UpdateMetadata that the broker was sent last."""
    sent = [s.request for s in world.take_sent() if s.broker == broker and isinstance(s.request, UpdateMetadataRequest)]
    return sent[-1]


def offline_replicas(request: UpdateMetadataRequest) -> dict[tuple[str, int], tuple[int, ...]]:
    return {(t.topic, row.partition): row.offline_replicas for t in request.topics for row in t.partitions}


def topic_id(world: OneController, name: str) -> TopicId | None:
    """As its znode has it."""
    found = world.read(paths.topic(name))
    assert found is not None
    return znodes.decode_topic(name, found.data).topic_id


# --- epochs -------------------------------------------------------------------------------------------------------


def test_empty_cluster_has_a_controller_under_the_first_epoch() -> None:
    world = cluster(1)
    assert (world.context.role, world.context.cluster.epoch) == (Role.ACTIVE, 1)


def test_controller_epoch_persists_when_all_are_down() -> None:
    world = cluster(1)
    world.stop_broker(1)
    world.crash()
    assert not world.exists(paths.controller())
    found = world.read(paths.controller_epoch())
    assert found is not None
    assert found.data == b"1"


# --- what brokers hear --------------------------------------------------------------------------------------------


def test_metadata_propagation_on_control_plane() -> None:
    config = CoreConfig(BrokerId(1000), LATEST, listener_choice=ListenerChoice("CONTROL"))
    context = Context(config)
    step = StepContext(context, 0)
    plain, control = Endpoint("PLAINTEXT", "b1", 9092), Endpoint("CONTROL", "b1", 9093)
    one, two = (
        Broker(BrokerId(1), BrokerEpoch(7), (plain, control)),
        Broker(BrokerId(2), BrokerEpoch(8), (plain,)),
    )
    brokers.open_channel(step, one)
    brokers.open_channel(step, two)
    assert step.effects == [
        OpenChannel(BrokerId(1), BrokerEpoch(7), control),
        OpenChannel(BrokerId(2), BrokerEpoch(8), plain),
    ]
    assert context.is_reachable(one)
    assert not context.is_reachable(two), "no second choice: no connection to PLAINTEXT is opened"


def test_metadata_propagation_on_broker_change() -> None:
    world = with_topic(with_topic(cluster(), "t", (1, 2)), "other", (1, 3))
    world.take_sent()
    world.stop_broker(2)
    world.run()
    after_stop = last_metadata(world, 1)
    assert offline_replicas(after_stop) == {("t", 0): (2,)}
    assert led(world, "t") == (1, 1, (1,))
    world.start_broker(2)
    world.run()
    assert offline_replicas(last_metadata(world, 1)) == {("t", 0): ()}


def test_metadata_propagation_for_offline_replicas() -> None:
    world = with_topic(cluster(1, 2), "t", (1,))
    world.crash()
    world.stop_broker(1)
    world.take_sent()
    world.elect()
    world.run()
    sent = [s.request for s in world.take_sent() if s.broker == 2 and isinstance(s.request, UpdateMetadataRequest)]
    (row,) = next(topic.partitions for request in reversed(sent) for topic in request.topics)
    assert (row.leader, row.offline_replicas, row.replicas, row.isr) == (-1, (1,), (1,), (1,))


def test_metadata_propagation_on_broker_shutdown_with_no_replicas() -> None:
    world = with_topic(cluster(1, 2, 3), "t", (2,))
    world.stop_broker(2)
    world.run()
    world.stop_broker(3)
    world.run()
    assert [broker.id for broker in last_metadata(world, 1).live_brokers] == [1]


@pytest.mark.parametrize("unclean", [b"false", b"true"])
def test_entire_isr_offline_keeps_its_last_member_whether_or_not_unclean_election_is_enabled(unclean: bytes) -> None:
    world = with_topic(cluster(1, 2), "t", (1,))
    config = znodes.encode_config({"unclean.leader.election.enable": unclean.decode()})
    world.write(SetData(paths.config_topic("t"), config, ANY_VERSION))
    world.stop_broker(1)
    world.run()
    assert led(world, "t") == (-1, 1, (1,))


def test_partition_reassignment_tells_the_added_replica_that_it_is_new() -> None:
    """A broker with a failed directory makes a replica only where it is said to be new."""
    world = with_topic(cluster(1, 2), "t", (1,))
    world.take_sent()
    moving = znodes.TopicZnode({0: ReplicaAssignment((2, 1), (2,), (1,))}, topic_id(world, "t"))
    world.crash()
    world.write(SetData(paths.topic("t"), znodes.encode_topic(moving), ANY_VERSION))
    world.elect()
    world.run()
    rows = [
        row
        for send in world.take_sent()
        if send.broker == 2 and isinstance(send.request, LeaderAndIsrRequest)
        for topic in send.request.topics
        for row in topic.partitions
    ]
    assert rows[-1].is_new
    assert rows[-1].adding == (2,)


# --- preferred leaders --------------------------------------------------------------------------------------------

T0 = TopicPartition("t", 0)


def test_auto_preferred_replica_leader_election_with_same_partition_being_reassigned() -> None:
    """A reassignment that is stuck keeps nobody from leading who is preferred by then, and is done when it can be."""
    world = with_topic(cluster(world=OneController(auto_leader_rebalance_enable=True)), "t", (1, 2))
    world.stop_broker(3)
    world.write(Create(paths.reassign_partitions(), znodes.encode_reassignment({T0: (2, 1, 3)})))
    world.run()
    assert led(world, "t") == (1, 1, (1, 2))
    world.advance(FIRST_REBALANCE_MS)
    assert led(world, "t") == (2, 2, (1, 2))
    assert list(world.context.cluster.reassignments) == [T0]
    world.start_broker(3)
    world.run()
    assert led(world, "t") == (2, 3, (1, 2))
    ask_for_isr(world, (1, 2, 3))
    found = world.read(paths.topic("t"))
    assert found is not None
    assert znodes.decode_topic("t", found.data).assignments == {0: ReplicaAssignment((2, 1, 3))}
    assert led(world, "t") == (2, 4, (1, 2, 3))
    assert not world.exists(paths.reassign_partitions())
    assert world.context.cluster.reassignments == {}


def test_auto_preferred_replica_leader_election_while_another_partition_is_being_reassigned() -> None:
    """A reassignment that is stuck holds up nobody else's leader."""
    world = with_topic(cluster(world=OneController(auto_leader_rebalance_enable=True)), "t", (1, 2), (1, 2))
    world.stop_broker(1)
    world.run()
    world.start_broker(1)
    world.run()
    ask_for_isr(world, (2, 1))
    assert led(world, "t") == (2, 1, (2, 1))
    world.stop_broker(3)
    moving = TopicPartition("t", 1)
    world.write(Create(paths.reassign_partitions(), znodes.encode_reassignment({moving: (2, 3)})))
    world.run()
    world.advance(FIRST_REBALANCE_MS)
    assert list(world.context.cluster.reassignments) == [moving]
    assert led(world, "t") == (1, 2, (2, 1))


@pytest.mark.parametrize("is_right", [True, False], ids=["led by the preferred replica", "led by another"])
def test_controller_move_on_preferred_replica_election(is_right: bool) -> None:
    """Another controller is elected between the request and our looking at it: we elect nobody, leave the request to
    it, and resign."""
    world = with_topic(cluster(1, 2), "t", (1, 2))
    if not is_right:
        world.stop_broker(1)
        world.run()
        world.start_broker(1)
        world.run()
        ask_for_isr(world, (2, 1))
    before = led(world, "t")
    assert before is not None
    assert (before[0] == 1) is is_right
    world.take_sent()
    world.write(Create(paths.preferred_replica_election(), znodes.encode_preferred_replica_election([T0])))
    another_is_elected_meanwhile(world)
    world.run()
    assert (world.context.role, world.context.active_controller) == (Role.STANDING_BY, 7)
    assert world.exists(paths.preferred_replica_election())
    assert znodes.decode_state("t", 0, state(world, "t", 0).encode(), 0) == LeaderAndIsr(*before, 1)
    assert world.take_sent() == []


# --- ISR ----------------------------------------------------------------------------------------------------------


def test_shutdown_broker_is_not_added_to_the_isr_and_rejoins_when_it_is_back() -> None:
    world = with_topic(cluster(1, 2), "t", (1, 2))
    world.stop_broker(2)
    world.run()
    assert led(world, "t") == (1, 1, (1,))
    ask_for_isr(world, (1, 2))
    assert led(world, "t") == (1, 1, (1,))
    world.start_broker(2)
    world.run()
    ask_for_isr(world, (1, 2))
    assert led(world, "t") == (1, 1, (1, 2))


def ask_for_isr(world: OneController, isr: tuple[int, ...]) -> object:
    state = world.context.cluster.topics["t"].partitions[0].leader_and_isr
    assert state is not None
    row = AlterPartition(0, state.leader_epoch, isr, state.recovery_state, state.partition_epoch)
    leader = world.context.cluster.brokers[BrokerId(state.leader)]
    return world.ask(AlterPartitionRequest(leader.id, leader.epoch, (AlterPartitionTopic("t", None, (row,)),)), 1)


# --- topic ids ----------------------------------------------------------------------------------------------------


def test_topic_ids_are_added_distinct_and_stay_through_reelection_and_expansion() -> None:
    world = with_topic(with_topic(cluster(), "a", (1,)), "b", (2,))
    ids = {name: topic_id(world, name) for name in ("a", "b")}
    assert None not in ids.values()
    assert len(set(ids.values())) == 2
    world.crash()
    world.elect()
    znode = znodes.TopicZnode({0: ReplicaAssignment((1,)), 1: ReplicaAssignment((2,))}, ids["a"])
    world.write(SetData(paths.topic("a"), znodes.encode_topic(znode), ANY_VERSION))
    world.run()
    assert {name: topic_id(world, name) for name in ("a", "b")} == ids
    assert {name: topic.id for name, topic in world.context.cluster.topics.items()} == ids
    world.mark("a")
    world.run()
    assert is_gone(world, "a")


def test_topic_ids_are_not_added_before_2_8_and_the_topic_can_be_deleted() -> None:
    world = with_topic(cluster(world=OneController(ibp=BEFORE_IDS)), "a", (1, 2))
    assert topic_id(world, "a") is None
    world.crash()
    world.elect()
    assert world.context.cluster.topics["a"].id is None
    world.mark("a")
    world.run()
    assert is_gone(world, "a")


def test_topic_id_created_on_upgrade_stays_through_a_reassignment() -> None:
    world = with_topic(cluster(world=OneController(ibp=BEFORE_IDS)), "t", (1, 2))
    world.crash()
    world.context.config = dataclasses.replace(world.context.config, ibp=LATEST)
    world.elect()
    world.run()
    made = topic_id(world, "t")
    assert made is not None
    world.write(Create(paths.reassign_partitions(), znodes.encode_reassignment({T0: (2, 3)})))
    world.run()
    ask_for_isr(world, (1, 2, 3))
    found = world.read(paths.topic("t"))
    assert found is not None
    znode = znodes.decode_topic("t", found.data)
    assert (znode.topic_id, znode.assignments) == (made, {0: ReplicaAssignment((2, 3))})
    world.crash()
    world.elect()
    world.run()
    assert topic_id(world, "t") == world.context.cluster.topics["t"].id == made


def test_topic_id_is_created_on_upgrade_reaches_the_brokers_and_deletion_completes() -> None:
    world = with_topic(cluster(world=OneController(ibp=BEFORE_IDS)), "a", (1, 2))
    world.crash()
    world.context.config = dataclasses.replace(world.context.config, ibp=LATEST)
    world.take_sent()
    world.elect()
    world.run()
    made = topic_id(world, "a")
    assert made is not None
    told = [
        topic.topic_id
        for send in world.take_sent()
        if isinstance(send.request, LeaderAndIsrRequest)
        for topic in send.request.topics
    ]
    assert set(told) == {made}
    world.mark("a")
    world.run()
    assert is_gone(world, "a")
