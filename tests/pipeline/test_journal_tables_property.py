"""On random journals the tables equal what plain Python makes of the same lines."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql import SparkSession

from pipeline.transforms.replicas import replica_deletions
from pipeline.transforms.span_heads import span_heads
from pipeline.transforms.spans import deletion_spans
from tests.pipeline import reference
from tests.pipeline.histories import History
from tests.pipeline.journals import Line, events, rows_of

EXAMPLES: Final = 150


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    """All examples in one journal: their topics and brokers differ."""
    histories = (History(seed, f"e{seed}", 10 * seed) for seed in range(EXAMPLES))
    return [line for history in histories for line in history.lines()]


def test_spans_and_replicas(spark: SparkSession, lines: list[Line]) -> None:
    bronze = events(spark, lines).cache()
    heads = span_heads(bronze).cache()
    replicas = replica_deletions(bronze, heads).cache()
    wanted = reference.spans(lines)
    wanted_replicas = list(reference.replica_deletions(wanted))
    wanted_spans = list(reference.deletion_spans(wanted, wanted_replicas, lines))
    assert _in_order(rows_of(replicas)) == _in_order(reference.without_private(wanted_replicas))
    assert _in_order(rows_of(deletion_spans(bronze, heads, replicas))) == _in_order(wanted_spans)
    # That the examples are worth something.
    assert len(wanted_spans) > EXAMPLES
    for outcome in ("done", "let go", "open"):
        assert sum(span["outcome"] == outcome for span in wanted_spans) > 10
    assert sum(span["span"] > 1 for span in wanted_spans) > 10
    assert sum(span["bytes_gone_at"] is not None for span in wanted_spans) > 10
    assert {wait["reason"] for span in wanted_spans for wait in span["waited_for"]} >= {
        "broker_to_return",
        "log_directory",
    }


def _in_order(rows: list[reference.Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)
