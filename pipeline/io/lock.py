"""One writer at a time. On a local disk the lock is the operating system's, so it ends with its process however that
ended; elsewhere it is a file that only one can create, and what is left of a process of this host that is gone is no
obstacle. The file names its writer.

Such a lock that was left is renamed out of the way, to a name that its text decides. Each text is written once, and
nothing is renamed over what exists; so of all who find it only one succeeds, and nobody who comes late moves a lock
that was made since. What was renamed stays, hidden, for the same reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from lethe.pipeline.io.files import Files, FileTrouble

LOCK: Final = "_lock"
WAIT_POLL_S: Final = 0.2
_BEGIN: Final = '{"host": "'


class Locked(Exception):
    """Another process writes to this lake: says which, and what to do. `who` says only which."""

    def __init__(self, who: str, remedy: str = "") -> None:
        super().__init__(f"{who}{remedy}")
        self.who = who


@contextlib.contextmanager
def hold_in_time(
    files: Files, what: str, wait_s: float = 0.0, waiting: Callable[[str], object] = str
) -> Iterator[None]:
    """As `hold`, for which it waits so long. `waiting` is told by whom it is held, each once. Raises Locked."""
    until = time.monotonic() + wait_s
    said = ""
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(hold(files, what))
                break
            except Locked as error:
                # Also where the first attempt took as long as there was time: who was to wait is told for whom.
                if wait_s > 0 and said != error.who:
                    said = error.who
                    waiting(said)
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise
                time.sleep(min(WAIT_POLL_S, left_s))
        yield


def hold(files: Files, what: str, place: str = "lake") -> contextlib.AbstractContextManager[None]:
    """Holds the lock of the lake, or of another kind of place, while it is entered. `what` says for others what is
    being done. Raises Locked."""
    local = files.local_root
    return _hold_locally(local, what, place) if local is not None else _hold_remotely(files, what, place)


@contextlib.contextmanager
def _hold_locally(root: Path, what: str, place: str = "lake") -> Iterator[None]:
    with (root / LOCK).open("a+", encoding="utf-8", errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Locked(
                f"the {place} {root} is in use by {_writer(file.read())}", ": wait for it, or end it"
            ) from None
        file.seek(0)
        if not is_left_by_us(file.read(len(_BEGIN))):
            raise FileTrouble(f"{root / LOCK} is no lock of a {place}: name another directory, or remove that file")
        _name_writer(file, what)
        yield
        file.truncate(0)


@contextlib.contextmanager
def _hold_remotely(files: Files, what: str, place: str = "lake") -> Iterator[None]:
    path, mine = f"{files.root}/{LOCK}", _identity(what)
    if not _is_made(files, path, mine):
        held = _read(files, path)
        if held is not None and not (_is_gone(held) and _is_taken_away(files, path, held)):
            raise Locked(
                f"the {place} {files.root} is in use by {_writer(held)}", f"; if that process is gone, remove {path}"
            )
        if not _is_made(files, path, mine):
            raise Locked(f"the {place} {files.root} has come into use by another process", ": wait for it, or end it")
    try:
        yield
    finally:
        # It may have been removed by hand, and another writer may have started.
        if _read(files, path) == mine:
            files.remove(path)


def _is_made(files: Files, path: str, text: str) -> bool:
    """Whether there was no such file, and is now. Raises FileTrouble where that is not why."""
    try:
        files.write_text(path, text, new=True)
    except FileTrouble:
        if not files.exists(path):
            raise
        return False
    return True


def _is_taken_away(files: Files, path: str, held: str) -> bool:
    """Whether the lock with this text, whose process is gone, is out of the way, by our doing."""
    away = f"{files.root}/.{LOCK}-{hashlib.sha256(held.encode()).hexdigest()[:32]}"
    # Read once more: what its process did last, it has done by now.
    if files.exists(away) or _read(files, path) != held:
        return False
    try:
        files.rename(path, away)
    except FileTrouble:
        return False
    return True


def _read(files: Files, path: str) -> str | None:
    """None where there is no such file, or none any more."""
    try:
        return files.read_text(path)
    except FileTrouble:
        if files.exists(path):
            raise
        return None


def _name_writer(file: IO[str], what: str) -> None:
    file.truncate(0)
    file.write(_identity(what))
    file.flush()


def _identity(what: str) -> str:
    return json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "what": what, "token": secrets.token_hex(8)})


def _writer(text: str) -> str:
    """Words for what a lock file holds."""
    try:
        held = json.loads(text)
        return f"process {held['pid']} on {held['host']} ({held['what']})"
    except (ValueError, TypeError, KeyError):
        return "another process"


def is_left_by_us(text: str) -> bool:
    """Whether a file of the lock's name begins as what a writer leaves in it, which may be nothing."""
    return _BEGIN.startswith(text[: len(_BEGIN)])


def _is_gone(text: str) -> bool:
    """Whether that is certain: it ran on this host and its number is free."""
    try:
        held = json.loads(text)
        if held["host"] != socket.gethostname():
            return False
        os.kill(int(held["pid"]), 0)
    except ProcessLookupError:
        return True
    except (ValueError, TypeError, KeyError, PermissionError):
        return False
    return False
