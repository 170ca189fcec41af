"""How many deletions have ended in the last minute."""

from __future__ import annotations

from lethe.controller.runtime.board.pace import WINDOW_S, Pace


def test_the_last_minute_is_counted_and_what_is_older_is_not() -> None:
    pace = Pace()
    assert pace.last_minute(0) == (0, 0)
    for _ in range(3):
        pace.note(partitions=2, now_ms=1_000)
    pace.note(partitions=5, now_ms=31_000)
    assert pace.last_minute(31_999) == (4, 11)
    assert pace.last_minute((1 + WINDOW_S) * 1_000) == (1, 5)
    assert pace.last_minute(1_000_000) == (0, 0)


def test_many_seconds_and_another_tenure() -> None:
    pace = Pace()
    for second in range(1_000):
        pace.note(partitions=1, now_ms=second * 1_000)
    assert pace.last_minute(999_000) == (WINDOW_S, WINDOW_S)
    pace.clear()
    assert pace.last_minute(999_000) == (0, 0)
