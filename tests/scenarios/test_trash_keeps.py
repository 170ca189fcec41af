"""The trash keeps what was to be kept, and says of it only what has happened.

while                                              nothing is lost
-------------------------------------------------  -----------------------------------------------------------------
the topic's return waits                           a full disk does not get it
its znode cannot be read                           its entry stays, with settings and offsets, for when it is repaired
it is spared the end of its stay                   brokers that stayed up follow its next leader
its way in is called off, and that fails           its retention is switched on again later
its way in is barred for long                      its retention is switched on, and off for each further attempt
the rule that sent it there is gone by then        what holds for other marked topics holds for it
its entry cannot be read                           a broker's debt of an earlier deletion is not paid
"""

from __future__ import annotations

import pytest

from lethe.controller.core.effects import ReadZnodes, Send, WriteZnodes
from lethe.controller.core.events import Answer
from lethe.controller.core.trash_in import FROZEN_IN_VAIN_MS
from lethe.protocol.journal_trash import BACK, RESTORED, TRASHED
from lethe.protocol.kafka.group_offsets import CommittedOffset
from lethe.protocol.kafka.queries import DescribeLogDirsRequest
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Delete, SetData, ZkError
from lethe.protocol.zookeeper.znodes import TrashPhase, encode_config
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import OneController, is_deletion
from tests.scenarios.plot import causes, cluster, is_gone, led, refusals, with_topic
from tests.scenarios.test_debts_written import write_debt
from tests.scenarios.test_pause import pause, resume
from tests.scenarios.test_trash import (
    FREEZE_MS,
    entry,
    mark,
    phase_of,
    settings,
    told_of_trash,
    trashed,
    with_offsets_left,
)
from tests.scenarios.test_trash_by_default import configure
from tests.scenarios.test_trash_disks import MINUTE_MS, Disks, gave_way, left, trash, wait
from tests.scenarios.test_trash_settings import OWN, with_settings
from tests.scenarios.test_undelete_marked import request

SOON_MS = 5_000
"""Brokers are asked for their log directories so long after one has registered."""


def waiting_return(world: OneController, name: str) -> None:
    """The topic is requested back; its retention has to be switched off again, and brokers get their time."""
    world.write(Delete(paths.config_topic(name)))
    request(world, name)
    assert phase_of(world, name) is TrashPhase.TRASHED


def restart_broker(world: OneController, broker: int) -> None:
    world.stop_broker(broker)
    world.run()
    world.start_broker(broker)
    world.run()


def test_topic_whose_return_waits_does_not_give_way_to_a_full_disk() -> None:
    disks = Disks()
    world = trash(disks, a=(1, 2), b=(1, 2))
    restart_broker(world, 3)
    waiting_return(world, "a")
    disks.usable[1] = 50
    world.advance(SOON_MS)
    assert [each.subject for each in gave_way(world)] == ["topic/b"]
    world.advance(FREEZE_MS)
    assert led(world, "a") == (1, 1, (1, 2))


def test_topic_does_not_give_way_in_the_moment_in_which_its_request_is_read_again() -> None:
    disks = Disks()

    def third_is_silent(send: Send) -> Answer | None:
        is_asked = send.broker == 3 and isinstance(send.request, DescribeLogDirsRequest)
        return None if is_asked else disks(send)

    world = trash(disks, a=(1, 2), b=(3, 2))
    restart_broker(world, 2)
    world.answer = third_is_silent
    disks.usable[1] = 50
    world.advance(SOON_MS)
    waiting_return(world, "a")
    assert world.context.cluster.trash.disks.ends_at_ms == world.now_ms + FREEZE_MS, "both are due at once"
    world.advance(FREEZE_MS)
    assert gave_way(world) == []
    assert led(world, "a") == (1, 1, (1, 2))


def test_topic_whose_request_is_withdrawn_while_it_waits_gives_way() -> None:
    disks = Disks()
    world = trash(disks, a=(1, 2))
    waiting_return(world, "a")
    world.write(Delete(paths.request("a")))
    disks.usable[1] = 50
    wait(world, 2 * MINUTE_MS)
    assert left(world) == []


