"""Feed the core and perform its effects.

`feed` takes one step, at once, on the event loop; every effect that takes time becomes a task whose result is fed as
soon as it is there. The core keeps control requests in their order and at most one of them waits for a result, so
nothing is queued here. A fault in a step leaves an undefined state: the agent then stops, and reads its directories
anew at the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol

from lethe.adapters.clock import Clock
from lethe.broker.core.agent import step
from lethe.broker.core.effects import (
    AskControllerEpoch,
    AskTopicIds,
    DirectoryRef,
    DiskOperation,
    Effect,
    Halt,
    NotifyLogDirFailure,
    PerformDisk,
    ProposeIsr,
    Record,
    Refuse,
    RemoveDirectories,
    Reply,
    SetTimer,
    SettleDebts,
)
from lethe.broker.core.inputs import (
    ControllerEpochReceived,
    ControlReceived,
    DirectoriesRemoved,
    DiskOutcome,
    DiskPerformed,
    FoundDebt,
    Input,
    IsrOutcome,
    IsrProposed,
    RemovalOutcome,
    TimerFired,
    TopicIdAnswer,
    TopicIdsReceived,
)
from lethe.broker.core.state import AgentState
from lethe.protocol.journal import EventRecord
from lethe.protocol.kafka.control import Addressed, ControlResponse

logger = logging.getLogger(__name__)


class EffectPerformer(Protocol):
    """Performs the effects that take time; each method's result is the next input."""

    async def perform(self, operations: Sequence[DiskOperation]) -> tuple[DiskOutcome, ...]: ...
    async def remove(self, directories: Sequence[DirectoryRef]) -> tuple[RemovalOutcome, ...]: ...
    async def ask_topic_ids(self, topics: Sequence[str]) -> tuple[TopicIdAnswer, ...]: ...
    async def ask_controller_epoch(self) -> ControllerEpochReceived: ...
    async def propose_isr(self, proposal: ProposeIsr) -> tuple[IsrOutcome, ...]: ...
    def notify_log_dir_failure(self) -> Coroutine[None, None, None]: ...
    def settle_debts(self, debts: Sequence[FoundDebt]) -> None: ...
    def record(self, record: EventRecord) -> None: ...


class RequestRefused(Exception):
    """The core refused the request without an answer; its connection is to be closed."""


class AgentLoop:
    """One agent's state and the steps that change it. To be used on the event loop only."""

    def __init__(
        self,
        state: AgentState,
        performer: EffectPerformer,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        halt: Callable[[str], None],
    ) -> None:
        self.state = state
        self._performer = performer
        self._clock = clock
        self._tasks = tasks
        self._halt = halt
        self._stopped = False
        self._tokens = 0
        self._waiting: dict[int, asyncio.Future[ControlResponse]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._changes: list[asyncio.Future[None]] = []
        self._background: dict[asyncio.Task[None], None] = {}
        """Tasks that may be cancelled when the agent stops."""

    async def control(self, addressed: Addressed) -> ControlResponse:
        """Perform a control request and return its answer. Raises RequestRefused if it gets none.

        Cancelling this call does not cancel the request, as with Kafka.
        """
        if self._stopped:
            raise RequestRefused("the agent is stopping")
        self._tokens += 1
        token = self._tokens
        answer: asyncio.Future[ControlResponse] = asyncio.get_running_loop().create_future()
        self._waiting[token] = answer
        try:
            self.feed(ControlReceived(token, addressed))
            return await answer
        finally:
            self._waiting.pop(token, None)

    def feed(self, happened: Input) -> None:
        """Take one step and start its effects."""
        if self._stopped:
            return
        try:
            for effect in step(self.state, happened, self._clock.now_ms()):
                self._perform(effect)
        except Exception:
            logger.exception("a step failed; the agent stops, for its memory cannot be trusted any more")
            self.stop("a step failed")
            self._halt("a step failed; the log has the reason")
        for change in self._changes:
            if not change.done():
                change.set_result(None)
        self._changes.clear()

    async def changed(self) -> None:
        """Returns after the next step."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes.append(change)
        await change

    def stop(self, reason: str) -> None:
        """Take no further step, and refuse the requests that wait. Outstanding disk operations finish; other tasks are
        cancelled, and the next start finds their work again."""
        self._stopped = True
        for task in self._background:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(RequestRefused(reason))

    # --- effects --------------------------------------------------------------------------------------------------

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Reply() | Refuse():
                self._answer(effect)
            case PerformDisk(operations):
                self._tasks.create_task(self._feed_disk(operations), name="agent-disk")
            case AskTopicIds(topics):
                self._start("topic-ids", self._feed_topic_ids(topics))
            case AskControllerEpoch():
                self._start("controller-epoch", self._feed_controller_epoch())
            case RemoveDirectories(directories):
                self._start("removal", self._feed_removals(directories))
            case ProposeIsr():
                self._start("isr-proposal", self._feed_isr(effect))
            case SettleDebts(debts):
                self._performer.settle_debts(debts)
            case SetTimer(at_ms):
                self._set_timer(at_ms)
            case NotifyLogDirFailure():
                self._start("log-dir-notification", self._performer.notify_log_dir_failure())
            case Halt(reason):
                self._halt(reason)
            case Record(record):
                self._performer.record(record)

    def _answer(self, effect: Reply | Refuse) -> None:
        answer = self._waiting.get(effect.token)
        if answer is None or answer.done():
            return
        if isinstance(effect, Reply):
            answer.set_result(effect.response)
        else:
            answer.set_exception(RequestRefused(effect.reason))

    def _start(self, name: str, work: Coroutine[None, None, None]) -> None:
        task = self._tasks.create_task(work, name=f"agent-{name}")
        self._background[task] = None
        task.add_done_callback(lambda done: self._background.pop(done, None))

    async def _feed_disk(self, operations: Sequence[DiskOperation]) -> None:
        self.feed(DiskPerformed(await self._performer.perform(operations)))

    async def _feed_topic_ids(self, topics: Sequence[str]) -> None:
        self.feed(TopicIdsReceived(await self._performer.ask_topic_ids(topics)))

    async def _feed_controller_epoch(self) -> None:
        self.feed(await self._performer.ask_controller_epoch())

    async def _feed_removals(self, directories: Sequence[DirectoryRef]) -> None:
        self.feed(DirectoriesRemoved(await self._performer.remove(directories)))

    async def _feed_isr(self, proposal: ProposeIsr) -> None:
        self.feed(IsrProposed(await self._performer.propose_isr(proposal)))

    def _set_timer(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0, at_ms - self._clock.now_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.feed(TimerFired())
