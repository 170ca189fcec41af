"""Partitions of one topic as bit sets, and such sets by a key that each partition has at most once.

Bit 3 of a bit set stands for partition 3. The replicas of a topic on one broker mostly have the same key, so `Sets` is
mostly one pair. Values are never changed, so topics may share them.

    keys         partitions 0, 1 and 2 are Online, 3 is Offline
    Sets         ((ONLINE, 0b0111), (OFFLINE, 0b1000))
    put(…)       partitions 1 and 3 become Offline: ((ONLINE, 0b0101), (OFFLINE, 0b1010))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from itertools import compress
from typing import Concatenate, Final, ParamSpec, TypeVar

from lethe.protocol.journal import partition_ranges
from lethe.protocol.partition_bits import Bits as Bits
from lethe.protocol.partition_bits import bits_of as bits_of
from lethe.protocol.vocabulary import BrokerId, PartitionReplica, TopicPartition

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")
Sets = tuple[tuple[K, Bits], ...]
PartitionColumns = Mapping[str, Bits]
"""Partitions by topic."""
ReplicaColumns = Mapping[str, Mapping[BrokerId, Bits]]
"""Replicas by topic and broker."""

_MANY: Final = 1 << 256
"""Bit sets from here on are of large topics. What is remembered outlives the topics, so little of these is."""
_REMEMBERED_MANY: Final = 32
_TO_SELECTORS: Final = bytes.maketrans(b"0", b"\0")


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


def changes(sets: Sets[K], bits: Bits, after: K | None, otherwise: K) -> Iterator[tuple[K, Bits]]:
    """Yield those of these partitions that have another key than `after`, by key; `otherwise`: those without one."""
    for before, had in sets:
        changed = had & bits
        bits &= ~changed
        if changed and before != after:
            yield before, changed
    if bits and otherwise != after:
        yield otherwise, bits


def remembered(count: int) -> Callable[[Callable[Concatenate[Bits, P], V]], Callable[Concatenate[Bits, P], V]]:
    """Remember the latest values of a function of a bit set: `count`, and a few of large bit sets. Topics of one size
    have the same bit sets."""

    def decorate(made: Callable[Concatenate[Bits, P], V]) -> Callable[Concatenate[Bits, P], V]:
        of_few: Callable[..., V] = lru_cache(count)(made)
        of_many: Callable[..., V] = lru_cache(_REMEMBERED_MANY)(made)

        @wraps(made)
        def find(bits: Bits, /, *rest: P.args, **named: P.kwargs) -> V:
            return (of_few if bits < _MANY else of_many)(bits, *rest, **named)

        return find

    return decorate


@remembered(4096)
def numbers_in(bits: Bits) -> Sequence[int]:
    """Return the partitions in a bit set, in rising order."""
    selectors = f"{bits:b}"[::-1].encode().translate(_TO_SELECTORS)
    return tuple(compress(range(len(selectors)), selectors))


@remembered(4096)
def ranges_of(bits: Bits) -> str:
    """Return the partitions in a bit set as `0-3,7`."""
    return partition_ranges(numbers_in(bits))


def packed(numbers: Mapping[str, Iterable[int]]) -> PartitionColumns:
    """Return these topics' partitions as bit sets, without empty ones."""
    return {name: bits for name, listed in numbers.items() if (bits := bits_of(listed))}


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of these partitions by topic, in the order in which the topics come."""
    found: dict[str, list[int]] = {}
    for name, number in partitions:
        found.setdefault(name, []).append(number)
    return found


def partition_columns(partitions: Iterable[TopicPartition]) -> PartitionColumns:
    """Return these partitions by topic. Numbers must be those of known partitions, which are small."""
    return packed(by_topic(partitions))


def partitions_in(columns: PartitionColumns) -> Iterator[TopicPartition]:
    """Yield these partitions topic by topic, in rising order."""
    return (TopicPartition(name, number) for name, bits in columns.items() for number in numbers_in(bits))


def by_broker(rows: Iterable[tuple[int, tuple[int, ...]]]) -> dict[BrokerId, Bits]:
    """Return each broker's partitions from rows of a partition and its brokers, brokers in the order of the rows."""
    same: dict[tuple[int, ...], list[int]] = {}
    for number, brokers in rows:
        same.setdefault(brokers, []).append(number)
    found: dict[BrokerId, Bits] = {}
    for brokers, numbers in same.items():
        bits = bits_of(numbers)
        for broker in brokers:
            found[BrokerId(broker)] = found.get(BrokerId(broker), 0) | bits
    return found


def by_members(columns: Mapping[BrokerId, Bits]) -> dict[tuple[BrokerId, ...], Bits]:
    """Return these partitions by the brokers that have them, in the order of the columns."""
    groups: dict[tuple[BrokerId, ...], Bits] = {(): union(columns)}
    for broker, bits in columns.items():
        split = {(*members, broker): both for members, had in groups.items() if (both := had & bits)}
        groups = split | {members: rest for members, had in groups.items() if (rest := had & ~bits)}
    groups.pop((), None)
    return groups


def union(columns: Mapping[BrokerId, Bits]) -> Bits:
    """Return the partitions that any broker has."""
    every = 0
    for bits in columns.values():
        every |= bits
    return every


def common(partitions: PartitionColumns, others: PartitionColumns) -> PartitionColumns:
    """Return those of these partitions that are among the others."""
    return {name: both for name, bits in partitions.items() if (both := bits & others.get(name, 0))}


def columns_of(replicas: Iterable[PartitionReplica]) -> ReplicaColumns:
    """Return these replicas by topic and broker, both in the order in which they come."""
    found: dict[str, dict[BrokerId, list[int]]] = {}
    for name, number, broker in replicas:
        found.setdefault(name, {}).setdefault(broker, []).append(number)
    return {name: {broker: bits_of(numbers) for broker, numbers in on.items()} for name, on in found.items()}


def replicas_in(columns: ReplicaColumns) -> Iterator[PartitionReplica]:
    """Yield these replicas topic by topic and partition by partition."""
    for name, on in columns.items():
        for number in numbers_in(union(on)):
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
