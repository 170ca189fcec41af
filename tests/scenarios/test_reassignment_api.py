"""What clients are answered when they move partitions, cancel that, or ask what is moving."""

from __future__ import annotations

import pytest

from lethe.controller.core.context import Role
from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MovingPartition,
    MovingTopic,
    PartitionOutcome,
    ReassignablePartition,
    ReassignableTopic,
    TopicOutcome,
    TopicPartitions,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import ControllerResponse
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData, ZkError
from tests.fakes.one_controller import Loss, OneController
from tests.scenarios import clients
from tests.scenarios.clients import PartitionErrors
from tests.scenarios.moves import PATH, ask, asked, assignment, catch_up
from tests.scenarios.plot import another_is_elected_meanwhile, cluster, led, refusals, text, with_topic
from tests.scenarios.test_trash import trashed

Rows = dict[str, tuple[int, ...] | None]

NONE = (ErrorCode.NONE, None)
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
NOTHING_MOVES = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
FAILED = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    "The server experienced an unexpected error when processing the request.",
)
LOSSY = (
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    "no replica that stays is in sync: those that would go are the only ones with every record",
)


def tp(name: str) -> TopicPartition:
    topic, number = name.rsplit("-", 1)
    return TopicPartition(topic, int(number))


def to_alter(*rows: tuple[str, tuple[int, ...] | None]) -> AlterPartitionReassignmentsRequest:
    """A topic for each row, as they come."""
    topics = (
        ReassignableTopic(tp(name).topic, (ReassignablePartition(tp(name).partition, replicas),))
        for name, replicas in rows
    )
    return AlterPartitionReassignmentsRequest(tuple(topics), 30_000)


def errors_in(response: ControllerResponse) -> PartitionErrors:
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    assert response.error == ErrorCode.NONE
    return clients.partition_errors(response.topics)


def alter(world: OneController, **rows: tuple[int, ...] | None) -> PartitionErrors:
    """What a client is answered for partitions named as `orders_0`; None cancels."""
    named = ((name.replace("_", "-"), replicas) for name, replicas in rows.items())
    return errors_in(world.ask(to_alter(*named), 0))


def moving(world: OneController, *names: str) -> dict[str, ReplicaAssignment]:
    """What a client sees when it asks for these partitions, or for all."""
    topics = tuple(TopicPartitions(tp(name).topic, (tp(name).partition,)) for name in names) if names else None
    response = world.ask(ListPartitionReassignmentsRequest(topics, 30_000), 0)
    assert isinstance(response, ListPartitionReassignmentsResponse)
    assert response.error == ErrorCode.NONE
    return {
        f"{topic.topic}-{row.partition}": ReplicaAssignment(row.replicas, row.adding, row.removing)
        for topic in response.topics
        for row in topic.partitions
    }


# --- altering -----------------------------------------------------------------------------------------------------


def test_golden_story_of_a_move() -> None:
    world = with_topic(cluster(), "orders", (1,))
    assert alter(world, orders_0=(2,)) == {"orders-0": NONE}
    assert world.take_story() == text("""
        ? User:ANONYMOUS AlterPartitionReassignments
        zk set /brokers/topics/orders at version 1
        zk set /brokers/topics/orders/partitions/0/state at version 0: leader 1 epoch 1 isr 1
        -> 1 LeaderAndIsr: orders-0 leader 1 epoch 1 isr 1
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader 1 epoch 1 isr 1
        -> 2 LeaderAndIsr: orders-0 leader 1 epoch 1 isr 1 new
        -> 1,2,3 UpdateMetadata brokers 1,2,3: orders-0 leader 1 epoch 1 isr 1
        zk check /controller_epoch at version 1
        ! AlterPartitionReassignments NONE, NONE
        <- 1 LeaderAndIsr ok
        <- 1,2,3 UpdateMetadata ok
        <- 2 LeaderAndIsr ok
        <- 1,2,3 UpdateMetadata ok
    """)
    assert assignment(world, "orders") == ReplicaAssignment((2, 1), (2,), (1,))
    catch_up(world, "orders", 0, 1, 2)
    assert assignment(world, "orders") == ReplicaAssignment((2,))
    assert moving(world) == {}


