"""Asks a Lethe controller over HTTP what marked topics wait for. Unknown and missing keys are accepted, since the
controller may be of another release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lethe.adapters.http_client import HttpCredentials, HttpFailed, get_json
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.causes import CauseKind, named
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.znodes import MalformedZnode, decode_controller
from lethe.survey.evidence import (
    ControllerReport,
    OwedTombstones,
    RefusedDeletion,
    ReportedPause,
    ReportedReplica,
    ReportedTopic,
)
from lethe.survey.znodes import ZnodeUnreadable, read_data

EXPLAIN = "/explain"
ALL = 1_000_000


async def ask_active_controller(
    session: ZooKeeperSession,
    topic: str | None,
    url: str | None = None,
    timeout_ms: int = 2_000,
    *,
    at_most: int | None = None,
    credentials: HttpCredentials | None = None,
) -> ControllerReport:
    """Return the active controller's answer about the topic, or (None) about all marked ones, `at_most` of them.
    `problem` says why there is none. Without `url`, which is one that the user has named, the URL in `/controller` is
    used. `credentials`: None takes those of the environment."""
    if url is not None:
        return await ask_controller(url, topic, timeout_ms, at_most, credentials, named_by_user=True)
    found = await _active_url(session)
    if isinstance(found, ControllerReport):
        return found
    return await ask_controller(found, topic, timeout_ms, at_most, credentials)


async def _active_url(session: ZooKeeperSession) -> str | ControllerReport:
    """Return the URL of the active controller; or a report that says why it is unknown."""
    try:
        data = await read_data(session, paths.CONTROLLER)
        if data is None:
            return ControllerReport(problem="none is active")
        controller = decode_controller(data.data)
    except (MalformedZnode, ZnodeUnreadable) as unseen:
        return ControllerReport(problem=str(unseen))
    if controller.admin is None:
        return ControllerReport(problem=f"controller {controller.broker_id} names no HTTP port in {paths.CONTROLLER}")
    return controller.admin


async def ask_controller(
    url: str,
    topic: str | None,
    timeout_ms: int,
    at_most: int | None = None,
    credentials: HttpCredentials | None = None,
    *,
    named_by_user: bool = False,
) -> ControllerReport:
    """Return the answer of the controller at that URL, as `ask_active_controller`. Never raises for its failures:
    `problem` has them."""
    where = url.rstrip("/") + (
        f"{EXPLAIN}?at_most={ALL if at_most is None else at_most}" if topic is None else f"{EXPLAIN}/{topic}"
    )
    credentials = HttpCredentials.from_environment() if credentials is None else credentials
    try:
        # 404: the topic is not marked; the document has what is known about it.
        document = await get_json(where, credentials, timeout_ms, accepted=(200, 404), named_by_user=named_by_user)
    except HttpFailed as failed:
        return ControllerReport(problem=str(failed))
    return parse_explanation(document)


async def ask_state(session: ZooKeeperSession, timeout_ms: int = 5_000) -> Mapping[str, Any] | str:
    """Return what the active controller answers at `/state`; or why there is no answer."""
    url = await _active_url(session)
    if isinstance(url, ControllerReport):
        return url.problem or "none is active"
    try:
        return await get_json(f"{url.rstrip('/')}/state", HttpCredentials.from_environment(), timeout_ms)
    except HttpFailed as failed:
        return str(failed)


def parse_explanation(document: object) -> ControllerReport:
    """Parse a document of `/explain` or `/explain/TOPIC`."""
    if not isinstance(document, Mapping):
        return ControllerReport(problem="it answered something else than was asked")
    topics = document.get("topics")
    listed = topics if isinstance(topics, list) else []
    found = [_topic(each) for each in listed if isinstance(each, Mapping) and "topic" in each]
    enabled, refused = document.get("delete_topic_enable"), document.get("refused")
    return ControllerReport(
        {each.topic: each for each in found},
        _number(document.get("epoch")),
        enabled if isinstance(enabled, bool) else None,
        _texts(document.get("protected_topics")),
        _refused(refused) if isinstance(refused, Mapping) else None,
        _number(document.get("not_shown")) or 0,
        _owed(document.get("owed")),
        document.get("unproven"),
        _pauses(document.get("pauses")),
    )


def _refused(refused: Mapping[str, Any]) -> RefusedDeletion:
    cause = named(_text(refused.get("cause")) or "") or CauseKind.REFUSED
    return RefusedDeletion(
        _number(refused.get("at_ms")), _text(refused.get("why")), cause, _text(refused.get("detail"))
    )


def _texts(listed: object) -> tuple[str, ...] | None:
    return tuple(each for each in listed if isinstance(each, str)) if isinstance(listed, list) else None


def _pauses(listed: object) -> tuple[ReportedPause, ...]:
    return tuple(
        ReportedPause(
            named(_text(pause.get("cause")) or "") or CauseKind.UNKNOWN,
            _number(pause.get("since_ms")),
            _text(pause.get("reason")),
            _text(pause.get("path")),
        )
        for pause in (listed if isinstance(listed, list) else [])
        if isinstance(pause, Mapping)
    )


def _owed(listed: object) -> tuple[OwedTombstones, ...] | None:
    if not isinstance(listed, list):
        return None
    rows = [row for row in listed if isinstance(row, Mapping)]
    found = []
    for row in rows:
        broker, names = _number(row.get("broker")), row.get("topics")
        topics = tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
        if broker is not None:
            count = _number(row.get("topic_count")) or len(topics)
            attempts, error = _number(row.get("attempts")) or 0, _text(row.get("last_error"))
            found.append(OwedTombstones(broker, count, topics, _number(row.get("since_ms")), attempts, error))
    return tuple(found)


def _topic(each: Mapping[str, Any]) -> ReportedTopic:
    return ReportedTopic(
        str(each["topic"]),
        _number(each.get("marked_since_ms")),
        _text(each.get("phase")),
        _text(each.get("held_by")),
        _rows(each.get("replicas")),
    )


def _rows(listed: object) -> tuple[ReportedReplica, ...]:
    if not isinstance(listed, list):
        return ()
    return tuple(
        ReportedReplica(
            named(_text(row.get("waiting_for")) or "") or CauseKind.UNKNOWN,
            _number(row.get("partition")),
            _number(row.get("broker")),
            _text(row.get("state")),
            _number(row.get("since_ms")),
            _number(row.get("attempts")) or 0,
            _text(row.get("last_error")),
            _number(row.get("next_try_ms")),
            _text(row.get("unblock")),
        )
        for row in listed
        if isinstance(row, Mapping)
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
