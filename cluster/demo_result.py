"""What a demo leads to, as values."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.cluster.demo_ledger import Happening
from lethe.cluster.demo_plan import DemoOptions
from lethe.cluster.demo_waits import WaitLog
from lethe.survey.leftovers import Leftover
from lethe.survey.views import Survey


class PhaseTimes(NamedTuple):
    """When topics (or bytes) reached a phase, in seconds since the stage began."""

    name: str
    meaning: str
    reached: int
    """How many did."""
    first_s: float
    median_s: float
    last_s: float


class BrokerTotals(NamedTuple):
    """What one broker had, did, and has left."""

    broker: int
    replicas: int
    bytes_before: int
    acknowledged: int
    bytes_freed: int
    files_freed: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class DemoResult:
    """`survey` is the last one; what it found left over is in `findings`. Times in seconds."""

    options: DemoOptions
    started_s: float
    created_s: float
    deleted_s: float
    """From the marks to the last topic's znode."""
    reclaimed_s: float
    """From the marks until the survey found all three places clean of the demo's topics."""
    phases: tuple[PhaseTimes, ...]
    brokers: tuple[BrokerTotals, ...]
    survey: Survey
    findings: tuple[Leftover, ...]
    limit_passed: str | None = None
    """What was not done in the time allowed."""
    happenings: tuple[Happening, ...] = ()
    """What we did to the cluster and what its controllers said of it; only with chaos."""
    began_ms: int = 0
    """When the topics were marked, the zero of `happenings`."""
    waits: WaitLog | None = None
    untouched: int = 0
    """Topics that the killed broker had no part in."""
    lost_facts: int = 0
    refusals: dict[str, int] = field(default_factory=dict)

    @property
    def bytes_reclaimed(self) -> int:
        """What lay in the log directories before and does not any more."""
        return sum(broker.bytes_before - broker.bytes_after for broker in self.brokers)

    @property
    def is_clean(self) -> bool:
        """Everything was seen, and nothing is left over anywhere."""
        return self.survey.is_complete and not self.findings and self.limit_passed is None


def phase_times(name: str, meaning: str, times_ms: Sequence[int], began_ms: int) -> PhaseTimes:
    """Of times in their order; all zero where there is none."""
    seconds = [(time_ms - began_ms) / 1000 for time_ms in times_ms] or [0.0]
    return PhaseTimes(name, meaning, len(times_ms), seconds[0], statistics.median(seconds), seconds[-1])
