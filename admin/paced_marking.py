"""Marks topics for deletion at a limited pace, so that the cluster never has many deletions at once.

At most `at_once` deletions are in progress, and at most `per_s` start in any second; unused time gives no credit.
Topics are checked again right before they are marked. A topic is settled when its znode is gone or of a new
incarnation, when it was left out, or when its mark was refused or dropped. It is also settled when its mark is gone and
ZooKeeper does not tell whether its znode exists (`unseen`). If the process is stopped, marked topics are deleted and no
others.

    at_once 2, candidates a, b, c        marked a, b
    a is gone                            marked c, unless the recheck leaves it out
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.deletion_progress import MARK_DROPPED
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Exists
from lethe.survey.znodes import ZnodeUnreadable, stat_of

Recheck = Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]
"""Checks topics again; returns those that must not be deleted any more, with the reason."""


@dataclass(frozen=True, slots=True)
class Pace:
    """At most `at_once` deletions in progress, at most `per_s` started in a second (None: no limit).

    A fraction is turned into a window: 0.5 is one in any two seconds, 1.5 is one in any two thirds of a second.
    """

    at_once: int
    per_s: float | None = None

    @property
    def burst(self) -> int:
        """Most deletions started in any `window_s`; unused where `per_s` is None."""
        return max(1, int(self.per_s or 0))

    @property
    def window_s(self) -> float:
        return 0.0 if self.per_s is None else self.burst / self.per_s


@dataclass(slots=True)
class PacedMarking:
    """`czxids` are the incarnations that may be deleted, by topic, in the order of deletion."""

    session: ZooKeeperSession
    czxids: Mapping[str, int]
    pace: Pace
    recheck: Recheck
    clock: Callable[[], float] = time.monotonic
    deleted: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)
    """Topics whose mark is gone and whose znode was not seen, with the reason."""
    under_way: dict[str, None] = field(default_factory=dict)
    pending: list[str] = field(init=False)
    _begun: deque[float] = field(default_factory=deque)
    """Times of the marks that count for the rate."""

    def __post_init__(self) -> None:
        self.pending = list(self.czxids)

    async def step(self) -> int:
        """Note finished deletions, mark as many topics as the pace allows, and return the number of settled topics."""
        await self._look()
        if batch := self.pending[: self._room()]:
            del self.pending[: len(batch)]
            await self._mark(batch)
        return len(self.settled)

    @property
    def settled(self) -> frozenset[str]:
        """Topics that are not looked at again."""
        return frozenset((*self.deleted, *self.left_out, *self.failed, *self.unseen))

    def _room(self) -> int:
        room = self.pace.at_once - len(self.under_way)
        if self.pace.per_s is not None:
            now = self.clock()
            while self._begun and now - self._begun[0] >= self.pace.window_s:
                self._begun.popleft()
            room = min(room, self.pace.burst - len(self._begun))
        return max(room, 0)

    async def _look(self) -> None:
        if not self.under_way:
            return
        names = list(self.under_way)
        marked = frozenset((await topic_znodes.list_topics(self.session)).marked)
        for name, znode in zip(names, await self.session.read([Exists(paths.topic(n)) for n in names]), strict=True):
            try:
                there = stat_of(znode, paths.topic(name))
            except ZnodeUnreadable as unread:
                if name not in marked:
                    del self.under_way[name]
                    self.unseen[name] = f"its mark is gone; whether it is deleted is unseen: {unread}"
                continue
            is_there = there is not None and there.stat.czxid == self.czxids[name]
            if is_there and name in marked:
                continue
            del self.under_way[name]
            if is_there:
                self.failed[name] = MARK_DROPPED
            else:
                self.deleted.append(name)

    async def _mark(self, batch: Sequence[str]) -> None:
        self.left_out.update(await self.recheck(batch))
        able = [name for name in batch if name not in self.left_out]
        if self.pace.per_s is not None:
            self._begun.extend([self.clock()] * len(able))
        for outcome in await topic_znodes.mark_for_deletion(self.session, able) if able else ():
            if outcome.problem is None:
                self.under_way[outcome.name] = None
            else:
                self.failed[outcome.name] = outcome.problem
