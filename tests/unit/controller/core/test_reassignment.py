"""Reassignments: asked for, under way, arrived, cancelled, and ended by a deletion."""

from __future__ import annotations

import itertools

import pytest

from lethe.controller.core.effects import ReadZnodes, RetryReassignments, WriteZnodes
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import LeaderAndIsrRequest, StopReplicaRequest
from lethe.protocol.kafka.queries import ChannelRequest
from lethe.protocol.kafka.to_controller import (
    ControlledShutdownRequest,
)
from lethe.protocol.vocabulary import BrokerId, PartitionReplica, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData, ZkError
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import Loss, OneController
from tests.scenarios.moves import PATH, ask, asked, assignment, catch_up
from tests.scenarios.plot import cluster, is_gone, led, refusals, state, text, with_topic


def state_of(world: OneController, name: str, broker: int) -> ReplicaState:
    return world.context.cluster.replica_state(PartitionReplica(name, 0, BrokerId(broker)))


# --- arriving -----------------------------------------------------------------------------------------------------


def test_partition_reassignment_tells_everything_in_kafkas_order() -> None:
    world = with_topic(cluster(), "orders", (1,))
    ask(world, orders_0=(2,))
    assert world.take_story() == text("""
        * ReassignmentsRequested
        zk set /brokers/topics/orders at version 1
        zk set /brokers/topics/orders/partitions/0/state at version 0: leader 1 epoch 1 isr 1
        -> 1 LeaderAndIsr: orders-0 leader 1 epoch 1 isr 1
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader 1 epoch 1 isr 1
        -> 2 LeaderAndIsr: orders-0 leader 1 epoch 1 isr 1 new
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader 1 epoch 1 isr 1
        <- 1 LeaderAndIsr ok
        <- 1,2,3 UpdateMetadata ok
        <- 2 LeaderAndIsr ok
        <- 1,2,3 UpdateMetadata ok
    """)
    assert assignment(world, "orders") == ReplicaAssignment((2, 1), (2,), (1,))
    catch_up(world, "orders", 0, 1, 2)
    assert world.take_story() == text("""
        ? 1 AlterPartition
        zk set /brokers/topics/orders/partitions/0/state at version 1: leader 1 epoch 1 isr 1,2
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader 1 epoch 1 isr 1,2
        ! AlterPartition orders-0 isr 1,2 version 2
        zk set /brokers/topics/orders/partitions/0/state at version 2: leader 2 epoch 2 isr 1,2
        -> 2 LeaderAndIsr: orders-0 leader 2 epoch 2 isr 1,2
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader 2 epoch 2 isr 1,2
        zk set /brokers/topics/orders/partitions/0/state at version 3: leader 2 epoch 3 isr 2
        -> 2 LeaderAndIsr: orders-0 leader 2 epoch 3 isr 2
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader 2 epoch 3 isr 2
        -> 1 StopReplica: orders-0 epoch 3
        -> 1 StopReplica: orders-0 epoch 3 delete
        <- 1,2,3 UpdateMetadata ok
        <- 2 LeaderAndIsr ok
        <- 1,2,3 UpdateMetadata ok
        <- 2 LeaderAndIsr ok
        <- 1,2,3 UpdateMetadata ok
        <- 1 StopReplica ok
        <- 1 StopReplica ok
        zk set /brokers/topics/orders at version 2
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader 2 epoch 3 isr 2
        zk delete /admin/reassign_partitions
        <- 1,2,3 UpdateMetadata ok
        * ReassignmentsRequested
    """)
    assert led(world, "orders") == (2, 3, (2,))
    assert assignment(world, "orders") == ReplicaAssignment((2,))
    assert asked(world) is None
    assert not world.context.cluster.reassignments


def test_a_reassignment_that_only_changes_the_order_is_done_at_once() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    ask(world, orders_0=(3, 1, 2))
    assert assignment(world, "orders") == ReplicaAssignment((3, 1, 2))
    assert asked(world) is None


def test_partition_reassignment_with_offline_replica_halting_progress_resumes_after_it_comes_online() -> None:
    world = with_topic(cluster(1, 2), "orders", (1,))
    ask(world, orders_0=(3,))
    assert led(world, "orders") == (1, 1, (1,))
    assert asked(world) == {TopicPartition("orders", 0): (3,)}
    world.start_broker(3)
    world.run()
    assert led(world, "orders") == (1, 2, (1,))
    catch_up(world, "orders", 0, 1, 3)
    assert led(world, "orders") == (3, 4, (3,))
    assert asked(world) is None


