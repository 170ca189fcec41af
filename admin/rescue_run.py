"""Carries out a confirmed rescue: take control, finish what can be finished, hand control back.

At the end it looks at the cluster twice: while the controller can still say what each topic waits for, and afterwards
for the new controller.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controllers import ask_controller
from lethe.admin.forgetting import NOTHING_WAITS, NotBegun, forget, not_begun
from lethe.admin.outcomes import Outcome
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.rescue_control import (
    ControlStage,
    RescueController,
    RescueInterrupted,
    TakeoverSettings,
    free_id,
    in_control,
)
from lethe.admin.rescue_ghosts import CacheReport, are_caches_compared, comparison_progress, final_report
from lethe.admin.rescue_plan import RescueProgress, to_mark
from lethe.admin.rescue_snapshot import ElectionRate, RescueSnapshot, look, turns_within
from lethe.admin.topic_znodes import active_controller, list_topics, mark_for_deletion
from lethe.controller.core.context import NOTHING_UNCONFIRMED, UnconfirmedDeletions
from lethe.controller.core.scope import Scope
from lethe.protocol.cause_groups import NOT_WAITED_FOR
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted
from lethe.protocol.kafka.versions import LATEST, InterBrokerProtocol
from lethe.protocol.vocabulary import NO_BROKER, Broker, BrokerId
from lethe.survey.broker_settings import common_protocol
from lethe.survey.evidence import ControllerReport

POLL_S: Final = 0.25
SUCCESSOR_LIMIT_S: Final = 15.0
"""Kafka's brokers take a free `/controller` within milliseconds. After this time, none is there to take it."""
WATCH_MS: Final = 2_000
"""How long elections are counted afterwards, to see whether the new controller stays."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RescueOptions:
    """The options of the command."""

    connect: str
    reach: BrokerReach
    """How brokers are reached, by questions and by the controller of the rescue."""
    topics: tuple[str, ...] = ()
    even_if_disabled: bool = False
    dry_run: bool = False
    timeout_ms: int = 300_000
    patience_ms: int = 20_000
    broker_timeout_ms: int = 2_000
    controller_id: int | None = None
    ibp: str | None = None
    listener: str | None = None
    access: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables that say who the controller is at ZooKeeper."""
    owe: bool = False
    """Do not wait for brokers that are not registered."""
    forget: int | None = None
    """Give this broker up, which never returns."""


@dataclass(frozen=True, slots=True)
class ControlPeriod:
    """How long the rescue was in control, and the controllers before and after it; None: none, or not seen."""

    ours: BrokerId
    before: BrokerId | None
    after: BrokerId | None
    held_ms: int
    election_rate: ElectionRate
    """Elections afterwards."""
    stage: ControlStage = ControlStage.IN_CONTROL


@dataclass(frozen=True, slots=True)
class RescueResult:
    """What was seen before and after, and how the rescue ended."""

    first: RescueSnapshot
    last: RescueSnapshot
    control: ControlPeriod
    quarantined: Sequence[str]
    """Znodes that cannot be understood, with the reasons."""
    even_if_disabled: bool
    interrupted: bool
    timed_out: bool
    left: UnconfirmedDeletions = NOTHING_UNCONFIRMED
    caches: CacheReport = field(default_factory=CacheReport)
    """What the rescue's controller found in metadata caches."""
    forgotten: Outcome | None = None
    """Whether the broker that was named with --forget is given up."""
    waiting_for_forgotten: NotBegun = NOTHING_WAITS
    """Marked topics that wait for it all the same."""


@dataclass(slots=True)
class _State:
    """Results so far; an interruption keeps them."""

    first_caches: CacheReport
    caches: CacheReport
    taken_from: BrokerId | None = None
    taken_at_s: float | None = None
    last: RescueSnapshot | None = None
    quarantined: tuple[str, ...] = ()
    interrupted: bool = False
    timed_out: bool = False
    forgotten: Outcome | None = None
    waiting_for_forgotten: NotBegun = NOTHING_WAITS
    guest: RescueController | None = None

    @property
    def stage(self) -> ControlStage:
        if self.taken_at_s is not None:
            return ControlStage.IN_CONTROL
        return ControlStage.NOT_SEEN if self.taken_from is None else ControlStage.TAKEN

    async def note_caches(self, guest: RescueController) -> None:
        """Keep what the controller has found in metadata caches, while it can say so."""
        self.caches = final_report(await guest.context(), self.first_caches, self.caches)


