"""The table of stuck deletions at one moment, in Arrow: a run makes it with Spark or without, by the same function."""

from __future__ import annotations

import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lethe.pipeline import schemas

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS: Final = datetime.timedelta(milliseconds=1)


def stuck_now(waiting: pa.Table, *, now: datetime.datetime, threshold_ms: int) -> pa.Table:
    """Return STUCK_NOW at `now`, which has a time zone, from WAITING_DELETIONS.

    A deletion is stuck if it has waited for `threshold_ms`, or if the time of its mark is unknown. Both instants are
    rounded down to milliseconds.
    """
    waiting_ms = pc.subtract((now - _EPOCH) // _MS, _unix_ms(waiting["since"]))
    is_stuck = pc.fill_null(pc.greater_equal(waiting_ms, threshold_ms), fill_value=True)
    return waiting.append_column("waiting_ms", waiting_ms).filter(is_stuck).select(schemas.STUCK_NOW.names)


def _unix_ms(instants: pa.ChunkedArray) -> pa.ChunkedArray:
    # A cast to milliseconds rounds towards 1970. Without its zone, the column is rounded without a database of zones.
    in_utc = pc.cast(instants, pa.timestamp("us"))
    return pc.cast(pc.cast(pc.floor_temporal(in_utc, unit="millisecond"), pa.timestamp("ms")), pa.int64())
