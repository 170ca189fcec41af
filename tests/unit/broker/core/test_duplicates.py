"""Several directories for one partition: nothing is touched before a topic id says which one lives."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from lethe.broker.core.effects import AssignTopicId, CreateReplica, QuarantineDirectory, RenameForDeletion
from lethe.broker.core.inputs import LogDirFailed, TopicAbsence, TopicIdUnavailable
from lethe.broker.core.queries import answer_describe_log_dirs
from lethe.broker.core.replica import ReplicaState
from lethe.broker.runtime.pages import describe
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import LeaderAndIsrRequest, StopReplicaRequest
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import DescribeLogDirsRequest
from lethe.protocol.vocabulary import LEADER_NONE, NO_LEADER_EPOCH, TopicId, TopicPartition
from tests.unit.broker.core.driver import ME, A, B, Driver, Entry, FakeDisk, X, Y, become, metadata, stop, tombstone

T0 = TopicPartition("t", 0)
OTHER = 2
Z = TopicId(UUID(int=0xC3))
BLANK = Entry(None, 0, 0)
UNREADABLE = Entry(None, 7, 4, id_readable=False)


def held(topic_id: TopicId | None) -> Entry:
    return Entry(topic_id, 4096, 4)


def two(first: Entry, second: Entry, **more: object) -> Driver:
    disk = FakeDisk({A: {"t-0": replace(first)}, B: {"t-0": replace(second)}})
    return Driver(disk, **more)  # type: ignore[arg-type]


def follow(topic_id: TopicId | None, *, isr: tuple[int, ...] = (OTHER,), **more: object) -> LeaderAndIsrRequest:
    """This broker follows; it counts on the bytes here only where it is in the ISR."""
    return become(topic_id=topic_id, leader=OTHER, isr=isr, replicas=(OTHER, ME), **more)  # type: ignore[arg-type]


def doomed(topic_id: TopicId | None) -> LeaderAndIsrRequest:
    """How a topic is announced that is about to be deleted."""
    return become(topic_id=topic_id, leader=LEADER_NONE)


def opened(driver: Driver, request: LeaderAndIsrRequest) -> int:
    (row,) = driver.leader_and_isr(request).rows
    return row.error


def stopped(driver: Driver, request: StopReplicaRequest) -> int:
    (row,) = driver.stop(request).rows
    return row.error


def where(driver: Driver, topic_id: TopicId | None) -> list[str]:
    """What became of the directories with that id: their names without the unique part."""
    return [
        name if name == "t-0" else name.rpartition("-")[2]
        for entries in driver.disk.log_dirs.values()
        for name, entry in entries.items()
        if entry.topic_id == topic_id
    ]


# --- the start ----------------------------------------------------------------------------------------------------


def test_at_the_start_none_is_touched_and_all_are_shown() -> None:
    driver = two(held(X), held(Y))
    assert driver.disk.performed == []
    assert driver.state.replicas[T0].state is ReplicaState.LOADED
    (loaded,) = [
        record
        for record in driver.records(EventRecordType.BROKER)
        if record.data["happened"] == "log directories loaded"
    ]
    assert loaded.data["duplicates"] == [f"{A}/t-0", f"{B}/t-0"]
    shown = describe(driver.state)["duplicates"]
    assert shown == {
        "directories": 1,
        "list": [{"path": f"{each}/t-0", "bytes": 4096, "state": "loaded"} for each in (A, B)],
    }


def test_log_directories_are_described_with_the_directory_that_lies_in_them() -> None:
    driver = two(held(X), held(Y))
    first, second = answer_describe_log_dirs(driver.state, DescribeLogDirsRequest(), {}).log_dirs
    assert [topic.topic for topic in first.topics] == [topic.topic for topic in second.topics] == ["t"]
    driver.feed(LogDirFailed(B, "gone"))
    first, second = answer_describe_log_dirs(driver.state, DescribeLogDirsRequest(), {}).log_dirs
    assert ([topic.topic for topic in first.topics], second.error) == (["t"], ErrorCode.KAFKA_STORAGE_ERROR)


# --- LeaderAndIsr -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first,second", [(X, Y), (Y, X)])
@pytest.mark.parametrize("isr", [(OTHER,), (OTHER, ME)])
def test_the_one_with_the_topics_id_is_opened_and_the_other_is_set_aside(
    first: TopicId, second: TopicId, isr: tuple[int, ...]
) -> None:
    driver = two(held(first), held(second))
    assert opened(driver, follow(Y, isr=isr)) == ErrorCode.NONE
    assert (where(driver, Y), where(driver, X)) == (["t-0"], ["stray"])
    replica = driver.state.replicas[T0]
    assert (replica.state, replica.topic_id) == (ReplicaState.HOSTED, Y)
    assert driver.disk.log_dirs[replica.log_dir or ""]["t-0"].topic_id == Y
    assert driver.state.duplicates == {}
    assert len(driver.records(EventRecordType.SET_ASIDE)) == len(driver.state.strays) == 1
    driver.advance(10**9)
    assert where(driver, X) == ["stray"], "and is kept"


@pytest.mark.parametrize("other", [held(None), BLANK, UNREADABLE])
def test_one_that_says_nothing_gives_way_to_the_one_with_the_id(other: Entry) -> None:
    driver = two(other, held(X))
    assert opened(driver, become(topic_id=X)) == ErrorCode.NONE
    assert (where(driver, X), where(driver, None)) == (["t-0"], ["stray"])


def test_where_nobody_counts_on_any_all_are_set_aside() -> None:
    driver = two(held(X), held(None))
    assert opened(driver, follow(Y)) == ErrorCode.NONE
    assert (where(driver, X), where(driver, None), where(driver, Y)) == (["stray"], ["stray"], ["t-0"])
    assert [type(operation) for operation in driver.disk.performed] == [
        QuarantineDirectory,
        QuarantineDirectory,
        CreateReplica,
    ]


def test_a_blank_one_is_used_before_another_is_made() -> None:
    driver = two(held(X), BLANK)
    assert opened(driver, follow(Y)) == ErrorCode.NONE
    assert [type(operation) for operation in driver.disk.performed] == [QuarantineDirectory, AssignTopicId]
    assert where(driver, Y) == ["t-0"]


@pytest.mark.parametrize(
    "first,second,topic_id",
    [
        (held(X), held(X), X),
        (held(X), Entry(X, 0, 0), X),
        (held(X), held(None), Y),
        (held(None), UNREADABLE, X),
        (held(None), held(None), None),
        (held(X), held(Y), None),
        (held(X), held(None), None),
    ],
)
def test_where_nobody_can_say_which_one_none_is_touched(first: Entry, second: Entry, topic_id: TopicId | None) -> None:
    driver = two(first, second)
    assert opened(driver, become(topic_id=topic_id)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.disk.performed == []
    (refusal,) = driver.records(EventRecordType.REFUSAL)
    assert f"{A}/t-0" in str(refusal.data["why"])
    assert f"{B}/t-0" in str(refusal.data["why"])
    assert "restart" in str(refusal.data["why"])


@pytest.mark.parametrize(
    "first,second,topic_id", [(held(X), held(None), Y), (held(None), held(None), None), (held(X), held(Y), None)]
)
def test_doubts_do_not_keep_a_doomed_topic_from_being_deleted(
    first: Entry, second: Entry, topic_id: TopicId | None
) -> None:
    driver = two(first, second, topic_ids={"t": TopicAbsence.NO_ID})
    assert opened(driver, doomed(topic_id)) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert driver.disk.performed == []
    assert stopped(driver, stop()) == ErrorCode.NONE
    assert [type(operation) for operation in driver.disk.performed] == [QuarantineDirectory, QuarantineDirectory], (
        "and not a byte is lost"
    )


def test_new_bytes_under_no_id_do_not_put_anything_out_of_service() -> None:
    driver = two(held(X), held(Y))
    assert opened(driver, become(topic_id=None, is_new=True)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.disk.performed == []


def test_a_single_one_besides_blank_ones_is_judged_as_if_it_were_alone() -> None:
    driver = two(BLANK, held(None))
    assert opened(driver, become(topic_id=Y)) == ErrorCode.NONE
    assert driver.disk.log_dirs[B]["t-0"].topic_id == Y
    assert where(driver, None) == ["stray"]
    driver = two(BLANK, held(X))
    assert opened(driver, become(topic_id=Y)) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert driver.disk.performed == []


def test_two_of_other_incarnations_are_as_inconsistent_as_one() -> None:
    driver = two(held(X), held(Y))
    assert opened(driver, become(topic_id=Z)) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert driver.disk.performed == []
    driver.update(tombstone(topic_id=Z))
    assert stopped(driver, stop()) == ErrorCode.NONE
    assert (where(driver, X), where(driver, Y)) == (["stray"], ["stray"])


def test_an_order_that_does_not_concern_this_broker_decides_nothing() -> None:
    driver = two(held(X), held(Y))
    for topic_id, error in ((X, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (Y, ErrorCode.INCONSISTENT_TOPIC_ID)):
        assert opened(driver, become(topic_id=topic_id, leader=OTHER, isr=(OTHER,), replicas=(OTHER,))) == error
    assert driver.disk.performed == []


def test_who_cannot_be_set_aside_hinders_nobody_and_is_tried_again() -> None:
    driver = two(held(X), held(Y))
    driver.disk.refusals["t-0"] = "busy"
    assert opened(driver, follow(Y)) == ErrorCode.NONE
    assert driver.state.replicas[T0].topic_id == Y
    assert where(driver, X) == ["t-0"]
    del driver.disk.refusals["t-0"]
    assert opened(driver, follow(Y, leader_epoch=1)) == ErrorCode.NONE
    assert (where(driver, Y), where(driver, X)) == (["t-0"], ["stray"])


def test_nothing_is_made_where_one_could_not_be_set_aside() -> None:
    driver = two(held(X), held(None))
    driver.disk.refusals["t-0"] = "busy"
    assert opened(driver, follow(Y)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(driver.state.duplicates[T0]) == 1
    del driver.disk.refusals["t-0"]
    assert opened(driver, follow(Y)) == ErrorCode.NONE
    assert where(driver, Y) == ["t-0"]


def test_what_is_hosted_stays_hosted_whatever_lies_elsewhere() -> None:
    driver = two(held(X), held(Y))
    driver.disk.refusals["t-0"] = "busy"
    assert opened(driver, follow(Y)) == ErrorCode.NONE
    del driver.disk.refusals["t-0"]
    assert opened(driver, follow(X, leader_epoch=1)) == ErrorCode.KAFKA_STORAGE_ERROR, "its directory is here, unopened"
    assert driver.state.replicas[T0].topic_id == Y
    assert (where(driver, X), where(driver, Y)) == (["t-0"], ["t-0"])


# --- failed log directories ---------------------------------------------------------------------------------------


def test_the_living_one_in_a_failed_log_directory_is_not_replaced() -> None:
    driver = two(held(X), held(Y))
    driver.feed(LogDirFailed(B, "gone"))
    assert opened(driver, follow(Y)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.disk.performed == []


@pytest.mark.parametrize("failed,topic_id", [(A, Y), (B, X)])
def test_another_one_in_a_failed_log_directory_does_not_matter(failed: str, topic_id: TopicId) -> None:
    driver = two(held(X), held(Y))
    driver.feed(LogDirFailed(failed, "gone"))
    assert opened(driver, follow(topic_id)) == ErrorCode.NONE
    assert driver.state.replicas[T0].topic_id == topic_id
    driver.update(tombstone(topic_id=topic_id))
    assert stopped(driver, stop()) == ErrorCode.NONE
    assert stopped(driver, stop()) == ErrorCode.NONE, "repeated: the same answer"
    assert where(driver, topic_id) == ["delete"]


def test_where_none_has_the_id_a_failed_one_may_be_it() -> None:
    driver = two(held(X), held(None))
    driver.feed(LogDirFailed(B, "gone"))
    assert opened(driver, follow(Y)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.disk.performed == []


def test_a_log_directory_that_fails_while_the_other_one_is_set_aside_takes_nobody_along() -> None:
    driver = two(held(X), held(Y))
    driver.before_disk = lambda _: driver.feed(LogDirFailed(A, "gone"))
    assert opened(driver, follow(Y)) == ErrorCode.NONE
    assert driver.state.replicas[T0].state is ReplicaState.HOSTED


# --- the same incarnation twice -----------------------------------------------------------------------------------


def test_a_topic_whose_replica_is_there_twice_can_be_deleted() -> None:
    driver = two(held(X), held(X))
    assert opened(driver, become(topic_id=X)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert opened(driver, doomed(X)) == ErrorCode.NONE
    driver.update(tombstone(topic_id=X))
    assert stopped(driver, stop()) == ErrorCode.NONE
    assert where(driver, X) == ["delete", "delete"]
    assert (driver.state.replicas, driver.state.duplicates, driver.state.incarnations) == ({}, {}, {})
    driver.advance(10**9)
    assert where(driver, X) == []


def test_a_replica_that_is_there_twice_is_not_served_once_somebody_leads() -> None:
    driver = two(held(X), held(X))
    assert opened(driver, doomed(X)) == ErrorCode.NONE
    assert opened(driver, become(topic_id=X, leader_epoch=1)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert where(driver, X) == ["t-0", "t-0"]


def test_a_deletion_is_not_done_while_one_of_two_lies_in_a_failed_log_directory() -> None:
    driver = two(held(X), held(X))
    driver.feed(LogDirFailed(A, "gone"))
    assert opened(driver, doomed(X)) == ErrorCode.NONE
    assert stopped(driver, stop()) == ErrorCode.KAFKA_STORAGE_ERROR


# --- StopReplica --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first,second", [(X, Y), (Y, X)])
def test_a_deletion_takes_the_named_incarnation_only(first: TopicId, second: TopicId) -> None:
    driver = two(held(first), held(second))
    driver.update(metadata(topic_id=X))
    driver.update(tombstone(topic_id=X))
    assert stopped(driver, stop()) == ErrorCode.NONE
    assert (where(driver, X), where(driver, Y)) == (["delete"], ["stray"])
    driver.advance(10**9)
    assert (where(driver, X), where(driver, Y)) == ([], ["stray"])


@pytest.mark.parametrize("first,second", [(X, Y), (Y, X)])
def test_payment_of_a_debt_leaves_the_replica_of_the_present_topic(first: TopicId, second: TopicId) -> None:
    """X was deleted while this broker was away; Y has its name now."""
    driver = two(held(first), held(second))
    assert opened(driver, doomed(X)) == ErrorCode.NONE
    assert (where(driver, X), where(driver, Y)) == (["t-0"], ["t-0"])
    assert stopped(driver, stop(leader_epoch=NO_LEADER_EPOCH)) == ErrorCode.NONE
    assert (where(driver, X), where(driver, Y)) == (["delete"], ["t-0"])
    assert opened(driver, become(topic_id=Y, leader_epoch=3)) == ErrorCode.NONE
    assert driver.state.replicas[T0].topic_id == Y
    assert not any(isinstance(each, CreateReplica) for each in driver.disk.performed), "it serves what it had"
    driver.advance(10**9)
    assert (where(driver, X), where(driver, Y)) == ([], ["t-0"])


def test_payment_of_a_debt_deletes_what_is_owed_and_never_the_present_topic() -> None:
    """UpdateMetadata has named the present topic after the compare."""
    driver = two(held(X), held(Y))
    assert opened(driver, doomed(X)) == ErrorCode.NONE
    driver.update(metadata(topic_id=Y))
    assert stopped(driver, stop(leader_epoch=NO_LEADER_EPOCH)) == ErrorCode.NONE
    assert (where(driver, X), where(driver, Y)) == (["delete"], ["t-0"])


def test_compare_sets_aside_a_directory_that_nothing_identifies() -> None:
    driver = two(held(X), held(None))
    assert opened(driver, doomed(X)) == ErrorCode.NONE
    assert (where(driver, X), where(driver, None)) == (["t-0"], ["stray"])


def test_deletion_after_a_compare_sets_the_other_one_aside() -> None:
    """A topic with one replica is announced like a debt before it is deleted."""
    driver = two(held(X), held(Y))
    assert opened(driver, doomed(X)) == ErrorCode.NONE
    driver.update(tombstone(topic_id=X))
    assert stopped(driver, stop()) == ErrorCode.NONE
    assert (where(driver, X), where(driver, Y)) == (["delete"], ["stray"])


def test_an_agent_that_remembers_nothing_asks_once_about_both() -> None:
    driver = two(held(X), held(Y), topic_ids={"t": Y})
    assert stopped(driver, stop()) == ErrorCode.NONE
    assert driver.asked == [("t",)]
    assert (where(driver, X), where(driver, Y)) == (["stray"], ["delete"])


def test_where_zookeeper_cannot_be_asked_none_is_touched() -> None:
    driver = two(held(X), held(Y), topic_ids={"t": TopicIdUnavailable("session lost")})
    assert stopped(driver, stop()) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert driver.disk.performed == []
    driver.topic_ids["t"] = TopicAbsence.NO_TOPIC
    assert stopped(driver, stop()) == ErrorCode.NONE
    assert (where(driver, X), where(driver, Y)) == (["stray"], ["stray"])


def test_of_several_without_an_id_none_is_deleted_by_name() -> None:
    driver = two(held(None), held(None), topic_ids={"t": TopicAbsence.NO_ID})
    assert stopped(driver, stop()) == ErrorCode.NONE
    assert where(driver, None) == ["stray", "stray"]


def test_a_rename_that_fails_leaves_the_other_one_to_be_deleted_next() -> None:
    driver = two(held(X), held(X))
    assert opened(driver, doomed(X)) == ErrorCode.NONE
    driver.update(tombstone(topic_id=X))
    performed: list[object] = []
    perform = driver.disk.perform

    def refuse_first(operation: object) -> object:
        performed.append(operation)
        driver.disk.refusals = {"t-0": "busy"} if len(performed) == 1 else {}
        return perform(operation)  # type: ignore[arg-type]

    driver.disk.perform = refuse_first  # type: ignore[method-assign,assignment]
    assert stopped(driver, stop()) == ErrorCode.KAFKA_STORAGE_ERROR
    assert where(driver, X) == ["t-0", "delete"]
    assert stopped(driver, stop()) == ErrorCode.NONE
    assert where(driver, X) == ["delete", "delete"]
    assert [type(operation) for operation in driver.disk.performed] == [RenameForDeletion, RenameForDeletion]


def test_a_restart_with_both_present_begins_from_nothing() -> None:
    driver = two(held(X), held(Y))
    driver.disk.refusals["t-0"] = "busy"
    assert opened(driver, follow(Y)) == ErrorCode.NONE
    driver.disk.refusals.clear()
    again = Driver(driver.disk, seed="run-2")
    assert again.state.replicas[T0].state is ReplicaState.LOADED
    assert opened(again, follow(Y, leader_epoch=1)) == ErrorCode.NONE
    assert (where(again, Y), where(again, X)) == (["t-0"], ["stray"])
