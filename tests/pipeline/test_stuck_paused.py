"""While deletions are paused, what had been queued before waits for their resumption like what is held."""

from __future__ import annotations

import datetime
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from lethe.pipeline.transforms.replicas import replica_deletions
from lethe.pipeline.transforms.span_heads import span_heads
from lethe.pipeline.transforms.spans import deletion_spans
from lethe.pipeline.transforms.tenures import controller_tenures
from lethe.protocol.causes import CauseKind, remedy, sentence
from tests.pipeline.journals import START, Journal, events, rows_of, stuck_table

pytestmark = pytest.mark.timeout(600)
NOW: Final = datetime.datetime.fromtimestamp((START + 3_600_000) / 1000, datetime.UTC)
PAUSED: Final = "waits for deletions to be resumed: they are paused"
ASKED: Final = "waits for broker 2, which has been asked and has not answered"
TOMBSTONE: Final = "waits for a broker to confirm that its metadata cache has dropped the topic"
NOT_RECORDED: Final = "is being deleted, and the journal does not say what it waits for"
ZNODES: Final = "waits for the controller to remove its znodes"
RESUME: Final = "lethe topics resume-deletions"


def _deletions() -> Journal:
    journal = Journal()
    journal.phases(0, "begun", ("queued", "started"), "id")
    journal.phases(0, "asked", ("queued", "started"), "id")
    journal.moved(1500, "asked", 2, "DELETION_STARTED")
    journal.phases(0, "tombstone", ("queued", "started", "acknowledged"), "id")
    journal.phases(0, "znodes", ("queued", "started", "tombstoned", "acknowledged"), "id")
    journal.phase(95_000, "held", "held", "id", held_by="PAUSED")
    journal.phases(0, "done", ("queued", "started", "tombstoned", "acknowledged", "removed", "done"), "id")
    return journal


@pytest.mark.slow
@pytest.mark.long
def test_a_pause_holds_what_was_queued_before_it(spark: SparkSession) -> None:
    bronze = events(spark, _deletions().lines)
    heads = span_heads(bronze).cache()
    replicas = replica_deletions(bronze, heads).cache()
    spans = deletion_spans(bronze, heads, replicas).cache()
    journal = Journal()

    def stuck() -> dict[str, tuple[Any, ...]]:
        tenures = controller_tenures(events(spark, reversed(journal.lines)))
        rows = rows_of(stuck_table(spans, replicas, tenures, now=NOW))
        return {row["topic"]: (*row["reasons"], row["remedy"]) for row in rows}

    # The second finds the pause while it loads; the clock of the first is ahead.
    journal.election(0, 1001, "elected", 1)
    journal.election(1000, 1001, "active", 1)
    journal.pause(100_000, 1001, "deletions go on")
    journal.election(90_000, 1002, "elected", 2)
    journal.pause(90_100, 1002)
    journal.election(91_000, 1002, "active", 2)
    # Nobody knows yet what the one finds that has just been elected.
    journal.election(110_000, 1003, "elected", 3)
    assert stuck() == {
        "begun": (PAUSED, RESUME),
        "asked": (PAUSED, ASKED, RESUME),
        "tombstone": (PAUSED, TOMBSTONE, RESUME),
        "znodes": (PAUSED, RESUME),
        "held": (PAUSED, RESUME),
    }
    going_on = {
        "begun": (NOT_RECORDED, remedy(CauseKind.NOT_RECORDED, "begun")),
        "asked": (ASKED, remedy(CauseKind.ANSWER, "asked")),
        "tombstone": (TOMBSTONE, "lethe explain tombstone"),
        "znodes": (ZNODES, remedy(CauseKind.ZNODES, "znodes")),
        "held": (PAUSED, RESUME),
    }
    journal.election(111_000, 1003, "active", 3)
    assert stuck() == going_on
    journal.pause(120_000, 1003)
    assert stuck()["begun"] == (PAUSED, RESUME)
    # The pause that the controller holds itself is told apart from one that somebody has ordered.
    journal.pause(125_000, 1003, held_by="CONFIGURATION")
    own = sentence(CauseKind.CONFIGURATION, ""), remedy(CauseKind.CONFIGURATION, "")
    assert stuck()["begun"] == own
    assert stuck()["znodes"] == own
    journal.pause(130_000, 1003, "deletions go on")
    assert stuck() == going_on
    journal.lines.pop()
    journal.election(130_000, 1003, "resigned", 3)
    assert stuck() == going_on
    for frame in (spans, replicas, heads):
        frame.unpersist()
