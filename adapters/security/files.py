"""Reading the files that properties name, and a place for what only programs read: each failure is a reason and a
remedy."""

from __future__ import annotations

import errno
import os
import pwd
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from lethe.adapters.security.unusable import Unusable
from lethe.protocol.counting import counted

_NO_RIGHT: Final = (errno.EACCES, errno.EPERM)


class FileState(NamedTuple):
    """What changes when a file is replaced or written to, or when other users may read it."""

    modified_ns: int
    size: int
    inode: int
    device: int
    mode: int
    owner: int
    group: int


def file_state(path: Path) -> FileState | None:
    """Return the state of the file that the path leads to; None if there is none. Reads no content."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return FileState(
        modified_ns=found.st_mtime_ns,
        size=found.st_size,
        inode=found.st_ino,
        device=found.st_dev,
        mode=found.st_mode,
        owner=found.st_uid,
        group=found.st_gid,
    )


def read_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of the file. Raises Unusable, also if it has more than `max_bytes`."""
    try:
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise why_unreadable(path, error) from None
    if len(data) > max_bytes:
        raise Unusable(f"has more than {counted(max_bytes, 'byte')}", "name the right file")
    return data


@contextmanager
def private_directory() -> Iterator[Path]:
    """Give a directory that only this user may enter, and remove it. Raises Unusable if none can be made or filled."""
    try:
        with tempfile.TemporaryDirectory(prefix="lethe-") as name:
            yield Path(name)
    except OSError as error:
        reason = f"is read by way of a temporary directory, which cannot be written: {error.strerror or error}"
        raise Unusable(reason, "make room there, or name another one in the variable TMPDIR") from None


def why_unreadable(path: Path, error: OSError) -> Unusable:
    """Return why the file cannot be read, and what to do."""
    if error.errno in _NO_RIGHT:
        remedy = "give that user the right to read it and to enter its directories"
        return Unusable(f"may not be read by user {_user()}", remedy)
    if error.errno == errno.ENOENT:
        absolute = "" if path.is_absolute() else f"; this one is looked up in {Path.cwd()}"
        return Unusable("does not exist", f"name an existing file with its whole path{absolute}")
    if error.errno == errno.EISDIR:
        return Unusable("is a directory", "name the file in it")
    return Unusable(f"cannot be read: {error.strerror or error}", "name an existing file that this user may read")


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
