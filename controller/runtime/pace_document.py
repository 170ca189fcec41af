"""The pace of deletions as a JSON document, for `/state` and the board."""

from __future__ import annotations

from lethe.controller.core import pace
from lethe.controller.core.context import Context
from lethe.protocol.journal import JsonValue


def pace_document(context: Context, now_ms: int) -> JsonValue:
    """Return the limits and what waits for its turn; None where there is no limit. An unknown value is None."""
    view = pace.view(context, now_ms)
    if view.limits.is_nothing:
        return None
    return {
        "topics_per_second": view.limits.topics / 1_000 or None,
        "bytes_per_second": view.limits.bytes / 1_000 or None,
        "waiting": view.waiting,
        "waiting_bytes": view.waiting_bytes,
        "unknown_sizes": view.unknown_sizes,
        "time_left_ms": view.time_left_ms,
    }
