"""Brokers that keep a topic waiting for nothing but the answer to its tombstone: for how long, and what comes after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core import owed as owed_module
from lethe.controller.core.context import NOTHING_UNCONFIRMED, Role
from lethe.controller.core.effects import Send
from lethe.controller.core.events import Answer, ResignationRequested, UpdateMetadataResponseReceived
from lethe.controller.core.leaving import unconfirmed_deletions
from lethe.controller.runtime.explanation import explain_topic
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import UpdateMetadataRequest, UpdateMetadataResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import LEADER_DURING_DELETE, BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, ZkError
from tests.fakes.one_controller import Loss, OneController, consent
from tests.scenarios.plot import causes, cluster, is_gone, refusals, role, text, with_topic
from tests.scenarios.test_power import Remembering
from tests.scenarios.test_takeover import lose_first_write
from tests.scenarios.test_trash import FREEZE_MS, mark

LIMIT_MS = 60_000
GROUP_METADATA = "__consumer_offsets"
"""A ghost of this name is shown and stays: Kafka makes the topic anew where a broker lacks it."""


def world_with(*brokers: int, limit_ms: int = LIMIT_MS) -> OneController:
    world = OneController()
    world.context.config = replace(world.context.config, tombstone_timeout_ms=limit_ms)
    return cluster(*brokers, world=world)


def delete_without_answer_of_4(limit_ms: int = LIMIT_MS) -> OneController:
    """orders has its replicas on brokers 1 and 2; broker 4 takes requests and answers none."""
    world = with_topic(world_with(1, 2, 3, 4, limit_ms=limit_ms), "orders", (1, 2))
    world.silent = {4: None}
    world.mark("orders")
    world.run()
    assert causes(world, "orders") == [(None, 4, "TOMBSTONE_ANSWER")]
    return world


def owed(world: OneController) -> dict[int, list[str]]:
    return {int(broker): list(owing_broker.topics) for broker, owing_broker in world.context.cluster.owed.items()}


def wake(world: OneController, broker: int, error: int = 0) -> None:
    """The broker answers all it was sent, in that order, and is silent no more."""
    world.silent.pop(broker, None)
    for request_id, waiting in list(world.context.cluster.outstanding.items()):
        if waiting.broker == broker:
            answer = consent(Send(waiting.broker, waiting.broker_epoch, request_id, waiting.request))
            if isinstance(answer, UpdateMetadataResponseReceived):
                answer = replace(answer, response=UpdateMetadataResponse(error))
            world.feed(answer)
    world.run()


def told_of(world: OneController, broker: int, topic: str) -> list[int]:
    """The leaders that UpdateMetadata named of the topic to that broker, since the last call, in order."""
    return [
        row.leader
        for send in world.take_sent()
        if send.broker == broker and isinstance(send.request, UpdateMetadataRequest)
        for each in send.request.topics
        if each.topic == topic
        for row in each.partitions
    ]


def refusing_tombstones(send: Send) -> Answer:
    """Broker 4 answers every tombstone with an error, and all else as it should."""
    answer = consent(send)
    request = send.request
    if (
        send.broker == 4
        and isinstance(answer, UpdateMetadataResponseReceived)
        and isinstance(request, UpdateMetadataRequest)
        and any(row.leader == LEADER_DURING_DELETE for topic in request.topics for row in topic.partitions)
    ):
        return replace(answer, response=UpdateMetadataResponse(ErrorCode.UNKNOWN_SERVER_ERROR))
    return answer


# --- the limit ----------------------------------------------------------------------------------------------------


def test_after_the_limit_the_znodes_go_and_the_silent_broker_owes_the_tombstone() -> None:
    world = delete_without_answer_of_4()
    world.take_story()
    world.advance(LIMIT_MS - 1)
    assert world.exists(paths.topic("orders"))
    assert owed(world) == {}
    world.advance(1)
    assert world.take_story() == text("""
        * TimerFired EndTombstoneWaits
        zk delete /brokers/topics/orders/partitions/0/state
        zk delete /brokers/topics/orders/partitions/0
        zk delete /brokers/topics/orders/partitions
        zk delete /brokers/topics/orders
        zk delete /config/topics/orders
        zk delete /admin/delete_topics/orders
        * TopicsChanged
        * TopicDeletionsRequested
    """)
    assert is_gone(world, "orders")
    assert owed(world) == {4: ["orders"]}
    phases = {
        record.data["phase"]: record.data.get("owed_by") for record in world.recorded(EventRecordType.DELETION_PHASE)
    }
    assert (phases["removed"], phases["done"]) == ("4", "4")
    assert "tombstoned" not in phases, "the broker has not answered: nobody may say that its cache has lost the topic"


def test_without_a_limit_the_topic_waits() -> None:
    world = delete_without_answer_of_4(limit_ms=0)
    world.advance(30 * 24 * 3_600_000)
    assert causes(world, "orders") == [(None, 4, "TOMBSTONE_ANSWER")]


def test_a_replica_that_was_not_acknowledged_is_waited_for_however_long() -> None:
    world = with_topic(world_with(1, 2, 3), "orders", (1, 2))
    world.silent = {2: None}
    world.mark("orders")
    world.run()
    world.advance(100 * LIMIT_MS)
    assert causes(world, "orders") == [(0, 2, "ANSWER")]
    assert world.exists(paths.topic("orders"))


def test_the_time_counts_from_when_only_the_tombstone_was_waited_for() -> None:
    world = with_topic(world_with(1, 2, 3, 4), "orders", (1, 2))
    world.silent = {2: None, 4: None}
    world.mark("orders")
    world.run()
    world.advance(10 * LIMIT_MS)
    wake(world, 2)
    assert causes(world, "orders") == [(None, 4, "TOMBSTONE_ANSWER")]
    world.advance(LIMIT_MS)
    assert owed(world) == {4: ["orders"]}


def test_topics_that_were_acknowledged_at_different_times_go_each_in_its_time() -> None:
    world = world_with(1, 2, 3, 4)
    for name in ("first", "second", "third"):
        with_topic(world, name, (1, 2))
    world.silent = {4: None}
    for name in ("first", "second", "third"):
        world.mark(name)
        world.run()
        world.advance(20_000)
    world.advance(0)
    assert owed(world) == {4: ["first"]}
    world.advance(20_000)
    assert owed(world) == {4: ["first", "second"]}
    world.advance(20_000)
    assert owed(world) == {4: ["first", "second", "third"]}


def test_while_deletions_are_paused_the_limit_removes_nothing_and_afterwards_it_does() -> None:
    world = delete_without_answer_of_4()
    world.write(Create(paths.LETHE, None), Create(paths.DELETIONS_PAUSED, b""))
    world.run()
    world.advance(2 * LIMIT_MS)
    assert world.exists(paths.topic("orders"))
    world.write(Delete(paths.DELETIONS_PAUSED))
    world.run()
    assert is_gone(world, "orders")
    assert owed(world) == {4: ["orders"]}


class RefusedMeanwhile:
    """At the limit a removal in several steps begins; broker 4 refuses the tombstone before its first outcome comes."""

    def __init__(self, how: str) -> None:
        world = OneController(max_operations_per_group=4) if how == "large" else OneController()
        world.context.config = replace(world.context.config, tombstone_timeout_ms=LIMIT_MS)
        self.world = with_topic(cluster(1, 2, 3, 4, world=world), "orders", (1, 2), (2, 1))
        world.silent = {4: None}
        world.mark("orders")
        world.run()
        world.held = []
        if how == "searched":
            world.write(Delete(paths.partition_state("orders", 0)))
        world.advance(LIMIT_MS)
        wake(world, 4, ErrorCode.STALE_BROKER_EPOCH)
        world.silent = {4: None}
        world.take_sent()


@pytest.mark.parametrize("how", ["searched", "large"])
def test_a_tombstone_that_is_refused_during_the_removal_is_on_its_way_again_before_the_last_znodes_go(how: str) -> None:
    """Seed 63468: somebody had removed a state, so the tree was searched, and the tombstone was refused meanwhile."""
    world = RefusedMeanwhile(how).world
    found: list[bool] = []

    def look(_: object) -> None:
        found.append(world.exists(paths.topic("orders")))

    world.meanwhile = look
    world.release(1)
    assert found[-1], "the znode was there when its removal was decided"
    assert not world.exists(paths.topic("orders"))
    assert told_of(world, 4, "orders") == [LEADER_DURING_DELETE] * 2
    world.release(len(world.held or ()))
    assert owed(world) == {4: ["orders"]}
    wake(world, 4)
    assert owed(world) == {}


def test_znodes_that_cannot_be_removed_at_the_limit_are_removed_later() -> None:
    world = delete_without_answer_of_4()
    world.refusals = {paths.topic("orders"): ZkError.NO_AUTH}
    world.advance(LIMIT_MS)
    assert owed(world) == {}
    world.refusals = {}
    world.advance(60_000)
    assert is_gone(world, "orders")
    assert owed(world) == {4: ["orders"]}


def test_a_broker_that_owes_too_much_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lethe.controller.core.owed.MAX_OWED_TOPICS", 1)
    world = with_topic(delete_without_answer_of_4(), "billing", (1, 2))
    world.advance(LIMIT_MS)
    world.mark("billing")
    world.run()
    world.advance(LIMIT_MS)
    assert owed(world) == {4: ["orders"]}
    assert causes(world, "billing") == [(None, 4, "TOMBSTONE_ANSWER")]
    wake(world, 4)
    assert is_gone(world, "billing")
    assert owed(world) == {}


# --- what is owed -------------------------------------------------------------------------------------------------


def test_the_answer_settles_what_is_owed() -> None:
    world = delete_without_answer_of_4()
    world.advance(LIMIT_MS)
    wake(world, 4)
    assert owed(world) == {}
    said = [record.data["what"] for record in world.recorded(EventRecordType.BROKER) if record.subject == "broker/4"]
    assert said[-2:] == ["owes tombstones", "tombstones answered"]


def test_a_new_topic_of_the_name_is_announced_to_the_broker_only_after_its_answer() -> None:
    world = delete_without_answer_of_4()
    world.advance(LIMIT_MS)
    world.take_sent()
    with_topic(world, "orders", (1, 4))
    assert told_of(world, 4, "orders") == []
    assert 4 in world.context.cluster.topics["orders"].hosts(0)
    wake(world, 4)
    assert owed(world) == {}
    assert told_of(world, 4, "orders") == [1]


def test_brokers_that_owe_nothing_are_told_of_the_new_topic_at_once() -> None:
    world = delete_without_answer_of_4()
    world.advance(LIMIT_MS)
    world.take_sent()
    with_topic(world, "orders", (1, 2))
    assert told_of(world, 3, "orders")[-1:] == [1]


def test_a_broker_that_answers_with_an_error_owes_too_and_is_asked_with_growing_waits() -> None:
    world = with_topic(world_with(1, 2, 3, 4), "orders", (1, 2))
    world.answer = refusing_tombstones
    world.mark("orders")
    world.run()
    world.advance(30_000)
    assert causes(world, "orders") == [(None, 4, "TOMBSTONE_ANSWER")]
    world.advance(30_000)
    assert is_gone(world, "orders")
    assert owed(world) == {4: ["orders"]}
    world.take_sent()
    with_topic(world, "orders", (1, 4))
    assert told_of(world, 4, "orders") == [], "a broker whose cache shows the old topic is not told of the new one"
    world.advance(60_000)
    assert told_of(world, 4, "orders") == [LEADER_DURING_DELETE]
    owing_broker = world.context.cluster.owed[BrokerId(4)]
    assert owing_broker.problem is not None
    assert (owing_broker.problem.what, owing_broker.problem.attempts) == ("UNKNOWN_SERVER_ERROR", 2)
    world.answer = consent
    world.advance(60_000)
    assert owed(world) == {}
    assert told_of(world, 4, "orders") == [LEADER_DURING_DELETE, 1]


def test_an_answer_for_one_topic_keeps_the_time_at_which_another_one_is_sent_again() -> None:
    world = with_topic(with_topic(world_with(1, 2, 3, 4), "orders", (1, 2)), "bills", (1, 2))
    kept: list[Send] = []

    def keeping(send: Send) -> Answer | None:
        if send.broker != 4 or not isinstance(send.request, UpdateMetadataRequest):
            return consent(send)
        kept.append(send)
        return None

    world.answer = keeping
    world.mark("orders")
    world.run()
    world.mark("bills")
    world.run()
    world.advance(LIMIT_MS)
    assert owed(world) == {4: ["orders", "bills"]}
    first, second = kept
    world.feed(UpdateMetadataResponseReceived(*first[:3], UpdateMetadataResponse(ErrorCode.UNKNOWN_SERVER_ERROR)))
    world.feed(consent(second))
    world.run()
    assert owed(world) == {4: ["orders"]}
    world.answer = consent
    world.advance(60_000)
    assert owed(world) == {}


def test_a_silent_broker_that_wakes_with_an_error_is_sent_the_tombstone_again() -> None:
    world = delete_without_answer_of_4()
    world.advance(LIMIT_MS)
    wake(world, 4, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert owed(world) == {4: ["orders"]}
    world.take_sent()
    world.advance(500)
    assert told_of(world, 4, "orders") == [LEADER_DURING_DELETE]
    assert owed(world) == {}


def test_a_broker_that_registers_again_is_sent_the_tombstone_before_anything_else() -> None:
    """One of Kafka's brokers that lost only its session has its cache still."""
    world = delete_without_answer_of_4()
    world.advance(LIMIT_MS)
    with_topic(world, "orders", (1, 2))
    world.silent = {}
    world.stop_broker(4)
    world.run()
    world.take_sent()
    world.start_broker(4)
    world.run()
    assert told_of(world, 4, "orders") == [LEADER_DURING_DELETE, 1]
    assert owed(world) == {}


