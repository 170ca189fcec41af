"""Listing topics and markers while topics are removed: seldom in a large cluster, at once where nothing is queued."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.removal import GROUPS_AT_ONCE
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, GetChildren
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, is_gone, led, with_topic

PAUSE_US = 500_000
SMALL_GROUPS = 6
SLICES = 6


def waiting_for_a_dead_broker(list_pause_us: int) -> OneController:
    """Brokers 1 and 2, a topic in service, and one whose only replica is on a dead broker, queued. Nothing was listed
    for a minute."""
    world = cluster(1, 2, 3, world=OneController(list_pause_us=list_pause_us))
    with_topic(world, "kept", (1, 2))
    with_topic(world, "stuck", (3,))
    world.stop_broker(3)
    world.run()
    world.mark("stuck")
    world.run()
    assert "stuck" in world.context.cluster.deletions
    world.advance(60_000)
    return world


def removed_beside_it(list_pause_us: int) -> OneController:
    """The same, and another topic was removed just now."""
    world = waiting_for_a_dead_broker(list_pause_us)
    with_topic(world, "first", (1, 2))
    world.mark("first")
    world.run()
    assert is_gone(world, "first")
    return world


def lists(world: OneController) -> Callable[[], list[str]]:
    """Return a reader of the paths whose children are listed from now on."""
    listed: list[str] = []

    def note(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes):
            listed.extend(read.path for read in effect.reads if isinstance(read, GetChildren))

    world.meanwhile = note
    return lambda: [path for path in listed if path in (paths.broker_topics(), paths.delete_topics())]


def test_after_a_removal_new_topics_are_listed_half_a_second_for_each_topic_after_the_last_list() -> None:
    world = removed_beside_it(PAUSE_US)
    world.create_topic("second", (2, 1))
    world.run()
    world.advance(900)
    assert "second" not in world.context.cluster.topics
    world.advance(600)
    assert led(world, "second") == (2, 0, (2, 1))


def test_a_marker_is_put_off_as_well() -> None:
    world = removed_beside_it(PAUSE_US)
    world.mark("kept")
    world.run()
    assert not is_gone(world, "kept")
    world.advance(1_500)
    assert is_gone(world, "kept")


def test_a_topic_that_only_waits_puts_no_list_off() -> None:
    world = waiting_for_a_dead_broker(PAUSE_US)
    for name in ("first", "second"):
        with_topic(world, name, (1, 2))
        assert led(world, name) == (1, 0, (1, 2))
    world.mark("second")
    world.run()
    assert is_gone(world, "second")
    assert "stuck" in world.context.cluster.deletions


@pytest.mark.parametrize("pause_us", [0, PAUSE_US])
def test_where_nothing_is_queued_each_change_is_listed_at_once(pause_us: int) -> None:
    world = cluster(1, 2, world=OneController(list_pause_us=pause_us))
    for name in ("first", "second"):
        with_topic(world, name, (1, 2))
        assert led(world, name) == (1, 0, (1, 2))


@pytest.mark.parametrize("pause_us, listed", [(0, 3), (PAUSE_US, 1)])
def test_outcomes_have_both_listed_or_only_the_last_one_where_they_follow_quickly(pause_us: int, listed: int) -> None:
    world = cluster(world=OneController(max_operations_per_group=SMALL_GROUPS, list_pause_us=pause_us))
    world.held = []
    names = [f"t{number}" for number in range(SLICES * GROUPS_AT_ONCE)]
    for name in names:
        world.create_topic(name, (1, 2))
    world.run()
    world.write(*(Create(paths.delete_topic(name), None) for name in names))
    world.run()
    seen = lists(world)
    while world.held:
        world.release(1)
    assert all(is_gone(world, name) for name in names)
    assert seen() == [paths.broker_topics(), paths.delete_topics()] * listed