def test_reassignments_of_many_topics_go_in_a_write_and_a_request_each() -> None:
    world = cluster()
    for name in ("a", "b", "c"):
        with_topic(world, name, (1, 2), (2, 1))
    writes: list[WriteZnodes] = []
    world.meanwhile = lambda effect: writes.append(effect) if isinstance(effect, WriteZnodes) else None
    ask(world, a_0=(2, 3), a_1=(2, 3), b_0=(1, 3), c_1=(3,))
    assert [len(write.groups) for write in writes] == [3, 4]


def test_the_last_write_waits_for_the_brokers_that_are_to_delete_what_was_moved_away() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    ask(world, orders_0=(2, 3))
    world.silent[1] = None
    catch_up(world, "orders", 0, 1, 2, 3)
    assert assignment(world, "orders") == ReplicaAssignment((2, 3, 1), (3,), (1,))
    assert asked(world) is not None
    world.stop_broker(1)
    world.run()
    assert assignment(world, "orders") == ReplicaAssignment((2, 3))
    assert asked(world) is None
    assert "its broker is gone" in refusals(world, "replica/orders-0@1")[-1]


def test_a_broker_that_comes_back_before_it_has_answered_is_told_again() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    ask(world, orders_0=(2, 3))
    world.silent[1] = None
    catch_up(world, "orders", 0, 1, 2, 3)
    world.take_sent()
    world.silent.clear()
    world.stop_broker(1)
    world.start_broker(1)
    world.run()
    stops = [send.request for send in world.take_sent() if isinstance(send.request, StopReplicaRequest)]
    assert [row.delete for stop in stops for topic in stop.topics for row in topic.partitions] == [False, True]
    assert assignment(world, "orders") == ReplicaAssignment((2, 3))
    assert refusals(world, "replica/orders-0@1") == []


def test_a_replica_that_is_wanted_again_before_it_was_deleted_is_not_deleted_when_its_broker_comes_back() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    ask(world, orders_0=(2, 3))
    world.silent[1] = None
    catch_up(world, "orders", 0, 1, 2, 3)
    ask(world, orders_0=(2, 1))
    world.take_sent()
    world.silent.clear()
    world.stop_broker(1)
    world.start_broker(1)
    world.run()
    stops = [send.request for send in world.take_sent() if send.broker == 1]
    assert not any(isinstance(stop, StopReplicaRequest) for stop in stops)
    assert assignment(world, "orders") == ReplicaAssignment((2, 1, 3), (1,), (3,))


def test_a_broker_that_was_away_and_comes_back_before_the_last_write_is_told_to_delete() -> None:
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2, 4))
    ask(world, orders_0=(2, 3))
    world.stop_broker(1)
    world.run()
    world.silent[4] = None
    catch_up(world, "orders", 0, 2, 4, 3)
    assert assignment(world, "orders").removing == (1, 4), "broker 4 has not answered"
    assert "its log stays on the disk" in refusals(world, "replica/orders-0@1")[-1]
    world.take_sent()
    world.start_broker(1)
    world.run()
    stops = [
        (send.broker, row.delete)
        for send in world.take_sent()
        if isinstance(send.request, StopReplicaRequest)
        for topic in send.request.topics
        for row in topic.partitions
    ]
    assert stops == [(1, False), (1, True)]


@pytest.mark.parametrize("error", [ZkError.NO_AUTH, ZkError.NO_NODE])
def test_only_what_was_not_announced_is_tried_again_and_nothing_whose_state_was_removed(error: ZkError) -> None:
    world = with_topic(cluster(), "orders", (1,), (1,))
    refused = paths.partition_state("orders", 0)
    world.refusals[refused] = error
    ask(world, orders_0=(1, 2), orders_1=(1, 2))
    assert led(world, "orders", 1) == (1, 1, (1,))
    world.advance(60_000)
    assert led(world, "orders", 1) == (1, 1, (1,))
    assert (len(refusals(world, "partition/orders-0")) > 1) is (error is not ZkError.NO_NODE)


