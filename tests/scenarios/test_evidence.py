"""What proves that a replica is gone where its broker was sent no LeaderAndIsr: see `controller.core.evidence`."""

from __future__ import annotations

import pytest

from lethe.controller.core.effects import Send
from lethe.controller.core.events import (
    Answer,
    LeaderAndIsrResponseReceived,
    LogDirsDescribed,
    StopReplicaResponseReceived,
)
from lethe.protocol.kafka.control import LeaderAndIsrResponse, StopReplicaResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import DescribeLogDirsResponse, LogDir
from lethe.protocol.zookeeper import paths
from tests.fakes.one_controller import OneController, consent
from tests.scenarios.plot import causes, cluster, is_gone, refusals, text, with_topic

ONE_FAILED = DescribeLogDirsResponse((LogDir(0, "/a", ()), LogDir(ErrorCode.KAFKA_STORAGE_ERROR, "/b", ())))


class Describing:
    """Broker 2 answers this to DescribeLogDirs, and StopReplica with NONE whatever its disks are like, as Kafka's do.
    `lies_on_failed`: it answers LeaderAndIsr for its replicas with a storage error."""

    def __init__(self, described: DescribeLogDirsResponse, *, lies_on_failed: bool = True) -> None:
        self.described = described
        self.lies_on_failed = lies_on_failed

    def __call__(self, send: Send) -> Answer | None:
        answer = consent(send)
        if send.broker != 2:
            return answer
        if isinstance(answer, LogDirsDescribed):
            return LogDirsDescribed(*send[:3], self.described)
        if isinstance(answer, LeaderAndIsrResponseReceived) and self.lies_on_failed:
            rows = tuple(row._replace(error=ErrorCode.KAFKA_STORAGE_ERROR) for row in answer.response.rows)
            return LeaderAndIsrResponseReceived(*send[:3], LeaderAndIsrResponse.of_rows(0, rows))
        return answer


def taken_over() -> OneController:
    """`orders` on brokers 1 and 2 is marked, and its controller has died before it heard of that."""
    world = with_topic(cluster(1, 2), "orders", (1, 2))
    world.crash()
    world.mark("orders")
    world.take_story()
    return world


def test_brokers_whose_log_directories_all_work_are_announced_nothing() -> None:
    world = taken_over()
    world.elect()
    assert is_gone(world, "orders")
    assert "LeaderAndIsr" not in world.take_story()


@pytest.mark.parametrize(
    "described, why",
    [
        (ONE_FAILED, "/b: KAFKA_STORAGE_ERROR"),
        (DescribeLogDirsResponse((), ErrorCode.CLUSTER_AUTHORIZATION_FAILED), "CLUSTER_AUTHORIZATION_FAILED"),
        (DescribeLogDirsResponse(()), "it names no log directory"),
        (DescribeLogDirsResponse((), ErrorCode.UNKNOWN_SERVER_ERROR), "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_where_the_look_proves_nothing_the_replica_is_announced_and_its_failed_directory_waited_for(
    described: DescribeLogDirsResponse, why: str
) -> None:
    world = taken_over()
    world.answer = Describing(described)
    world.elect()
    story = world.take_story()
    assert "-> 2 LeaderAndIsr: orders-0 leader -1" in story
    assert "-> 1 LeaderAndIsr" not in story
    assert causes(world, "orders") == [(0, 2, "LOG_DIRECTORY")]
    assert refusals(world, "broker/2") == [why]
    assert world.exists(paths.topic("orders"))
    world.answer = consent
    world.stop_broker(2)
    world.start_broker(2)
    world.run()
    assert is_gone(world, "orders")


def test_replica_that_the_broker_can_reach_in_spite_of_a_failed_directory_is_deleted() -> None:
    world = taken_over()
    world.answer = Describing(ONE_FAILED, lies_on_failed=False)
    world.elect()
    assert is_gone(world, "orders")


def test_look_that_a_later_incarnation_has_answered_proves_nothing() -> None:
    """The broker restarts, with its disk repaired, between StopReplica and DescribeLogDirs."""
    world = taken_over()

    def restarted(send: Send) -> Answer | None:
        answer = consent(send)
        if send.broker == 2 and isinstance(answer, StopReplicaResponseReceived) and not answer.response.rows:
            return StopReplicaResponseReceived(*send[:3], StopReplicaResponse(ErrorCode.STALE_BROKER_EPOCH, ()))
        return answer

    world.answer = restarted
    world.elect()
    assert causes(world, "orders") == [(0, 2, "BROKER_ERROR")]
    assert world.exists(paths.topic("orders"))
    world.take_story()
    world.answer = consent
    world.advance(500)
    assert is_gone(world, "orders")
    assert world.take_story().startswith(
        text("""
        * TimerFired RetryDeletions
        -> 1,2 UpdateMetadata brokers 1,2: orders-0 leader -2
        -> 2 StopReplica: orders-0 epoch -2
        -> 2 StopReplica: orders-0 epoch -2 delete
        -> 2 DescribeLogDirs
        -> 2 StopReplica
    """)
    )


def test_answer_counts_only_when_the_look_and_the_fence_behind_it_are_answered() -> None:
    world = taken_over()
    kept: list[Send] = []

    def keeping(send: Send) -> Answer | None:
        is_behind = isinstance(consent(send), LogDirsDescribed) or kept
        if send.broker == 2 and is_behind:
            kept.append(send)
            return None
        return consent(send)

    world.answer = keeping
    world.elect()
    assert causes(world, "orders") == [(0, 2, "ANSWER")]
    look, fence = kept
    world.feed(consent(look))
    world.run()
    assert causes(world, "orders") == [(0, 2, "ANSWER")], "whose directories these are is not known yet"
    world.answer = consent
    world.feed(consent(fence))
    world.run()
    assert is_gone(world, "orders")


def test_broker_that_lost_a_directory_while_a_deletion_waits_is_looked_at_and_the_directory_named() -> None:
    world = with_topic(cluster(1, 2, 3), "orders", (2, 3))
    world.stop_broker(2)
    world.stop_broker(3)
    world.run()
    world.mark("orders")
    world.run()
    world.answer = Describing(ONE_FAILED)
    world.start_broker(2)
    world.run()
    assert [cause for _, broker, cause in causes(world, "orders") if broker == 2] == ["LOG_DIRECTORY"]
    world.answer = consent
    world.start_broker(3)
    world.run()
    assert causes(world, "orders") == [(0, 2, "LOG_DIRECTORY")]
