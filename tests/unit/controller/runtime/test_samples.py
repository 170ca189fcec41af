from hypothesis import given
from hypothesis import strategies as st

from lethe.controller.runtime.samples import QUANTILES, SAMPLE_SIZE, Buckets, Sample


def test_an_empty_sample_is_all_zero() -> None:
    sample = Sample()
    assert (sample.count, sample.min, sample.max) == (0, 0, 0)
    assert sample.quantiles() == [(quantile, 0.0) for quantile in QUANTILES]


def test_clearing_forgets_everything() -> None:
    sample = Sample()
    sample.add(5)
    sample.clear()
    assert (sample.count, sample.total, sample.min, sample.max, sample.quantiles()[0][1]) == (0, 0, 0, 0, 0)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_quantiles_are_values_that_were_measured_and_rise(values: list[float]) -> None:
    sample = Sample()
    for value in values:
        sample.add(value)
    found = [value for _, value in sample.quantiles()]
    assert set(found) <= set(values)
    assert found == sorted(found)
    assert found[-1] == max(values)
    assert (sample.min, sample.max, sample.count) == (min(values), max(values), len(values))


def test_only_the_latest_values_count_for_quantiles() -> None:
    sample = Sample()
    for value in (*[1000.0] * 10, *[1.0] * SAMPLE_SIZE):
        sample.add(value)
    assert sample.quantiles()[-1] == (0.999, 1.0)
    assert (sample.max, sample.count) == (1000.0, SAMPLE_SIZE + 10)


@given(st.lists(st.floats(0, 100)))
def test_buckets_hold_every_value_once(values: list[float]) -> None:
    buckets = Buckets((0.5, 1.0, 50.0))
    for value in values:
        buckets.add(value)
    rows = buckets.cumulative()
    assert [bound for bound, _ in rows] == ["0.5", "1.0", "50.0", "+Inf"]
    assert [count for _, count in rows] == [sum(v <= b for v in values) for b in (0.5, 1.0, 50.0, float("inf"))]
    assert buckets.count == len(values)