@pytest.mark.parametrize("leaves", ["dies", "asks to shut down"])
@pytest.mark.parametrize("error", [ZkError.NO_AUTH, ZkError.NO_NODE])
def test_a_replica_that_could_not_be_announced_changes_no_state_with_its_broker(error: ZkError, leaves: str) -> None:
    """It was refused as NON_EXISTENT to ONLINE or to OFFLINE, which no state machine knows."""
    world = with_topic(cluster(), "orders", (1, 2))
    world.refusals[paths.partition_state("orders", 0)] = error
    ask(world, orders_0=(1, 3))
    if leaves == "dies":
        world.stop_broker(3)
        world.run()
        world.start_broker(3)
        world.run()
    else:
        world.ask(ControlledShutdownRequest(BrokerId(3), world.context.cluster.brokers[BrokerId(3)].epoch))
    assert refusals(world, "replica/orders-0@3") == []
    assert state_of(world, "orders", 3) is ReplicaState.NON_EXISTENT
    world.refusals.clear()
    world.advance(60_000)
    announced = ReplicaState.NON_EXISTENT if error is ZkError.NO_NODE else ReplicaState.NEW
    assert state_of(world, "orders", 3) is announced


@pytest.mark.parametrize("moment", ["write", "read"])
def test_a_state_that_is_removed_when_the_target_leads_keeps_no_removed_replica_in_sync(moment: str) -> None:
    """Brokers would be told of an ISR with a replica whose log is deleted; and a removed replica that cannot leave the
    ISR would keep the reassignment going until another controller is elected."""
    world = with_topic(cluster(), "orders", (1, 2))
    path = paths.partition_state("orders", 0)
    ask(world, orders_0=(3, 2))
    is_conflicting = False

    def somebody(effect: ReadZnodes | WriteZnodes) -> None:
        nonlocal is_conflicting
        known = led(world, "orders")
        if known is None or known[0] != 3 or not world.exists(path):
            return
        if isinstance(effect, WriteZnodes) and moment == "read":
            is_conflicting = True
            world.write(SetData(path, state(world, "orders", 0).encode(), ANY_VERSION))
        elif moment == "write" or is_conflicting:
            world.write(Delete(path))

    world.meanwhile = somebody
    catch_up(world, "orders", 0, 1, 2, 3)
    assert not world.exists(path)
    assert led(world, "orders") == (3, 3, (2, 3))
    assert assignment(world, "orders") == ReplicaAssignment((3, 2))
    last = [send.request for send in world.take_sent() if isinstance(send.request, LeaderAndIsrRequest)][-1]
    assert [row.isr for topic in last.topics for row in topic.partitions] == [(2, 3)]


def test_the_last_write_of_one_partition_says_nothing_of_another_one_that_is_still_waited_for() -> None:
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2), (4, 2))
    ask(world, orders_0=(2, 3), orders_1=(2, 3))
    world.silent[1] = None
    catch_up(world, "orders", 0, 1, 2, 3)
    catch_up(world, "orders", 1, 4, 2, 3)
    assert assignment(world, "orders", 1) == ReplicaAssignment((2, 3))
    assert assignment(world, "orders", 0) == ReplicaAssignment((2, 3, 1), (3,), (1,))


# --- surviving ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", Loss)
def test_a_reassignment_survives_a_failover_at_every_write(loss: Loss) -> None:
    for step in range(60):
        world = with_topic(cluster(), "orders", (1, 2), (2, 1))
        count = 0

        def lose(_: WriteZnodes, at: int = step) -> Loss | None:
            nonlocal count
            count += 1
            return loss if count == at + 1 else None

        world.losing = lose
        ask(world, orders_0=(3, 2), orders_1=(1, 3))
        world.advance(60_000)
        for number in (0, 1):
            if world.context.cluster.topics["orders"].partitions[number].assignment.is_being_reassigned:
                catch_up(world, "orders", number, 1, 2, 3)
                world.advance(60_000)
        for number in (0, 1):
            # The write of the ISR may have been the one that was lost: the leader asks again.
            if world.context.cluster.topics["orders"].partitions[number].assignment.is_being_reassigned:
                catch_up(world, "orders", number, 1, 2, 3)
                world.advance(60_000)
        assert assignment(world, "orders", 0) == ReplicaAssignment((3, 2)), step
        assert assignment(world, "orders", 1) == ReplicaAssignment((1, 3)), step
        assert asked(world) is None, step
        assert not world.context.cluster.reassignments, step
        if count <= step:
            assert step > 8
            return
    raise AssertionError("it writes without end")


