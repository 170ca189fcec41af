"""Runs one command; maps exceptions to exit codes and messages.

Exit codes by exception:

    Refusal                                    its own code
    ValueError of the pure layers              2
    OSError: ZooKeeper or a broker             3
    TimeoutError                               4
    KeyboardInterrupt                          130
    any other: a fault of Lethe, with trace    70
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
    """Run the coroutine in its own event loop, print its answer, and raise typer.Exit with the exit code."""
    raise typer.Exit(_code(lambda: asyncio.run(command()), as_json))


def finish_sync(command: Callable[[], Answer], *, as_json: bool = False) -> None:
    """The same for a command without an event loop, or with its own."""
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
    """Print the answer, and return its exit code. A reader that closes the pipe (`lethe topics list | head`) does not
    change it; any other write error does."""
    try:
        show(answer, as_json=as_json)
    except OSError as error:
        # Buffered output would fail again when the interpreter ends, and hide the exit code.
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
