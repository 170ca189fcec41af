"""Topics that somebody else removed from ZooKeeper while they were being deleted: an end of its own, in every table."""

from __future__ import annotations

import datetime
from typing import Any, Final, NamedTuple

import pytest
from pyspark.sql import SparkSession

from lethe.controller.core.deletion_memory import DISABLED, NO_SUCH_TOPIC
from lethe.pipeline.transforms.replicas import replica_deletions
from lethe.pipeline.transforms.slo import deletion_slo
from lethe.pipeline.transforms.span_heads import span_heads
from lethe.pipeline.transforms.spans import deletion_spans
from lethe.pipeline.transforms.tenures import controller_tenures
from lethe.protocol.journal import time_to_text
from tests.pipeline.journals import START, Journal, events, rows_of, stuck_table

Row = dict[str, Any]
WHOLE: Final = ("queued", "started", "tombstoned", "acknowledged", "removed", "done")
DAY_MS: Final = 86_400_000
NOW: Final = datetime.datetime.fromtimestamp((START + 2 * DAY_MS) / 1000, datetime.UTC)
STARTED, INELIGIBLE = "DELETION_STARTED", "DELETION_INELIGIBLE"
pytestmark = pytest.mark.timeout(600)


def at(ms: int) -> str:
    return time_to_text(START + ms)


def _with_ids(journal: Journal) -> None:
    """While a broker was away; later the name came back, and was deleted."""
    journal.phases(0, "gone", ("queued", "started"), "id0")
    journal.broker(500, 71, "failed")
    journal.moved(1000, "gone", 71, INELIGIBLE, topic_id="id0")
    journal.answered(2000, "gone", 1, topic_id="id0")
    journal.phase(9000, "gone", "vanished", "id0")
    journal.freed(62_000, "gone", 1, "id0")
    journal.phases(DAY_MS, "gone", WHOLE, "id1")


def _without_ids(journal: Journal) -> None:
    journal.phases(0, "nameless", ("queued", "started", "vanished"))
    journal.moved(1000, "nameless", 1, STARTED)
    # Replicas of the next topic of that name, which were moved away.
    journal.moved(20_000, "nameless", 1, INELIGIBLE)
    journal.phases(200_000, "nameless", WHOLE)


def _held(journal: Journal) -> None:
    journal.phase(0, "held", "held", "id", held_by="PAUSED")
    journal.phase(3000, "held", "vanished", "id")


def _put_back(journal: Journal) -> None:
    """With its znodes, and so with the id that it had."""
    journal.phases(0, "put-back", ("queued", "vanished"), "id")
    journal.phases(20_000, "put-back", ("queued", "started"), "id")


def _unreadable(journal: Journal) -> None:
    """The second controller cannot read which incarnation it is; what it holds later is another one."""
    journal.phases(0, "blind", ("queued", "started"), "id0")
    journal.phase(5000, "blind", "held", None, by=1002, held_by="UNREADABLE")
    journal.phase(9000, "blind", "vanished", None, by=1002)
    journal.phase(20_000, "blind", "held", None, by=1002, held_by="UNREADABLE")
    journal.phase(21_000, "blind", "vanished", None, by=1002)
    journal.phases(30_000, "blind", WHOLE, "id1", by=1002)
    journal.phase(40_000, "blind", "held", None, by=1002, held_by="UNREADABLE")
    journal.phase(41_000, "blind", "vanished", None, by=1002)


def _slow_clock(journal: Journal) -> None:
    """The clock of who took over is 3 s behind: what the first one wrote seems to come after the end."""
    journal.phases(3000, "slow-clock", ("queued", "started"), "id")
    journal.phases(500, "slow-clock", ("queued", "vanished"), "id", by=1002)
    # Days later somebody has put the topic back.
    journal.phases(DAY_MS, "slow-clock", ("queued", "started"), "id")


def _put_back_at_once(journal: Journal) -> None:
    """One controller has one clock; and what comes later than clocks may differ comes later."""
    journal.phases(0, "at-once", ("queued", "vanished", "queued"), "id")
    journal.phases(0, "too-late", ("queued", "vanished"), "id")
    journal.phase(6001, "too-late", "queued", "id", by=1002)
    journal.phases(0, "let-go", ("held", "let go"), "id")
    journal.phase(2000, "let-go", "queued", "id", by=1002)