async def carry_out(session: ZooKeeperSession, options: RescueOptions, seen: RescueSnapshot, say: Say) -> RescueResult:
    """Carry out the rescue. Raises Refusal where control cannot be taken, or is lost."""
    means = means_for(options, seen)
    topics = options.topics or tuple(each.topic for each in seen.found)
    chosen = chosen_topics(options, seen)
    state = _State(seen.caches, seen.caches.not_compared(broker.id for broker in _brokers(seen)))

    async def work(guest: RescueController) -> None:
        state.guest = guest
        try:
            await _work(session, options, seen, guest, topics, chosen, state, say)
        except RescueInterrupted:
            state.interrupted = True
            if state.taken_at_s is None:
                state.taken_from = guest.taken_from
            await state.note_caches(guest)
            say("Interrupted: handing control back.")

    await in_control(means, scope_of(options, chosen), work)
    ended_s = time.monotonic()
    after = await _successor(session, means.controller_id, is_awaited=_has_kafka(seen))
    election_rate = await turns_within(session, WATCH_MS)
    last = state.last or await look(session, options.reach, topics, options.broker_timeout_ms)
    held_ms = 0 if state.taken_at_s is None else int((ended_s - state.taken_at_s) * 1000)
    return RescueResult(
        seen,
        last,
        ControlPeriod(means.controller_id, state.taken_from, after, held_ms, election_rate, state.stage),
        quarantined=state.quarantined,
        even_if_disabled=options.even_if_disabled,
        interrupted=state.interrupted,
        timed_out=state.timed_out,
        # `caches` has the ghosts.
        left=NOTHING_UNCONFIRMED if state.guest is None else state.guest.unconfirmed_deletions._replace(ghosts={}),
        caches=state.caches.of(options.topics) if options.topics else state.caches,
        forgotten=state.forgotten,
        waiting_for_forgotten=state.waiting_for_forgotten,
    )


def chosen_topics(options: RescueOptions, seen: RescueSnapshot) -> frozenset[str] | None:
    """Return the topics that may be deleted; None: all marked ones. If a broker has deletion disabled, topics marked
    during the rescue are excluded: a controller there would drop their markers, as always."""
    if options.topics:
        return frozenset(options.topics)
    return frozenset(each.topic for each in seen.found) if seen.disabled_on else None


def scope_of(options: RescueOptions, topics: frozenset[str] | None) -> Scope:
    """Return what the controller does. It forgets no broker but the named one; where a broker or topics are named, no
    other broker is asked for what it owes of other topics."""
    named = frozenset(() if options.forget is None else (BrokerId(options.forget),))
    is_for_all = topics is None and options.forget is None
    return Scope(topics, debtors=None if is_for_all else named, forgettable=named)


def means_for(options: RescueOptions, seen: RescueSnapshot) -> TakeoverSettings:
    """Return the settings for taking control. Raises Refusal where brokers could not be commanded with them."""
    ibp = InterBrokerProtocol.parse(options.ibp) if options.ibp is not None else _protocol(seen)
    listener = _listener(options, seen)
    reach = replace(options.reach, listener=listener)
    _demand_listener(seen, reach)
    number = guest_id(options, seen)
    if options.controller_id is not None and number in seen.known_ids:
        raise Refusal(f"--controller-id {number} is the id of a broker: choose one that no broker has", Exit.USAGE)
    return TakeoverSettings(options.connect, number, ibp, reach, access=options.access, owe=options.owe)


def guest_id(options: RescueOptions, seen: RescueSnapshot) -> BrokerId:
    """Return the requested controller id, or one that no broker has."""
    return free_id(seen.known_ids) if options.controller_id is None else BrokerId(options.controller_id)


