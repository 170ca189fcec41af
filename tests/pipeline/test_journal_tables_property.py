"""On random journals the tables equal what plain Python makes of the same lines."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from lethe.pipeline import schemas, schemas_debts
from lethe.pipeline.io.frames import empty
from lethe.pipeline.transforms.debts import debts
from lethe.pipeline.transforms.owed import owed_by_broker
from lethe.pipeline.transforms.reclaim import daily_reclaim
from lethe.pipeline.transforms.replicas import replica_deletions
from lethe.pipeline.transforms.slo import deletion_slo
from lethe.pipeline.transforms.slow_brokers import slow_brokers
from lethe.pipeline.transforms.span_heads import span_heads
from lethe.pipeline.transforms.spans import deletion_spans
from lethe.pipeline.transforms.tenures import controller_tenures
from lethe.pipeline.transforms.trash import trash_stays
from lethe.protocol.causes import CauseKind, sentence
from tests.pipeline import reference, reference_debts, reference_gold, reference_stuck
from tests.pipeline.histories import History
from tests.pipeline.journals import Line, events, rows_of, stuck_table
from tests.pipeline.reference import Row

EXAMPLES: Final = 80
BY_BROKER: Final = "waits for broker "
pytestmark = pytest.mark.timeout(600)


class Made(NamedTuple):
    """By Spark and by plain Python, of the same lines."""

    lines: list[Line]
    bronze: DataFrame
    replicas: DataFrame
    debts: DataFrame
    spans: DataFrame
    wanted: list[reference.Span]
    wanted_replicas: list[Row]
    wanted_debts: list[Row]
    wanted_spans: list[Row]


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> Iterator[Made]:
    """All examples in one journal: their topics, brokers and controllers differ."""
    lines = [line for seed in range(EXAMPLES) for line in History(seed, f"e{seed}", 10 * seed).lines()]
    bronze = events(spark, lines).cache()
    heads = span_heads(bronze).cache()
    replicas = replica_deletions(bronze, heads).cache()
    owed = debts(bronze, heads).cache()
    spans = deletion_spans(bronze, heads, replicas, owed).cache()
    wanted = reference.spans(lines)
    wanted_replicas = list(reference.replica_deletions(wanted))
    wanted_debts = list(reference_debts.debts(lines, wanted))
    wanted_spans = list(reference.deletion_spans(wanted, wanted_replicas, lines, wanted_debts))
    replicas_told = reference.without_private(wanted_replicas)
    yield Made(lines, bronze, replicas, owed, spans, wanted, replicas_told, wanted_debts, wanted_spans)
    for frame in (bronze, heads, replicas, owed, spans):
        frame.unpersist()


def test_spans(made: Made) -> None:
    assert _in_order(rows_of(made.spans)) == _in_order(made.wanted_spans)
    assert made.spans.columns == schemas.DELETION_SPANS.names


def test_replicas(made: Made) -> None:
    assert _in_order(rows_of(made.replicas)) == _in_order(made.wanted_replicas)
    assert made.replicas.columns == schemas.REPLICA_DELETIONS.names


def test_debts(made: Made, spark: SparkSession) -> None:
    assert _in_order(rows_of(made.debts)) == _in_order(made.wanted_debts)
    assert made.debts.columns == schemas_debts.DEBTS.names
    owed = owed_by_broker(made.debts, empty(spark, schemas.AGENT_INVENTORY))
    assert _in_order(rows_of(owed)) == _in_order(reference_debts.owed_by_broker(made.wanted_debts))
    assert owed.columns == schemas_debts.OWED_BY_BROKER.names
    assert {debt["how"] for debt in made.wanted_debts} == {None, "paid", "void", "written off"}
    spans = [span for span in made.wanted_spans if span["owed_replicas"]]
    assert sum(span["settled_at"] is None for span in spans) > 5 < sum(span["settled_at"] is not None for span in spans)
    assert sum(span["bytes_gone_at"] is not None for span in spans) > 1


def test_trash(made: Made) -> None:
    stays = trash_stays(made.bronze)
    wanted = list(reference_debts.trash_stays(made.lines))
    assert _in_order(rows_of(stays)) == _in_order(wanted)
    assert stays.columns == schemas_debts.TRASH.names
    assert {stay["how"] for stay in wanted} == {None, "back", "expired", "purged", "gave way", "deleted"}


def test_slo(made: Made) -> None:
    slo = deletion_slo(made.spans)
    assert _in_order(rows_of(slo)) == _in_order(reference_gold.deletion_slo(made.wanted_spans))
    assert slo.columns == schemas.DELETION_SLO.names


def test_slow_brokers(made: Made) -> None:
    slow = slow_brokers(made.replicas)
    assert _in_order(rows_of(slow)) == _in_order(reference_gold.slow_brokers(made.wanted_replicas))
    assert slow.columns == schemas.SLOW_BROKERS.names


def test_stuck(made: Made) -> None:
    now = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
    rows = rows_of(stuck_table(made.spans, made.replicas, controller_tenures(made.bronze), now=now))
    found = {
        (row["topic"], row["topic_id"], row["span"]): {why for why in row["reasons"] if why.startswith(BY_BROKER)}
        for row in rows
    }
    wanted = reference_stuck.waited_for(made.wanted, made.lines)
    assert found == {key: wanted[key] for key in found}
    assert {key for key, why in wanted.items() if why} <= found.keys()
    told = reference_stuck.last_told(made.lines)
    back = {f"{BY_BROKER}{broker}, which is not reg" for broker, (_, what) in told.items() if what == "started"}
    assert not [why for row in rows for why in row["reasons"] if why.startswith(tuple(back))]
    said = [why.partition(",")[2] for each in wanted.values() for why in each]
    assert len(set(said)) >= 6, "each cause"
    assert len([each for each in wanted.values() if each]) > 20
    (is_paused,) = {sentence(CauseKind.RESUMPTION, "") in row["reasons"] for row in rows if row["phase"] != "held"}
    assert is_paused == reference_stuck.is_paused(reference_gold.controller_tenures(made.lines))


def test_reclaim(made: Made) -> None:
    reclaim = daily_reclaim(made.bronze)
    assert _in_order(rows_of(reclaim)) == _in_order(reference_gold.daily_reclaim(made.lines))
    assert reclaim.columns == schemas.DAILY_RECLAIM.names


def test_tenures(made: Made) -> None:
    tenures = controller_tenures(made.bronze)
    assert _in_order(rows_of(tenures)) == _in_order(reference_gold.controller_tenures(made.lines))
    assert tenures.columns == schemas.CONTROLLER_TENURES.names


def test_the_examples_are_worth_something(made: Made) -> None:
    spans = made.wanted_spans
    for outcome in ("done", "let go", "vanished", "open"):
        assert sum(span["outcome"] == outcome for span in spans) > 10
    assert sum(span["span"] > 1 for span in spans) > 10
    assert sum(span["bytes_gone_at"] is not None for span in spans) > 10
    assert sum(len(span["controllers"]) > 1 for span in spans) > 10
    assert sum(len(span["held"]) > 1 for span in spans) > 10
    last = {span["last_line"] for span in spans if span["outcome"] in ("let go", "vanished")}
    assert sum(line.type == "refusal" and f"{line.source} {line.id}" in last for line in made.lines) > 5
    assert sum(line.type == "refusal" for line in made.lines) > 20, "others that end nothing"
    done = {span["done_line"] for span in spans if span["topic_id"] is None}
    assert len(done & {span["last_line"] for span in spans if span["outcome"] == "vanished"}) > 2, "unread"
    assert sum(any(at > end for at, _ in span.lines) for span, end in _vanished(made)) > 2, "by another clock"
    assert len({span["day"] for span in spans}) > 1
    paused = [row["paused_at"] for row in reference_gold.controller_tenures(made.lines)]
    assert paused.count(None) > 10 < len(paused) - paused.count(None)
    reasons = {wait["reason"] for span in spans for wait in span["waited_for"]}
    assert reasons >= {"broker_to_return", "log_directory", "unreachable", "asked", "KAFKA_STORAGE_ERROR"}


def _vanished(made: Made) -> list[tuple[reference.Span, int]]:
    """With an id, and when they did."""
    return [(span, span.first["vanished"]) for span in made.wanted if span.topic_id and "vanished" in span.first]


def _in_order(rows: Iterable[Row]) -> list[str]:
    """As texts, numbers with a fraction to six places."""
    rounded = ({key: round(v, 6) if isinstance(v, float) else v for key, v in row.items()} for row in rows)
    return sorted(
        repr(sorted((key, v + 0.0 if type(v) is int and "_p" in key else v) for key, v in row.items()))
        for row in rounded
    )
