"""Which results a step takes in: the one that is outstanding, and no other."""

import pytest

from lethe.controller.core import controller
from lethe.controller.core.continuations import Awaited, AwaitedRead, AwaitedWrite, BrokersListed, EpochNodeCreated
from lethe.controller.core.events import ProbesCompleted, Result, ZnodesRead, ZnodesWritten
from tests.unit.controller.core.stage import leading

READ = AwaitedRead(7, BrokersListed(loading=False))
WRITE = AwaitedWrite(7, EpochNodeCreated())


@pytest.mark.parametrize(
    "awaited, result",
    [
        (READ, ZnodesWritten(7, ())),
        (READ, ProbesCompleted(7, ())),
        (WRITE, ZnodesRead(7, ())),
        (WRITE, ProbesCompleted(7, ())),
    ],
)
def test_a_result_of_another_kind_than_the_awaited_one_is_a_fault(awaited: Awaited, result: Result) -> None:
    context = leading(1)
    context.awaited = (awaited,)
    with pytest.raises(RuntimeError, match=f"{type(result).__name__} came as the result of {type(awaited).__name__}"):
        controller.step(context, result, 0)


def test_a_result_of_an_earlier_effect_is_dropped() -> None:
    context = leading(1)
    context.awaited = (READ,)
    assert controller.step(context, ZnodesRead(6, ()), 0) == []
    assert context.awaited == (READ,)
