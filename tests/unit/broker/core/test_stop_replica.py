"""StopReplica: the errors per partition that Kafka 3.9's ReplicaManager gives, and what becomes of the directories."""

from __future__ import annotations

import pytest

from lethe.broker.core.effects import (
    AskTopicIds,
    Halt,
    NotifyLogDirFailure,
    QuarantineDirectory,
    Record,
    RenameForDeletion,
)
from lethe.broker.core.inputs import (
    BrokerRegistered,
    ControlReceived,
    LogDirFailed,
    TopicAbsence,
    TopicIdAnswer,
    TopicIdUnavailable,
)
from lethe.broker.core.replica import ReplicaState
from lethe.broker.core.state import MAX_TOMBSTONES
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import (
    Addressed,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    UpdateMetadataRequest,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import (
    NO_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    TopicId,
    TopicPartition,
    topic_id_to_text,
)
from tests.unit.broker.core.driver import EPOCH, A, B, Driver, Entry, FakeDisk, X, Y, become, metadata, stop, tombstone

T0 = TopicPartition("t", 0)
LATER = BrokerEpoch(EPOCH + 1)


def only_error(response: StopReplicaResponse) -> int:
    assert response.error == ErrorCode.NONE
    (row,) = response.rows
    return row.error


def found(topic_id: TopicId | None, *, files: int = 4, id_readable: bool = True) -> FakeDisk:
    return FakeDisk({A: {"t-0": Entry(topic_id, 4096 if files else 0, files, id_readable)}, B: {}})


def names(driver: Driver) -> list[str]:
    return [name for entries in driver.disk.log_dirs.values() for name in entries]


def endings(driver: Driver) -> list[str]:
    """What the names end with after their last hyphen: `delete`, `stray`, or the partition."""
    return [name.rpartition("-")[2] for name in names(driver)]


# --- Kafka's rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize(
    "leader_epoch,expected",
    [
        (2, ErrorCode.NONE),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (-2, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
    ],
)
def test_a_hosted_partition_at_leader_epoch_1(delete: bool, leader_epoch: int, expected: int) -> None:
    driver = Driver()
    driver.leader_and_isr(become(leader_epoch=1))
    assert only_error(driver.stop(stop(leader_epoch=leader_epoch, delete=delete))) == expected
    deleted = delete and expected == ErrorCode.NONE
    assert (T0 in driver.state.replicas) is not deleted
    assert ("t-0" in driver.disk.log_dirs[A]) is not deleted


@pytest.mark.parametrize("leader_epoch", [-2, -1, 0, 7])
@pytest.mark.parametrize("delete", [False, True])
def test_an_unknown_partition_without_a_directory(delete: bool, leader_epoch: int) -> None:
    driver = Driver()
    assert only_error(driver.stop(stop(leader_epoch=leader_epoch, delete=delete))) == ErrorCode.NONE
    assert driver.disk.performed == []


def test_an_unknown_partition_with_a_directory_loses_it() -> None:
    driver = Driver(found(X), topic_ids={"t": X})
    assert only_error(driver.stop(stop(leader_epoch=0))) == ErrorCode.NONE
    assert names(driver) == [driver.state.removal.due[0][2].name]


@pytest.mark.parametrize("hosted", [False, True])
def test_an_io_error_while_deleting(hosted: bool) -> None:
    driver = Driver(found(X), topic_ids={"t": X})
    if hosted:
        driver.leader_and_isr(become())
    driver.disk.failures[A] = "input/output error"
    assert only_error(driver.stop(stop())) == ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.state.replicas[T0].state is ReplicaState.OFFLINE
    assert driver.effects.count(NotifyLogDirFailure()) == 1
    assert only_error(driver.stop(stop())) == ErrorCode.KAFKA_STORAGE_ERROR, "repeated: the same answer"


def test_stop_replica_request_twice_with_one_partition_in_an_offline_directory() -> None:
    """Kafka's StopReplicaRequestTest."""
    driver = Driver()
    driver.leader_and_isr(become(partitions=(0, 1)))
    driver.feed(LogDirFailed(B, "gone"))
    for _ in range(2):
        rows = driver.stop(stop(partitions=(0, 1))).rows
        assert [row.error for row in rows] == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]


def test_stopping_without_deleting_keeps_everything() -> None:
    driver = Driver()
    driver.leader_and_isr(become())
    driver.stop(stop(delete=False))
    assert names(driver) == ["t-0"]
    assert driver.state.replicas[T0].state is ReplicaState.HOSTED