def obeyed(world: OneController, broker: int) -> tuple[int, ...] | None:
    """The replicas of orders-0 as the broker knows them from what was sent to it; None: its replica is deleted.

    A broker takes up a LeaderAndIsr only with a higher leader epoch."""
    known: tuple[int, ...] | None = None
    epoch = -1
    for send in world.sent:
        if send.broker == broker and isinstance(send.request, LeaderAndIsrRequest):
            for row in send.request.topics[0].partitions:
                if row.leader_epoch > epoch:
                    known, epoch = row.replicas, row.leader_epoch
        elif send.broker == broker and _deletes(send.request):
            known, epoch = None, -1
    return known


def _deletes(request: ChannelRequest) -> bool:
    return isinstance(request, StopReplicaRequest) and any(row.delete for row in request.topics[0].partitions)


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("second", [(1, 2), (4, 2)], ids=["cancelled", "another target"])
def test_no_replica_of_an_abandoned_target_is_left_after_a_failover_at_any_write(
    second: tuple[int, int], loss: Loss
) -> None:
    for step in range(60):
        world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2))
        ask(world, orders_0=(3, 2))
        assert obeyed(world, 3) is not None
        count = 0

        def lose(_: WriteZnodes, at: int = step) -> Loss | None:
            nonlocal count
            count += 1
            return loss if count == at + 1 else None

        world.losing = lose
        ask(world, orders_0=second)
        world.advance(60_000)
        for _ in range(2):
            # The write of the ISR may have been the one that was lost: the leader asks again.
            if world.context.cluster.reassignments:
                catch_up(world, "orders", 0, 1, *second)
                world.advance(60_000)
        assert assignment(world, "orders") == ReplicaAssignment(second), step
        assert asked(world) is None, step
        assert not world.context.cluster.reassignments, step
        assert obeyed(world, 3) is None, step
        assert all(set(obeyed(world, broker) or ()) == set(second) for broker in second), step
        if count <= step:
            assert step > 3
            return
    raise AssertionError("it writes without end")


def test_replica_of_an_abandoned_target_stays_in_the_znode_until_its_broker_has_answered() -> None:
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2))
    ask(world, orders_0=(3, 2))
    world.silent = {3: None}
    ask(world, orders_0=(4, 2))
    assert assignment(world, "orders") == ReplicaAssignment((4, 2, 1, 3), (4,), (1, 3))
    assert world.context.cluster.topics["orders"].partitions[0].assignment == ReplicaAssignment((4, 2, 1), (4,), (1,))
    world.silent = {}
    world.stop_broker(3)
    world.run()
    assert assignment(world, "orders") == ReplicaAssignment((4, 2, 1), (4,), (1,)), "as if it had answered"


@pytest.mark.parametrize("moment", ["before the write", "before the state is read again"])
def test_replica_of_an_abandoned_target_leaves_the_znode_where_the_removed_state_halts_the_rest(moment: str) -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    ask(world, orders_0=(1, 2, 3))
    path = paths.partition_state("orders", 0)
    if moment == "before the write":
        world.write(Delete(path))
    else:
        world.write(SetData(path, state(world, "orders", 0).encode(), ANY_VERSION))
        world.meanwhile = lambda effect: _remove_before_read(world, effect, path)
    ask(world, orders_0=(1,))
    assert not world.exists(path)
    assert state_of(world, "orders", 3) is ReplicaState.NON_EXISTENT
    assert world.context.cluster.reassignments, "only the next controller makes the state anew"
    known = world.context.cluster.topics["orders"].partitions[0].assignment
    assert assignment(world, "orders") == known == ReplicaAssignment((1, 2), (), (2,))


def _remove_before_read(world: OneController, effect: ReadZnodes | WriteZnodes, path: str) -> None:
    if isinstance(effect, ReadZnodes) and any(read.path == path for read in effect.reads) and world.exists(path):
        world.write(Delete(path))


