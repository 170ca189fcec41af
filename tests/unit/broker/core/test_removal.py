"""Rename, acknowledge, remove later: the queue of what is owed."""

from __future__ import annotations

from lethe.broker.core.agent import step
from lethe.broker.core.effects import DirectoryRef, Record, RemoveDirectories, SetTimer
from lethe.broker.core.inputs import DirectoriesRemoved, LogDirFailed, RemovalOutcome, TimerFired
from lethe.broker.core.removal import (
    FIRST_RETRY_MS,
    MAX_DIRECTORIES_PER_ROUND,
    MAX_RETRY_MS,
    PendingRemoval,
    RemovalQueue,
)
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import topic_id_to_text
from tests.unit.broker.core.driver import DELAY_MS, A, B, Driver, Entry, FakeDisk, X, Y, become, stop, tombstone


def directories(driver: Driver) -> list[str]:
    return [name for entries in driver.disk.log_dirs.values() for name in entries]


def test_the_bytes_go_after_the_delay_and_are_counted() -> None:
    driver = Driver()
    driver.leader_and_isr(become(partitions=(0, 1)))
    driver.now_ms = 1_000
    driver.update(tombstone())
    driver.stop(stop(partitions=(0, 1)))
    assert SetTimer(1_000 + DELAY_MS) in driver.effects
    assert driver.state.removal.pending_bytes == 8192
    driver.advance(DELAY_MS - 1)
    assert len(directories(driver)) == 2
    driver.advance(1)
    assert directories(driver) == []
    assert driver.state.removal.freed_bytes == 8192
    assert driver.state.removal.pending_bytes == 0
    freed = [e.record for e in driver.effects if isinstance(e, Record) and e.record.type is EventRecordType.BYTES_FREED]
    assert sum(int(str(record.data["size_bytes"])) for record in freed) == 8192


def test_bytes_of_two_incarnations_are_counted_apart() -> None:
    driver = Driver()
    for topic_id in (X, Y):
        driver.leader_and_isr(become(topic_id=topic_id, partitions=(0, 1), is_new=True))
        driver.update(tombstone(topic_id=topic_id))
        driver.stop(stop(partitions=(0, 1)))
    driver.advance(DELAY_MS)
    freed = driver.records(EventRecordType.BYTES_FREED)
    assert sorted(
        (str(record.data["topic_id"]), record.data["log_dir"], record.data["partitions"]) for record in freed
    ) == [
        (topic_id_to_text(X), A, "0"),
        (topic_id_to_text(X), B, "1"),
        (topic_id_to_text(Y), A, "0"),
        (topic_id_to_text(Y), B, "1"),
    ]


def test_bytes_keep_their_id_over_failed_attempts_a_restart_and_the_loss_of_the_log_directory() -> None:
    name = "t-0." + "0" * 32 + "-delete"
    driver = Driver(FakeDisk({A: {name: Entry(X, 5, 1)}, B: {}}))
    state = driver.state
    for now_ms, outcome in ((DELAY_MS, RemovalOutcome("busy")), (2 * DELAY_MS, RemovalOutcome("gone", 5, 1, True))):
        assert RemoveDirectories((DirectoryRef(A, name),)) in step(state, TimerFired(), now_ms)
        if outcome.log_dir_failed:
            step(state, LogDirFailed(A, "gone"), now_ms)
        records = [
            each.record for each in step(state, DirectoriesRemoved((outcome,)), now_ms) if isinstance(each, Record)
        ]
        (freed,) = [record for record in records if record.type is EventRecordType.BYTES_FREED]
        assert (freed.data["topic_id"], freed.data["error"]) == (topic_id_to_text(X), outcome.error)


def test_what_was_renamed_before_the_start_is_removed_a_delay_after_it() -> None:
    name = "t-0." + "0" * 32 + "-delete"
    driver = Driver(FakeDisk({A: {name: Entry(None, 5, 1)}, B: {}}))
    driver.advance(DELAY_MS - 1)
    assert directories(driver) == [name]
    driver.advance(1)
    assert directories(driver) == []


def test_strays_and_unknown_directories_are_shown_and_never_removed() -> None:
    stray = "t-0." + "0" * 32 + "-stray"
    driver = Driver(FakeDisk({A: {stray: Entry(None, 5, 1)}, B: {"photos": Entry(None, 7, 3)}}))
    driver.advance(10**9)
    assert directories(driver) == [stray, "photos"]
    assert list(driver.state.strays) == [DirectoryRef(A, stray)]
    assert list(driver.state.unknown) == [DirectoryRef(B, "photos")]


