"""Memory of a process and all its descendants: driver, JVM, executors, Python workers.

The sum of the proportional set sizes, because Python workers share pages with the daemon that forked them. If the
kernel does not report these, resident set sizes are added.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

PROC: Final = Path("/proc")


def descendants(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, at = [pid], 0
    while at < len(found):
        found += children.get(found[at], ())
        at += 1
    return found


def memory_bytes(pid: int) -> int:
    """Return the memory of one process; 0 if it has ended."""
    try:
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return int((PROC / str(pid) / "statm").read_text().split()[1]) * 4096
    except OSError:
        return 0


class MemoryWatch:
    """Samples the memory of these process trees until the context ends; `peak_bytes` is the maximum."""

    def __init__(self, *roots: int, every_s: float = 1.0) -> None:
        self.peak_bytes = 0
        self._roots = roots
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory", daemon=True)

    def _look(self) -> None:
        while not self._over.wait(self._every_s):
            now = sum(memory_bytes(each) for root in self._roots for each in descendants(root))
            self.peak_bytes = max(self.peak_bytes, now)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
