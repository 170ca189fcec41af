"""What Lethe itself keeps in ZooKeeper: the pause of deletions, and what a deletion marker may add to its existence.

Both are written by operators' tools and by hand, and both are about not losing data. So neither reader ever fails, and
each errs towards keeping: a pause that cannot be read still pauses, and a marker that cannot be read demands nothing
beyond what every marker does.
"""

from __future__ import annotations

from dataclasses import dataclass

from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import MalformedZnode, dump, number_text, parse_object, string

_VERSION = 1


@dataclass(frozen=True, slots=True)
class DeletionsPaused:
    """`/lethe/deletions_paused` exists, which alone is what counts: since when (None: it does not say), and why."""

    since_ms: int | None = None
    reason: str = ""


def encode_deletions_paused(paused: DeletionsPaused) -> bytes:
    """The data of `/lethe/deletions_paused`. Of the reason, what cannot be UTF-8 is replaced by question marks."""
    fields: dict[str, object] = {"version": _VERSION}
    if paused.since_ms is not None:
        fields["since"] = str(paused.since_ms)
    fields["reason"] = paused.reason.encode("utf-8", "replace").decode()
    return dump(fields)


def decode_deletions_paused(data: bytes | None) -> DeletionsPaused:
    """What `/lethe/deletions_paused` says. Never fails: of what cannot be read, the reason tells."""
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
    """The data of `/admin/delete_topics/T`: null as Kafka writes it, or what goes beyond that: the order to delete the
    topic even though its own znode cannot be understood, and that the deletion of the topic whose znode has the czxid
    `begun` has begun. Kafka's controller looks at no marker's data."""
    fields: dict[str, object] = {"unreadable": True} if even_if_unreadable else {}
    if begun is not None:
        fields["begun"] = str(begun)
    return dump({"version": _VERSION} | fields) if fields else None


def decode_deletion_marker(data: bytes | None) -> bool:
    """True only for exactly that order, in a version that is known; anything else is an ordinary marker."""
    # Compared by identity, since 1 == True == 1.0: what somebody else wrote by chance is no order.
    return _marker_fields(data).get("unreadable") is True


def decode_deletion_begun(data: bytes | None) -> int | None:
    """The czxid of the topic whose deletion has begun; None where the marker does not say that one has."""
    try:
        begun = _marker_fields(data).get("begun")
        return None if begun is None else number_text(paths.DELETE_TOPICS, "'begun'", begun)
    except MalformedZnode:
        return None


def _marker_fields(data: bytes | None) -> dict[str, object]:
    """What the marker says beyond being there; nothing in a version that is not known."""
    try:
        fields = parse_object(paths.DELETE_TOPICS, data)
    except MalformedZnode:
        return {}
    version = fields.get("version")
    return dict(fields) if type(version) is int and version == _VERSION else {}