def test_the_new_topic_may_be_deleted_while_the_old_one_is_owed() -> None:
    world = delete_without_answer_of_4()
    world.advance(LIMIT_MS)
    with_topic(world, "orders", (1, 2))
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders"), "broker 4 was never told of this one"
    assert owed(world) == {4: ["orders"]}
    wake(world, 4)
    assert owed(world) == {}


def test_a_topic_deleted_from_the_trash_is_not_sent_a_third_tombstone_when_the_first_is_answered() -> None:
    """The second one waits in the channel: another in its place would make the deletion wait longer."""
    world = with_topic(world_with(1, 2, 3), "orders", (1, 2))
    world.silent = {3: None}
    mark(world, "orders", grace_ms=FREEZE_MS)
    world.advance(FREEZE_MS)
    world.advance(FREEZE_MS)
    assert owed(world) == {3: ["orders"]}
    assert causes(world, "orders") == [(None, 3, "TOMBSTONE_ANSWER")]
    assert told_of(world, 3, "orders") == [1, LEADER_DURING_DELETE, LEADER_DURING_DELETE]
    wake(world, 3)
    assert told_of(world, 3, "orders") == []
    assert is_gone(world, "orders")
    assert owed(world) == {}


def test_the_document_of_a_topic_that_is_marked_again_names_who_owes_the_earlier_tombstone() -> None:
    world = delete_without_answer_of_4()
    world.advance(LIMIT_MS)
    with_topic(world, "orders", (1, 2))
    world.silent |= {2: None}
    world.mark("orders")
    world.run()
    document = explain_topic(world.context, "orders", {}, world.now_ms)
    assert document is not None
    assert [owing["broker"] for owing in document["owed"]] == [4]  # type: ignore[union-attr, index, call-overload]


