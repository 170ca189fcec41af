"""Routes timers to the modules that set them. Decides nothing."""

from __future__ import annotations

from typing import assert_never

from lethe.controller.core import (
    caches,
    client_waits,
    debts,
    deletion,
    effects,
    leaving,
    owed,
    pace,
    power,
    preferred,
    reassignment,
    relisting,
    term,
    trash_steps,
)
from lethe.controller.core.effects import Timer
from lethe.controller.core.step_context import StepContext


def fired(step: StepContext, timer: Timer) -> None:  # noqa: C901 - a table of all timers is meant to be long and flat
    """Act on the timer, unless it was set anew for later."""
    due_ms = step.context.timers.get(timer)
    if due_ms is None or due_ms > step.now_ms:
        return
    del step.context.timers[timer]
    match timer:
        case effects.StandAgain():
            term.stand_again(step)
        case effects.RetryDeletions():
            deletion.retries_due(step)
        case effects.BeginDeletions():
            pace.go_on(step)
        case effects.EndTombstoneWaits():
            deletion.end_tombstone_waits(step)
        case effects.ListAgain():
            relisting.time_is_over(step)
        case effects.RetryDebts():
            debts.retries_due(step)
        case effects.RetryOwedTombstones():
            owed.retries_due(step)
        case effects.ResignAnyway():
            leaving.time_is_over(step)
        case effects.RetryReassignments():
            reassignment.retries_due(step)
        case effects.RebalanceLeaders():
            preferred.rebalance(step)
        case effects.CompareCaches():
            caches.look(step)
        case effects.CheckPower():
            power.check(step)
        case effects.AnswerClients():
            client_waits.end_waits(step)
        case effects.WatchTrash():
            trash_steps.due(step)
        case _:
            assert_never(timer)
