"""Declaration of a metric: name, kind, help text, labels and Kafka's MBean."""

from __future__ import annotations

import enum
from typing import NamedTuple


class MetricKind(enum.Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"
    """Kafka's histograms and timers: `_count`, `_sum` and one series per quantile of the latest 1,028 values."""
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric family. `mbean` is Kafka's name; it is None where Kafka has no such metric."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()
    mbean: str | None = None
