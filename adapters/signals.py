"""How a daemon is asked to stop from outside."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


@contextmanager
def stop_on_signals(stop: Callable[[str], None]) -> Iterator[None]:
    """While the block runs SIGTERM and SIGINT call `stop` with a reason that can be shown. Where this is not the main
    thread's event loop nothing happens: signals are then somebody else's."""
    loop = asyncio.get_running_loop()
    handled: list[signal.Signals] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, stop, f"received {number.name}")
            handled.append(number)
        except (NotImplementedError, RuntimeError, ValueError):
            logger.debug("signals cannot be handled on this thread")
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