def _refused(journal: Journal) -> None:
    """The first controller was killed, and the second one does not want to. The first one's clock is ahead."""
    for topic, why in (("disabled", DISABLED), ("no-topic", NO_SUCH_TOPIC), ("other-why", "no reason")):
        journal.phases(0, topic, ("queued", "started"), "id")
        journal.refused(5000, topic, why, by=1002)
        journal.refused(5500, topic, why, by=1002)
        journal.phase(6000, topic, "tombstoned", "id")
    journal.phase(9_000, "disabled", "queued", "id", by=1002)
    journal.phases(0, "id-less", ("queued", "started"))
    journal.refused(5000, "id-less", DISABLED, by=1002)
    journal.refused(0, "never", DISABLED)
    # Who had held it writes both, in this order.
    journal.phase(0, "held-then", "held", "id", held_by="PAUSED")
    journal.refused(3000, "held-then", DISABLED)
    journal.phase(3000, "held-then", "let go", "id")
    journal.phases(0, "was-done", WHOLE, "id")
    journal.refused(10_000, "was-done", NO_SUCH_TOPIC, by=1002)
    journal.phases(0, "marked-only", ("queued",), "id")
    journal.refused(5000, "marked-only", DISABLED, by=1002, what="removing its deletion marker")


def _unread(journal: Journal) -> None:
    """The second controller cannot read the znode of what the first one has begun, and deletes it when told to."""
    journal.phases(0, "unread", ("queued", "started"), "id0")
    journal.moved(1500, "unread", 1, STARTED, topic_id="id0")
    for at in (5000, 50_000):
        journal.phase(at, "unread", "held", None, by=1002, held_by="UNREADABLE")
        for number, phase in enumerate(WHOLE, 1):
            journal.phase(at + 1000 * number, "unread", phase, None, by=1002, partitions=9)
    journal.phases(0, "unread-let-go", ("queued", "started"), "id0")
    journal.phase(5000, "unread-let-go", "held", None, by=1002, held_by="UNREADABLE")
    journal.phase(7000, "unread-let-go", "let go", None, by=1002)
    journal.phases(0, "unread-again", WHOLE, "id0")
    journal.phases(20_000, "unread-again", WHOLE, None, by=1002)


class Tables(NamedTuple):
    spans: list[Row]
    replicas: list[Row]
    slo: list[Row]
    stuck: list[Row]

    def of(self, topic: str) -> list[Row]:
        return sorted((row for row in self.spans if row["topic"] == topic), key=lambda row: row["marked_at"])

    def replicas_of(self, topic: str) -> list[Row]:
        return [row for row in self.replicas if row["topic"] == topic]


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    journal = Journal()
    for case in (
        _with_ids,
        _without_ids,
        _held,
        _put_back,
        _unreadable,
        _slow_clock,
        _put_back_at_once,
        _refused,
        _unread,
    ):
        case(journal)
    bronze = events(spark, reversed(journal.lines)).cache()
    heads = span_heads(bronze).cache()
    replicas = replica_deletions(bronze, heads).cache()
    spans = deletion_spans(bronze, heads, replicas).cache()
    stuck = stuck_table(spans, replicas, controller_tenures(bronze), now=NOW)
    made = Tables(rows_of(spans), rows_of(replicas), rows_of(deletion_slo(spans)), rows_of(stuck))
    for frame in (bronze, heads, replicas, spans):
        frame.unpersist()
    return made


def test_the_deletion_ends_when_it_is_told(tables: Tables) -> None:
    row, again = tables.of("gone")
    assert (row["topic_id"], row["outcome"], row["phase"]) == ("id0", "vanished", "vanished")
    assert (row["vanished_at"], row["last_at"], row["done_at"]) == (at(9000), at(9000), None)
    assert (row["deleted_ms"], row["bytes_gone_at"], row["reclaimed_ms"]) == (None, None, None)
    assert (row["acked_replicas"], row["freed_directories"]) == (2, 2)
    assert (again["topic_id"], again["span"], again["outcome"], again["vanished_at"]) == ("id1", 1, "done", None)


def test_it_waits_for_nobody_any_more(tables: Tables) -> None:
    row, _ = tables.of("gone")
    assert [(wait["broker"], wait["until"], wait["ms"]) for wait in row["waited_for"]] == [(71, at(9000), 8000)]
    assert row["waited_ms"] == 8000
    (held,) = tables.of("held")
    assert (held["outcome"], held["held_ms"], held["held"][0]["until"]) == ("vanished", 3000, at(3000))


def test_without_ids_a_name_that_comes_back_is_the_next_deletion(tables: Tables) -> None:
    row, again = tables.of("nameless")
    assert (row["span"], row["outcome"], row["vanished_at"]) == (1, "vanished", at(2000))
    assert (again["span"], again["outcome"], again["marked_at"]) == (2, "done", at(200_000))
    assert [replica["ineligible_since"] for replica in tables.replicas_of("nameless")] == [None, None]


