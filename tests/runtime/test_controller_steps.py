"""Long steps and Python's garbage collector."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pytest

from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context
from lethe.controller.core.effects import Effect
from lethe.controller.core.events import Event, TopicsChanged
from lethe.controller.runtime import steps
from lethe.controller.runtime.steps import MANY_PARTITIONS, Stepper
from lethe.protocol.kafka.versions import LATEST
from lethe.protocol.vocabulary import BrokerId


@pytest.fixture(autouse=True)
def frozen() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def large() -> Context:
    context = Context(CoreConfig(BrokerId(1001), LATEST))
    context.cluster.partitions_with_leader_and_isr = MANY_PARTITIONS
    return context


async def test_the_collector_pauses_during_a_long_step_and_goes_on_after_it() -> None:
    seen: list[bool] = []

    def step(_context: Context, _event: Event, now_ms: int) -> list[Effect]:
        seen.append(gc.isenabled())
        if now_ms:
            raise ValueError("a fault")
        return []

    stepper = Stepper(step)
    assert await stepper.step(large(), TopicsChanged(), 0) == []
    with pytest.raises(ValueError, match="a fault"):
        await stepper.step(large(), TopicsChanged(), 1)
    assert (seen, gc.isenabled()) == ([False, False], True)
    stepper.close()


async def test_what_a_step_of_some_length_makes_is_frozen_and_looked_at_when_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "FREEZE_AFTER_S", 0.02)

    class Ring:
        alive = 0

        def __init__(self) -> None:
            self.me = self
            Ring.alive += 1

        def __del__(self) -> None:
            Ring.alive -= 1

    def step(_context: Context, _event: Event, now_ms: int) -> list[Effect]:
        Ring()
        until_s = time.thread_time() + now_ms / 1000
        while time.thread_time() < until_s:
            pass
        return []

    stepper = Stepper(step)
    await stepper.step(large(), TopicsChanged(), 30)
    assert gc.get_freeze_count() > 0
    gc.collect()
    assert Ring.alive == 1
    stepper.tidy()
    assert Ring.alive == 0
    stepper.close()
