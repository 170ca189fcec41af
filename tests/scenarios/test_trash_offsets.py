"""Offsets of consumer groups after a topic's return: a coordinator that takes a tombstone later would drop them."""

from __future__ import annotations

from dataclasses import dataclass, field

from lethe.controller.core.effects import Send
from lethe.controller.core.events import Answer, OffsetsCommitted, UpdateMetadataResponseReceived
from lethe.protocol.kafka.control import UpdateMetadataRequest, UpdateMetadataResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.group_offsets import CommittedOffset
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, LEADER_DURING_DELETE
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, SetData, ZkError, error_words
from lethe.protocol.zookeeper.znodes import TrashPhase
from tests.fakes.consumer_groups import SlowGroups
from tests.fakes.one_controller import OneController, consent
from tests.scenarios.plot import cluster, led, refusals, with_topic
from tests.scenarios.test_trash import entry, mark, phase_of, settings, trashed, with_offsets_left
from tests.scenarios.test_trash_under_trouble import third_refuses_topics
from tests.scenarios.test_undelete_marked import request

COMMITTED = {"readers": {0: CommittedOffset(42)}}
COORDINATOR = 3


def has_tombstone(send: Send) -> bool:
    rows = (row for topic in send.request.topics or () for row in getattr(topic, "partitions", ()))
    return isinstance(send.request, UpdateMetadataRequest) and any(row.leader == LEADER_DURING_DELETE for row in rows)


@dataclass
class Slow:
    """The coordinator works on requests later; it takes offsets meanwhile, over another connection."""

    world: OneController
    only_tombstones: bool = True
    waiting: list[Send] = field(default_factory=list)

    def __call__(self, send: Send) -> Answer | None:
        if send.broker != COORDINATOR or (self.only_tombstones and not has_tombstone(send)):
            return consent(send)
        self.waiting.append(send)
        return None

    def work(self) -> None:
        """It answers everything."""
        self.world.answer = consent
        for send in self.waiting:
            if isinstance(send.request, UpdateMetadataRequest):
                self.world.cache(COORDINATOR).apply(send.request)
                self.world.groups.apply(send.request)
            self.world.feed(consent(send))
        self.world.run()


def committed() -> OneController:
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (COORDINATOR,))
    with_topic(world, "orders", (1, 2))
    world.groups.commit("readers", "orders", 0, 42)
    return world


def until_settled(world: OneController) -> None:
    for _ in range(10):
        world.advance(world.context.config.retry_max_ms)


def test_offsets_wait_for_a_coordinator_that_has_not_answered_the_tombstone() -> None:
    """Seed 21060: it still had the offsets, the entry went, and then it dropped them."""
    world = committed()
    world.answer = slow = Slow(world)
    trashed(world)
    request(world, "orders")
    assert led(world, "orders") == (1, 1, (1, 2))
    until_settled(world)
    assert phase_of(world) is TrashPhase.OFFSETS
    assert settings(world) == {}, "retention does not wait for it"
    left = world.context.cluster.trash.topics["orders"].groups_left
    assert left == {"readers": "broker 3 has not answered the topic's tombstone yet"}
    slow.work()
    assert world.groups.committed == {}
    until_settled(world)
    assert world.groups.committed == {"orders": COMMITTED}
    assert entry(world) is None


def test_retention_does_not_wait_for_saved_offsets_that_cannot_be_understood() -> None:
    world = trashed(committed())
    saved = world.read(paths.trashed_offsets("orders", 0))
    assert saved is not None
    world.write(SetData(paths.trashed_offsets("orders", 0), b"?", ANY_VERSION))
    request(world, "orders")
    until_settled(world)
    assert settings(world) == {}
    assert phase_of(world) is TrashPhase.OFFSETS
    assert paths.trashed_offsets("orders", 0) in refusals(world, "topic/orders")[-1]
    world.write(SetData(paths.trashed_offsets("orders", 0), saved.data, ANY_VERSION))
    until_settled(world)
    assert world.groups.committed == {"orders": COMMITTED}
    assert entry(world) is None


def test_saved_offsets_that_zookeeper_does_not_show_are_named_with_the_remedy() -> None:
    world = trashed(committed())
    world.refusals = {paths.trashed_offsets("orders", 0): ZkError.NO_AUTH}
    request(world, "orders")
    until_settled(world)
    said = f"{paths.trashed_offsets('orders', 0)} cannot be read: {error_words(ZkError.NO_AUTH)}"
    assert said in refusals(world, "topic/orders")[-1]


def test_offsets_wait_for_a_coordinator_that_may_take_a_tombstone_of_the_controller_before() -> None:
    world = committed()
    world.answer = before = Slow(world)
    trashed(world)
    request(world, "orders")
    world.crash()
    world.answer = after = Slow(world, only_tombstones=False)
    world.elect()
    until_settled(world)
    assert phase_of(world) is TrashPhase.OFFSETS
    assert "broker 3 has not accepted a request of this controller yet" in refusals(world, "topic/orders")[-1]
    for send in before.waiting:
        assert isinstance(send.request, UpdateMetadataRequest)
        world.groups.apply(send.request)
    after.work()
    until_settled(world)
    assert world.groups.committed == {"orders": COMMITTED}
    assert entry(world) is None


