"""Debts for `/state`: what absent brokers still have of deleted topics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from lethe.controller.core.context import Context
from lethe.protocol.journal import JsonValue, partition_ranges
from lethe.protocol.vocabulary import topic_id_to_text

MAX_DEBTS_SHOWN: Final = 1_000


def debts_document(context: Context) -> JsonValue:
    """Return the open debts, at most `MAX_DEBTS_SHOWN`, and those that cannot be understood."""
    debts = context.cluster.debts
    return {
        "open": sum(1 for _ in debts.all()),
        "debts": list(_rows(context)),
        "unreadable": [{"path": each.path, "reason": each.reason} for each in debts.unreadable.values()],
        "forgotten_brokers": list(context.cluster.forgotten),
    }


def debts_summary(context: Context) -> JsonValue:
    """Return the debts in numbers, for the board; None where there are none. Bytes as far as they are known.

    Without open debts there may still be some that cannot be understood: `since_ms` is None then."""
    debts = context.cluster.debts
    found = list(debts.all())
    if not found and not debts.unreadable:
        return None
    return {
        "open": len(found),
        "brokers": [*sorted({int(key.broker) for key, _ in found})],
        "size_bytes": sum(each.debt.size_bytes or 0 for _, each in found),
        "since_ms": min((each.debt.since_ms for _, each in found), default=None),
        "unreadable_count": len(debts.unreadable),
    }


def _rows(context: Context) -> Iterator[JsonValue]:
    for key, each in islice(context.cluster.debts.all(), MAX_DEBTS_SHOWN):
        topic_id, problem = each.debt.topic_id, each.problem
        yield {
            "broker": key.broker,
            "topic": key.topic,
            "topic_id": None if topic_id is None else topic_id_to_text(topic_id),
            "partitions": partition_ranges(each.debt.partitions),
            "since_ms": each.debt.since_ms,
            "size_bytes": each.debt.size_bytes,
            "is_asked": each.request_id is not None,
            "last_error": None if problem is None else problem.what,
            "attempts": 0 if problem is None else problem.attempts,
            "next_try_ms": each.retry_at_ms,
        }
