"""Build prometheus_client families of samples and buckets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from prometheus_client.core import Metric as Family

from lethe.adapters.metric_families import Labels, family
from lethe.adapters.metric_types import Metric
from lethe.controller.runtime.samples import Buckets, Sample

V = TypeVar("V")


def labelled(label: str, values: Mapping[str, V]) -> list[tuple[Labels, V]]:
    """Return one row per key; the key is the value of `label`."""
    return [({label: key}, value) for key, value in values.items()]


def summaries(metric: Metric, rows: Iterable[tuple[Labels, Sample]]) -> Family:
    found = family(metric)
    for labels, sample in rows:
        for quantile, value in sample.quantiles():
            found.add_sample(metric.name, {**labels, "quantile": str(quantile)}, value)
        found.add_sample(f"{metric.name}_count", dict(labels), float(sample.count))
        found.add_sample(f"{metric.name}_sum", dict(labels), sample.total)
    return found


def histograms(metric: Metric, rows: Iterable[tuple[Labels, Buckets]]) -> Family:
    found = family(metric)
    for labels, buckets in rows:
        for bound, count in buckets.cumulative():
            found.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, count)
        found.add_sample(f"{metric.name}_count", dict(labels), float(buckets.count))
        found.add_sample(f"{metric.name}_sum", dict(labels), buckets.total)
    return found
