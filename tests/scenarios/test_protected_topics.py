"""Protected topics: whoever marks them, they stay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core.deletion_memory import PROTECTED
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.protocol.zookeeper.znodes import (
    ConfigChange,
    DeletionOrders,
    encode_config,
    encode_config_change,
    encode_deletion_marker,
)
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import causes, cluster, is_gone, led, refusals, with_topic
from tests.scenarios.test_pause import pause, resume

EVERYWHERE = f"brokers/{paths.DEFAULT_ENTITY}"


def protecting(*patterns: str) -> OneController:
    """A cluster whose controller has these patterns in its file."""
    world = OneController()
    world.context.config = replace(world.context.config, protected_topics=patterns)
    return with_topic(with_topic(cluster(world=world), "orders", (1, 2)), "bills", (2, 3))


def protect(world: OneController, patterns: str | None, data: bytes | None = None) -> None:
    """Write the patterns into ZooKeeper, as Kafka's tools do; None removes them. `data`: write this instead."""
    path = paths.config_broker_default()
    if world.exists(path):
        world.write(Delete(path))
    if patterns is not None or data is not None:
        world.write(Create(path, data or encode_config({"lethe.protected.topics": patterns or ""})))
    world.write(Create(paths.config_change(), encode_config_change(ConfigChange(EVERYWHERE)), sequential=True))
    world.run()


def mark(world: OneController, *names: str) -> None:
    for name in names:
        world.mark(name)
    world.run()


def stays(world: OneController, name: str) -> bool:
    """The topic is there, in service, and not marked."""
    return not world.exists(paths.delete_topic(name)) and (led(world, name) or (-1,))[0] >= 0


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_an_internal_topic_is_protected_without_a_pattern(name: str) -> None:
    world = with_topic(cluster(), name, (1, 2))
    mark(world, name)
    assert stays(world, name)
    assert refusals(world, f"topic/{name}") == [PROTECTED]


def test_a_marker_of_a_protected_topic_is_removed_and_other_topics_are_deleted() -> None:
    world = protecting("ord*")
    mark(world, "orders", "bills")
    assert stays(world, "orders")
    assert is_gone(world, "bills")
    refused = world.context.refused_marks["orders"]
    assert (refused.why, refused.cause, refused.detail) == (PROTECTED, CauseKind.PROTECTED, "ord*")
    phases = [f.data["phase"] for f in world.recorded(EventRecordType.DELETION_PHASE) if f.subject == "topic/orders"]
    assert phases == []


def test_the_patterns_in_zookeeper_replace_those_in_the_file() -> None:
    world = protecting("orders")
    protect(world, "bills")
    mark(world, "orders", "bills")
    assert is_gone(world, "orders")
    assert stays(world, "bills")
    protect(world, None)
    with_topic(world, "orders", (1, 2))
    mark(world, "orders", "bills")
    assert stays(world, "orders")
    assert is_gone(world, "bills")


def test_a_marker_without_a_topic_is_removed_as_any_other() -> None:
    world = protecting("ghost")
    mark(world, "ghost")
    assert not world.exists(paths.delete_topic("ghost"))
    assert refusals(world, "topic/ghost") == ["there is no such topic; its marker is removed"]


def test_a_marker_is_refused_at_the_takeover_and_during_a_pause() -> None:
    world = protecting("orders")
    world.crash()
    mark(world, "orders")
    world.elect()
    assert stays(world, "orders")
    pause(world)
    mark(world, "orders", "bills")
    assert stays(world, "orders")
    assert causes(world, "bills") == [(None, None, "RESUMPTION")]
    resume(world)
    assert is_gone(world, "bills")


def test_the_order_to_delete_an_unreadable_topic_is_refused() -> None:
    world = protecting("torn")
    world.write(Create(paths.topic("torn"), b"{"))
    data = encode_deletion_marker(DeletionOrders(unreadable=True))
    world.write(Create(paths.delete_topic("torn"), data))
    world.run()
    assert not world.exists(paths.delete_topic("torn"))
    assert world.exists(paths.topic("torn"))


@pytest.mark.parametrize("data", [b"{", encode_config({"lethe.protected.topics": "orders; bills"})])
def test_topics_are_held_while_the_patterns_cannot_be_read(data: bytes) -> None:
    world = with_topic(protecting(), "__consumer_offsets", (1, 2))
    world.crash()
    protect(world, None, data)
    mark(world, "orders", "bills", "__consumer_offsets")
    world.elect()
    assert causes(world, "orders") == causes(world, "bills") == [(None, None, "CONFIGURATION")]
    assert stays(world, "__consumer_offsets")
    protect(world, "orders")
    assert stays(world, "orders")
    assert is_gone(world, "bills")


@pytest.mark.parametrize("is_enabled", [True, False])
def test_markers_are_refused_when_the_configuration_is_known_though_the_pause_lasts(is_enabled: bool) -> None:
    """The controller's file says what is refused, so that the same is in force before and afterwards."""
    world = protecting("orders")
    world.context.config = replace(world.context.config, delete_topic_enable=is_enabled)
    world.crash()
    pause(world)
    protect(world, None, b"{")
    mark(world, "orders", "bills")
    world.elect()
    assert causes(world, "orders") == causes(world, "bills") == [(None, None, "RESUMPTION")]
    protect(world, None)
    assert stays(world, "orders")
    assert world.exists(paths.delete_topic("bills")) is is_enabled
    resume(world)
    assert is_gone(world, "bills") is is_enabled


def test_patterns_that_were_known_stay_in_force_when_they_become_unreadable() -> None:
    world = protecting()
    protect(world, "orders")
    protect(world, "orders bills")
    mark(world, "orders", "bills")
    assert stays(world, "orders")
    assert is_gone(world, "bills")


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_deletion_that_had_begun_goes_on_under_the_next_controller_too(is_paused: bool) -> None:
    world = protecting()
    world.stop_broker(2)
    mark(world, "orders")
    protect(world, "orders")
    assert causes(world, "orders") == [(0, 2, "BROKER_TO_RETURN")]
    world.crash()
    if is_paused:
        pause(world)
    world.elect()
    assert world.context.cluster.is_queued("orders")
    if is_paused:
        resume(world)
    world.start_broker(2)
    world.run()
    assert is_gone(world, "orders")


def test_a_topic_whose_marker_does_not_say_that_its_deletion_had_begun_comes_back() -> None:
    """As with delete.topic.enable=false: only the controller that has begun knows of it."""
    world = protecting()
    world.stop_broker(2)
    mark(world, "orders")
    world.crash()
    protect(world, "orders")
    world.elect()
    assert stays(world, "orders")
