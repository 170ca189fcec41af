r"""How far growing journal files have been read, and what to read next. Plain Python, on local paths.

Theory of operation. A file is identified by its path and a hash of its first line, which holds a unique id. So a file
that was replaced under the same name is another file, and one that was copied back is the same. For each file,
`position` is the byte after the last line that was read, and `seen` the byte after the last whole line that exists. A
line without its newline waits.

    file                      position    seen    next batch reads
    a\nb\nc                   2           4       bytes 2 to 4; `c` waits for its newline
    a\nb\nc\n                 4           6       bytes 4 to 6
    removed by rotation       4           6       nothing: bytes 4 to 6 are reported as lost

Lost bytes are reported as a lost range: those between `position` and `seen` when a file disappears, and those that were
planned and are gone at reading. A file that was removed before it was seen leaves a hole in the numbers of the record
ids, which the audit finds. A file that shrank is continued at its new end. If a whole directory is missing, its
positions are kept: it may be a mount that comes back.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from lethe.pipeline.io.files import entries, matches
from lethe.pipeline.io.local_files import file_identity

ENDING: Final = ".jsonl"
HEAD_BYTES: Final = 65_536
"""Maximum bytes of a first line that identify a file."""
BLOCK_BYTES: Final = 65_536
CHUNK_BYTES: Final = 4 * 1024 * 1024


class ReadPosition(NamedTuple):
    """How far a file was read. `identity` is the hash of its first line."""

    identity: str
    position: int
    seen: int


ReadPositions = Mapping[str, ReadPosition]
"""By path."""


class ByteRange(NamedTuple):
    """Bytes `first` to `last` (exclusive) of a file: whole lines. `lost`: the file is known to be gone."""

    path: str
    identity: str
    first: int
    last: int
    lost: bool = False


class LineBlock(NamedTuple):
    """Whole lines without their newlines, and the byte at which each begins."""

    texts: list[bytes]
    positions: list[int]


class LostBytes(NamedTuple):
    """Bytes that can no longer be read."""

    first: int
    last: int


class _FileState(NamedTuple):
    """A file at the last poll. While its status stays the same, it is not opened again."""

    status: tuple[int, int, int]
    identity: str | None
    end: int


@dataclass(slots=True)
class JournalTailer:
    """Finds new lines in these places: directories, files, patterns."""

    places: Sequence[str]
    _known: dict[str, _FileState] = field(default_factory=dict)

    def poll(self) -> dict[str, ReadPosition]:
        """Return all files that hold a whole line, oldest first; `position` is the end of each. Raises OSError."""
        found: list[tuple[int, str, ReadPosition]] = []
        known: dict[str, _FileState] = {}
        for path in list_journal_files(self.places):
            try:
                one = self._read_state(path)
                changed = os.stat(path).st_mtime_ns
            except FileNotFoundError:
                continue
            known[path] = one
            if one.identity is not None and one.end:
                found.append((changed, path, ReadPosition(one.identity, one.end, one.end)))
        self._known = known
        return {path: mark for _, path, mark in sorted(found)}

    def _read_state(self, path: str) -> _FileState:
        stat = os.stat(path)
        status = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        before = self._known.get(path)
        if before is not None and before.status == status:
            return before
        with open(path, "rb") as file:
            identity = _first_line_hash(file.read(HEAD_BYTES))
            return _FileState(status, identity, _last_line_end(file, stat.st_size))


def list_journal_files(places: Iterable[str]) -> list[str]:
    """Return the journal files that are in these places now. Raises OSError for what cannot be seen."""
    found = (each for place in places for path in matches(place) for each in entries(path))
    return list(dict.fromkeys(each for each in found if _is_journal(os.path.basename(each))))


def batch_end(start: ReadPositions, now: ReadPositions, max_bytes: int | None) -> dict[str, ReadPosition]:
    """Return where the next batch ends, by path: at the end of every file, or about `max_bytes` after `start` (at least
    one line). The files that were written first come first."""
    end: dict[str, ReadPosition] = {}
    left = max_bytes
    for path, mark in now.items():
        begun = start.get(path)
        first = min(begun.position, mark.seen) if begun is not None and begun.identity == mark.identity else 0
        last = mark.seen
        if left is not None:
            if last - first > left:
                last = _next_line_end(path, first, first + left, mark.seen) if left > 0 else first
            left -= last - first
        if last or (begun is not None and begun.identity == mark.identity):
            end[path] = ReadPosition(mark.identity, last, mark.seen)
    for path, mark in start.items():
        if path not in end and path not in now and not os.path.isdir(os.path.dirname(path)):
            end[path] = mark
    return dict(sorted(end.items()))


def ranges_between(start: ReadPositions, end: ReadPositions) -> list[ByteRange]:
    """Return the ranges to read between two states, and those that are lost between them."""
    found = []
    for path in sorted({*start, *end}):
        was, is_now = start.get(path), end.get(path)
        goes_on = was is not None and is_now is not None and was.identity == is_now.identity
        if was is not None and not goes_on and was.seen > was.position:
            found.append(ByteRange(path, was.identity, was.position, was.seen, lost=True))
        if is_now is not None:
            first = was.position if was is not None and goes_on else 0
            if is_now.position > first:
                found.append(ByteRange(path, is_now.identity, first, is_now.position))
    return found


def unread_bytes(start: ReadPositions, now: ReadPositions) -> int:
    """Return the number of bytes in whole lines that are not read yet."""
    return sum(one.last - one.first for one in ranges_between(start, now) if not one.lost)


def group_ranges(wanted: Sequence[ByteRange], max_bytes: int) -> list[list[ByteRange]]:
    """Return the ranges in groups of about `max_bytes`; long ranges are split between lines."""
    groups: list[list[ByteRange]] = []
    size = max_bytes
    for one in (piece for whole in wanted for piece in _split_range(whole, max_bytes)):
        if size + one.last - one.first > max_bytes:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += 0 if one.lost else one.last - one.first
    return groups


def read_range(wanted: ByteRange) -> Iterator[LineBlock | LostBytes]:
    """Yield the lines of a range, a few megabytes at a time, and at the end the bytes that are gone. Raises OSError."""
    position = wanted.first
    try:
        if not wanted.lost:
            with open(wanted.path, "rb") as file:
                if _first_line_hash(file.read(HEAD_BYTES)) == wanted.identity:
                    file.seek(position)
                    for lines in _read_lines(file, position, wanted.last):
                        yield lines
                        position = lines.positions[-1] + len(lines.texts[-1]) + 1
    except FileNotFoundError:
        pass
    if position < wanted.last:
        yield LostBytes(position, wanted.last)


def _read_lines(file: BinaryIO, position: int, last: int) -> Iterator[LineBlock]:
    """Yield the lines from the file's current offset, which is `position`, to `last`."""
    rest = b""
    at = position
    while position < last:
        chunk = file.read(min(CHUNK_BYTES, last - position))
        if not chunk:
            return
        position += len(chunk)
        texts = (rest + chunk).split(b"\n")
        rest = texts.pop()
        positions = []
        for text in texts:
            positions.append(at)
            at += len(text) + 1
        if texts:
            yield LineBlock(texts, positions)


