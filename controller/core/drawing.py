"""What the core draws: topic ids and random numbers, from the entropy of the session.

The same events give the same ids and numbers.
"""

from __future__ import annotations

import hashlib
import uuid

from lethe.controller.core.context import Context
from lethe.protocol.vocabulary import TopicId, is_usable_topic_id


def fresh_topic_id(context: Context) -> TopicId:
    """Return the next topic id."""
    while True:
        candidate = uuid.UUID(bytes=_next(context)[:16], version=4)
        if is_usable_topic_id(candidate):
            return TopicId(candidate)


def draw_below(context: Context, limit: int) -> int:
    """Return a number from 0 to `limit` - 1. `limit` is positive."""
    return int.from_bytes(_next(context), "big") % limit


def _next(context: Context) -> bytes:
    context.drawn += 1
    return hashlib.sha256(context.entropy + context.drawn.to_bytes(8, "big")).digest()
