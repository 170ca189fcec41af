"""Which findings surveys saw for the first time, and which were gone, by period.

A finding is known by what it is about: its place, path or topic, and broker. It is found when a survey has it
and no survey before had it, and gone when a later survey does not have it although it could have seen it:

    survey   directory x of broker 1              x is
    1        found                                found
    2        a broker did not answer              left over: the survey is incomplete
    3        broker 1 only described its disk     left over: x is renamed, which a description omits
    4        the topic is in motion               left over: such topics have no findings
    5        the log directory was read: no x     gone
    6        x again                              found

A survey without a finding is no proof for what the survey could not see. Pending findings disappear without help, so
they are neither found nor gone; one that was left over before is not gone while it is pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, NamedTuple

from lethe.pipeline import tables
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.report.lake_reader import LakeReader, and_filters, of_days
from lethe.pipeline.report.read_disks import LogDirs, disk_coverage, read_log_dirs
from lethe.pipeline.report.read_earlier import KEPT_REASONS
from lethe.pipeline.report.read_surveys import NEWEST_FIRST, day_of, plausible, rows_of_surveys
from lethe.pipeline.report.values import LogDir, SurveyRow
from lethe.pipeline.report.values_trends import SurveyTrend
from lethe.protocol.findings import Standing
from lethe.protocol.survey_records import LOCAL

MOST_SURVEYS: Final = 10_000
"""Maximum number of surveys that are compared, the newest."""
_NEEDS_READING: Final = frozenset(reason.code for reason in KEPT_REASONS)


class _FindingKey(NamedTuple):
    """What a finding is about, the same in every survey. Its reason may change."""

    place: str | None
    what: str | None
    broker: int | None
    topic: str | None
    partition: int | None


@dataclass(slots=True)
class _Seen:
    """The findings of one survey."""

    left_over: dict[_FindingKey, str | None] = field(default_factory=dict)
    """Those that need action, with their reasons."""
    pending: set[_FindingKey] = field(default_factory=set)


def read_compared_surveys(lake: LakeReader, days: DayRange) -> Sequence[SurveyRow]:
    """Return the surveys up to the last of these days, the oldest first: those before the first day too, as what they
    had is not found again. Surveys in the future are left out. Raises LakeUnreadable."""
    until = and_filters(of_days(DayRange(last=days.last)), plausible(lake))
    rows = lake.rows(tables.SURVEYS, SurveyRow, NEWEST_FIRST, limit=MOST_SURVEYS, where=until)
    return [row for row in reversed(rows.shown) if row.taken_at is not None]


def read_survey_trends(
    lake: LakeReader, surveys: Sequence[SurveyRow], days: DayRange, place: Callable[[date], int]
) -> Mapping[int, SurveyTrend]:
    """Return the trend of each period that has a survey of these days, by the number of the period. `surveys` are those
    of read_compared_surveys. Raises LakeUnreadable."""
    if not surveys:
        return {}
    log_dirs = read_log_dirs(lake, surveys)
    walk = _Walk(_findings(lake, rows_of_surveys(surveys)), log_dirs or {})
    periods: dict[int, list[SurveyRow]] = {}
    trends: dict[int, SurveyTrend] = {}
    for survey in surveys:
        found, gone = walk.step(survey)
        day = day_of(survey.taken_at or 0)
        if day not in days:
            continue
        number = place(day)
        here = periods.setdefault(number, [])
        here.append(survey)
        before = trends.get(number, SurveyTrend(found=0, gone=0))
        trends[number] = SurveyTrend(
            len(here),
            _saw_everything(here, log_dirs),
            (before.found or 0) + found,
            (before.gone or 0) + gone,
            len(walk.known),
        )
    return {number: _unseen(trend) for number, trend in trends.items()}


def _unseen(trend: SurveyTrend) -> SurveyTrend:
    """Return the trend without the zeros of surveys that did not see everything."""
    if trend.saw_everything:
        return trend
    return trend._replace(found=trend.found or None, gone=trend.gone or None, left_over=trend.left_over or None)


def _saw_everything(surveys: Sequence[SurveyRow], log_dirs: LogDirs | None) -> bool:
    if not any(survey.complete for survey in surveys):
        return False
    coverage = disk_coverage(log_dirs, surveys[::-1])
    return coverage is not None and not coverage.unread


class _Walk:
    """Compares each survey with those before it, the oldest first."""

    def __init__(self, findings: Mapping[str | None, _Seen], log_dirs: LogDirs) -> None:
        self._findings: Final = findings
        self._log_dirs: Final = log_dirs
        self.known: Final[dict[_FindingKey, str | None]] = {}
        """Findings that are not gone, with the reasons that were seen last."""

    def step(self, survey: SurveyRow) -> tuple[int, int]:
        """Return how many findings the survey saw first, and how many are gone."""
        seen = self._findings.get(survey.survey_id, _Seen())
        found = seen.left_over.keys() - self.known.keys()
        gone = self._gone(survey, self.known.keys() - seen.left_over.keys() - seen.pending)
        for key in gone:
            del self.known[key]
        self.known.update(seen.left_over)
        return len(found), len(gone)

    def _gone(self, survey: SurveyRow, missed: Iterable[_FindingKey]) -> list[_FindingKey]:
        """Return those of the missed findings that the survey would have if they were there."""
        if not survey.complete:
            return []
        moving = frozenset(survey.in_motion or ())
        rows = self._log_dirs.get(survey.survey_id, ())
        read = {row.where for row in rows if row.source == LOCAL and row.problem is None}
        return [
            key
            for key in missed
            if key.topic not in moving
            and (self.known[key] not in _NEEDS_READING or LogDir(key.broker, _log_dir(key)) in read)
        ]


def _log_dir(finding: _FindingKey) -> str:
    return (finding.what or "").rpartition("/")[0]


def _findings(lake: LakeReader, where: Any) -> Mapping[str | None, _Seen]:
    """Return the findings by survey. Each key is stored once, as most findings are in many surveys."""
    found: dict[str | None, _Seen] = {}
    once: dict[_FindingKey, _FindingKey] = {}
    names = ("survey_id", "standing", "reason", *_FindingKey._fields)
    for survey_id, standing, reason, *rest in lake.values(tables.LEFTOVERS, names, where):
        key = _FindingKey(*rest)
        key = once.setdefault(key, key)
        seen = found.setdefault(survey_id, _Seen())
        if standing == Standing.PENDING.code:
            seen.pending.add(key)
        else:
            seen.left_over[key] = reason
    return found
