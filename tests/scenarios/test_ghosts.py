"""Metadata caches that have what ZooKeeper has not: a controller that takes over finds it and has it dropped."""

from __future__ import annotations

import uuid

from lethe.controller.core import events
from lethe.controller.core.caches import INTERNAL
from lethe.controller.core.context import Role
from lethe.controller.core.effects import ReadCache, ReadZnodes, Send, WriteZnodes
from lethe.controller.core.events import Answer
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import StopReplicaRequest, UpdateMetadataRequest, UpdateMetadataResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import LEADER_DURING_DELETE, BrokerId, TopicId, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Delete, SetData
from tests.fakes.one_controller import OneController, consent
from tests.scenarios.plot import cluster, role, text, with_topic

EARLIER = TopicId(uuid.UUID(int=77))


def rest(world: OneController, times: int = 40, ms: int = 1_000) -> None:
    """Let the controller look at every cache, and again where it wants to."""
    for _ in range(times):
        world.advance(ms)


def with_ghost() -> OneController:
    """Brokers 1 to 3 and the topic `orders`; broker 2 shows `gone` besides, and nobody of ours has led yet."""
    world = with_topic(cluster(), "orders", (1, 2, 3), (2, 3, 1))
    rest(world)
    world.cache(2).plant("gone", 0, 3, topic_id=EARLIER)
    world.crash()
    world.take_sent()
    world.records.clear()
    return world


def tombstones(sent: list[Send]) -> list[tuple[int, str, tuple[int, ...]]]:
    """(broker, topic, partitions) of every tombstone."""
    return [
        (int(send.broker), topic.topic, tuple(row.partition for row in topic.partitions))
        for send in sent
        if isinstance(send.request, UpdateMetadataRequest)
        for topic in send.request.topics
        if all(row.leader == LEADER_DURING_DELETE for row in topic.partitions)
    ]


def told(world: OneController) -> list[tuple[str, str, object, object]]:
    """(broker, what, topic, reason) of what the journal has of ghosts."""
    return [
        (record.subject, str(record.data["what"]), record.data["topic"], record.data.get("reason"))
        for record in world.recorded(EventRecordType.BROKER)
        if "ghost" in str(record.data["what"])
    ]


def test_golden_story_of_a_ghost_that_is_cured_by_a_takeover() -> None:
    world = with_ghost()
    world.elect()
    world.take_story()
    rest(world)
    assert world.take_story() == text("""
        -> 2 UpdateMetadata brokers 1,2,3: gone-0 leader -2, gone-3 leader -2
        <- 2 UpdateMetadata ok
    """)
    assert "gone" not in world.cache(2).shown()
    assert list(world.cache(2).shown()) == ["orders"]
    assert world.context.ghosts_cured == 1
    assert not world.context.cluster.caches.ghosts
    assert not world.context.cluster.caches.unseen
    assert told(world) == [("broker/2", "kept a ghost", "gone", None), ("broker/2", "dropped a ghost", "gone", None)]
    (cured,) = (record for record in world.recorded(EventRecordType.BROKER) if record.data["what"] == "dropped a ghost")
    assert cured.data["partitions"] == "0,3"
    assert cured.data["topic_id"] == topic_id_to_text(EARLIER)


def test_nothing_is_stopped_or_deleted_for_a_ghost() -> None:
    world = with_ghost()
    world.elect()
    rest(world)
    assert tombstones(world.sent) == [(2, "gone", (0, 3))]
    assert not any(isinstance(send.request, StopReplicaRequest) for send in world.sent)


def test_failover_does_not_wait_for_caches() -> None:
    world = with_ghost()
    reads: list[ReadCache] = []
    world.elect()
    assert role(world) is Role.ACTIVE
    assert world.context.cluster.caches.reading is None
    assert reads == []


def test_a_broker_that_registers_again_with_what_it_had_is_compared_again() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    rest(world)
    world.stop_broker(3)
    world.run()
    world.cache(3).plant("slept-through", 0)
    world.start_broker(3)
    world.run()
    rest(world)
    assert "slept-through" not in world.cache(3).shown()
    assert told(world)[-1][:3] == ("broker/3", "dropped a ghost", "slept-through")


