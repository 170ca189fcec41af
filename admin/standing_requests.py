"""Requests that stand in ZooKeeper until a controller answers them: what becomes of them when a command ends early.

    how the command ends                               its requests
    -------------------------------------------------  ----------------------------------------------------------------
    Ctrl-C, SIGTERM, SIGHUP                            withdrawn, or answered already: the command says which
    a second signal, or no withdrawal within the limit unseen: they may stand, and the command names them
    the session is lost                                unseen as well

A request that stands is carried out by the next controller that reads it, however long after the command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from lethe.adapters.signals import stop_on_signals
from lethe.adapters.zookeeper.interface import SessionLost

T = TypeVar("T")
Say = Callable[[str], None]

EARLY: Final = "the command was interrupted before it wrote the request"
WITHDRAWAL_LIMIT_S: Final = 5.0


def may_stand(paths: Sequence[str]) -> str:
    """Return what is to be said of requests that were not seen to be gone."""
    stands, it = (
        ("the requests {} may stand, and are", "them") if len(paths) > 1 else ("the request {} may stand, and is", "it")
    )
    return (
        f"{stands.format(', '.join(paths))} carried out when a controller reads {it}: to withdraw {it}, give the same "
        "command again and end it with Ctrl-C"
    )


@contextmanager
def named_when_lost(paths: Sequence[str]) -> Iterator[None]:
    """Name these requests in a SessionLost of the block."""
    try:
        yield
    except SessionLost as lost:
        raise SessionLost(f"{lost.reason}; {may_stand(paths)}") from lost


async def until_interrupted(
    work: Coroutine[Any, Any, T],
    interrupted: asyncio.Event,
    paths: Sequence[str],
    say: Say,
    *,
    limit_s: float = WITHDRAWAL_LIMIT_S,
) -> T:
    """Return what the work returns, which withdraws these requests when `interrupted` is set: by a signal, or by the
    cancellation of this task.

    Raises CancelledError where that takes longer than the limit, or at a second signal, after it has named them."""
    loop = asyncio.get_running_loop()
    running = loop.create_task(work)

    def stop(reason: str) -> None:
        if interrupted.is_set():
            running.cancel()
            return
        interrupted.set()
        # Where ZooKeeper does not answer, nothing is withdrawn until the session is lost.
        loop.call_later(limit_s, running.cancel)
        # Last, because after SIGHUP there may be no terminal to write to.
        say(f"{reason}: the request is being withdrawn")

    with stop_on_signals(stop):
        while True:
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                if running.cancelled():
                    say(may_stand(paths))
                    raise
                stop("interrupted")
