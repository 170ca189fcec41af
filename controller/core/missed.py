"""Topics that a broker may still show because its session had ended when they went.

A broker whose session has expired is sent no tombstone, and its process may live on with its metadata cache. While it
is away, and until its cache has been seen after its return, these topics are *missed* by it: nobody has seen whether it
shows them.

    a topic's znodes go while the broker is away             the topic is missed
    the broker goes, and its cache was seen with ghosts      the ghosts are missed
    its cache was read after its return                      what it does not show is settled; what it shows is a ghost
    this controller's term ends                              what is missed is said (`leaving`), and then forgotten

Brokers that went before this term began are not known here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from lethe.controller.core.cache_memory import Reading
from lethe.controller.core.context import Context
from lethe.protocol.vocabulary import BrokerId

MAX_MISSED: Final = 10_000
"""Of one broker; further topics are not remembered."""


def note_removed(context: Context, name: str) -> None:
    """The topic's znodes are gone: every broker that is away misses it."""
    for broker in context.cluster.gone_since_ms:
        note(context, broker, (name,))


def note(context: Context, broker: BrokerId, names: Iterable[str]) -> None:
    """The broker misses these topics."""
    for name in names:
        missed = context.cluster.caches.missed.setdefault(broker, {})
        if len(missed) < MAX_MISSED:
            missed[name] = None


def settle(context: Context, reading: Reading, suspects: Collection[str]) -> None:
    """The broker's cache was read, whole or for some topics: what it was asked for and does not show is settled."""
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
