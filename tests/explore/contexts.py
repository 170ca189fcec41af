"""The controllers' memories that the search has met, as numbered forms, and the core's steps between them.

The core is a function of a memory, an event and the time. So each step is taken once, on a memory made from the form,
and remembered: the search follows millions of transitions with a few thousand steps of the core.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from lethe.controller.core import controller
from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context, Role
from lethe.controller.core.effects import (
    Effect,
    Record,
    RetryDebts,
    RetryDeletions,
    SetTimer,
    StandAgain,
    Timer,
    WatchTrash,
)
from lethe.controller.core.events import Event, TimerFired
from lethe.controller.core.invariants import violations
from lethe.protocol.journal import EventRecordType
from lethe.protocol.zookeeper.znodes import TrashPhase
from tests.explore.canonical import DUE_MS, FIRST_EFFECT_ID, FIRST_REQUEST_ID, START_MS, Form, frozen, last_ids, thawed
from tests.explore.interning import Numbers

ILLEGAL: Final = "the state machine has no such transition"
FIRED: Final[tuple[Timer, ...]] = (StandAgain(), RetryDeletions(), RetryDebts(), WatchTrash())
"""The timers that fire in this world. Of the others one looks at caches, one at power, one moves leaders, one repeats
refused reassignments, and the rest end waits for brokers that live and say nothing: there are none here."""


class Summary(NamedTuple):
    """What the world asks about a memory."""

    role: Role
    awaited: frozenset[int]
    """Effects whose results must come before any other event."""
    timers: tuple[Timer, ...]
    """Those of `FIRED` that are set."""
    epoch_version: int
    deletions: tuple[str, ...]
    expires: bool
    """When the trash's timer fires, a grace period is over."""


class Step(NamedTuple):
    """One step of the core: the memory after it, what it asks for, and what is wrong with it, if anything."""

    context: int
    effects: tuple[Effect, ...]
    """With ids as in the new memory; without timers and event records."""
    names: dict[int, int]
    """The new id of each id that the new memory has."""
    problem: str | None


class Contexts:
    """Every memory met so far."""

    def __init__(self) -> None:
        self._forms: Numbers[Form] = Numbers()
        self._summaries: dict[int, Summary] = {}
        self._last_ids: dict[int, tuple[int, int]] = {}
        self.step = lru_cache(None)(self._step)

    def __len__(self) -> int:
        return len(self._forms)

    def fresh(self, config: CoreConfig) -> int:
        """Return the memory of a process that has just started."""
        context = Context(config, last_request_id=FIRST_REQUEST_ID - 1, last_effect_id=FIRST_EFFECT_ID - 1)
        return self._number(context, START_MS)[0]

    def form(self, context: int) -> Form:
        return self._forms[context]

    def summary(self, context: int) -> Summary:
        return self._summaries[context]

    def memory(self, context: int) -> Context:
        """Return an independent memory of this form."""
        made = thawed(self._forms[context])
        assert isinstance(made, Context)
        made.last_request_id, made.last_effect_id = self._last_ids[context]
        return made

    def _number(self, context: Context, now_ms: int) -> tuple[int, dict[int, int]]:
        form, names = frozen(context, now_ms)
        number = self._forms.of(form)
        if number not in self._summaries:
            self._last_ids[number] = last_ids(names)
            self._summaries[number] = Summary(
                context.role,
                frozenset(names[each.effect_id] for each in context.awaited),
                tuple(timer for timer in FIRED if timer in context.timers),
                context.cluster.epoch_version,
                tuple(context.cluster.deletions),
                any(
                    each.phase is TrashPhase.TRASHED and not each.is_asked
                    for each in context.cluster.trash.topics.values()
                ),
            )
        return number, names

    def _step(self, number: int, event: Event) -> Step:
        now_ms = DUE_MS if isinstance(event, TimerFired) else START_MS
        context = self.memory(number)
        effects = controller.step(context, event, now_ms)
        problem = _problem(context, effects)
        after, names = self._number(context, now_ms)
        return Step(after, tuple(e for e in effects if not isinstance(e, Record | SetTimer)), names, problem)


def _problem(context: Context, effects: list[Effect]) -> str | None:
    for effect in effects:
        if isinstance(effect, Record) and effect.record.type is EventRecordType.REFUSAL:
            data = effect.record.data
            if data.get("why") == ILLEGAL:
                return f"{effect.record.subject} may not go {data['what']}"
    found = () if context.awaiting_result else violations(context)
    return "; ".join(found) or None
