"""Codec of `/lethe/debts/<broker>/<topic>@<czxid>`: what an absent broker still has of a topic that is gone.

One child stands for one incarnation of a topic, so that a name that is used again can be owed twice. It is written
before the topic's first znode is removed, and removed when the broker has deleted the replicas, or has none of that
incarnation. A debt that cannot be understood is never paid: it raises MalformedZnode, and is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lethe.protocol.journal import partition_ranges, ranges_in
from lethe.protocol.vocabulary import MAX_PARTITIONS, ZERO_TOPIC_ID, TopicId, topic_id_from_text, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import dump, integer, malformed, number_text, parse_object, string

_VERSION = 1
MAX_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond that can be written as a date."""


@dataclass(frozen=True, slots=True)
class Debt:
    """Replicas of one incarnation of a topic that a broker still has."""

    topic_id: TopicId | None
    """None: the cluster gives topics no ids, so nothing tells this incarnation's bytes from those of a later one."""
    partitions: tuple[int, ...]
    """In ascending order."""
    last_leader_epoch: int
    """The highest one that any of its partitions had: a topic that is made again without ids begins above it."""
    since_ms: int
    """When it was written."""
    size_bytes: int | None = None
    """Bytes of these replicas on the broker; None: unknown."""


def encode_debt(debt: Debt) -> bytes:
    """Return the znode's data."""
    fields: dict[str, object] = {"version": _VERSION}
    if debt.topic_id is not None:
        fields["topic_id"] = topic_id_to_text(debt.topic_id)
    fields["partitions"] = partition_ranges(debt.partitions)
    fields["last_leader_epoch"] = debt.last_leader_epoch
    fields["since"] = str(debt.since_ms)
    if debt.size_bytes is not None:
        fields["bytes"] = str(debt.size_bytes)
    return dump(fields)


def decode_debt(broker: int, child: str, data: bytes | None) -> Debt:
    """Decode a debt; raises MalformedZnode, also for a version that is not known."""
    path = f"{paths.debts_of(broker)}/{child}"
    fields = parse_object(path, data)
    version = integer(path, "'version'", fields.get("version"))
    if version != _VERSION:
        malformed(path, f"version {version} is not known")
    if paths.debt_named(child) is None:
        malformed(path, "its name is not <topic>@<czxid>")
    text, size = fields.get("topic_id"), fields.get("bytes")
    try:
        topic_id = None if text is None else topic_id_from_text(string(path, "'topic_id'", text))
        ranges = ranges_in(string(path, "'partitions'", fields.get("partitions")))
    except ValueError as error:
        malformed(path, str(error))
    if topic_id == ZERO_TOPIC_ID:
        malformed(path, "'topic_id' is the zero id, which brokers compare with nothing")
    if not ranges or max(each.stop for each in ranges) > MAX_PARTITIONS or sum(map(len, ranges)) > MAX_PARTITIONS:
        malformed(path, f"'partitions' must name partitions from 0 to {MAX_PARTITIONS - 1}")
    partitions = tuple(sorted({number for each in ranges for number in each}))
    if not partitions:
        malformed(path, "'partitions' names none")
    last_leader_epoch = integer(path, "'last_leader_epoch'", fields.get("last_leader_epoch"), minimum=0)
    since_ms = number_text(path, "'since'", fields.get("since"))
    if not 0 <= since_ms <= MAX_TIME_MS:
        malformed(path, f"'since' must be a time from 1970 to 9999 in milliseconds, found {since_ms}")
    size_bytes = None if size is None else number_text(path, "'bytes'", size)
    if size_bytes is not None and size_bytes < 0:
        malformed(path, f"'bytes' must not be negative, found {size_bytes}")
    return Debt(topic_id, partitions, last_leader_epoch, since_ms, size_bytes)