def test_tombstone_that_a_broker_has_refused_is_not_sent_again_when_the_topic_is_back() -> None:
    """The broker may coordinate the group by then, and would drop what is committed meanwhile."""
    world = with_topic(cluster(), "orders", (1, 2))
    world.answer = third_refuses_topics
    trashed(world)
    request(world, "orders")
    assert entry(world) is None
    assert list(world.context.cluster.owed) == [3]
    world.answer = consent
    world.take_sent()
    until_settled(world)
    told = [send for send in world.take_sent() if send.broker == 3 and send.request.topics]
    assert told
    assert not any(map(has_tombstone, told))
    assert not world.context.cluster.owed
    assert "orders" in world.cache(3).shown()


def test_offsets_do_not_wait_for_a_broker_whose_last_answer_was_an_error() -> None:
    """It has accepted this controller before, so earlier controllers can send it no tombstone. It may get no further
    request for days."""
    world = with_offsets_left()

    def failing(send: Send) -> Answer:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        is_update = isinstance(send.request, UpdateMetadataRequest)
        return UpdateMetadataResponseReceived(*send[:3], UpdateMetadataResponse(error)) if is_update else consent(send)

    world.answer = failing
    with_topic(world, "bills", (2,))
    world.answer = consent
    world.groups.with_members.clear()
    until_settled(world)
    assert entry(world) is None
    assert world.groups.committed == {"orders": COMMITTED}


def test_retention_does_not_wait_for_a_coordinator_that_is_missing() -> None:
    world = trashed(committed())
    world.stop_broker(COORDINATOR)
    request(world, "orders")
    until_settled(world)
    assert phase_of(world) is TrashPhase.OFFSETS
    assert settings(world) == {}
    world.start_broker(COORDINATOR)
    world.run()
    until_settled(world)
    assert world.groups.committed == {"orders": COMMITTED}
    assert entry(world) is None


def test_topic_that_is_marked_again_is_not_put_off_by_other_markers() -> None:
    """Each of them put its offsets off by up to half a minute: with one deletion every 20 s, they were never tried."""
    world = with_offsets_left()
    mark(world, "orders")
    world.groups.with_members.clear()
    for number in range(3):
        with_topic(world, f"other{number}", (1, 2))
        mark(world, f"other{number}", grace_ms=0)
        world.advance(10_000)
    assert world.groups.committed["orders"] == COMMITTED
    assert phase_of(world) is TrashPhase.FREEZING, "it goes into the trash again"


def test_answer_for_a_topic_that_is_marked_again_counts_although_another_marker_comes_first() -> None:
    world = with_offsets_left()
    mark(world, "orders")
    world.groups = slow = SlowGroups(world.groups.committed)
    world.advance(30_000)
    with_topic(world, "other", (1, 2))
    mark(world, "other", grace_ms=0)
    (commit,) = slow.commits
    slow.commit("readers", "orders", 0, 42)
    world.feed(OffsetsCommitted(commit.id, {}))
    world.run()
    assert phase_of(world) is TrashPhase.FREEZING


def test_reason_for_the_wait_is_shown_for_the_marker_and_not_for_the_entry() -> None:
    world = with_offsets_left()
    before = world.context.cluster.trash.topics["orders"].problem
    mark(world, "orders")
    why = "it was brought back from the trash before, and offsets of consumer groups are still to be committed"
    assert world.context.cluster.marks["orders"].last_error == why
    for number in range(2):
        mark(with_topic(world, f"other{number}", (1, 2)), f"other{number}")
    assert refusals(world, "topic/orders").count(why) == 1
    assert world.context.cluster.trash.topics["orders"].problem == before
    until_settled(world)
    mark(with_topic(world, "last", (1, 2)), "last")
    assert (
        world.context.cluster.marks["orders"].last_error
        == "offsets are not committed yet: group readers: it has members"
    )
    assert refusals(world, "topic/orders").count(why) == 1


def test_topic_whose_offsets_are_hidden_keeps_no_other_topic_out_of_the_trash() -> None:
    world = with_topic(with_topic(cluster(), GROUP_METADATA_TOPIC, (COORDINATOR,)), "hidden", (1, 2))
    with_topic(world, "orders", (1, 2))
    for name in ("hidden", "orders"):
        world.groups.commit("readers", name, 0, 42)
    world.groups.hidden["hidden"] = "the authorizer"
    trashed(world, "hidden", "orders")
    assert phase_of(world, "hidden") is TrashPhase.FREEZING
    assert refusals(world, "topic/hidden") == ["offsets of consumer groups: the authorizer"]
    assert phase_of(world, "orders") is TrashPhase.TRASHED
    assert refusals(world, "topic/orders") == []
    request(world, "orders")
    assert world.groups.committed["orders"] == COMMITTED
    world.groups.hidden.clear()
    until_settled(world)
    assert phase_of(world, "hidden") is TrashPhase.TRASHED