def test_flags_are_judged_partition_by_partition() -> None:
    driver = Driver()
    driver.leader_and_isr(become(partitions=(0, 1)))
    states = (StopReplicaPartition(0, -2, True), StopReplicaPartition(1, -2, False))
    driver.stop(StopReplicaRequest(BrokerId(9), ControllerEpoch(5), (StopReplicaTopic("t", states),)))
    assert list(driver.state.replicas) == [TopicPartition("t", 1)]


def test_a_partition_named_twice_is_answered_twice_and_deleted_once() -> None:
    driver = Driver()
    driver.leader_and_isr(become())
    driver.update(tombstone())
    rows = driver.stop(stop(partitions=(0, 0))).rows
    assert [row.error for row in rows] == [ErrorCode.NONE, ErrorCode.NONE]
    assert len([o for o in driver.disk.performed if isinstance(o, RenameForDeletion)]) == 1


@pytest.mark.parametrize("topic", ["..", "../t", "a/b", "", "x" * 250])
def test_a_name_that_no_directory_can_have_has_nothing_to_delete(topic: str) -> None:
    driver = Driver()
    assert only_error(driver.stop(stop(topic))) == ErrorCode.NONE
    assert driver.disk.performed == []
    assert any(isinstance(e, Record) and e.record.type is EventRecordType.REFUSAL for e in driver.effects)


# --- whose bytes --------------------------------------------------------------------------------------------------


def test_the_tombstone_does_not_make_us_forget_whose_replica_it_was() -> None:
    driver = Driver(found(X))
    driver.update(metadata(topic_id=X))
    driver.update(tombstone(topic_id=X))
    assert only_error(driver.stop(stop())) == ErrorCode.NONE
    assert isinstance(driver.disk.performed[0], RenameForDeletion)
    assert driver.asked == []
    assert driver.state.incarnations == {}, "and once it is gone, we do"


def test_an_order_that_outlived_its_connection_does_not_delete_the_topic_made_anew() -> None:
    driver = Driver()
    driver.leader_and_isr(become(topic_id=X, is_new=True))
    driver.update(metadata(topic_id=X))
    driver.update(tombstone(topic_id=X))
    assert only_error(driver.stop(stop())) == ErrorCode.NONE
    driver.leader_and_isr(become(topic_id=Y, is_new=True))
    assert only_error(driver.stop(stop())) == ErrorCode.FENCED_LEADER_EPOCH, "also before UpdateMetadata tells of it"
    driver.update(metadata(topic_id=Y))
    assert only_error(driver.stop(stop())) == ErrorCode.FENCED_LEADER_EPOCH
    assert driver.disk.log_dirs[driver.disk.performed[-1].log_dir]["t-0"].topic_id == Y
    driver.update(tombstone(topic_id=Y))
    assert only_error(driver.stop(stop())) == ErrorCode.NONE, "once it is doomed itself, it goes"


def test_a_tombstone_without_an_id_lets_every_deletion_through() -> None:
    driver = Driver()
    driver.leader_and_isr(become(topic_id=X, is_new=True))
    driver.update(tombstone(topic_id=Y))
    driver.leader_and_isr(become(topic_id=X, leader_epoch=1))
    driver.update(tombstone(topic_id=None))
    assert only_error(driver.stop(stop())) == ErrorCode.NONE


def announced() -> Driver:
    driver = Driver()
    driver.leader_and_isr(become(topic_id=Y, is_new=True))
    driver.update(metadata(topic_id=Y))
    return driver


def compared(driver: Driver, partition: int) -> int:
    """The answer about a debt of X, an earlier topic of the name."""
    return driver.leader_and_isr(become(topic_id=X, partitions=(partition,), leader=-1)).rows[0].error


def test_the_debt_of_another_partition_does_not_say_whose_replica_is_stopped() -> None:
    driver = announced()
    assert compared(driver, 1) == ErrorCode.NONE
    assert only_error(driver.stop(stop(leader_epoch=0))) == ErrorCode.NONE
    assert endings(driver) == ["delete"]


@pytest.mark.parametrize("partition, answer", [(0, ErrorCode.INCONSISTENT_TOPIC_ID), (1, ErrorCode.NONE)])
def test_a_deletion_means_its_tombstone_whatever_debt_is_paid_after_it(partition: int, answer: ErrorCode) -> None:
    driver = announced()
    driver.update(tombstone(topic_id=Y))
    assert compared(driver, partition) == answer
    assert only_error(driver.stop(stop())) == ErrorCode.NONE
    assert endings(driver) == ["delete"]
    assert driver.asked == []


