"""Missed deletions: what an agent deletes at its start, what it leaves alone, and when a debt is settled."""

from __future__ import annotations

from uuid import UUID

import pytest

from lethe.broker.core.agent import step
from lethe.broker.core.effects import PerformDisk, SettleDebts
from lethe.broker.core.inputs import (
    ControllerEpochReceived,
    ControlReceived,
    DebtsRead,
    DiskPerformed,
    FoundDebt,
    LogDirFailed,
    TopicAbsence,
    TopicIdAnswer,
    TopicIdUnavailable,
)
from lethe.broker.core.state import AgentState, Settings
from lethe.protocol.journal import EventRecordType
from lethe.protocol.journal_schema import schema_problems
from lethe.protocol.kafka.control import Addressed
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch, TopicId, TopicPartition
from tests.unit.broker.core.driver import DELAY_MS, EPOCH, ME, A, B, Driver, Entry, FakeDisk, X, Y, become


def debt(
    topic: str = "t",
    topic_id: TopicId | None = X,
    partitions: tuple[int, ...] = (0,),
    living: TopicIdAnswer = TopicAbsence.NO_TOPIC,
    *,
    may_be_in_trash: bool = False,
) -> FoundDebt:
    return FoundDebt(topic, 17, topic_id, partitions, 1_000, 30, living, may_be_in_trash)


def started(disk: FakeDisk, *debts: FoundDebt) -> Driver:
    """An agent with this disk that was told of these debts."""
    driver = Driver(disk)
    driver.feed(DebtsRead(debts))
    return driver


def names(driver: Driver, log_dir: str = A) -> list[str]:
    return [name if "." not in name else name.split(".")[0] + "…delete" for name in driver.disk.log_dirs[log_dir]]


def test_directories_with_the_debts_own_id_are_renamed_and_removed_after_the_delay() -> None:
    disk = FakeDisk({A: {"t-0": Entry(X, 10, 1), "t-1": Entry(X, 20, 1), "u-0": Entry(Y, 5, 1)}, B: {}})
    owed = debt(partitions=(0, 1))
    driver = started(disk, owed)
    assert driver.settled == [(owed,)]
    assert sorted(names(driver)) == ["t-0…delete", "t-1…delete", "u-0"]
    assert driver.state.removal.pending_bytes == 30
    driver.advance(DELAY_MS)
    assert names(driver) == ["u-0"]
    (freed,) = driver.records(EventRecordType.BYTES_FREED)
    assert freed.data["size_bytes"] == 30
    (paid,) = driver.records(EventRecordType.DEBT)
    assert schema_problems(paid) == ()
    assert (paid.subject, paid.data["what"], paid.data["partitions"], paid.data["size_bytes"]) == (
        "topic/t",
        "paid",
        "0-1",
        30,
    )


def test_a_debt_without_any_directory_is_settled_at_once() -> None:
    owed = debt()
    driver = started(FakeDisk(), owed)
    assert driver.settled == [(owed,)]
    assert driver.disk.performed == []


@pytest.mark.parametrize(
    "unclear",
    [
        debt(topic_id=None),
        debt(living=X),
        debt(living=TopicAbsence.NO_ID),
        debt(living=TopicIdUnavailable("NO_AUTH")),
        debt(may_be_in_trash=True),
        debt(living=Y, may_be_in_trash=True),
    ],
)
def test_what_is_unclear_stays(unclear: FoundDebt) -> None:
    driver = started(FakeDisk({A: {"t-0": Entry(X, 10, 1)}, B: {}}), unclear)
    assert driver.settled == [()]
    assert driver.records(EventRecordType.DEBT) == []
    assert names(driver) == ["t-0"]


def test_a_name_that_is_used_again_keeps_its_bytes() -> None:
    owed = debt(living=Y, partitions=(0, 1))
    driver = started(FakeDisk({A: {"t-0": Entry(X, 10, 1), "t-1": Entry(Y, 20, 1)}, B: {}}), owed)
    assert sorted(names(driver)) == ["t-0…delete", "t-1"]
    assert driver.settled == [(owed,)], "partition 1 has nothing of the incarnation that is owed"


def test_two_incarnations_of_one_name_are_told_apart() -> None:
    third = TopicId(UUID(int=0xC3))
    disk = FakeDisk({A: {"t-0": Entry(X, 10, 1)}, B: {"t-0": Entry(Y, 20, 1)}})
    first, second = debt(living=third), debt(topic_id=Y, living=third)._replace(created_zxid=18)
    driver = started(disk, first, second)
    assert driver.settled == [(first, second)]
    assert names(driver, A) == names(driver, B) == ["t-0…delete"]


