"""The trash as a JSON document, for `/state`, the board and `lethe topics trash list`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from lethe.controller.core.context import Context
from lethe.controller.core.trash import due_at_ms
from lethe.controller.core.trash_disks import low_dirs, next_to_go
from lethe.controller.core.trash_memory import TrashedTopic
from lethe.controller.core.trash_view import size_bytes, summary
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import topic_id_to_text
from lethe.protocol.zookeeper.znodes import TrashPhase

MAX_TRASH_SHOWN: Final = 2_000


def trash_document(context: Context) -> JsonValue:
    """Return the topics in the trash, at most `MAX_TRASH_SHOWN`, and the disks. An unknown value is None."""
    memory = context.cluster.trash
    return {
        **_counts(context),
        "paused": None if context.cluster.paused is None else context.cluster.paused.reason,
        "topics": [_row(context, *each) for each in islice(memory.topics.items(), MAX_TRASH_SHOWN)],
        "unreadable": [{"topic": name, "reason": why} for name, why in memory.unreadable.items()],
        "unseen_disks": [
            {"broker": broker, "reason": seen.problem}
            for broker, seen in sorted(memory.disks.seen.items())
            if seen.problem is not None
        ],
        "full_disks": list(_full_disks(context)),
        "gives_way_next": None if (chosen := next_to_go(context)) is None else chosen[0],
    }


def trash_summary(context: Context) -> JsonValue:
    """Return the trash in numbers, for the board; None where it is empty, and nothing of it is unseen."""
    memory = context.cluster.trash
    is_unseen = memory.unreadable or memory.unseen is not None
    return _counts(context) if memory.topics or is_unseen or memory.disks.giving is not None else None


def _counts(context: Context) -> dict[str, JsonValue]:
    memory, found = context.cluster.trash, summary(context)
    giving = memory.disks.giving
    return {
        "unseen": memory.unseen,
        "unreadable_count": len(memory.unreadable),
        "counts": {phase.value: found.topics.get(phase, 0) for phase in TrashPhase},
        "size_bytes": found.size_bytes,
        "oldest_due_ms": found.oldest_due_ms,
        "free_percent": context.trash_free_percent,
        "full_disk_count": found.full_disks,
        "unseen_disk_count": found.unseen_brokers,
        "giving_way": None
        if giving is None
        else {
            "topic": giving.topic,
            "broker": giving.broker,
            "path": giving.path,
            "size_bytes": giving.size_bytes,
            "since_ms": giving.since_ms,
        },
    }


def _row(context: Context, name: str, found: TrashedTopic) -> JsonValue:
    is_there = found.phase is TrashPhase.TRASHED
    size, unseen = size_bytes(context, name) if is_there else (0, ())
    problem = found.problem
    return {
        "topic": name,
        "topic_id": topic_id_to_text(found.entry.topic_id),
        "phase": found.phase.value,
        "since_ms": found.entry.since_ms,
        "next_step_ms": due_at_ms(context, found),
        "partitions": len(found.entry.partitions),
        "size_bytes": size if is_there and (size or len(unseen) < _brokers(found)) else None,
        "unseen_brokers": [*unseen],
        "last_error": None if problem is None else problem.what,
        "attempts": 0 if problem is None else problem.attempts,
        "groups_left": dict(islice(found.groups_left.items(), MAX_TRASH_SHOWN)),
    }


def _brokers(found: TrashedTopic) -> int:
    return len({broker for saved in found.entry.partitions.values() for broker in saved.replicas})


def _full_disks(context: Context) -> Iterator[JsonValue]:
    for broker, log_dir in low_dirs(context):
        yield {
            "broker": broker,
            "path": log_dir.path,
            "total_bytes": log_dir.total_bytes,
            "usable_bytes": log_dir.usable_bytes,
            "trash_bytes": sum(log_dir.topics.values()),
        }
