"""The deletion of topics, round by round: Kafka's TopicDeletionManagerTest on our core.

Brokers 1, 2, 3; topics with two partitions of three replicas; brokers answer when the test says so.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lethe.controller.core.effects import Send
from lethe.controller.core.events import Answer
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.kafka.control import StopReplicaRequest, UpdateMetadataRequest
from lethe.protocol.vocabulary import BrokerId, PartitionReplica
from tests.fakes.one_controller import OneController, consent, is_deletion
from tests.scenarios.plot import causes, cluster, is_gone, with_topic

S = ReplicaState


class Held:
    """Brokers that answer everything at once, except requests to delete and what follows: these wait in `sends`."""

    def __init__(self) -> None:
        self.sends: list[Send] = []

    def __call__(self, send: Send) -> Answer | None:
        if is_deletion(send) or any(each.broker == send.broker for each in self.sends):
            self.sends.append(send)
            return None
        return consent(send)


def world_with(*names: str) -> tuple[OneController, Callable[..., None]]:
    """The world, and a function that lets these brokers answer what they were asked to delete."""
    world = cluster()
    for name in names:
        with_topic(world, name, (1, 2, 3), (2, 3, 1))
    held = Held()
    world.answer = held

    def complete(*brokers: int) -> None:
        mine = [send for send in held.sends if send.broker in brokers]
        held.sends = [send for send in held.sends if send.broker not in brokers]
        for send in mine:
            world.feed(consent(send))
        world.run()

    world.take_sent()
    return world, complete


def states(world: OneController, name: str, broker: int) -> set[ReplicaState]:
    return {world.context.cluster.replica_state(PartitionReplica(name, p, BrokerId(broker))) for p in (0, 1)}


def is_ineligible(world: OneController, name: str) -> bool:
    return world.context.cluster.deletions[name].ineligible


def test_initialization_queues_the_marked_topics_and_marks_as_ineligible_those_with_a_dead_replica() -> None:
    """Ours decides on ineligibility when the round starts; unmarked topics have no such mark at all."""
    world, _ = world_with("foo", "bar", "baz")
    world.crash()
    world.mark("foo")
    world.mark("bar")
    world.stop_broker(3)
    world.elect()
    assert list(world.context.cluster.deletions) == ["bar", "foo"]
    assert [deletion.ineligible for deletion in world.context.cluster.deletions.values()] == [True, True]
    assert "baz" in world.context.cluster.topics


def test_basic_deletion_takes_partitions_out_of_service_and_asks_for_all_replicas_in_one_batch() -> None:
    world, complete = world_with("foo", "bar")
    world.zookeeper.take_fired()
    world.mark("foo")
    world.mark("bar")
    world.run()
    for name in ("foo", "bar"):
        assert world.context.cluster.topics[name].states == ()
        assert [states(world, name, broker) for broker in (1, 2, 3)] == [{S.DELETION_STARTED}] * 3
        assert world.context.cluster.deletions[name].started_at_ms is not None
        assert not world.context.cluster.deletions[name].ineligible
    sent = world.take_sent()
    assert [send.broker for send in sent if isinstance(send.request, UpdateMetadataRequest)] == [1, 2, 3]
    stops = [send for send in sent if isinstance(send.request, StopReplicaRequest)]
    assert [send.broker for send in stops] == [1, 2, 3, 1, 2, 3]
    assert {tuple(sorted(topic.topic for topic in s.request.topics or ())) for s in stops} == {("bar", "foo")}
    complete(1, 2, 3)
    assert is_gone(world, "foo")
    assert is_gone(world, "bar")
    assert world.context.cluster.deletions == {}


def test_deletion_with_broker_offline_deletes_the_rest_and_resumes_when_it_is_back() -> None:
    world, complete = world_with("foo", "bar")
    world.stop_broker(2)
    world.run()
    world.mark("foo")
    world.run()
    assert [states(world, "foo", broker) for broker in (1, 3)] == [{S.DELETION_STARTED}] * 2
    assert states(world, "foo", 2) == {S.DELETION_INELIGIBLE}
    assert world.context.cluster.deletions["foo"].ineligible
    complete(1, 3)
    assert [states(world, "foo", broker) for broker in (1, 3)] == [{S.DELETION_SUCCESSFUL}] * 2
    assert states(world, "foo", 2) == {S.OFFLINE}
    assert world.context.cluster.deletions["foo"].ineligible
    world.start_broker(2)
    world.run()
    assert states(world, "foo", 2) == {S.DELETION_STARTED}
    complete(2)
    assert is_gone(world, "foo")
    assert world.context.cluster.topics["bar"].states == ((PartitionState.ONLINE, 0b11),)


def test_broker_failure_after_deletion_started_waits_for_the_others_before_it_is_asked_again() -> None:
    """Kafka's test leaves the broker's start out, so that its replicas rest in Ineligible; here they are announced to
    the returned broker, and so are Online, until the others have answered."""
    world, complete = world_with("foo", "bar")
    world.mark("foo")
    world.run()
    world.stop_broker(2)
    world.run()
    assert states(world, "foo", 2) == {S.DELETION_INELIGIBLE}
    assert [states(world, "foo", broker) for broker in (1, 3)] == [{S.DELETION_STARTED}] * 2
    assert is_ineligible(world, "foo")
    world.start_broker(2)
    world.run()
    assert not is_ineligible(world, "foo")
    assert states(world, "foo", 2) == {S.ONLINE}
    assert causes(world, "foo")[1] == (0, 2, "OTHER_REPLICAS")
    complete(1, 3)
    assert [states(world, "foo", broker) for broker in (1, 3)] == [{S.DELETION_SUCCESSFUL}] * 2
    assert states(world, "foo", 2) == {S.DELETION_STARTED}
    complete(2)
    assert is_gone(world, "foo")


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_answers_in_any_order_end_the_same(order: tuple[int, ...]) -> None:
    world, complete = world_with("foo")
    world.mark("foo")
    world.run()
    for broker in order:
        assert not is_gone(world, "foo")
        complete(broker)
    assert is_gone(world, "foo")