def _listener(options: RescueOptions, seen: RescueSnapshot) -> str:
    """Return the requested listener, or that of the brokers for controllers, or the one they are asked through."""
    told = (each.listener for each in seen.settings if each.listener)
    asked = (seen_by.listener for broker in _brokers(seen) if (seen_by := options.reach.choice.endpoint_of(broker)))
    return (options.listener or options.reach.listener or next(told, None) or next(asked, "PLAINTEXT")).upper()


def _demand_listener(seen: RescueSnapshot, reach: BrokerReach) -> None:
    """Raise Refusal if a broker has no such listener that is spoken: its controller could send it nothing."""
    choice = reach.choice
    without_listener = [broker for broker in _brokers(seen) if choice.endpoint_of(broker) is None]
    if without_listener:
        first = without_listener[0]
        others = "" if len(without_listener) == 1 else f", and so it is with {len(without_listener) - 1} more"
        raise Refusal(
            f"the controller of the rescue could send broker {first.id} nothing: {choice.reason(first.endpoints)}"
            f"{others}. Name another listener with --listener, or give its security.protocol in --command-config"
        )


def _brokers(seen: RescueSnapshot) -> tuple[Broker, ...]:
    return seen.evidence.survey.zookeeper.brokers


def _protocol(seen: RescueSnapshot) -> InterBrokerProtocol:
    """Return a protocol that all brokers support; the latest where none of them names one."""
    named = common_protocol(seen.settings)
    return LATEST if named is None else named


def _has_kafka(seen: RescueSnapshot) -> bool:
    """Return True if a Kafka broker can take control afterwards; only these return their configuration."""
    return any(each.deletes_topics is not None for each in seen.settings)


async def _work(
    session: ZooKeeperSession,
    options: RescueOptions,
    seen: RescueSnapshot,
    guest: RescueController,
    topics: Sequence[str],
    chosen: frozenset[str] | None,
    state: _State,
    say: Say,
) -> None:
    if seen.holder is not None:
        say(f"Taking control, with {guest.grace_ms / 1000:g} s for the present controller to notice.")
    taken_from = await guest.elected()
    state.taken_at_s = time.monotonic()
    holder = seen.holder
    state.taken_from = taken_from
    say(
        f"Control taken from controller {taken_from}."
        if taken_from is not None
        else f"Control taken{'' if holder is None else f', after controller {holder.znode.broker_id} had gone'}."
    )
    if options.even_if_disabled:
        await _mark(session, to_mark(seen.found))
    async with _forgetting(session, options, seen, state) as is_forgotten:
        await _finish(session, options, guest, topics, chosen, state, say, is_forgotten)
    told = await ask_controller(guest.url, None, options.broker_timeout_ms)
    await state.note_caches(guest)
    state.quarantined = tuple(f"{each.path}: {each.reason}" for each in guest.quarantined)
    state.last = await look(session, options.reach, topics, options.broker_timeout_ms, told if told.is_known else None)


@asynccontextmanager
async def _forgetting(
    session: ZooKeeperSession, options: RescueOptions, seen: RescueSnapshot, state: _State
) -> AsyncIterator[Callable[[], bool]]:
    """Request that the named broker is forgotten, and yield whether that is answered. The controller answers when no
    deletion waits for the broker any more; what is not answered at the end is withdrawn."""
    if options.forget is None:
        yield lambda: True
        return
    stopping = asyncio.Event()
    asked = asyncio.create_task(forget(session, options.forget, timeout_ms=options.timeout_ms, stopping=stopping))
    try:
        yield asked.done
    finally:
        stopping.set()
        state.forgotten = await asked
        state.waiting_for_forgotten = await not_begun(session, seen.named_by)


