"""Declaration of a metric: name, kind, help text, labels and Kafka's MBean; the metrics of a journal."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple


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


JOURNAL_FILES: Final = (
    Metric("lethe_journal_lines_total", MetricKind.COUNTER, "Event records written to the journal"),
    Metric(
        "lethe_journal_lost_total",
        MetricKind.COUNTER,
        "Event records that the journal could not take; reports made from it have a gap",
    ),
    Metric(
        "lethe_journal_failing",
        MetricKind.GAUGE,
        "1 while the journal cannot be written; the log says why: a full disk, mostly",
    ),
)
JOURNAL_TOPIC: Final = (
    Metric("lethe_journal_topic_lines_total", MetricKind.COUNTER, "Lines that the journal's topic has acknowledged"),
    Metric(
        "lethe_journal_topic_lost_total",
        MetricKind.COUNTER,
        "Lines that the journal's topic did not accept; the topic records the gap",
    ),
    Metric(
        "lethe_journal_topic_failing", MetricKind.GAUGE, "1 while the journal's topic takes nothing; the log says why"
    ),
)
