"""How an operation ends that does not do what was asked: a Refusal, with the exit code of the command."""

from __future__ import annotations

import enum

from lethe.protocol.journal import JsonValue


class Exit(enum.IntEnum):
    """Exit codes. They are part of the command line's contract and are listed in docs/cli.md."""

    OK = 0
    NO = 1
    """The answer is no: not there, refused, something left over."""
    USAGE = 2
    """The command line, or a file that it names, is wrong; nothing was done."""
    UNREACHABLE = 3
    """ZooKeeper or a required broker could not be reached."""
    TIMED_OUT = 4
    """The operation has begun, and did not end in the time allowed."""
    WAITS = 6
    """A marked topic waits for something else."""
    BUSY = 5
    """Another process holds a resource of the command; nothing was done."""
    FAULT = 70
    """A fault in Lethe itself, with a traceback."""
    INTERRUPTED = 130


class Refusal(Exception):
    """The command did not do what was asked; the message says why and what to do."""

    def __init__(self, message: str, exit: Exit = Exit.NO, data: dict[str, JsonValue] | None = None) -> None:
        super().__init__(message)
        self.exit = exit
        self.data = data or {}
