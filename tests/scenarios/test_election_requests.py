"""What clients are answered when they ask for leaders: the preferred ones, or any that are left."""

from __future__ import annotations

import pytest

from lethe.controller.core.context import Role
from lethe.controller.core.effects import ReadZnodes, Send, WriteZnodes
from lethe.controller.core.events import Answer, UpdateMetadataResponseReceived
from lethe.protocol.kafka.admin_partitions import (
    ElectionKind,
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from lethe.protocol.kafka.control import UpdateMetadataResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import ControllerResponse
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Delete, SetData, ZkError
from tests.fakes.one_controller import Loss, OneController, consent
from tests.scenarios import clients
from tests.scenarios.clients import PartitionErrors
from tests.scenarios.moves import catch_up
from tests.scenarios.plot import another_is_elected_meanwhile, cluster, led, refusals, text, with_topic

TIMEOUT_MS = 30_000
NONE = (ErrorCode.NONE, None)
LATE = (ErrorCode.REQUEST_TIMED_OUT, None)
NOT_NEEDED = (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
QUEUED = (ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
FAILED = (ErrorCode.UNKNOWN_SERVER_ERROR, None)


def no_preferred(partition: str) -> tuple[ErrorCode, str]:
    strategy = "PreferredReplicaPartitionLeaderElectionStrategy"
    return (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        f"Failed to elect leader for partition {partition} under strategy {strategy}",
    )


def no_eligible(partition: str) -> tuple[ErrorCode, str]:
    strategy = "OfflinePartitionLeaderElectionStrategy(true)"
    return (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        f"Failed to elect leader for partition {partition} under strategy {strategy}",
    )


def to_elect(*names: str, kind: int = ElectionKind.PREFERRED, timeout_ms: int = TIMEOUT_MS) -> ElectLeadersRequest:
    """Without names: all partitions."""
    parted = (name.rsplit("-", 1) for name in names)
    rows = tuple(TopicPartitions(topic, (int(number),)) for topic, number in parted)
    return ElectLeadersRequest(rows or None, timeout_ms, kind)


def errors_in(response: ControllerResponse) -> PartitionErrors:
    assert isinstance(response, ElectLeadersResponse)
    assert response.error == ErrorCode.NONE
    return clients.partition_errors(response.topics)


def elect(world: OneController, *names: str, kind: int = ElectionKind.PREFERRED) -> PartitionErrors:
    return errors_in(world.ask(to_elect(*names, kind=kind), 2))


def led_by_second(*partitions: tuple[int, ...]) -> OneController:
    """`orders`, whose first broker was away for a while: the second one leads, and the first one is in sync again."""
    world = with_topic(cluster(), "orders", *(partitions or ((1, 2),)))
    world.stop_broker(1)
    world.run()
    world.start_broker(1)
    world.run()
    for number, replicas in enumerate(partitions or ((1, 2),)):
        if replicas[0] == 1:
            catch_up(world, "orders", number, *replicas[1:], 1)
    world.take_story()
    return world


def leaderless(*others: tuple[int, ...]) -> OneController:
    """`orders`, with partition 0 on brokers 1 and 2, of which 1 alone was in sync when it died."""
    world = with_topic(cluster(), "orders", (1, 2), *others)
    world.stop_broker(2)
    world.run()
    world.start_broker(2)
    world.run()
    world.stop_broker(1)
    world.run()
    assert led(world, "orders") == (-1, 2, (1,))
    world.take_story()
    return world


# --- preferred ----------------------------------------------------------------------------------------------------


def test_golden_story_of_a_preferred_election() -> None:
    world = led_by_second()
    assert elect(world, "orders-0") == {"orders-0": NONE}
    assert world.take_story() == text("""
        ? User:ANONYMOUS ElectLeaders
        zk set /brokers/topics/orders/partitions/0/state at version 2: leader 1 epoch 2 isr 2,1
        -> 1,2 LeaderAndIsr: orders-0 leader 1 epoch 2 isr 2,1
        -> 2,3,1 UpdateMetadata brokers 2,3,1: orders-0 leader 1 epoch 2 isr 2,1
        <- 1,2 LeaderAndIsr ok
        <- 2,3,1 UpdateMetadata ok
        ! ElectLeaders NONE, NONE
    """)


def test_answer_about_all_has_only_what_was_needed() -> None:
    world = led_by_second((1, 2), (2, 1), (1, 3))
    world = with_topic(world, "bills", (3, 2))
    assert elect(world) == {"orders-0": NONE, "orders-2": NONE}
    assert elect(world) == {}
    assert elect(world, kind=ElectionKind.UNCLEAN) == {}


def test_each_row_has_its_error() -> None:
    world = led_by_second((1, 2), (2, 3))
    world = with_topic(with_topic(world, "bills", (1, 2)), "doomed", (1,))
    world.stop_broker(1)
    world.silent[2] = None
    world.mark("doomed")
    world.run()
    world.silent.clear()
    assert elect(world, "orders-1", "orders-0", "bills-0", "doomed-0", "orders-7", "ghosts-0", "orders-1") == {
        "orders-1": NOT_NEEDED,
        "orders-0": no_preferred("orders-0"),
        "bills-0": no_preferred("bills-0"),
        "doomed-0": QUEUED,
        "orders-7": UNKNOWN,
        "ghosts-0": UNKNOWN,
    }
    assert elect(world) == {"orders-0": no_preferred("orders-0"), "bills-0": no_preferred("bills-0")}


def test_preferred_replica_that_is_not_in_sync_does_not_lead() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.stop_broker(1)
    world.run()
    world.start_broker(1)
    world.run()
    assert elect(world, "orders-0") == {"orders-0": no_preferred("orders-0")}
    assert led(world, "orders") == (2, 1, (2,))


def test_partition_without_leadership_has_none_to_elect() -> None:
    world = cluster()
    world.stop_broker(1)
    world.run()
    with_topic(world, "orders", (1,))
    why = "LeaderAndIsr information doesn't exist for partition orders-0 in NewPartition state"
    assert elect(world, "orders-0") == {"orders-0": (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, why)}
    unclean = elect(world, "orders-0", kind=ElectionKind.UNCLEAN)
    assert unclean == {"orders-0": (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, why)}
    assert elect(world) == {}


def test_unknown_kind_of_election() -> None:
    world = led_by_second()
    response = world.ask(to_elect("orders-0", kind=7), 2)
    assert isinstance(response, ElectLeadersResponse)
    assert response.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert led(world, "orders") == (2, 1, (2, 1))


# --- unclean ------------------------------------------------------------------------------------------------------


def test_golden_story_of_an_unclean_election() -> None:
    world = leaderless()
    assert elect(world, "orders-0", kind=ElectionKind.UNCLEAN) == {"orders-0": NONE}
    assert world.take_story() == text("""
        ? User:ANONYMOUS ElectLeaders
        zk set /brokers/topics/orders/partitions/0/state at version 2: leader 2 epoch 3 isr 2 recovering
        -> 2 LeaderAndIsr: orders-0 leader 2 epoch 3 isr 2
        -> 3,2 UpdateMetadata brokers 3,2: orders-0 leader 2 epoch 3 isr 2 offline 1
        <- 2 LeaderAndIsr ok
        <- 3,2 UpdateMetadata ok
        ! ElectLeaders NONE, NONE
    """)
    assert refusals(world, "topic/orders")[-1] == (
        "none of the ISR [1] is alive: 2 leads, and what it had not fetched is lost, as a client requested"
    )
    assert world.context.unclean_elections == 1


def test_live_leader_is_never_replaced_by_an_unclean_election() -> None:
    world = led_by_second()
    assert elect(world, "orders-0", kind=ElectionKind.UNCLEAN) == {"orders-0": NOT_NEEDED}
    assert led(world, "orders") == (2, 1, (2, 1))


def test_unclean_election_of_named_partitions_and_of_all() -> None:
    named = ("orders-0", "orders-1", "orders-2", "orders-7", "ghosts-0")
    assert elect(leaderless((1, 2), (1, 3)), *named, kind=ElectionKind.UNCLEAN) == {
        "orders-0": NONE,
        "orders-1": NONE,
        "orders-2": NOT_NEEDED,
        "orders-7": UNKNOWN,
        "ghosts-0": UNKNOWN,
    }
    world = leaderless((1, 2), (1, 3))
    assert elect(world, kind=ElectionKind.UNCLEAN) == {"orders-0": NONE, "orders-1": NONE}
    assert [led(world, "orders", number) for number in range(3)] == [(2, 3, (2,)), (2, 3, (2,)), (3, 1, (3,))]


def test_preferred_election_loses_nothing_where_no_replica_leads() -> None:
    world = leaderless()
    assert elect(world, "orders-0") == {"orders-0": no_preferred("orders-0")}
    assert led(world, "orders") == (-1, 2, (1,))


def test_no_replica_is_live() -> None:
    world = leaderless()
    world.stop_broker(2)
    world.run()
    assert elect(world, "orders-0", kind=ElectionKind.UNCLEAN) == {"orders-0": no_eligible("orders-0")}
    assert refusals(world, "topic/orders")[-1] == "no replica is live"


def test_member_of_the_isr_that_is_live_is_elected_without_loss() -> None:
    world = leaderless()
    found = world.read(paths.partition_state("orders", 0))
    assert found is not None
    state = znodes.decode_state("orders", 0, found.data, found.stat.version)
    assert state is not None
    # As a leader before protocol 2.7 writes it: memory does not have it yet.
    left = [None]

    def grow(effect: ReadZnodes | WriteZnodes) -> None:
        if left and isinstance(effect, WriteZnodes):
            left.pop()
            data = znodes.encode_state(state._replace(isr=(1, 2)))
            world.write(SetData(paths.partition_state("orders", 0), data, ANY_VERSION))

    world.meanwhile = grow
    assert elect(world, "orders-0", kind=ElectionKind.UNCLEAN) == {"orders-0": NONE}
    assert led(world, "orders") == (2, 3, (2,))
    assert world.context.unclean_elections == 0


def test_unclean_election_goes_on_after_a_conflict() -> None:
    world = leaderless()
    left = [None]

    def write(effect: ReadZnodes | WriteZnodes) -> None:
        if left and isinstance(effect, WriteZnodes):
            left.pop()
            found = world.read(paths.partition_state("orders", 0))
            assert found is not None
            world.write(SetData(paths.partition_state("orders", 0), found.data, ANY_VERSION))

    world.meanwhile = write
    assert elect(world, "orders-0", kind=ElectionKind.UNCLEAN) == {"orders-0": NONE}
    assert led(world, "orders") == (2, 3, (2,))


# --- waiting ------------------------------------------------------------------------------------------------------


def pending(world: OneController, request: ElectLeadersRequest) -> int:
    """The key of a request that is not answered yet."""
    return clients.waiting(world, request, 2)


def answered(world: OneController, key: int) -> PartitionErrors:
    return errors_in(clients.answer_to(world, key))


def test_silent_broker_is_waited_for_until_the_time_is_over() -> None:
    world = led_by_second((1, 2), (2, 1))
    world.silent[3] = None
    key = pending(world, to_elect("orders-0", "orders-1"))
    world.advance(TIMEOUT_MS - 1)
    assert world.replies[key] == []
    world.advance(1)
    assert answered(world, key) == {"orders-0": LATE, "orders-1": NOT_NEEDED}
    assert led(world, "orders") == (1, 2, (2, 1))
    world.advance(TIMEOUT_MS)
    assert len(world.replies[key]) == 1


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_request_without_time_is_answered_at_once(timeout_ms: int) -> None:
    world = led_by_second()
    assert errors_in(world.ask(to_elect("orders-0", timeout_ms=timeout_ms), 2)) == {"orders-0": LATE}
    assert led(world, "orders") == (1, 2, (2, 1))


def test_broker_that_leaves_is_not_waited_for() -> None:
    world = led_by_second()
    world.silent[3] = None
    key = pending(world, to_elect("orders-0"))
    world.stop_broker(3)
    world.run()
    assert answered(world, key) == {"orders-0": NONE}


def test_broker_that_refuses_the_leader_does_not_show_it() -> None:
    world = led_by_second()

    def refuse(send: Send) -> Answer:
        answer = consent(send)
        if send.broker == 3 and isinstance(answer, UpdateMetadataResponseReceived):
            return UpdateMetadataResponseReceived(*send[:3], UpdateMetadataResponse(ErrorCode.UNKNOWN_SERVER_ERROR))
        return answer

    world.answer = refuse
    key = pending(world, to_elect("orders-0"))
    world.advance(TIMEOUT_MS)
    assert answered(world, key) == {"orders-0": LATE}


def test_elected_leader_that_dies_meanwhile_is_not_reported() -> None:
    world = led_by_second()
    world.silent[3] = None
    key = pending(world, to_elect("orders-0"))
    world.stop_broker(1)
    world.run()
    world.stop_broker(3)
    world.run()
    assert world.replies[key] == []
    world.advance(TIMEOUT_MS)
    assert answered(world, key) == {"orders-0": LATE}


def test_deletion_meanwhile_lets_the_time_run_out() -> None:
    world = led_by_second()
    world.silent[3] = None
    key = pending(world, to_elect("orders-0"))
    world.mark("orders")
    world.run()
    world.silent.clear()
    world.stop_broker(3)
    world.run()
    assert "orders" not in world.context.cluster.topics
    assert world.replies[key] == []
    world.advance(TIMEOUT_MS)
    assert answered(world, key) == {"orders-0": LATE}


def test_end_of_the_term_is_the_end_of_the_wait() -> None:
    world = led_by_second()
    world.silent[3] = None
    key = pending(world, to_elect("orders-0"))
    world.write(Delete(paths.controller()))
    world.run()
    (response,) = world.replies[key]
    assert isinstance(response, ElectLeadersResponse)
    assert {row.error for each in response.topics for row in each.partitions} == {ErrorCode.NOT_CONTROLLER}
    world.advance(TIMEOUT_MS)
    assert len(world.replies[key]) == 1


# --- trouble ------------------------------------------------------------------------------------------------------


def test_state_that_cannot_be_written() -> None:
    world = led_by_second()
    world.read_only[paths.partition_state("orders", 0)] = ZkError.NO_AUTH
    assert elect(world, "orders-0") == {"orders-0": FAILED}
    assert led(world, "orders") == (2, 1, (2, 1))


@pytest.mark.parametrize("names", [("orders-0",), ("orders-7",)])
def test_deposed_controller_elects_no_leader_and_says_so(names: tuple[str, ...]) -> None:
    world = led_by_second()
    another_is_elected_meanwhile(world)
    response = world.ask(to_elect(*names), 2)
    assert isinstance(response, ElectLeadersResponse)
    assert {row.error for each in response.topics for row in each.partitions} == {ErrorCode.NOT_CONTROLLER}
    assert world.context.role is Role.STANDING_BY


@pytest.mark.parametrize("loss", list(Loss))
def test_unknown_outcome_ends_the_term(loss: Loss) -> None:
    world = led_by_second()
    lost = [loss]
    world.losing = lambda _: lost.pop() if lost else None
    response = world.ask(to_elect("orders-0"), 2)
    assert isinstance(response, ElectLeadersResponse)
    assert {row.error for each in response.topics for row in each.partitions} == {ErrorCode.NOT_CONTROLLER}
    world.advance(60_000)
    assert world.context.role is Role.ACTIVE
    again = elect(world, "orders-0")
    assert again == {"orders-0": NOT_NEEDED if loss is Loss.APPLIED else NONE}


def test_leaders_before_protocol_2_7_are_elected_from_what_zookeeper_has() -> None:
    world = with_topic(cluster(world=OneController(ibp=InterBrokerProtocol.parse("2.5"))), "orders", (2, 1))
    world.stop_broker(2)
    world.run()
    world.start_broker(2)
    world.run()
    found = world.read(paths.partition_state("orders", 0))
    assert found is not None
    state = znodes.decode_state("orders", 0, found.data, found.stat.version)
    assert state is not None
    data = znodes.encode_state(state._replace(isr=(1, 2)))
    world.write(SetData(paths.partition_state("orders", 0), data, ANY_VERSION))
    assert elect(world, "orders-0") == {"orders-0": NONE}
    assert led(world, "orders") == (2, 2, (1, 2))
