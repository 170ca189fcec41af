"""The result of a run, in numbers."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lethe.protocol.lake_rules import LakeRules

OnStage = Callable[[str], None]
"""Called with the name of each stage as it begins."""


@dataclass(frozen=True, slots=True)
class DayRange:
    """Days from the first to the last; None is open. Raises ValueError."""

    first: datetime.date | None = None
    last: datetime.date | None = None

    def __post_init__(self) -> None:
        if self.first is not None and self.last is not None and self.first > self.last:
            raise ValueError(f"--from {self.first} is after --to {self.last}")

    def __contains__(self, day: datetime.date) -> bool:
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)


class Changes(NamedTuple):
    """What is new since tables were made: only what depends on it is recomputed."""

    lined: Collection[datetime.date]
    """Days with new lines of the journal."""
    surveyed: Collection[datetime.date]
    """Days with new surveys."""
    lines: Column | None = None
    """Which of the days' lines are new; None if all may be."""
    lasting: bool = True
    """Whether records that bear on later days may be among the lines."""
    is_later: bool = True
    """Whether the table of unused topics may have changed with time."""


class IngestCounts(NamedTuple):
    """Counts of the rows that were read for one bronze table. new + duplicate + quarantined = read."""

    table: str
    read: int = 0
    new: int = 0
    duplicate: int = 0
    late: int = 0
    """New rows of days before the newest day that the table had."""
    quarantined: int = 0


class SurveyRefusal(NamedTuple):
    """A survey that was not ingested."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of a run. `days` are those of its lines and surveys, also of known ones, and the recomputed ones."""

    batch_id: str
    taken: tuple[IngestCounts, ...]
    refused: tuple[SurveyRefusal, ...]
    days: tuple[datetime.date, ...]
    rows: dict[str, int] = field(default_factory=dict)
    """Rows of the recomputed tables, by name."""
    made: tuple[datetime.date, ...] = ()
    """The days whose tables were recomputed."""
    errors: int = 0
    """Violations with severity error, in the days of the run."""
    warnings: int = 0
    rules: LakeRules | None = None
    """The rules of stuck_now and stale_topic_candidates."""
