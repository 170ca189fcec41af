"""Topics that came back and are marked again, before the controller lists the markers: the new marker counts."""

from __future__ import annotations

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.znodes import DeletionOrders, TrashPhase, encode_deletion_marker
from tests.fakes.one_controller import OneController, is_deletion
from tests.scenarios.plot import cluster, with_topic
from tests.scenarios.test_pause import resume
from tests.scenarios.test_trash import FREEZE_MS, entry, mark, phase_of
from tests.scenarios.test_undelete_marked import held, request


def marked_again(world: OneController, grace_ms: int) -> None:
    """Request the topic back; when that is granted, mark it again before the controller lists the markers."""
    orders = encode_deletion_marker(DeletionOrders(grace_ms=grace_ms))
    was_granted = False

    def meanwhile(_: ReadZnodes | WriteZnodes) -> None:
        nonlocal was_granted
        is_answered = world.exists(paths.requests()) and not world.exists(paths.request("orders"))
        if is_answered and not was_granted:
            assert not world.exists(paths.delete_topic("orders"))
            was_granted = True
            world.write(Create(paths.delete_topic("orders"), orders))

    world.meanwhile = meanwhile
    request(world, "orders")
    assert was_granted


def test_grace_period_of_the_new_marker_counts() -> None:
    """Found by `make explore`: the topic was destroyed at once, as its first marker had ordered."""
    world = held(cluster())
    marked_again(world, 60_000)
    resume(world)
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.TRASHED
    assert not any(is_deletion(send) for send in world.sent)


def test_topic_is_deleted_at_once_if_the_new_marker_orders_that() -> None:
    """Found by `make explore`: the topic went into the trash, as its first marker had ordered."""
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    assert phase_of(world) is TrashPhase.FREEZING
    marked_again(world, 0)
    assert phase_of(world) is None
    assert not world.exists(paths.topic("orders"))
    assert any(is_deletion(send) for send in world.sent)


def test_new_marker_that_orders_the_trash_as_well_begins_anew() -> None:
    """Its grace period is in the entry, and so are the settings that the topic had at first."""
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    marked_again(world, 600_000)
    assert phase_of(world) is TrashPhase.FREEZING
    world.advance(FREEZE_MS)
    found = entry(world)
    assert found is not None
    assert (found.phase, found.grace_ms, found.config) == (TrashPhase.TRASHED, 600_000, {})
