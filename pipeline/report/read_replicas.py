"""Sums up silver `replica_deletions` by deletion and broker, for the deletions that are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lethe.pipeline.report.lake_reader import LakeReader, milliseconds, plain_rows
from lethe.pipeline.report.values import BrokerReplicas, DeletionSpan, SpanKey
from lethe.pipeline.tables import DELETION_SPANS, REPLICA_DELETIONS

_KEY: Final = [*DELETION_SPANS.key, "broker"]
_ORDER: Final = [(name, "ascending") for name in _KEY]
_COLUMNS: Final = [*_KEY, "acked_at", "attempts", "refused", "last_refusal"]
_SUMS: Final = (
    ("replicas", "sum"),
    ("acked", "sum"),
    ("last_ack_at", "max"),
    ("attempts", "max"),
    ("refused", "sum"),
    ("last_refusal", "max"),
)
"""Fields of BrokerReplicas, and how those of two parts become one. Of several refusals the last by name counts, so that
the page does not depend on the order of rows."""


def read_brokers(
    lake: LakeReader, where: Any, spans: Sequence[DeletionSpan]
) -> dict[SpanKey, tuple[BrokerReplicas, ...]]:
    """Return what each broker had to delete of these spans, by broker. `where` is the filter on days: replicas have the
    day of their span."""
    wanted = _keys(spans)
    parts = [_summed(_of(batch, wanted)) for batch in lake.batches(REPLICA_DELETIONS, _COLUMNS, where)]
    if not parts:
        return {}
    found: dict[SpanKey, list[BrokerReplicas]] = {}
    known = _summed(pa.concat_tables(parts)).sort_by(_ORDER)
    for topic, topic_id, span, *rest in plain_rows(known, (*_KEY, *(name for name, _ in _SUMS))):
        found.setdefault((topic, topic_id or None, span), []).append(BrokerReplicas(*rest))
    return {key: tuple(rows) for key, rows in found.items()}


def _keys(spans: Sequence[DeletionSpan]) -> pa.Table:
    """Return the keys to join with; a join never matches null, so an absent id is empty."""
    return pa.table(
        {
            "topic": pa.array([span.topic for span in spans], pa.string()),
            "topic_id": pa.array([span.topic_id or "" for span in spans], pa.string()),
            "span": pa.array([span.span for span in spans], pa.int32()),
        }
    )


def _of(batch: pa.Table, wanted: pa.Table) -> pa.Table:
    """Return one row per replica of the wanted spans, as a sum of one."""
    has_id = batch.set_column(1, "topic_id", pc.fill_null(batch.column("topic_id"), ""))
    rows = has_id.join(wanted, list(DELETION_SPANS.key), join_type="left semi")
    return pa.table(
        {
            **{name: rows.column(name) for name in _KEY},
            "replicas": pa.repeat(1, len(rows)),
            "acked": pc.cast(pc.is_valid(rows.column("acked_at")), pa.int64()),
            "last_ack_at": milliseconds(rows.column("acked_at")),
            "attempts": pc.fill_null(rows.column("attempts"), 0),
            "refused": pc.fill_null(rows.column("refused"), 0),
            "last_refusal": rows.column("last_refusal"),
        }
    )


def _summed(rows: pa.Table) -> pa.Table:
    """Return one row for each span and broker."""
    found = rows.group_by(_KEY).aggregate(list(_SUMS))
    return found.rename_columns({f"{name}_{how}": name for name, how in _SUMS})
