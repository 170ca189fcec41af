"""JSON document of `/explain` and `/explain/TOPIC`: why marked topics are not gone yet. Pure.

    {"version": 1,                      raised when a key is removed or changes its meaning; keys may be added
     "controller": 1000, "epoch": 7, "at_ms": ...,
     "delete_topic_enable": true,
     "protected_topics": [...],         patterns that hold now; internal topics are protected without a pattern
     "paused": null                     or the first of `pauses`
     "pauses": [...]                    each has to end before deletions continue:
                                        {"cause": "RESUMPTION", "meaning": "...", "since_ms": ..., "reason": "...",
                                         "path": "/lethe/deletions_paused", "unblock": "..."}
     "owed": [...],                     brokers that have not answered tombstones of topics whose znodes are removed
     "unproven": {...},                 deleted topics that caches may still show; format: `unconfirmed_deletions`
     "topics": [...], "not_shown": 0}   topics: held ones first, then the oldest; not_shown: number left out

    an entry of `owed`
    {"broker": 3, "topic_count": 12, "topics": ["orders", ...], "since_ms": ..., "attempts": 1,
     "last_error": "...", "next_try_ms": null, "unblock": "..."}

    a topic
    {"topic": "orders", "marked": true, "marked_since_ms": ...,
     "phase": "held"                    or "queued", "started", "acknowledged" (every replica is deleted)
     "held_by": null                    or a `held_code` of `protocol.causes`: PAUSED, CONFIGURATION, REASSIGNMENT, ...
     "replicas": [...], "replicas_not_shown": 0,
     "causes": [...]}                   the same in groups, without finished ones

    a replica; without `partition` a broker's metadata cache, without `partition` and `broker` the topic
    {"partition": 0, "broker": 3, "state": "DELETION_STARTED", "since_ms": ...,
     "waiting_for": "ANSWER",           a name of `protocol.causes.CauseKind`
     "attempts": 1, "last_error": null, "last_error_ms": null, "next_try_ms": null, "unblock": "..."}

    a cause
    {"cause": "ANSWER", "meaning": "...", "broker": 3, "partitions": "0-3,7", "replicas": 5, "since_ms": ...,
     "attempts": 1, "last_error": null, "next_try_ms": null, "unblock": "..."}

Times are milliseconds since 1970. The core supplies the time of the request; `last_error` of a row that waits for an
answer also has the channel's errors, which are added here. The documents are bounded, so that a request takes the
controller at most some hundredths of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from lethe.controller.core.context import Context, UnconfirmedDeletions
from lethe.controller.core.deletion_memory import Deletion, DeletionPause
from lethe.controller.core.leaving import unproven
from lethe.controller.core.pausing import pauses
from lethe.controller.core.waiting import Wait, all_rows, marked_since_ms, marked_topics
from lethe.controller.runtime.powers import Problems
from lethe.controller.runtime.unconfirmed_deletions import as_json
from lethe.protocol import causes
from lethe.protocol.cause_groups import NOT_WAITED_FOR
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue, partition_ranges
from lethe.protocol.vocabulary import BrokerId, PartitionReplica

VERSION: Final = 1
DEFAULT_TOPICS: Final = 100
MAX_ROWS: Final = 2_000
"""Replicas in one document; with several topics, also the limit on replicas examined."""

MAX_OWED_NAMES: Final = 100
_FROM_LIVING: Final = (CauseKind.ANSWER, CauseKind.TOMBSTONE_ANSWER, CauseKind.TOMBSTONE_OWED)
_ANSWERS: Final = (*_FROM_LIVING, CauseKind.BROKER_TO_FINISH_SHUTDOWN)


def explain_all(
    context: Context, problems: Problems, now_ms: int, at_most: int = DEFAULT_TOPICS
) -> dict[str, JsonValue]:
    """Return the document of all marked topics, up to `at_most` topics and `MAX_ROWS` replicas."""
    marked = marked_topics(context)
    shown: list[JsonValue] = []
    room = MAX_ROWS
    for topic in marked[: max(0, at_most)]:
        size = _size(context, topic)
        if shown and size > room:
            break
        room -= size
        shown.append(_topic(context, topic, problems, now_ms))
    return {
        **_head(context, now_ms),
        "owed": _owed(context, problems, now_ms),
        "unproven": as_json(_first(unproven(context))),
        "topics": shown,
        "not_shown": len(marked) - len(shown),
    }


def _first(left: UnconfirmedDeletions) -> UnconfirmedDeletions:
    """Limit the names of each broker to `MAX_OWED_NAMES`."""
    return UnconfirmedDeletions(
        *({broker: names[:MAX_OWED_NAMES] for broker, names in by_broker.items()} for by_broker in left)
    )


def explain_topic(context: Context, topic: str, problems: Problems, now_ms: int) -> dict[str, JsonValue] | None:
    """Return the document of one topic; None where it is not marked. `owed` is about an earlier topic of that name."""
    if topic not in context.cluster.deletions and topic not in context.cluster.marks:
        return None
    return {
        **_head(context, now_ms),
        "owed": _owed(context, problems, now_ms, topic),
        "topics": [_topic(context, topic, problems, now_ms)],
        "not_shown": 0,
    }


def not_marked(context: Context, topic: str, problems: Problems, now_ms: int) -> dict[str, JsonValue]:
    """Return the document of a topic without marker: whether it exists, whether its marker was refused, and which
    brokers owe the tombstone of an earlier topic of that name."""
    refused = context.refused_marks.get(topic)
    return {
        **_head(context, now_ms),
        "topic": topic,
        "marked": False,
        "exists": topic in context.cluster.topics or topic in context.cluster.quarantined_topics,
        "refused": None
        if refused is None
        else {"at_ms": refused.at_ms, "why": refused.why, "cause": refused.cause.name, "detail": refused.detail},
        "owed": _owed(context, problems, now_ms, topic),
    }


def _owed(context: Context, problems: Problems, now_ms: int, topic: str | None = None) -> list[JsonValue]:
    """Return the registered brokers that owe tombstones, or the tombstone of `topic`. Unregistered brokers are left
    out: clients find brokers through others, and a returning broker gets the tombstones first."""
    found: list[JsonValue] = []
    for broker, owing_broker in context.cluster.owed.items():
        if broker not in context.cluster.brokers or (topic is not None and topic not in owing_broker.topics):
            continue
        since_ms = owing_broker.since_ms if topic is None else owing_broker.topics[topic].since_ms
        problem = owing_broker.problem
        wait = Wait(
            topic or "",
            CauseKind.TOMBSTONE_OWED,
            since_ms,
            broker=broker,
            attempts=1 if problem is None else problem.attempts,
            last_error=None if problem is None else problem.what,
            next_try_ms=owing_broker.retry_at_ms,
            last_error_ms=None if problem is None else problem.last_ms,
        )
        if problem is None or broker in problems:
            wait = _sharpened(wait, problems, now_ms)
        names = [topic] if topic is not None else list(islice(owing_broker.topics, MAX_OWED_NAMES))
        found.append(
            {
                "broker": broker,
                "topic_count": len(owing_broker.topics) if topic is None else 1,
                "topics": [*names],
                "since_ms": since_ms,
                "attempts": wait.attempts,
                "last_error": wait.last_error,
                "next_try_ms": wait.next_try_ms,
                "unblock": _unblock(context, wait),
            }
        )
    return found


def _head(context: Context, now_ms: int) -> dict[str, JsonValue]:
    shown = [pause_document(pause) for pause in pauses(context)]
    return {
        "version": VERSION,
        "controller": context.config.controller_id,
        "epoch": context.cluster.epoch,
        "at_ms": now_ms,
        "delete_topic_enable": context.delete_topic_enable,
        "protected_topics": [*context.protected_topics],
        "paused": shown[0] if shown else None,
        "pauses": [*shown],
    }


def pause_document(pause: DeletionPause) -> dict[str, JsonValue]:
    """Return why deletions are paused, and what ends that."""
    return {
        "cause": pause.held_by.name,
        "meaning": causes.sentence(pause.held_by, "", path=pause.path),
        "since_ms": pause.since_ms,
        "reason": pause.reason,
        "path": pause.path,
        "unblock": causes.remedy(pause.held_by, "", path=pause.path),
    }


def _size(context: Context, topic: str) -> int:
    known = context.cluster.topics.get(topic)
    if topic not in context.cluster.deletions or known is None:
        return 1
    return known.replica_count


# --- one topic ----------------------------------------------------------------------------------------------------


def _topic(context: Context, topic: str, problems: Problems, now_ms: int) -> JsonValue:
    deletion, mark = context.cluster.deletions.get(topic), context.cluster.marks.get(topic)
    rows = [_sharpened(wait, problems, now_ms) for wait in all_rows(context, topic)]
    # Finished rows go last, so that a full document drops those.
    rows.sort(key=lambda row: row.waiting_for in NOT_WAITED_FOR)
    return {
        "topic": topic,
        "marked": True,
        "marked_since_ms": marked_since_ms(context, topic),
        "phase": "held" if deletion is None else _phase(deletion),
        "held_by": None if mark is None else mark.held_by.held_code,
        "replicas": [_row(context, row) for row in rows[:MAX_ROWS]],
        "replicas_not_shown": max(0, len(rows) - MAX_ROWS),
        "causes": [_cause(context, group) for group in _groups([*rows, *_half_deleted(context, topic)])],
    }


def _phase(deletion: Deletion) -> str:
    if deletion.all_acknowledged:
        return "acknowledged"
    return "queued" if deletion.started_at_ms is None else "started"


def with_access(wait: Wait, problems: Problems) -> Wait:
    """Return the row with another cause where no answer can come, because TLS or the login fails at the broker."""
    problem = None if wait.broker is None else problems.get(wait.broker)
    if problem is None or not problem.has_no_access or wait.waiting_for not in _FROM_LIVING:
        return wait
    return replace(wait, waiting_for=CauseKind.BROKER_NO_ACCESS, last_error=problem.what)


def _sharpened(wait: Wait, problems: Problems, now_ms: int) -> Wait:
    """Add the broker's latest answer and the channel's later errors to `last_error`."""
    if wait.waiting_for not in _ANSWERS or wait.broker is None:
        return wait
    said = []
    if wait.last_error is not None:
        ago = "" if wait.last_error_ms is None else f" {_seconds(wait.last_error_ms, now_ms)} s ago"
        said.append(f"it answered{ago}: {wait.last_error}")
    problem = problems.get(wait.broker)
    if problem is not None:
        lasts_s = problem.lasts_ms // 1000
        said.append(f"{problem.what} ({problem.reason}; {counted(problem.attempts, 'attempt')} in {lasts_s} s)")
    elif not said:
        said.append(f"the broker has not answered for {_seconds(wait.since_ms, now_ms)} s")
    return replace(with_access(wait, problems), last_error="; since then: ".join(said))


def _seconds(at_ms: int, now_ms: int) -> int:
    return max(0, now_ms - at_ms) // 1000


def _half_deleted(context: Context, topic: str) -> list[Wait]:
    """Return a row per partition without leadership. It is information; the deletion does not wait for it."""
    deletion = context.cluster.deletions.get(topic)
    if deletion is None:
        return []
    return [
        Wait(topic, CauseKind.HALF_DELETED, deletion.queued_at_ms, tp.partition)
        for tp, partition in context.cluster.partitions_of(topic)
        if partition.leader_and_isr is None
    ]


def _row(context: Context, wait: Wait) -> JsonValue:
    state = None
    if wait.partition is not None and wait.broker is not None:
        state = context.cluster.replica_state(PartitionReplica(wait.topic, wait.partition, wait.broker)).name
    return {
        "partition": wait.partition,
        "broker": wait.broker,
        "state": state,
        "since_ms": None if wait.waiting_for in NOT_WAITED_FOR else wait.since_ms,
        "waiting_for": wait.waiting_for.name,
        "attempts": wait.attempts,
        "last_error": wait.last_error,
        "last_error_ms": wait.last_error_ms,
        "next_try_ms": wait.next_try_ms,
        "unblock": _unblock(context, wait),
    }


def _unblock(context: Context, wait: Wait) -> str | None:
    path = path_of(context, wait.waiting_for)
    return causes.remedy(wait.waiting_for, wait.topic, broker=wait.broker, path=path) or None


# --- in groups ----------------------------------------------------------------------------------------------------


def _groups(rows: Sequence[Wait]) -> list[list[Wait]]:
    """Group the rows by cause, broker and error, without finished ones."""
    found: dict[tuple[CauseKind, BrokerId | None, str | None], list[Wait]] = {}
    for row in rows:
        if row.waiting_for not in NOT_WAITED_FOR:
            found.setdefault((row.waiting_for, row.broker, row.last_error), []).append(row)
    return list(found.values())


def _cause(context: Context, group: list[Wait]) -> JsonValue:
    first = group[0]
    partitions = [row.partition for row in group if row.partition is not None]
    ranges = partition_ranges(partitions) if partitions else ""
    tries = [row.next_try_ms for row in group if row.next_try_ms is not None]
    return {
        "cause": first.waiting_for.name,
        "meaning": meaning(context, first, ranges),
        "broker": first.broker,
        "partitions": ranges or None,
        "replicas": len(partitions),
        "since_ms": min(row.since_ms for row in group),
        "attempts": max(row.attempts for row in group),
        "last_error": first.last_error,
        "next_try_ms": min(tries, default=None),
        "unblock": _unblock(context, first),
    }


def meaning(context: Context, wait: Wait, ranges: str = "") -> str:
    """Return the cause's sentence, without the topic, times and errors."""
    partitions = f"partitions {ranges}" if ranges else ""
    path = path_of(context, wait.waiting_for)
    return causes.sentence(wait.waiting_for, wait.topic, broker=wait.broker, partitions=partitions, path=path)


def path_of(context: Context, kind: CauseKind) -> str | None:
    """Return the znode to repair; None where the cause has none."""
    return next((pause.path for pause in pauses(context) if pause.held_by is kind), None)
