"""Topics that a broker may still show because it was not registered when they were deleted.

A broker with an expired session is sent no tombstone, and its process may live on with its metadata cache. The broker
has *missed* these topics until its cache was read after its return:

    a topic's znodes are removed while the broker is away    the topic is missed
    the broker leaves, and its cache showed ghosts           the ghosts are missed
    its cache was read after its return                      topics that it shows are ghosts, the others are settled
    this controller's term ends                            missed topics are reported (`leaving`), then forgotten

Brokers that left before this term began are unknown here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from lethe.controller.core.cache_memory import OutstandingCacheRead
from lethe.controller.core.context import Context
from lethe.protocol.vocabulary import BrokerId

MAX_MISSED: Final = 10_000
"""Limit for one broker; further topics are not stored."""


def note_removed(context: Context, name: str) -> None:
    """Add a topic without znodes to the missed topics of every broker that is away."""
    for broker in context.cluster.gone_since_ms:
        note(context, broker, (name,))


def note(context: Context, broker: BrokerId, names: Iterable[str]) -> None:
    """Add these topics to the broker's missed topics."""
    for name in names:
        missed = context.cluster.caches.missed.setdefault(broker, {})
        if len(missed) < MAX_MISSED:
            missed[name] = None


def settle(context: Context, reading: OutstandingCacheRead, suspects: Collection[str]) -> None:
    """Settle the missed topics that a read of the broker's cache covered and did not show."""
    missed, asked, shown = context.cluster.caches.missed, reading.due.topics, frozenset(suspects)
    kept = {
        name: None
        for name in missed.get(reading.broker, {})
        if name in shown or (asked is not None and name not in asked)
    }
    if kept:
        missed[reading.broker] = kept
    else:
        missed.pop(reading.broker, None)