async def _finish(
    session: ZooKeeperSession,
    options: RescueOptions,
    guest: RescueController,
    topics: Sequence[str],
    chosen: frozenset[str] | None,
    state: _State,
    say: Say,
    is_forgotten: Callable[[], bool],
) -> None:
    """Wait until the deletions are over, or no further progress is expected. Raises RescueInterrupted."""
    progress, comparison = RescueProgress(chosen, options.patience_ms), _CacheComparison(guest, options.patience_ms)
    deadline_s = (state.taken_at_s or time.monotonic()) + options.timeout_ms / 1000
    over_s: float | None = None
    while True:
        guest.check()
        await state.note_caches(guest)
        told = await ask_controller(guest.url, None, options.broker_timeout_ms)
        if told.is_known and progress.note(told, _now_ms()):
            say(_status_line(progress, told, guest.unreached))
        if told.is_known and await _is_over(session, progress, topics) and await comparison.is_over():
            over_s = time.monotonic() if over_s is None else over_s
            # The last deletion is answered a moment before the request is.
            if is_forgotten() or time.monotonic() - over_s >= options.patience_ms / 1000:
                break
        if time.monotonic() > deadline_s:
            state.timed_out = True
            break
        await asyncio.sleep(POLL_S)


class _CacheComparison:
    """Progress of the comparison of metadata caches."""

    def __init__(self, guest: RescueController, patience_ms: int) -> None:
        self._guest = guest
        self._patience_ms = patience_ms
        self._seen: object = None
        self._since_ms = _now_ms()

    async def is_over(self) -> bool:
        """Return True if every cache was compared, or nothing has changed for `patience_ms`."""
        context, now_ms = await self._guest.context(), _now_ms()
        seen = comparison_progress(context)
        if seen != self._seen:
            self._seen, self._since_ms = seen, now_ms
        return are_caches_compared(context) or now_ms - self._since_ms >= self._patience_ms


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


async def _mark(session: ZooKeeperSession, unmarked: Sequence[str]) -> None:
    """Mark topics whose markers were dropped before; the rescue's controller keeps them."""
    for outcome in await mark_for_deletion(session, unmarked) if unmarked else ():
        if outcome.problem is not None:
            raise Refusal(f"{outcome.name} could not be marked for deletion: {outcome.problem}")


async def _is_over(session: ZooKeeperSession, progress: RescueProgress, topics: Sequence[str]) -> bool:
    """Return True if the deletions are over and no topic was marked since: the controller may not have seen a new mark
    yet."""
    if not progress.is_over(_now_ms()):
        return False
    marked = frozenset((await list_topics(session)).marked)
    return bool(progress.left) or not marked.intersection(topics)


def _status_line(progress: RescueProgress, told: ControllerReport, unreached: Mapping[int, CauseKind]) -> str:
    left = len(progress.left) + told.not_shown
    if not left:
        return "Nothing waits any more."
    waits: dict[str, int] = {}
    for topic in progress.left:
        for row in told.topics[topic].replicas:
            if row.waiting_for not in NOT_WAITED_FOR:
                kind: CauseKind = row.waiting_for
                if kind in (CauseKind.ANSWER, CauseKind.TOMBSTONE_ANSWER) and row.broker is not None:
                    # The request does not reach this broker: name that cause.
                    kind = unreached.get(row.broker, kind)
                what = kind.code.replace("_", " ")
                where = "" if row.broker is None else f" (broker {row.broker})"
                waits[what + where] = waits.get(what + where, 0) + 1
    shown = ", ".join(f"{count} × {what}" for what, count in sorted(waits.items(), key=lambda item: -item[1])[:4])
    return f"{counted(left, 'topic')} left: {shown or 'about to begin'}."


async def _successor(session: ZooKeeperSession, ours: BrokerId, *, is_awaited: bool) -> BrokerId | None:
    """Return the controller afterwards; None where there is none."""
    deadline = time.monotonic() + (SUCCESSOR_LIMIT_S if is_awaited else 0)
    while True:
        found = await active_controller(session)
        if found is not None and found.znode.broker_id not in (ours, NO_BROKER):
            return found.znode.broker_id
        if time.monotonic() >= deadline:
            return None
        await asyncio.sleep(POLL_S)