def test_when_the_term_ends_what_was_owed_is_recorded_as_lost() -> None:
    world = delete_without_answer_of_4()
    world.advance(LIMIT_MS)
    world.feed(ResignationRequested("asked to"))
    world.run()
    assert owed(world) == {}
    assert refusals(world, "broker/4") == ["it has not answered, and this controller's term ends"]


# --- giving control up for good -------------------------------------------------------------------------------------


def leave(world: OneController, patience_ms: int = 5_000) -> None:
    world.feed(ResignationRequested("received SIGTERM", for_good=True, patience_ms=patience_ms))
    world.run()


@pytest.mark.parametrize("limit_is_over", [False, True], ids=["marked", "znodes gone"])
def test_who_is_to_stop_waits_for_the_answer_to_the_tombstone(limit_is_over: bool) -> None:
    world = delete_without_answer_of_4()
    if limit_is_over:
        world.advance(LIMIT_MS)
    leave(world)
    assert role(world) is Role.ACTIVE
    wake(world, 4)
    assert role(world) is Role.RETIRED
    assert not world.exists(paths.CONTROLLER)
    assert not world.exists(paths.topic("orders")), "what was answered while it waited was finished"
    assert world.context.unconfirmed_deletions.is_nothing


@pytest.mark.parametrize("limit_is_over", [False, True], ids=["marked", "znodes gone"])
def test_when_the_time_is_over_it_goes_and_says_what_it_leaves(limit_is_over: bool) -> None:
    world = delete_without_answer_of_4()
    if limit_is_over:
        world.advance(LIMIT_MS)
    leave(world)
    world.advance(4_999)
    assert role(world) is Role.ACTIVE
    world.advance(1)
    assert role(world) is Role.RETIRED
    left = world.context.unconfirmed_deletions
    assert (left.gone if limit_is_over else left.marked) == {4: ("orders",)}
    assert (left.marked if limit_is_over else left.gone) == {}


