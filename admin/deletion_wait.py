"""Waits for deletions: looks at the three places until each is clean of the topics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lethe.admin.deletion_progress import DeletionTarget, TopicDeletionProgress
from lethe.survey.views import BrokerPlace

POLL_MS = 200
_SHORT = {BrokerPlace.CACHE: "cache", BrokerPlace.LOGS: "logs"}


@dataclass(slots=True)
class DeletionWaitResult:
    """The last look at each topic, and after how long each place was clean of it. Places that never were have no
    entry."""

    progress: list[TopicDeletionProgress]
    elapsed_ms: int = 0
    zookeeper_ms: dict[str, int] = field(default_factory=dict)
    caches_ms: dict[str, int] = field(default_factory=dict)
    logs_ms: dict[str, int] = field(default_factory=dict)
    why: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What each topic that is still marked waits for, and the remedy, in the words of `lethe explain`."""
    is_lethe: bool | None = None
    """A controller of Lethe's is active, which has debts settled; None: unseen."""
    places: dict[str, None] = field(default_factory=dict)
    """Caches and logs of brokers that were not clean, or not seen, at least once; znodes that were not seen."""
    has_znodes: bool = True
    """False where only brokers were looked at: nothing is known of marks and znodes."""

    def note(self, looked: Sequence[TopicDeletionProgress], elapsed_ms: int) -> None:
        """Store one look. A place is clean only if it was seen at every broker. The logs of a recreated topic never
        are, since brokers do not distinguish them from the new ones; nor those of a topic that a broker owes."""
        newest = {progress.name: progress for progress in looked}
        self.progress = [newest.get(progress.name, progress) for progress in self.progress]
        self.elapsed_ms = elapsed_ms
        for progress in looked:
            self.places.update(dict.fromkeys(dirty_places(progress)))
            has_znode = progress.is_marked or progress.has_znode or progress.unseen_znodes
            if self.has_znodes and not has_znode:
                self.zookeeper_ms.setdefault(progress.name, elapsed_ms)
            if not progress.cached_by and not progress.is_unseen_at(BrokerPlace.CACHE):
                self.caches_ms.setdefault(progress.name, elapsed_ms)
            is_stored = progress.stored_by or progress.owed or progress.is_recreated
            if not is_stored and not progress.is_unseen_at(BrokerPlace.LOGS):
                self.logs_ms.setdefault(progress.name, elapsed_ms)


Display = Callable[[DeletionWaitResult], None]


Look = Callable[[Sequence[DeletionTarget]], Awaitable[list[TopicDeletionProgress]]]
"""Returns what is left of each topic, in order."""


async def wait_until_gone(
    look: Look,
    wanted: Sequence[DeletionTarget],
    *,
    timeout_ms: int,
    display: Display,
    poll_ms: int = POLL_MS,
    has_znodes: bool = True,
) -> DeletionWaitResult:
    """Look every `poll_ms` until each topic is gone, refused or certain to stay unseen, or until the time is over.

    The pause is at least as long as the last look took, to limit the load on brokers. When the time is over, a look in
    progress is cancelled, except the first.
    """
    began = time.monotonic()
    waited = DeletionWaitResult(
        [TopicDeletionProgress(target.name, is_marked=True, has_znode=True) for target in wanted],
        has_znodes=has_znodes,
    )
    open_targets = list(wanted)
    has_looked = False
    while True:
        look_began = time.monotonic()
        # The first look has no time limit: without it nothing is known.
        left_s = timeout_ms / 1000 - (look_began - began) if has_looked else None
        try:
            async with asyncio.timeout(left_s):
                looked = await look(open_targets)
        except TimeoutError:
            waited.elapsed_ms = timeout_ms
            return waited
        has_looked = True
        took_ms = int((time.monotonic() - look_began) * 1000)
        elapsed_ms = int((time.monotonic() - began) * 1000)
        waited.note(looked, elapsed_ms)
        display(waited)
        settled = {progress.name for progress in looked if progress.is_settled}
        open_targets = [target for target in open_targets if target.name not in settled]
        if not open_targets or elapsed_ms >= timeout_ms:
            return waited
        await asyncio.sleep(min(max(poll_ms, took_ms), timeout_ms - elapsed_ms) / 1000)


def dirty_places(progress: TopicDeletionProgress) -> Iterator[str]:
    yield from (f"broker {broker} cache" for broker in progress.cached_by)
    yield from (f"broker {broker} logs" for broker in progress.stored_by)
    yield from dict.fromkeys(
        f"{'any broker' if each.broker is None else f'broker {each.broker}'} {_SHORT[each.place]}, unseen"
        for each in progress.unseen
    )
    yield from (f"ZooKeeper {each.path}, unseen" for each in progress.unseen_znodes)
