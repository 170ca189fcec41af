"""Lethe's own data in ZooKeeper: the pause of deletions, and optional data in a deletion marker.

Tools and people write both, and a misreading could lose data. So the readers never raise, and an unreadable znode has
the safe meaning: a malformed pause still pauses, and a malformed marker is an ordinary marker.
"""

from __future__ import annotations

from dataclasses import dataclass

from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import MalformedZnode, dump, number_text, parse_object, string

_VERSION = 1


@dataclass(frozen=True, slots=True)
class DeletionsPaused:
    """Deletions are paused, because `/lethe/deletions_paused` exists: since when (None if unknown), and why."""

    since_ms: int | None = None
    reason: str = ""


def encode_deletions_paused(paused: DeletionsPaused) -> bytes:
    """Return the data of `/lethe/deletions_paused`. Characters of the reason that UTF-8 cannot encode become `?`."""
    fields: dict[str, object] = {"version": _VERSION}
    if paused.since_ms is not None:
        fields["since"] = str(paused.since_ms)
    fields["reason"] = paused.reason.encode("utf-8", "replace").decode()
    return dump(fields)


def decode_deletions_paused(data: bytes | None) -> DeletionsPaused:
    """Decode `/lethe/deletions_paused`; never raises. If it is malformed, `reason` says so."""
    path = paths.DELETIONS_PAUSED
    try:
        fields = parse_object(path, data)
    except MalformedZnode as malformed:
        return DeletionsPaused(None, f"unreadable: {malformed.reason}")
    since_ms: int | None = None
    try:
        if fields.get("since") is not None:
            since_ms = number_text(path, "'since'", fields["since"])
        return DeletionsPaused(since_ms, string(path, "'reason'", fields.get("reason", "")))
    except MalformedZnode as malformed:
        return DeletionsPaused(since_ms, f"unreadable: {malformed.reason}")


def encode_deletion_marker(even_if_unreadable: bool, begun: int | None = None) -> bytes | None:
    """Return the data of `/admin/delete_topics/T`: null, as Kafka writes it, or additional orders.

    `even_if_unreadable`: delete the topic although its own znode cannot be decoded. `begun`: the czxid of the topic
    whose deletion has begun. Kafka's controller ignores a marker's data.
    """
    fields: dict[str, object] = {"unreadable": True} if even_if_unreadable else {}
    if begun is not None:
        fields["begun"] = str(begun)
    return dump({"version": _VERSION} | fields) if fields else None


def decode_deletion_marker(data: bytes | None) -> bool:
    """True only for the order `even_if_unreadable` in a known version; anything else is an ordinary marker."""
    # Identity, since 1 == True == 1.0: a similar value by another writer is no order.
    return _marker_fields(data).get("unreadable") is True


def decode_deletion_begun(data: bytes | None) -> int | None:
    """Return the czxid of the topic whose deletion has begun; None if the marker does not contain it."""
    try:
        begun = _marker_fields(data).get("begun")
        return None if begun is None else number_text(paths.DELETE_TOPICS, "'begun'", begun)
    except MalformedZnode:
        return None


def _marker_fields(data: bytes | None) -> dict[str, object]:
    """Return the marker's fields; empty for an unknown version."""
    try:
        fields = parse_object(paths.DELETE_TOPICS, data)
    except MalformedZnode:
        return {}
    version = fields.get("version")
    return dict(fields) if type(version) is int and version == _VERSION else {}