def test_a_debt_is_paid_although_the_later_topic_is_told_of_meanwhile() -> None:
    driver = Driver(found(X))
    driver.update(metadata(topic_id=Y))
    assert compared(driver, 0) == ErrorCode.NONE
    driver.update(metadata(topic_id=Y))
    assert only_error(driver.stop(stop(leader_epoch=-1))) == ErrorCode.NONE
    assert endings(driver) == ["delete"]


def test_a_late_payment_leaves_the_later_topic() -> None:
    driver = Driver()
    assert compared(driver, 0) == ErrorCode.NONE
    driver.leader_and_isr(become(topic_id=Y, is_new=True))
    driver.update(metadata(topic_id=Y))
    assert only_error(driver.stop(stop(leader_epoch=-1))) == ErrorCode.NONE
    assert names(driver) == ["t-0"]


def test_the_deletion_of_the_later_topic_leaves_what_is_owed_to_its_payment() -> None:
    driver = Driver(found(X))
    driver.update(metadata(topic_id=Y))
    assert compared(driver, 0) == ErrorCode.NONE
    driver.update(tombstone(topic_id=Y))
    assert only_error(driver.stop(stop())) == ErrorCode.NONE
    assert names(driver) == ["t-0"]
    assert only_error(driver.stop(stop(leader_epoch=-1))) == ErrorCode.NONE
    assert endings(driver) == ["delete"]


def test_a_compare_that_another_topics_replica_refuses_says_nothing_about_that_one() -> None:
    driver = announced()
    assert compared(driver, 0) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert only_error(driver.stop(stop(leader_epoch=0))) == ErrorCode.NONE
    assert endings(driver) == ["delete"]


def test_a_late_deletion_of_an_earlier_topic_keeps_a_directory_that_was_only_found() -> None:
    driver = Driver(found(Y))
    driver.update(tombstone(topic_id=X))
    driver.update(metadata(topic_id=Y))
    assert only_error(driver.stop(stop())) == ErrorCode.FENCED_LEADER_EPOCH
    assert names(driver) == ["t-0"]


@pytest.mark.parametrize("named", [become(topic_id=Y), metadata(topic_id=Y)])
def test_a_replica_of_an_incarnation_before_the_one_named_for_it_is_set_aside(
    named: LeaderAndIsrRequest | UpdateMetadataRequest,
) -> None:
    driver = Driver()
    driver.leader_and_isr(become(topic_id=X, is_new=True))
    driver.update(metadata(topic_id=X))
    driver.send(named)
    assert only_error(driver.stop(stop(leader_epoch=0))) == ErrorCode.NONE
    assert endings(driver) == ["stray"]


@pytest.mark.parametrize(
    "answer, kept",
    [(X, "delete"), (Y, "stray"), (TopicAbsence.NO_TOPIC, "stray"), (TopicIdUnavailable("NO_AUTH"), "t-0")],
)
def test_where_the_tombstone_was_not_taken_in_zookeeper_is_asked_which_incarnation_goes(
    answer: TopicIdAnswer, kept: str
) -> None:
    driver = Driver()
    driver.leader_and_isr(become(topic_id=X, is_new=True))
    driver.topic_ids["t"] = answer
    wanted = ErrorCode.UNKNOWN_SERVER_ERROR if isinstance(answer, TopicIdUnavailable) else ErrorCode.NONE
    assert only_error(driver.stop(stop())) == wanted
    assert driver.asked == [("t",)]
    assert [name.rpartition("-")[2] if name != "t-0" else name for name in driver.disk.log_dirs[A]] == [kept]


@pytest.mark.parametrize("is_registration_known", [True, False])
def test_a_tombstone_of_an_earlier_registration_does_not_say_which_incarnation_goes(
    is_registration_known: bool,
) -> None:
    driver = Driver()
    driver.leader_and_isr(become(topic_id=X, is_new=True))
    driver.update(tombstone(topic_id=X))
    if is_registration_known:
        driver.feed(BrokerRegistered(LATER))
    driver.topic_ids["t"] = Y
    assert only_error(driver.stop(stop(), LATER)) == ErrorCode.NONE, "the tombstone of Y was not taken in"
    assert driver.asked == [("t",)]
    (name,) = names(driver)
    assert name.endswith("-stray")
    assert driver.disk.log_dirs[A][name].topic_id == X
    (acknowledged,) = driver.records(EventRecordType.ACK)
    assert acknowledged.data["topic_id"] == topic_id_to_text(Y)


