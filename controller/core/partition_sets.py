"""Partitions of one topic as bit sets, and such sets by a key that each partition has at most once.

Bit 3 of a bit set stands for partition 3. The replicas of a topic on one broker mostly have the same key, so `Sets` is
mostly one pair. Values are never changed, so topics may share them.

    keys         partitions 0, 1 and 2 are Online, 3 is Offline
    Sets         ((ONLINE, 0b0111), (OFFLINE, 0b1000))
    put(…)       partitions 1 and 3 become Offline: ((ONLINE, 0b0101), (OFFLINE, 0b1010))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from lethe.protocol.journal import partition_ranges
from lethe.protocol.vocabulary import BrokerId, PartitionReplica

K = TypeVar("K", bound=Hashable)
Bits = int
Sets = tuple[tuple[K, Bits], ...]
ReplicaColumns = Mapping[str, Mapping[BrokerId, Bits]]
"""Replicas by topic and broker."""

_FEW: Final = 256
_REMEMBERED: Final = 4096
"""Topics of one size have the same bit sets, so that few of them are expanded again and again."""


def key_of(sets: Sets[K], number: int) -> K | None:
    """Return the partition's key; None if it has none."""
    for key, bits in sets:
        if bits >> number & 1:
            return key
    return None


def partitions_with(sets: Sets[K], key: K) -> Bits:
    """Return the partitions with this key."""
    for each, bits in sets:
        if each == key:
            return bits
    return 0


def partitions_where(sets: Sets[K], counts: Callable[[K], bool]) -> Bits:
    """Return the partitions whose key counts."""
    # Loops over one pair, which most sets have, take a third of the time of `sum` and `next`.
    found = 0
    for key, bits in sets:
        if counts(key):
            found |= bits
    return found


def partitions_of(sets: Sets[K]) -> Bits:
    """Return the partitions with any key."""
    found = 0
    for _, bits in sets:
        found |= bits
    return found


def put(sets: Sets[K], bits: Bits, key: K | None) -> Sets[K]:
    """Give these partitions the key, or none."""
    if not bits:
        return sets
    if not sets or (len(sets) == 1 and not sets[0][1] & ~bits):
        return () if key is None else ((key, bits),)
    kept = [(each, left) for each, had in sets if each != key and (left := had & ~bits)]
    if key is not None and (mine := partitions_with(sets, key) | bits):
        kept.append((key, mine))
    return tuple(kept)


def bits_of(numbers: Iterable[int]) -> Bits:
    """Return the bit set of these partitions."""
    listed = list(numbers)
    if len(listed) <= _FEW:
        found = 0
        for number in listed:
            found |= 1 << number
        return found
    # Each step above copies the integer, which would be quadratic.
    octets = bytearray(max(listed) // 8 + 1)
    for number in listed:
        octets[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(octets, "little")


@lru_cache(_REMEMBERED)
def numbers_in(bits: Bits) -> Sequence[int]:
    """Return the partitions in a bit set, in rising order."""
    octets = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    return tuple(8 * at + bit for at, octet in enumerate(octets) if octet for bit in range(8) if octet >> bit & 1)


@lru_cache(_REMEMBERED)
def ranges_of(bits: Bits) -> str:
    """Return the partitions in a bit set as `0-3,7`."""
    return partition_ranges(numbers_in(bits))


def columns_of(replicas: Iterable[PartitionReplica]) -> ReplicaColumns:
    """Return these replicas by topic and broker, both in the order in which they come."""
    found: dict[str, dict[BrokerId, list[int]]] = {}
    for name, number, broker in replicas:
        found.setdefault(name, {}).setdefault(broker, []).append(number)
    return {name: {broker: bits_of(numbers) for broker, numbers in on.items()} for name, on in found.items()}


def replicas_in(columns: ReplicaColumns) -> Iterator[PartitionReplica]:
    """Yield these replicas topic by topic and partition by partition."""
    for name, on in columns.items():
        every = 0
        for bits in on.values():
            every |= bits
        for number in numbers_in(every):
            for broker, bits in on.items():
                if bits >> number & 1:
                    yield PartitionReplica(name, number, broker)


def chosen(replicas: ReplicaColumns, pick: Callable[[str, BrokerId, Bits], Bits]) -> ReplicaColumns:
    """Return what `pick` leaves of each topic's replicas on each broker, without empty columns."""
    found: dict[str, dict[BrokerId, Bits]] = {}
    for name, columns in replicas.items():
        left = {broker: kept for broker, bits in columns.items() if (kept := pick(name, broker, bits))}
        if left:
            found[name] = left
    return found


def without(replicas: ReplicaColumns, others: ReplicaColumns) -> ReplicaColumns:
    """Return the replicas that are not among the others."""
    return chosen(replicas, lambda name, broker, bits: bits & ~others.get(name, {}).get(broker, 0))
