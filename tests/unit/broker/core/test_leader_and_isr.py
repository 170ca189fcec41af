"""LeaderAndIsr: the errors per partition that Kafka 3.9's ReplicaManager gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.broker.core.effects import (
    AssignTopicId,
    CreateReplica,
    FillReplica,
    NotifyLogDirFailure,
    PerformDisk,
    QuarantineDirectory,
)
from lethe.broker.core.inputs import ControlReceived, DiskOutcome, DiskPerformed, LogDirFailed
from lethe.broker.core.replica import ReplicaState
from lethe.protocol.kafka.control import Addressed, LeaderAndIsrResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import LEADER_NONE, NO_LEADER_EPOCH, TopicId, TopicPartition
from tests.unit.broker.core.driver import EPOCH, ME, A, B, Driver, Entry, FakeDisk, X, Y, become, stop

T0 = TopicPartition("t", 0)


def only_error(response: LeaderAndIsrResponse) -> int:
    assert response.error == ErrorCode.NONE
    (row,) = response.rows
    return row.error


def test_a_new_replica_is_created_with_its_id_and_hosted() -> None:
    driver = Driver()
    assert only_error(driver.leader_and_isr(become(is_new=True))) == ErrorCode.NONE
    assert driver.disk.performed == [CreateReplica(A, T0, X), FillReplica(A, T0, X)]
    replica = driver.state.replicas[T0]
    assert (replica.state, replica.topic_id, replica.leader_epoch) == (ReplicaState.HOSTED, X, 0)


def test_the_answer_repeats_topic_and_id_of_each_row() -> None:
    rows = Driver().leader_and_isr(become(partitions=(0, 1))).rows
    assert [(row.topic, row.topic_id, row.partition) for row in rows] == [("t", X, 0), ("t", X, 1)]


@pytest.mark.parametrize(
    "hosted_epoch,epoch,expected",
    [
        (1, 2, ErrorCode.NONE),
        (1, 1, ErrorCode.STALE_CONTROLLER_EPOCH),
        (1, 0, ErrorCode.STALE_CONTROLLER_EPOCH),
    ],
)
def test_a_hosted_replica_follows_higher_leader_epochs_only(hosted_epoch: int, epoch: int, expected: int) -> None:
    driver = Driver()
    driver.leader_and_isr(become(leader_epoch=hosted_epoch))
    assert only_error(driver.leader_and_isr(become(leader_epoch=epoch))) == expected
    assert driver.state.replicas[T0].leader_epoch == max(hosted_epoch, epoch)


def test_a_broker_outside_the_replica_list_hosts_nothing() -> None:
    driver = Driver()
    assert only_error(driver.leader_and_isr(become(replicas=(2, 3)))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert driver.state.replicas == {}
    assert driver.disk.performed == []


def test_a_leader_of_none_still_makes_the_log() -> None:
    driver = Driver()
    assert only_error(driver.leader_and_isr(become(leader=-1, replicas=(ME, 2)))) == ErrorCode.NONE
    assert T0 in driver.state.replicas


def test_a_compare_makes_no_log_where_there_is_none() -> None:
    """Its broker may die before it is told to delete it, and would keep it if it has settled the debt itself."""
    driver = Driver()
    assert only_error(driver.leader_and_isr(become(leader=-1))) == ErrorCode.NONE
    assert driver.state.replicas == {}
    assert driver.disk.performed == []
    assert [row.error for row in driver.stop(stop(leader_epoch=NO_LEADER_EPOCH)).rows] == [ErrorCode.NONE]


@pytest.mark.parametrize("leader, error", [(-1, "KAFKA_STORAGE_ERROR"), (ME, "INCONSISTENT_TOPIC_ID")])
def test_what_a_compare_asks_for_may_be_in_a_failed_log_directory(leader: int, error: str) -> None:
    driver = Driver(found(Y))
    driver.feed(LogDirFailed(B, "gone"))
    answer = driver.leader_and_isr(become(topic_id=X, leader=leader))
    assert only_error(answer) == ErrorCode[error]
    assert list(driver.disk.log_dirs[A]) == ["t-0"]


def test_a_lower_partition_epoch_is_skipped_silently() -> None:
    driver = Driver()
    driver.leader_and_isr(become(leader_epoch=1, partition_epoch=7))
    assert only_error(driver.leader_and_isr(become(leader_epoch=2, partition_epoch=6))) == ErrorCode.NONE
    assert driver.state.replicas[T0].leader_epoch == 1


def test_at_an_equal_epoch_an_id_is_written_into_a_directory_that_has_none() -> None:
    driver = Driver()
    driver.leader_and_isr(become(topic_id=None))
    assert only_error(driver.leader_and_isr(become(topic_id=X))) == ErrorCode.NONE
    assert driver.disk.performed[-1] == AssignTopicId(A, T0, X)
    assert driver.state.replicas[T0].topic_id == X


@pytest.mark.parametrize("leader,expected", [(2, ErrorCode.NONE), (ME, ErrorCode.STALE_CONTROLLER_EPOCH)])
def test_at_an_equal_epoch_a_request_without_id_is_fine_for_followers(leader: int, expected: int) -> None:
    driver = Driver()
    driver.leader_and_isr(become(leader=leader))
    assert only_error(driver.leader_and_isr(become(leader=leader, topic_id=None))) == expected
    assert driver.state.replicas[T0].topic_id == X, "the directory keeps its id"


# --- identity -----------------------------------------------------------------------------------------------------


def found(topic_id: TopicId | None, *, files: int = 4, id_readable: bool = True) -> FakeDisk:
    return FakeDisk({A: {"t-0": Entry(topic_id, 4096 if files else 0, files, id_readable)}, B: {}})


def test_a_replica_found_at_start_is_opened_under_its_own_id() -> None:
    driver = Driver(found(X))
    assert only_error(driver.leader_and_isr(become())) == ErrorCode.NONE
    assert driver.disk.performed == []
    assert driver.state.replicas[T0].state is ReplicaState.HOSTED


@pytest.mark.parametrize("id_readable", [True, False])
def test_another_incarnation_in_the_isr_is_inconsistent_and_stays(id_readable: bool) -> None:
    driver = Driver(found(Y if id_readable else None, id_readable=id_readable))
    assert only_error(driver.leader_and_isr(become(isr=(ME, 2)))) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert driver.disk.performed == []
    assert driver.state.replicas[T0].state is ReplicaState.LOADED


@pytest.mark.parametrize("isr,is_new", [((2,), False), ((ME, 2), True)])
@pytest.mark.parametrize("topic_id,id_readable", [(Y, True), (None, True), (None, False)])
def test_another_incarnation_whose_bytes_nobody_counts_on_is_set_aside(
    isr: tuple[int, ...], is_new: bool, topic_id: TopicId | None, id_readable: bool
) -> None:
    driver = Driver(found(topic_id, id_readable=id_readable))
    assert only_error(driver.leader_and_isr(become(isr=isr, is_new=is_new))) == ErrorCode.NONE
    quarantined, created, _ = driver.disk.performed
    assert isinstance(quarantined, QuarantineDirectory)
    assert quarantined.new_name.startswith("t-0.")
    assert quarantined.new_name.endswith("-stray")
    assert isinstance(created, CreateReplica)
    assert driver.disk.log_dirs[A][quarantined.new_name].topic_id == topic_id
    assert driver.state.replicas[T0].topic_id == X
    assert [ref.name for ref in driver.state.strays] == [quarantined.new_name]


def test_a_hosted_replica_of_another_incarnation_is_judged_in_the_same_way() -> None:
    driver = Driver()
    driver.leader_and_isr(become(topic_id=Y, leader_epoch=3, isr=(ME, 2)))
    assert only_error(driver.leader_and_isr(become(leader_epoch=4))) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert only_error(driver.leader_and_isr(become(leader_epoch=0, isr=(2,)))) == ErrorCode.NONE
    assert driver.state.replicas[T0].topic_id == X
    assert driver.state.replicas[T0].leader_epoch == 0, "epochs of another incarnation do not count"


@pytest.mark.parametrize("files,isr", [(0, (2,)), (4, (ME, 2))])
def test_a_directory_without_id_takes_the_id_where_it_is_empty_or_counted_on(files: int, isr: tuple[int, ...]) -> None:
    driver = Driver(found(None, files=files))
    assert only_error(driver.leader_and_isr(become(isr=isr))) == ErrorCode.NONE
    assert driver.disk.performed[0] == AssignTopicId(A, T0, X)
    assert driver.disk.performed[1:] == ([] if files else [FillReplica(A, T0, X)])


def test_without_ids_a_new_partition_never_opens_old_bytes() -> None:
    driver = Driver(found(None))
    assert only_error(driver.leader_and_isr(become(topic_id=None, is_new=True))) == ErrorCode.NONE
    assert [type(operation) for operation in driver.disk.performed] == [QuarantineDirectory, CreateReplica, FillReplica]


def test_without_ids_an_old_partition_is_opened_by_name() -> None:
    driver = Driver(found(None))
    assert only_error(driver.leader_and_isr(become(topic_id=None))) == ErrorCode.NONE
    assert driver.disk.performed == []


def test_where_setting_aside_fails_nothing_is_created() -> None:
    disk = found(Y)
    disk.refusals["t-0"] = "t-0 is a symbolic link"
    driver = Driver(disk)
    assert only_error(driver.leader_and_isr(become(isr=(2,)))) == ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.disk.performed == []
    assert driver.state.replicas[T0].topic_id == Y


# --- log directories ----------------------------------------------------------------------------------------------


def test_replicas_go_to_the_log_directory_with_the_fewest() -> None:
    driver = Driver()
    driver.leader_and_isr(become(partitions=(0, 1, 2, 3)))
    assert [each.log_dir for each in driver.disk.performed if isinstance(each, CreateReplica)] == [A, B, A, B]


def test_a_replica_that_may_lie_in_a_failed_directory_is_not_made_anew() -> None:
    driver = Driver(FakeDisk(failures={A: "input/output error"}))
    assert only_error(driver.leader_and_isr(become(is_new=False))) == ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.disk.performed == []
    assert driver.state.replicas[T0].state is ReplicaState.OFFLINE
    assert only_error(driver.leader_and_isr(become(leader_epoch=1, is_new=True))) == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("leader", [ME, LEADER_NONE])
def test_bytes_without_an_id_are_believed_beside_a_failed_directory_only_where_somebody_leads(leader: int) -> None:
    driver = Driver(FakeDisk({A: {}, B: {"t-0": Entry(None, 4096, 4)}}, failures={A: "input/output error"}))
    expected = ErrorCode.NONE if leader == ME else ErrorCode.KAFKA_STORAGE_ERROR
    assert only_error(driver.leader_and_isr(become(leader=leader))) == expected
    assert (AssignTopicId(B, T0, X) in driver.disk.performed) is (leader == ME)


@pytest.mark.parametrize("is_new", [True, False])
def test_an_empty_directory_without_an_id_says_nothing_where_the_replica_may_lie_in_a_failed_one(is_new: bool) -> None:
    driver = Driver(FakeDisk({A: {}, B: {"t-0": Entry(None, 0, 0)}}, failures={A: "input/output error"}))
    expected = ErrorCode.NONE if is_new else ErrorCode.KAFKA_STORAGE_ERROR
    assert only_error(driver.leader_and_isr(become(is_new=is_new))) == expected
    assert (AssignTopicId(B, T0, X) in driver.disk.performed) is is_new


@pytest.mark.parametrize("is_new", [True, False])
def test_a_directory_of_another_incarnation_says_nothing_either(is_new: bool) -> None:
    """Somebody may have put it there: it is quarantined, and the replica is still in the failed directory, perhaps."""
    driver = Driver(FakeDisk({A: {}, B: {"t-0": Entry(Y, 4096, 4)}}, failures={A: "input/output error"}))
    expected = ErrorCode.NONE if is_new else ErrorCode.KAFKA_STORAGE_ERROR
    follower = become(leader=2, isr=(2,), replicas=(2, ME), is_new=is_new)
    assert only_error(driver.leader_and_isr(follower)) == expected
    assert (CreateReplica(B, T0, X) in driver.disk.performed) is is_new
    assert [name for name in driver.disk.log_dirs[B] if name.endswith("-stray")]


def test_a_new_replica_goes_to_a_good_directory() -> None:
    driver = Driver(FakeDisk(failures={A: "input/output error"}))
    assert only_error(driver.leader_and_isr(become(is_new=True))) == ErrorCode.NONE
    assert driver.disk.performed == [CreateReplica(B, T0, X), FillReplica(B, T0, X)]


def test_a_directory_that_fails_while_creating_takes_only_its_own_partitions_down() -> None:
    driver = Driver()
    driver.disk.failures[A] = "no space left on device"
    errors = [row.error for row in driver.leader_and_isr(become(partitions=(0, 1), is_new=True)).rows]
    assert errors == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert driver.state.log_dirs == {A: "no space left on device", B: None}
    assert driver.effects.count(NotifyLogDirFailure()) == 1
    assert driver.state.replicas[T0].state is ReplicaState.OFFLINE


def test_a_directory_that_fails_also_takes_down_what_the_same_request_only_opened() -> None:
    disk = FakeDisk({A: {"t-0": Entry(X, 1, 1)}, B: {"u-0": Entry(Y, 1, 1), "u-1": Entry(Y, 1, 1)}})
    driver = Driver(disk)
    disk.failures[A] = "input/output error"
    request = become(partitions=(0, 1), is_new=False)
    assert [row.error for row in driver.leader_and_isr(request).rows] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["", ".", "..", "../etc", "a/b", "a" * 250, "ä", "a b", "a\0"])
def test_names_that_are_no_topic_names_never_reach_the_disk(topic: str) -> None:
    driver = Driver()
    assert only_error(driver.leader_and_isr(become(topic, is_new=True))) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert driver.disk.performed == []


@pytest.mark.parametrize("partition", [-1, 2**31])
def test_partitions_out_of_range_never_reach_the_disk(partition: int) -> None:
    driver = Driver()
    request = become(partitions=(partition,), is_new=True)
    assert only_error(driver.leader_and_isr(request)) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert driver.disk.performed == []


def test_a_partition_named_twice_counts_once() -> None:
    driver = Driver()
    rows = driver.leader_and_isr(become(partitions=(0, 0))).rows
    assert [row.error for row in rows] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert [type(operation) for operation in driver.disk.performed] == [CreateReplica, FillReplica]


# --- one at a time ------------------------------------------------------------------------------------------------


def test_a_request_that_comes_while_another_waits_for_the_disk_is_taken_after_it() -> None:
    driver = Driver()
    late: list[int] = []

    def interfere(index: int) -> None:
        if not late:
            late.append(99)
            driver.feed(ControlReceived(99, Addressed(stop(), EPOCH)))
            assert 99 not in driver.replies

    driver.before_disk = interfere
    token = driver.send(become())
    assert list(driver.replies) == [token, 99]
    assert T0 not in driver.state.replicas


def test_a_state_can_be_copied_in_the_middle_of_a_request() -> None:
    driver = Driver()
    taken = []
    driver.before_disk = lambda index: taken.append(driver.state.copy())
    driver.send(become())
    copy, _ = taken
    assert copy.replicas == {}
    assert copy != driver.state
    from lethe.broker.core.agent import step

    effects = step(copy, DiskPerformed((DiskOutcome(), DiskOutcome(size_bytes=4096, files=4, segment_bytes=4000))), 0)
    assert [type(effect).__name__ for effect in effects] == ["Reply", "Record"]
    assert copy == driver.state


def test_a_registration_and_copying_do_not_lose_what_is_being_done() -> None:
    driver = Driver()
    assert replace(driver.state) == driver.state
    assert [e for e in driver.effects if isinstance(e, PerformDisk)] == []
