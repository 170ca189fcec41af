"""Waits between attempts."""

from itertools import pairwise

import pytest

from lethe.protocol.back_off import BackOff


@pytest.mark.parametrize("limits", [(100, 5_000), (1, 1), (100, 100), (100, 101), (100, 200), (100, 201), (50, 6_400)])
def test_waits_double_up_to_the_longest(limits: tuple[int, int]) -> None:
    back_off = BackOff(*limits)
    waits = [back_off.wait_ms(attempt) for attempt in range(40)]
    assert waits[:2] == [0, limits[0]]
    assert all(later == min(2 * earlier, limits[1]) for earlier, later in pairwise(waits[1:]))
    assert waits.index(limits[1]) == back_off.first_longest
