"""Topics that leave the trash to be deleted: nobody serves them on the way, whoever is the controller.

the topic's time is over, and                      it
-------------------------------------------------  -----------------------------------------------------------------
deletions have a pace                              stays in the trash until its turn; a request brings it back
the controller dies when it has left               is deleted by the next one, whatever holds other marked topics
deletion is disabled by then                       is in service again, and brokers that stayed up follow its leader
its name is used again                             has nothing to do with the new topic
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.events import DeletionsPauseChanged
from lethe.controller.core.pace_memory import PaceLimits
from lethe.controller.core.preferred import FIRST_REBALANCE_MS
from lethe.protocol.kafka.admin import DeletableTopic, DeleteTopicsRequest, DeleteTopicsResponse
from lethe.protocol.kafka.control import LeaderAndIsrRequest
from lethe.protocol.vocabulary import LEADER_NONE
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.protocol.zookeeper.znodes import RequestedAction, TopicRequest, TrashPhase, encode_topic_request
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import causes, cluster, is_gone, led, refusals, with_topic
from tests.scenarios.test_pause import pause, resume
from tests.scenarios.test_trash import (
    DAY_MS,
    FREEZE_MS,
    dies_as_it_leaves,
    made_by_another,
    phase_of,
    purge,
    state_written,
    trashed,
)
from tests.scenarios.test_undelete_marked import request

ONE_A_SECOND = PaceLimits(1_000, 0)


def paced(world: OneController, *, turn_taken: bool = True) -> OneController:
    """The world, which deletes one topic in a second and has just deleted one."""
    world.context.config = replace(world.context.config, pace=ONE_A_SECOND)
    if turn_taken:
        with_topic(world, "bills", (1, 2))
        world.mark("bills")
        world.run()
        assert is_gone(world, "bills")
    return world


def leaders_told(world: OneController) -> list[int]:
    """The leaders that brokers were told of topic orders since they were last looked at."""
    told = [send.request for send in world.take_sent() if isinstance(send.request, LeaderAndIsrRequest)]
    rows = (row for each in told for topic in each.topics if topic.topic == "orders" for row in topic.partitions)
    return [row.leader for row in rows if row.leader != LEADER_NONE]


# --- the pace -----------------------------------------------------------------------------------------------------


def test_topics_whose_time_is_over_stay_in_the_trash_until_their_turn() -> None:
    world = with_topic(with_topic(with_topic(cluster(), "orders", (1, 2)), "clicks", (1, 2)), "visits", (2, 3))
    trashed(world, "orders", "clicks", "visits")
    paced(world, turn_taken=False)
    world.take_sent()
    world.advance(DAY_MS)
    left = [name for name in ("orders", "clicks", "visits") if phase_of(world, name) is TrashPhase.TRASHED]
    assert left == ["orders", "visits"]
    assert is_gone(world, "clicks")
    request(world, "visits")
    assert led(world, "visits") is not None, "it is whole until it leaves"
    world.advance(1_000)
    assert is_gone(world, "orders")
    assert leaders_told(world) == []


def test_topic_that_is_to_be_purged_waits_for_its_turn_and_a_request_brings_it_back() -> None:
    world = paced(trashed(with_topic(with_topic(cluster(), "orders", (1, 2)), "clicks", (1, 2)), "orders", "clicks"))
    for name in ("orders", "clicks"):
        purge(world, name)
        assert phase_of(world, name) is TrashPhase.TRASHED
        assert world.exists(paths.request(name)), "the request stands until it is carried out"
    world.write(Delete(paths.request("orders")))
    request(world, "orders")
    assert led(world, "orders") is not None
    world.advance(1_000)
    assert is_gone(world, "clicks")
    assert not world.exists(paths.request("clicks"))


def test_request_that_is_withdrawn_before_its_turn_ends_nothing() -> None:
    world = paced(trashed())
    purge(world)
    world.write(Delete(paths.request("orders")))
    world.run()
    assert world.context.cluster.trash.topics["orders"].problem is None, "it waits for no turn any more"
    world.advance(60_000)
    assert phase_of(world) is TrashPhase.TRASHED


def test_marked_topics_go_first() -> None:
    world = paced(trashed())
    for name in ("a", "b"):
        with_topic(world, name, (1, 2))
    world.mark("a")
    world.mark("b")
    world.run()
    purge(world)
    world.advance(1_000)
    assert (is_gone(world, "a"), is_gone(world, "b"), phase_of(world)) == (True, False, TrashPhase.TRASHED)
    world.advance(1_000)
    assert (is_gone(world, "b"), phase_of(world)) == (True, TrashPhase.TRASHED)
    world.advance(1_000)
    assert is_gone(world, "orders")


def test_topic_that_cannot_leave_pays_once_and_stands_in_nobodys_way() -> None:
    """Another topic has the name of the first: its end is refused as long as it has."""
    world = trashed(with_topic(with_topic(cluster(), "orders", (1, 2)), "visits", (2, 3)), "orders", "visits")
    paced(world, turn_taken=False)
    made_by_another(world)
    world.run()
    world.advance(DAY_MS)
    assert is_gone(world, "visits")
    for name in ("a", "b", "c"):
        with_topic(world, name, (1, 2))
        world.mark(name)
        world.run()
        world.advance(1_000)
        assert is_gone(world, name)
    world.advance(60_000)
    assert phase_of(world) is TrashPhase.TRASHED


def test_limits_that_are_raised_hold_at_once_for_what_waits_in_the_trash() -> None:
    world = paced(trashed())
    world.context.config = replace(world.context.config, pace=PaceLimits(1, 0))
    purge(world)
    world.advance(2_000)
    assert phase_of(world) is TrashPhase.TRASHED, "a topic in a thousand seconds"
    world.context.config = replace(world.context.config, pace=PaceLimits())
    world.advance(1_000)
    assert is_gone(world, "orders")


def test_it_says_that_it_waits_for_its_turn() -> None:
    world = paced(trashed())
    purge(world)
    found = world.context.cluster.trash.topics["orders"]
    assert found.problem is not None
    assert found.problem.what.startswith("waits for its turn")
    assert refusals(world, "topic/orders") == []


def test_request_to_bring_it_back_is_not_taken_for_the_one_that_it_has_replaced() -> None:
    """Both have the same version. The turn comes before the controller has read the new one."""
    world = paced(trashed())
    purge(world)
    path = paths.request("orders")
    world.write(Delete(path), Create(path, encode_topic_request(TopicRequest(RequestedAction.UNDELETE))))
    world.advance(1_000)
    assert led(world, "orders") is not None
    assert not world.exists(path)


# --- the next controller ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn_taken", [False, True])
def test_next_controller_deletes_it_although_deletions_have_a_pace(turn_taken: bool) -> None:
    world = trashed(with_topic(cluster(world=OneController(auto_leader_rebalance_enable=True)), "orders", (1, 2)))
    dies_as_it_leaves(world)
    world.context.config = replace(world.context.config, pace=ONE_A_SECOND)
    if turn_taken:
        with_topic(world, "bills", (1, 2))
        world.mark("bills")
    world.take_sent()
    world.elect()
    world.advance(FIRST_REBALANCE_MS)
    assert is_gone(world, "orders")
    assert leaders_told(world) == []


def test_during_a_pause_nobody_serves_it() -> None:
    world = trashed(with_topic(cluster(world=OneController(auto_leader_rebalance_enable=True)), "orders", (1, 2)))
    dies_as_it_leaves(world)
    pause(world)
    world.take_sent()
    world.elect()
    world.feed(DeletionsPauseChanged())
    world.stop_broker(3)
    world.run()
    world.advance(FIRST_REBALANCE_MS)
    assert leaders_told(world) == []
    assert {cause for _, _, cause in causes(world, "orders")} == {"RESUMPTION"}
    request(world, "orders")
    assert world.exists(paths.delete_topic("orders")), "its deletion has begun"
    world.write(Delete(paths.request("orders")))
    resume(world)
    assert is_gone(world, "orders")


def test_brokers_that_stayed_up_follow_a_topic_that_is_spared_the_end_of_its_stay() -> None:
    """They ignore, without an error, what has a lower partition epoch than the last one that they have seen."""
    world = with_topic(cluster(), "orders", (1, 2))
    state_written(world, times=3)
    trashed(world)
    dies_as_it_leaves(world)
    world.context.config = replace(world.context.config, delete_topic_enable=False)
    world.take_sent()
    world.elect()
    assert led(world, "orders") == (1, 2, (1, 2))
    told = [send.request for send in world.take_sent() if isinstance(send.request, LeaderAndIsrRequest)]
    epochs = {row.partition_epoch for each in told for topic in each.topics for row in topic.partitions}
    assert epochs, "they are told of the leader"
    assert min(epochs) >= 3


# --- while it ends ------------------------------------------------------------------------------------------------


def test_marker_that_is_removed_as_it_leaves_does_not_bring_it_into_service() -> None:
    """Its replicas may be on new disks by now, and its offsets are gone."""
    world = trashed()

    def remove(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes) and world.exists(paths.delete_topic("orders")):
            world.meanwhile = lambda _: None
            world.write(Delete(paths.delete_topic("orders")))

    world.meanwhile = remove
    world.take_sent()
    purge(world)
    assert is_gone(world, "orders")
    assert leaders_told(world) == []


def test_next_topic_of_its_name_is_another_one() -> None:
    world = trashed(with_topic(cluster(), "orders", (1, 2)))
    purge(world)
    assert is_gone(world, "orders")
    with_topic(world, "orders", (1, 2))
    answer = world.ask(DeleteTopicsRequest((DeletableTopic("orders"),), FREEZE_MS), 5)
    assert isinstance(answer, DeleteTopicsResponse)
    assert [row.error for row in answer.topics] == [0]
    assert is_gone(world, "orders")
