"""Creation and deletion where nothing goes wrong: what others see of the controller, in order."""

from __future__ import annotations

import pytest

from lethe.controller.core.effects import WriteZnodes
from lethe.controller.core.gauges import gauges
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import StopReplicaRequest
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import topic_id_to_text
from lethe.protocol.zookeeper import paths, znodes
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import causes, cluster, is_gone, led, text, with_topic


def test_first_election_in_an_empty_cluster_makes_the_epoch_and_announces_the_brokers() -> None:
    world = OneController()
    for broker in (1, 2):
        world.start_broker(broker)
    world.elect()
    assert world.take_story() == text("""
        * SessionEstablished
        zk create /controller_epoch: 0
        zk create /controller (ephemeral)
        zk set /controller_epoch at version 0: 1
        -> 1,2 UpdateMetadata brokers 1,2
        * ControllerChanged
        <- 1,2 UpdateMetadata ok
    """)


def test_creation_gives_id_leader_and_isr_and_tells_members_before_everybody() -> None:
    world = cluster(1, 2, 3, 4)
    world.create_topic("orders", (1, 2, 3))
    world.run()
    assert world.take_story() == text("""
        * TopicsChanged
        zk set /brokers/topics/orders at version 0
        zk create /brokers/topics/orders/partitions
        zk create /brokers/topics/orders/partitions/0
        zk create /brokers/topics/orders/partitions/0/state: leader 1 epoch 0 isr 1,2,3
        -> 1,2,3 LeaderAndIsr: orders-0 leader 1 epoch 0 isr 1,2,3 new
        -> 1,2,3,4 UpdateMetadata brokers 1,2,3,4: orders-0 leader 1 epoch 0 isr 1,2,3
        <- 1,2,3 LeaderAndIsr ok
        <- 1,2,3,4 UpdateMetadata ok
    """)
    data = world.read(paths.topic("orders"))
    assert data is not None
    assert znodes.decode_topic("orders", data.data).topic_id == world.context.cluster.topics["orders"].id is not None


def test_creation_with_a_dead_replica_leaves_it_out_of_the_isr_and_lets_it_follow_when_it_comes() -> None:
    world = cluster(1, 2)
    with_topic(world, "orders", (3, 1, 2))
    assert led(world, "orders") == (1, 0, (1, 2))
    world.start_broker(3)
    world.run()
    assert world.take_story() == text("""
        * BrokersChanged
        -> 1,2 UpdateMetadata brokers 1,2,3
        -> 3 UpdateMetadata brokers 1,2,3: orders-0 leader 1 epoch 0 isr 1,2
        -> 3 LeaderAndIsr: orders-0 leader 1 epoch 0 isr 1,2
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader 1 epoch 0 isr 1,2
        <- 1,2,3 UpdateMetadata ok
        <- 3 LeaderAndIsr ok
        <- 1,2,3 UpdateMetadata ok
    """)


def test_creation_without_any_live_replica_waits_for_the_first_one() -> None:
    world = cluster(1)
    with_topic(world, "orders", (2, 3))
    assert led(world, "orders") is None
    world.start_broker(3)
    world.run()
    assert led(world, "orders") == (3, 0, (3,))
    assert "-> 3 LeaderAndIsr: orders-0 leader 3 epoch 0 isr 3 new" in world.take_story()


def test_deletion_tombstone_then_stop_then_delete_then_all_znodes_at_once_with_the_marker_last() -> None:
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2, 3))
    world.mark("orders")
    world.run()
    assert world.take_story() == text("""
        * TopicDeletionsRequested
        -> 1,2,3,4 UpdateMetadata brokers 1,2,3,4: orders-0 leader -2
        -> 1,2,3 StopReplica: orders-0 epoch -2
        -> 1,2,3 StopReplica: orders-0 epoch -2 delete
        <- 1,2,3,4 UpdateMetadata ok
        <- 1,2,3 StopReplica ok
        <- 1,2,3 StopReplica ok
        zk delete /brokers/topics/orders/partitions/0/state
        zk delete /brokers/topics/orders/partitions/0
        zk delete /brokers/topics/orders/partitions
        zk delete /brokers/topics/orders
        zk delete /config/topics/orders
        zk delete /admin/delete_topics/orders
        * TopicsChanged
        * TopicDeletionsRequested
    """)
    assert is_gone(world, "orders")
    phases = [record.data["phase"] for record in world.recorded(EventRecordType.DELETION_PHASE)]
    assert phases == ["queued", "started", "tombstoned", "acknowledged", "removed", "done"]


