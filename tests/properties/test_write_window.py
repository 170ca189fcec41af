"""Whatever is answered when, the window stays within its limits, and follows how ZooKeeper answers."""

from hypothesis import given
from hypothesis import strategies as st

from lethe.adapters.zookeeper.write_window import WriteWindow

TARGET_MS = 200.0
LATENCIES = st.one_of(st.none(), st.floats(0, 10_000))


@given(st.integers(1, 20), st.data())
def test_it_is_never_empty_never_above_its_limit_and_never_overfull(most: int, data: st.DataObject) -> None:
    window = WriteWindow(most, TARGET_MS)
    unanswered: list[int] = []
    for send in data.draw(st.lists(st.booleans(), max_size=80)):
        before = window.size
        if send and window.has_room:
            unanswered.append(window.send())
        elif unanswered:
            number = unanswered.pop(data.draw(st.integers(0, len(unanswered) - 1)))
            window.settle(number, data.draw(LATENCIES))
        assert 1 <= window.size <= most
        assert window.size in (before, before + 1, max(1, before // 2))
        assert window.unanswered == len(unanswered) <= most
        assert window.has_room == (len(unanswered) < window.size)


def rounds(window: WriteWindow, count: int, latency_ms: float) -> list[int]:
    """The window's size after each of so many full windows that are answered in order."""
    sizes = []
    for _ in range(count):
        for number in [window.send() for _ in range(window.size)]:
            window.settle(number, latency_ms)
        sizes.append(window.size)
    return sizes


@given(st.integers(1, 40), st.floats(0, TARGET_MS), st.floats(TARGET_MS + 0.1, 10_000))
def test_slow_answers_close_it_at_once_and_quick_ones_open_it_again(most: int, quick: float, slow: float) -> None:
    window = WriteWindow(most, TARGET_MS)
    assert rounds(window, 3, quick) == [most] * 3
    closing = rounds(window, most.bit_length(), slow)
    assert closing == sorted(closing, reverse=True)
    assert closing[-1] == 1
    opening = rounds(window, most, quick)
    assert opening == [min(most, 2 + n) for n in range(most)]


@given(st.integers(2, 40), st.integers(1, 60))
def test_it_settles_where_the_latency_is_that_of_a_queue(most: int, per_multi_ms: int) -> None:
    """A server that takes so long for each multi, one after the other: after the first rounds a full window waits no
    longer than the target and one multi more, and at least half of what the target has room for is sent."""
    window = WriteWindow(most, TARGET_MS)
    sizes: list[int] = []
    for _ in range(120):
        batch = [window.send() for _ in range(window.size)]
        sizes.append(len(batch))
        for place, number in enumerate(batch):
            window.settle(number, per_multi_ms * (place + 1.0))
    room = max(1, min(most, int(TARGET_MS // per_multi_ms)))
    assert max(sizes[20:]) <= min(most, room + 1)
    assert min(sizes[60:]) >= max(1, room // 2)
