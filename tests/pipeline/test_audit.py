"""The audit finds what is planted, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from lethe.controller.core.transitions import PARTITION_TRANSITIONS, REPLICA_TRANSITIONS
from lethe.pipeline import schemas
from lethe.pipeline.io.frames import frame_of
from lethe.pipeline.quality.rules import RULES, audit, count_violations, shared_frames
from lethe.pipeline.quality.transitions import legal_transitions
from tests.pipeline.planted import planted

Found = Mapping[str, list[dict[str, Any]]]

EXPECTED: Final[Mapping[str, tuple[str, ...]]] = {
    "legal-transition": ("topic/jumps", "topic/unheard-of"),
    "continuous-states": (
        "partition/half-moved-0",
        "replica/answered-early-1 on 2",
        "replica/begins-late-0 on 1",
        "replica/never-gone-0 on 1",
        "replica/never-gone-1 on 1",
        "replica/only-its-own-0 on 7",
        "replica/torn-1 on 1",
    ),
    "sane-partitions": ("topic/falling", "topic/falling-older", "topic/vast", "topic/vast-brokers"),
    "rising-epochs": ("controller/2013", "controller/2014"),
    "one-controller": ("controller/2011",),
    "fenced-writes": ("controller/2011",),
    "newest-controller": ("broker/21",),
    "one-outcome": ("topic/past-its-end", "topic/twice", "topic/undead"),
    "some-outcome": ("topic/gone-without-a-word",),
    "owed-before-gone": ("topic/owed-late", "topic/owed-unwritten"),
    "closed-once": ("topic/closed-again",),
    "all-acknowledged": ("topic/owes-too-little", "topic/too-few-on-a-controller", "topic/unacknowledged"),
    "rising-times": ("topic/backwards",),
    "own-topic-id": ("topic/seen", "topic/that"),
    "freed-as-seen": ("topic/freed-less on 31",),
    "freed-as-seen-in-service": ("topic/grown on 31",),
    "own-directory": ("directory/data/a",),
    "no-line-lost": ("broker/51", "broker/53", "broker/55"),
    "no-gap": ("broker/52", "broker/54", "broker/55", "controller/2002", "controller/2005"),
    "known-form": ("broker/61", "broker/61", "broker/62", "topic/wrong-subject"),
}


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    """The violations in the planted journal, by rule."""
    evidence = planted().evidence(spark)
    with shared_frames(evidence) as shared:
        violations = audit(evidence, shared)
        assert violations.schema.fieldNames() == schemas.VIOLATIONS.fieldNames()
        rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in violations.collect():
            rows[row["rule"]].append(row.asDict())
    return rows


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_each_rule_finds_what_is_planted_and_nothing_else(found: Found, rule: str) -> None:
    subjects = sorted(row["subject"] for row in found.get(rule, ()))
    assert subjects == sorted(EXPECTED[rule]), "\n".join(f"{row['subject']}: {row['detail']}" for row in found[rule])


def test_a_violation_says_what_was_found_when_and_by_which_lines(found: Found) -> None:
    (torn,) = (row for row in found["continuous-states"] if row["subject"].startswith("replica/torn"))
    assert torn["detail"] == "left in OFFLINE, and goes on from DELETION_INELIGIBLE"
    assert len(torn["event_ids"]) == 2
    assert torn["event_ids"][0].startswith("/lethe/controller/2001 19b1f2c3a4b-")
    assert torn["severity"] == "error"
    assert torn["day"] == torn["time"].date()


def test_equal_lines_of_one_moment_are_one_violation(found: Found) -> None:
    (row,) = (row for row in found["known-form"] if row["subject"] == "broker/62")
    assert row["event_ids"] == [f"/lethe/broker/62 19b1f2c3a4b-{number}" for number in (1, 2)]


def test_every_violation_has_what_the_table_needs(found: Found) -> None:
    for row in (row for rows in found.values() for row in rows):
        assert None not in row.values(), row


def test_the_verdict_counts_errors_and_warnings(spark: SparkSession) -> None:
    rows: list[tuple[object, ...]] = [
        (rule, severity, "s", None, "d", [], None) for rule, severity in (("a", "error"), ("b", "warning"))
    ]
    both = count_violations(frame_of(spark, schemas.VIOLATIONS, [*rows, rows[1]]))
    assert (both.errors, both.warnings) == (1, 2)
    warned = count_violations(frame_of(spark, schemas.VIOLATIONS, rows[1:]))
    assert (warned.errors, warned.warnings) == (0, 1)


def test_what_is_legal_is_what_the_controller_says() -> None:
    legal = legal_transitions()
    assert len(legal) == sum(map(len, (*REPLICA_TRANSITIONS.values(), *PARTITION_TRANSITIONS.values())))
    assert "replica DELETION_STARTED DELETION_SUCCESSFUL" in legal
    assert "partition NON_EXISTENT ONLINE" not in legal
