"""Reads the trends: deletions, waits, bytes and findings by day, or by week where there are many days.

A period is as short as MOST_PERIODS allows: a day, a week, four weeks, 52 weeks, or a multiple of these. Percentiles
come from all durations of a period, and not from those of its days.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lethe.pipeline import tables
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.outcomes import OPEN
from lethe.pipeline.report.lake_reader import LakeReader, of_days
from lethe.pipeline.report.read_surveys import day_of
from lethe.pipeline.report.read_trend_surveys import read_compared_surveys, read_survey_trends
from lethe.pipeline.report.values_trends import Period, SurveyTrend, Trends

MOST_PERIODS: Final = 62
"""Two months of days."""
_WIDTHS: Final = (1, 7, 28, 364)
_FROM_JOURNALS: Final = (tables.DELETION_SPANS, tables.DAILY_RECLAIM, tables.OWED_BY_BROKER)
_WAITS: Final = (("held", "held_by", "held: {}"), ("waited_for", "reason", "waited: {}"))
"""Columns of intervals, the field with the cause, and its name on the page."""
_UNIX_DAY: Final = date(1970, 1, 1).toordinal()


class Calendar(NamedTuple):
    """Periods of `width` days, counted as by `date.toordinal`; the first and the last may be shorter."""

    monday: int
    """The first day of the first whole period: a Monday where `width` is above a day."""
    first: int
    last: int
    width: int

    def bounds(self) -> Iterator[tuple[date, date]]:
        """Yield the first and the last day of each period."""
        for start in range(self.monday, self.last + 1, self.width):
            yield date.fromordinal(max(start, self.first)), date.fromordinal(min(start + self.width - 1, self.last))

    def place(self, day: date) -> int:
        """Return the number of the period that has the day."""
        return (day.toordinal() - self.monday) // self.width

    def places(self, days: Any) -> Any:
        """Return the same for an Arrow column of dates."""
        return pc.divide(pc.subtract(pc.cast(days, pa.int32()), self.monday - _UNIX_DAY), self.width)


def calendar(first: date, last: date) -> Calendar:
    """Return periods from one day to another, as short as MOST_PERIODS allows. Weeks begin on Monday."""
    start, end = first.toordinal(), last.toordinal()
    monday = start - first.weekday()
    years = -(-(end - monday + 1) // MOST_PERIODS // _WIDTHS[-1])
    widths = (*_WIDTHS, years * _WIDTHS[-1])
    candidates = (Calendar(start if width == 1 else monday, start, end, width) for width in widths)
    return next(each for each in candidates if each.place(last) < MOST_PERIODS)


def read_trends(lake: LakeReader, days: DayRange) -> Trends:
    """Return the trends of these days; without periods if the lake has nothing about them. Raises LakeUnreadable."""
    surveys = read_compared_surveys(lake, days)
    recorded, known = _days(lake, days)
    known |= {day for row in surveys if (day := day_of(row.taken_at or 0)) in days}
    if not known:
        return Trends()
    periods = calendar(min(known), max(known))
    written = Counter(map(periods.place, recorded))
    deletions = _deletions(lake, of_days(days), periods)
    reclaimed = _reclaimed(lake, of_days(days), periods)
    owed = _owed(lake, periods)
    of_surveys = read_survey_trends(lake, surveys, days, periods.place)
    made = []
    for number, bounds in enumerate(periods.bounds()):
        period = _period(bounds, written[number], deletions.get(number), owed[number] if written[number] else None)
        surveyed = of_surveys.get(number, SurveyTrend())
        made.append(replace(period, reclaimed_bytes=reclaimed.get(number), surveys=surveyed))
    return Trends(tuple(made), periods.width)


def _days(lake: LakeReader, days: DayRange) -> tuple[set[date], set[date]]:
    """Return the days with lines of a journal, and all days of tables that are made of them. A lake that was copied
    without bronze has no lines; there the latter count."""
    made = {day for table in _FROM_JOURNALS for day in lake.days(table) if day in days}
    lines = {day for day in lake.days(tables.CONTROLLER_EVENTS) if day in days}
    return (lines if lake.has(tables.CONTROLLER_EVENTS) else made), made | lines


# --- deletions ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Deletions:
    """Sums of the deletions that were marked in one period."""

    outcomes: Counter[str] = field(default_factory=Counter)
    durations: list[Any] = field(default_factory=list)
    waits_ms: Counter[str] = field(default_factory=Counter)
    unmeasured_waits: int = 0


def _deletions(lake: LakeReader, where: Any, periods: Calendar) -> Mapping[int, _Deletions]:
    found: dict[int, _Deletions] = {}
    names = ["day", "outcome", "deleted_ms", *(column for column, _, _ in _WAITS)]
    for batch in lake.batches(tables.DELETION_SPANS, names, where):
        places = periods.places(batch.column("day"))
        for each in places.unique().to_pylist():
            rows = batch.filter(pc.equal(places, each))
            sums = found.setdefault(each, _Deletions())
            sums.outcomes.update(value or OPEN for value in rows.column("outcome").to_pylist())
            sums.durations.append(pc.drop_null(rows.column("deleted_ms")))
            _add_waits(rows, sums)
    return found


def _add_waits(rows: pa.Table, sums: _Deletions) -> None:
    unmeasured: set[int] = set()
    for column, cause, words in _WAITS:
        intervals = rows.column(column).combine_chunks()
        flat = pc.list_flatten(intervals)
        whose, ms, why = pc.list_parent_indices(intervals), pc.struct_field(flat, "ms"), pc.struct_field(flat, cause)
        unmeasured.update(pc.filter(whose, pc.is_null(ms)).to_pylist())
        by_cause = pa.table([why, ms], ["why", "ms"]).group_by("why").aggregate([("ms", "sum")])
        for row in by_cause.to_pylist():
            if row["ms_sum"]:
                sums.waits_ms[words.format(row["why"] or "")] += row["ms_sum"]
    sums.unmeasured_waits += len(unmeasured)


def _period(bounds: tuple[date, date], recorded: int, sums: _Deletions | None, owed: _Owed | None) -> Period:
    sums = sums or _Deletions()
    durations = pa.chunked_array(sums.durations, pa.int64())
    p50, p95 = pc.quantile(durations, q=[0.5, 0.95], interpolation="linear").to_pylist()
    return Period(
        *bounds,
        days_recorded=recorded,
        deletions=sums.outcomes.total(),
        outcomes=dict(sums.outcomes),
        measured=len(durations),
        p50_ms=p50,
        p95_ms=p95,
        waits_ms=dict(sums.waits_ms),
        unmeasured_waits=sums.unmeasured_waits,
        debts=None if owed is None else owed.debts,
        owed_bytes=None if owed is None else owed.size_bytes,
        unsized_debts=0 if owed is None else owed.unsized,
    )


# --- bytes --------------------------------------------------------------------------------------------------------


def _reclaimed(lake: LakeReader, where: Any, periods: Calendar) -> Mapping[int, int]:
    found: Counter[int] = Counter()
    for day, size in lake.values(tables.DAILY_RECLAIM, ["day", "size_bytes"], where):
        found[periods.place(day)] += size or 0
    return found


class _Owed(NamedTuple):
    """All brokers' debts at the end of a period; `size_bytes` is None if the size of each is unknown."""

    debts: int
    size_bytes: int | None
    unsized: int


def _owed(lake: LakeReader, periods: Calendar) -> Sequence[_Owed | None]:
    """Return what was owed at the end of each period. The table has a row where something changed, so the newest row
    of each broker holds on, also one from before the first day."""
    names = ["broker", "day", "open", "owed_bytes", "unsized"]
    until = ds.field("day") <= pa.scalar(date.fromordinal(periods.last), pa.date32())
    rows = [row for batch in lake.batches(tables.OWED_BY_BROKER, names, until) for row in batch.to_pylist()]
    rows.sort(key=lambda row: row["day"])
    newest: dict[int | None, Mapping[str, Any]] = {}
    found: list[_Owed | None] = []
    for _, last in periods.bounds():
        while rows and rows[0]["day"] <= last:
            row = rows.pop(0)
            newest[row["broker"]] = row
        found.append(_summed(list(newest.values())) if newest else None)
    return found


def _summed(rows: Sequence[Mapping[str, Any]]) -> _Owed:
    debts, unsized = (sum(row[name] or 0 for row in rows) for name in ("open", "unsized"))
    is_unknown = debts > 0 and unsized == debts
    return _Owed(debts, None if is_unknown else sum(row["owed_bytes"] or 0 for row in rows), unsized)
