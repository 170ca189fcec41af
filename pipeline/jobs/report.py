"""What a run did, in numbers."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lethe.pipeline.jobs.rules import Rules

Stage = Callable[[str], None]
"""Told the name of each stage as it begins."""


@dataclass(frozen=True, slots=True)
class DayRange:
    """Days from the first to the last; None is open."""

    first: datetime.date | None = None
    last: datetime.date | None = None

    def __contains__(self, day: datetime.date) -> bool:
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)


class Only(NamedTuple):
    """What of some days has changed, where that is known: nothing else has to be made anew."""

    lines: Column | None = None
    """Which of the days' lines; None for all."""
    surveyed: Collection[datetime.date] | None = None
    """Days of surveys; None for all."""
    tenures: bool = True
    """Lines that tell of tenures may be among them."""


class Taken(NamedTuple):
    """What became of the rows that were read for one bronze table. new + duplicate + quarantined = read."""

    table: str
    read: int
    new: int
    duplicate: int
    late: int
    """Of the new ones, those of days before the newest that the table had already."""
    quarantined: int


class Refused(NamedTuple):
    """A survey that was left where it is."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run of the pipeline. `days` are those whose tables were made anew."""

    batch_id: str
    taken: tuple[Taken, ...]
    refused: tuple[Refused, ...]
    days: tuple[datetime.date, ...]
    rows: dict[str, int] = field(default_factory=dict)
    """Rows of the tables that were made anew, by name."""
    errors: int = 0
    """Violations of rules of the audit that say that something is broken, in the days of the run."""
    warnings: int = 0
    rules: Rules | None = None
    """By which stuck_now and stale_topic_candidates were made."""
