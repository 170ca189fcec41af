"""Sums up the deletions of a lake, and selects those that are shown, in two passes over silver `deletion_spans`.

Memory holds two numbers per deletion (durations, for exact percentiles), counts, and the few rows that may be shown.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lethe.pipeline.outcomes import DONE, ENDED_AT, LET_GO, VANISHED
from lethe.pipeline.report.lake_reader import LakeReader, first_rows, milliseconds, plain_rows
from lethe.pipeline.report.read_replicas import read_brokers
from lethe.pipeline.report.values import Deletions, DeletionSpan, FreedBytes, Interval, Latency, PhaseProgress
from lethe.pipeline.tables import DELETION_SPANS
from lethe.pipeline.transforms.slo import ALL, SIZE_CLASSES, UNKNOWN

SHOWN: Final = 40_000
"""Maximum number of deletions shown."""
BINS_PER_DECADE: Final = 20
"""Bins of a distribution, which is logarithmic from 1 ms on."""
STEPS: Final = 160
"""Maximum steps of the progress over time, and maximum number of `FreedBytes` bars."""
PHASES: Final = ("marked_at", "tombstoned_at", "acknowledged_at", "znodes_gone_at", "bytes_gone_at")
"""Phases that the progress over time counts."""
_STEP_WIDTHS_MS: Final = tuple(
    1000 * seconds
    for seconds in (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 10_800, 21_600, 86_400)
)
INSTANTS: Final = tuple(name for name in DeletionSpan._fields if name.endswith("_at") and name != "settled_at")
"""Columns of what happened in a deletion; what is owed is settled after it."""
_TIMES: Final = {"deleted": "deleted_ms", "reclaimed": "reclaimed_ms"}
_PERCENTS: Final = (0.5, 0.9, 0.99, 1.0)


def read_deletions(lake: LakeReader, where: Any, limit: int = SHOWN) -> Deletions:
    """Return the sums of all spans that pass the filter, and those that are shown: at most `limit`."""
    sums = _Totals(limit)
    for batch in lake.batches(DELETION_SPANS, DeletionSpan._fields, where):
        sums.add(batch)
    if not sums.total:
        return Deletions()
    progress, freed, freed_step = _over_time(lake, where, sums)
    chosen = plain_rows(_chosen(sums.kept, limit), DeletionSpan._fields)
    shown = tuple(_with_intervals(DeletionSpan(*values)) for values in chosen)
    return Deletions(
        shown=shown,
        brokers=read_brokers(lake, where, shown),
        total=sums.total,
        done=sums.outcomes[DONE],
        owing=sums.owing,
        let_go=sums.outcomes[LET_GO],
        vanished=sums.outcomes[VANISHED],
        last_vanished_at=max(sums.times_ms[ENDED_AT[VANISHED]], default=None),
        open=sums.total - sum(sums.outcomes[outcome] for outcome in ENDED_AT),
        freed_bytes=sums.freed_bytes,
        latencies=tuple(sums.latencies()),
        progress=progress,
        freed=freed,
        freed_step_ms=freed_step,
    )


@dataclass(slots=True)
class _Totals:
    """Sums of the first pass."""

    limit: int
    total: int = 0
    owing: int = 0
    freed_bytes: int = 0
    outcomes: Counter[str | None] = field(default_factory=Counter)
    times_ms: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in INSTANTS})
    """By column: the first and the last instant of each batch."""
    kept: dict[str, pa.Table] = field(default_factory=dict)
    """Spans that may be shown, by reason."""
    _took: list[pa.Table] = field(default_factory=list)

    def add(self, batch: pa.Table) -> None:
        self.total += batch.num_rows
        is_owing = pc.and_(pc.greater(batch.column("owed_replicas"), 0), pc.is_null(batch.column("settled_at")))
        self.owing += pc.sum(pc.and_(pc.equal(batch.column("outcome"), DONE), is_owing)).as_py() or 0
        self.freed_bytes += pc.sum(batch.column("freed_bytes")).as_py() or 0
        for each in pc.value_counts(batch.column("outcome")).to_pylist():
            self.outcomes[each["values"]] += each["counts"]
        for name in INSTANTS:
            found = pc.min_max(milliseconds(batch.column(name))).as_py()
            self.times_ms[name] += [ms for ms in found.values() if ms is not None]
        self._took.append(batch.select(["replicas", *_TIMES.values()]))
        for why, order, wanted in _choices(batch):
            old = self.kept.get(why)
            both = wanted if old is None else pa.concat_tables([old, wanted])
            self.kept[why] = first_rows(both, order, self.limit)

    def latencies(self) -> list[Latency]:
        """Return the distributions of all deletions, then by size class; empty classes are left out."""
        took = pa.concat_tables(self._took)
        replicas = took.column("replicas")
        found = []
        for measure, column in _TIMES.items():
            values = took.column(column)
            found += _latency(measure, ALL, values)
            for name, least, most in SIZE_CLASSES:
                of_class = pc.and_(pc.greater_equal(replicas, least), pc.less_equal(replicas, most))
                found += _latency(measure, name, values.filter(of_class))
            unknown = pc.fill_null(pc.less(replicas, 1), True)
            found += _latency(measure, UNKNOWN, values.filter(unknown))
        return found


def _latency(measure: str, size_class: str, values: Any) -> list[Latency]:
    known = pc.drop_null(values)
    if not len(known):
        return []
    p50, p90, p99, most = pc.quantile(known, q=list(_PERCENTS), interpolation="linear").to_pylist()
    logs = pc.log10(pc.cast(pc.max_element_wise(known, 1), pa.float64()))
    bins = pc.cast(pc.floor(pc.multiply(logs, float(BINS_PER_DECADE))), pa.int64())
    return [Latency(measure, size_class, len(known), p50, p90, p99, most, _counts(bins))]


# --- which are shown ----------------------------------------------------------------------------------------------


def _choices(batch: pa.Table) -> list[tuple[str, tuple[str, ...], pa.Table]]:
    is_over = pc.fill_null(pc.is_in(batch.column("outcome"), value_set=pa.array([*ENDED_AT])), False)
    rest = batch.filter(is_over)
    return [
        ("open", ("marked_at", *DELETION_SPANS.key), batch.filter(pc.invert(is_over))),
        ("slow", ("-reclaimed_ms", "-deleted_ms", "marked_at", *DELETION_SPANS.key), rest),
        ("late", ("-marked_at", *DELETION_SPANS.key), rest),
    ]


def _chosen(kept: Mapping[str, pa.Table], limit: int) -> pa.Table:
    """Return the open spans (the oldest; at most two fifths if there are others), the slowest (at least half of the
    rest), and the newest, ordered by the time of the mark."""
    tables = [kept[why] for why in ("open", "slow", "late")]
    rest = len(tables[1])
    still_open = tables[0].slice(0, limit - min(rest, limit * 3 // 5))
    slow = tables[1].slice(0, max((limit - len(still_open)) // 2, limit - len(still_open) - rest))
    known = set(plain_rows(slow, DELETION_SPANS.key))
    left = limit - len(still_open) - len(slow)
    fresh = [number for number, key in enumerate(plain_rows(tables[2], DELETION_SPANS.key)) if key not in known]
    together = pa.concat_tables([still_open, slow, tables[2].take(pa.array(fresh[:left], pa.int64()))])
    return first_rows(together, ("marked_at", *DELETION_SPANS.key), limit)


def _with_intervals(span: DeletionSpan) -> DeletionSpan:
    return span._replace(
        held=tuple(_interval(each, "held_by") for each in span.held or ()),
        waited_for=tuple(_interval(each, "reason") for each in span.waited_for or ()),
        controllers=span.controllers or (),
        owed_by=span.owed_by or (),
    )


def _interval(read: Any, why: str) -> Interval:
    """Return a hold or a wait, as it was read: with the fields of its column."""
    of_wait = (read.get("broker"), read.get("replicas"))
    return Interval(read[why] or "", read["since"], read["until"], read["ms"], *of_wait)


# --- over time ----------------------------------------------------------------------------------------------------


def step_width(first_ms: int, last_ms: int) -> int:
    """Return the width of time steps for this interval, in milliseconds: a round width, or whole days."""
    needed = (last_ms - first_ms) / (STEPS - 2)
    place = bisect.bisect_left(_STEP_WIDTHS_MS, needed)
    if place < len(_STEP_WIDTHS_MS):
        return int(_STEP_WIDTHS_MS[place])
    day = 86_400_000
    return (int(needed) // day + 1) * day


def _over_time(lake: LakeReader, where: Any, sums: _Totals) -> tuple[PhaseProgress | None, tuple[FreedBytes, ...], int]:
    """Return progress and freed bytes over time, from the second pass."""
    times = [ms for found in sums.times_ms.values() for ms in found]
    if not times:
        return None, (), 0
    first, last, freed = min(times), max(times), sums.times_ms["bytes_gone_at"]
    step = step_width(first, last)
    start = first // step * step
    freed_step = max(step_width(min(freed), max(freed)) if freed else 0, 1000)
    reached: dict[str, Counter[int]] = {phase: Counter() for phase in PHASES}
    sizes: Counter[int] = Counter()
    topics: Counter[int] = Counter()
    for batch in lake.batches(DELETION_SPANS, [*PHASES, "freed_bytes"], where):
        for phase in PHASES:
            reached[phase].update(_counts(_steps(batch.column(phase), start, step)))
        grouped = (
            pa.table(
                [_steps(batch.column("bytes_gone_at"), 0, freed_step), batch.column("freed_bytes")], ["at", "size"]
            )
            .group_by("at")
            .aggregate([("size", "sum"), ([], "count_all")])
        )
        for row in grouped.to_pylist():
            if row["at"] is not None:
                sizes[row["at"]] += row["size_sum"] or 0
                topics[row["at"]] += row["count_all"]
    steps = (last - start) // step + 1
    progress = PhaseProgress(start, step, {phase: _cumulative(found, steps) for phase, found in reached.items()})
    bars = tuple(FreedBytes(at * freed_step, sizes[at], topics[at]) for at in sorted(topics))
    return progress, bars, freed_step


def _cumulative(found: Counter[int], steps: int) -> tuple[int, ...]:
    return tuple(accumulate(found[number] for number in range(steps)))


def _steps(column: Any, start: int, step: int) -> Any:
    return pc.divide(pc.subtract(milliseconds(column), start), step)


def _counts(column: Any) -> dict[int, int]:
    found = {each["values"]: each["counts"] for each in pc.value_counts(column).to_pylist()}
    found.pop(None, None)
    return dict(sorted(found.items()))
