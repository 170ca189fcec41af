"""Brokers that die, come back or change, and the leaders that are elected for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core.context import Context, Role
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import UpdateMetadataRequest
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, ControllerEpoch, Endpoint, LeaderAndIsr
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Delete, SetData
from tests.fakes.one_controller import CONTROLLER_ID, OneController
from tests.scenarios.plot import cluster, led, refusals, role, text, with_topic


def test_leader_dies_one_write_raises_the_epoch_by_one() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.stop_broker(1)
    world.run()
    assert world.take_story() == text("""
        * BrokersChanged
        zk set /brokers/topics/orders/partitions/0/state at version 0: leader 2 epoch 1 isr 2,3
        -> 2,3 LeaderAndIsr: orders-0 leader 2 epoch 1 isr 2,3
        -> 2,3 UpdateMetadata brokers 2,3: orders-0 leader 2 epoch 1 isr 2,3 offline 1
        -> 2,3 LeaderAndIsr: orders-0 leader 2 epoch 1 isr 2,3
        -> 2,3 UpdateMetadata brokers 2,3: orders-0 leader 2 epoch 1 isr 2,3 offline 1
        <- 2,3 LeaderAndIsr ok
        <- 2,3 UpdateMetadata ok
        <- 2,3 LeaderAndIsr ok
        <- 2,3 UpdateMetadata ok
    """)


def test_leader_dies_with_the_controller_shrink_and_election_raise_the_epoch_by_two() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.crash()
    world.stop_broker(1)
    world.elect()
    assert led(world, "orders") == (2, 2, (2, 3))
    assert [line for line in world.take_story().splitlines() if line.startswith("zk set /brokers")] == [
        "zk set /brokers/topics/orders/partitions/0/state at version 0: leader -1 epoch 1 isr 2,3",
        "zk set /brokers/topics/orders/partitions/0/state at version 1: leader 2 epoch 2 isr 2,3",
    ]


def test_follower_dies_and_returns_isr_is_shrunk_and_it_is_told_to_follow() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.stop_broker(3)
    world.run()
    assert led(world, "orders") == (1, 1, (1, 2))
    world.take_story()
    world.start_broker(3)
    world.run()
    assert world.take_story() == text("""
        * BrokersChanged
        -> 1,2 UpdateMetadata brokers 1,2,3
        -> 3 UpdateMetadata brokers 1,2,3: orders-0 leader 1 epoch 1 isr 1,2
        -> 3 LeaderAndIsr: orders-0 leader 1 epoch 1 isr 1,2
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader 1 epoch 1 isr 1,2
        <- 1,2,3 UpdateMetadata ok
        <- 3 LeaderAndIsr ok
        <- 1,2,3 UpdateMetadata ok
    """)


def test_bounce_noticed_by_the_epoch_alone_is_a_failure_and_a_start() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    before = world.context.cluster.brokers[BrokerId(2)].epoch
    world.stop_broker(2)
    world.start_broker(2)
    world.run()
    assert world.context.cluster.brokers[BrokerId(2)].epoch > before
    assert world.take_story() == text("""
        * BrokersChanged
        zk set /brokers/topics/orders/partitions/0/state at version 0: leader 1 epoch 1 isr 1,3
        -> 1,3 LeaderAndIsr: orders-0 leader 1 epoch 1 isr 1,3
        -> 1,3 UpdateMetadata brokers 1,3: orders-0 leader 1 epoch 1 isr 1,3 offline 2
        -> 1,3 UpdateMetadata brokers 1,3,2
        -> 2 UpdateMetadata brokers 1,3,2: orders-0 leader 1 epoch 1 isr 1,3
        -> 2 LeaderAndIsr: orders-0 leader 1 epoch 1 isr 1,3
        -> 1,3,2 UpdateMetadata brokers 1,3,2: orders-0 leader 1 epoch 1 isr 1,3
        <- 1,3 LeaderAndIsr ok
        <- 1,3 UpdateMetadata ok
        <- 1,3,2 UpdateMetadata ok
        <- 2 LeaderAndIsr ok
        <- 1,3,2 UpdateMetadata ok
    """)
    assert world.channels[BrokerId(2)].broker_epoch == world.context.cluster.brokers[BrokerId(2)].epoch


def test_broker_without_replicas_dies_and_the_others_are_told_all_the_same() -> None:
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2, 3))
    world.stop_broker(4)
    world.run()
    assert world.take_story() == text("""
        * BrokersChanged
        -> 1,2,3 UpdateMetadata brokers 1,2,3
        <- 1,2,3 UpdateMetadata ok
    """)


def test_only_replica_dies_it_stays_in_the_isr_and_leads_again_when_it_is_back() -> None:
    world = with_topic(cluster(), "orders", (1,))
    world.stop_broker(1)
    world.run()
    assert led(world, "orders") == (-1, 1, (1,))
    assert world.context.cluster.offline_partitions == 1
    world.start_broker(1)
    world.run()
    assert led(world, "orders") == (1, 2, (1,))
    assert world.context.cluster.offline_partitions == 0


def test_many_partitions_without_a_live_replica_are_one_refusal_for_each_topic() -> None:
    world = with_topic(cluster(), "orders", *[(1,)] * 40)
    world.stop_broker(1)
    world.run()
    found = [record for record in world.records if record.data.get("why") == "no live replica may lead the partition"]
    assert [(record.subject, record.data["partitions"]) for record in found] == [("topic/orders", "0-39")]


@pytest.mark.parametrize(
    "config, leader",
    [
        ({}, -1),
        ({"unclean.leader.election.enable": "false"}, -1),
        ({"unclean.leader.election.enable": "true"}, 2),
        ({"unclean.leader.election.enable": "TRUE "}, 2),
    ],
)
def test_unclean_election_is_decided_by_the_topics_configuration(config: dict[str, str], leader: int) -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.write(SetData(paths.config_topic("orders"), znodes.encode_config(config), ANY_VERSION))
    world.stop_broker(2)
    world.run()
    world.stop_broker(1)
    world.start_broker(2)
    world.run()
    found = led(world, "orders")
    assert found is not None
    assert found[0] == leader
    if leader == 2:
        assert found[2] == (2,)
        assert world.context.unclean_elections == 1
        assert "leader 2 epoch 2 isr 2 recovering" in world.take_story()


def test_unclean_election_before_3_2_has_no_recovery_state() -> None:
    world = with_topic(cluster(world=OneController(ibp=InterBrokerProtocol.parse("3.1"))), "orders", (1, 2))
    config = znodes.encode_config({"unclean.leader.election.enable": "true"})
    world.write(SetData(paths.config_topic("orders"), config, ANY_VERSION))
    world.stop_broker(2)
    world.run()
    world.stop_broker(1)
    world.start_broker(2)
    world.run()
    assert led(world, "orders") == (2, 2, (2,))
    assert "recovering" not in world.take_story()


def test_isr_written_by_a_leader_of_an_old_protocol_is_read_and_the_election_repeated() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    shrunk = znodes.encode_state(LeaderAndIsr(1, 0, (1, 3), world.context.cluster.epoch))
    world.write(SetData(paths.partition_state("orders", 0), shrunk, 0))
    world.stop_broker(1)
    world.run()
    assert led(world, "orders") == (3, 1, (3,))
    assert [line for line in world.take_story().splitlines() if line.startswith("zk set")] == [
        "zk set /brokers/topics/orders/partitions/0/state at version 0: leader 2 epoch 1 isr 2,3",
        "zk set /brokers/topics/orders/partitions/0/state at version 1: leader 3 epoch 1 isr 3",
    ]


def test_only_the_stale_one_of_many_is_written_twice() -> None:
    world = with_topic(cluster(), "orders", *[(1, 2, 3)] * 10)
    shrunk = znodes.encode_state(LeaderAndIsr(1, 0, (1, 3), world.context.cluster.epoch))
    world.write(SetData(paths.partition_state("orders", 4), shrunk, 0))
    world.stop_broker(1)
    world.run()
    writes = [line for line in world.take_story().splitlines() if line.startswith("zk set")]
    assert len(writes) == 11
    assert "partitions/4/state at version 1: leader 3" in writes[-1]


def test_state_of_a_later_controller_is_not_overwritten() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    foreign = znodes.encode_state(LeaderAndIsr(2, 7, (2,), ControllerEpoch(99)))
    world.write(SetData(paths.partition_state("orders", 0), foreign, 0))
    world.stop_broker(1)
    world.run()
    assert refusals(world, "partition/orders-0")[0] == "it was written by controller epoch 99, ours is 1"
    found = world.read(paths.partition_state("orders", 0))
    assert found is not None
    assert found.data == foreign
    assert role(world) is Role.ACTIVE


def test_state_znode_removed_by_hand_fails_that_partition_alone() -> None:
    world = with_topic(cluster(), "orders", (1, 2), (1, 2))
    world.write(Delete(paths.partition_state("orders", 0)))
    world.stop_broker(1)
    world.run()
    assert refusals(world, "partition/orders-0")[0] == "writing its state: NO_NODE"
    assert led(world, "orders", 1) == (2, 1, (2,))


def test_changed_endpoints_under_the_same_registration_are_announced() -> None:
    world = with_topic(cluster(1, 2), "orders", (1, 2))
    moved = Broker(BrokerId(2), BrokerEpoch(-1), (Endpoint("PLAINTEXT", "127.0.0.2", 9999),))
    world.write(SetData(paths.broker_id(2), znodes.encode_broker(moved, timestamp_ms=world.now_ms), ANY_VERSION))
    world.run()
    assert world.take_story() == text("""
        * BrokerModified 2
        -> 1,2 UpdateMetadata brokers 1,2
        <- 1,2 UpdateMetadata ok
    """)
    assert world.context.cluster.brokers[BrokerId(2)].endpoints[0].port == 9999


def test_brokers_new_bounced_and_dead_in_one_event() -> None:
    world = with_topic(cluster(1, 2, 3), "orders", (1, 2, 3, 4))
    world.start_broker(4)
    world.stop_broker(2)
    world.start_broker(2)
    world.stop_broker(3)
    world.run()
    assert sorted(world.context.cluster.brokers) == [1, 2, 4]
    assert led(world, "orders") == (1, 2, (1,))
    assert sorted(world.channels) == [1, 2, 4]


def test_broker_under_the_id_of_a_listed_controller_is_set_aside_and_used_once_it_has_another() -> None:
    world = OneController()
    address = Endpoint("PLAINTEXT", "127.0.0.1", 9094)
    world.context = Context(replace(world.context.config, endpoints=(address,)))
    world = cluster(1, 2, world=world)
    world.start_broker(CONTROLLER_ID)
    world.run()
    assert sorted(world.context.cluster.brokers) == [1, 2]
    assert "another broker.id" in world.context.cluster.quarantined_brokers[CONTROLLER_ID].reason
    (record,) = world.recorded(EventRecordType.SET_ASIDE)
    assert record.subject == f"broker/{CONTROLLER_ID}"
    world.take_sent()
    world.stop_broker(CONTROLLER_ID)
    world.start_broker(3)
    world.run()
    assert world.context.cluster.quarantined_brokers == {}
    last = [send.request for send in world.take_sent() if isinstance(send.request, UpdateMetadataRequest)][-1]
    assert [broker.id for broker in last.live_brokers] == [1, 2, 3, CONTROLLER_ID]
