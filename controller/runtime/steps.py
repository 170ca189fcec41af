"""Where the core's steps run: short ones on the event loop, long ones on a thread of their own.

A step over 100,000 partitions takes seconds. On the event loop it would keep ZooKeeper's pings waiting, the session
would expire, and the next controller would fall into the same trap; so a step that may be long runs on a thread, while
the event loop pings, sends what brokers have been queued, and answers scrapes. It is still one step at a time, and the
loop waits for it: the core sees no concurrency. Who wants to read its memory meanwhile has to wait for the end of the
step, or make do with what was read before.

Python's cyclic garbage collector pauses during such a step: what a step makes is kept or goes when nobody refers to it
any more, and looking for cycles among millions of small values takes a fifth of the time. For the same reason what is
there after a step of some length is frozen: set apart from what the collector looks at, until `tidy` has it looked at
once, when nothing else is to be done.
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
"""A step that has taken longer has made so much that the collector would be seconds over it."""


def may_be_long(context: Context, event: Event) -> bool:
    """True where the step may take more than some milliseconds: a large cluster, or much that was read or written."""
    if context.partitions_with_leadership >= MANY_PARTITIONS:
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
        """A step is changing the memory on its thread at this moment: it must not be read."""
        return not self._idle.is_set()

    async def between_steps(self) -> None:
        """Wait until the memory may be read; it may until the next await."""
        # The loop is woken before those who wait here, and may have begun the next step by now.
        while self.is_stepping:
            await self._idle.wait()

    async def step(self, context: Context, event: Event, now_ms: int) -> list[Effect]:
        """The effects of the step, or what it raises. Cancelled, a step on the thread runs to its end all the same."""
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
        """Look for garbage among what was frozen, once; for when nothing is going on. Takes up to a second."""
        if gc.get_freeze_count() and not self.is_stepping:
            gc.unfreeze()
            gc.collect()
            gc.freeze()

    def close(self) -> None:
        """Take no more steps; one that runs is not waited for."""
        self._executor.shutdown(wait=False, cancel_futures=True)
