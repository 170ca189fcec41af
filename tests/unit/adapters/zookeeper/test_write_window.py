"""How far the window opens and closes; examples here, laws in tests/properties/test_write_window.py."""

import pytest

from lethe.adapters.zookeeper.write_window import WriteWindow

QUICK, SLOW = 80.0, 900.0


def test_a_slow_answer_closes_it_to_the_half_once_per_window() -> None:
    window = WriteWindow(10, 200)
    first = [window.send() for _ in range(10)]
    window.settle(first[0], SLOW)
    assert (window.size, window.closed) == (5, 1)
    for number in first[1:]:
        window.settle(number, SLOW)
    assert (window.size, window.closed, window.unanswered) == (5, 1, 0)
    window.settle(window.send(), SLOW)
    assert (window.size, window.closed) == (2, 2)


def test_a_whole_window_of_quick_answers_opens_it_by_one() -> None:
    window = WriteWindow(10, 200)
    window.settle(window.send(), SLOW)
    for expected in (5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 7):
        window.settle(window.send(), QUICK)
        assert window.size == expected


def test_quick_answers_to_what_was_sent_before_it_closed_do_not_open_it() -> None:
    window = WriteWindow(10, 200)
    first = [window.send() for _ in range(10)]
    window.settle(first[0], SLOW)
    for number in first[1:]:
        window.settle(number, QUICK)
    assert window.size == 5


def test_a_slow_answer_starts_the_count_of_quick_ones_anew() -> None:
    window = WriteWindow(4, 200)
    numbers = [window.send() for _ in range(3)]
    window.settle(numbers[0], SLOW)
    window.settle(numbers[1], QUICK)
    window.settle(numbers[2], SLOW)
    window.settle(window.send(), QUICK)
    assert window.size == 2
    window.settle(window.send(), QUICK)
    assert window.size == 3


def test_one_multi_may_always_be_sent() -> None:
    window = WriteWindow(3, 200)
    for _ in range(5):
        assert window.has_room
        window.settle(window.send(), SLOW)
    assert (window.size, window.closed) == (1, 1)


def test_a_lost_answer_makes_room_and_says_nothing_of_speed() -> None:
    window = WriteWindow(2, 200)
    first, second = window.send(), window.send()
    assert not window.has_room
    with pytest.raises(ValueError, match="2 multis are unanswered, and the window has 2"):
        window.send()
    window.settle(first, None)
    window.settle(second, None)
    assert (window.size, window.unanswered) == (2, 0)