def test_partitions_of_one_topic_move_with_one_write_of_its_znode() -> None:
    world = with_topic(cluster(), "orders", (1,), (1,), (1,))
    assert list(alter(world, orders_2=(2,), orders_0=(3,))) == ["orders-2", "orders-0"]
    assert world.take_story().count("zk set /brokers/topics/orders at version") == 1
    assert [assignment(world, "orders", number).target for number in range(3)] == [(3,), (1,), (2,)]


def test_partition_that_is_named_twice_has_one_row_and_the_last_target() -> None:
    world = with_topic(cluster(), "orders", (1,), (1,))
    response = world.ask(to_alter(("orders-0", (2,)), ("orders-1", (2,)), ("orders-0", (3,))), 0)
    rows = (PartitionOutcome(0, ErrorCode.NONE), PartitionOutcome(1, ErrorCode.NONE))
    assert response == AlterPartitionReassignmentsResponse((TopicOutcome("orders", rows),))
    assert assignment(world, "orders").target == (3,)


def test_request_that_names_nothing_is_answered() -> None:
    world = cluster()
    assert world.ask(AlterPartitionReassignmentsRequest((), 30_000), 0) == AlterPartitionReassignmentsResponse(())
    assert "zk check /controller_epoch at version 1" in world.take_story()


def test_second_target_is_counted_from_the_origin() -> None:
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2))
    alter(world, orders_0=(2, 3))
    assert alter(world, orders_0=(1, 4)) == {"orders-0": NONE}
    assert assignment(world, "orders") == ReplicaAssignment((1, 4, 2), (4,), (2,))
    assert "-> 3 StopReplica: orders-0 epoch 2 delete" in world.take_story().splitlines()


def test_target_that_is_there_already_changes_nothing() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    assert alter(world, orders_0=(1, 2)) == {"orders-0": NONE}
    assert "zk set" not in world.take_story()
    assert alter(world, orders_0=(2, 3)) == alter(world, orders_0=(2, 3)) == {"orders-0": NONE}
    assert assignment(world, "orders") == ReplicaAssignment((2, 3, 1), (3,), (1,))


def test_target_within_the_isr_is_reached_before_the_answer() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    assert alter(world, orders_0=(2,)) == {"orders-0": NONE}
    assert assignment(world, "orders") == ReplicaAssignment((2,))
    assert led(world, "orders") == (2, 2, (2,))


# --- cancelling ---------------------------------------------------------------------------------------------------


def test_cancelled_move_goes_back_to_the_origin() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    alter(world, orders_0=(1, 3))
    assert alter(world, orders_0=None) == {"orders-0": NONE}
    assert assignment(world, "orders") == ReplicaAssignment((1, 2))
    assert moving(world) == {}
    deleted = [line for line in world.take_story().splitlines() if "delete" in line]
    assert deleted == ["-> 3 StopReplica: orders-0 epoch 2 delete"]


def test_replicas_stay_in_the_order_of_the_cancelled_move() -> None:
    """So another one may be preferred afterwards: `ReplicaAssignment` of Kafka puts the target first."""
    world = with_topic(cluster(), "orders", (1, 2))
    alter(world, orders_0=(3, 2))
    assert moving(world) == {"orders-0": ReplicaAssignment((3, 2, 1), (3,), (1,))}
    assert alter(world, orders_0=None) == {"orders-0": NONE}
    assert assignment(world, "orders") == ReplicaAssignment((2, 1))
    assert led(world, "orders") == (1, 2, (1, 2))


def test_move_whose_first_replica_has_caught_up_can_be_cancelled() -> None:
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1, 2))
    alter(world, orders_0=(3, 4))
    catch_up(world, "orders", 0, 1, 2, 3)
    assert alter(world, orders_0=None) == {"orders-0": NONE}
    assert assignment(world, "orders") == ReplicaAssignment((1, 2))
    assert led(world, "orders") == (1, 3, (1, 2))


