"""Connects the metrics to the parts that hold the values: core, queue, channels, session, journal.

A scrape runs on the event loop. While a long step changes the core's memory on its thread, the scrape shows the values
of the previous one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from lethe.adapters.clock import Clock
from lethe.adapters.journal import Journal
from lethe.controller.core.answers import NOT_LISTED, UNPROVEN
from lethe.controller.core.context import Context, Role
from lethe.controller.core.deletion_memory import RetriedAction
from lethe.controller.core.gauges import Gauges, gauges
from lethe.controller.core.waiting import oldest
from lethe.controller.runtime.listener import BrokerListener
from lethe.controller.runtime.loop import ControllerLoop
from lethe.controller.runtime.metrics import (
    ChannelView,
    OldestView,
    QueueView,
    SessionView,
    Sources,
    TermView,
)
from lethe.controller.runtime.powers import PowerWatch
from lethe.controller.runtime.sessions import SessionKeeper

V = TypeVar("V")

REASONS: Final[Mapping[str, str]] = MappingProxyType({UNPROVEN: "UNPROVEN", NOT_LISTED: "NOT_LISTED"})
"""Short names for reasons that are sentences elsewhere; other reasons are names of errors."""


def sources(
    loop: ControllerLoop,
    sessions: SessionKeeper,
    channels: Callable[[], Iterable[ChannelView]],
    clock: Clock,
    journal: Journal | None,
    listener: BrokerListener | None,
    powers: PowerWatch | None = None,
) -> Sources:
    """Return the sources of one controller's metrics."""
    context, roles = loop.context, tuple(role.value for role in Role)

    def between_steps(read: Callable[[Context], V], first: V) -> Callable[[], V]:
        latest = first

        def look() -> V:
            nonlocal latest
            if (readable := loop.readable()) is not None:
                latest = read(readable)
            return latest

        return look

    return Sources(
        gauges=between_steps(gauges, Gauges()),
        oldest=between_steps(lambda readable: oldest_view(readable, clock.now_ms()), None),
        retries=between_steps(retries_by_name, {}),
        term=lambda: TermView(
            context.role.value,
            roles,
            context.cluster.epoch if context.is_leading else 0,
            context.active_controller,
            context.elections,
            context.unclean_elections,
            (clock.now_ms() - context.cluster.elected_at_ms) / 1000 if context.is_leading else 0.0,
            context.ghosts_cured,
        ),
        queue=lambda: QueueView(len(loop.queue), loop.queue.by_event, loop.queue.oldest_s, loop.handling_s),
        channels=channels,
        power=None if powers is None else powers.look,
        session=lambda: SessionView(
            sessions.session is not None,
            sessions.counts.opened,
            sessions.counts.lost,
            sessions.counts.failed_attempts,
            0 if sessions.session is None else sessions.session.write_window,
        ),
        listener=None if listener is None else listener.view,
        journal=None if journal is None or not journal.has_files else journal.counts,
        journal_topic=None if journal is None else journal.topic_counts,
    )


def oldest_view(context: Context, now_ms: int) -> OldestView | None:
    """Return the oldest marked topic; None where no topic is marked or this controller is not active."""
    found = oldest(context) if context.is_leading else None
    if found is None:
        return None
    age_s = max(0, now_ms - found.marked_since_ms) / 1000
    return OldestView(found.topic, found.reason.name, found.broker, age_s)


def retries_by_name(context: Context) -> dict[tuple[RetriedAction, str], int]:
    """Return the number of retries by part and name of the reason."""
    return {(part, REASONS.get(why, why)): count for (part, why), count in context.deletion_retries.items()}
