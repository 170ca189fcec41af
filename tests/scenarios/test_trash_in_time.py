"""Requests that come before the end of the grace period, which is over before brokers have answered.

Found by `make explore`: a broker died while it was asked for its directories. The timer that ended the wait also found
the grace period over, and deleted the topic before it was brought back.
"""

from __future__ import annotations

import pytest

from lethe.controller.core.effects import ReadZnodes, Send, WriteZnodes
from lethe.controller.core.events import Answer, LogDirsDescribed, OffsetsRead
from lethe.controller.core.trash_out import LOOK_MS
from lethe.protocol.kafka.queries import DescribeLogDirsResponse, LogDir
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.znodes import DeletionOrders, TrashPhase, encode_deletion_marker
from tests.fakes.consumer_groups import SlowGroups
from tests.fakes.one_controller import OneController, consent
from tests.scenarios.plot import cluster, led, with_topic
from tests.scenarios.test_trash import FREEZE_MS, entry, mark, phase_of, trashed
from tests.scenarios.test_undelete_marked import refused, request

GRACE_MS = 5_000


class Silent:
    """Broker 2 says nothing of its directories; broker 1 has the topic, or an empty disk."""

    def __init__(self, *, has_topic: bool) -> None:
        self._has_topic = has_topic

    def __call__(self, send: Send) -> Answer | None:
        answer = consent(send)
        if not isinstance(answer, LogDirsDescribed):
            return answer
        if send.broker == 2:
            return None
        return (
            answer if self._has_topic else LogDirsDescribed(*send[:3], DescribeLogDirsResponse((LogDir(0, "/a", ()),)))
        )


def asked(*, has_topic: bool = True) -> OneController:
    """The topic is in the trash, and requested back; its grace period ends before the wait for broker 2."""
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders", grace_ms=GRACE_MS)
    world.advance(FREEZE_MS)
    world.answer = Silent(has_topic=has_topic)
    request(world, "orders")
    world.advance(GRACE_MS)
    assert phase_of(world) is not None
    return world


@pytest.mark.parametrize("dies", [False, True])
def test_topic_comes_back_although_its_grace_period_has_ended_meanwhile(dies: bool) -> None:
    world = asked()
    if dies:
        world.stop_broker(2)
        world.run()
    world.advance(LOOK_MS)
    assert led(world, "orders") == (1, 1, (1,))
    assert not world.exists(paths.delete_topic("orders"))
    assert refused(world, "orders") is None
    assert not world.exists(paths.request("orders"))


def test_topic_that_cannot_come_back_whole_is_deleted_when_its_grace_period_has_ended() -> None:
    world = asked(has_topic=False)
    world.advance(LOOK_MS)
    why = refused(world, "orders")
    assert why is not None
    assert why.startswith("partition 0 is not on the disks")
    world.answer = consent
    world.advance(60_000)
    assert phase_of(world) is None
    assert not world.exists(paths.topic("orders"))


def test_offsets_that_were_asked_for_before_a_return_do_not_end_the_next_wait_for_brokers() -> None:
    """The answer of a slow coordinator took the topic out of service before brokers knew that its retention is off.

    Found by the simulator (seed 80042)."""
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (1,))
    with_topic(world, "orders", (1, 2))
    before, slow = world.groups, SlowGroups()
    world.groups = slow
    mark(world, "orders")
    world.advance(FREEZE_MS)
    request(world, "orders")
    assert phase_of(world) is None
    world.groups = before
    mark(world, "orders")
    world.feed(OffsetsRead(slow.asked[0], {}))
    world.run()
    assert phase_of(world) is TrashPhase.FREEZING
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.TRASHED


def test_only_the_answer_to_the_last_question_counts() -> None:
    """The topic's settings were changed between the two, and offsets may have been committed."""
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (1,))
    with_topic(world, "orders", (1, 2))
    slow = world.groups = SlowGroups()
    mark(world, "orders")
    world.advance(FREEZE_MS)
    request(world, "orders")
    mark(world, "orders")
    world.advance(FREEZE_MS)
    first, second = slow.asked
    world.feed(OffsetsRead(first, {}))
    world.run()
    assert phase_of(world) is TrashPhase.FREEZING
    world.feed(OffsetsRead(second, {}))
    world.run()
    assert phase_of(world) is TrashPhase.TRASHED


def test_marker_of_another_topic_of_the_name_orders_nothing_of_the_one_that_comes_back() -> None:
    """Somebody had made, marked and removed another topic; the controller had not listed the markers since.

    Found by the simulator (seed 532825)."""
    world = trashed()
    world.context.cluster.marker_times["orders"] = world.now_ms
    world.context.cluster.marker_orders["orders"] = DeletionOrders(grace_ms=2 * GRACE_MS)

    def mark_again(effect: ReadZnodes | WriteZnodes) -> None:
        creates = effect.groups[0] if isinstance(effect, WriteZnodes) and effect.groups else ()
        if paths.topic("orders") in [operation.path for operation in creates]:
            world.meanwhile = lambda _: None
            marker = encode_deletion_marker(DeletionOrders(grace_ms=GRACE_MS))
            world.write(Create(paths.delete_topic("orders"), marker))

    world.meanwhile = mark_again
    request(world, "orders")
    world.advance(FREEZE_MS)
    found = entry(world)
    assert found is not None
    assert (found.phase, found.grace_ms) == (TrashPhase.TRASHED, GRACE_MS)