def test_a_znode_written_by_somebody_else_meanwhile_is_read_again_and_nothing_of_it_is_lost() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    added = False

    def add_partition(effect: ReadZnodes | WriteZnodes) -> None:
        nonlocal added
        if isinstance(effect, WriteZnodes) and not added:
            added = True
            both = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 3))}
            znode = znodes.TopicZnode(both, world.context.cluster.topics["orders"].id)
            world.write(SetData(paths.topic("orders"), znodes.encode_topic(znode), ANY_VERSION))

    world.meanwhile = add_partition
    ask(world, orders_0=(3, 2))
    assert assignment(world, "orders", 1) == ReplicaAssignment((2, 3))
    assert led(world, "orders", 1) == (2, 0, (2, 3))
    assert assignment(world, "orders", 0) == ReplicaAssignment((3, 2, 1), (3,), (1,))


def test_a_refused_write_is_tried_again_when_its_wait_is_over() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.refusals[paths.topic("orders")] = ZkError.NO_AUTH
    ask(world, orders_0=(3, 2))
    assert assignment(world, "orders") == ReplicaAssignment((1, 2))
    assert "NO_AUTH" in refusals(world, "topic/orders")[0]
    world.refusals.clear()
    world.advance(60_000)
    world.run()
    assert assignment(world, "orders") == ReplicaAssignment((3, 2, 1), (3,), (1,))


# --- changing one's mind ------------------------------------------------------------------------------------------


def test_another_target_is_reckoned_from_the_origin_and_the_replica_given_up_is_deleted() -> None:
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2))
    ask(world, orders_0=(3, 2))
    world.take_story()
    ask(world, orders_0=(4, 2))
    assert assignment(world, "orders") == ReplicaAssignment((4, 2, 1), (4,), (1,))
    assert "-> 3 StopReplica: orders-0 epoch 2 delete" in world.take_story()
    assert state_of(world, "orders", 3) is ReplicaState.NON_EXISTENT
    catch_up(world, "orders", 0, 1, 2, 4)
    assert led(world, "orders") is not None
    assert assignment(world, "orders") == ReplicaAssignment((4, 2))


def test_the_origin_as_target_cancels() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    ask(world, orders_0=(3, 2))
    assert "-> 3 LeaderAndIsr: orders-0 leader 1 epoch 1 isr 1,2 new" in world.take_story()
    ask(world, orders_0=(1, 2))
    assert assignment(world, "orders") == ReplicaAssignment((1, 2))
    assert asked(world) is None
    assert not world.context.cluster.reassignments
    # Above the epoch that broker 3 has: KAFKA-13972.
    assert "-> 3 StopReplica: orders-0 epoch 2 delete" in world.take_story()
    assert led(world, "orders") == (1, 2, (1, 2))


def test_a_leader_that_is_given_up_is_replaced_before_the_new_target_is_announced() -> None:
    world = with_topic(cluster(1, 2, 3), "orders", (1,))
    ask(world, orders_0=(2, 3))
    catch_up(world, "orders", 0, 1, 2)
    world.stop_broker(1)
    world.run()
    assert led(world, "orders") == (2, 2, (2,))
    world.start_broker(1)
    world.run()
    catch_up(world, "orders", 0, 2, 1)
    ask(world, orders_0=(3,))
    assert assignment(world, "orders") == ReplicaAssignment((3, 1), (3,), (1,))
    found = led(world, "orders")
    assert found is not None
    assert (found[0], found[2]) == (1, (1,))


def test_a_target_without_any_replica_that_is_in_sync_is_not_given_up_for() -> None:
    world = with_topic(cluster(1, 2, 3), "orders", (1,))
    world.stop_broker(3)
    world.run()
    ask(world, orders_0=(2, 3))
    catch_up(world, "orders", 0, 1, 2)
    world.stop_broker(1)
    world.run()
    assert led(world, "orders") == (2, 2, (2,))
    ask(world, orders_0=(1,))
    assert assignment(world, "orders") == ReplicaAssignment((2, 3, 1), (2, 3), (1,))
    assert "only ones with every record" in refusals(world, "partition/orders-0")[-1]


def with_a_target_held_back() -> OneController:
    """orders-0 moves from 1 to 2 and 3, only 2 is in sync and there; asked for is to move it back to 1."""
    world = with_topic(cluster(1, 2, 3), "orders", (1,))
    world.stop_broker(3)
    world.run()
    ask(world, orders_0=(2, 3))
    catch_up(world, "orders", 0, 1, 2)
    world.stop_broker(1)
    world.run()
    ask(world, orders_0=(1,))
    return world


