"""Replica replica assignment gives what Kafka's AdminUtils gives, and refuses what it refuses."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.controller.core.replica_assignment import BrokerRack, ReplicaAssignmentError, place_replicas, rack_alternated

GOLDEN = Path(__file__).with_name("placements.txt").read_text().splitlines()[1:]
BROKERS = [BrokerRack(n) for n in range(5)]


@pytest.mark.parametrize("line", GOLDEN)
def test_same_placement_as_kafka(line: str) -> None:
    brokers, partitions, replication_factor, start, first, replicas = line.split("|")
    pairs = [text.split(":") for text in brokers.split()]
    placed = place_replicas(
        [BrokerRack(int(broker), None if rack == "-" else rack) for broker, rack in pairs],
        int(partitions),
        int(replication_factor),
        start_index=int(start),
        shift=int(start),
        first_partition=int(first),
    )
    assert [list(row) for row in placed] == json.loads(replicas)


def test_racks_alternate() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert rack_alternated(racks) == [0, 3, 1, 5, 4, 2]
    del racks[5]
    assert rack_alternated(racks) == [0, 3, 1, 4, 2]


def test_the_order_in_which_brokers_are_named_does_not_matter() -> None:
    forwards = place_replicas(BROKERS, 10, 3, start_index=0, shift=0)
    assert place_replicas(reversed(BROKERS), 10, 3, start_index=0, shift=0) == forwards
    assert forwards[0] == (0, 1, 2)
    assert forwards[5] == (0, 2, 3)


@pytest.mark.parametrize(
    "partitions,replication_factor,words",
    [
        (0, 1, "number of partitions must be larger than 0, not 0"),
        (1, 0, "replication factor must be larger than 0, not 0"),
        (1, 6, r"replication factor 6 is larger than .* 5 \(registered: 0, 1, 2, 3, 4\)"),
    ],
)
def test_impossible_counts_are_refused(partitions: int, replication_factor: int, words: str) -> None:
    with pytest.raises(ReplicaAssignmentError, match=words):
        place_replicas(BROKERS, partitions, replication_factor, start_index=0, shift=0)


def test_racks_of_some_brokers_only_are_refused() -> None:
    with pytest.raises(ReplicaAssignmentError, match=r"without: 1\)"):
        place_replicas([BrokerRack(0, "a"), BrokerRack(1)], 1, 1, start_index=0, shift=0)


@given(
    racks=st.lists(st.sampled_from("abc"), min_size=1, max_size=9),
    partitions=st.integers(1, 30),
    numbers=st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 40)),
    share=st.floats(0, 1),
)
def test_replicas_are_distinct_and_cover_the_racks(
    racks: list[str], partitions: int, numbers: tuple[int, int, int], share: float
) -> None:
    brokers = [BrokerRack(n, rack) for n, rack in enumerate(racks)]
    replication_factor = 1 + int(share * (len(brokers) - 1))
    start, shift, first = numbers
    placed = place_replicas(
        brokers, partitions, replication_factor, start_index=start, shift=shift, first_partition=first
    )
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == replication_factor
        assert len({racks[broker] for broker in replicas}) == min(replication_factor, len(set(racks)))
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.get(broker.id, 0) for broker in brokers) <= 1