def test_only_partitions_that_the_debt_names_are_deleted() -> None:
    driver = started(FakeDisk({A: {"t-0": Entry(X, 10, 1), "t-1": Entry(X, 20, 1)}, B: {}}), debt(partitions=(1,)))
    assert sorted(names(driver)) == ["t-0", "t-1…delete"]


@pytest.mark.parametrize("entry", [Entry(None, 10, 1), Entry(None, 0, 0), Entry(X, 10, 1, id_readable=False)])
def test_a_directory_that_may_be_of_that_incarnation_keeps_the_debt_open(entry: Entry) -> None:
    driver = started(FakeDisk({A: {"t-0": entry}, B: {"t-0": Entry(X, 10, 1)}}), debt())
    assert driver.settled == [()]
    assert names(driver, A) == ["t-0"]
    assert names(driver, B) == ["t-0…delete"], "this one is proven"


def test_while_a_log_directory_is_offline_nothing_is_settled() -> None:
    disk = FakeDisk({A: {"t-0": Entry(X, 10, 1)}, B: {"t-1": Entry(X, 10, 1)}}, failures={B: "EIO"})
    driver = started(disk, debt(partitions=(0, 1)), debt("u", Y))
    assert names(driver) == ["t-0…delete"]
    assert driver.settled == [()]


@pytest.mark.parametrize("fails_whole_directory", [False, True])
def test_a_rename_that_fails_leaves_the_debt(fails_whole_directory: bool) -> None:
    disk = FakeDisk({A: {"t-0": Entry(X, 10, 1)}, B: {}})
    driver = Driver(disk)
    if fails_whole_directory:
        disk.failures[A] = "EIO"
    else:
        disk.refusals["t-0"] = "it is a mount point"
    driver.feed(DebtsRead((debt(),)))
    assert driver.settled == [()]
    assert driver.state.has_offline_log_dir is fails_whole_directory
    assert driver.records(EventRecordType.REFUSAL)[0].data["what"] == "PAY_DEBT"


def test_a_log_directory_that_fails_meanwhile_loses_neither_directory_nor_debt() -> None:
    disk = FakeDisk({A: {"t-0": Entry(X, 10, 1)}, B: {}})
    state = AgentState(Settings(ME, DELAY_MS, "run"))
    step(state, disk.inventory(), 0)
    (rename,) = step(state, DebtsRead((debt(),)), 0)
    assert isinstance(rename, PerformDisk)
    outcomes = tuple(map(disk.perform, rename.operations))
    step(state, LogDirFailed(A, "EIO"), 0)
    assert SettleDebts(()) in step(state, DiskPerformed(outcomes), 0)
    assert not state.removal.pending, "the next start finds it"


def test_requests_wait_until_the_directories_are_renamed() -> None:
    disk = FakeDisk({A: {"t-0": Entry(X, 10, 1)}, B: {}})
    driver = Driver(disk)
    state = driver.state
    (rename,) = step(state, DebtsRead((debt(living=Y),)), 0)
    assert isinstance(rename, PerformDisk)
    token = driver.send(become(topic_id=Y))
    assert token not in driver.replies
    driver.feed(DiskPerformed(tuple(map(disk.perform, rename.operations))))
    assert token in driver.replies
    assert state.replicas[TopicPartition("t", 0)].topic_id == Y


def test_what_a_request_has_begun_is_not_disturbed() -> None:
    driver = Driver(FakeDisk({A: {"t-0": Entry(X, 10, 1)}, B: {}}))
    step(driver.state, ControlReceived(1, Addressed(become("u", Y, is_new=True), EPOCH)), 0)
    begun = step(driver.state, ControllerEpochReceived(ControllerEpoch(5), BrokerId(9)), 0)
    assert any(isinstance(effect, PerformDisk) for effect in begun)
    stage = driver.state.stage
    assert step(driver.state, DebtsRead((debt(),)), 0) == (SettleDebts(()),)
    assert driver.state.stage is stage


def test_an_agent_that_only_acknowledges_settles_nothing() -> None:
    state = AgentState(Settings(ME, DELAY_MS, "run", acknowledge_only=True))
    step(state, FakeDisk().inventory(), 0)
    assert step(state, DebtsRead((debt(),)), 0) == (SettleDebts(()),)
