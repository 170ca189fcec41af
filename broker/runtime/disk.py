"""The system calls of the log directories, by descriptor and single name, never following a link below them.

Only `broker.runtime.log_dirs` creates, renames or removes with them. Tests pass a disk that fails, or that stops
midway.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_ALLOCATION: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
_IN_THE_WAY: Final = frozenset({errno.ENOTDIR, errno.ELOOP, errno.EISDIR})
_ZEROS: Final = bytes(64 * 1024)

OF_A_FULL_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Refused(Exception):
    """One entry has an unexpected type or content; its log directory works. Nothing was changed."""


class Entry(NamedTuple):
    name: str
    mode: int
    """From `lstat`: links are not followed."""
    size_bytes: int
    links: int


class Disk:
    """Every call may raise OSError; `fd` is the descriptor of a directory, `name` an entry directly in it."""

    # --- reading --------------------------------------------------------------------------------------------------

    def open_directory(self, path: Path) -> int:
        """A descriptor of the directory; here, and only here, links are followed."""
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @contextmanager
    def directory(self, fd: int, name: str) -> Iterator[int]:
        """A descriptor of a directory inside. Raises Refused if the entry is something else."""
        try:
            inside = os.open(_single(name), _DIRECTORY, dir_fd=fd)
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                raise Refused(f"{name} is a link or a file where a directory was expected") from error
            raise
        try:
            yield inside
        finally:
            os.close(inside)

    def require_directory(self, fd: int, name: str) -> None:
        """Raises Refused where the entry is no directory."""
        with self.directory(fd, name):
            pass

    def exists(self, fd: int, name: str) -> bool:
        """Whether the entry exists; True also for a broken link."""
        try:
            os.lstat(_single(name), dir_fd=fd)
        except FileNotFoundError:
            return False
        return True

    def entries(self, fd: int) -> list[Entry]:
        """What is in the directory, by name."""
        found: list[Entry] = []
        with os.scandir(fd) as scanned:
            for item in scanned:
                try:
                    status = item.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                found.append(Entry(item.name, status.st_mode, status.st_size, status.st_nlink))
        return sorted(found)

    def read(self, fd: int, name: str, max_bytes: int) -> bytes:
        """The first `max_bytes` of a regular file. Raises Refused if it is something else."""
        try:
            file = os.open(_single(name), _READ, dir_fd=fd)
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                raise Refused(f"{name} is no regular file") from error
            raise
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise Refused(f"{name} is no regular file")
            parts: list[bytes] = []
            while max_bytes > 0 and (part := os.read(file, min(max_bytes, 1 << 20))):
                parts.append(part)
                max_bytes -= len(part)
            return b"".join(parts)
        finally:
            os.close(file)

    def verify(self, fd: int, path: Path) -> None:
        """Raises OSError where the path does not lead to the opened directory any more."""
        opened, there = os.fstat(fd), os.stat(path)
        if (opened.st_dev, opened.st_ino) != (there.st_dev, there.st_ino):
            raise OSError(errno.ENODEV, "the path leads to something else than when it was opened", str(path))

    # --- making ---------------------------------------------------------------------------------------------------

    def make_directories(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def mkdir(self, fd: int, name: str) -> None:
        os.mkdir(_single(name), 0o755, dir_fd=fd)

    def write(self, fd: int, name: str, content: bytes) -> None:
        """Create the file or replace its content; not synced."""
        self._write(fd, name, content, sync=False)

    def replace(self, fd: int, name: str, temporary: str, content: bytes) -> None:
        """Replace the content durably and atomically: temporary file, fsync, rename, fsync."""
        with self._no_temporary_left(fd, temporary):
            self._write(fd, temporary, content, sync=True)
            self.rename(fd, temporary, name)
            self.sync_directory(fd)

    def write_whole(self, fd: int, name: str, temporary: str, content: bytes) -> None:
        """The same, but not synced."""
        with self._no_temporary_left(fd, temporary):
            self.write(fd, temporary, content)
            self.rename(fd, temporary, name)

    def allocate(self, fd: int, name: str, size_bytes: int) -> None:
        """Create a file of that size with allocated blocks."""
        file = self._open_to_write(fd, name)
        try:
            if size_bytes:
                self._occupy(file, size_bytes)
        finally:
            os.close(file)

    def rename(self, fd: int, name: str, new_name: str) -> None:
        os.rename(_single(name), _single(new_name), src_dir_fd=fd, dst_dir_fd=fd)

    def open_lock(self, fd: int, name: str) -> int:
        """A descriptor of the lock file, which is created if missing."""
        return os.open(_single(name), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=fd)

    # --- removing -------------------------------------------------------------------------------------------------

    def unlink(self, fd: int, name: str, *, missing_ok: bool = False) -> None:
        try:
            os.unlink(_single(name), dir_fd=fd)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rmdir(self, fd: int, name: str) -> None:
        os.rmdir(_single(name), dir_fd=fd)

    # --- syncing --------------------------------------------------------------------------------------------------

    def sync_file(self, fd: int, name: str) -> None:
        file = os.open(_single(name), _READ, dir_fd=fd)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def sync_directory(self, fd: int) -> None:
        os.fsync(fd)

    def sync_file_system(self, fd: int) -> None:
        """Write out everything of the file system that the directory is on: one call instead of one per file."""
        if _syncfs is None:
            os.sync()
        elif _syncfs(fd) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    @contextmanager
    def _no_temporary_left(self, fd: int, temporary: str) -> Iterator[None]:
        """Remove a temporary file after a write that found no space."""
        try:
            yield
        except OSError as error:
            if error.errno in OF_A_FULL_DISK:
                self.unlink(fd, temporary, missing_ok=True)
            raise

    # --- helpers --------------------------------------------------------------------------------------------------

    def _open_to_write(self, fd: int, name: str) -> int:
        try:
            file = os.open(_single(name), _WRITE, 0o644, dir_fd=fd)
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                raise Refused(f"{name} is a link or a directory where a file was expected") from error
            raise
        os.ftruncate(file, 0)
        return file

    def _write(self, fd: int, name: str, content: bytes, *, sync: bool) -> None:
        file = self._open_to_write(fd, name)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(file, view) :]
            if sync:
                os.fsync(file)
        finally:
            os.close(file)

    def _occupy(self, file: int, size_bytes: int) -> None:
        try:
            os.posix_fallocate(file, 0, size_bytes)
        except OSError as error:
            if error.errno not in _NO_ALLOCATION:
                raise
            left = size_bytes
            while left:
                left -= os.write(file, _ZEROS[: min(left, len(_ZEROS))])


def _single(name: str) -> str:
    """Return the name if it is a single path component."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise Refused(f"{name!r} is not the name of an entry")
    return name


def explain(error: OSError) -> str:
    """The error as text to show."""
    return f"{errno.errorcode.get(error.errno or 0, 'error')}: {error.strerror or error}" + (
        f" ({error.filename})" if error.filename else ""
    )


def _find_syncfs() -> ctypes._NamedFuncPointer | None:
    try:
        function = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int]
    return function


_syncfs: Final = _find_syncfs()
