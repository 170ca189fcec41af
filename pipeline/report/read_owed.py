"""Reads what brokers owe, and the topics in the trash."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pyarrow.dataset as ds

from lethe.pipeline import tables
from lethe.pipeline.report.lake_reader import LakeReader, column_names
from lethe.pipeline.report.values import OpenDebt, OwedByBroker, Promises, Rows, TrashedTopic

SHOWN: Final = 200
_CLOSED: Final = ("paid", "void", "written_off")


def read_promises(lake: LakeReader) -> Promises:
    """Return open debts and stays in the trash. Raises as LakeReader."""
    newest: dict[Any, OwedByBroker] = {}
    closed: Counter[str] = Counter()
    names = column_names(OwedByBroker)
    for batch in lake.batches(tables.OWED_BY_BROKER, [*names, *_CLOSED]):
        for row in batch.to_pylist():
            made = OwedByBroker(*(row[name] for name in names))
            newest[made.broker] = max(made, newest.get(made.broker, made), key=lambda each: each.day)
            closed.update({name.replace("_", " "): row[name] or 0 for name in _CLOSED})
    owing = sorted(
        (row for row in newest.values() if row.open), key=lambda row: (-(row.owed_bytes or 0), row.broker or 0)
    )
    is_open = ds.field("how").is_null()
    return Promises(
        Rows.of(owing, SHOWN),
        lake.rows(tables.DEBTS, OpenDebt, ("since", "topic", "broker"), limit=SHOWN, where=is_open),
        {how: many for how, many in closed.items() if many},
        lake.rows(tables.TRASH, TrashedTopic, ("until", "topic"), limit=SHOWN, where=is_open),
    )
