"""The journal's unit: one fact about what a controller or a broker agent decided, did or learnt.

Cores name facts, runtimes stamp them with identity and time and write them as CloudEvents lines, metrics and logs are
fed from the same values, and the pipeline reads the lines back.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


class FactType(enum.StrEnum):
    """What happened; the CloudEvents type is `lethe.<value>`."""

    ELECTION = "election"
    EVENT = "event"
    TRANSITION = "transition"
    REFUSAL = "refusal"
    REQUEST = "request"
    ACK = "ack"
    ZNODE_WRITE = "znode-write"
    DELETION_PHASE = "deletion-phase"
    SET_ASIDE = "set-aside"
    BROKER = "broker"
    BYTES_FREED = "bytes-freed"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact. `subject` is what it is about (`topic/orders`, `broker/3`, `controller/1001`)."""

    type: FactType
    subject: str
    data: Mapping[str, JsonValue] = field(default_factory=dict)


def partition_ranges(partitions: Iterable[int]) -> str:
    """`0-3,7` for partitions 0, 1, 2, 3 and 7: how one line names many partitions of one topic."""
    ranges: list[list[int]] = []
    for partition in sorted(partitions):
        if ranges and partition == ranges[-1][1] + 1:
            ranges[-1][1] = partition
        elif not ranges or partition != ranges[-1][1]:
            ranges.append([partition, partition])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