def test_nothing_to_cancel() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    assert alter(world, orders_0=None, orders_7=None, ghosts_0=None) == {
        "orders-0": NOTHING_MOVES,
        "orders-7": NOTHING_MOVES,
        "ghosts-0": NOTHING_MOVES,
    }
    assert "zk set" not in world.take_story()


def test_move_whose_target_leads_cannot_be_cancelled_while_the_former_replica_is_deleted() -> None:
    world = with_topic(cluster(), "orders", (1,))
    world.silent[1] = None
    alter(world, orders_0=(2,))
    catch_up(world, "orders", 0, 1, 2)
    arrived = ReplicaAssignment((2, 1), (2,), (1,))
    assert moving(world) == {"orders-0": arrived}
    why = "The partition has its target replicas, and the former ones are being deleted."
    assert alter(world, orders_0=None) == {"orders-0": (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, why)}
    assert assignment(world, "orders") == arrived
    world.stop_broker(1)
    world.run()
    assert moving(world) == {}
    assert alter(world, orders_0=None) == {"orders-0": NOTHING_MOVES}


def test_cancelling_is_refused_where_it_would_delete_the_only_replica_in_sync() -> None:
    world = with_topic(cluster(), "orders", (1,))
    alter(world, orders_0=(2, 3))
    catch_up(world, "orders", 0, 1, 2)
    world.stop_broker(1)
    world.run()
    assert led(world, "orders") == (2, 2, (2,))
    assert alter(world, orders_0=None) == {"orders-0": LOSSY}
    assert alter(world, orders_0=(1, 3)) == {"orders-0": LOSSY}
    # It is not tried later either: the client was told no.
    world.start_broker(1)
    world.run()
    catch_up(world, "orders", 0, 1, 2)
    assert assignment(world, "orders") == ReplicaAssignment((2, 3, 1), (2, 3), (1,))
    assert alter(world, orders_0=None) == {"orders-0": NONE}
    assert assignment(world, "orders") == ReplicaAssignment((1,))


