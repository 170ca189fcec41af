"""The one queue of a controller: what happened outside and has not been handled yet.

First in, first out, with one exception: `overtake` drops everything that waits and puts one event in its place, because
after a lost session none of it means anything any more. Nothing that arrives is refused, and yet the queue is bounded:

* A watch or a timer that is already waiting is not queued a second time. The one that waits has not read anything yet,
  so when its turn comes it will see what the second one reports. There are as many as there are watched znodes;
  all topics whose znodes have changed wait as one event.
* Answers of brokers are bounded by making their channels wait: a channel has one request in flight, and does not send
  the next one before its answer has found room here.
* Requests of brokers are bounded by the listener that posts them, and answered by it where they are dropped here.
* Sessions and requests of people come one at a time.
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
    DeletionsPauseChanged,
    External,
    IsrChangesNotified,
    LeaderAndIsrAnswered,
    LogDirEventsNotified,
    LogDirsDescribed,
    PreferredElectionsRequested,
    ReassignmentsRequested,
    SessionEstablished,
    SessionLost,
    StopReplicaAnswered,
    TimerFired,
    TopicDeletionsRequested,
    TopicsChanged,
    TopicsModified,
    UpdateMetadataAnswered,
)

MAX_ANSWERS: Final = 1_000
"""Answers that may wait; the channels of further ones wait themselves."""

_MERGED: Final = (
    ControllerChanged,
    ControllerDeleted,
    BrokersChanged,
    BrokerModified,
    TopicsChanged,
    TopicDeletionsRequested,
    DeletionsPauseChanged,
    ReassignmentsRequested,
    IsrChangesNotified,
    LogDirEventsNotified,
    PreferredElectionsRequested,
    ConfigurationChanged,
    TimerFired,
)
_SESSIONS: Final = (SessionEstablished, SessionLost)
_ANSWERS: Final = (LeaderAndIsrAnswered, UpdateMetadataAnswered, StopReplicaAnswered, LogDirsDescribed)


class Queued(NamedTuple):
    event: External
    since_s: float
    """When it was queued, on the monotonic clock."""


class EventQueue:
    """One consumer takes; anything that runs on the same event loop puts."""

    def __init__(self, max_answers: int = MAX_ANSWERS) -> None:
        self._waiting: deque[Queued] = deque()
        self._merged: dict[External, None] = {}
        self._modified: dict[str, None] = {}
        """The topics of the one TopicsModified that waits."""
        self._by_event: dict[str, int] = {}
        self._room = asyncio.Semaphore(max_answers)
        self._filled = asyncio.Event()
        self.overtaken = asyncio.Event()
        """Set by `overtake` until the event that overtook is taken."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def by_event(self) -> Mapping[str, int]:
        """How many wait, by the name of the event; 0 for those that have waited before."""
        return self._by_event

    @property
    def oldest_s(self) -> float:
        """How long the oldest has waited; 0 where none waits."""
        return time.monotonic() - self._waiting[0].since_s if self._waiting else 0.0

    @property
    def events(self) -> list[External]:
        """What waits, the oldest first."""
        return [queued.event for queued in self._waiting]

    def post(self, event: External) -> None:
        """Queue what a watch, a timer, the session or a person reports."""
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

    async def deliver(self, answer: Answer) -> None:
        """Queue a broker's answer; waits while too many are waiting. Cancelled, it has not queued it."""
        await self._room.acquire()
        self._put(answer)

    def overtake(self, event: External) -> list[Queued]:
        """Put the event in place of everything that waits, and return that."""
        preempted = self.clear()
        self._put(event)
        self.overtaken.set()
        return preempted

    def clear(self, *, keep_sessions: bool = False) -> list[Queued]:
        """Drop everything that waits, and return it; `keep_sessions` leaves what tells of sessions in place."""
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
                self._room.release()
        return dropped

    def wake(self) -> None:
        """Have `take` return None once, so that the consumer looks after something else."""
        self._filled.set()

    async def take(self) -> Queued | None:
        """The event that waited longest; waits for one, or for `wake`. Cancelled, it has taken nothing."""
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
            self._room.release()
        if not self._waiting:
            self._filled.clear()
        self.overtaken.clear()
        return queued

    def _put(self, event: External) -> None:
        self._waiting.append(Queued(event, time.monotonic()))
        name = type(event).__name__
        self._by_event[name] = self._by_event.get(name, 0) + 1
        self._filled.set()
