"""Scales keep within their ends, and their ticks are round."""

from __future__ import annotations

import pytest

from lethe.pipeline.report import axes


@pytest.mark.parametrize(
    "extent_ms", [1, 37, 999, 20_000, 3_600_000, 86_400_000, 40 * 86_400_000, 20 * 365 * 86_400_000]
)
def test_a_clock_has_some_ticks_and_not_too_many(extent_ms: int) -> None:
    start = 1_795_286_668_123
    scale = axes.clock_scale(start, start + extent_ms)
    assert len(scale.ticks) <= 8
    assert all(0 <= tick.place <= 100 for tick in scale.ticks)
    assert sorted(tick.place for tick in scale.ticks) == [tick.place for tick in scale.ticks]


def test_midnight_is_called_by_its_date() -> None:
    start = 1_795_286_668_000
    labels = [tick.label for tick in axes.clock_scale(start, start + 86_400_000).ticks]
    assert "22 Nov" in labels
    assert "06:00" in labels


def test_what_lies_outside_is_put_at_the_end() -> None:
    scale = axes.elapsed_scale(10_000)
    assert scale.at(-5) == 0
    assert scale.at(5_000) == 50
    assert scale.at(99_999) == 100


def test_a_scale_without_extent_does_not_divide_by_zero() -> None:
    assert axes.clock_scale(5, 5).at(5) == 0
    assert axes.elapsed_scale(0).at(0) == 0
    assert axes.count_scale(0).ticks


def test_decades_of_a_logarithmic_axis_are_alike() -> None:
    scale = axes.log_scale(1, 1_000_000)
    assert scale.at(0) == scale.at(1) == 0
    assert scale.at(1_000) == pytest.approx(50)
    assert [tick.label.replace("\u00a0", " ") for tick in scale.ticks][:4] == ["1 ms", "10 ms", "100 ms", "1 s"]


def test_a_short_logarithmic_axis_has_labels_too() -> None:
    labels = [tick.label.replace("\u00a0", " ") for tick in axes.log_scale(1_500, 17_000).ticks]
    assert labels == ["2 s", "5 s", "10 s"]


@pytest.mark.parametrize("about, step", [(0, 1), (0.3, 0.5), (1, 1), (3, 5), (7, 10), (120, 200)])
def test_round_steps(about: float, step: float) -> None:
    assert axes.round_step(about) == pytest.approx(step)
