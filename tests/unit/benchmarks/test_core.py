"""The benchmark of the core deletes what it makes, and what the core does grows with replicas, not with brokers."""

from __future__ import annotations

import pytest

from benchmarks.canned_cluster import PARTITIONS_PER_TOPIC, REPLICATION_FACTOR
from benchmarks.core import Phase, phases

TOPICS = 20


def deletion(brokers: int) -> Phase:
    return phases(TOPICS * PARTITIONS_PER_TOPIC, brokers)[-1]


@pytest.mark.parametrize("brokers", [3, 30, 300])
def test_effects_of_a_deletion_are_bounded_by_answers_and_phases(brokers: int) -> None:
    hosts = min(brokers, PARTITIONS_PER_TOPIC + REPLICATION_FACTOR - 1)
    lines_of_phases, requests = 10, 5
    # An answer is one line for each topic on the broker; a request is one line and one effect.
    assert deletion(brokers).effects <= TOPICS * (hosts + lines_of_phases) + 2 * requests * brokers


def test_the_phases_are_measured_in_their_order() -> None:
    assert [phase.name for phase in phases(PARTITIONS_PER_TOPIC, 4)] == ["load and take over", "create", "delete"]