# --- refused rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "replicas, message",
    [
        ((), "Empty replica list specified in partition reassignment."),
        ((1, 1), "Duplicate replica ids in partition reassignment replica list: ArrayBuffer(1, 1)"),
        ((2, -1), "Invalid broker id in replica list: ArrayBuffer(2, -1)"),
        (
            (1, 8, 9),
            (
                "Replica assignment has brokers that are not alive. Replica list: ArrayBuffer(8, 9), "
                "live broker list: Set(1, 2, 3)"
            ),
        ),
    ],
)
def test_impossible_replicas(replicas: tuple[int, ...], message: str) -> None:
    world = with_topic(cluster(), "orders", (1,), (1,))
    invalid = (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    assert alter(world, orders_0=replicas, orders_1=(2,)) == {"orders-0": invalid, "orders-1": NONE}
    assert assignment(world, "orders", 0) == ReplicaAssignment((1,))
    assert assignment(world, "orders", 1) == ReplicaAssignment((2, 1), (2,), (1,))


def test_replica_on_a_dead_broker_may_stay() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.stop_broker(2)
    world.run()
    assert alter(world, orders_0=(2, 3)) == {"orders-0": NONE}
    assert assignment(world, "orders") == ReplicaAssignment((2, 3, 1), (3,), (1,))


def test_what_is_not_there() -> None:
    world = with_topic(cluster(), "orders", (1,))
    assert alter(world, orders_7=(1,), ghosts_0=(2,)) == {"orders-7": UNKNOWN, "ghosts-0": UNKNOWN}


def test_queued_topic() -> None:
    world = with_topic(cluster(), "orders", (1,))
    world.silent[1] = None
    world.mark("orders")
    world.run()
    assert alter(world, orders_0=(2,)) == {"orders-0": UNKNOWN}
    assert moving(world) == {}


def test_topic_in_the_trash() -> None:
    world = trashed()
    assert "orders" not in world.context.cluster.topics
    assert alter(world, orders_0=(2,)) == {"orders-0": UNKNOWN}


# --- the znode's entries ------------------------------------------------------------------------------------------


def test_entries_of_the_znode_for_the_same_partitions_go() -> None:
    world = with_topic(cluster(1, 2, 3, 4), "orders", (1,), (1,), (1,))
    ask(world, orders_0=(2,), orders_1=(2,), orders_2=(2,))
    assert alter(world, orders_0=(3,), orders_1=None) == {"orders-0": NONE, "orders-1": NONE}
    assert asked(world) == {tp("orders-2"): (2,)}
    assert alter(world, orders_2=(4,)) == {"orders-2": NONE}
    assert asked(world) is None
    targets = [assignment(world, "orders", number).target for number in range(3)]
    assert targets == [(3,), (1,), (4,)]
    # The next controller has nothing else to follow.
    world.crash()
    world.elect()
    assert [assignment(world, "orders", number).target for number in range(3)] == targets


def test_refused_row_leaves_the_entry_of_the_znode() -> None:
    world = with_topic(cluster(), "orders", (1,))
    ask(world, orders_0=(2,))
    assert alter(world, orders_0=(9,))["orders-0"][0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert asked(world) == {tp("orders-0"): (2,)}


def test_target_of_the_znode_that_is_held_gives_way_too() -> None:
    world = with_topic(cluster(), "orders", (1,))
    ask(world, orders_0=(2, 3))
    catch_up(world, "orders", 0, 1, 2)
    world.stop_broker(1)
    world.run()
    ask(world, orders_0=(1, 3))
    assert world.context.cluster.reassignments[tp("orders-0")].held_target == (1, 3)
    assert alter(world, orders_0=(2, 3)) == {"orders-0": NONE}
    assert asked(world) is None
    world.start_broker(1)
    world.run()
    catch_up(world, "orders", 0, 1, 2)
    assert assignment(world, "orders").target == (2, 3)


def test_znode_that_is_written_meanwhile_is_read_again() -> None:
    world = with_topic(cluster(), "orders", (1,), (1,))
    ask(world, orders_0=(2,))
    left = [None]

    def add(effect: ReadZnodes | WriteZnodes) -> None:
        if left and isinstance(effect, WriteZnodes):
            left.pop()
            data = znodes.encode_reassignment({tp("orders-0"): (2,), tp("orders-1"): (2,)})
            world.write(SetData(PATH, data, ANY_VERSION))

    world.meanwhile = add
    assert alter(world, orders_0=(3,)) == {"orders-0": NONE}
    assert asked(world) == {tp("orders-1"): (2,)}
    assert assignment(world, "orders", 0).target == (3,)
    assert assignment(world, "orders", 1).target == (2,)


def test_znode_that_cannot_be_read_stops_the_request() -> None:
    world = with_topic(cluster(), "orders", (1,))
    world.refusals[PATH] = ZkError.NO_AUTH
    assert alter(world, orders_0=(2,), orders_7=(2,)) == {"orders-0": FAILED, "orders-7": UNKNOWN}
    assert assignment(world, "orders") == ReplicaAssignment((1,))
    assert refusals(world, "partition/orders-0") == [f"reading {PATH}: NO_AUTH"]


def test_znode_that_cannot_be_written_stops_the_request() -> None:
    world = with_topic(cluster(), "orders", (1,))
    ask(world, orders_0=(2,))
    world.read_only[PATH] = ZkError.NO_AUTH
    assert alter(world, orders_0=(3,)) == {"orders-0": FAILED}
    assert assignment(world, "orders").target == (2,)
    assert refusals(world, "partition/orders-0") == [f"shortening {PATH}: NO_AUTH"]


def test_znode_that_cannot_be_understood_has_no_entries() -> None:
    world = with_topic(cluster(), "orders", (1,))
    world.read_only[PATH] = ZkError.NO_AUTH
    world.write(Create(PATH, b"{"))
    assert alter(world, orders_0=(2,)) == {"orders-0": NONE}
    assert assignment(world, "orders").target == (2,)


def test_znode_with_a_topic_that_is_being_removed_is_written_afterwards() -> None:
    world = with_topic(with_topic(cluster(), "bills", (1,)), "orders", (1,))
    ask(world, orders_0=(2,))
    world.held = []
    world.mark("bills")
    world.run()
    assert "bills" in world.context.cluster.removals.under_way
    ask(world, orders_0=(2,), bills_0=(2,))
    key = clients.waiting(world, to_alter(("orders-0", (3,))), 0)
    assert assignment(world, "orders").target == (2,)
    world.release(1)
    assert [errors_in(each) for each in world.replies[key]] == [{"orders-0": NONE}]
    assert assignment(world, "orders").target == (3,)
    assert asked(world) is None


# --- trouble ------------------------------------------------------------------------------------------------------


def test_partitions_that_are_added_meanwhile_stay() -> None:
    world = with_topic(cluster(), "orders", (1,))
    left = [None]

    def grow(effect: ReadZnodes | WriteZnodes) -> None:
        if left and isinstance(effect, WriteZnodes):
            left.pop()
            both = znodes.TopicZnode(
                {n: ReplicaAssignment((1,)) for n in (0, 1)}, world.context.cluster.topics["orders"].id
            )
            world.write(SetData(paths.topic("orders"), znodes.encode_topic(both), ANY_VERSION))

    world.meanwhile = grow
    assert alter(world, orders_0=(2,)) == {"orders-0": NONE}
    assert assignment(world, "orders", 0) == ReplicaAssignment((2, 1), (2,), (1,))
    assert assignment(world, "orders", 1) == ReplicaAssignment((1,))


def remove_by_hand(world: OneController, name: str, before: type[ReadZnodes | WriteZnodes]) -> None:
    """Somebody removes the topic's znodes, before the controller's next read or write."""
    left = [None]

    def remove(effect: ReadZnodes | WriteZnodes) -> None:
        if left and isinstance(effect, before):
            left.pop()
            tree = [path for path in world.zookeeper.paths() if path.startswith(paths.topic(name))]
            world.write(*(Delete(path) for path in sorted(tree, key=len, reverse=True)))

    world.meanwhile = remove


def test_topic_that_is_removed_by_hand_meanwhile_does_not_exist() -> None:
    world = with_topic(cluster(), "orders", (1,))
    remove_by_hand(world, "orders", WriteZnodes)
    assert alter(world, orders_0=(2,)) == {"orders-0": FAILED}
    assert "orders" not in world.context.cluster.topics


def test_topic_that_was_removed_by_hand_before_does_not_exist_where_nothing_is_to_be_moved_either() -> None:
    """Nothing is written for a partition that has these replicas already, so no write would find out."""
    world = with_topic(with_topic(cluster(), "audit", (1, 2)), "orders", (1, 2))
    remove_by_hand(world, "orders", ReadZnodes)
    assert alter(world, orders_0=(1, 2), audit_0=(1, 2)) == {"orders-0": UNKNOWN, "audit-0": NONE}


def test_topic_whose_znode_refuses_the_write_is_one_row() -> None:
    world = with_topic(with_topic(cluster(), "bills", (1,)), "orders", (1,))
    world.read_only[paths.topic("orders")] = ZkError.NO_AUTH
    assert alter(world, orders_0=(2,), bills_0=(2,)) == {"orders-0": FAILED, "bills-0": NONE}
    assert assignment(world, "orders") == ReplicaAssignment((1,))
    assert assignment(world, "bills").target == (2,)


def test_deposed_controller_moves_nothing_and_says_so() -> None:
    world = with_topic(cluster(), "orders", (1,))
    another_is_elected_meanwhile(world)
    response = world.ask(to_alter(("orders-0", (2,))), 0)
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    assert response.error == ErrorCode.NOT_CONTROLLER
    assert world.context.role is Role.STANDING_BY
    assert assignment(world, "orders") == ReplicaAssignment((1,))


def test_deposed_controller_lists_nothing() -> None:
    world = with_topic(cluster(), "orders", (1,))
    another_is_elected_meanwhile(world)
    response = world.ask(ListPartitionReassignmentsRequest(None, 30_000), 0)
    assert response == ListPartitionReassignmentsResponse((), ErrorCode.NOT_CONTROLLER)


@pytest.mark.parametrize("loss", list(Loss))
def test_unknown_outcome_ends_the_term_and_the_next_one_shows_what_became_of_it(loss: Loss) -> None:
    world = with_topic(cluster(), "orders", (1,))

    def lose(effect: WriteZnodes) -> Loss | None:
        is_move = any(operation.path == paths.topic("orders") for group in effect.groups for operation in group)
        world.losing = (lambda _: None) if is_move else lose
        return loss if is_move else None

    world.losing = lose
    response = world.ask(to_alter(("orders-0", (2,))), 0)
    assert isinstance(response, AlterPartitionReassignmentsResponse)
    assert response.error == ErrorCode.NOT_CONTROLLER
    world.advance(60_000)
    assert world.context.role is Role.ACTIVE
    begun = {"orders-0": ReplicaAssignment((2, 1), (2,), (1,))}
    assert moving(world) == (begun if loss is Loss.APPLIED else {})
    assert alter(world, orders_0=(2,)) == {"orders-0": NONE}
    assert moving(world) == begun


def test_broker_that_dies_leaves_the_move_to_be_cancelled() -> None:
    world = with_topic(cluster(), "orders", (1,))
    alter(world, orders_0=(2,))
    world.stop_broker(2)
    world.run()
    assert moving(world) == {"orders-0": ReplicaAssignment((2, 1), (2,), (1,))}
    assert alter(world, orders_0=None) == {"orders-0": NONE}
    assert assignment(world, "orders") == ReplicaAssignment((1,))
    assert moving(world) == {}


def test_deletion_of_the_topic_ends_the_move() -> None:
    world = with_topic(cluster(), "orders", (1,))
    alter(world, orders_0=(2,))
    world.silent[1] = None
    world.mark("orders")
    world.run()
    assert moving(world) == {}
    assert alter(world, orders_0=None) == {"orders-0": NOTHING_MOVES}
    whats = [record.data["what"] for record in world.recorded(EventRecordType.REASSIGNMENT)]
    assert whats == ["started", "ended by deletion"]


# --- listing ------------------------------------------------------------------------------------------------------


def test_listed_are_all_or_those_of_the_named_that_move() -> None:
    world = with_topic(with_topic(cluster(), "bills", (1,)), "orders", (1,), (1, 2))
    alter(world, orders_1=(1, 3), bills_0=(2,))
    bills, orders = ReplicaAssignment((2, 1), (2,), (1,)), ReplicaAssignment((1, 3, 2), (3,), (2,))
    assert moving(world) == {"bills-0": bills, "orders-1": orders}
    assert moving(world, "orders-0", "orders-1", "orders-7", "ghosts-0") == {"orders-1": orders}
    response = world.ask(ListPartitionReassignmentsRequest((TopicPartitions("orders", (1, 1)),), 30_000), 0)
    row = MovingPartition(1, (1, 3, 2), (3,), (2,))
    assert response == ListPartitionReassignmentsResponse((MovingTopic("orders", (row,)),))
    assert world.ask(ListPartitionReassignmentsRequest((), 30_000), 0) == ListPartitionReassignmentsResponse(())


def test_list_goes_through_a_failover() -> None:
    world = with_topic(cluster(), "orders", (1,))
    alter(world, orders_0=(2,))
    before = moving(world)
    world.crash()
    world.elect()
    assert moving(world) == before != {}
