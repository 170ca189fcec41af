"""What `make load` makes of what it has measured."""

from __future__ import annotations

import pytest

from tests.load.__main__ import longest
from tests.load.clients import percentile


@pytest.mark.parametrize(
    "values, share, expected",
    [([5.0], 0.99, 5.0), ([3.0, 1.0, 2.0, 4.0], 0.5, 2.0), ([float(n) for n in range(1, 101)], 0.99, 99.0)],
)
def test_percentile_is_one_of_the_values(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == expected


def test_no_percentile_without_values() -> None:
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.99)


def test_only_events_of_the_load_count() -> None:
    before = {0.1: 1.0, 1.0: 5.0, float("inf"): 5.0}
    after = {0.1: 100.0, 1.0: 105.0, float("inf"): 105.0}
    assert longest(before, after, 0.9) == 0.1
    assert longest(before, after, 1.0) == 1.0
    assert longest({}, {}, 0.99) == float("inf")
