"""Bugs of a controller that holds `/controller` and has no power over the brokers.

See `planted` for what they are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from lethe.controller.core import epoch_raise, power, preflight
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_power import Preflight
from tests.simulation.planting import everywhere


def epoch_never_raised() -> AbstractContextManager[object]:
    """Brokers that have seen a higher controller epoch refuse the controller, which stays active all the same."""
    return everywhere(epoch_raise.consider, lambda step, version: None)


def control_taken_unseen() -> AbstractContextManager[object]:
    """A controller takes control without asking whether any broker obeys it."""
    return everywhere(preflight.begin, _unseen)


@contextmanager
def powerless_for_ever() -> Iterator[None]:
    """A controller that every broker refuses takes control and never gives it back."""
    with everywhere(preflight.begin, _unseen), everywhere(power.check, lambda step: None):
        yield


def _unseen(step: StepContext, task: Preflight) -> None:
    step.do(task.then)