def test_a_topic_that_comes_into_being_between_the_reads_is_never_tombstoned() -> None:
    """Somebody creates the topic while the controller asks about it: the znode is there when it is checked."""
    world = with_ghost()

    def create(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes) and any(read.path == paths.topic("gone") for read in effect.reads):
            world.meanwhile = lambda _: None
            world.create_topic("gone", (1, 2, 3))

    world.elect()
    world.meanwhile = create
    rest(world)
    assert world.context.cluster.topics["gone"].partitions.keys() == {0}
    assert (2, "gone", (0, 3)) not in tombstones(world.sent)
    assert world.cache(2).shown()["gone"].partitions == (0,), "what the new topic has not is dropped, and no more"
    assert tombstones(world.sent) == [(2, "gone", (3,))]


def test_a_controller_that_has_been_deposed_meanwhile_tombstones_nothing() -> None:
    world = with_ghost()

    def depose(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes) and any(read.path == paths.topic("gone") for read in effect.reads):
            world.meanwhile = lambda _: None
            world.write(SetData(paths.controller_epoch(), b"99", ANY_VERSION))

    world.elect()
    world.meanwhile = depose
    world.advance(1_000)
    world.advance(1_000)
    assert tombstones(world.sent) == []


def test_a_topic_in_deletion_is_left_to_its_own_tombstone() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    rest(world)
    world.crash()
    world.mark("orders")
    world.silent[3] = None
    world.elect()
    rest(world)
    assert "orders" in world.context.cluster.deletions
    assert told(world) == []


def test_partitions_of_an_earlier_topic_of_the_name_are_dropped_and_the_living_ones_stay() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3), (2, 3, 1))
    rest(world)
    living = world.context.cluster.topics["orders"].id
    world.crash()
    world.cache(1).plant("orders", 0, 1, 2, 3, topic_id=EARLIER)
    world.elect()
    assert world.cache(1).shown()["orders"].topic_id == living, "the takeover's UpdateMetadata says which topic it is"
    rest(world)
    assert world.cache(1).shown()["orders"] == (living, (0, 1))
    assert tombstones(world.sent) == [(1, "orders", (2, 3))]


def test_an_earlier_topic_of_a_name_without_a_leader_is_dropped_and_the_living_one_comes_with_its_leader() -> None:
    """The only replica is on a broker that is away: there is nothing to announce in place of the ghost."""
    world = cluster()
    world.stop_broker(1)
    with_topic(world, "orders", (1,))
    rest(world)
    world.cache(2).plant("orders", 0, 1, topic_id=EARLIER)
    world.crash()
    world.take_sent()
    world.records.clear()
    world.elect()
    rest(world)
    assert tombstones(world.take_sent()) == [(2, "orders", (0, 1))]
    assert not world.cache(2).shown()
    assert told(world) == [
        ("broker/2", "kept a ghost", "orders", None),
        ("broker/2", "dropped a ghost", "orders", None),
    ]
    assert not world.context.cluster.caches.due
    world.start_broker(1)
    world.run()
    assert world.cache(2).shown()["orders"] == (world.context.cluster.topics["orders"].id, (0,))


def test_a_cache_that_goes_on_showing_another_id_is_told_of_the_living_topic_again() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    rest(world)
    world.stop_broker(3)
    world.start_broker(3)
    world.run()
    living = world.context.cluster.topics["orders"].id
    world.cache(3).plant("orders", 0, topic_id=EARLIER)
    rest(world)
    assert world.cache(3).shown()["orders"] == (living, (0,))
    assert tombstones(world.sent) == []
    assert told(world)[-1][:3] == ("broker/3", "dropped a ghost", "orders")


def test_an_internal_topic_is_never_tombstoned_and_is_told() -> None:
    world = with_ghost()
    world.cache(1).plant("__consumer_offsets", 0, 1)
    world.elect()
    rest(world)
    assert "__consumer_offsets" in world.cache(1).shown()
    assert all(topic != "__consumer_offsets" for _, topic, _ in tombstones(world.sent))
    assert ("broker/1", "kept a ghost", "__consumer_offsets", INTERNAL) in told(world)
    assert [ghost.topic for ghost in world.context.cluster.caches.ghosts[BrokerId(1)].values()] == [
        "__consumer_offsets"
    ]