def test_a_target_that_was_refused_is_started_once_it_is_safe() -> None:
    world = with_a_target_held_back()
    assert RetryReassignments() not in world.context.timers
    assert asked(world) == {TopicPartition("orders", 0): (1,)}, "it is still asked for"
    world.start_broker(1)
    world.run()
    assert assignment(world, "orders") == ReplicaAssignment((2, 3, 1), (2, 3), (1,))
    catch_up(world, "orders", 0, 2, 1)
    assert assignment(world, "orders") == ReplicaAssignment((1,))
    assert asked(world) is None


def test_a_target_that_was_refused_is_started_when_the_former_one_has_arrived() -> None:
    world = with_a_target_held_back()
    world.start_broker(3)
    world.run()
    catch_up(world, "orders", 0, 2, 3)
    assert assignment(world, "orders") == ReplicaAssignment((1, 2, 3), (1,), (2, 3))
    assert asked(world) == {TopicPartition("orders", 0): (1,)}


def test_a_target_that_was_refused_and_is_not_asked_for_any_more_is_not_started() -> None:
    world = with_a_target_held_back()
    ask(world, orders_0=(2, 3))
    world.start_broker(1)
    world.run()
    catch_up(world, "orders", 0, 2, 1)
    assert assignment(world, "orders") == ReplicaAssignment((2, 3, 1), (2, 3), (1,))


def test_refusals_are_tried_again_after_waits_that_double() -> None:
    world = with_topic(cluster(), "orders", (1, 2), (1, 2))
    world.refusals[paths.topic("orders")] = ZkError.NO_AUTH
    ask(world, orders_0=(3, 2))
    waits_ms: list[int] = []
    for _ in range(4):
        wait_ms = world.context.timers[RetryReassignments()] - world.now_ms
        waits_ms.append(wait_ms)
        world.advance(wait_ms - 1)
        assert RetryReassignments() in world.context.timers, "not before its time"
        world.advance(1)
    assert [later / earlier for earlier, later in itertools.pairwise(waits_ms)] == [2, 2, 2]


@pytest.mark.parametrize("phase", ["announce", "lead"])
def test_an_isr_with_a_stranger_written_meanwhile_is_written_without_it(phase: str) -> None:
    """Broker 4 is no replica; its log may be gone when it is made one."""
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2))
    if phase == "lead":
        ask(world, orders_0=(3, 2))
    written = False

    def somebody(effect: ReadZnodes | WriteZnodes) -> None:
        nonlocal written
        path = paths.partition_state("orders", 0)
        mine = isinstance(effect, WriteZnodes) and any(op.path == path for group in effect.groups for op in group)
        known = world.context.cluster.topics["orders"].partitions[0].leader_and_isr
        if not mine or written or known is None or (phase == "lead" and 3 not in known.isr):
            return
        written = True
        world.write(SetData(path, znodes.encode_state(known._replace(isr=(*known.isr, 4))), ANY_VERSION))

    world.meanwhile = somebody
    if phase == "announce":
        ask(world, orders_0=(3, 2))
        assert led(world, "orders") == (1, 1, (1, 2))
    else:
        catch_up(world, "orders", 0, 1, 2, 3)
        leader_and_isr = led(world, "orders")
        assert leader_and_isr is not None
        assert 4 not in leader_and_isr[2]
        assert assignment(world, "orders") == ReplicaAssignment((3, 2))
    assert written


# --- bad requests -------------------------------------------------------------------------------------------------


def test_entries_that_can_never_be_done_are_taken_out_with_their_reason_and_the_others_go_on() -> None:
    world = with_topic(cluster(), "orders", (1, 2), (1, 2), (1, 2))
    ask(world, orders_0=(3, 2), orders_1=(2, 2), orders_2=(), nowhere_0=(1,), orders_9=(1,))
    assert asked(world) == {TopicPartition("orders", 0): (3, 2)}
    assert "no such partition" in refusals(world, "partition/nowhere-0")[0]
    assert "different brokers" in refusals(world, "partition/orders-1")[0]


def test_a_list_that_cannot_be_understood_is_removed_and_the_next_one_is_noticed() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.write(Create(PATH, b"{"))
    world.run()
    assert not world.exists(PATH)
    ask(world, orders_0=(3, 2))
    assert assignment(world, "orders").is_being_reassigned


