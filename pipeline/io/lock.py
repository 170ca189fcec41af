"""One writer at a time. On a local disk the lock is the operating system's, so it ends with its process however that
ended; elsewhere it is a file that only one can create, and what is left of a process of this host that is gone is no
obstacle. The file names its writer."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from pipeline.io.files import Files, FileTrouble

LOCK: Final = "_lock"
_BEGIN: Final = '{"host": "'


class Locked(Exception):
    """Another process writes to this lake: says which, and what to do where it is gone."""


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
            raise Locked(f"the {place} {root} is in use by {_writer(file.read())}: wait for it, or end it") from None
        file.seek(0)
        if not is_left_by_us(file.read(len(_BEGIN))):
            raise FileTrouble(f"{root / LOCK} is no lock of a {place}: name another directory, or remove that file")
        _name_writer(file, what)
        yield
        file.truncate(0)


@contextlib.contextmanager
def _hold_remotely(files: Files, what: str, place: str = "lake") -> Iterator[None]:
    path = f"{files.root}/{LOCK}"
    try:
        files.write_text(path, _identity(what), new=True)
    except FileTrouble:
        if not files.exists(path):
            raise
        held = files.read_text(path)
        if not _is_gone(held):
            raise Locked(
                f"the {place} {files.root} is in use by {_writer(held)}; if that process is gone, remove {path}"
            ) from None
        files.remove(path)
        files.write_text(path, _identity(what), new=True)
    try:
        yield
    finally:
        files.remove(path)


def _name_writer(file: IO[str], what: str) -> None:
    file.truncate(0)
    file.write(_identity(what))
    file.flush()


def _identity(what: str) -> str:
    return json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "what": what})


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
