"""DescribeGroups, ListOffsets, and the consumer protocol: what is read from a topic, and how far it is written.

A member of a group of protocol type `consumer` hands the coordinator an opaque subscription and gets an opaque
assignment. Both begin with a version and the topics, whatever the version; what follows is not read here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.protocol.counting import counted
from lethe.protocol.kafka.framing import ProtocolError

NO_AUTHORIZED_OPERATIONS: Final = -(2**31)
"""The bit field of permitted operations if the request did not ask for it."""
CONSUMER: Final = "consumer"
"""Protocol type of the groups whose members have subscriptions."""
STABLE: Final = "Stable"
"""State of a group whose members all have joined: only then the coordinator returns subscriptions."""

EARLIEST: Final = -2
"""In a request for offsets: the first offset that the log has."""
LATEST: Final = -1
"""In a request for offsets: the offset of the next record."""
CLIENT: Final = -1
"""Id of an asker that is no replica."""


# --- DescribeGroups -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest:
    groups: tuple[str, ...]
    include_authorized_operations: bool = False


class GroupMember(NamedTuple):
    member: str
    client_id: str
    client_host: str
    subscription: bytes
    assignment: bytes
    instance: str | None = None


class DescribedGroup(NamedTuple):
    error: int
    group: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...] = ()
    authorized_operations: int = NO_AUTHORIZED_OPERATIONS


@dataclass(frozen=True, slots=True)
class DescribeGroupsResponse:
    groups: tuple[DescribedGroup, ...] = ()
    throttle_time_ms: int = 0


# --- ListOffsets --------------------------------------------------------------------------------------------------


class OffsetQuestion(NamedTuple):
    """`timestamp_ms` is a time, EARLIEST or LATEST. `leader_epoch` -1: whichever the leader has."""

    partition: int
    timestamp_ms: int
    leader_epoch: int = -1


class TopicToList(NamedTuple):
    topic: str
    partitions: tuple[OffsetQuestion, ...]


@dataclass(frozen=True, slots=True)
class ListOffsetsRequest:
    topics: tuple[TopicToList, ...]
    replica: int = CLIENT
    isolation_level: int = 0
    """0: records of open transactions count, too."""


class ListedOffset(NamedTuple):
    """The first record at or after the time: its offset and time; both -1 if there is none."""

    partition: int
    error: int
    timestamp_ms: int
    offset: int
    leader_epoch: int = -1


class ListedTopic(NamedTuple):
    topic: str
    partitions: tuple[ListedOffset, ...]


@dataclass(frozen=True, slots=True)
class ListOffsetsResponse:
    topics: tuple[ListedTopic, ...] = ()
    throttle_time_ms: int = 0


# --- the consumer protocol ----------------------------------------------------------------------------------------


def subscribed_topics(subscription: bytes) -> frozenset[str]:
    """Return the topics of a member's subscription; none for an empty one. Raises ProtocolError."""
    if not subscription:
        return frozenset()
    reader = _Reader(subscription, "a member's subscription")
    reader.number(">h")
    return frozenset(reader.text() for _ in reader.items())


def assigned_topics(assignment: bytes) -> frozenset[str]:
    """Return the topics of a member's assignment; none for an empty one. Raises ProtocolError."""
    if not assignment:
        return frozenset()
    reader = _Reader(assignment, "a member's assignment")
    reader.number(">h")
    topics = set()
    for _ in reader.items():
        topics.add(reader.text())
        for _ in reader.items():
            reader.number(">i")
    return frozenset(topics)


class _Reader:
    """Reads fields one after the other; `what` names the text in errors."""

    __slots__ = ("at", "data", "what")

    def __init__(self, data: bytes, what: str) -> None:
        self.data, self.what, self.at = data, what, 0

    def number(self, form: str) -> int:
        end = self.at + struct.calcsize(form)
        (found,) = struct.unpack(form, self._taken(end))
        return int(found)

    def items(self) -> Iterator[int]:
        count = self.number(">i")
        if not 0 <= count <= len(self.data):
            raise ProtocolError(f"{self.what} announces {counted(count, 'item')} in {counted(len(self.data), 'byte')}")
        return iter(range(count))

    def text(self) -> str:
        size = self.number(">h")
        try:
            return self._taken(self.at + max(size, 0)).decode()
        except UnicodeDecodeError:
            raise ProtocolError(f"{self.what} has a name that is not UTF-8") from None

    def _taken(self, end: int) -> bytes:
        if end > len(self.data):
            raise ProtocolError(f"{self.what} ends in the middle of a field")
        found, self.at = self.data[self.at : end], end
        return found
