"""Deletions as rows: each rule by a journal of a few lines. All journals are one, a topic and brokers for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest
from pyspark.sql import SparkSession

from lethe.pipeline.transforms.replicas import replica_deletions
from lethe.pipeline.transforms.span_heads import span_heads
from lethe.pipeline.transforms.spans import deletion_spans
from lethe.protocol.journal import time_to_text
from tests.pipeline.journals import START, Journal, events, rows_of

Row = dict[str, Any]
WHOLE: Final = ("queued", "started", "tombstoned", "acknowledged", "removed", "done")
DAY_MS: Final = 86_400_000
pytestmark = pytest.mark.timeout(600)
LONG: Final = "l" * 230
HOUR_MS: Final = 3_600_000
SUCCESSFUL, STARTED, INELIGIBLE = "DELETION_SUCCESSFUL", "DELETION_STARTED", "DELETION_INELIGIBLE"


def at(ms: int) -> str:
    return time_to_text(START + ms)


def _whole(journal: Journal) -> None:
    journal.phases(0, "whole", WHOLE, "id")
    for broker in (1, 2):
        journal.moved(1000, "whole", broker, STARTED, topic_id="id")
        journal.moved(2000 + broker, "whole", broker, SUCCESSFUL, topic_id="id")
        journal.answered(2000 + broker, "whole", broker, topic_id="id")
    journal.freed(62_000, "whole", 1, "id", count=2)
    journal.freed(63_000, "whole", 2, "id", count=1)
    journal.freed(63_500, "whole", 2, "id", error="EIO", count=1)
    journal.freed(64_000, "whole", 2, "id", count=1)


def _not_yet_reclaimed(journal: Journal) -> None:
    journal.phases(0, "reclaiming", WHOLE)
    journal.answered(2000, "reclaiming", 1)
    journal.freed(62_000, "reclaiming", 1, count=1)


def _told_twice(journal: Journal) -> None:
    """After a failover broker 1 was told of its replicas again, and removed them twice; 2 has not removed its own."""
    journal.phases(0, "told-twice", WHOLE)
    for broker in (1, 2):
        journal.answered(2000, "told-twice", broker)
    journal.freed(2500, "told-twice", 1)
    journal.freed(62_000, "told-twice", 1)


def _dated(journal: Journal) -> None:
    """The marker is a day older than the first line: another controller had it before, or nobody did."""
    marked_at_ms = START - DAY_MS
    journal.phase(0, "dated", "held", "id", held_by="PAUSED", marked_at_ms=marked_at_ms)
    journal.phase(1000, "dated", "queued", "id", marked_at_ms=marked_at_ms)
    journal.phase(2000, "dated", "queued", "id", by=1002, marked_at_ms=marked_at_ms)
    journal.phase(3000, "dated", "done", "id", by=1002)


def _dated_late(journal: Journal) -> None:
    """An earlier release wrote the first line. ZooKeeper's clock is ahead of the second writer's."""
    journal.phase(1000, "dated-late", "queued", "id")
    journal.phase(2000, "dated-late", "queued", "id", by=1002, marked_at_ms=START + 5000)


def _dated_again(journal: Journal) -> None:
    """Let go and marked again: each deletion is as old as its own marker."""
    journal.phase(0, "dated-again", "held", "id", held_by="PAUSED", marked_at_ms=START - 2000)
    journal.phase(1000, "dated-again", "let go", "id")
    journal.phase(5000, "dated-again", "queued", "id", marked_at_ms=START + 3000)


def _failover(journal: Journal) -> None:
    journal.phases(0, "failover", ("queued", "started", "tombstoned"), "id", by=1001)
    journal.moved(1000, "failover", 1, STARTED, "0-3")
    journal.answered(1500, "failover", 1, partitions="0-2", by=1001)
    journal.phases(10_000, "failover", WHOLE, "id", by=1002)
    journal.moved(11_000, "failover", 1, STARTED, "0-3")
    journal.answered(12_500, "failover", 1, partitions="0-3", by=1002)


def _held(journal: Journal) -> None:
    journal.phase(0, "held", "held", "id", held_by="PAUSED")
    journal.phase(5000, "held", "held", "id", held_by="REASSIGNMENT")
    journal.phase(7000, "held", "held", "id", by=1002, held_by="REASSIGNMENT")
    journal.phases(8000, "held", WHOLE, "id", by=1002)


def _still_held(journal: Journal) -> None:
    journal.phase(0, "still-held", "held", "id", held_by="PAUSED")


def _let_go(journal: Journal) -> None:
    journal.phase(0, "let-go", "held", "id", held_by="PAUSED")
    journal.phase(1000, "let-go", "let go", "id")
    journal.phase(DAY_MS, "let-go", "held", "id", held_by="PAUSED")
    journal.phases(DAY_MS + 1000, "let-go", WHOLE, "id")
    journal.answered(DAY_MS + 4000, "let-go", 1, topic_id="id")


def _again_with_ids(journal: Journal) -> None:
    for number in (0, 1):
        start = number * 20_000
        journal.phases(start, "again", WHOLE, f"id{number}")
        journal.answered(start + 3000, "again", 1, topic_id=f"id{number}")
    # Removed when the next one was on its way already; only ids can tell.
    journal.freed(23_000, "again", 1, "id0")
    journal.freed(83_000, "again", 1, "id1")


def _again_without_ids(journal: Journal) -> None:
    for number in (0, 1):
        start = number * 200_000
        journal.phases(start, "nameless", WHOLE)
        journal.moved(start + 2000, "nameless", 1, STARTED)
        journal.answered(start + 3000, "nameless", 1)
        journal.freed(start + 64_000, "nameless", 1, count=number + 2)


def _again_in_old_journal(journal: Journal) -> None:
    """Phases have ids, answers and freed bytes do not."""
    for number in (0, 1):
        start = number * 200_000
        journal.phases(start, "old", WHOLE, f"id{number}")
        journal.answered(start + 3000, "old", 1)
        journal.freed(start + 64_000, "old", 1)


def _midnight(journal: Journal) -> None:
    journal.phases(14 * HOUR_MS - 1500, "midnight", WHOLE, "id")
    journal.answered(14 * HOUR_MS + 1000, "midnight", 1, topic_id="id")
    journal.freed(14 * HOUR_MS + 60_000, "midnight", 1, "id")


def _clock(journal: Journal) -> None:
    """The agent's clock is 3 seconds behind the controller's."""
    journal.phases(0, "clock", WHOLE)
    journal.answered(100, "clock", 1)
    journal.freed(1000 - 3000, "clock", 1)
    # An hour before, and of no deletion.
    journal.freed(-HOUR_MS, "clock", 1)


def _slow_controller(journal: Journal) -> None:
    """The one that finished the deletion has a clock that is behind: with an id there is one deletion all the same."""
    journal.phases(10_000, "slow-clock", ("queued", "started"), "id", by=1001)
    journal.phases(3000, "slow-clock", WHOLE, "id", by=1002)


def _holes(journal: Journal) -> None:
    """Rotated away: the beginning. Never written: the rest, but for one answer."""
    journal.phase(5000, "holes", "tombstoned", "id")
    journal.answered(6000, "holes", 1, topic_id="id")
    journal.line(0, "/lethe/controller/1001", "gap", "controller/1001", count=7, reason="queue full")


def _unreadable(journal: Journal) -> None:
    """Nobody can tell the id of a topic whose znode is damaged; once it is repaired it has one."""
    journal.phase(0, "unreadable", "held", None, held_by="UNREADABLE", partitions=0, replicas=0)
    journal.phase(1000, "unreadable", "held", None, by=1002, held_by="UNREADABLE", partitions=0, replicas=0)
    journal.phases(9000, "unreadable", WHOLE, "id", by=1002)


def _moved_away(journal: Journal) -> None:
    """A replica of the living topic was moved to another broker, before and after: no part of a deletion."""
    for moment in (-HOUR_MS, HOUR_MS):
        journal.moved(moment, "moved-away", 1, STARTED)
        journal.moved(moment + 1, "moved-away", 1, SUCCESSFUL)
    journal.phases(0, "moved-away", WHOLE)


def _broker_gone(journal: Journal) -> None:
    """Broker 61 fails and comes back, 62 loses a directory, 63 refuses, of 64 nothing is told; overlapping."""
    journal.phases(0, "waits", ("queued", "started"), "id")
    for broker in (61, 62, 63, 64):
        journal.moved(1000, "waits", broker, STARTED)
    journal.broker(9000, 61, "failed")
    journal.moved(10_000, "waits", 61, INELIGIBLE)
    journal.broker(14_000, 62, "log directory failed")
    journal.moved(15_000, "waits", 62, INELIGIBLE)
    journal.broker(19_000, 61, "started")
    journal.answered(20_000, "waits", 61)
    journal.answered(25_000, "waits", 62)
    journal.answered(40_000, "waits", 63, "STALE_BROKER_EPOCH", "0")
    journal.moved(41_000, "waits", 63, STARTED, "0")
    journal.answered(42_000, "waits", 63)
    journal.moved(50_000, "waits", 64, INELIGIBLE)
    journal.moved(51_000, "waits", 64, SUCCESSFUL)
    journal.phases(60_000, "waits", ("tombstoned", "acknowledged", "removed", "done"), "id")


def _broker_away(journal: Journal) -> None:
    """Broker 65 had failed before the journal began: its return is the first that is told of it. 66 is still away."""
    journal.phases(0, "away", ("queued", "started"), "id")
    journal.moved(1000, "away", 65, INELIGIBLE)
    journal.broker(5000, 65, "started")
    journal.answered(6000, "away", 65)
    journal.broker(500, 66, "failed")
    journal.moved(1000, "away", 66, INELIGIBLE)


def _absurd(journal: Journal) -> None:
    journal.phases(0, "absurd", WHOLE)
    for ranges in ("0-999999999", "7-3", "x", "", "99999999999999999999", "-1", "1-2-3"):
        journal.answered(3000, "absurd", 1, partitions=ranges)
    journal.answered(3000, "absurd", 1, partitions="0-999999999,4,6-7")
    journal.line(3000, "/lethe/controller/1001", "ack", "topic/absurd", broker="many", partitions="0", result="NONE")
    journal.line(3000, "/lethe/controller/1001", "ack", "topic/absurd", broker=1, partitions=[0], result="NONE")
    journal.line(3000, "/lethe/controller/1001", "deletion-phase", "topic/absurd", phase=None, topic_id=None)
    journal.line(3000, "/lethe/broker/1", "bytes-freed", "broker/1", topic="absurd", directories="many")


def _cut(journal: Journal) -> None:
    """Directories of long names have them cut. Only one of these topics begins like that, or an id tells."""
    journal.phases(0, LONG, WHOLE, "cut-id")
    journal.answered(3000, LONG, 1)
    journal.freed(63_000, LONG[:213], 1)
    for ending in ("a", "b"):
        journal.phases(0, "m" * 220 + ending, WHOLE, f"cut-{ending}")
        journal.answered(3000, "m" * 220 + ending, 1)
    journal.freed(63_000, "m" * 213, 1)
    journal.freed(63_000, "m" * 213, 1, "cut-b", count=3)


CASES: Final[tuple[Callable[[Journal], None], ...]] = (
    _whole,
    _not_yet_reclaimed,
    _told_twice,
    _dated,
    _dated_late,
    _dated_again,
    _failover,
    _held,
    _still_held,
    _let_go,
    _again_with_ids,
    _again_without_ids,
    _again_in_old_journal,
    _midnight,
    _clock,
    _slow_controller,
    _holes,
    _unreadable,
    _moved_away,
    _broker_gone,
    _broker_away,
    _absurd,
    _cut,
)


class Tables(NamedTuple):
    spans: list[Row]
    replicas: list[Row]

    def of(self, topic: str) -> list[Row]:
        found = [row for row in self.spans if row["topic"] == topic]
        return sorted(found, key=lambda row: row["marked_at"] or row["tombstoned_at"])

    def one(self, topic: str) -> Row:
        (row,) = self.of(topic)
        return row

    def replicas_of(self, topic: str, broker: int = 1) -> list[Row]:
        found = [row for row in self.replicas if (row["topic"], row["broker"]) == (topic, broker)]
        return sorted(found, key=lambda row: (row["span"], row["partition"]))


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    journal = Journal()
    for case in CASES:
        case(journal)
    bronze = events(spark, reversed(journal.lines)).cache()
    heads = span_heads(bronze).cache()
    replicas = replica_deletions(bronze, heads).cache()
    made = Tables(rows_of(deletion_spans(bronze, heads, replicas)), rows_of(replicas))
    for frame in (bronze, heads, replicas):
        frame.unpersist()
    return made


def test_a_deletion_from_the_mark_to_the_last_byte(tables: Tables) -> None:
    row = tables.one("whole")
    assert [row[f"{name}_at"] for name in ("marked", "queued", "started", "tombstoned", "acknowledged")] == [
        at(ms) for ms in (0, 0, 1000, 2000, 3000)
    ]
    assert [row[name] for name in ("first_ack_at", "last_ack_at", "znodes_gone_at", "done_at", "bytes_gone_at")] == [
        at(ms) for ms in (2001, 2002, 4000, 5000, 64_000)
    ]
    assert (row["outcome"], row["phase"], row["partitions"], row["replicas"]) == ("done", "done", 2, 4)
    assert (row["acked_replicas"], row["freed_directories"], row["freed_bytes"], row["freed_files"]) == (4, 4, 400, 12)
    assert (row["deleted_ms"], row["reclaimed_ms"], row["held_ms"], row["waited_ms"]) == (5000, 64_000, 0, 0)
    assert (row["held"], row["waited_for"], row["controllers"], row["day"]) == ([], [], [1001], "2026-01-02")


def test_a_replica_from_asking_to_its_acknowledgement(tables: Tables) -> None:
    first, second = tables.replicas_of("whole", 2)
    assert first == second | {"partition": 0}
    assert first == {
        "topic": "whole",
        "topic_id": "id",
        "span": 1,
        "partition": 0,
        "broker": 2,
        "first_asked_at": at(1000),
        "last_asked_at": at(1000),
        "attempts": 1,
        "acked_at": at(2002),
        "refused": 0,
        "last_refusal": None,
        "ineligible_since": None,
        "ineligible_ms": 0,
        "last_ineligible_at": None,
        "ack_ms": 1002,
        "day": "2026-01-02",
    }


def test_bytes_are_gone_when_all_directories_are(tables: Tables) -> None:
    row = tables.one("reclaiming")
    assert (row["outcome"], row["acked_replicas"], row["freed_directories"]) == ("done", 2, 1)
    assert (row["bytes_gone_at"], row["reclaimed_ms"]) == (None, None)


def test_bytes_are_gone_when_they_are_on_every_broker(tables: Tables) -> None:
    row = tables.one("told-twice")
    assert (row["acked_replicas"], row["freed_directories"], row["bytes_gone_at"]) == (4, 4, None)


def test_a_failover_is_of_the_same_deletion(tables: Tables) -> None:
    row = tables.one("failover")
    assert (row["queued_at"], row["started_at"], row["done_at"]) == (at(0), at(1000), at(15_000))
    assert (row["controllers"], row["acked_replicas"], row["outcome"]) == ([1001, 1002], 4, "done")
    assert (row["first_ack_at"], row["last_ack_at"]) == (at(1500), at(12_500))
    first, last = (tables.replicas_of("failover")[n] for n in (0, 3))
    assert (first["attempts"], first["acked_at"], first["ack_ms"]) == (2, at(1500), 1500)
    assert (last["attempts"], last["acked_at"], last["ack_ms"]) == (2, at(12_500), 1500)


def test_holds_follow_one_another(tables: Tables) -> None:
    row = tables.one("held")
    assert [(hold["held_by"], hold["since"], hold["until"], hold["ms"]) for hold in row["held"]] == [
        ("PAUSED", at(0), at(5000), 5000),
        ("REASSIGNMENT", at(5000), at(7000), 2000),
        ("REASSIGNMENT", at(7000), at(8000), 1000),
    ]
    assert (row["held_ms"], row["marked_at"], row["queued_at"], row["deleted_ms"]) == (8000, at(0), at(8000), 13_000)


def test_a_hold_that_lasts(tables: Tables) -> None:
    row = tables.one("still-held")
    assert (row["outcome"], row["phase"], row["held_ms"]) == ("open", "held", None)
    assert row["held"] == [{"held_by": "PAUSED", "since": at(0), "until": None, "ms": None}]


def test_a_deletion_is_as_old_as_its_marker(tables: Tables) -> None:
    row = tables.one("dated")
    assert (row["marked_at"], row["queued_at"], row["day"]) == (at(-DAY_MS), at(1000), "2026-01-01")
    assert (row["deleted_ms"], row["held_ms"]) == (DAY_MS + 3000, 1000)
    assert tables.one("dated-late")["marked_at"] == at(1000), "no line was written before its marker was made"
    assert [row["marked_at"] for row in tables.of("dated-again")] == [at(-2000), at(3000)]


def test_let_go_and_marked_again_are_two_deletions(tables: Tables) -> None:
    first, second = tables.of("let-go")
    assert (first["span"], first["outcome"], first["let_go_at"], first["held_ms"]) == (1, "let go", at(1000), 1000)
    assert (first["deleted_ms"], first["acked_replicas"], first["day"]) == (None, 0, "2026-01-02")
    assert (second["span"], second["outcome"], second["marked_at"]) == (2, "done", at(DAY_MS))
    assert (second["deleted_ms"], second["acked_replicas"], second["day"]) == (6000, 2, "2026-01-03")


def test_a_name_deleted_twice(tables: Tables) -> None:
    first, second = tables.of("again")
    assert (first["topic_id"], first["span"], first["freed_bytes"]) == ("id0", 1, 200)
    assert (second["topic_id"], second["span"], second["freed_bytes"]) == ("id1", 1, 200)
    assert (first["bytes_gone_at"], second["bytes_gone_at"]) == (at(23_000), at(83_000))


def test_a_name_deleted_twice_without_ids(tables: Tables) -> None:
    first, second = tables.of("nameless")
    assert (first["topic_id"], first["span"], second["topic_id"], second["span"]) == (None, 1, None, 2)
    assert (first["freed_directories"], second["freed_directories"]) == (2, 3)
    assert [(row["span"], row["partition"], row["ack_ms"]) for row in tables.replicas_of("nameless")] == [
        (1, 0, 1000),
        (1, 1, 1000),
        (2, 0, 1000),
        (2, 1, 1000),
    ]


def test_a_journal_in_which_only_phases_have_ids(tables: Tables) -> None:
    assert [(row["topic_id"], row["acked_replicas"], row["freed_bytes"]) for row in tables.of("old")] == [
        ("id0", 2, 200),
        ("id1", 2, 200),
    ]


def test_over_midnight(tables: Tables) -> None:
    row = tables.one("midnight")
    assert (row["day"], row["done_at"][:10], row["bytes_gone_at"][:10]) == ("2026-01-02", "2026-01-03", "2026-01-03")
    assert {replica["day"] for replica in tables.replicas_of("midnight")} == {"2026-01-02"}


def test_an_agent_with_another_clock(tables: Tables) -> None:
    row = tables.one("clock")
    assert (row["freed_directories"], row["bytes_gone_at"], row["reclaimed_ms"]) == (2, at(-2000), 0)


def test_a_controller_with_another_clock(tables: Tables) -> None:
    row = tables.one("slow-clock")
    assert (row["outcome"], row["span"], row["done_at"], row["controllers"]) == ("done", 1, at(8000), [1001, 1002])


def test_lines_that_are_missing_leave_holes(tables: Tables) -> None:
    row = tables.one("holes")
    assert (row["marked_at"], row["queued_at"], row["tombstoned_at"], row["deleted_ms"]) == (None, None, at(5000), None)
    assert (row["outcome"], row["acked_replicas"], row["day"]) == ("open", 2, "2026-01-02")
    assert tables.replicas_of("holes")[0]["ack_ms"] is None


def test_a_topic_that_could_not_be_read(tables: Tables) -> None:
    row = tables.one("unreadable")
    assert (row["topic_id"], row["marked_at"], row["held_ms"], row["replicas"]) == ("id", at(0), 9000, 4)


def test_replicas_of_the_living_topic_are_left_out(tables: Tables) -> None:
    assert tables.replicas_of("moved-away") == []
    assert tables.one("moved-away")["acked_replicas"] == 0


def test_what_was_waited_for(tables: Tables) -> None:
    row = tables.one("waits")
    assert [tuple(wait.values()) for wait in row["waited_for"]] == [
        (61, "broker_to_return", 2, at(10_000), at(20_000), 10_000),
        (62, "log_directory", 2, at(15_000), at(25_000), 10_000),
        (63, "STALE_BROKER_EPOCH", 1, at(40_000), at(42_000), 2000),
        (64, "unreachable", 2, at(50_000), at(51_000), 1000),
    ]
    assert row["waited_ms"] == 15_000 + 2000 + 1000
    refused, fine = tables.replicas_of("waits", 63)
    assert (refused["refused"], refused["last_refusal"], refused["attempts"]) == (1, "STALE_BROKER_EPOCH", 2)
    assert (refused["ineligible_ms"], refused["ack_ms"]) == (2000, 1000)
    assert (fine["refused"], fine["ineligible_ms"], fine["ineligible_since"]) == (0, 0, None)


def test_what_is_waited_for_still(tables: Tables) -> None:
    row = tables.one("away")
    assert [(wait["broker"], wait["reason"], wait["ms"]) for wait in row["waited_for"]] == [
        (65, "broker_to_return", 5000),
        (66, "broker_to_return", None),
    ]
    assert (row["waited_ms"], row["outcome"]) == (None, "open")
    assert {replica["ineligible_ms"] for replica in tables.replicas_of("away", 66)} == {None}


def test_nonsense_is_left_out(tables: Tables) -> None:
    assert [row["partition"] for row in tables.replicas_of("absurd")] == [4, 6, 7]
    row = tables.one("absurd")
    assert (row["acked_replicas"], row["freed_directories"], row["freed_bytes"]) == (3, 0, 0)


def test_names_that_directories_cut(tables: Tables) -> None:
    assert tables.one(LONG)["freed_directories"] == 2
    assert tables.one("m" * 220 + "a")["freed_directories"] == 0
    assert tables.one("m" * 220 + "b")["freed_directories"] == 3
