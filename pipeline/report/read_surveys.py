"""Which surveys a page goes by.

What is left over is what the lake's newest survey found, whichever days the page is about: what an older one found may
be a living topic's by now, and the page names commands that move directories. The days choose only which surveys are
listed.

A survey may say that it was taken after the pipeline took it in: the clock of its host is ahead, or the pipeline was
told to speak of an earlier moment. It is named, and otherwise as if it were not there until the lake has come to its
time; or else it would be the newest until then, whatever newer ones saw. The lake's time is when the pipeline last took
in a survey.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lethe.pipeline import tables
from lethe.pipeline.report.columns import LakeReader, Order
from lethe.pipeline.report.values import Rows, SurveyRow
from lethe.protocol.clocks import CLOCKS_DIFFER_MS

ROUND_MS: Final = 36 * 3_600_000
"""Surveys of different hosts that lie as near together belong to one round: a day, and some time to be late."""
_SHOWN: Final = 40
_ROUND: Final = 1000
_AHEAD: Final = 5
_NEWEST_FIRST: Final = (Order("taken_at", True), Order("survey_id"))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Surveys(NamedTuple):
    """All newest first."""

    listed: Rows[SurveyRow]
    """Of the days that were asked for."""
    round: tuple[SurveyRow, ...]
    """The lake's newest survey, and those that lie near it."""
    ahead: Rows[SurveyRow]
    """Those that count for nothing yet, because they are of the future."""

    @property
    def newest(self) -> SurveyRow | None:
        return self.round[0] if self.round else None


def read_surveys(lake: LakeReader, where: Any) -> Surveys:
    """The surveys of a lake; `where` chooses which are listed. Raises as LakeReader."""
    limit = _limit(lake)
    counts, is_ahead = None, None
    if limit is not None:
        counts, is_ahead = ds.field("taken_at") <= _instant(limit), ds.field("taken_at") > _instant(limit)
    newest = lake.rows(tables.SURVEYS, SurveyRow, _NEWEST_FIRST, limit=1, where=counts).shown
    round_ = newest
    if newest and newest[0].taken_at is not None:
        near = ds.field("taken_at") >= _instant(_EPOCH + timedelta(milliseconds=newest[0].taken_at - ROUND_MS))
        round_ = lake.rows(tables.SURVEYS, SurveyRow, _NEWEST_FIRST, limit=_ROUND, where=both(near, counts)).shown
    return Surveys(
        lake.rows(tables.SURVEYS, SurveyRow, _NEWEST_FIRST, limit=_SHOWN, where=both(where, counts)),
        round_,
        Rows()
        if is_ahead is None
        else lake.rows(tables.SURVEYS, SurveyRow, _NEWEST_FIRST, limit=_AHEAD, where=is_ahead),
    )


def rows_of(surveys: Sequence[SurveyRow]) -> Any:
    """Rows of these surveys, as an Arrow expression that leaves out the partitions of other days."""
    days = sorted({_day(row.taken_at) for row in surveys if row.taken_at is not None})
    ids = sorted({row.survey_id for row in surveys if row.survey_id is not None})
    return ds.field("day").isin(pa.array(days, pa.date32())) & ds.field("survey_id").isin(pa.array(ids, pa.string()))


def both(one: Any, other: Any) -> Any:
    """What both filters let through; None is no filter."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _limit(lake: LakeReader) -> datetime | None:
    """Surveys after this are of the future; None where nobody has told when they were taken in."""
    newest = [pc.max(batch.column("_ingested_at")).as_py() for batch in lake.batches(tables.SURVEYS, ["_ingested_at"])]
    known = [moment for moment in newest if moment is not None]
    return max(known) + timedelta(milliseconds=CLOCKS_DIFFER_MS) if known else None


def _instant(moment: datetime) -> Any:
    return pa.scalar(moment, pa.timestamp("us", tz="UTC"))


def _day(at_ms: int) -> date:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date()