def test_who_is_to_stop_raises_no_epoch_that_ends_its_wait() -> None:
    """Seed 60380: every broker refused its epoch, and it was gone before it had waited."""
    world = delete_without_answer_of_4()
    leave(world)
    world.answer = Remembering(dict.fromkeys((1, 2, 3, 4), 100))
    with_topic(world, "billing", (1, 2, 3, 4))
    world.advance(4_000)
    assert (role(world), world.context.cluster.epoch) == (Role.ACTIVE, 1)
    world.advance(1_000)
    assert role(world) is Role.RETIRED
    assert world.context.unconfirmed_deletions.marked == {4: ("orders",)}


def test_who_is_to_stop_begins_no_deletion_and_lets_no_znodes_go_for_the_limit() -> None:
    world = with_topic(delete_without_answer_of_4(), "billing", (1, 2))
    leave(world, patience_ms=2 * LIMIT_MS)
    world.take_sent()
    world.mark("billing")
    world.run()
    world.advance(LIMIT_MS)
    assert told_of(world, 1, "billing") == []
    assert world.exists(paths.topic("orders"))
    world.advance(LIMIT_MS)
    assert world.context.unconfirmed_deletions.marked == {4: ("orders",)}


@pytest.mark.parametrize("loss", Loss)
def test_who_is_to_stop_and_loses_the_reply_of_a_write_goes_and_says_what_it_leaves(loss: Loss) -> None:
    """Seeds 61158 and 62991: an unknown outcome ends the session, also while answers are waited for."""
    world = delete_without_answer_of_4()
    world.advance(LIMIT_MS)
    leave(world)
    assert role(world) is Role.ACTIVE
    lose_first_write(world, loss)
    with_topic(world, "billing", (1, 2))
    assert role(world) is Role.RETIRED
    assert not world.exists(paths.CONTROLLER)
    assert world.context.unconfirmed_deletions.gone == {4: ("orders",)}


