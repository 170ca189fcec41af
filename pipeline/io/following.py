"""How far growing journal files have been read, and what of them comes next. Plain Python, on local paths.

Theory of operation. A file is known by its path and by a hash of its first line, which holds an id that no other line
has: a file that was replaced by another of the same name is another file, one that was copied there again is the same.
Of each file, `position` is the byte after the last line that was taken, and `seen` the byte after the last whole line
that was there. A line without its newline waits.

What is between `position` and `seen` when a file goes, and what is planned and gone when it is read, is lost, and is
told as a range that was lost. A file that was removed before it was seen leaves a hole in the numbers of the lines'
ids, which the audit finds. A file that shrank is gone on with at its new end. Where a whole directory is gone, nothing
is concluded: it may be a mount that comes back.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

ENDING: Final = ".jsonl"
HEAD_BYTES: Final = 65_536
"""As much of a first line tells files apart."""
BLOCK_BYTES: Final = 65_536
CHUNK_BYTES: Final = 4 * 1024 * 1024


class Mark(NamedTuple):
    """How far a file was read. `identity` is of its first line."""

    identity: str
    position: int
    seen: int


Marks = Mapping[str, Mark]
"""By path."""


class Range(NamedTuple):
    """Bytes `first` to `last` (exclusive) of a file: whole lines. `lost`: the file is known to be gone."""

    path: str
    identity: str
    first: int
    last: int
    lost: bool = False


class Lines(NamedTuple):
    """Whole lines without their newlines, and the byte at which each begins."""

    texts: list[bytes]
    positions: list[int]


class Gone(NamedTuple):
    """Bytes that cannot be read any more."""

    first: int
    last: int


class _Seen(NamedTuple):
    """A file as the last look found it; as long as its status is the same, it is not opened."""

    status: tuple[int, int, int]
    identity: str | None
    end: int


@dataclass(slots=True)
class Follower:
    """Looks for what is new in these places: directories, files, patterns."""

    places: Sequence[str]
    _known: dict[str, _Seen] = field(default_factory=dict)

    def look(self) -> dict[str, Mark]:
        """All files that hold a whole line, the oldest first; `position` is the end of each. Raises OSError."""
        found: list[tuple[int, str, Mark]] = []
        known: dict[str, _Seen] = {}
        for path in files_in(self.places):
            try:
                one = self._look_at(path)
                changed = os.stat(path).st_mtime_ns
            except FileNotFoundError:
                continue
            known[path] = one
            if one.identity is not None and one.end:
                found.append((changed, path, Mark(one.identity, one.end, one.end)))
        self._known = known
        return {path: mark for _, path, mark in sorted(found)}

    def _look_at(self, path: str) -> _Seen:
        stat = os.stat(path)
        status = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        before = self._known.get(path)
        if before is not None and before.status == status:
            return before
        with open(path, "rb") as file:
            identity = _identity(file.read(HEAD_BYTES))
            return _Seen(status, identity, _end_of_lines(file, stat.st_size))


def files_in(places: Iterable[str]) -> list[str]:
    """The journal files that are in these places now."""
    found: dict[str, None] = {}
    for place in places:
        for path in [place] if os.path.exists(place) else sorted(glob.glob(place)):
            if os.path.isdir(path):
                names = sorted(os.listdir(path))
                found |= dict.fromkeys(f"{path.rstrip('/')}/{name}" for name in names if _is_journal(name))
            elif _is_journal(os.path.basename(path)):
                found[path] = None
    return list(found)


def ahead(start: Marks, now: Marks, max_bytes: int | None) -> dict[str, Mark]:
    """How far the next batch reads: to the end, or at most about `max_bytes` (at least one line) further than `start`,
    the files that were written first before the others. By path."""
    end: dict[str, Mark] = {}
    left = max_bytes
    for path, mark in now.items():
        begun = start.get(path)
        first = min(begun.position, mark.seen) if begun is not None and begun.identity == mark.identity else 0
        last = mark.seen
        if left is not None:
            if last - first > left:
                last = _line_end(path, first, first + left, mark.seen) if left > 0 else first
            left -= last - first
        if last or (begun is not None and begun.identity == mark.identity):
            end[path] = Mark(mark.identity, last, mark.seen)
    for path, mark in start.items():
        if path not in end and path not in now and not os.path.isdir(os.path.dirname(path)):
            end[path] = mark
    return dict(sorted(end.items()))


def ranges(start: Marks, end: Marks) -> list[Range]:
    """What is to be read between two states, and what is lost between them."""
    found = []
    for path in sorted({*start, *end}):
        was, is_now = start.get(path), end.get(path)
        goes_on = was is not None and is_now is not None and was.identity == is_now.identity
        if was is not None and not goes_on and was.seen > was.position:
            found.append(Range(path, was.identity, was.position, was.seen, lost=True))
        if is_now is not None:
            first = was.position if was is not None and goes_on else 0
            if is_now.position > first:
                found.append(Range(path, is_now.identity, first, is_now.position))
    return found


def behind(start: Marks, now: Marks) -> int:
    """Bytes of whole lines that are there and have not been taken."""
    return sum(one.last - one.first for one in ranges(start, now) if not one.lost)


def pieces(wanted: Sequence[Range], max_bytes: int) -> list[list[Range]]:
    """The ranges in groups of about `max_bytes`; long ones are cut between lines."""
    groups: list[list[Range]] = []
    size = max_bytes
    for one in (piece for whole in wanted for piece in _cut(whole, max_bytes)):
        if size + one.last - one.first > max_bytes:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += 0 if one.lost else one.last - one.first
    return groups


def read(wanted: Range) -> Iterator[Lines | Gone]:
    """The lines of a range, a few megabytes at a time; what of it is gone, last. Raises OSError."""
    position = wanted.first
    try:
        if not wanted.lost:
            with open(wanted.path, "rb") as file:
                if _identity(file.read(HEAD_BYTES)) == wanted.identity:
                    file.seek(position)
                    for lines in _read_lines(file, position, wanted.last):
                        yield lines
                        position = lines.positions[-1] + len(lines.texts[-1]) + 1
    except FileNotFoundError:
        pass
    if position < wanted.last:
        yield Gone(position, wanted.last)


def _read_lines(file: BinaryIO, position: int, last: int) -> Iterator[Lines]:
    """From where the file stands, which is `position`, on to `last`."""
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
            yield Lines(texts, positions)


def _cut(whole: Range, max_bytes: int) -> list[Range]:
    if whole.lost:
        return [whole]
    found, first = [], whole.first
    while whole.last - first > max_bytes:
        last = _line_end(whole.path, first, first + max_bytes, whole.last)
        found.append(whole._replace(first=first, last=last))
        first = last
    return [*found, whole._replace(first=first)] if first < whole.last else found


def _line_end(path: str, first: int, wanted: int, end: int) -> int:
    """The byte after the last whole line that ends between `first` and `wanted`, or after the first one that does
    later; `end` is such a byte, and the answer where the file has none or is gone."""
    try:
        with open(path, "rb") as file:
            before = _end_of_lines(file, wanted, first)
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


def _end_of_lines(file: BinaryIO, size: int, first: int = 0) -> int:
    """The byte after the last newline before `size`; `first` where there is none after that."""
    last = size
    while last > first:
        begin = max(first, last - BLOCK_BYTES)
        file.seek(begin)
        at = file.read(last - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        last = begin
    return first


def _identity(head: bytes) -> str | None:
    """Of a file that begins so; None as long as its first line is not whole."""
    line, newline, _ = head.partition(b"\n")
    if not newline and len(head) < HEAD_BYTES:
        return None
    return hashlib.sha256(line).hexdigest()[:16]


def _is_journal(name: str) -> bool:
    return name.endswith(ENDING) and not name.startswith(".")


def survey_state(places: Iterable[str]) -> str:
    """Another text whenever kept surveys in these places came, went or were written to."""
    digest = hashlib.sha256()
    for place in places:
        for path in [place] if os.path.exists(place) else sorted(glob.glob(place)):
            for manifest in sorted({*Path(path).glob("survey.json"), *Path(path).glob("*/survey.json")}):
                if manifest.parent.name.startswith("."):
                    continue
                for look in _looks(manifest.parent):
                    digest.update(f"{look}\0".encode())
    return digest.hexdigest()[:16]


def _looks(directory: Path) -> list[str]:
    """The files in it, how long they are and when they were written. Old surveys may be removed at any
    moment, and a link may lead nowhere."""
    try:
        return [f"{file}\0{_look(file)}" for file in sorted(directory.iterdir())]
    except FileNotFoundError:
        return []


def _look(file: Path) -> str:
    try:
        status = file.stat()
    except FileNotFoundError:
        return "gone"
    return f"{status.st_size} {status.st_mtime_ns}"
