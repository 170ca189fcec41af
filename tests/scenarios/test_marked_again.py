"""Topics that are marked again after the controller removed their marker, and before it lists markers."""

from __future__ import annotations

import pytest

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData
from lethe.protocol.zookeeper.znodes import DeletionOrders, TrashPhase, encode_deletion_marker
from tests.fakes.one_controller import OneController, is_deletion
from tests.scenarios.plot import cluster, with_topic
from tests.scenarios.test_pause import resume
from tests.scenarios.test_trash import FREEZE_MS, entry, mark, phase_of
from tests.scenarios.test_undelete_marked import held, request


def marked_again(world: OneController, grace_ms: int) -> None:
    """Request the topic back; when that is granted, mark it again before the controller lists the markers."""
    was_granted = False

    def meanwhile(_: ReadZnodes | WriteZnodes) -> None:
        nonlocal was_granted
        is_answered = world.exists(paths.requests()) and not world.exists(paths.request("orders"))
        if is_answered and not was_granted:
            assert not world.exists(paths.delete_topic("orders"))
            was_granted = True
            world.write(Create(paths.delete_topic("orders"), marker(grace_ms)))

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


@pytest.mark.parametrize("first_ms, second_ms, is_kept", [(0, 60_000, True), (60_000, 0, False)])
def test_marker_after_a_refused_one_counts(first_ms: int, second_ms: int, *, is_kept: bool) -> None:
    """The configuration allows deletions just before the first marker is removed, as it is refused."""
    world = with_topic(cluster(), "orders", (1, 2))
    settings(world, "false")
    world.run()

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes):
            settings(world, "true")
        elif not world.exists(paths.delete_topic("orders")):
            world.meanwhile = lambda _: None
            world.write(Create(paths.delete_topic("orders"), marker(second_ms)))

    world.write(Create(paths.delete_topic("orders"), marker(first_ms)))
    world.meanwhile = meanwhile
    world.run()
    world.advance(FREEZE_MS)
    assert phase_of(world) is (TrashPhase.TRASHED if is_kept else None)
    assert not world.exists(paths.topic("orders"))
    assert any(is_deletion(send) for send in world.sent) is not is_kept


def marker(grace_ms: int) -> bytes | None:
    return encode_deletion_marker(DeletionOrders(grace_ms=grace_ms))


def settings(world: OneController, delete_topic_enable: str) -> None:
    """Write the brokers' configuration and its notification; the controller reads it later."""
    path, data = paths.config_broker_default(), znodes.encode_config({"delete.topic.enable": delete_topic_enable})
    write = SetData(path, data, ANY_VERSION) if world.exists(path) else Create(path, data)
    change = znodes.encode_config_change(znodes.ConfigChange("brokers/<default>"))
    world.write(write, Create(paths.config_change(), change, sequential=True))
