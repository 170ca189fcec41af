"""Invariants that are checked while a controller runs: after which steps, and what a violation says."""

import pytest

from lethe.controller.core.context import Context
from lethe.controller.core.effects import Effect
from lethe.controller.core.events import BrokersChanged, Event
from lethe.controller.runtime.invariant_checks import REST, InvariantViolated, checked
from lethe.protocol.vocabulary import LeaderAndIsr
from tests.unit.controller.core.stage import EPOCH, add_topic, leading


class Clock:
    """Each look at it takes a tenth of a second."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        self.now_s += 0.1
        return self.now_s


def nothing(_context: Context, _event: Event, _now_ms: int) -> list[Effect]:
    return []


def miscount(context: Context, _event: Event, _now_ms: int) -> list[Effect]:
    context.cluster.offline_partitions += 1
    return []


def test_a_violation_raises_and_names_the_event_and_the_counts() -> None:
    with pytest.raises(InvariantViolated, match="after BrokersChanged: offline partitions: 1 counted, there are 0"):
        checked(miscount)(leading(1, 2), BrokersChanged(), 0)


def test_a_sound_memory_passes() -> None:
    context = leading(1, 2)
    add_topic(context, "t", [(1, 2)], led=True)
    assert checked(nothing)(context, BrokersChanged(), 0) == []


def test_what_others_wrote_into_zookeeper_is_no_violation() -> None:
    context = leading(1, 2)
    add_topic(context, "t", [(1, 2)], led=True)
    context.cluster.topics["t"].partitions[0].leader_and_isr = LeaderAndIsr(1, 0, (2, 9), EPOCH)
    assert checked(nothing)(context, BrokersChanged(), 0) == []


def test_after_a_check_steps_go_unchecked_for_twenty_times_as_long() -> None:
    context, clock = leading(1, 2), Clock()
    step = checked(nothing, clock)
    step(context, BrokersChanged(), 0)
    context.cluster.offline_partitions = 1
    step(context, BrokersChanged(), 0)
    clock.now_s += 0.1 * REST
    with pytest.raises(InvariantViolated):
        step(context, BrokersChanged(), 0)