def test_full_disk_that_gets_nothing_is_not_told_of() -> None:
    disks = Disks()
    world = trash(disks, a=(1, 2))
    world.refusals[paths.delete_topic("a")] = ZkError.NO_AUTH
    disks.usable[1] = 50
    wait(world, 3 * MINUTE_MS)
    assert gave_way(world) == []
    assert left(world) == ["a"]
    world.refusals.clear()
    wait(world, 3 * MINUTE_MS)
    assert [each.data["usable_bytes"] for each in gave_way(world)] == [50]
    assert left(world) == []


def unreadable_at_takeover(world: OneController) -> bytes:
    """The next controller cannot read the topic's znode; return what was in it."""
    found = world.read(paths.topic("orders"))
    assert found is not None
    assert found.data is not None
    world.crash()
    world.write(SetData(paths.topic("orders"), b"?", ANY_VERSION))
    world.elect()
    world.advance(MINUTE_MS)
    return found.data


def test_offsets_of_a_topic_that_cannot_be_read_are_kept_until_it_is_repaired() -> None:
    world = with_offsets_left()
    before = unreadable_at_takeover(world)
    assert phase_of(world) is TrashPhase.OFFSETS
    world.groups.with_members.clear()
    world.groups.committed.clear()
    world.advance(MINUTE_MS)
    assert world.exists(paths.trashed_offsets("orders", 0))
    world.write(SetData(paths.topic("orders"), before, ANY_VERSION))
    world.run()
    world.advance(MINUTE_MS)
    assert world.groups.committed["orders"]["readers"] == {0: CommittedOffset(42)}
    assert entry(world) is None
    assert led(world, "orders") == (1, 1, (1, 2))


def test_settings_of_a_topic_that_cannot_be_read_are_kept_until_it_is_repaired() -> None:
    """It was on its way in, and is marked no more."""
    world = with_topic(cluster(), "orders", (1, 2))
    world.write(SetData(paths.config_topic("orders"), encode_config(OWN), ANY_VERSION))
    mark(world, "orders")
    world.write(Delete(paths.delete_topic("orders")))
    before = unreadable_at_takeover(world)
    assert phase_of(world) is TrashPhase.FREEZING
    world.write(SetData(paths.topic("orders"), before, ANY_VERSION))
    world.run()
    world.advance(MINUTE_MS)
    assert settings(world) == OWN
    assert entry(world) is None


def test_an_entry_that_a_new_controller_may_not_read_is_set_aside_with_the_remedy() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    world.crash()
    world.refusals[paths.trashed("orders")] = ZkError.NO_AUTH
    world.elect()
    world.run()
    assert world.context.cluster.trash.unreadable == {"orders": f"reading it failed with {NO_AUTH}"}


def test_settings_that_were_not_written_are_not_told_of() -> None:
    world = with_settings()

    def change(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and phase_of(world) is TrashPhase.RESTORING:
            world.meanwhile = lambda _: None
            world.write(SetData(paths.config_topic("orders"), encode_config({**OWN, "segment.ms": "9"}), ANY_VERSION))
            assert told_of_trash(world) == [TRASHED, BACK]

    world.meanwhile = change
    request(world, "orders")
    assert world.meanwhile is not change
    assert told_of_trash(world) == [TRASHED, BACK]
    world.advance(MINUTE_MS)
    assert told_of_trash(world) == [TRASHED, BACK, RESTORED]
    assert settings(world) == {**OWN, "segment.ms": "9"}


@pytest.mark.parametrize("is_removed", [True, False])
def test_way_in_that_was_called_off_is_undone_although_that_fails_at_first(is_removed: bool) -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    assert settings(world) != {}
    if is_removed:
        world.write(Delete(paths.trashed("orders")))
    else:
        world.refusals[paths.trashed("orders")] = ZkError.NO_AUTH
    world.unmark("orders")
    world.run()
    if not is_removed:
        assert refusals(world, "topic/orders") == [NO_AUTH]
        world.refusals.clear()
        world.advance(MINUTE_MS)
    assert settings(world) == {}
    assert entry(world) is None
    assert world.context.cluster.trash.topics == {}


def barred(rule: str | None = None) -> OneController:
    """Topic orders is marked for the trash, by its marker or by this rule, and offsets of groups cannot be read."""
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (1,))
    with_topic(world, "orders", (1, 2))
    world.write(SetData(paths.config_topic("orders"), encode_config(OWN), ANY_VERSION))
    world.groups.problem = "broker 1: CLUSTER_AUTHORIZATION_FAILED"
    if rule is None:
        mark(world, "orders")
    else:
        configure(world, rule)
        world.mark("orders")
        world.run()
    return world