def test_put_back_and_marked_again_is_the_next_deletion(tables: Tables) -> None:
    assert [(row["span"], row["outcome"]) for row in tables.of("put-back")] == [(1, "vanished"), (2, "open")]


def test_what_a_fast_clock_wrote_before_the_end_is_of_the_same_deletion(tables: Tables) -> None:
    row, again = tables.of("slow-clock")
    assert (row["span"], row["outcome"], row["vanished_at"], row["marked_at"]) == (1, "vanished", at(1500), at(500))
    assert (row["started_at"], row["controllers"]) == (at(4000), [1001, 1002])
    assert (again["span"], again["outcome"], again["marked_at"]) == (2, "open", at(DAY_MS))


@pytest.mark.parametrize("topic", ["at-once", "too-late", "let-go"])
def test_what_came_after_the_end_is_the_next_deletion(tables: Tables, topic: str) -> None:
    _, again = tables.of(topic)
    assert (again["span"], again["outcome"], again["phase"]) == (2, "open", "queued")


def test_a_topic_that_nobody_could_read_by_then(tables: Tables) -> None:
    rows = tables.of("blind")
    assert [(row["topic_id"], row["span"], row["outcome"], row["marked_at"]) for row in rows] == [
        ("id0", 1, "vanished", at(0)),
        (None, 1, "vanished", at(20_000)),
        ("id1", 1, "done", at(30_000)),
        (None, 2, "vanished", at(40_000)),
    ]
    assert [row["vanished_at"] for row in rows] == [at(9000), at(21_000), None, at(41_000)]


def test_a_controller_that_took_over_refuses_what_had_begun(tables: Tables) -> None:
    row, again = tables.of("disabled")
    assert (row["outcome"], row["let_go_at"], row["controllers"]) == ("let go", at(5000), [1001, 1002])
    assert row["tombstoned_at"] == at(6000), "before the end, by the clock of who was killed"
    assert (again["span"], again["outcome"], again["marked_at"]) == (2, "open", at(9000))
    (row,) = tables.of("no-topic")
    assert (row["topic_id"], row["outcome"], row["vanished_at"]) == ("id", "vanished", at(5000))
    (row,) = tables.of("id-less")
    assert (row["outcome"], row["let_go_at"]) == ("let go", at(5000))


def test_a_refusal_ends_nothing_else(tables: Tables) -> None:
    assert tables.of("never") == []
    (held,) = tables.of("held-then")
    assert (held["span"], held["outcome"], held["let_go_at"], held["held_ms"]) == (1, "let go", at(3000), 3000)
    ((done,), (other,), (marked,)) = map(tables.of, ("was-done", "other-why", "marked-only"))
    assert (done["outcome"], done["vanished_at"], other["outcome"], marked["outcome"]) == ("done", None, "open", "open")


def test_a_topic_whose_id_nobody_could_read_any_more(tables: Tables) -> None:
    named, first, second = tables.of("unread")
    assert (named["topic_id"], named["outcome"], named["vanished_at"]) == ("id0", "vanished", at(11_000))
    assert (named["span"], named["held"], named["partitions"], named["controllers"]) == (1, [], 2, [1001, 1002])
    assert named["last_line"] == first["done_line"], "which says so"
    assert [(row["topic_id"], row["outcome"]) for row in (first, second)] == [(None, "done")] * 2
    (row,) = tables.of("unread-let-go")
    assert (row["topic_id"], row["outcome"], row["let_go_at"]) == ("id0", "let go", at(7000))
    assert [hold["held_by"] for hold in row["held"]] == ["UNREADABLE"]
    named, unnamed = tables.of("unread-again")
    assert (named["outcome"], named["vanished_at"], unnamed["outcome"]) == ("done", None, "done")


def test_it_is_neither_a_success_nor_stuck(tables: Tables) -> None:
    (all_,) = (row for row in tables.slo if (row["day"], row["size_class"]) == ("2026-01-02", "all"))
    assert [all_[name] for name in ("deletions", "done", "let_go", "vanished", "open")] == [31, 7, 5, 12, 7]
    assert (all_["deleted_max_ms"], all_["reclaimed"]) == (6000, 0)
    open_again = ("at-once", "disabled", "let-go", "put-back", "slow-clock", "too-late")
    still = (("marked-only", 1), ("other-why", 1))
    assert {(row["topic"], row["span"]) for row in tables.stuck} == {*((topic, 2) for topic in open_again), *still}
    assert len(tables.stuck) == len(open_again) + len(still)
