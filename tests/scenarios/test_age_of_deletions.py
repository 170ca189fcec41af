"""A deletion is as old as its marker, whoever leads, and never younger than nothing."""

from __future__ import annotations

import pytest

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.waiting import marked_since_ms, oldest
from lethe.controller.runtime.sources import oldest_view
from lethe.protocol.journal import EventRecordType
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Exists, ZkError
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, is_gone, with_topic

HOUR_MS = 3_600_000


def stuck() -> OneController:
    """`late` and then `early` are marked, and wait for broker 2; broker 1 answers."""
    world = with_topic(with_topic(cluster(), "early", (1, 2)), "late", (1, 2))
    world.stop_broker(2)
    world.run()
    return world


def marked_at(world: OneController, topic: str) -> list[int]:
    """What the journal says of it, one for each time it was queued or held."""
    return [
        int(str(record.data["marked_at_ms"]))
        for record in world.recorded(EventRecordType.DELETION_PHASE)
        if record.subject == f"topic/{topic}" and record.data["phase"] in ("queued", "held")
    ]


def test_a_failover_does_not_make_a_deletion_younger() -> None:
    world = stuck()
    marked_ms = world.now_ms
    world.mark("late")
    world.run()
    world.now_ms += HOUR_MS
    world.mark("early")
    world.run()
    world.now_ms += HOUR_MS
    world.crash()
    world.elect()
    world.run()
    assert world.context.cluster.deletions["late"].queued_at_ms == marked_ms + 2 * HOUR_MS
    assert marked_since_ms(world.context, "late") == marked_ms
    assert marked_since_ms(world.context, "early") == marked_ms + HOUR_MS
    found = oldest(world.context)
    assert found is not None
    assert (found.topic, found.marked_since_ms) == ("late", marked_ms), "the older one, not the first by name"
    view = oldest_view(world.context, world.now_ms)
    assert view is not None
    assert view.age_s == 2 * HOUR_MS / 1000
    assert marked_at(world, "late") == [marked_ms, marked_ms]


def test_a_topic_that_is_held_is_as_old_as_its_marker_too() -> None:
    world = stuck()
    marked_ms = world.now_ms
    world.mark("late")
    world.crash()
    world.now_ms += HOUR_MS
    world.write(Create(paths.lethe(), None))
    paused = znodes.encode_deletions_paused(znodes.DeletionsPaused(world.now_ms, "an audit"))
    world.write(Create(paths.deletions_paused(), paused))
    world.elect()
    world.run()
    assert list(world.context.cluster.marks) == ["late"]
    assert marked_since_ms(world.context, "late") == marked_ms
    found = oldest(world.context)
    assert found is not None
    assert found.marked_since_ms == marked_ms
    assert marked_at(world, "late") == [marked_ms]


@pytest.mark.parametrize("ahead_ms", [300_000, -300_000])
def test_an_age_is_never_negative_whatever_the_clock_of_zookeeper_says(ahead_ms: int) -> None:
    world = stuck()
    world.server_ahead_ms = ahead_ms
    world.mark("late")
    world.run()
    assert marked_since_ms(world.context, "late") == world.now_ms + min(ahead_ms, 0)
    view = oldest_view(world.context, world.now_ms - 5)
    assert view is not None
    assert view.age_s >= 0


@pytest.mark.parametrize("error", [ZkError.NO_AUTH, ZkError.OTHER])
def test_a_marker_whose_time_cannot_be_read_counts_from_when_it_was_seen(error: ZkError) -> None:
    world = stuck()
    world.now_ms += HOUR_MS
    world.refusals[paths.delete_topic("late")] = error
    world.mark("late")
    world.run()
    assert marked_since_ms(world.context, "late") == world.now_ms
    is_queued = "late" in world.context.cluster.deletions
    assert is_queued is (error is ZkError.NO_NODE), "a marker whose orders are not known holds the topic"


def test_a_marker_that_goes_before_it_is_dated_is_none_and_one_made_again_has_its_own_age() -> None:
    world = stuck()
    marker = paths.delete_topic("late")

    def unmark(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes) and Exists(marker) in effect.reads:
            world.meanwhile = lambda _: None
            world.unmark("late")

    world.meanwhile = unmark
    world.mark("late")
    world.run()
    assert marked_since_ms(world.context, "late") is None
    assert "late" not in world.context.cluster.deletions
    world.now_ms += HOUR_MS
    made_again_ms = world.now_ms
    world.mark("late")
    world.run()
    assert marked_since_ms(world.context, "late") == made_again_ms


def test_each_marker_is_dated_once_and_all_new_ones_together() -> None:
    world = stuck()
    for number in range(20):
        world.create_topic(f"more-{number}", (2,))
    world.run()
    asked: list[list[str]] = []

    def note(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes):
            markers = [r.path for r in effect.reads if isinstance(r, Exists) and paths.deleted_topic_of(r.path)]
            asked.extend([markers] if markers else [])

    world.meanwhile = note
    for number in range(20):
        world.mark(f"more-{number}")
    world.run()
    world.mark("late")
    world.run()
    assert sorted(map(len, asked)) == [1, 20]


def test_a_time_is_forgotten_with_its_marker() -> None:
    world = stuck()
    world.write(Create(paths.lethe(), None))
    world.write(Create(paths.deletions_paused(), b""))
    world.run()
    world.mark("late")
    world.run()
    assert list(world.context.cluster.marker_times) == ["late"]
    world.unmark("late")
    world.run()
    assert world.context.cluster.marker_times == {}
    world.now_ms += HOUR_MS
    world.mark("late")
    world.run()
    assert marked_since_ms(world.context, "late") == world.now_ms


def test_what_is_gone_leaves_no_time_behind() -> None:
    world = with_topic(cluster(), "quick", (1, 2))
    world.mark("quick")
    world.mark("unknown")
    world.run()
    assert is_gone(world, "quick")
    assert world.context.cluster.marker_times == {}
