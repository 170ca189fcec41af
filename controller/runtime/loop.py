"""The event loop of a controller: one queue, one consumer, one event at a time.

The consumer takes an event, passes it to the core, and performs the effects. While the core waits for results of reads,
writes or probes, these are the next events. Queued events wait until then. The loop never waits for brokers: their
answers come through the queue. A long step runs on a thread (`steps`).

    taken from the queue        steps of its course
    BrokersChanged              BrokersChanged, ZnodesRead, ZnodesRead, ZnodesWritten
    an answer of broker 3       StopReplicaResponseReceived

Only the loss of the session interrupts a course: the queued events are dropped and recorded as preempted, and
`SessionLost` is next. Results of the old session are never passed to the core.

An exception is a fault, whatever raised it (`faults`). A fault never ends the consumer silently: it is recorded, and
then the controller resigns or the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from lethe.adapters.clock import Clock
from lethe.adapters.logs import fields
from lethe.controller.core.context import Context
from lethe.controller.core.controller_state import ControllerState, state_of
from lethe.controller.core.effects import Effect, ProbeBrokers, ReadZnodes, RenewSession, Send, WriteZnodes
from lethe.controller.core.events import Answer, Event, Queueable, Result, SessionLost
from lethe.controller.runtime.faults import FaultResponse, FaultWhileResigning, response_to
from lethe.controller.runtime.queue import EventQueue, Queued
from lethe.controller.runtime.steps import Step, Stepper
from lethe.protocol.journal import EventRecord, EventRecordType, JsonValue

logger = logging.getLogger(__name__)

_ABANDONED: Final = "abandoned: the session was lost"
IDLE_RESET_MS: Final = 300_000
"""The queue-time sample is cleared after this time without an event, as in Kafka, so that it shows no old peaks."""

AfterFault = Callable[[Context, str, int], list[Effect]]


class EffectPerformer(Protocol):
    """See `perform.Performer`."""

    def perform(self, effects: Sequence[Effect]) -> None: ...
    async def result(self) -> Result | None: ...
    def forget_results(self) -> None: ...
    def drop_everything(self) -> None: ...


class LoopMetrics(Protocol):
    """What the loop measures."""

    def event_began(self, event: str, state: ControllerState, queued_s: float) -> None: ...
    def event_ended(self, event: str, state: ControllerState, handled_s: float, outcome: str) -> None: ...
    def queue_went_idle(self) -> None: ...
    def loop_closed(self) -> None: ...


class _Fault(NamedTuple):
    error: Exception
    where: str


class ControllerLoop:
    """Feeds one core. `run` is a task of the composition root; call everything else on the same event loop."""

    def __init__(
        self,
        context: Context,
        step: Step,
        after_fault: AfterFault,
        performer: EffectPerformer,
        clock: Clock,
        metrics: LoopMetrics,
        record: Callable[[EventRecord], None],
        *,
        queue: EventQueue | None = None,
        idle_reset_ms: int = IDLE_RESET_MS,
    ) -> None:
        self.context = context
        """The controller's memory. A step may change it on its own thread: read single values here, and everything else
        through `between_steps` or `readable`."""
        self.queue = EventQueue() if queue is None else queue
        self.handling: Queued | None = None
        """The event in progress."""
        self.steps = Stepper(step)
        self._after_fault = after_fault
        self._performer = performer
        self._clock = clock
        self._metrics = metrics
        self._record = record
        self._idle_reset_s = idle_reset_ms / 1000
        self._began_s = 0.0
        self._advanced_s = 0.0
        self._faults: list[_Fault] = []
        self._changed = asyncio.Event()
        self._subject = f"controller/{context.config.controller_id}"

    @property
    def handling_s(self) -> float:
        """Age of the event in progress; 0 where there is none."""
        return 0.0 if self.handling is None else time.monotonic() - self._began_s

    @property
    def standing_s(self) -> float:
        """Time since a step of the event in progress began or ended; 0 where there is none."""
        return 0.0 if self.handling is None else time.monotonic() - self._advanced_s

    # --- reading --------------------------------------------------------------------------------------------------

    async def between_steps(self) -> Context:
        """Wait until no step changes the memory; it may be read until the next await."""
        await self.steps.between_steps()
        return self.context

    def readable(self) -> Context | None:
        """Return the memory, to be read until the next await; None while a step changes it."""
        return None if self.steps.is_stepping else self.context

    # --- putting --------------------------------------------------------------------------------------------------

    def post(self, event: Queueable) -> None:
        """Queue an event of a watch, a timer, the session or an operator."""
        self.queue.post(event)

    async def deliver(self, answer: Answer) -> None:
        """Queue a broker's answer; wait while too many are queued."""
        await self.queue.deliver(answer)

    def session_lost(self, event: SessionLost) -> None:
        """Drop the queued events; the loss is next."""
        preempted = self.queue.overtake(event)
        if preempted:
            counts = dict(Counter(type(queued.event).__name__ for queued in preempted))
            self._record(_event_record(self._subject, type(event).__name__, "preempted others", preempted={**counts}))

    def fault(self, error: Exception, where: str) -> None:
        """Report an exception in another task. It is handled after the event in progress."""
        self._faults.append(_Fault(error, where))
        self.queue.wake()

    async def changed(self) -> None:
        """Wait until another event has been handled."""
        await self._changed.wait()

    # --- consuming ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Handle events until cancelled. Raises FaultWhileResigning or MemoryError; then the process has to end."""
        try:
            while True:
                queued = await self._next()
                if queued is not None:
                    await self._handle(queued)
                while self._faults:
                    found = self._faults.pop(0)
                    self._record(_event_record(self._subject, found.where, "fault", error=_error_text(found.error)))
                    self._resign(found.error, found.where)
        finally:
            self.steps.close()
            self._metrics.loop_closed()

    async def _next(self) -> Queued | None:
        try:
            async with asyncio.timeout(self._idle_reset_s):
                return await self.queue.take()
        except TimeoutError:
            self._metrics.queue_went_idle()
            self.steps.tidy()
            return None

    async def _handle(self, queued: Queued) -> None:
        name, state = type(queued.event).__name__, state_of(queued.event)
        started_s = time.monotonic()
        queued_s = started_s - queued.since_s
        self.handling, self._began_s, self._advanced_s = queued, started_s, started_s
        self._metrics.event_began(name, state, queued_s)
        outcome, details = "cancelled", {}
        try:
            outcome = await self._course_of(queued.event)
        except Exception as error:  # noqa: BLE001 — the table in `faults` decides about every one
            outcome, details = "fault", {"error": _error_text(error)}
            await self._dispose(error, name)
        finally:
            handled_s = time.monotonic() - started_s
            self.handling = None
            self._metrics.event_ended(name, state, handled_s, outcome)
            times = {"queued_ms": round(queued_s * 1000, 3), "handled_ms": round(handled_s * 1000, 3)}
            self._record(_event_record(self._subject, name, outcome, **times, **details))
            self._changed.set()
            self._changed = asyncio.Event()

    async def _course_of(self, event: Queueable) -> str:
        """Run all steps of the event's course, and return the outcome for the journal."""
        if self.context.awaiting_result and not isinstance(event, SessionLost):
            raise RuntimeError(f"{type(event).__name__} came while a result was awaited")
        self._performer.forget_results()
        following: Event = event
        while True:
            self._advanced_s = time.monotonic()
            effects = await self.steps.step(self.context, following, self._clock.now_ms())
            self._advanced_s = time.monotonic()
            if self.queue.overtaken.is_set():
                # The session was lost during the step, and the next one may be open already. Nothing of the old one
                # may enter it or end it. The other effects keep channels and timers in line with the core's memory.
                effects = [
                    effect
                    for effect in effects
                    if not isinstance(effect, Send | ReadZnodes | WriteZnodes | ProbeBrokers | RenewSession)
                ]
                self._performer.perform(effects)
                return _ABANDONED if self.context.awaiting_result else "handled"
            self._performer.perform(effects)
            if not self.context.awaiting_result:
                return "handled"
            result = await self._performer.result()
            if result is None or self.queue.overtaken.is_set():
                await self.queue.overtaken.wait()
                return _ABANDONED
            following = result

    async def _dispose(self, error: Exception, where: str) -> None:
        match response_to(error):
            case FaultResponse.AWAIT_SESSION_LOST:
                await self.queue.overtaken.wait()
            case FaultResponse.STOP:
                logger.critical("%s while handling %s: the process has to end", type(error).__name__, where)
                raise error
            case FaultResponse.RESIGN:
                self._resign(error, where)

    def _resign(self, error: Exception, where: str) -> None:
        what = _error_text(error)
        logger.error(
            "a fault while handling %s; resigning, and loading everything anew before leading again",
            where,
            exc_info=error,
            extra=fields(fault=what),
        )
        try:
            self._performer.drop_everything()
            # Session events stay: the core needs them to learn that its session is over.
            self.queue.clear(keep_sessions=True)
            reason = f"fault while handling {where}: {what}"
            self._performer.perform(self._after_fault(self.context, reason, self._clock.now_ms()))
        except Exception as second:
            raise FaultWhileResigning(f"resigning after {what} failed: {second!r}") from second


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _event_record(subject: str, event: str, outcome: str, **details: JsonValue) -> EventRecord:
    return EventRecord(EventRecordType.EVENT, subject, {"event": event, "outcome": outcome, **details})
