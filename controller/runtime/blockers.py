"""Logs what deletions wait for: a warning when a cause blocks, and a line when it has ended.

A cause is a kind and a broker (`protocol.causes`), however many topics wait for it. It blocks once it has lasted for
`LASTS_MS`; a healthy deletion waits for each answer, but for less time. The marked topics are examined in slices, so
that the event loop continues; the replicas of topics that go on are not looked at. The pause before the next pass is
twenty times as long as the pass, and at least `REST_S`.

    900 topics wait for broker 3, which is down   one warning with three names and the remedy
    the same causes at the next pass              nothing
    broker 3 is back, 0 topics wait for it        one line: no topic has this cause any more
    broker 3 answered errors; a retry is sent     nothing: only an answer without error ends this cause
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from lethe.adapters.clock import Clock
from lethe.controller.core.context import Context, Role
from lethe.controller.core.waiting import Wait, goes_on, is_undisturbed, marked_topics, waits
from lethe.controller.runtime.explanation import path_of, with_access
from lethe.controller.runtime.powers import Problems
from lethe.protocol import causes
from lethe.protocol.cause_groups import NOT_WAITED_FOR
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted
from lethe.protocol.vocabulary import BrokerId

logger = logging.getLogger(__name__)

LASTS_MS: Final = 10_000
REST_S: Final = 5.0
_ROWS_IN_A_SLICE: Final = 2_000
_SHOWN_NAMES: Final = 3
_NOT_LOGGED: Final = (*NOT_WAITED_FOR, CauseKind.OTHER_REPLICAS, CauseKind.TURN, CauseKind.HALF_DELETED)
"""Not logged: these end without help, or another cause of the topic says the same."""


class Blocker(NamedTuple):
    """One cause, for all topics that wait for it."""

    kind: CauseKind
    broker: BrokerId | None


@dataclass(slots=True)
class Blocked:
    """The topics that wait for one cause: `topics` is their number, `names` the first of them.

    Without topics, the cause is unseen: it does not block anew, and it has not ended either."""

    topics: int = 0
    names: list[str] = field(default_factory=list)
    last_error: str | None = None
    path: str | None = None
    """Znode to repair, if the cause has one."""

    def add(self, wait: Wait) -> None:
        """Count the topic of a row. The caller passes one row per topic and cause."""
        self.last_error = self.last_error or wait.last_error
        self.topics += 1
        if len(self.names) < _SHOWN_NAMES:
            self.names.append(wait.topic)


def collect(found: dict[Blocker, Blocked], rows: Iterable[Wait], now_ms: int) -> None:
    """Add the rows of one topic that have lasted for `LASTS_MS`, and, as unseen, the errors of brokers that have not
    answered again."""
    mine: dict[Blocker, Wait] = {}
    for row in rows:
        if row.waiting_for not in _NOT_LOGGED and now_ms - row.since_ms >= LASTS_MS:
            mine.setdefault(Blocker(row.waiting_for, row.broker), row)
        if row.partition is not None and row.last_error is not None:
            found.setdefault(Blocker(CauseKind.BROKER_ERROR, row.broker), Blocked())
    for blocker, row in mine.items():
        found.setdefault(blocker, Blocked()).add(row)


def collect_owed(found: dict[Blocker, Blocked], context: Context) -> None:
    """Add the registered brokers with unanswered tombstones of removed topics. No topic waits for these, but such a
    broker may still show the topics to clients."""
    for broker, owing_broker in context.cluster.owed.items():
        if broker in context.cluster.brokers and owing_broker.topics:
            names = list(islice(owing_broker.topics, _SHOWN_NAMES))
            error = None if owing_broker.problem is None else owing_broker.problem.what
            found[Blocker(CauseKind.TOMBSTONE_OWED, broker)] = Blocked(len(owing_broker.topics), names, error)


class BlockerLog:
    """Remembers the causes that were logged."""

    def __init__(self) -> None:
        self._logged: dict[Blocker, str] = {}
        """Sentence of each blocking cause, as logged."""
        self._term: int | None = None

    def tell(self, found: Mapping[Blocker, Blocked]) -> None:
        """Log the causes that are new since the last call, and those that have ended."""
        for blocker, blocked in found.items():
            if blocked.topics and blocker not in self._logged:
                self._logged[blocker] = _sentence(blocker, blocked)
                logger.warning("%s", warning(blocker, blocked))
        for blocker in [each for each in self._logged if each not in found]:
            logger.info("%s", _end(blocker, self._logged.pop(blocker)))

    def begin(self, term: int | None) -> None:
        """Clear the memory where this is another term; None: this controller is not active."""
        if term is None or term != self._term:
            self._logged.clear()
        self._term = term


def warning(blocker: Blocker, blocked: Blocked) -> str:
    """`900 topics (a, b, c, …): each waits for broker 3, which …: start broker 3 …`."""
    names = ", ".join(blocked.names) + (", …" if blocked.topics > len(blocked.names) else "")
    which = f"topic {names}" if blocked.topics == 1 else f"{counted(blocked.topics, 'topic')} ({names}): each"
    remedy = causes.remedy(blocker.kind, blocked.names[0], broker=blocker.broker, path=blocked.path)
    return f"{which} {_sentence(blocker, blocked)}{': ' if remedy else ''}{remedy}"


def _sentence(blocker: Blocker, blocked: Blocked) -> str:
    name, path = blocked.names[0], blocked.path
    return causes.sentence(blocker.kind, name, broker=blocker.broker, path=path, detail=blocked.last_error)


def _end(blocker: Blocker, told: str) -> str:
    if blocker.kind is CauseKind.TOMBSTONE_OWED:
        return f"ended: broker {blocker.broker} has confirmed what it owed, or is no longer registered"
    return f"no topic has this cause any more: {told}"


async def log_blockers(
    between_steps: Callable[[], Awaitable[Context]], problems: Callable[[], Problems], clock: Clock
) -> None:
    """Run passes until cancelled. `between_steps`: see `ControllerLoop.between_steps`."""
    log = BlockerLog()
    while True:
        began_s = time.monotonic()
        await log_pass(log, between_steps, problems, clock)
        await asyncio.sleep(max(REST_S, 20 * (time.monotonic() - began_s)))


async def log_pass(
    log: BlockerLog, between_steps: Callable[[], Awaitable[Context]], problems: Callable[[], Problems], clock: Clock
) -> None:
    """Examine all marked topics once, and log. A controller that still loads has not seen what they wait for."""
    found: dict[Blocker, Blocked] = {}
    context = await between_steps()
    term = _term(context)
    log.begin(term)
    topics = iter(() if term is None else marked_topics(context))
    while examine_slice(found, context, topics, problems(), clock.now_ms()):
        await asyncio.sleep(0)
        context = await between_steps()
    if term is None or _term(context) != term:
        return
    collect_owed(found, context)
    for blocker, blocked in found.items():
        blocked.path = path_of(context, blocker.kind)
    log.tell(found)


def _term(context: Context) -> int | None:
    return context.cluster.epoch if context.role is Role.ACTIVE else None


def examine_slice(
    found: dict[Blocker, Blocked], context: Context, topics: Iterator[str], problems: Problems, now_ms: int
) -> bool:
    """Examine topics with about `_ROWS_IN_A_SLICE` replicas; a larger topic ends its slice. Return False at the end."""
    may_go_on = is_undisturbed(context)
    rows = 0
    for topic in topics:
        rows += 1
        if not (may_go_on and goes_on(context, topic, now_ms - LASTS_MS)):
            known = context.cluster.topics.get(topic)
            rows += 0 if known is None else known.replica_count
            collect(found, (with_access(wait, problems) for wait in waits(context, topic)), now_ms)
        if rows >= _ROWS_IN_A_SLICE:
            return True
    return False
