"""Results of a demo, as values."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.cluster.demo_plan import DemoOptions
from lethe.cluster.demo_totals import ClusterChange
from lethe.cluster.demo_waits import WaitLog
from lethe.survey.leftovers import Leftover
from lethe.survey.views import Survey


class PhaseTimes(NamedTuple):
    """Times when topics (or bytes) reached a phase, in seconds since the stage began."""

    name: str
    meaning: str
    reached: int
    """How many reached it."""
    first_s: float
    median_s: float
    last_s: float


class BrokerTotals(NamedTuple):
    """Totals of one broker."""

    broker: int
    replicas: int
    bytes_before: int
    acknowledged: int
    bytes_freed: int
    files_freed: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Result of a demo. `survey` is the last one, `findings` are its leftovers. Times are in seconds."""

    options: DemoOptions
    started_s: float
    created_s: float
    deleted_s: float
    """From the marking to the removal of the last topic's znode."""
    reclaimed_s: float
    """From the marking until the survey finds no trace of the demo's topics."""
    phases: tuple[PhaseTimes, ...]
    brokers: tuple[BrokerTotals, ...]
    survey: Survey
    findings: tuple[Leftover, ...]
    limit_passed: str | None = None
    """What missed its deadline."""
    happenings: tuple[ClusterChange, ...] = ()
    """Our interventions and the controllers' reactions; only with chaos."""
    began_ms: int = 0
    """When the topics were marked: the zero of `happenings`."""
    waits: WaitLog | None = None
    untouched: int = 0
    """Number of topics without replicas on the killed broker."""
    lost_records: int = 0
    refusals: dict[str, int] = field(default_factory=dict)

    @property
    def bytes_reclaimed(self) -> int:
        """Bytes that are gone from the log directories."""
        return sum(broker.bytes_before - broker.bytes_after for broker in self.brokers)

    @property
    def is_clean(self) -> bool:
        """True if everything was seen and nothing is left over."""
        return self.survey.is_complete and not self.findings and self.limit_passed is None


def phase_times(name: str, meaning: str, times_ms: Sequence[int], began_ms: int) -> PhaseTimes:
    """Summarize ascending times; all zero if there are none."""
    seconds = [(time_ms - began_ms) / 1000 for time_ms in times_ms] or [0.0]
    return PhaseTimes(name, meaning, len(times_ms), seconds[0], statistics.median(seconds), seconds[-1])
