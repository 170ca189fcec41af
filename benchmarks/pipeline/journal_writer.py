"""Writes the journal of one process, as rotated files."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.pipeline.planted import Planted

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
_HEAD: Final = '{"specversion":"1.0","id":"'
_UTC: Final = datetime.UTC


@dataclass(slots=True)
class JournalWriter:
    """Writes the journal of one process into numbered files."""

    directory: Path
    kind: str
    number: int
    first_file: int
    started_ms: int
    planted: Planted
    seq: int = 0
    _lines: list[str] = field(default_factory=list)
    _repeat: list[str] = field(default_factory=list)
    _size: int = 0
    _files: int = 0
    _second: int = -1
    _second_text: str = ""

    def say(self, ms: int, kind: str, subject: str, data: str) -> None:
        second, rest = divmod(ms, 1000)
        if second != self._second:
            self._second = second
            self._second_text = datetime.datetime.fromtimestamp(second, _UTC).strftime("%Y-%m-%dT%H:%M:%S")
        self.seq += 1
        line = (
            f'{_HEAD}{self.started_ms:x}-{self.seq}","source":"/lethe/{self.kind}/{self.number}","type":"lethe.{kind}",'
            f'"subject":"{subject}","time":"{self._second_text}.{rest:03d}Z","datacontenttype":"application/json",'
            f'"data":{data}}}\n'
        )
        self._add(line)
        self.planted.lines += 1
        if self.seq % 1000 == 0:
            self._repeat.append(line)
            self.planted.repeated += 1

    def about_itself(self, ms: int, kind: str, data: str) -> None:
        self.say(ms, kind, f"{self.kind}/{self.number}", data)

    def spoil(self, text: str) -> None:
        """Write an invalid line."""
        self._add(f"{text}\n")
        self.planted.bad += 1

    def cut_off(self) -> None:
        """Cut the last line in half, as if the process were killed while it writes."""
        if not self._lines:
            return
        last = self._lines.pop()
        self.planted.lines -= 1
        self.planted.bad += 1
        self._lines.append(last[: len(last) // 2])
        if self.seq % 1000 == 0:
            self._repeat.pop()
            self.planted.repeated -= 1

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line)
        if self._size >= MAX_FILE_BYTES:
            self.close_file()

    def close_file(self) -> None:
        """Write the file. Repeated lines begin the next file, as after a retry whose first attempt succeeded."""
        if not self._lines:
            return
        name = f"{self.kind}-{self.number}-{self.first_file + self._files:08d}.jsonl"
        content = "".join(self._lines).encode()
        (self.directory / name).write_bytes(content)
        self.planted.size_bytes += len(content)
        self._files += 1
        self._lines, self._repeat, self._size = self._repeat, [], 0

    def close(self) -> None:
        self.close_file()
        self.close_file()
