"""Selects the surveys of a page.

Leftovers come from the lake's newest survey, whichever days the page is about: an older finding may be a living topic's
by now, and the page names commands that move directories. The days select only which surveys are listed.

A survey may be newer than its own ingestion: its host's clock is ahead, or the pipeline ran with an earlier `--as-of`.
The page names it, and ignores it until the lake's time has reached it. Otherwise it would hide newer surveys until
then. The lake's time is the time of the last ingestion.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lethe.pipeline import tables
from lethe.pipeline.report.lake_reader import LakeReader, and_filters
from lethe.pipeline.report.values import Rows, SurveyRow
from lethe.protocol.clocks import CLOCKS_DIFFER_MS

ROUND_MS: Final = 36 * 3_600_000
"""Surveys of different hosts within this time belong to one round: a day, and some delay."""
_SHOWN: Final = 40
_ROUND: Final = 1000
_AHEAD: Final = 5
NEWEST_FIRST: Final = ("-taken_at", "survey_id")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class SurveySelection(NamedTuple):
    """Surveys, each list newest first."""

    listed: Rows[SurveyRow]
    """Surveys of the requested days."""
    round: tuple[SurveyRow, ...]
    """The lake's newest survey, and those of the same round."""
    ahead: Rows[SurveyRow]
    """Surveys in the future, which are ignored."""

    @property
    def newest(self) -> SurveyRow | None:
        return self.round[0] if self.round else None


def read_surveys(lake: LakeReader, where: Any) -> SurveySelection:
    """Return the surveys of a lake; `where` selects the listed ones. Raises as LakeReader."""
    counts = plausible(lake)
    newest = lake.rows(tables.SURVEYS, SurveyRow, NEWEST_FIRST, limit=1, where=counts).shown
    round_ = newest
    if newest and newest[0].taken_at is not None:
        near = ds.field("taken_at") >= _instant(_EPOCH + timedelta(milliseconds=newest[0].taken_at - ROUND_MS))
        round_ = lake.rows(tables.SURVEYS, SurveyRow, NEWEST_FIRST, limit=_ROUND, where=and_filters(near, counts)).shown
    return SurveySelection(
        lake.rows(tables.SURVEYS, SurveyRow, NEWEST_FIRST, limit=_SHOWN, where=and_filters(where, counts)),
        round_,
        Rows() if counts is None else lake.rows(tables.SURVEYS, SurveyRow, NEWEST_FIRST, limit=_AHEAD, where=~counts),
    )


def rows_of_surveys(surveys: Sequence[SurveyRow]) -> Any:
    """Return an Arrow filter for rows of these surveys, which skips partitions of other days."""
    days = sorted({day_of(row.taken_at) for row in surveys if row.taken_at is not None})
    ids = sorted({row.survey_id for row in surveys if row.survey_id is not None})
    return ds.field("day").isin(pa.array(days, pa.date32())) & ds.field("survey_id").isin(pa.array(ids, pa.string()))


def plausible(lake: LakeReader) -> Any:
    """Return an Arrow filter for surveys that are not in the future; None if no ingestion time is known."""
    newest = [pc.max(batch.column("_ingested_at")).as_py() for batch in lake.batches(tables.SURVEYS, ["_ingested_at"])]
    known = [moment for moment in newest if moment is not None]
    if not known:
        return None
    return ds.field("taken_at") <= _instant(max(known) + timedelta(milliseconds=CLOCKS_DIFFER_MS))


def _instant(moment: datetime) -> Any:
    return pa.scalar(moment, pa.timestamp("us", tz="UTC"))


def day_of(at_ms: int) -> date:
    """Return the day of an instant, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date()
