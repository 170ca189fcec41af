"""A disk that fails on demand, or on which the process dies in the middle; everything else is the real file system."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from lethe.broker.runtime.disk import Disk


class Died(BaseException):
    """`kill -9`: nothing after this point happened."""


CALLS = ("mkdir", "write", "replace", "allocate", "rename", "unlink", "rmdir", "sync_file", "sync_directory",
         "sync_file_system", "verify")  # fmt: skip


def break_log_dir(log_dir: Path) -> Path:
    """Take a log directory away from the agent that uses it, for real and for root too: a file stands in its place.

    The agent finds that out with its next operation there, or within five seconds when it looks after its checkpoints;
    it takes the directory offline, answers KAFKA_STORAGE_ERROR and writes /log_dir_event_notification. Nothing is lost:
    the content is where the returned path says. Like Kafka the agent uses the directory again only after a restart, and
    `mend_log_dir` comes before that.
    """
    aside = log_dir.with_name(log_dir.name + ".away")
    log_dir.rename(aside)
    log_dir.write_text("not a directory")
    return aside


def mend_log_dir(log_dir: Path) -> None:
    """Put everything back."""
    log_dir.unlink()
    log_dir.with_name(log_dir.name + ".away").rename(log_dir)


class FaultyDisk(Disk):
    """Runs `before` with the name of each call, and of the entry it is about, before the real call is made."""

    def __init__(self) -> None:
        self.before: Callable[[str, str], None] = lambda call, name: None
        self.calls: list[tuple[str, str]] = []

    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        if name not in CALLS:
            return found

        def call(fd: int, *arguments: object, **more: object) -> object:
            entry = str(arguments[0]) if arguments else ""
            self.calls.append((name, entry))
            self.before(name, entry)
            return found(fd, *arguments, **more)

        return call

    def fail_with(self, number: int, *, on: str | None = None) -> None:
        """Every call, or every one of that name, meets this error from now on."""

        def fail(call: str, name: str) -> None:
            if on is None or call == on:
                raise OSError(number, os.strerror(number), name)

        self.before = fail

    def die_at(self, count: int) -> None:
        """The process dies before the call of that number, counted from now on."""
        left = [count]

        def die(call: str, name: str) -> None:
            if left[0] == 0:
                raise Died(f"before {call} {name}")
            left[0] -= 1

        self.before = die

    def heal(self) -> None:
        self.before = lambda call, name: None
