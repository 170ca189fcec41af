"""Which brokers get the replicas that were placed on a controller."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from lethe.controller.core.eviction import BrokerSelection
from lethe.controller.core.replica_assignment import BrokerRack

SELF = 1000


def selection(*brokers: int, racks: str = "") -> BrokerSelection:
    return BrokerSelection((BrokerRack(b, racks[n] if racks else None) for n, b in enumerate(brokers)), [SELF])


def test_a_broker_takes_the_place_of_the_controller() -> None:
    assert selection(1, 2, 3).replace_controllers((1, SELF, 3), 0) == (1, 2, 3)
    assert selection(1, 2, 3).replace_controllers((SELF, 2, 3), 0) == (1, 2, 3)


def test_what_has_no_controller_stays_as_it_is() -> None:
    assert selection(1, 2).replace_controllers((2, 7), 0) == (2, 7)


def test_where_every_broker_has_one_the_controller_is_kept_as_the_last() -> None:
    assert selection(1, 2).replace_controllers((SELF, 2, 1), 0) == (2, 1, SELF)
    assert selection().replace_controllers((SELF,), 0) == (SELF,)


def test_several_controllers_in_one_list() -> None:
    chooser = BrokerSelection((BrokerRack(b) for b in (1, 2)), [SELF, SELF + 1])
    assert chooser.replace_controllers((SELF, SELF + 1, 5), 0) == (1, 2, 5)
    assert chooser.replace_controllers((SELF, SELF + 1, 1), 0) == (2, 1, SELF + 1)


def test_a_rack_without_a_replica_comes_first() -> None:
    chooser = selection(1, 2, 3, 4, racks="aabb")
    chooser.note((3, 3, 4, 4))
    assert chooser.replace_controllers((1, SELF), 0) == (1, 3)
    assert chooser.replace_controllers((1, 3, SELF), 0) == (1, 3, 2)


def test_equal_brokers_take_turns_from_the_start_given() -> None:
    assert [selection(1, 2, 3).replace_controllers((SELF,), start) for start in range(4)] == [(1,), (2,), (3,), (1,)]


def test_fifty_partitions_are_spread_evenly() -> None:
    chooser = selection(1, 2, 3)
    placed = [(1, 2, 3, SELF)[n % 4] for n in range(50)]
    for broker in placed:
        chooser.note((broker,))
    moved = [chooser.replace_controllers((broker,), n)[0] for n, broker in enumerate(placed)]
    assert sorted(Counter(moved).values()) == [16, 17, 17]


@given(
    brokers=st.lists(st.integers(1, 9), unique=True, max_size=9),
    replicas=st.lists(st.sampled_from([*range(1, 12), SELF]), unique=True, min_size=1, max_size=6),
    racks=st.lists(st.sampled_from("abc"), min_size=9, max_size=9),
    start=st.integers(0, 2**40),
)
def test_nobody_is_lost_or_named_twice(brokers: list[int], replicas: list[int], racks: list[str], start: int) -> None:
    chooser = BrokerSelection((BrokerRack(b, racks[b - 1]) for b in brokers), [SELF])
    after = chooser.replace_controllers(replicas, start)
    assert len(after) == len(replicas) == len(set(after))
    kept = [r for r in replicas if r != SELF]
    assert [r for r in after if r in kept] == kept
    assert set(after) <= {*kept, *brokers, SELF}
    assert SELF not in after or set(brokers) <= set(kept)
