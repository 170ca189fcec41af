"""How an operation ends where it does not do what was asked: a Refusal, and the exit code that a command ends with."""

from __future__ import annotations

import enum

from lethe.protocol.journal import JsonValue


class Exit(enum.IntEnum):
    """Exit codes. They are part of the command line's contract and are listed in docs/cli.md."""

    OK = 0
    NO = 1
    """It was asked and the answer is no: not there, refused, something left over."""
    USAGE = 2
    """The command line or a file that it names is wrong; nothing was done."""
    UNREACHABLE = 3
    """ZooKeeper, or a broker that had to answer, could not be reached."""
    TIMED_OUT = 4
    """What was asked for has begun, and was not done in the time allowed."""
    WAITS = 6
    """A marked topic waits for something that has to happen first."""
    BUSY = 5
    """Another process holds what the command needs; nothing was done."""
    FAULT = 70
    """A fault in Lethe itself, with a traceback."""
    INTERRUPTED = 130


class Refusal(Exception):
    """The command did not do what was asked, for a reason that its user can understand and act on."""

    def __init__(self, message: str, exit: Exit = Exit.NO, data: dict[str, JsonValue] | None = None) -> None:
        super().__init__(message)
        self.exit = exit
        self.data = data or {}
