"""Numbers with units, instants in UTC."""

from __future__ import annotations

import pytest

from lethe.pipeline.report import formatting


@pytest.mark.parametrize(
    "ms, said",
    [
        (0, "0 ms"),
        (340, "340 ms"),
        (999.6, "1.00 s"),
        (4_210, "4.21 s"),
        (61_000, "61.0 s"),
        (125_000, "2 min 5 s"),
        (7_800_000, "2 h 10 min"),
        (273_600_000, "3 d 4 h"),
        (None, "–"),
    ],
)
def test_durations(ms: float | None, said: str) -> None:
    assert formatting.duration(ms).replace("\u00a0", " ") == said


@pytest.mark.parametrize(
    "value, said",
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (16_384, "16.4 kB"), (999_600, "1.00 MB"), (5 * 10**18, "5.00 EB")],
)
def test_sizes(value: int, said: str) -> None:
    assert formatting.size(value).replace("\u00a0", " ") == said


@pytest.mark.parametrize("value, said", [(5_000_000, "5 MB"), (1_500, "1.5 kB"), (200, "200 B"), (100_000, "100 kB")])
def test_ticks_of_sizes(value: int, said: str) -> None:
    assert formatting.round_size(value).replace("\u00a0", " ") == said


def test_numbers_and_counts() -> None:
    assert formatting.number(1_234_567) == "1\u202f234\u202f567"
    assert formatting.count(1, "topic") == "1 topic"
    assert formatting.count(2, "directory", "directories") == "2 directories"


def test_instants_are_utc_and_broken_clocks_do_no_harm() -> None:
    assert formatting.instant(1_795_286_668_007) == "2026-11-21 18:44:28.007"
    assert formatting.instant(10**18)[:4] == "9999"
    assert formatting.instant(-(10**18))[:4] == "0001"[:0] + formatting.instant(-62_135_596_800_000)[:4]


@pytest.mark.parametrize(
    "step_ms, said", [(100, "18:44:28.007"), (1000, "18:44:28"), (60_000, "18:44"), (86_400_000, "21 Nov")]
)
def test_labels_of_an_axis_say_what_its_steps_need(step_ms: int, said: str) -> None:
    assert formatting.clock(1_795_286_668_007, step_ms) == said


@pytest.mark.parametrize("ms, said", [(500, "500 ms"), (10_000, "10 s"), (60_000, "1 min"), (86_400_000, "1 d")])
def test_round_steps(ms: int, said: str) -> None:
    assert formatting.step_words(ms).replace("\u00a0", " ") == said


def test_long_text_is_cut_with_a_sign() -> None:
    assert formatting.cut("x" * 300) == "x" * 300
    assert formatting.cut("x" * 301) == "x" * 299 + "…"
