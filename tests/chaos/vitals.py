"""Memory, descriptors and threads of each Lethe process, from its warm-up to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lethe.cluster.daemons import Daemon

SAMPLE_S: Final = 2.0
WARM_UP_S: Final = 20.0
LEAST_S: Final = 80.0
"""Length of a life that says something of growth."""
MOST_MORE_DESCRIPTORS: Final = 50
MOST_MORE_THREADS: Final = 20
MOST_MORE_BYTES: Final = 16 << 20
"""Of memory, in a life without topics. A controller grew by at most 17.2 MiB so far, over 2,226 topics."""
MOST_BYTES_PER_TOPIC: Final = 16 << 10
"""More of memory for each topic that is created during the life."""
_PAGE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at one process."""

    rss_bytes: int
    descriptors: int
    threads: int


@dataclass(slots=True)
class Life:
    """One run of a process. `first` is its first sample after the warm-up, `last` the newest."""

    name: str
    pid: int
    began: float
    first: Sample | None = None
    last: Sample | None = None
    seconds: float = 0.0


def look(pid: int) -> Sample | None:
    """Return the sample; None if the process has ended."""
    proc = Path("/proc") / str(pid)
    try:
        fields = (proc / "statm").read_text().split()
        threads = sum(1 for _ in (proc / "task").iterdir())
        return Sample(int(fields[1]) * _PAGE_BYTES, sum(1 for _ in (proc / "fd").iterdir()), threads)
    except OSError:
        return None


@dataclass(slots=True)
class Vitals:
    """Samples until it is cancelled."""

    daemons: tuple[Daemon, ...]
    lives: dict[int, Life] = field(default_factory=dict)

    async def run(self) -> None:
        while True:
            self.sample(time.monotonic())
            await asyncio.sleep(SAMPLE_S)

    def sample(self, now: float) -> None:
        """Look at every process that runs."""
        for daemon in self.daemons:
            pid = daemon.pid
            seen = None if pid is None else look(pid)
            if pid is None or seen is None:
                continue
            life = self.lives.setdefault(pid, Life(daemon.name, pid, now))
            life.seconds = now - life.began
            if life.seconds >= WARM_UP_S:
                life.first = life.first or seen
                life.last = seen


@dataclass(frozen=True, slots=True)
class Growth:
    """What a process had at its end, and what it had more than after its warm-up, in its longest life."""

    name: str
    seconds: float
    last: Sample
    more: Sample


def growths(lives: Iterable[Life]) -> list[Growth]:
    """Return the growth of each process in its longest life, by name; nothing of a process without a long one."""
    longest: dict[str, Life] = {}
    for life in lives:
        is_long = life.first is not None and life.seconds >= LEAST_S
        if is_long and (life.name not in longest or life.seconds > longest[life.name].seconds):
            longest[life.name] = life
    return [_growth(longest[name]) for name in sorted(longest)]


def overgrown(grown: Growth, topics: float) -> list[str]:
    """Return what has grown above its limit in a life with so many created topics, as a sentence each."""
    most = Sample(round(MOST_MORE_BYTES + topics * MOST_BYTES_PER_TOPIC), MOST_MORE_DESCRIPTORS, MOST_MORE_THREADS)
    life = f"in {grown.seconds:.0f} s with about {topics:.0f} created topics"
    amounts = (
        ("bytes of memory", grown.more.rss_bytes, most.rss_bytes),
        ("descriptors", grown.more.descriptors, most.descriptors),
        ("threads", grown.more.threads, most.threads),
    )
    return [
        f"{grown.name} grew by {more:,} {what} {life}; the limit is {limit:,}"
        for what, more, limit in amounts
        if more > limit
    ]


def unmeasured(lives: Iterable[Life]) -> list[str]:
    """Return the processes without a life that is long enough, by name."""
    lives = list(lives)
    return sorted({life.name for life in lives} - {each.name for each in growths(lives)})


def _growth(life: Life) -> Growth:
    assert life.first is not None
    assert life.last is not None
    first, last = life.first, life.last
    more = Sample(last.rss_bytes - first.rss_bytes, last.descriptors - first.descriptors, last.threads - first.threads)
    return Growth(life.name, round(life.seconds, 1), last, more)