def test_many_topics_are_one_request_of_each_kind_per_broker_and_one_write() -> None:
    world = cluster()
    for n in range(20):
        world.create_topic(f"t{n}", (1, 2), (2, 3), (3, 1))
    world.run()
    world.take_sent()
    for n in range(20):
        world.mark(f"t{n}")
    writes: list[WriteZnodes] = []

    def count(effect: WriteZnodes) -> None:
        writes.append(effect)

    world.losing = count
    world.run()
    assert len(writes) == 1
    deletes = [s for s in world.take_sent() if isinstance(s.request, StopReplicaRequest)]
    assert sorted(send.broker for send in deletes) == [1, 1, 2, 2, 3, 3]
    assert all(is_gone(world, f"t{n}") for n in range(20))


@pytest.mark.parametrize("ibp", ["2.2", "2.5"])
def test_before_2_6_a_stop_request_has_one_flag_and_deletion_works_the_same(ibp: str) -> None:
    world = with_topic(cluster(world=OneController(ibp=InterBrokerProtocol.parse(ibp))), "orders", (1, 2), (2, 3))
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")
    flags = [
        {row.delete for topic in send.request.topics for row in topic.partitions}
        for send in world.take_sent()
        if isinstance(send.request, StopReplicaRequest)
    ]
    assert flags == [{False}] * 3 + [{True}] * 3


def test_a_topic_is_created_again_under_the_same_name_and_is_another_one() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    first = world.context.cluster.topics["orders"].id
    world.mark("orders")
    world.run()
    with_topic(world, "orders", (1, 2, 3))
    second = world.context.cluster.topics["orders"].id
    assert first is not None
    assert second is not None
    assert topic_id_to_text(first) != topic_id_to_text(second)
    assert led(world, "orders") == (1, 0, (1, 2, 3))
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")


def test_marking_a_topic_again_while_it_is_being_deleted_changes_nothing() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    world.silent = {2: None}
    world.mark("orders")
    world.run()
    world.take_story()
    world.create_topic("other", (1,))
    world.run()
    world.take_story()
    world.mark("other")
    world.run()
    assert "orders" not in world.take_story()
    assert causes(world, "orders") == [(0, 2, "ANSWER")]


def test_a_large_topic_loses_its_partitions_first_and_itself_in_a_second_write() -> None:
    world = with_topic(cluster(world=OneController(max_operations_per_group=6)), "wide", *[(1, 2)] * 5)
    world.mark("wide")
    world.run()
    assert is_gone(world, "wide")
    writes = [line for line in world.take_story().splitlines() if line.startswith("zk")]
    assert len(writes) == 5 * 2 + 4
    assert writes[-4:] == [
        "zk delete /brokers/topics/wide/partitions",
        "zk delete /brokers/topics/wide",
        "zk delete /config/topics/wide",
        "zk delete /admin/delete_topics/wide",
    ]


def test_a_topic_without_partitions_is_deleted_too() -> None:
    world = with_topic(cluster(), "hollow")
    world.mark("hollow")
    world.run()
    assert is_gone(world, "hollow")


def test_gauges_follow_a_deletion() -> None:
    world = with_topic(with_topic(cluster(), "orders", (1, 2), (2, 3)), "other", (1, 3))
    world.silent = {3: None}
    world.mark("orders")
    world.run()
    seen = gauges(world.context)
    assert (seen.topics_to_delete_count, seen.replicas_to_delete_count) == (1, 1)
    world.stop_broker(3)
    world.run()
    seen = gauges(world.context)
    assert (seen.topics_ineligible_to_delete_count, seen.offline_partitions_count) == (1, 0)
    world.silent = {}
    world.start_broker(3)
    world.run()
    seen = gauges(world.context)
    assert (seen.topics_to_delete_count, seen.replicas_to_delete_count, seen.global_topic_count) == (0, 0, 1)
