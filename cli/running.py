"""Runs one command to its exit code: the one table from exceptions to exit codes and words.

A Refusal says its own code. Bad input (ValueError of the pure layers) is 2, an unreachable ZooKeeper or broker 3, a
limit that has passed 4. Anything else is a fault of Lethe: it keeps its traceback and ends with 70.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

import typer

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer
from lethe.cli.render import note, show, show_refusal


def finish(command: Callable[[], Coroutine[Any, Any, Answer]], *, as_json: bool = False) -> None:
    """Runs the coroutine in a loop of its own, prints its answer, and raises typer.Exit with the exit code."""
    raise typer.Exit(_code(lambda: asyncio.run(command()), as_json))


def finish_sync(command: Callable[[], Answer], *, as_json: bool = False) -> None:
    """`finish` for a command that needs no loop, or that runs its own."""
    raise typer.Exit(_code(command, as_json))


def _code(command: Callable[[], Answer], as_json: bool) -> int:
    try:
        answer = command()
    except (KeyboardInterrupt, asyncio.CancelledError):
        note("interrupted")
        return Exit.INTERRUPTED
    except Exception as error:  # noqa: BLE001 -- the outermost place: every exception becomes an exit code here
        refusal = _refusal(error)
        if refusal is None:
            note(traceback.format_exc().rstrip("\n"))
            refusal = Refusal(f"{type(error).__name__}: {error} (this is a fault of Lethe)", Exit.FAULT)
        show_refusal(refusal, as_json=as_json)
        return refusal.exit
    return _shown(answer, as_json)


def _shown(answer: Answer, as_json: bool) -> int:
    """Prints the answer. Who reads it may stop early (`lethe topics list | head`): that changes nothing in what it is.
    A place that takes nothing more is another matter."""
    try:
        show(answer, as_json=as_json)
    except OSError as error:
        # What is still buffered would fail a second time when the interpreter ends, and hide the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            note(f"lethe: the answer could not be written: {error.strerror or error}")
            return Exit.FAULT
    return answer.exit


def _refusal(error: Exception) -> Refusal | None:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, TimeoutError):
        return Refusal(str(error) or "the time allowed has passed", Exit.TIMED_OUT)
    if isinstance(error, OSError):
        return Refusal(str(error), Exit.UNREACHABLE)
    if isinstance(error, ValueError):
        return Refusal(str(error), Exit.USAGE)
    return None
