"""The journal's files: numbered, closed when full, the oldest removed.

Files are `<name>-00000001.jsonl`, `<name>-00000002.jsonl`, …; the one with the highest number is written. A full file
is closed and the oldest are removed, so that all together stay below `max_files * max_bytes`. A process that starts
continues the newest file; if its last line was cut off, a newline comes first.

Flush policy: each batch is written to the operating system as soon as the thread gets it, so written lines survive the
death of the process. A file is synced to disk when it is full and when the journal is closed; a power failure may lose
the lines since.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

logger = logging.getLogger(__name__)

_NUMBER: Final = re.compile(r"-(\d{8,})\.jsonl\Z")


class AppendableFile(Protocol):
    """An open journal file; tests provide one that fails."""

    def write(self, data: bytes) -> int:
        """Append, and return how many bytes were accepted. Raises OSError."""
        ...

    def size(self) -> int: ...
    def ends_in_newline(self) -> bool:
        """True also for an empty file."""
        ...

    def close(self) -> None:
        """Sync to disk and close. Raises OSError."""
        ...


class UnbufferedFile:
    """A file opened for appending, unbuffered."""

    __slots__ = ("_file",)

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab+", buffering=0)

    def write(self, data: bytes) -> int:
        return self._file.write(data) or 0

    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def ends_in_newline(self) -> bool:
        size = self.size()
        return size == 0 or os.pread(self._file.fileno(), 1, size - 1) == b"\n"

    def close(self) -> None:
        try:
            os.fsync(self._file.fileno())
        finally:
            self._file.close()


class JournalFiles:
    """The numbered files of one journal, as an outlet (`adapters.journal_sink`); used by one thread."""

    def __init__(
        self, directory: Path, name: str, max_bytes: int, max_files: int, open_sink: Callable[[Path], AppendableFile]
    ) -> None:
        self._directory = directory
        self._name = name
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._open_sink = open_sink
        self._sink: AppendableFile | None = None
        self._size = 0
        self._mid_line = False
        self._number = 0
        """Number of the file opened last."""

    def hasten(self) -> None:
        """Do nothing: file writes are short."""

    def write(self, lines: Sequence[bytes]) -> tuple[int, OSError | None]:
        """Append the lines; return how many were written completely, and the error that stopped the rest."""
        done = 0
        try:
            while done < len(lines):
                sink, room = self._sink_with_room_for(len(lines[done]))
                count, size = 1, len(lines[done])
                while done + count < len(lines) and size + len(lines[done + count]) <= room:
                    size += len(lines[done + count])
                    count += 1
                written, error = self._append(sink, b"".join(lines[done : done + count]))
                done += written
                if error is not None:
                    return done, error
        except OSError as error:
            return done, error
        return done, None

    def _append(self, sink: AppendableFile, chunk: bytes) -> tuple[int, OSError | None]:
        taken = 0
        try:
            if self._mid_line:
                self._size += sink.write(b"\n")
                self._mid_line = False
            while taken < len(chunk):
                accepted = sink.write(chunk[taken:])
                if not accepted:
                    raise OSError(errno.EIO, "nothing was accepted")
                taken += accepted
                self._size += accepted
                self._mid_line = chunk[taken - 1 : taken] != b"\n"
        except OSError as error:
            return chunk.count(b"\n", 0, taken), error
        return chunk.count(b"\n"), None

    def _sink_with_room_for(self, wanted: int) -> tuple[AppendableFile, int]:
        sink = self._sink
        if sink is None:
            sink = self._open(max((self._number, *self._numbers())) or 1)
        if self._size and self._size + wanted > self._max_bytes:
            self.close()
            # The files and their directory may have been removed meanwhile.
            sink = self._open(max((self._number, *self._numbers())) + 1)
        return sink, self._max_bytes - self._size

    def _open(self, number: int) -> AppendableFile:
        sink = self._open_sink(self._path(number))
        self._sink = sink
        self._number = number
        self._size = sink.size()
        self._mid_line = not sink.ends_in_newline()
        for old in self._numbers()[: -self._max_files]:
            try:
                self._path(old).unlink(missing_ok=True)
            except OSError as error:
                logger.warning("an old journal file cannot be removed: %s", error)
        return sink

    def _path(self, number: int) -> Path:
        return self._directory / f"{self._name}-{number:08d}.jsonl"

    def _numbers(self) -> list[int]:
        """Return the numbers of this journal's existing files, rising."""
        directory, name = self._directory, self._name
        found = directory.iterdir() if directory.is_dir() else ()
        matches = ((path.name, _NUMBER.search(path.name)) for path in found)
        return sorted(int(match[1]) for text, match in matches if match and text[: match.start()] == name)

    def close(self) -> None:
        """Sync and close the open file, if any. Raises OSError, after which it counts as closed too."""
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close()
