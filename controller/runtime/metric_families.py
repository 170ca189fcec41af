"""Build prometheus_client families from metric declarations and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from prometheus_client.core import Metric as Family

from lethe.controller.runtime.metric_types import Metric, MetricKind
from lethe.controller.runtime.samples import Buckets, Sample

Labels = Mapping[str, str]
V = TypeVar("V")


def labelled(label: str, values: Mapping[str, V]) -> list[tuple[Labels, V]]:
    """Return one row per key; the key is the value of `label`."""
    return [({label: key}, value) for key, value in values.items()]


def _family(metric: Metric) -> Family:
    # The text format appends _total to counters. Kafka's names have no such suffix, so these counters are untyped.
    kind = metric.kind.value
    if metric.kind is MetricKind.COUNTER and not metric.name.endswith("_total"):
        kind = "unknown"
    return Family(metric.name.removesuffix("_total"), metric.meaning, kind)


def values(metric: Metric, rows: Iterable[tuple[Labels, float]]) -> Family:
    family = _family(metric)
    for labels, value in rows:
        family.add_sample(metric.name, dict(labels), float(value))
    return family


def single(metric: Metric, value: float) -> Family:
    return values(metric, [({}, value)])


def summaries(metric: Metric, rows: Iterable[tuple[Labels, Sample]]) -> Family:
    family = _family(metric)
    for labels, sample in rows:
        for quantile, value in sample.quantiles():
            family.add_sample(metric.name, {**labels, "quantile": str(quantile)}, value)
        family.add_sample(f"{metric.name}_count", dict(labels), float(sample.count))
        family.add_sample(f"{metric.name}_sum", dict(labels), sample.total)
    return family


def histograms(metric: Metric, rows: Iterable[tuple[Labels, Buckets]]) -> Family:
    family = _family(metric)
    for labels, buckets in rows:
        for bound, count in buckets.cumulative():
            family.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, count)
        family.add_sample(f"{metric.name}_count", dict(labels), float(buckets.count))
        family.add_sample(f"{metric.name}_sum", dict(labels), buckets.total)
    return family
