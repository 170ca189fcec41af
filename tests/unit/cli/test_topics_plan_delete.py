"""`lethe topics plan-delete`: what it says of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.admin.deletion_plan import PlannedPartition, PlannedTopic, TopicDeletionPlan
from lethe.cli.topics_plan_delete import plan_answer


def plan(*partitions: PlannedPartition, last_write_ms: int | None = None) -> TopicDeletionPlan:
    topic = PlannedTopic("orders", None, 7, partitions, 10, last_write_ms, (), (), ())
    return TopicDeletionPlan(None, 5, (1,), (topic,), (), (), ())


@pytest.mark.parametrize(
    "partition, last_write_ms, shown",
    [
        (PlannedPartition(0, (1,), 0, 5), 1_000, "1970-01-01T00:00:01"),
        (PlannedPartition(0, (1,), 0, 5), None, "unseen"),
        (PlannedPartition(0, (1,), None, None), None, "unseen"),
        (PlannedPartition(0, (1,), 5, 5), None, "no records"),
    ],
)
def test_a_last_write_that_is_not_known_is_not_none(
    partition: PlannedPartition, last_write_ms: int | None, shown: str
) -> None:
    answer = plan_answer(plan(partition, last_write_ms=last_write_ms), None)
    (table,) = answer.tables
    assert table.rows[0][table.columns.index("last write")] == shown


def test_the_command_quotes_the_file() -> None:
    answer = plan_answer(plan(PlannedPartition(0, (1,), 0, 5)), Path("my $(plan).json"))
    assert answer.lines[-1] == "To carry it out: lethe topics delete --plan 'my $(plan).json'"
