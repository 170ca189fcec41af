"""The event queue of a controller: external events that are not handled yet.

First in, first out, with one exception: `overtake` replaces all queued events by one, since a lost session makes the
others meaningless. No event is refused, yet the queue is bounded:

* A watch or timer event that is already queued is not queued again: its read is still to come and sees both
  changes. So at most one waits per watched znode and timer. The changed topics of all queued `TopicsModified` are
  merged into one event.
* Answers of brokers: at most `MAX_ANSWERS`. A channel has one request in flight, and `deliver` blocks it while there
  is no room.
* Requests of brokers: the listener limits them, and answers those that are dropped here.
* Session events and requests of operators come one at a time.

    queued                          arrives                 queued then
    TopicsChanged                   TopicsChanged           TopicsChanged
    TopicsModified(a), an answer    TopicsModified(b)       TopicsModified(a, b), the answer
    any events                      SessionLost             SessionLost
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from lethe.controller.core.events import (
    Answer,
    BrokerModified,
    BrokersChanged,
    ConfigurationChanged,
    ControllerChanged,
    ControllerDeleted,
    DeletionMarkerModified,
    DeletionsPauseChanged,
    ForgetsRequested,
    IsrChangesNotified,
    LeaderAndIsrResponseReceived,
    LogDirEventsNotified,
    LogDirsDescribed,
    PartAnswered,
    PreferredElectionsRequested,
    Queueable,
    ReassignmentsRequested,
    SessionEstablished,
    SessionLost,
    StopReplicaResponseReceived,
    TimerFired,
    TopicDeletionsRequested,
    TopicRequestsChanged,
    TopicsChanged,
    TopicsModified,
    UpdateMetadataResponseReceived,
)

MAX_ANSWERS: Final = 1_000
"""Answers that may be queued; the channels of further ones wait."""

_MERGED: Final = (
    ControllerChanged,
    ControllerDeleted,
    BrokersChanged,
    BrokerModified,
    TopicsChanged,
    TopicDeletionsRequested,
    DeletionMarkerModified,
    ForgetsRequested,
    DeletionsPauseChanged,
    TopicRequestsChanged,
    ReassignmentsRequested,
    IsrChangesNotified,
    LogDirEventsNotified,
    PreferredElectionsRequested,
    ConfigurationChanged,
    TimerFired,
)
_SESSIONS: Final = (SessionEstablished, SessionLost)
_ANSWERS: Final = (
    LeaderAndIsrResponseReceived,
    UpdateMetadataResponseReceived,
    StopReplicaResponseReceived,
    LogDirsDescribed,
    PartAnswered,
)


class Queued(NamedTuple):
    event: Queueable
    since_s: float
    """When it was queued, on the monotonic clock."""


class EventQueue:
    """Single-consumer queue. All callers run on one event loop."""

    def __init__(self, max_answers: int = MAX_ANSWERS) -> None:
        self._waiting: deque[Queued] = deque()
        self._merged: dict[Queueable, None] = {}
        self._modified: dict[str, None] = {}
        """The topics of the queued TopicsModified."""
        self._by_event: dict[str, int] = {}
        self._answer_slots = asyncio.Semaphore(max_answers)
        self._filled = asyncio.Event()
        self.overtaken = asyncio.Event()
        """Set from `overtake` until its event is taken."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def by_event(self) -> Mapping[str, int]:
        """Number of queued events by name; names that were queued before stay, with 0."""
        return self._by_event

    @property
    def oldest_s(self) -> float:
        """Age of the oldest queued event; 0 where the queue is empty."""
        return time.monotonic() - self._waiting[0].since_s if self._waiting else 0.0

    @property
    def events(self) -> list[Queueable]:
        """The queued events, oldest first."""
        return [queued.event for queued in self._waiting]

    def post(self, event: Queueable) -> None:
        """Queue an event of a watch, a timer, the session, the listener or an operator."""
        if isinstance(event, TopicsModified):
            is_waiting = bool(self._modified)
            self._modified.update(dict.fromkeys(event.topics))
            if is_waiting:
                return
        if isinstance(event, _MERGED):
            if event in self._merged:
                return
            self._merged[event] = None
        self._put(event)

    async def deliver(self, answer: Answer | PartAnswered) -> None:
        """Queue a broker's answer; wait while `MAX_ANSWERS` are queued. If cancelled, the answer is not queued."""
        await self._answer_slots.acquire()
        self._put(answer)

    def overtake(self, event: Queueable) -> list[Queued]:
        """Replace all queued events by `event`, and return them."""
        preempted = self.clear()
        self._put(event)
        self.overtaken.set()
        return preempted

    def clear(self, *, keep_sessions: bool = False) -> list[Queued]:
        """Drop all queued events, and return them; with `keep_sessions`, session events stay."""
        kept = [q for q in self._waiting if keep_sessions and isinstance(q.event, _SESSIONS)]
        dropped = [q for q in self._waiting if not (keep_sessions and isinstance(q.event, _SESSIONS))]
        self._waiting = deque(kept)
        self._merged.clear()
        self._modified.clear()
        if not kept:
            self._filled.clear()
            self.overtaken.clear()
        for queued in dropped:
            self._by_event[type(queued.event).__name__] -= 1
            if isinstance(queued.event, _ANSWERS):
                self._answer_slots.release()
        return dropped

    def wake(self) -> None:
        """Make `take` return None once, so that the consumer handles faults."""
        self._filled.set()

    async def take(self) -> Queued | None:
        """Wait for an event or `wake`, and return the oldest event or None. If cancelled, no event is taken."""
        await self._filled.wait()
        if not self._waiting:
            self._filled.clear()
            return None
        queued = self._waiting.popleft()
        self._by_event[type(queued.event).__name__] -= 1
        if isinstance(queued.event, _MERGED):
            self._merged.pop(queued.event, None)
        elif isinstance(queued.event, TopicsModified):
            queued = queued._replace(event=TopicsModified(tuple(self._modified)))
            self._modified.clear()
        elif isinstance(queued.event, _ANSWERS):
            self._answer_slots.release()
        if not self._waiting:
            self._filled.clear()
        self.overtaken.clear()
        return queued

    def _put(self, event: Queueable) -> None:
        self._waiting.append(Queued(event, time.monotonic()))
        name = type(event).__name__
        self._by_event[name] = self._by_event.get(name, 0) + 1
        self._filled.set()
