"""The lock that keeps one writer at a time. The lock file names its writer.

On a local disk it is an flock, which the operating system releases when the process ends. On other file systems it is a
file that only one process can create. The lock file of a dead process of this host is stale and is removed.

Who removes a stale lock first creates a file whose name is derived from its text. Each text is written once. So only
one process can remove a stale lock, and a late process cannot remove a newer lock. The file stays, hidden, for this
reason. The lock is not renamed, for object stores copy and delete.
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
from typing import Final

from lethe.pipeline.io.files import FileSystem, FileSystemError

LOCK: Final = "_lock"
WAIT_POLL_S: Final = 0.2
_LOCK_TEXT_START: Final = '{"host": "'


class Locked(Exception):
    """Another process writes to this lake; the message names it and says what to do. `holder` only names it."""

    def __init__(self, holder: str, remedy: str = "") -> None:
        super().__init__(f"{holder}{remedy}")
        self.holder = holder


@contextlib.contextmanager
def acquire_within(
    files: FileSystem, purpose: str, wait_s: float = 0.0, on_wait: Callable[[str], object] = str
) -> Iterator[None]:
    """Hold the lock as `acquire` does, after waiting at most `wait_s` seconds. `on_wait` receives each holder once.
    Raises Locked."""
    until = time.monotonic() + wait_s
    said = ""
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(acquire(files, purpose))
                break
            except Locked as error:
                # Also where the first attempt took as long as there was time: who was to wait is told for whom.
                if wait_s > 0 and said != error.holder:
                    said = error.holder
                    on_wait(said)
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise
                time.sleep(min(WAIT_POLL_S, left_s))
        yield


def acquire(files: FileSystem, purpose: str, place: str = "lake") -> contextlib.AbstractContextManager[None]:
    """Hold the lock of the lake, or of another kind of place, while the context is entered. `purpose` tells other
    processes what this one does. Raises Locked."""
    local = files.local_root
    return acquire_local(local, purpose, place) if local is not None else _acquire_lock_file(files, purpose, place)


@contextlib.contextmanager
def acquire_local(root: Path, purpose: str, place: str = "lake") -> Iterator[None]:
    """Hold the lock of a lake on a local disk, as `acquire` does. Raises Locked."""
    with (root / LOCK).open("a+", encoding="utf-8", errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Locked(
                f"the {place} {root} is in use by {_holder_text(file.read())}", ": wait for it, or end it"
            ) from None
        file.seek(0)
        if not is_lock_text(file.read(len(_LOCK_TEXT_START))):
            raise FileSystemError(f"{root / LOCK} is no lock of a {place}: name another directory, or remove that file")
        file.truncate(0)
        file.write(_holder_json(purpose))
        file.flush()
        yield
        file.truncate(0)


@contextlib.contextmanager
def _acquire_lock_file(files: FileSystem, purpose: str, place: str) -> Iterator[None]:
    path, mine = f"{files.root}/{LOCK}", _holder_json(purpose)
    if not _create_lock_file(files, path, mine):
        held = _read_if_exists(files, path)
        if held is not None and not (_is_dead(held) and _remove_stale_lock(files, path, held, mine)):
            raise Locked(
                f"the {place} {files.root} is in use by {_holder_text(held)}",
                f"; if that process is gone, remove {path}",
            )
        if not _create_lock_file(files, path, mine):
            raise Locked(f"the {place} {files.root} has come into use by another process", ": wait for it, or end it")
    try:
        yield
    finally:
        # It may have been removed by hand, and another writer may have started.
        if _read_if_exists(files, path) == mine:
            files.remove(path)


def _create_lock_file(files: FileSystem, path: str, text: str) -> bool:
    """Return True if the file did not exist and was created. Raises FileSystemError for other failures."""
    try:
        files.write_text(path, text, new=True)
    except FileSystemError:
        found = _read_if_exists(files, path)
        if found is not None:
            # An object store's client repeats what was not answered, and is refused because of its own file.
            return found == text
        # It was removed meanwhile, or cannot be written.
        files.write_text(path, text, new=True)
    return True


def _remove_stale_lock(files: FileSystem, path: str, held: str, mine: str) -> bool:
    """Return True if this process removed the stale lock with this text."""
    away = f"{files.root}/.{LOCK}-{hashlib.sha256(held.encode()).hexdigest()[:32]}"
    # Read once more: what its process did last, it has done by now.
    if not _create_lock_file(files, away, mine) or _read_if_exists(files, path) != held:
        return False
    files.remove(path)
    return True


def _read_if_exists(files: FileSystem, path: str) -> str | None:
    """Return the text; None if the file does not exist."""
    try:
        return files.read_text(path)
    except FileSystemError:
        # Another one may have been created meanwhile.
        return files.read_text(path) if files.exists(path) else None


def _holder_json(purpose: str) -> str:
    return json.dumps(
        {"host": socket.gethostname(), "pid": os.getpid(), "what": purpose, "token": secrets.token_hex(8)}
    )


def _holder_text(text: str) -> str:
    """Return the words for the holder in a lock file."""
    try:
        held = json.loads(text)
        return f"process {held['pid']} on {held['host']} ({held['what']})"
    except (ValueError, TypeError, KeyError):
        return "another process"


def is_lock_text(text: str) -> bool:
    """Return True if the text may be that of a lock file, which may be empty."""
    return _LOCK_TEXT_START.startswith(text[: len(_LOCK_TEXT_START)])


def _is_dead(text: str) -> bool:
    """Return True if the holder ran on this host and its process id is free."""
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
