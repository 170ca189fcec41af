"""Replicas by deletion and broker, of the deletions that are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lethe.pipeline import tables
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.report.read_spans import read_deletions
from lethe.pipeline.report.values import BrokerReplicas
from tests.fakes.lakes import at, day_of, write
from tests.fakes.report_lake import BEGAN_MS, span


def replica(number: int, broker: int, partition: int, acked_ms: int | None = None, **further: Any) -> dict[str, Any]:
    key = {"topic": f"demo-{number:04d}", "topic_id": f"id-{number:06d}", "span": 1, "day": day_of(BEGAN_MS)}
    acked = None if acked_ms is None else at(BEGAN_MS + acked_ms)
    return {**key, "broker": broker, "partition": partition, "acked_at": acked, "attempts": 1, "refused": 0, **further}


def test_each_broker_of_a_deletion_is_summed_up(tmp_path: Path) -> None:
    write(tmp_path, tables.DELETION_SPANS, [span(1, BEGAN_MS), span(2, BEGAN_MS)])
    write(tmp_path, tables.REPLICA_DELETIONS, [replica(1, 2, 0, 40), replica(1, 1, 0, 30), replica(2, 1, 0)])
    again = replica(1, 2, 1, attempts=3, refused=2, last_refusal="KAFKA_STORAGE_ERROR")
    write(tmp_path, tables.REPLICA_DELETIONS, [replica(1, 1, 1, 90), again], more=True)
    found = read_deletions(LakeReader(str(tmp_path)), None).brokers
    assert found == {
        ("demo-0001", "id-000001", 1): (
            BrokerReplicas(1, 2, 2, BEGAN_MS + 90, 1, 0, None),
            BrokerReplicas(2, 2, 1, BEGAN_MS + 40, 3, 2, "KAFKA_STORAGE_ERROR"),
        ),
        ("demo-0002", "id-000002", 1): (BrokerReplicas(1, 1, 0, None, 1, 0, None),),
    }


def test_topics_without_ids_have_their_replicas_and_deletions_that_are_not_shown_have_none(tmp_path: Path) -> None:
    write(tmp_path, tables.DELETION_SPANS, [span(1, BEGAN_MS) | {"topic_id": None}])
    rows = [replica(1, 1, 0, 30, topic_id=None), replica(1, 1, 0, 30, topic_id=None, span=2), replica(2, 1, 0, 30)]
    write(tmp_path, tables.REPLICA_DELETIONS, rows)
    found = read_deletions(LakeReader(str(tmp_path)), None).brokers
    assert found == {("demo-0001", None, 1): (BrokerReplicas(1, 1, 1, BEGAN_MS + 30, 1, 0, None),)}
