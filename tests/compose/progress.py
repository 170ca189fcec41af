"""What the run says while it goes on, how it waits, and how it fails."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

POLL_S: Final = 1.0
_BEGAN: Final = time.monotonic()


class Failed(Exception):
    """Something is not as it should be: says what, and where to look."""


class NoEngine(Exception):
    """There is no Docker engine and none can be started: says why, and what to do about it."""


def say(text: str) -> None:
    """A line with the seconds since the beginning."""
    sys.stdout.write(f"{time.monotonic() - _BEGAN:7.1f} s  {text}\n")
    sys.stdout.flush()


def chapter(title: str) -> None:
    """A heading."""
    sys.stdout.write(f"\n== {title}\n")
    sys.stdout.flush()


def until(condition: Callable[[], bool], limit_s: float, what: Callable[[], str]) -> float:
    """Waits until it is true; how many seconds that took. Raises Failed with `what` is the matter after the limit."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > limit_s:
            raise Failed(f"not within {limit_s:g} s: {what()}")
        time.sleep(POLL_S)
    return time.monotonic() - began


def expect(truth: object, what: str) -> None:
    """Raises Failed with `what` is wrong unless it is true."""
    if not truth:
        raise Failed(what)