def test_topic_that_cannot_get_into_the_trash_has_its_retention_most_of_the_time() -> None:
    world = barred()
    world.advance(FREEZE_MS)
    assert settings(world)["retention.ms"] == "-1", "it may be over in a moment"
    wait(world, FROZEN_IN_VAIN_MS + MINUTE_MS)
    assert settings(world) == OWN
    assert entry(world) is None
    assert causes(world, "orders") == [(None, None, "TRASH")]
    why = "offsets of consumer groups: broker 1: CLUSTER_AUTHORIZATION_FAILED"
    assert world.context.cluster.marks["orders"].last_error == why
    with_topic(world, "bills", (1, 2))
    world.mark("bills")
    world.run()
    assert settings(world) == OWN, "other markers are no reason to try again"
    off = 0
    for _ in range(360):
        wait(world, 10_000)
        off += settings(world) != OWN
    assert 0 < off < 120, "of an hour, it is off for less than twenty minutes, in ten-second looks"
    world.groups.problem = None
    wait(world, world.context.config.trash_again_ms + MINUTE_MS)
    assert phase_of(world) is TrashPhase.TRASHED


def test_topic_that_cannot_get_into_the_trash_and_is_unmarked_is_left_alone() -> None:
    world = barred()
    wait(world, FREEZE_MS + FROZEN_IN_VAIN_MS + MINUTE_MS)
    world.unmark("orders")
    world.run()
    world.take_story()
    wait(world, 2 * world.context.config.trash_again_ms)
    assert settings(world) == OWN
    assert entry(world) is None


def ordered_no_more() -> OneController:
    """Topic orders was to go into the trash by a rule, the rule is gone meanwhile, and it cannot get in."""
    world = barred("orders:24h")
    configure(world, None)
    world.advance(FREEZE_MS)
    assert settings(world)["retention.ms"] == "-1", "what held when its retention was switched off, holds"
    return world


def test_topic_that_nothing_orders_into_the_trash_any_more_is_deleted_when_it_cannot_get_in() -> None:
    world = ordered_no_more()
    wait(world, FROZEN_IN_VAIN_MS + MINUTE_MS)
    assert entry(world) is None
    assert is_gone(world, "orders")


def test_during_a_pause_it_waits_for_the_end_of_the_pause() -> None:
    """Seed 1002601: it was held for the trash, into which nothing ordered it."""
    world = ordered_no_more()
    pause(world)
    world.advance(FREEZE_MS)
    assert settings(world) == OWN
    assert causes(world, "orders") == [(None, None, "RESUMPTION")]
    resume(world)
    world.advance(FREEZE_MS)
    assert is_gone(world, "orders")


def test_topic_on_its_way_in_has_its_retention_during_a_pause() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    pause(world)
    world.advance(FREEZE_MS)
    assert settings(world) == {}
    assert entry(world) is None
    resume(world)
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.TRASHED


def test_debt_is_not_paid_while_the_trash_may_keep_what_it_is_about() -> None:
    """The broker compares ids, and that of the topic in the trash is the debt's."""
    world = with_topic(cluster(), "orders", (1, 2))
    topic = world.context.cluster.topics["orders"]
    trashed(world)
    world.stop_broker(2)
    world.run()
    world.crash()
    write_debt(world, 2, "orders", topic.created_zxid, topic.id)
    world.write(SetData(paths.trashed("orders"), b"?", ANY_VERSION))
    world.elect()
    world.take_sent()
    world.start_broker(2)
    world.run()
    world.advance(MINUTE_MS)
    assert not any(map(is_deletion, world.take_sent()))
