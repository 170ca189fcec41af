"""A broker loses a log directory: which replicas are asked about, and what a deletion waits for then."""

from __future__ import annotations

from lethe.controller.core.effects import Send
from lethe.controller.core.events import Answer, LeaderAndIsrResponseReceived
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import LeaderAndIsrRequest, LeaderAndIsrResponse, TopicIdError
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId, PartitionReplica
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create
from tests.fakes.one_controller import OneController, Refusing, consent
from tests.scenarios.plot import causes, cluster, is_gone, led, refusals, with_topic


def lose_directory(world: OneController, broker: int, *lost: str) -> None:
    """The broker answers a storage error for these topics from now on, and tells of it."""

    def answer(send: Send) -> Answer:
        if send.broker == broker and isinstance(send.request, LeaderAndIsrRequest):
            rows = tuple(
                TopicIdError(t.topic, None, row.partition, ErrorCode.KAFKA_STORAGE_ERROR if t.topic in lost else 0)
                for t in send.request.topics
                for row in t.partitions
            )
            return LeaderAndIsrResponseReceived(*send[:3], LeaderAndIsrResponse.of_rows(0, rows))
        return consent(send)

    world.answer = answer
    notify(world, broker)


def notify(world: OneController, broker: int) -> None:
    world.write(Create(paths.log_dir_event_notification(), znodes.encode_log_dir_event(broker), sequential=True))
    world.run()


def announced(world: OneController, broker: int) -> list[str]:
    return [
        f"{topic.topic}-{row.partition}"
        for send in world.take_sent()
        if send.broker == broker and isinstance(send.request, LeaderAndIsrRequest)
        for topic in send.request.topics
        for row in topic.partitions
    ]


def test_all_replicas_of_the_broker_are_announced_again_with_unchanged_epochs_and_the_lost_ones_go_offline() -> None:
    world = with_topic(with_topic(with_topic(cluster(), "t", (1, 2)), "u", (2, 1)), "other", (2, 3))
    world.take_sent()
    lose_directory(world, 1, "t")
    assert announced(world, 1)[:2] == ["t-0", "u-0"]
    assert led(world, "t") == (2, 1, (2,))
    assert led(world, "u") == (2, 0, (2, 1))
    assert world.context.cluster.replica_state(PartitionReplica("t", 0, BrokerId(1))) is ReplicaState.OFFLINE
    assert not world.exists(f"{paths.log_dir_event_notifications()}/log_dir_event_0000000000")


def test_a_second_lost_directory_does_not_bring_the_first_one_back() -> None:
    world = with_topic(with_topic(cluster(), "t", (1, 2)), "u", (2, 1))
    lose_directory(world, 1, "t")
    world.take_sent()
    lose_directory(world, 1, "t", "u")
    assert announced(world, 1)[0] == "u-0"
    assert world.context.cluster.replica_state(PartitionReplica("t", 0, BrokerId(1))) is ReplicaState.OFFLINE
    assert led(world, "u") == (2, 1, (2,))


def test_deletion_that_waits_names_the_failed_directory_and_ends_when_the_broker_is_back_with_it() -> None:
    world = with_topic(with_topic(cluster(), "t", (1, 2)), "waits", (3, 1))
    world.stop_broker(3)
    world.run()
    world.mark("waits")
    world.run()
    lose_directory(world, 1, "t")
    assert (0, 3, "BROKER_TO_RETURN") in causes(world, "waits")
    world.answer = consent
    world.start_broker(3)
    world.run()
    assert is_gone(world, "waits")


def test_replica_of_a_queued_topic_in_the_lost_directory_is_what_the_topic_waits_for() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.answer = lambda send: None if send.broker == 2 else refused_deletion(send)
    world.mark("t")
    world.run()
    world.answer = consent
    lose_directory(world, 1, "t")
    # Broker 2 has not answered its StopReplica; it is taken for silent, and broker 1 waits for it no longer.
    assert (0, 1, "LOG_DIRECTORY") in causes(world, "t")
    world.stop_broker(1)
    world.stop_broker(2)
    world.run()
    world.answer = consent
    world.start_broker(1)
    world.start_broker(2)
    world.run()
    assert is_gone(world, "t")


def refused_deletion(send: Send) -> Answer:
    return Refusing(1, ErrorCode.UNKNOWN_SERVER_ERROR)(send)


def test_broker_that_is_not_registered_is_not_asked() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.take_sent()
    notify(world, 9)
    assert world.take_sent() == []
    assert refusals(world, "broker/9") == ["the broker is not registered"]


def test_it_is_recorded() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    lose_directory(world, 1, "t")
    assert [f.data["what"] for f in world.recorded(EventRecordType.BROKER)][-1] == "log directory failed"
