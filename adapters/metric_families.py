"""Build prometheus_client families from metric declarations and values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from lethe.adapters.journal_sink import JournalCounts
from lethe.adapters.metric_types import Metric, MetricKind

Labels = Mapping[str, str]


def family(metric: Metric) -> Family:
    # The text format appends _total to counters. Kafka's names have no such suffix, so these counters are untyped.
    kind = metric.kind.value
    if metric.kind is MetricKind.COUNTER and not metric.name.endswith("_total"):
        kind = "unknown"
    return Family(metric.name.removesuffix("_total"), metric.meaning, kind)


def values(metric: Metric, rows: Iterable[tuple[Labels, float]]) -> Family:
    found = family(metric)
    for labels, value in rows:
        found.add_sample(metric.name, dict(labels), float(value))
    return found


def single(metric: Metric, value: float) -> Family:
    return values(metric, [({}, value)])


def journal_families(metrics: Sequence[Metric], counts: JournalCounts) -> Iterator[Family]:
    """Return the families of JOURNAL_FILES or JOURNAL_TOPIC."""
    return map(single, metrics, (counts.written, counts.lost, counts.failing is not None))


class _Gathered(Collector):
    """Collector of families that are gathered already."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def written(families: Iterable[Family]) -> bytes:
    """Return the families in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Gathered(families))
    return generate_latest(registry)