def test_a_broker_that_hides_topics_is_unseen_and_what_it_shows_is_cured() -> None:
    world = with_ghost()
    world.hidden["orders"] = None
    world.elect()
    rest(world)
    assert "gone" not in world.cache(2).shown()
    assert sorted(world.context.cluster.caches.unseen) == [1, 2, 3]
    assert "orders" in world.context.cluster.caches.unseen[BrokerId(1)]
    world.hidden.clear()
    rest(world, ms=60_000)
    assert not world.context.cluster.caches.unseen


def test_a_cache_is_unseen_while_its_broker_hides_topics_although_none_is_in_service() -> None:
    world = cluster()
    world.crash()
    world.hides_because = "it does not let User:lethe see all topics; grant it Describe on all topics"
    world.elect()
    rest(world)
    assert not world.context.cluster.topics
    assert world.context.cluster.caches.unseen == dict.fromkeys(map(BrokerId, (1, 2, 3)), world.hides_because)
    world.hides_because = None
    rest(world, ms=60_000)
    assert not world.context.cluster.caches.unseen


def test_a_silent_broker_is_unseen_and_holds_up_no_other() -> None:
    world = with_ghost()
    world.silent[1] = None
    world.elect()
    rest(world)
    assert "gone" not in world.cache(2).shown()
    assert list(world.context.cluster.caches.unseen) == [1]


def test_a_tombstone_that_is_refused_is_sent_again_later_and_the_ghost_is_shown_meanwhile() -> None:
    world = with_ghost()
    world.elect()
    refusing = 3

    def refuse(send: Send) -> Answer | None:
        nonlocal refusing
        is_tombstone = bool(tombstones([send]))
        if is_tombstone and refusing:
            refusing -= 1
            error = UpdateMetadataResponse(ErrorCode.UNKNOWN_SERVER_ERROR)
            return events.UpdateMetadataResponseReceived(send.broker, send.broker_epoch, send.request_id, error)
        return consent(send)

    world.answer = refuse
    while refusing == 3:
        world.advance(200)
    assert "gone" in world.context.cluster.caches.ghosts[BrokerId(2)]
    rest(world)
    assert refusing == 0
    assert len(tombstones(world.sent)) == 4
    assert not world.context.cluster.caches.ghosts
    assert world.context.ghosts_cured == 1


def test_a_broker_that_goes_while_it_is_looked_at_holds_up_no_other() -> None:
    world = with_ghost()
    world.elect()
    world.silent[2] = None
    world.advance(200)
    world.stop_broker(2)
    world.run()
    rest(world)
    assert not world.context.cluster.caches.unseen
    assert world.context.cluster.caches.reading is None


def test_a_topic_whose_znode_somebody_removed_leaves_no_ghost_at_a_broker_that_was_away() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    rest(world)
    shown = world.cache(3).shown()["orders"]
    world.stop_broker(3)
    world.run()
    world.write(
        Delete(paths.partition_state("orders", 0)),
        Delete(paths.topic_partition("orders", 0)),
        Delete(f"{paths.topic('orders')}/partitions"),
        Delete(paths.topic("orders")),
    )
    world.run()
    assert world.cache(3).shown()["orders"] == shown
    world.start_broker(3)
    world.run()
    rest(world)
    assert world.cache(3).shown() == {}


def test_the_comparison_is_not_complete_before_the_ghost_was_seen_to_be_gone() -> None:
    """Whoever hands control back when it is complete leaves no curable ghost."""
    world = with_ghost()
    cured_when_complete: list[int] = []

    def note(_: object = None) -> None:
        if world.context.cluster.caches.is_complete:
            cured_when_complete.append(world.context.ghosts_cured)

    world.elect()
    note()
    world.meanwhile = note
    for _ in range(400):
        world.advance(10)
        note()
    assert set(cured_when_complete) == {1}
