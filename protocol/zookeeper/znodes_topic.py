"""Codecs of `/brokers/topics/T` (versions 1 to 3) and of the partition state znodes.

States are performance-critical: a controller that takes over reads one per partition. They are written with one format
string and read with one access per field.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import orjson

from lethe.protocol.vocabulary import (
    ZERO_TOPIC_ID,
    LeaderAndIsr,
    RecoveryState,
    ReplicaAssignment,
    TopicId,
    topic_id_from_text,
    topic_id_to_text,
)
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import (
    INT32_MAX,
    brokers,
    dump,
    integer,
    kind_of,
    malformed,
    mapping,
    parse_object,
    partition_number,
    plain_brokers,
    shown,
    string,
)

_NO_REPLICAS: dict[int, tuple[int, ...]] = {}


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """Content of a topic's znode: the assignment of each partition, in ascending order, and the topic's id, if any."""

    assignments: Mapping[int, ReplicaAssignment] = field(default_factory=dict)
    topic_id: TopicId | None = None


def encode_topic(znode: TopicZnode, *, version: int = 3) -> bytes:
    """Return the topic's data. 2.8 and later write version 3, with or without an id; version 2 has no id.

    Version 1 has no reassignment either: it raises ValueError for an assignment that is being reassigned.
    """
    if not 1 <= version <= 3:
        raise ValueError(f"a topic's znode has version 1, 2 or 3, not {version}")
    ordered = sorted(znode.assignments.items())
    fields: dict[str, object] = {"partitions": {str(p): a.replicas for p, a in ordered}}
    if version >= 3 and znode.topic_id is not None:
        fields["topic_id"] = topic_id_to_text(znode.topic_id)
    if version >= 2:
        fields["adding_replicas"] = {str(p): a.adding for p, a in ordered if a.adding}
        fields["removing_replicas"] = {str(p): a.removing for p, a in ordered if a.removing}
    elif any(a.is_being_reassigned for _, a in ordered):
        raise ValueError("version 1 of a topic's znode cannot hold a reassignment")
    fields["version"] = version
    return dump(fields)


def most_partitions(replicas: int, max_bytes: int) -> int:
    """Return how many partitions the data of a topic can have at most in so many bytes, with so many replicas each.

    That is with the shortest broker ids, of one digit: `"17":[1,2],` for partition 17. With longer ones there is room
    for fewer, so a topic that passes this may still be too large."""
    found, left, digits, end = 0, max_bytes, 1, 10
    while True:
        of_one = digits + 2 * replicas + len('"":[],') - 1
        fitting = min(left // of_one, end - found)
        found, left = found + fitting, left - fitting * of_one
        if found < end:
            return found
        digits, end = digits + 1, end * 10


def decode_topic(topic: str, data: bytes | None) -> TopicZnode:
    """Decode the data of `/brokers/topics/<topic>`, in any version; raises MalformedZnode.

    Missing data or `partitions` are malformed: a topic without partitions would mean that its replicas are forgotten.
    An empty `partitions` object is accepted.
    """
    path = paths.topic(topic)
    fields = parse_object(path, data)
    if "partitions" not in fields or fields["partitions"] is None:
        malformed(path, "it has no 'partitions'")
    adding = _replica_lists(path, "adding_replicas", fields)
    removing = _replica_lists(path, "removing_replicas", fields)
    assignments = {
        partition: _assignment(replicas, adding.get(partition, ()), removing.get(partition, ()))
        for partition, replicas in sorted(_replica_lists(path, "partitions", fields).items())
    }
    return TopicZnode(assignments, _topic_id(path, fields.get("topic_id")))


@functools.lru_cache(4096)
def _assignment(replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]) -> ReplicaAssignment:
    """Return the assignment, which partitions with the same replicas share: there are hundreds of thousands."""
    return ReplicaAssignment(replicas, adding, removing)


def _replica_lists(path: str, key: str, fields: Mapping[str, object]) -> Mapping[int, tuple[int, ...]]:
    lists = mapping(path, f"'{key}'", fields.get(key))
    if not lists:
        return _NO_REPLICAS
    where = f"'{key}'"
    return {
        partition_number(path, where, text): plain_brokers(replicas)
        or brokers(path, f"partition {text} of {where}", replicas)
        for text, replicas in lists.items()
    }


def _topic_id(path: str, value: object) -> TopicId | None:
    if value is None:
        return None
    text = string(path, "'topic_id'", value)
    try:
        topic_id = topic_id_from_text(text)
    except ValueError as error:
        malformed(path, f"'topic_id' {text[:40]!r} is none: {error}")
    # Brokers read the zero id as no id, and their responses cannot name a topic by it.
    return None if topic_id == ZERO_TOPIC_ID else topic_id


# --- partition state ----------------------------------------------------------------------------------------------


@functools.lru_cache(4096)
def encode_state(state: LeaderAndIsr) -> bytes:
    """Return the data of a partition's state znode, without `partition_epoch`, which is the znode's version. Partitions
    with equal states, which are written by the thousands, share the data."""
    if state.recovery_state:
        return (
            b'{"controller_epoch":%d,"leader":%d,"version":1,"leader_recovery_state":%d,"leader_epoch":%d,"isr":[%s]}'
            % (
                state.controller_epoch,
                state.leader,
                state.recovery_state,
                state.leader_epoch,
                ",".join(map(str, state.isr)).encode(),
            )
        )
    return b'{"controller_epoch":%d,"leader":%d,"version":1,"leader_epoch":%d,"isr":[%s]}' % (
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        ",".join(map(str, state.isr)).encode(),
    )


def decode_state(topic: str, partition: int, data: bytes | None, version: int) -> LeaderAndIsr | None:
    """Decode the state znode of this version; None if it has no data, which means "no state".

    Raises MalformedZnode for anything else that Kafka would not have written. Kafka treats non-JSON data as "no state"
    too; a caller that needs this catches the error.
    """
    if not data:
        return None
    try:
        fields = orjson.loads(data)
        isr = fields["isr"]
        state = LeaderAndIsr(
            fields["leader"],
            fields["leader_epoch"],
            tuple(isr),
            fields["controller_epoch"],
            version,
            fields.get("leader_recovery_state", 0),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        _explain_state(paths.partition_state(topic, partition), data)
    if type(isr) is not list or not _is_plausible(state):
        _explain_state(paths.partition_state(topic, partition), data)
    return state


def _is_plausible(state: LeaderAndIsr) -> bool:
    """True if all fields are as Kafka writes them: numbers in range, distinct brokers, a known recovery state."""
    leader, leader_epoch, isr, controller_epoch, _, recovery = state
    for number in (leader, leader_epoch, controller_epoch, recovery, *isr):
        if type(number) is not int or number > INT32_MAX:
            return False
    return (
        leader >= -1
        and leader_epoch >= 0
        and controller_epoch >= 0
        and 0 <= recovery <= 1
        and (not isr or (min(isr) >= 0 and len(set(isr)) == len(isr)))
    )


def _explain_state(path: str, data: bytes) -> NoReturn:
    """Raise MalformedZnode with the reason; slow, so only called for malformed data."""
    fields = parse_object(path, data)
    for name, minimum in (("leader", -1), ("leader_epoch", 0), ("controller_epoch", 0)):
        integer(path, f"'{name}'", fields.get(name), minimum=minimum)
    brokers(path, "'isr'", fields.get("isr"))
    recovery = fields.get("leader_recovery_state", 0)
    if recovery not in tuple(RecoveryState) or type(recovery) is not int:
        malformed(path, f"'leader_recovery_state' must be 0 or 1, found {kind_of(recovery)}")
    malformed(path, f"unexpected content: {shown(data)}")
