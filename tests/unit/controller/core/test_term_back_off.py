"""A controller that backs off stands for election again, whatever becomes of the timer's event."""

from __future__ import annotations

import pytest

from lethe.controller.core.context import Context, Role
from lethe.controller.core.effects import Effect, ReadZnodes, SetTimer, StandAgain
from lethe.controller.core.events import ResignationRequested, SessionEstablished, SessionLost, TimerFired
from tests.unit.controller.core import stage

ENTROPY = bytes(32)
LATER_MS = 60_000


def backing_off() -> tuple[Context, int]:
    """A controller that has given control up on request, and when its back-off ends."""
    context = stage.leading(1)
    effects = stage.written(context, stage.feed(context, ResignationRequested("asked to")))
    assert context.role is Role.BACKING_OFF
    return context, due_in(effects)


def due_in(effects: list[Effect]) -> int:
    (due_ms,) = [each.at_ms for each in effects if isinstance(each, SetTimer) and each.timer == StandAgain()]
    return due_ms


@pytest.mark.parametrize("after_ms", [-1, LATER_MS])
def test_timer_is_set_again_with_a_new_session(after_ms: int) -> None:
    """A lost session takes the place of all queued events, and one of them may be this timer's."""
    context, due_ms = backing_off()
    stage.feed(context, SessionLost("it has expired"), now_ms=due_ms + after_ms)
    effects = stage.feed(context, SessionEstablished(2, ENTROPY), now_ms=due_ms + after_ms)
    assert context.role is Role.BACKING_OFF
    assert due_in(effects) == due_ms


def test_controller_stands_when_that_timer_fires() -> None:
    context, due_ms = backing_off()
    stage.feed(context, SessionLost("it has expired"), now_ms=LATER_MS)
    stage.feed(context, SessionEstablished(2, ENTROPY), now_ms=LATER_MS)
    effects = stage.feed(context, TimerFired(StandAgain()), now_ms=max(due_ms, LATER_MS))
    assert isinstance(effects[-1], ReadZnodes)
    assert context.role is Role.STANDING_BY
