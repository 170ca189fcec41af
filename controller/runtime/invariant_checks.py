"""Checks the core's invariants at run time, with `lethe.invariants.check`.

A violation is a fault (`faults`): the loop logs it, and the controller resigns and loads everything again. The effects
of the step that broke the invariant are not performed.

A check examines every replica. The pause after it is `REST` times as long as the check, so checks take at most a
twentieth of the time in any cluster.

    check of 100 ms    the steps of the next 2 s are not checked
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from lethe.controller.core.context import Context
from lethe.controller.core.effects import Effect
from lethe.controller.core.events import Event
from lethe.controller.core.invariants import memory_violations
from lethe.controller.runtime.steps import Step
from lethe.protocol.counting import listed

REST: Final = 20
"""Length of the pause after a check, as a multiple of the check's time."""
_SHOWN: Final = 5


class InvariantViolated(Exception):
    """The controller's memory contradicts itself."""


def checked(step: Step, clock_s: Callable[[], float] = time.monotonic) -> Step:
    """Return a step that raises InvariantViolated where the memory contradicts itself after it."""
    rests_until_s = 0.0

    def checked_step(context: Context, event: Event, now_ms: int) -> list[Effect]:
        nonlocal rests_until_s
        effects = step(context, event, now_ms)
        began_s = clock_s()
        if began_s >= rests_until_s:
            found = memory_violations(context)
            ended_s = clock_s()
            rests_until_s = ended_s + REST * (ended_s - began_s)
            if found:
                raise InvariantViolated(f"after {type(event).__name__}: {listed(found, _SHOWN, '; ')}")
        return effects

    return checked_step
