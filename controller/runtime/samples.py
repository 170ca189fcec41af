"""Distributions for metrics: `Sample` as Kafka shows them, `Buckets` as Prometheus histograms.

Kafka's metrics library shows count and quantiles of a sample; dashboards made for Kafka need these. Prometheus
histograms can be added over processes and time, so metrics that Kafka does not have use them.
"""

from __future__ import annotations

import bisect
import functools
from collections import deque
from collections.abc import Sequence
from typing import Final

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""The quantiles that Kafka's metrics library shows."""
SAMPLE_SIZE: Final = 1028
"""Kafka's sample size. Here the sample is the latest values, which needs no randomness."""

SECONDS_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LONG_SECONDS_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0)


@functools.cache
def _words(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return (*map(str, bounds), "+Inf")


class Sample:
    """Count, sum, minimum, maximum and quantiles of values."""

    __slots__ = ("_latest", "_quantiles", "count", "max", "min", "total")

    def __init__(self) -> None:
        self._latest: deque[float] = deque(maxlen=SAMPLE_SIZE)
        self._quantiles: list[tuple[float, float]] | None = None
        self.count = 0
        self.total = 0.0
        self.min = 0.0
        self.max = 0.0

    def add(self, value: float) -> None:
        self.min = value if not self.count else min(self.min, value)
        self.max = max(self.max, value)
        self.count += 1
        self.total += value
        self._latest.append(value)
        self._quantiles = None

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]

    def quantiles(self) -> list[tuple[float, float]]:
        """Return (quantile, value) for each of QUANTILES over the latest values; the value is 0 where there are
        none."""
        if self._quantiles is None:
            ordered = sorted(self._latest) or [0.0]
            last = len(ordered) - 1
            self._quantiles = [(each, ordered[min(last, int(each * len(ordered)))]) for each in QUANTILES]
        return self._quantiles


class Buckets:
    """A Prometheus histogram: counts of values by upper bound."""

    __slots__ = ("_bounds", "_counts", "_words", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS_BUCKETS) -> None:
        self._bounds = tuple(bounds)
        self._words = _words(self._bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (upper bound, number of values up to it) for each bucket in Prometheus' text format; the last is
        +Inf."""
        rows: list[tuple[str, float]] = []
        running = 0
        for bound, count in zip(self._words, self._counts, strict=True):
            running += count
            rows.append((bound, float(running)))
        return rows
