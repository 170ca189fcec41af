"""Lethe's own data in ZooKeeper: the pause of deletions, and optional orders in a deletion marker.

Tools and people write both, and a misreading could lose data. So the readers never raise, and an unreadable znode has
the safe meaning: a malformed pause still pauses, a malformed marker is an ordinary marker, and an order that is there
but cannot be understood is told apart from one that is not there.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import (
    MalformedZnode,
    dump,
    kind_of,
    malformed,
    number_text,
    parse_object,
    string,
)

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


class OfflineReplicas(enum.StrEnum):
    """What a deletion does about replicas on brokers that are not registered."""

    WAIT = "wait"
    """It waits until the brokers return, as Kafka's does."""
    OWE = "owe"
    """It ends without them; what they still have is noted as debts (`znodes_debts`)."""


@dataclass(frozen=True, slots=True)
class DeletionOrders:
    """What the data of `/admin/delete_topics/T` orders. Kafka's controller ignores it and writes null."""

    unreadable: bool = False
    """Delete the topic although its own znode cannot be decoded."""
    begun: int | None = None
    """The czxid of the topic whose deletion has begun."""
    topic_czxid: int | None = None
    """The czxid of the topic that is to be deleted; None: of whichever topic has the name."""
    offline_replicas: OfflineReplicas | None = None
    """None: as the controller is configured."""
    grace_ms: int | None = None
    """For how long the topic stays in the trash, from which it can be brought back; None: as the controller is
    configured."""
    problem: str | None = None
    """Why an order cannot be understood. It may have been to keep something: nothing may be destroyed then."""


def encode_deletion_marker(orders: DeletionOrders) -> bytes | None:
    """Return the data of `/admin/delete_topics/T`: null, as Kafka writes it, if there are no orders."""
    fields: dict[str, object] = {"unreadable": True} if orders.unreadable else {}
    if orders.begun is not None:
        fields["begun"] = str(orders.begun)
    if orders.topic_czxid is not None:
        fields["topic_czxid"] = str(orders.topic_czxid)
    if orders.offline_replicas is not None:
        fields["offline_replicas"] = orders.offline_replicas.value
    if orders.grace_ms is not None:
        fields["grace_ms"] = str(orders.grace_ms)
    return dump({"version": _VERSION} | fields) if fields else None


def decode_deletion_marker(data: bytes | None) -> DeletionOrders:
    """Return the orders in a known version; anything else is an ordinary marker. Never raises."""
    fields = _marker_fields(data)
    try:
        return DeletionOrders(
            # Identity, since 1 == True == 1.0: a similar value by another writer is no order.
            unreadable=fields.get("unreadable") is True,
            begun=_begun(fields),
            topic_czxid=_optional_number(fields, "topic_czxid"),
            offline_replicas=offline_replicas(paths.DELETE_TOPICS, fields),
            grace_ms=_grace_ms(fields),
        )
    except MalformedZnode as malformed:
        return DeletionOrders(
            unreadable=fields.get("unreadable") is True, begun=_begun(fields), problem=malformed.reason
        )


def _begun(fields: Mapping[str, object]) -> int | None:
    try:
        begun = fields.get("begun")
        return None if begun is None else number_text(paths.DELETE_TOPICS, "'begun'", begun)
    except MalformedZnode:
        return None


def offline_replicas(path: str, fields: Mapping[str, object]) -> OfflineReplicas | None:
    """Return the order about absent brokers, if any; raises MalformedZnode."""
    value = fields.get("offline_replicas")
    if value is None:
        return None
    text = string(path, "'offline_replicas'", value)
    try:
        return OfflineReplicas(text)
    except ValueError:
        malformed(path, f"'offline_replicas' must be wait or owe, found {kind_of(text)}")


def _grace_ms(fields: Mapping[str, object]) -> int | None:
    grace_ms = _optional_number(fields, "grace_ms")
    if grace_ms is not None and grace_ms < 0:
        malformed(paths.DELETE_TOPICS, f"'grace_ms' must not be negative, found {grace_ms}")
    return grace_ms


def _optional_number(fields: Mapping[str, object], key: str) -> int | None:
    value = fields.get(key)
    return None if value is None else number_text(paths.DELETE_TOPICS, f"'{key}'", value)


def _marker_fields(data: bytes | None) -> dict[str, object]:
    """Return the marker's fields; empty for an unknown version."""
    try:
        fields = parse_object(paths.DELETE_TOPICS, data)
    except MalformedZnode:
        return {}
    version = fields.get("version")
    return dict(fields) if type(version) is int and version == _VERSION else {}
