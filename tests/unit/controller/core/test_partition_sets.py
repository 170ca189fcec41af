"""Bit sets of partitions against plain sets and dictionaries."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from lethe.controller.core.partition_sets import (
    ReplicaColumns,
    Sets,
    bits_of,
    by_broker,
    by_members,
    changes,
    columns_of,
    key_of,
    numbers_in,
    partitions_of,
    partitions_with,
    put,
    ranges_of,
    replicas_in,
    without,
)
from lethe.protocol.vocabulary import BrokerId, PartitionReplica

NUMBERS = st.sets(st.integers(0, 70), max_size=12)
KEYS = st.sampled_from(["new", "online", "offline", None])
CHANGES = st.lists(st.tuples(NUMBERS, KEYS), max_size=8)
REPLICAS = st.sets(
    st.builds(PartitionReplica, st.sampled_from("ab"), st.integers(0, 9), st.integers(1, 4).map(BrokerId)), max_size=20
)


@given(NUMBERS)
def test_a_bit_set_holds_its_numbers(numbers: set[int]) -> None:
    assert list(numbers_in(bits_of(numbers))) == sorted(numbers)


@given(st.sets(st.integers(0, 2_000), min_size=300, max_size=600))
def test_a_bit_set_holds_many_numbers(numbers: set[int]) -> None:
    assert list(numbers_in(bits_of(numbers))) == sorted(numbers)


def test_large_bit_sets_do_not_stay_in_memory() -> None:
    full = (1 << 2_000) - 1
    tracemalloc.start()
    try:
        for number in range(200):
            assert len(numbers_in(full ^ 1 << number)) == 1_999
            assert ranges_of(full ^ 1 << number).endswith("-1999")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 5e6, "200 sets of 2,000 numbers take 13 MB"


@given(CHANGES)
def test_a_partition_has_the_key_that_it_was_given_last(given_keys: list[tuple[set[int], str | None]]) -> None:
    sets: Sets[str] = ()
    model: dict[int, str] = {}
    for numbers, key in given_keys:
        before = sets
        sets = put(sets, bits_of(numbers), key)
        assert put(before, bits_of(numbers), key) == sets
        for number in numbers:
            model.pop(number, None)
            if key is not None:
                model[number] = key
    assert {number: key_of(sets, number) for number in range(71)} == {n: model.get(n) for n in range(71)}
    assert partitions_of(sets) == bits_of(model)
    assert all(bits == partitions_with(sets, key) == bits_of(n for n in model if model[n] == key) for key, bits in sets)
    assert len({key for key, _ in sets}) == len(sets)
    assert all(bits for _, bits in sets)


@given(st.dictionaries(st.integers(0, 70), KEYS.filter(bool), max_size=12), NUMBERS, KEYS.filter(bool))
def test_changes_are_the_partitions_that_had_another_key(had: dict[int, str], numbers: set[int], after: str) -> None:
    sets: Sets[str] = ()
    for number, key in had.items():
        sets = put(sets, 1 << number, key)
    found = [(n, before) for before, bits in changes(sets, bits_of(numbers), after, "new") for n in numbers_in(bits)]
    assert sorted(found) == [(n, before) for n in sorted(numbers) if (before := had.get(n, "new")) != after]


@given(REPLICAS)
def test_partitions_by_the_brokers_that_have_them_and_back(replicas: set[PartitionReplica]) -> None:
    for columns in columns_of(sorted(replicas)).values():
        groups = by_members(columns)
        rows = [(number, members) for members, bits in groups.items() for number in numbers_in(bits)]
        assert by_broker(rows) == columns
        assert len(dict(rows)) == len(rows)
        assert all(list(members) == [each for each in columns if each in members] for members in groups)


def test_ranges_of_a_bit_set() -> None:
    assert ranges_of(0b1000_1111) == "0-3,7"
    assert ranges_of(0) == ""


@given(REPLICAS, REPLICAS)
def test_columns_hold_replicas(some: set[PartitionReplica], others: set[PartitionReplica]) -> None:
    columns: ReplicaColumns = columns_of(some)
    listed = list(replicas_in(columns))
    assert len(listed) == len(some)
    assert set(listed) == some
    assert set(replicas_in(without(columns, columns_of(others)))) == some - others
    for topic in "ab":
        numbers = [replica.partition for replica in listed if replica.topic == topic]
        assert numbers == sorted(numbers)


def test_nothing_is_left_of_columns_without_replicas() -> None:
    columns = columns_of([PartitionReplica("a", 3, BrokerId(1)), PartitionReplica("b", 0, BrokerId(2))])
    assert without(columns, columns) == {}
    assert without(columns, {"a": {BrokerId(1): 0b1000}}) == {"b": {BrokerId(2): 1}}
