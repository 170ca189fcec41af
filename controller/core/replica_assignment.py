"""Assigns a new topic's replicas to brokers: Kafka's rule (AdminUtils.assignReplicasToBrokers in 3.9).

First replicas go round the broker list from `start_index`; the further replicas of a partition follow at a distance
that grows by one each time the list has been gone round, so that the followers of one leader are spread. With racks,
the list alternates between racks and a broker is passed over while its rack has a replica and another has none.

Kafka draws `start_index` and `shift` at random; here they are arguments, so that the same arguments give the same
replica assignment. Given the same two numbers the result is Kafka's, replica for replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class ReplicaAssignmentError(ValueError):
    """The requested assignment is impossible; the text is the reason."""


class RacksIncomplete(ReplicaAssignmentError):
    """Only some brokers name a rack. Without racks the assignment is possible."""


class BrokerRack(NamedTuple):
    """A broker that can host replicas, and its rack."""

    id: int
    rack: str | None = None


def place_replicas(
    brokers: Iterable[BrokerRack],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int,
    shift: int,
    first_partition: int = 0,
) -> tuple[tuple[int, ...], ...]:
    """Return the replicas of each partition from `first_partition` on, the preferred replica first.

    `start_index` and `shift` are not negative. Raises ReplicaAssignmentError if a count is not positive, if there are
    fewer brokers than replicas, or if only some brokers have a rack.
    """
    ordered = sorted(brokers)
    if partitions <= 0:
        raise ReplicaAssignmentError(f"the number of partitions must be larger than 0, not {partitions}")
    if replication_factor <= 0:
        raise ReplicaAssignmentError(f"the replication factor must be larger than 0, not {replication_factor}")
    if replication_factor > len(ordered):
        ids = ", ".join(str(broker.id) for broker in ordered) or "none"
        raise ReplicaAssignmentError(
            f"replication factor {replication_factor} is larger than the number of available brokers, "
            f"{len(ordered)} (registered: {ids})"
        )
    racks = {broker.id: broker.rack for broker in ordered if broker.rack is not None}
    if racks and len(racks) < len(ordered):
        bare = ", ".join(str(broker.id) for broker in ordered if broker.rack is None)
        raise RacksIncomplete(f"some brokers name a rack and others do not (without: {bare})")
    ring = rack_alternated(racks) if racks else [broker.id for broker in ordered]
    placed = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(ring) == 0:
            shift += 1
        first = (partition + start_index) % len(ring)
        if racks:
            placed.append(_spread_over_racks(ring, racks, first, shift, replication_factor))
        else:
            followers = (ring[_follower(first, shift, n, len(ring))] for n in range(replication_factor - 1))
            placed.append((ring[first], *followers))
    return tuple(placed)


def rack_alternated(racks: dict[int, str]) -> list[int]:
    """Return the broker ids, alternating between racks: racks by name, within a rack by id."""
    waiting: dict[str, list[int]] = {rack: [] for rack in sorted(set(racks.values()))}
    for broker in sorted(racks, reverse=True):
        waiting[racks[broker]].append(broker)
    result: list[int] = []
    while len(result) < len(racks):
        result.extend(ids.pop() for ids in waiting.values() if ids)
    return result


def _follower(first: int, shift: int, n: int, brokers: int) -> int:
    return (first + 1 + (shift + n) % (brokers - 1)) % brokers


def _spread_over_racks(
    ring: Sequence[int], racks: dict[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    rack_count = len(set(racks.values()))
    replicas = [ring[first]]
    used = {racks[ring[first]]}
    step = 0
    while len(replicas) < replication_factor:
        broker = ring[_follower(first, shift * rack_count, step, len(ring))]
        step += 1
        rack_is_free = racks[broker] not in used or len(used) == rack_count
        if rack_is_free and broker not in replicas:
            replicas.append(broker)
            used.add(racks[broker])
    return tuple(replicas)
