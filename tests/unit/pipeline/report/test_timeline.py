"""Which clock the rows have, and what a bar is made of."""

from __future__ import annotations

import re

from lethe.pipeline.report import timeline
from lethe.pipeline.report.values import DeletionSpan, Interval, Tenure

_NOTHING = dict.fromkeys(DeletionSpan._fields)


def span(
    marked: int, *after: int | None, outcome: str = "done", topic: str = "orders", waits: tuple[Interval, ...] = ()
) -> DeletionSpan:
    """Marked at an instant; then queued, started, tombstoned, acknowledged, znodes and bytes gone so long after it."""
    names = ("queued_at", "started_at", "tombstoned_at", "acknowledged_at", "znodes_gone_at", "bytes_gone_at")
    times = {name: None if ms is None else marked + ms for name, ms in zip(names, after, strict=False)}
    known = {
        "topic": topic,
        "marked_at": marked,
        "outcome": outcome,
        "held": (),
        "waited_for": waits,
        "controllers": (),
    }
    return DeletionSpan(**{**_NOTHING, **times, **known})  # type: ignore[arg-type]


def test_a_burst_has_one_clock() -> None:
    assert timeline.plan([span(0, 5, 9, 30, 400, 450, 1_000), span(800, 5, 9, 30, 400, 450, 1_000)]).is_clock


def test_deletions_of_many_days_begin_at_their_own_marks() -> None:
    plan = timeline.plan([span(day * 86_400_000, 5, 9, 30, 400, 450, 1_000) for day in range(5)])
    assert not plan.is_clock
    assert not plan.scale.is_log


def test_one_that_took_very_much_longer_makes_the_axis_logarithmic() -> None:
    usual = [span(day * 86_400_000_000, 5, 9, 30, 400, 450, 1_000) for day in range(9)]
    assert timeline.plan([*usual, span(0, 5, 9, 30, 3_600_000)]).scale.is_log


def test_a_bar_is_its_phases_in_order_as_drawn() -> None:
    one = span(1_000_000, 100, 200, 300, 600, 800, 1_000)
    drawn = timeline.bar(timeline.plan([one]), one)
    assert re.findall(r'<rect x="([\d.]+%)" width="([\d.]+%)" y="3" height="9" class="([\w-]+)">', drawn) == [
        ("0%", "9.8%", "p-held"),
        ("9.8%", "9.8%", "p-started"),
        ("19.61%", "9.8%", "p-started"),
        ("29.41%", "29.41%", "p-told"),
        ("58.82%", "19.61%", "p-acked"),
        ("78.43%", "19.61%", "p-gone"),
    ]


def test_phases_that_are_not_known_or_not_in_the_usual_order_leave_no_hole() -> None:
    one = span(1_000_000, 100, None, 600, 500, None, 1_000)
    drawn = timeline.bar(timeline.plan([one]), one)
    parts = re.findall(r'width="([\d.]+)%" y="3" height="9" class="([\w-]+)"', drawn)
    assert [class_ for _, class_ in parts] == ["p-held", "p-started", "p-acked", "p-told"]
    assert 97 < sum(float(width) for width, _ in parts) < 99


def test_an_open_deletion_goes_on_to_the_edge_and_its_wait_does_too() -> None:
    wait = Interval("gone", 1_000_300, None, None, 3, 2)
    one, other = span(1_000_000, 100, outcome="open", waits=(wait,)), span(1_000_000, 5, 9, 30, 400, 450, 1_000)
    drawn = timeline.bar(timeline.plan([one, other]), one)
    assert 'class="p-open"' in drawn
    (x, width), *_ = re.findall(r'<rect x="([\d.]+)%" width="([\d.]+)%" y="14" height="3" class="p-wait">', drawn)
    assert float(x) + float(width) == 100


def test_a_deletion_that_ended_otherwise_goes_no_further() -> None:
    one = span(1_000_000, 100, outcome="vanished")._replace(vanished_at=1_000_400)
    drawn = timeline.bar(timeline.plan([one, span(1_000_000, 5, 9, 30, 400, 450, 1_000)]), one)
    assert 'class="p-open"' not in drawn
    assert timeline.describe(one).replace("\u00a0", " ").endswith("queued after 100 ms; vanished after 400 ms")


def test_a_span_of_which_no_time_is_known_is_an_empty_row() -> None:
    nothing = span(0)._replace(marked_at=None, outcome="open")
    assert "no time is known" in timeline.bar(timeline.plan([nothing]), nothing)


def test_elections_are_drawn_across_a_burst() -> None:
    elected = Tenure(1002, 2, 1_000_400, None, None, None, None, None, None)
    plan = timeline.plan([span(1_000_000, 5, 9, 30, 400, 450, 1_000)], [elected, elected._replace(elected_at=5)])
    assert len(plan.changes) == 1
    assert "controller 1002 elected" in timeline.axis(plan)


def test_a_row_in_words_says_what_is_drawn() -> None:
    wait = Interval("gone", 1_000_300, 1_000_400, 100, 3, 2)
    said = timeline.describe(span(1_795_286_668_000, 5, 9, 30, 400, 450, 1_000, waits=(wait,))).replace("\u00a0", " ")
    assert said == (
        "marked 2026-11-21 18:44:28.000; queued after 5 ms; started after 9 ms; tombstoned after 30 ms; "
        "acknowledged after 400 ms; znodes gone after 450 ms; bytes gone after 1.00 s; waited for broker 3 100 ms"
    )
