"""Codecs of the trash, and of what commands request of Lethe's controller for one topic.

    /lethe/trash/<topic>             what is needed to bring the topic back, and until when
    /lethe/trash/<topic>/offsets-N   committed offsets of consumer groups; each below OFFSETS_BYTES
    /lethe/requests/<topic>          a request

A command creates the request and waits. The controller removes it when it is done, or writes into it why it refuses.
Then the command removes it. A controller ignores requests that it has refused.

A trash that cannot be understood is never removed, and its name stays reserved: all readers raise MalformedZnode.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from lethe.protocol.kafka.group_offsets import CommittedOffset, GroupOffsets
from lethe.protocol.vocabulary import LeaderAndIsr, TopicId, topic_id_from_text, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import (
    INT64_MAX,
    array,
    brokers,
    dump,
    integer,
    kind_of,
    malformed,
    mapping,
    number_text,
    parse_object,
    partition_number,
    string,
)
from lethe.protocol.zookeeper.znodes_lethe import OfflineReplicas, offline_replicas

OFFSETS_BYTES: Final = 512 * 1024
"""Limit of one znode with offsets."""
_VERSION = 1
_OFFSET_BYTES: Final = 40


class TrashPhase(enum.StrEnum):
    """How far a topic is on its way into the trash, or out of it."""

    FREEZING = "freezing"
    """In service and marked; its retention is switched off, and brokers are given time to notice."""
    TRASHED = "trashed"
    """Out of service, without znodes; its records stay on the brokers' disks."""
    RESTORING = "restoring"
    """In service again; committed offsets and settings are still to be restored."""
    OFFSETS = "offsets"
    """In service with its settings; some groups' offsets are still to be committed."""


@dataclass(frozen=True, slots=True)
class SavedPartition:
    """A partition as it was when the topic left service."""

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    recovery_state: int = 0
    version: int = 0
    """The data version of its state. Its brokers, while they run, ignore a LeaderAndIsr with a lower one."""

    @classmethod
    def of(cls, replicas: tuple[int, ...], state: LeaderAndIsr) -> SavedPartition:
        version = state.partition_epoch
        return cls(replicas, state.leader, state.leader_epoch, state.isr, state.recovery_state, version)


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """What is needed to bring a topic back."""

    phase: TrashPhase
    topic_id: TopicId
    since_ms: int
    """When its phase began."""
    grace_ms: int
    """For how long it stays in the trash."""
    config: Mapping[str, str] | None
    """Its settings before retention was switched off; None: it had no znode with settings."""
    partitions: Mapping[int, SavedPartition] = field(default_factory=dict)
    """Empty before it was in the trash."""
    offsets: int = 0
    """Number of znodes with offsets."""
    offline_replicas: OfflineReplicas | None = None
    """What its marker ordered about absent brokers, for its deletion."""

    @property
    def until_ms(self) -> int:
        """When a topic in the trash is deleted."""
        return self.since_ms + self.grace_ms

    def entering(self, phase: TrashPhase, now_ms: int) -> TrashEntry:
        """Return the same entry in another phase."""
        return replace(self, phase=phase, since_ms=now_ms)


def encode_trash(entry: TrashEntry) -> bytes:
    """Return the data of `/lethe/trash/<topic>`."""
    owe = entry.offline_replicas
    return dump(
        {
            "version": _VERSION,
            "phase": entry.phase.value,
            "topic_id": topic_id_to_text(entry.topic_id),
            "since": str(entry.since_ms),
            "grace_ms": str(entry.grace_ms),
            "config": None if entry.config is None else dict(entry.config),
            "partitions": {str(number): _saved_fields(each) for number, each in sorted(entry.partitions.items())},
            "offsets": entry.offsets,
        }
        | ({} if owe is None else {"offline_replicas": owe.value})
    )


def _saved_fields(saved: SavedPartition) -> dict[str, object]:
    fields: dict[str, object] = {"replicas": saved.replicas, "leader": saved.leader, "epoch": saved.leader_epoch}
    recovery = {"recovery": saved.recovery_state} if saved.recovery_state else {}
    return fields | {"isr": saved.isr, "version": saved.version} | recovery


def decode_trash(topic: str, data: bytes | None) -> TrashEntry:
    """Decode an entry; raises MalformedZnode, also for an unknown version."""
    path = paths.trashed(topic)
    fields = parse_object(path, data)
    if (version := integer(path, "'version'", fields.get("version"))) != _VERSION:
        malformed(path, f"version {version} is not known")
    try:
        phase = TrashPhase(string(path, "'phase'", fields.get("phase")))
        topic_id = topic_id_from_text(string(path, "'topic_id'", fields.get("topic_id")))
    except ValueError as error:
        malformed(path, str(error))
    config = fields.get("config")
    saved = mapping(path, "'partitions'", fields.get("partitions"))
    grace_ms = number_text(path, "'grace_ms'", fields.get("grace_ms"))
    if phase is TrashPhase.TRASHED and not saved:
        malformed(path, "'partitions' names none")
    return TrashEntry(
        phase,
        topic_id,
        number_text(path, "'since'", fields.get("since")),
        grace_ms if grace_ms >= 0 else malformed(path, "'grace_ms' must not be negative"),
        None if config is None else _texts(path, mapping(path, "'config'", config)),
        {partition_number(path, "'partitions'", number): _saved(path, each) for number, each in saved.items()},
        integer(path, "'offsets'", fields.get("offsets"), minimum=0),
        offline_replicas(path, fields),
    )