@pytest.mark.parametrize("answer, kept", [(X, "delete"), (Y, "stray")])
def test_a_tombstone_of_an_earlier_controller_does_not_say_which_incarnation_goes(answer: TopicId, kept: str) -> None:
    driver = Driver()
    driver.leader_and_isr(become(topic_id=X, is_new=True))
    driver.update(tombstone(topic_id=X, controller_epoch=5))
    driver.topic_ids["t"] = answer
    driver.controller_epoch = ControllerEpoch(6)
    assert only_error(driver.stop(stop(controller_epoch=6))) == ErrorCode.NONE
    assert driver.asked == [("t",)]
    (name,) = names(driver)
    assert name.endswith(f"-{kept}")


def test_a_tombstone_of_this_registration_says_which_incarnation_goes() -> None:
    driver = Driver()
    driver.leader_and_isr(become(topic_id=X, is_new=True))
    driver.feed(BrokerRegistered(LATER))
    driver.update(tombstone(topic_id=X), LATER)
    assert only_error(driver.stop(stop(), LATER)) == ErrorCode.NONE
    assert driver.asked == []
    assert isinstance(driver.disk.performed[-1], RenameForDeletion)


def test_without_broker_epochs_a_tombstone_belongs_to_the_registration_of_its_time() -> None:
    driver = Driver()
    driver.leader_and_isr(become(topic_id=X, is_new=True), NO_EPOCH)
    driver.update(tombstone(topic_id=X), NO_EPOCH)
    driver.feed(BrokerRegistered(LATER))
    driver.topic_ids["t"] = X
    assert only_error(driver.stop(stop(), NO_EPOCH)) == ErrorCode.NONE
    assert driver.asked == [("t",)]
    assert isinstance(driver.disk.performed[-1], RenameForDeletion)


def test_tombstones_are_remembered_within_bounds() -> None:
    state = Driver().state
    for number in range(MAX_TOMBSTONES + 5):
        state.note_tombstone(f"t{number}", X, EPOCH, ControllerEpoch(5))
    assert len(state.tombstoned) == MAX_TOMBSTONES
    assert "t4" not in state.tombstoned
    assert "t5" in state.tombstoned


def test_a_directory_of_another_incarnation_is_set_aside_and_acknowledged() -> None:
    driver = Driver(found(Y))
    driver.update(metadata(topic_id=X))
    assert only_error(driver.stop(stop())) == ErrorCode.NONE
    (name,) = names(driver)
    assert name.endswith("-stray")
    assert driver.disk.log_dirs[A][name].topic_id == Y
    assert [e.record.type for e in driver.effects if isinstance(e, Record)].count(EventRecordType.SET_ASIDE) == 1
    driver.advance(10**9)
    assert names(driver) == [name], "it is never removed"


@pytest.mark.parametrize(
    "topic_id,id_readable,answer,operation",
    [
        (X, True, X, RenameForDeletion),
        (X, True, Y, QuarantineDirectory),
        (None, True, Y, QuarantineDirectory),
        (None, False, Y, QuarantineDirectory),
        (None, True, TopicAbsence.NO_ID, RenameForDeletion),
        (X, True, TopicAbsence.NO_ID, QuarantineDirectory),
        (None, False, TopicAbsence.NO_ID, QuarantineDirectory),
        (X, True, TopicAbsence.NO_TOPIC, QuarantineDirectory),
        (None, True, TopicAbsence.NO_TOPIC, QuarantineDirectory),
    ],
)
def test_an_agent_that_remembers_nothing_asks_once_per_topic(
    topic_id: TopicId | None, id_readable: bool, answer: TopicIdAnswer, operation: type
) -> None:
    disk = found(topic_id, id_readable=id_readable)
    disk.log_dirs[B]["t-1"] = Entry(topic_id, 1, 1, id_readable)
    driver = Driver(disk, topic_ids={"t": answer})
    rows = driver.stop(stop(partitions=(0, 1))).rows
    assert [row.error for row in rows] == [ErrorCode.NONE, ErrorCode.NONE]
    assert driver.asked == [("t",)]
    assert [type(o) for o in disk.performed] == [operation, operation]


def test_where_zookeeper_cannot_be_asked_nothing_is_touched() -> None:
    driver = Driver(found(X), topic_ids={"t": TopicIdUnavailable("session lost")})
    assert only_error(driver.stop(stop())) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert names(driver) == ["t-0"]
    driver.topic_ids["t"] = X
    assert only_error(driver.stop(stop())) == ErrorCode.NONE


def test_an_empty_directory_without_id_is_deleted_without_asking() -> None:
    driver = Driver(found(None, files=0))
    assert only_error(driver.stop(stop())) == ErrorCode.NONE
    assert isinstance(driver.disk.performed[0], RenameForDeletion)
    assert driver.asked == []


