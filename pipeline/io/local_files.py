"""A local disk without a JVM: what `pipeline.io.files.FileSystem` does with `file:` paths."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lethe.pipeline.io.files import FileStatus, FileSystemError

SCHEME: Final = "file:"


def local_path(place: str) -> str | None:
    """Return the place as an absolute path of this machine; None if it is of another file system."""
    path = place.removeprefix(f"{SCHEME}//" if place.startswith(f"{SCHEME}//") else SCHEME)
    return os.path.abspath(path) if path and "://" not in path else None


def file_identity(path: str) -> str | None:
    """Return a text that changes whenever the local file grows, is written to or is replaced, even by one of the same
    size and time; None if there is no such file, or it is of another file system."""
    try:
        status = os.stat(path.removeprefix(SCHEME))
    except (OSError, ValueError):
        return None
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


class LocalFiles:
    """The file system of a directory of this machine. Paths begin with `file:`. Raises FileSystemError."""

    def __init__(self, root: str) -> None:
        self.root: Final = f"{SCHEME}{root}"
        self.local_root: Final = Path(root)

    def exists(self, path: str) -> bool:
        return os.path.exists(path.removeprefix(SCHEME))

    def list_directory(self, path: str) -> list[FileStatus]:
        """Return the entries that are not hidden, by name; none if the directory does not exist."""
        if not self.exists(path):
            return []
        with _refusal("list", path), os.scandir(path.removeprefix(SCHEME)) as entries:
            return sorted(_file_status(path, entry) for entry in entries if not entry.name.startswith("."))

    def make_directory(self, path: str) -> None:
        """Create the directory and its parents, if missing."""
        with _refusal("make", path):
            os.makedirs(path.removeprefix(SCHEME), exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Rename `source`. `target` must not exist, and its directory must."""
        with _refusal(f"rename to {target}", source):
            os.rename(source.removeprefix(SCHEME), target.removeprefix(SCHEME))

    def remove(self, path: str) -> None:
        """Remove the file, or the directory with its content, if it exists."""
        local = path.removeprefix(SCHEME)
        with _refusal("remove", path), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(local) if os.path.isdir(local) else os.unlink(local)

    def write_text(self, path: str, text: str) -> None:
        with _refusal("write", path):
            Path(path.removeprefix(SCHEME)).write_text(text, encoding="utf-8")

    def read_text(self, path: str) -> str:
        with _refusal("read", path):
            return Path(path.removeprefix(SCHEME)).read_text(encoding="utf-8")


@contextlib.contextmanager
def _refusal(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileSystemError(f"cannot {what}: {path}: {error.strerror or error}") from error


def _file_status(path: str, entry: os.DirEntry[str]) -> FileStatus:
    status = entry.stat()
    return FileStatus(
        entry.name, f"{path}/{entry.name}", entry.is_dir(), status.st_size, status.st_mtime_ns // 1_000_000
    )
