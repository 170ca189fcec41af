"""The values of the trends: one row per day, week or longer period. An absence is None, and never zero.

the lake has                                      value
no line of a journal of these days                days_recorded 0: the period is unseen
lines, and no deletion that was marked then       deletions 0; percentiles None
deletions, and none of them has ended             percentiles None
no removal that a broker reported                 reclaimed_bytes None
only debts of unknown size                        owed_bytes None
no survey                                         surveys 0; found, gone and left_over None
surveys that did not see everything, no finding   found and gone None
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple


class SurveyTrend(NamedTuple):
    """What the surveys of a period found, which no survey before had, and what they no longer found."""

    surveys: int = 0
    saw_everything: bool = False
    """One of them is complete, and together they have read every known log directory."""
    found: int | None = None
    gone: int | None = None
    """Findings of earlier surveys that a survey of this period could have seen, and did not."""
    left_over: int | None = None
    """Findings that were known at the end of the period; at least these where not everything was seen."""


@dataclass(frozen=True, slots=True)
class Period:
    """Deletions count on the day of their mark. Times are milliseconds."""

    first: date
    last: date
    days_recorded: int = 0
    """Number of its days with lines of a journal."""
    deletions: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    measured: int = 0
    """Deletions whose duration is known: those that are done."""
    p50_ms: float | None = None
    p95_ms: float | None = None
    waits_ms: Mapping[str, int] = field(default_factory=dict)
    """Sum of the waits that are over, by cause."""
    unmeasured_waits: int = 0
    """Deletions with a wait of unknown length: it lasts, or its end was not recorded."""
    reclaimed_bytes: int | None = None
    debts: int | None = None
    """Open debts at the end of the period; None if no debt was recorded until then, or no journal in the period."""
    owed_bytes: int | None = None
    """Of the open debts whose size is known."""
    unsized_debts: int = 0
    surveys: SurveyTrend = field(default_factory=SurveyTrend)

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1


@dataclass(frozen=True, slots=True)
class Trends:
    """Periods of `days_each` days from the first to the last day of the lake; the last one may be shorter."""

    periods: tuple[Period, ...] = ()
    days_each: int = 1
