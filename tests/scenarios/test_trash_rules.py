"""What happens to a topic in the trash while others restart, die or lead: one test for each rule.

meanwhile                               rule
--------------------------------------  --------------------------------------------------------------------------
a broker restarts                       it hears nothing of the topic; its replicas come back with the topic
the controller dies, in any phase       the next one goes on (also `test_trash.test_next_controller_goes_on`)
the time is over while none is active   the next controller deletes the topic
Kafka's controller leads                freezing: it deletes the topic, as the marker orders
                                        trashed: it leaves the topic alone; directories that it removed with a
                                        later topic of the name are missed before the return (`test_trash`)
                                        restoring: the topic is in service; what it deletes then is gone
another topic of the name is marked     it waits, for its name; the journal and `/explain` say so
a disk fills                            `test_trash_disks`
"""

from __future__ import annotations

import pytest

from lethe.protocol.causes import HELD_BY, CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.group_offsets import CommittedOffset
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.protocol.zookeeper.znodes import TrashPhase
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import another_is_elected, causes, cluster, is_gone, led, with_topic
from tests.scenarios.test_trash import (
    DAY_MS,
    FREEZE_MS,
    entry,
    made_by_another,
    mark,
    phase_of,
    purge,
    settings,
    trashed,
    with_offsets_left,
)
from tests.scenarios.test_undelete_marked import request


def deleted_by_another(world: OneController, name: str = "orders") -> None:
    """Another controller removes every znode of the topic, as Kafka's does."""
    for path in (
        paths.partition_state(name, 0),
        paths.topic_partition(name, 0),
        paths.topic_partitions(name),
        paths.topic(name),
        paths.config_topic(name),
    ):
        world.write(Delete(path))
    if world.exists(paths.delete_topic(name)):
        world.write(Delete(paths.delete_topic(name)))


def test_broker_that_restarts_hears_nothing_of_a_topic_in_the_trash_and_has_it_again_later() -> None:
    world = trashed(with_topic(cluster(), "orders", (1, 2)))
    world.stop_broker(1)
    world.run()
    world.take_story()
    world.start_broker(1)
    world.run()
    assert "orders" not in world.take_story()
    request(world, "orders")
    assert led(world, "orders") == (1, 1, (1, 2))
    assert "-> 1,2 LeaderAndIsr: orders-0 leader 1 epoch 1 isr 1,2" in world.take_story()


def test_broker_that_restarts_while_a_topic_is_freezing_serves_it_until_it_is_in_the_trash() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    world.stop_broker(2)
    world.run()
    world.start_broker(2)
    world.run()
    assert "orders-0 leader 1" in world.take_story()
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.TRASHED


def test_next_controller_restores_offsets_that_are_left() -> None:
    world = with_offsets_left()
    world.crash()
    world.elect()
    assert phase_of(world) is TrashPhase.OFFSETS
    world.groups.with_members.clear()
    world.advance(30_000)
    assert world.groups.committed["orders"]["readers"] == {0: CommittedOffset(42)}
    assert entry(world) is None


@pytest.mark.parametrize("way", ["expired", "purged"])
def test_next_controller_ends_what_was_begun(way: str) -> None:
    world = trashed(with_topic(cluster(), "orders", (1, 2)))
    world.silent = {1: None}
    if way == "expired":
        world.advance(DAY_MS)
    else:
        purge(world)
    assert entry(world) is None
    assert causes(world, "orders") != []
    world.crash()
    world.silent = {}
    world.elect()
    assert is_gone(world, "orders")


def test_topic_whose_time_is_over_while_no_controller_is_active_is_deleted_by_the_next() -> None:
    world = trashed(with_topic(cluster(), "orders", (1, 2)))
    world.crash()
    world.now_ms += 2 * DAY_MS
    world.elect()
    world.advance(1)
    assert is_gone(world, "orders")


def test_other_controller_leaves_a_topic_in_the_trash_alone() -> None:
    world = trashed(with_topic(cluster(), "orders", (1, 2)))
    another_is_elected(world)
    world.run()
    world.advance(DAY_MS // 2)
    assert phase_of(world) is TrashPhase.TRASHED
    assert settings(world)["retention.ms"] == "-1"
    world.write(Delete(paths.controller()))
    world.run()
    request(world, "orders")
    assert led(world, "orders") == (1, 1, (1, 2))


@pytest.mark.parametrize("phase", [TrashPhase.FREEZING, TrashPhase.OFFSETS])
def test_topic_in_service_that_another_controller_deletes_leaves_nothing_behind(phase: TrashPhase) -> None:
    if phase is TrashPhase.FREEZING:
        world = with_topic(cluster(), "orders", (1, 2))
        mark(world, "orders")
    else:
        world = with_offsets_left()
    assert phase_of(world) is phase
    world.crash()
    deleted_by_another(world)
    world.elect()
    assert is_gone(world, "orders")
    with_topic(world, "orders", (2, 3))
    assert led(world, "orders") == (2, 0, (2, 3)), "the name is free"


def test_marked_topic_of_a_reserved_name_says_what_it_waits_for() -> None:
    world = trashed()
    made_by_another(world)
    world.write(Create(paths.delete_topic("orders"), None))
    world.run()
    assert causes(world, "orders") == [(None, None, "NAME_RESERVED")]
    assert world.context.cluster.quarantined_topics["orders"].cause is CauseKind.NAME_RESERVED
    held = [line.data["held_by"] for line in world.recorded(EventRecordType.DELETION_PHASE) if "held_by" in line.data]
    assert HELD_BY[str(held[-1])] is CauseKind.NAME_RESERVED