# --- deletion -----------------------------------------------------------------------------------------------------


def test_deletion_of_a_topic_that_is_being_moved_ends_that_first_and_deletes_origin_and_target() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    ask(world, orders_0=(3,))
    world.take_story()
    world.mark("orders")
    world.run()
    story = world.take_story()
    cancel = story.index("zk check /admin/delete_topics/orders")
    assert cancel < story.index("zk set /brokers/topics/orders") < story.index("UpdateMetadata")
    assert "-> 3,1,2 StopReplica: orders-0 epoch -2 delete" in story
    assert is_gone(world, "orders")
    assert asked(world) is None


def test_deletion_deletes_a_replica_that_is_being_added_on_a_broker_that_is_down_when_it_returns() -> None:
    world = with_topic(cluster(1, 2), "orders", (1, 2))
    ask(world, orders_0=(3,))
    world.mark("orders")
    world.run()
    assert not is_gone(world, "orders")
    world.start_broker(3)
    world.run()
    assert is_gone(world, "orders")


def test_a_marker_that_is_gone_before_the_reassignment_was_ended_leaves_it_going() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    ask(world, orders_0=(3, 2))

    def unmark(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and world.exists(paths.delete_topic("orders")):
            world.write(Delete(paths.delete_topic("orders")))

    world.meanwhile = unmark
    world.mark("orders")
    world.run()
    assert assignment(world, "orders").is_being_reassigned
    assert not world.context.cluster.is_queued("orders")
    assert "orders" not in world.context.cluster.marks


def test_a_deletion_waits_while_the_reassignment_cannot_be_ended_and_says_so() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    ask(world, orders_0=(3, 2))
    world.refusals[paths.topic("orders")] = ZkError.NO_AUTH
    world.mark("orders")
    world.run()
    mark = world.context.cluster.marks["orders"]
    assert (mark.held_by, mark.last_error) == (CauseKind.REASSIGNMENT, NO_AUTH)
    world.refusals.clear()
    world.advance(60_000)
    world.run()
    assert is_gone(world, "orders")


def test_a_failover_between_mark_and_end_ends_the_reassignment_before_anything_is_deleted() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    ask(world, orders_0=(3,))
    world.crash()
    world.mark("orders")
    world.elect()
    world.run()
    assert is_gone(world, "orders")
    done = [
        f.data["target"] for f in world.recorded(EventRecordType.REASSIGNMENT) if f.data["what"] == "ended by deletion"
    ]
    assert done == ["3,1,2"]


def test_request_that_is_older_than_its_topic_meant_another_one() -> None:
    world = cluster()
    world.crash()
    world.write(Create(PATH, znodes.encode_reassignment({TopicPartition("orders", 0): (2,)})))
    world.create_topic("orders", (1,))
    world.elect()
    assert assignment(world, "orders") == ReplicaAssignment((1,))
    assert asked(world) is None
    assert refusals(world, "partition/orders-0") == [
        "it was requested before the topic was created, for an earlier topic of that name"
    ]


def test_request_of_a_topic_that_is_removed_by_hand_leaves_the_list() -> None:
    world = with_topic(cluster(), "orders", (1,))
    ask(world, orders_0=(1, 2))
    assert asked(world) == {TopicPartition("orders", 0): (1, 2)}
    tree = [path for path in world.zookeeper.paths() if path.startswith(paths.topic("orders"))]
    world.write(*(Delete(path) for path in sorted(tree, key=len, reverse=True)))
    world.run()
    assert asked(world) is None
    assert not world.context.cluster.reassignments


def test_partition_whose_isr_has_no_replica_of_it_can_be_reassigned() -> None:
    world = with_topic(cluster(1, 2, 3, 9), "orders", (1, 2))
    found = world.read(paths.partition_state("orders", 0))
    assert found is not None
    elsewhere = znodes.decode_state("orders", 0, found.data, found.stat.version)
    assert elsewhere is not None
    world.crash()
    data = znodes.encode_state(elsewhere._replace(leader=9, isr=(9,)))
    world.write(SetData(paths.partition_state("orders", 0), data, ANY_VERSION))
    world.elect()
    ask(world, orders_0=(1, 3))
    assert assignment(world, "orders") == ReplicaAssignment((1, 3, 2), (3,), (2,))
    assert refusals(world, "partition/orders-0") == []