def test_who_is_asked_to_stop_between_two_writes_keeps_the_last_znodes_for_the_limit() -> None:
    world = RefusedMeanwhile("large").world
    leave(world, patience_ms=2 * LIMIT_MS)
    assert world.held is not None
    world.release(1)
    assert world.held == []
    assert world.exists(paths.topic("orders"))
    wake(world, 4)
    world.advance(LIMIT_MS)
    world.release(len(world.held))
    world.release(len(world.held))
    assert is_gone(world, "orders")
    assert world.context.unconfirmed_deletions.is_nothing


def test_who_owes_nothing_and_who_is_asked_again_goes_at_once() -> None:
    idle = with_topic(world_with(1, 2), "orders", (1, 2))
    leave(idle)
    assert idle.context.role is Role.RETIRED
    world = delete_without_answer_of_4()
    leave(world)
    leave(world)
    assert world.context.role is Role.RETIRED
    assert world.context.unconfirmed_deletions.marked == {4: ("orders",)}


def test_a_broker_that_goes_is_not_waited_for() -> None:
    world = delete_without_answer_of_4()
    leave(world)
    world.stop_broker(4)
    world.run()
    assert world.context.role is Role.RETIRED
    left = world.context.unconfirmed_deletions
    assert left == NOTHING_UNCONFIRMED._replace(missed={BrokerId(4): ("orders",)}), (
        "its process may live on: nobody has seen its cache"
    )


