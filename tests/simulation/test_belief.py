"""What S8 compares while lists of topics and markers are put off, and when they are not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.simulation.belief import s8_memory_equals_znodes
from tests.simulation.cluster import Cluster
from tests.simulation.controllers import ControllerProcess
from tests.simulation.ledger import Incarnation
from tests.simulation.mix import draw, without_faults
from tests.simulation.world import Violation, World

LIMIT_MS, MAX_EVENTS = 60_000, 10_000


@pytest.fixture
def active() -> tuple[Cluster, ControllerProcess]:
    """A cluster of one agent and its controller, which is idle."""
    world = World(1, traced=False)
    cluster = Cluster(world, replace(without_faults(draw(Random(1))), agents=1, controllers=1))
    for agent in cluster.agents.values():
        agent.start()
    for each in cluster.controllers:
        each.start()
    world.run_until_quiet(LIMIT_MS, MAX_EVENTS)
    controller = cluster.controllers[0]
    s8_memory_equals_znodes(cluster, controller)
    controller.judged_at = (0, 0)
    return cluster, controller


def test_topics_are_compared_unless_their_list_is_put_off(active: tuple[Cluster, ControllerProcess]) -> None:
    cluster, controller = active
    cluster.ledger.living["t9"] = Incarnation("t9", 1)
    controller.context.cluster.removals.look_again = True
    s8_memory_equals_znodes(cluster, controller)
    controller.context.cluster.removals.look_again, controller.judged_at = False, (0, 0)
    with pytest.raises(Violation, match="unreadable are"):
        s8_memory_equals_znodes(cluster, controller)


def test_brokers_are_compared_even_then(active: tuple[Cluster, ControllerProcess]) -> None:
    cluster, controller = active
    controller.context.cluster.brokers.clear()
    controller.context.cluster.removals.look_again = True
    with pytest.raises(Violation, match="knows the brokers"):
        s8_memory_equals_znodes(cluster, controller)
