"""Runs the core's steps: short ones on the event loop, long ones on a thread.

A step over 100,000 partitions takes seconds. On the event loop it would delay ZooKeeper's pings until the session
expires, and the next controller would fail in the same way. So a step that may be long runs on a thread. Meanwhile the
event loop pings, sends queued requests and answers scrapes. Steps never overlap, so the core sees no concurrency.
Readers of its memory wait for the end of the step, or show what they read before it.

    cluster               event                          runs on
    5,000 partitions      any                            thread
    100 partitions        BrokersChanged                 event loop
    100 partitions        ZnodesRead of 300 znodes       thread

The cyclic garbage collector is disabled during a long step: reference counting frees what a step discards, and a search
for cycles among millions of small values takes a fifth of the time. After a step of `FREEZE_AFTER_S`, all objects are
frozen (`gc.freeze`), which excludes them from collections until `tidy`.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lethe.controller.core.context import Context
from lethe.controller.core.effects import Effect
from lethe.controller.core.events import Event, ZnodesRead, ZnodesWritten
from lethe.protocol.zookeeper.operations import Data

Step = Callable[[Context, Event, int], list[Effect]]

MANY_PARTITIONS: Final = 2_000
MANY_OUTCOMES: Final = 100
MUCH_DATA_BYTES: Final = 32 * 1024
FREEZE_AFTER_S: Final = 0.1
"""After a longer step the next collection would take seconds."""


def may_be_long(context: Context, event: Event) -> bool:
    """Return True where the step may take more than some milliseconds: a large cluster, or many or large outcomes."""
    if context.cluster.partitions_with_leader_and_isr >= MANY_PARTITIONS:
        return True
    match event:
        case ZnodesRead(outcomes=outcomes):
            size = sum(len(each.data or b"") for each in outcomes if isinstance(each, Data))
            return len(outcomes) >= MANY_OUTCOMES or size >= MUCH_DATA_BYTES
        case ZnodesWritten(outcomes=written):
            return len(written) >= MANY_OUTCOMES
        case _:
            return False


class Stepper:
    """Runs steps, one at a time."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="controller-core")
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_stepping(self) -> bool:
        """True while a step changes the memory on its thread: nothing else may read it."""
        return not self._idle.is_set()

    async def between_steps(self) -> None:
        """Wait until the memory may be read, which holds until the caller's next await."""
        # The controller loop wakes first and may have started the next step.
        while self.is_stepping:
            await self._idle.wait()

    async def step(self, context: Context, event: Event, now_ms: int) -> list[Effect]:
        """Return the step's effects, or raise its exception. Cancelling does not stop a step on the thread."""
        if not may_be_long(context, event):
            return self._step(context, event, now_ms)
        self._idle.clear()
        ended = asyncio.get_running_loop().run_in_executor(self._executor, self._uncollected, context, event, now_ms)
        ended.add_done_callback(lambda _: self._idle.set())
        return await ended

    def _uncollected(self, context: Context, event: Event, now_ms: int) -> list[Effect]:
        started_s = time.thread_time()
        gc.disable()
        try:
            return self._step(context, event, now_ms)
        finally:
            if time.thread_time() - started_s >= FREEZE_AFTER_S:
                gc.freeze()
            gc.enable()

    def tidy(self) -> None:
        """Collect garbage among the frozen objects. Takes up to a second, so call it while the controller is idle."""
        if gc.get_freeze_count() and not self.is_stepping:
            gc.unfreeze()
            gc.collect()
            gc.freeze()

    def close(self) -> None:
        """Run no more steps, without waiting for one that runs."""
        self._executor.shutdown(wait=False, cancel_futures=True)