def test_what_a_broker_owes_stays_owed_when_its_session_ends() -> None:
    world = delete_without_answer_of_4()
    world.advance(LIMIT_MS)
    world.stop_broker(4)
    world.run()
    leave(world)
    assert world.context.role is Role.RETIRED, "a broker that is away answers nothing"
    assert world.context.unconfirmed_deletions == NOTHING_UNCONFIRMED._replace(gone={BrokerId(4): ("orders",)})


def test_topics_that_go_while_a_broker_is_away_are_missed_by_it_until_its_cache_is_seen() -> None:
    world = with_topic(world_with(1, 2, 3, 4), "orders", (1, 2))
    world.stop_broker(4)
    world.run()
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")
    assert unconfirmed_deletions(world.context) == NOTHING_UNCONFIRMED._replace(missed={BrokerId(4): ("orders",)})
    world.start_broker(4)
    world.run()
    for _ in range(30):
        world.advance(1_000)
    assert unconfirmed_deletions(world.context).is_nothing, "its cache was seen, and cured of the topic"


def test_a_ghost_of_a_broker_whose_session_ends_is_not_forgotten() -> None:
    world = with_topic(world_with(1, 2, 3), "orders", (1, 2))
    world.advance(60_000)
    world.cache(2).plant(GROUP_METADATA, 0)
    world.crash()
    world.elect()
    for _ in range(30):
        world.advance(1_000)
    assert unconfirmed_deletions(world.context).ghosts == {BrokerId(2): (GROUP_METADATA,)}
    world.stop_broker(2)
    world.run()
    assert unconfirmed_deletions(world.context) == NOTHING_UNCONFIRMED._replace(missed={BrokerId(2): (GROUP_METADATA,)})


def test_tombstones_of_topics_in_the_trash_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A takeover sends them again, and a silent broker owes them all."""
    monkeypatch.setattr(owed_module, "MAX_OWED_TOPICS", 1)
    world = world_with(1, 2, 3)
    for name in ("orders", "offers", "bills", "notes"):
        with_topic(world, name, (1, 2))
    for name in ("orders", "offers"):
        mark(world, name, grace_ms=1_000 * FREEZE_MS)
    world.advance(FREEZE_MS)
    world.crash()
    world.silent = {3: None}
    world.elect()
    assert owed(world) == {3: ["offers", "orders"]}
    for name in ("bills", "notes"):
        world.mark(name)
        world.run()
        world.advance(LIMIT_MS)
    assert (is_gone(world, "bills"), is_gone(world, "notes")) == (True, False), "the limit holds for these"
    wake(world, 3)
    assert is_gone(world, "notes")
    assert owed(world) == {}
