"""Which of the waiting deletions are stuck at a moment, and for how long they have waited."""

from __future__ import annotations

import datetime
from typing import Any, Final

import pyarrow as pa
import pytest

from lethe.pipeline.report.lake_reader import arrow_schema
from lethe.pipeline.tables import STUCK_NOW, WAITING_DELETIONS
from lethe.pipeline.transforms.stuck_now import stuck_now

NOW: Final = datetime.datetime(2026, 1, 9, 12, tzinfo=datetime.UTC)
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MS: Final = datetime.timedelta(milliseconds=1)
US: Final = datetime.timedelta(microseconds=1)
SCHEMA: Final = arrow_schema(WAITING_DELETIONS.schema)


def waiting(**since: datetime.datetime | None) -> pa.Table:
    """A table with these topics."""
    rows = [{"topic": topic, "span": 1, "since": instant, "brokers": [1, 2]} for topic, instant in since.items()]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def waited(table: pa.Table, now: datetime.datetime = NOW, threshold_ms: int = 1_000) -> dict[str, int | None]:
    found = stuck_now(table, now=now, threshold_ms=threshold_ms)
    return dict(zip(found["topic"].to_pylist(), found["waiting_ms"].to_pylist(), strict=True))


def test_who_has_waited_for_the_threshold_is_stuck() -> None:
    table = waiting(long=NOW - 2_000 * MS, just=NOW - 1_000 * MS, almost=NOW - 999 * MS, later=NOW + 1_000 * MS)
    assert waited(table) == {"long": 2_000, "just": 1_000}
    assert waited(table, NOW + MS) == {"long": 2_001, "just": 1_001, "almost": 1_000}


def test_a_mark_of_unknown_time_is_stuck_at_once() -> None:
    assert waited(waiting(unknown=None, fresh=NOW)) == {"unknown": None}


def test_both_instants_are_rounded_down_to_milliseconds() -> None:
    assert waited(waiting(t=NOW - 2_000 * MS + US)) == {"t": 2_000}
    assert waited(waiting(t=NOW - 2_000 * MS - US)) == {"t": 2_001}
    assert waited(waiting(t=NOW - 2_000 * MS), NOW + 999 * US) == {"t": 2_000}
    assert waited(waiting(t=EPOCH - US), EPOCH, 0) == {"t": 1}, "also before 1970"
    assert waited(waiting(t=EPOCH - MS), EPOCH - US, 0) == {"t": 0}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+05:30"])
def test_zones_make_no_difference(zone: str) -> None:
    table = waiting(t=NOW - 2_000 * MS)
    at = table.schema.get_field_index("since")
    there = table.set_column(at, "since", table["since"].cast(pa.timestamp("us", tz=zone)))
    now = NOW.astimezone(datetime.timezone(datetime.timedelta(hours=-7)))
    assert waited(there, now) == {"t": 2_000}


@pytest.mark.parametrize("since", [{}, {"fresh": NOW}, {"stuck": NOW - 2_000 * MS, "unknown": None}])
def test_the_columns_are_those_of_the_table(since: dict[str, Any]) -> None:
    found = stuck_now(waiting(**since), now=NOW, threshold_ms=1_000)
    assert found.schema.equals(arrow_schema(STUCK_NOW.schema))