def _texts(path: str, found: Mapping[str, object]) -> dict[str, str]:
    return {key: string(path, f"config {key[:60]!r}", value) for key, value in found.items()}


def _saved(path: str, value: object) -> SavedPartition:
    fields = mapping(path, "a partition", value)
    return SavedPartition(
        brokers(path, "'replicas'", fields.get("replicas")),
        integer(path, "'leader'", fields.get("leader"), minimum=-1),
        integer(path, "'epoch'", fields.get("epoch"), minimum=0),
        brokers(path, "'isr'", fields.get("isr")),
        integer(path, "'recovery'", fields.get("recovery"), minimum=0, maximum=1, default=0),
        integer(path, "'version'", fields.get("version"), minimum=0, default=0),
    )


# --- offsets ------------------------------------------------------------------------------------------------------


def encode_offsets(groups: GroupOffsets, limit_bytes: int = OFFSETS_BYTES) -> tuple[bytes, ...]:
    """Return the data of the znodes with these offsets; empty if there are none."""
    return tuple(dump({"version": _VERSION, "groups": part}) for part in _parts(groups, limit_bytes))


def _parts(groups: GroupOffsets, limit_bytes: int) -> Iterator[dict[str, dict[str, list[object]]]]:
    part: dict[str, dict[str, list[object]]] = {}
    size = 0
    for group, offsets in groups.items():
        for number, (offset, epoch, metadata) in offsets.items():
            # In JSON a character has at most six bytes.
            more = _OFFSET_BYTES + 6 * (len(metadata or "") + (0 if group in part else len(group)))
            if part and size + more > limit_bytes:
                yield part
                part, size = {}, 0
            part.setdefault(group, {})[str(number)] = [offset, epoch, metadata]
            size += more
    if part:
        yield part


def decode_offsets(path: str, data: bytes | None) -> dict[str, dict[int, CommittedOffset]]:
    """Decode one znode with offsets; raises MalformedZnode, also for an unknown version."""
    fields = parse_object(path, data)
    if (version := integer(path, "'version'", fields.get("version"))) != _VERSION:
        malformed(path, f"version {version} is not known")
    return {
        group: {
            partition_number(path, f"group {group[:60]!r}", number): _offset(path, row)
            for number, row in mapping(path, f"group {group[:60]!r}", rows).items()
        }
        for group, rows in mapping(path, "'groups'", fields.get("groups")).items()
    }


def _offset(path: str, value: object) -> CommittedOffset:
    row = array(path, "an offset", value)
    if len(row) != 3:
        malformed(path, f"an offset must be an array of three, found {len(row)}")
    offset, epoch, metadata = row
    return CommittedOffset(
        integer(path, "an offset", offset, minimum=0, maximum=INT64_MAX),
        integer(path, "a leader epoch", epoch, minimum=-1),
        None if metadata is None else string(path, "an offset's metadata", metadata),
    )


# --- requests -----------------------------------------------------------------------------------------------------


class RequestedAction(enum.StrEnum):
    """What the controller is to do with the topic."""

    UNDELETE = "undelete"
    """Bring back a topic that was deleted: remove its marker if nothing of it was destroyed yet, or take it from the
    trash."""
    PURGE = "purge"
    """Delete a topic that is in the trash."""


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """A request about one topic."""

    action: RequestedAction
    topic_id: TopicId | None = None
    """Only this incarnation is meant; required for PURGE."""
    refused: str | None = None
    """Why the controller refuses it; None: it has not refused."""

    def refuse(self, why: str) -> TopicRequest:
        """Return the same request as refused."""
        return replace(self, refused=why)


def encode_topic_request(request: TopicRequest) -> bytes:
    """Return the znode's data."""
    fields: dict[str, object] = {"version": _VERSION, "request": request.action.value}
    if request.topic_id is not None:
        fields["topic_id"] = topic_id_to_text(request.topic_id)
    if request.refused is not None:
        fields["refused"] = request.refused
    return dump(fields)


def decode_topic_request(topic: str, data: bytes | None) -> TopicRequest:
    """Decode a request; raises MalformedZnode, also for an unknown version or action."""
    path = paths.request(topic)
    fields = parse_object(path, data)
    if (version := integer(path, "'version'", fields.get("version"))) != _VERSION:
        malformed(path, f"version {version} is not known")
    text, refused, name = (
        string(path, "'request'", fields.get("request")),
        fields.get("refused"),
        fields.get("topic_id"),
    )
    try:
        action = RequestedAction(text)
    except ValueError:
        malformed(path, f"'request' must be undelete or purge, found {kind_of(text)}")
    try:
        topic_id = None if name is None else topic_id_from_text(string(path, "'topic_id'", name))
    except ValueError as error:
        malformed(path, str(error))
    if action is RequestedAction.PURGE and topic_id is None:
        malformed(path, "a purge names no 'topic_id'")
    return TopicRequest(action, topic_id, None if refused is None else string(path, "'refused'", refused))