@pytest.mark.parametrize("topic_id", [None, X])
def test_what_a_leader_and_isr_without_id_opened_is_deleted_by_name(topic_id: TopicId | None) -> None:
    driver = Driver(found(topic_id))
    driver.leader_and_isr(become(topic_id=None))
    assert only_error(driver.stop(stop())) == ErrorCode.NONE
    assert [type(o) for o in driver.disk.performed] == [RenameForDeletion]


def test_a_log_directory_that_fails_while_zookeeper_is_asked_is_noticed() -> None:
    driver = Driver(found(X), topic_ids={"t": X})
    original = driver.perform

    def perform(effect: object) -> object:
        if isinstance(effect, AskTopicIds):
            driver.feed(LogDirFailed(A, "gone"))
        return original(effect)  # type: ignore[arg-type]

    driver.perform = perform  # type: ignore[method-assign,assignment]
    assert only_error(driver.stop(stop())) == ErrorCode.KAFKA_STORAGE_ERROR
    assert names(driver) == ["t-0"]


def test_a_log_directory_that_fails_while_renames_are_under_way_is_no_success() -> None:
    driver = Driver()
    driver.leader_and_isr(become())
    driver.before_disk = lambda index: driver.feed(LogDirFailed(A, "gone"))
    assert only_error(driver.stop(stop())) == ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.state.removal.pending == {}


def test_the_loss_of_the_last_log_directory_halts_the_agent() -> None:
    driver = Driver()
    driver.feed(LogDirFailed(A, "gone"))
    driver.feed(LogDirFailed(B, "gone too"))
    (halt,) = [e for e in driver.effects if isinstance(e, Halt)]
    assert "gone too" in halt.reason
    driver.feed(ControlReceived(77, Addressed(stop(), EPOCH)))
    assert 77 not in driver.replies


def test_deletions_are_recorded_per_topic_in_ranges() -> None:
    driver = Driver()
    driver.leader_and_isr(become(partitions=tuple(range(10))))
    driver.stop(stop(partitions=(0, 1, 2, 3, 7)))
    (ack,) = [e.record for e in driver.effects if isinstance(e, Record) and e.record.type is EventRecordType.ACK]
    assert (ack.subject, ack.data["partitions"], ack.data["error"]) == ("topic/t", "0-3,7", "NONE")
    assert ack.data["topic_id"] == topic_id_to_text(X)


def acks(driver: Driver) -> list[tuple[object, object]]:
    return [(record.data["topic_id"], record.data["error"]) for record in driver.records(EventRecordType.ACK)]


def test_a_repeated_deletion_is_recorded_with_the_id_of_the_tombstone() -> None:
    driver = Driver()
    driver.leader_and_isr(become())
    driver.update(tombstone())
    driver.stop(stop(leader_epoch=-2))
    driver.stop(stop(leader_epoch=-2))
    assert "t" not in driver.state.incarnations
    assert acks(driver) == [(topic_id_to_text(X), "NONE")] * 2


def test_a_late_order_is_recorded_as_that_of_the_earlier_incarnation() -> None:
    driver = Driver()
    driver.leader_and_isr(become())
    driver.update(tombstone())
    driver.stop(stop(leader_epoch=-2))
    driver.leader_and_isr(become(topic_id=Y, is_new=True))
    driver.stop(stop(leader_epoch=-2))
    assert acks(driver) == [(topic_id_to_text(X), "NONE"), (topic_id_to_text(X), "FENCED_LEADER_EPOCH")]


def test_a_replica_that_is_moved_away_is_recorded_with_its_own_id() -> None:
    driver = Driver()
    driver.update(tombstone())
    driver.leader_and_isr(become(topic_id=Y))
    driver.stop(stop(leader_epoch=0))
    assert acks(driver) == [(topic_id_to_text(Y), "NONE")]


def test_without_ids_none_is_recorded() -> None:
    driver = Driver(found(None), topic_ids={"t": TopicAbsence.NO_ID})
    driver.stop(stop())
    assert acks(driver) == [(None, "NONE")]


def test_what_is_set_aside_is_recorded_with_what_it_says_of_itself() -> None:
    driver = Driver(found(Y))
    driver.update(metadata())
    driver.stop(stop())
    (record,) = driver.records(EventRecordType.SET_ASIDE)
    assert record.data["topic_id"] == topic_id_to_text(Y)
    assert acks(driver) == [(topic_id_to_text(X), "NONE")]
