"""What there is to say of a metric: its name, what kind of number it is, and what it means to whoever reads it."""

from __future__ import annotations

import enum
from typing import NamedTuple


class MetricKind(enum.Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"
    """Kafka's histograms and timers: `_count`, `_sum` and a series per quantile, of the latest 1,028 values."""
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric family. `mbean` is Kafka's name for it, None for what is ours alone."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()
    mbean: str | None = None
