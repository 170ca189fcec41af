"""Multis of several plans pass one gate: in turn, never more than the window allows, also where one is cancelled."""

import asyncio
import time

import pytest

from lethe.adapters.zookeeper.write_gate import FreeTime, Pass, WriteGate
from lethe.adapters.zookeeper.write_window import WriteWindow

NEVER_SLOW_MS = 1e9
ALWAYS_SLOW_MS = -1.0
BUSY_S = 0.3
LIMIT_S = 60.0


def gate_of(most: int, target_ms: float = NEVER_SLOW_MS) -> WriteGate:
    return WriteGate(WriteWindow(most, target_ms))


async def entering(gate: WriteGate) -> asyncio.Task[Pass]:
    """A task that has asked to enter, and has gone as far as it can."""
    task = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    return task


async def test_those_who_wait_enter_in_the_order_in_which_they_asked() -> None:
    gate = gate_of(2)
    inside = [await gate.enter(), await gate.enter()]
    third, fourth = await entering(gate), await entering(gate)
    assert not third.done()
    gate.leave(inside[0], is_answered=True)
    # The room belongs to the third already: who asks now stands behind the fourth.
    fifth = await entering(gate)
    assert (await third).number == 3
    assert not fourth.done()
    gate.leave(inside[1], is_answered=True)
    assert (await fourth).number == 4
    assert not fifth.done()
    gate.leave(await third, is_answered=False)
    assert (await fifth).number == 5


async def test_a_window_that_closes_lets_nobody_in_until_it_is_below_its_size() -> None:
    gate = gate_of(4, ALWAYS_SLOW_MS)
    inside = [await gate.enter() for _ in range(4)]
    next_one = await entering(gate)
    gate.leave(inside[0], is_answered=True)
    gate.leave(inside[1], is_answered=False)
    await asyncio.sleep(0)
    assert (gate.window.size, gate.window.unanswered, next_one.done()) == (2, 2, False)
    gate.leave(inside[2], is_answered=False)
    assert (await next_one).number == 5


async def test_a_window_that_opens_lets_two_in() -> None:
    gate = gate_of(2)
    gate.window.size = 1
    first = await gate.enter()
    waiting = [await entering(gate) for _ in range(3)]
    gate.leave(first, is_answered=True)
    await asyncio.sleep(0)
    assert [each.done() for each in waiting] == [True, True, False]
    waiting[2].cancel()


@pytest.mark.parametrize("there_is_room", ["before", "before it notices", "after"])
async def test_who_is_cancelled_takes_no_room(there_is_room: str) -> None:
    gate = gate_of(1)
    inside = await gate.enter()
    cancelled, behind = await entering(gate), await entering(gate)
    if there_is_room == "before":
        gate.leave(inside, is_answered=True)
    cancelled.cancel()
    if there_is_room == "before it notices":
        gate.leave(inside, is_answered=True)
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    if there_is_room == "after":
        gate.leave(inside, is_answered=True)
    await asyncio.wait_for(behind, LIMIT_S)
    assert gate.window.unanswered == 1


def occupy_the_loop() -> None:
    ends = time.monotonic() + BUSY_S
    while time.monotonic() < ends:
        pass


async def until_passed(seconds: float) -> None:
    """Leaves the loop free for so long."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        await asyncio.sleep(0.005)


async def test_free_time_is_what_passes_while_the_loop_is_not_busy() -> None:
    clock = FreeTime()
    clock.start()
    began_s = clock.now_s
    occupy_the_loop()
    # Read before the timer has fired, and after it.
    assert clock.now_s - began_s < BUSY_S / 2
    await until_passed(0.05)
    assert clock.now_s - began_s < BUSY_S / 2 + 0.05
    began_s = clock.now_s
    await until_passed(0.1)
    assert clock.now_s - began_s > 0.02
    clock.stop()
    clock.stop()


async def test_an_answer_that_waits_for_a_busy_loop_is_not_slow() -> None:
    gate = gate_of(4, BUSY_S * 1000 / 2)
    entered = await gate.enter()
    occupy_the_loop()
    await asyncio.sleep(0)
    gate.leave(entered, is_answered=True)
    assert (gate.window.size, gate.window.closed) == (4, 0)