def test_rounds_are_limited_and_follow_one_another() -> None:
    queue = RemovalQueue()
    for n in range(MAX_DIRECTORIES_PER_ROUND + 1):
        queue.add(DirectoryRef(A, f"{n:04}"), PendingRemoval(1, 1), 0)
    first = queue.start_round(0)
    assert len(first) == MAX_DIRECTORIES_PER_ROUND
    assert queue.start_round(0) == ()
    queue.finish_round([RemovalOutcome(None, 1, 1)] * len(first), 0)
    assert len(queue.start_round(0)) == 1


def test_a_failed_removal_is_tried_again_with_growing_delays_for_ever() -> None:
    queue = RemovalQueue()
    queue.add(DirectoryRef(A, "d"), PendingRemoval(10, 2), 0)
    now_ms = 0
    delays = []
    for _ in range(15):
        assert queue.start_round(now_ms) == (DirectoryRef(A, "d"),)
        queue.finish_round([RemovalOutcome("busy")], now_ms)
        due_ms = queue.next_due_ms()
        assert due_ms is not None
        delays.append(due_ms - now_ms)
        now_ms = due_ms
    assert delays[:3] == [FIRST_RETRY_MS, 2 * FIRST_RETRY_MS, 4 * FIRST_RETRY_MS]
    assert delays[-1] == MAX_RETRY_MS
    assert queue.pending[DirectoryRef(A, "d")].error == "busy"
    assert queue.pending_bytes == 10


def test_a_removal_that_failed_half_way_counts_what_it_freed() -> None:
    queue = RemovalQueue()
    queue.add(DirectoryRef(A, "d"), PendingRemoval(10, 2), 0)
    queue.start_round(0)
    queue.finish_round([RemovalOutcome("busy", size_bytes=4, files=1)], 0)
    assert (queue.freed_bytes, queue.pending_bytes) == (4, 6)


def test_a_failed_log_directory_is_owed_nothing_until_the_restart() -> None:
    driver = Driver()
    driver.leader_and_isr(become(partitions=(0, 1)))
    driver.update(tombstone())
    driver.stop(stop(partitions=(0, 1)))
    driver.feed(LogDirFailed(A, "gone"))
    assert [ref.log_dir for ref in driver.state.removal.pending] == [B]
    assert driver.state.removal.pending_bytes == 4096


def test_a_removal_that_finds_the_log_directory_broken_takes_it_offline() -> None:
    driver = Driver()
    driver.leader_and_isr(become())
    driver.update(tombstone())
    driver.stop(stop())
    effects = step(driver.state, TimerFired(), DELAY_MS)
    assert isinstance(effects[-1], RemoveDirectories)
    step(driver.state, DirectoriesRemoved((RemovalOutcome("read-only file system", log_dir_failed=True),)), DELAY_MS)
    assert driver.state.log_dirs[A] == "read-only file system"
    assert driver.state.removal.pending == {}


def test_requests_are_served_while_a_removal_is_under_way() -> None:
    driver = Driver()
    driver.leader_and_isr(become())
    driver.update(tombstone())
    driver.stop(stop())
    assert isinstance(step(driver.state, TimerFired(), DELAY_MS)[-1], RemoveDirectories)
    driver.now_ms = DELAY_MS
    assert driver.leader_and_isr(become(leader_epoch=1)).error == 0


def test_directories_whose_removal_failed_are_counted_until_they_are_gone() -> None:
    queue = RemovalQueue()
    for name in ("a", "b", "c"):
        queue.add(DirectoryRef(A if name == "a" else B, name), PendingRemoval(10, 1), 0)
    assert queue.failing == 0
    queue.start_round(0)
    queue.finish_round([RemovalOutcome("busy"), RemovalOutcome("busy"), RemovalOutcome(None, 10, 1)], 0)
    assert (queue.failing, len(queue.pending)) == (2, 2)
    queue.start_round(10_000)
    queue.finish_round([RemovalOutcome("busy"), RemovalOutcome(None, 10, 1)], 10_000)
    assert queue.failing == 1
    queue.drop_log_dir(A)
    queue.drop_log_dir(B)
    assert (queue.failing, queue.pending_bytes) == (0, 0)
