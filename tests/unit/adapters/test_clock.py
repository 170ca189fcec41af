import time

import pytest

from lethe.adapters.clock import SystemClock


def test_starts_at_the_wall_clock_and_never_goes_back() -> None:
    before = time.time_ns() // 1_000_000
    clock = SystemClock()
    seen = [clock.now_ms() for _ in range(1000)]
    assert abs(seen[0] - before) < 60_000
    assert seen == sorted(seen)


def test_setting_the_wall_clock_does_not_move_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    first = clock.now_ms()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert clock.now_ms() >= first
