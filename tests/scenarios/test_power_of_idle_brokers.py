"""Brokers that have seen a higher epoch while the controller had nothing to tell them.

Found by the simulator (seed 10963): all brokers would have refused the controller's epoch, and it spoke to one of them
only, whose debt was compared and refused again and again.
"""

from __future__ import annotations

import pytest

from lethe.controller.core import power
from lethe.controller.core.power import BrokerStanding
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster
from tests.scenarios.test_debts_paid import owing
from tests.scenarios.test_debts_written import debts
from tests.scenarios.test_pause import pause, resume
from tests.scenarios.test_power import Remembering, controller_refusals, epoch

IDLE_MS = 60_000
ASKED = "-> {} UpdateMetadata brokers 1,2,3"


def refused_by_one_it_speaks_to(seen: dict[int, int]) -> OneController:
    """Broker 3 has returned, and owes; all is quiet, since deletions are paused. Then brokers see these epochs, the
    pause ends, and broker 3 is the only one with something to do."""
    world = owing()
    pause(world)
    brokers = Remembering({})
    world.answer = brokers
    world.start_broker(3)
    world.run()
    world.advance(IDLE_MS)
    brokers.seen.update(seen)
    world.take_story()
    resume(world)
    return world


def try_again(world: OneController, times: int = 6) -> None:
    for _ in range(times):
        world.advance(world.context.config.retry_max_ms)


@pytest.mark.parametrize("gap", [1, 7])
def test_epoch_is_raised_when_the_brokers_that_were_not_spoken_to_refuse_it_too(gap: int) -> None:
    world = refused_by_one_it_speaks_to(dict.fromkeys((1, 2, 3), 1 + gap))
    assert ASKED.format("1,2") in world.take_story().splitlines()
    try_again(world)
    assert epoch(world) >= 1 + gap
    assert debts(world) == {}


def test_brokers_that_obey_are_asked_once_and_the_one_that_refuses_is_named() -> None:
    world = refused_by_one_it_speaks_to({3: 9})
    try_again(world)
    assert world.take_story().splitlines().count(ASKED.format("1,2")) == 1
    standings = {each.broker: each.standing for each in power.of_brokers(world.context, world.now_ms)}
    assert standings == {1: BrokerStanding.OBEYS, 2: BrokerStanding.OBEYS, 3: BrokerStanding.REFUSES_EPOCH}
    (problem,) = controller_refusals(world)
    assert problem.startswith("only 1 of 3 registered brokers refuse epoch 1 as stale: restart broker 3")
    assert epoch(world) == 1


def test_a_broker_that_owes_an_answer_is_not_asked_beside() -> None:
    world = cluster()
    world.create_topic("orders", (1, 2))
    world.run()
    brokers = Remembering({3: 9})
    world.advance(IDLE_MS)
    world.answer = lambda send: None if send.broker == 1 else brokers(send)
    world.take_story()
    world.mark("orders")
    world.run()
    assert "-> 1 UpdateMetadata brokers 1,2,3" not in world.take_story().splitlines()
