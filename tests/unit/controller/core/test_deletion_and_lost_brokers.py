"""Brokers that go away in the middle of a deletion hold up no more than they have to."""

from __future__ import annotations

from lethe.controller.core.transitions import ReplicaState
from lethe.controller.core.waiting import waits
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId, PartitionReplica
from tests.fakes.one_controller import OneController, Refusing, consent


def _cluster() -> OneController:
    one = OneController()
    for broker in (1, 2, 3):
        one.start_broker(broker)
    one.elect()
    return one


def test_a_replica_whose_broker_came_back_is_deleted_though_another_broker_has_gone_since() -> None:
    one = _cluster()
    one.create_topic("t", (1, 2))
    one.run()
    one.silent.update({1: None, 2: None})
    one.mark("t")
    one.run()
    one.stop_broker(2)
    one.run()
    del one.silent[2]
    one.start_broker(2)
    one.run()
    assert one.context.cluster.replica_state(PartitionReplica("t", 0, BrokerId(1))) is ReplicaState.DELETION_STARTED

    one.stop_broker(1)
    one.run()

    assert [(w.waiting_for, w.broker) for w in waits(one.context, "t")] == [(CauseKind.BROKER_TO_RETURN, 1)]


def test_a_topic_that_every_replica_has_confirmed_does_not_wait_for_a_broker_that_confirmed_and_went() -> None:
    one = _cluster()
    one.create_topic("t", (1,))
    one.run()
    one.silent[3] = None
    one.mark("t")
    one.run()
    assert [(w.waiting_for, w.broker) for w in waits(one.context, "t")] == [(CauseKind.TOMBSTONE_ANSWER, 3)]

    one.stop_broker(1)
    one.run()
    one.stop_broker(3)
    one.run()

    assert not one.exists("/brokers/topics/t")
    assert not one.exists("/admin/delete_topics/t")


def test_a_retry_that_comes_due_while_others_are_outstanding_is_made_up_for() -> None:
    one = _cluster()
    one.create_topic("t", (1, 2, 3))
    one.run()
    one.answer = Refusing(1, ErrorCode.UNKNOWN_SERVER_ERROR)
    one.silent.update({2: None, 3: None})
    one.mark("t")
    one.run()
    one.answer = consent
    one.advance(one.context.config.retry_min_ms)
    one.stop_broker(3)
    one.run()
    assert (
        one.context.cluster.replica_state(PartitionReplica("t", 0, BrokerId(1))) is not ReplicaState.DELETION_SUCCESSFUL
    )

    one.stop_broker(2)
    one.run()

    causes = [(w.waiting_for, w.broker) for w in waits(one.context, "t")]
    assert causes == [(CauseKind.BROKER_TO_RETURN, 2), (CauseKind.BROKER_TO_RETURN, 3)]
