"""The tables of a recorded run with chaos are those that were looked at and kept, and tell what happened there."""

from __future__ import annotations

from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from tests.pipeline import golden_run, reference, reference_gold
from tests.pipeline.reference import Row

pytestmark = pytest.mark.timeout(600)
NAMES: Final = (
    *("deletion_spans", "replica_deletions", "controller_tenures", "deletion_slo", "slow_brokers"),
    *("daily_reclaim", "stuck_now"),
)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, list[dict[str, Any]]]:
    return golden_run.tables(spark, golden_run.journal_lines())


@pytest.mark.parametrize("name", NAMES)
def test_a_table(tables: dict[str, list[Row]], name: str) -> None:
    assert tables[name] == golden_run.golden(name)


def test_the_golden_tables_are_those_of_plain_python() -> None:
    lines = golden_run.journal_lines()
    found = reference.spans(lines)
    replicas = list(reference.replica_deletions(found))
    spans = list(reference.deletion_spans(found, replicas, lines))
    replicas = reference.without_private(replicas)
    wanted = {
        "deletion_spans": spans,
        "replica_deletions": replicas,
        "controller_tenures": reference_gold.controller_tenures(lines),
        "deletion_slo": reference_gold.deletion_slo(spans),
        "slow_brokers": reference_gold.slow_brokers(replicas),
        "daily_reclaim": reference_gold.daily_reclaim(lines),
    }
    for name, rows in wanted.items():
        assert sorted(map(_plain, rows)) == sorted(map(_plain, golden_run.golden(name))), name


def test_what_the_run_was(tables: dict[str, list[Row]]) -> None:
    """Broker 3 was killed, then controller 1001; 1002 finished what was begun, and no byte is left."""
    spans = tables["deletion_spans"]
    assert len(spans) == golden_run.TOPICS
    assert {span["outcome"] for span in spans} == {"done"}
    assert all(span["acked_replicas"] == span["replicas"] <= span["freed_directories"] for span in spans)
    assert all(span["bytes_gone_at"] is not None for span in spans)
    waited = [span for span in spans if span["waited_for"]]
    assert 0 < len(waited) < len(spans)
    assert {(w["broker"], w["reason"]) for span in waited for w in span["waited_for"]} == {(3, "broker_to_return")}
    assert all(span["controllers"] == [1001, 1002] for span in waited)
    assert all(span["deleted_ms"] > span["waited_ms"] > 1000 for span in waited)
    assert [row["controller"] for row in tables["controller_tenures"]] == [1001, 1002]
    assert {row["remedy"] for row in tables["stuck_now"]} == {
        "start broker 3 with its disks (an empty one with its id only where lethe brokers describe 3 allows it)"
    }
    assert {row["topic"] for row in tables["stuck_now"]} == {span["topic"] for span in waited}


def _plain(row: Row) -> str:
    """Whole and real numbers alike."""
    return repr(
        sorted((key, round(value + 0.0, 6) if type(value) in (int, float) else value) for key, value in row.items())
    )
