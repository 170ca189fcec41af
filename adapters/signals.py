"""Signals that stop a process."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


@contextmanager
def stop_on_signals(stop: Callable[[str], None], *, on_hangup: str | None = None) -> Iterator[None]:
    """Call `stop` with a reason for users on SIGTERM, SIGINT and SIGHUP, while the block runs.

    With `on_hangup` a daemon survives SIGHUP: the text says what is reloaded, and is logged. Outside of the main
    thread's event loop no signal is handled.
    """
    loop = asyncio.get_running_loop()
    handled: list[signal.Signals] = []

    def hang_up() -> None:
        logger.warning("received SIGHUP: %s", on_hangup)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        try:
            if number is signal.SIGHUP and on_hangup is not None:
                loop.add_signal_handler(number, hang_up)
            else:
                loop.add_signal_handler(number, stop, f"received {number.name}")
            handled.append(number)
        except (NotImplementedError, RuntimeError, ValueError):
            logger.debug("signals cannot be handled on this thread")
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
