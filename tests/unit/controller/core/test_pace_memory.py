"""Token buckets: what they give, what they owe, and when a cost can be paid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.controller.core.pace_memory import MICRO, Bucket, bucket_capacity


def test_a_bucket_is_full_when_it_is_first_used_and_never_fuller() -> None:
    bucket = Bucket()
    bucket.fill(2_000, 5)
    assert bucket.level == 2 * MICRO
    bucket.fill(2_000, 100_000)
    assert bucket.level == 2 * MICRO


@pytest.mark.parametrize("rate,capacity", [(1, MICRO), (1_000, MICRO), (20_000, 20 * MICRO)])
def test_it_holds_what_a_second_gives_and_at_least_one(rate: int, capacity: int) -> None:
    assert bucket_capacity(rate) == capacity


def test_a_debt_is_paid_before_anything_else() -> None:
    bucket = Bucket(-3 * MICRO, 0)
    assert bucket.wait_ms(MICRO, 1_000) == 4_000
    bucket.fill(1_000, 4_000)
    assert bucket.wait_ms(MICRO, 1_000) == 0


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = Bucket(0, 1_000)
    bucket.fill(1_000, 0)
    assert bucket.level == 0


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 10)), max_size=30), st.integers(1, 50_000))
def test_never_more_than_the_rate_gives_and_a_full_bucket(steps: list[tuple[int, int]], rate: int) -> None:
    bucket, now_ms, paid = Bucket(), 0, 0
    for wait_ms, cost in steps:
        now_ms += wait_ms
        bucket.fill(rate, now_ms)
        if not bucket.wait_ms(cost * MICRO, rate):
            before = paid
            paid += cost * MICRO
            assert before <= bucket_capacity(rate) + rate * now_ms
            assert bucket.level is not None
            bucket.level -= cost * MICRO
    if bucket.level is not None and bucket.level >= 0:
        assert paid <= bucket_capacity(rate) + rate * now_ms