def _split_range(whole: ByteRange, max_bytes: int) -> list[ByteRange]:
    if whole.lost:
        return [whole]
    found, first = [], whole.first
    while whole.last - first > max_bytes:
        last = _next_line_end(whole.path, first, first + max_bytes, whole.last)
        found.append(whole._replace(first=first, last=last))
        first = last
    return [*found, whole._replace(first=first)] if first < whole.last else found


def _next_line_end(path: str, first: int, wanted: int, end: int) -> int:
    """Return the byte after the last whole line that ends between `first` and `wanted`, or else after the first later
    one. `end` is the end of a line, and the result if the file has no other or is gone."""
    try:
        with open(path, "rb") as file:
            before = _last_line_end(file, wanted, first)
            if before > first:
                return before
            file.seek(wanted)
            position = wanted
            while position < end and (block := file.read(BLOCK_BYTES)):
                if (at := block.find(b"\n")) >= 0:
                    return min(position + at + 1, end)
                position += len(block)
    except FileNotFoundError:
        pass
    return end


def _last_line_end(file: BinaryIO, size: int, first: int = 0) -> int:
    """Return the byte after the last newline before `size`; `first` if there is none after `first`."""
    last = size
    while last > first:
        begin = max(first, last - BLOCK_BYTES)
        file.seek(begin)
        at = file.read(last - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        last = begin
    return first


def _first_line_hash(head: bytes) -> str | None:
    """Return the identity of a file with this head; None while its first line is incomplete."""
    line, newline, _ = head.partition(b"\n")
    if not newline and len(head) < HEAD_BYTES:
        return None
    return hashlib.sha256(line).hexdigest()[:16]


def _is_journal(name: str) -> bool:
    return name.endswith(ENDING) and not name.startswith(".")


def survey_fingerprint(places: Iterable[str]) -> str:
    """Return a text that changes whenever a kept survey in these places is added, removed or written to. Raises
    OSError."""
    digest = hashlib.sha256()
    for place in places:
        for path in matches(place):
            for directory in sorted({Path(path), *Path(path).glob("*/")}):
                if not directory.name.startswith("."):
                    digest.update(_survey_files(directory).encode())
    return digest.hexdigest()[:16]


def _survey_files(directory: Path) -> str:
    """Return name and identity of each file; empty if the directory is no kept survey. Old surveys may be removed at
    any moment, and a link may be broken."""
    try:
        (directory / "survey.json").stat()
        return "".join(f"{file}\0{file_identity(str(file))}\0" for file in sorted(directory.iterdir()))
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        # What cannot be seen may be a survey.
        return f"{directory}\0{error.strerror}\0"
