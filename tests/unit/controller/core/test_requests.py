"""Every request of a broker is answered exactly once, whatever becomes of the term."""

from __future__ import annotations

import pytest

from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context
from lethe.controller.core.controller import after_fault
from lethe.controller.core.effects import Effect, ReadZnodes, Record, Reply
from lethe.controller.core.events import BrokerRequested, SessionLost, ZnodesRead, ZnodesWritten
from lethe.controller.core.mutation import queue_deletion
from lethe.controller.core.requests import refused
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.transitions import PartitionState, ReplicaState
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokersRequest,
    BrokersResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    errors_of,
)
from lethe.protocol.kafka.versions import LATEST
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Check, ReadFailed, ZkError, error_words
from lethe.protocol.zookeeper.packing import FenceFailed, GroupFailed, GroupOutcome, GroupUnknown
from tests.unit.controller.core.stage import NOW_MS, add_topic, feed, in_charge, leading, write_in

SHUTDOWN = ControlledShutdownRequest(BrokerId(1), BrokerEpoch(101))
ALTER = AlterPartitionRequest(
    BrokerId(1), BrokerEpoch(101), (AlterPartitionTopic("t", None, (AlterPartition(0, 0, (1,), 0, 0),)),)
)
ALLOCATE = AllocateProducerIdsRequest(BrokerId(1), BrokerEpoch(101))
NO_CONTROLLER: list[tuple[BrokersRequest, BrokersResponse]] = [
    (SHUTDOWN, ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)),
    (ALTER, AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)),
    (ALLOCATE, AllocateProducerIdsResponse(ErrorCode.NOT_CONTROLLER)),
]
named = pytest.mark.parametrize(
    "request_, answer", NO_CONTROLLER, ids=["ControlledShutdown", "AlterPartition", "AllocateProducerIds"]
)


def led() -> Context:
    context = leading(1, 2)
    add_topic(
        context,
        "t",
        [(1, 2)],
        led=True,
        partition_state=PartitionState.ONLINE,
        replica_state=ReplicaState.ONLINE,
    )
    return context


def replies(effects: list[Effect]) -> list[Reply]:
    return [effect for effect in effects if isinstance(effect, Reply)]


def to_its_write(context: Context, event: BrokerRequested) -> list[Effect]:
    """Up to the write that the request needs; what is read before that is not there."""
    effects = feed(context, event)
    while isinstance(asked := effects[-1], ReadZnodes):
        effects += feed(context, ZnodesRead(asked.id, tuple(ReadFailed(ZkError.NO_NODE) for _ in asked.reads)))
    return effects


@named
def test_who_does_not_lead_says_so_at_once(request_: BrokersRequest, answer: BrokersResponse) -> None:
    context = Context(CoreConfig(BrokerId(1000), LATEST))
    assert feed(context, BrokerRequested(7, request_, 0)) == [Reply(7, answer)]
    assert context.cluster.unanswered == {}
    assert refused(request_) == answer


@named
def test_request_in_progress_is_kept_until_it_is_answered(request_: BrokersRequest, answer: BrokersResponse) -> None:
    context = led()
    effects = to_its_write(context, BrokerRequested(7, request_, 0))
    assert replies(effects) == []
    assert context.cluster.unanswered[7].request == request_
    write_in(effects)


@named
def test_lost_session_answers_what_is_in_progress(request_: BrokersRequest, answer: BrokersResponse) -> None:
    context = led()
    feed(context, BrokerRequested(7, request_, 0))
    assert replies(feed(context, SessionLost("gone"))) == [Reply(7, answer)]
    assert context.cluster.unanswered == {}


@named
def test_lost_control_answers_what_is_in_progress(request_: BrokersRequest, answer: BrokersResponse) -> None:
    context = led()
    write = write_in(to_its_write(context, BrokerRequested(7, request_, 0)))
    after = feed(context, ZnodesWritten(write.id, (GroupUnknown("?"),) * len(write.groups), controller_moved=True))
    assert replies(after) == [Reply(7, answer)]


@named
def test_unknown_outcome_and_fault_answer_what_is_in_progress(
    request_: BrokersRequest, answer: BrokersResponse
) -> None:
    context = led()
    write = write_in(to_its_write(context, BrokerRequested(7, request_, 0)))
    unknown = feed(context, ZnodesWritten(write.id, (GroupUnknown("?"),) * len(write.groups)))
    assert replies(unknown) == [Reply(7, answer)]
    context = led()
    feed(context, BrokerRequested(8, request_, 0))
    assert replies(after_fault(context, "broken", NOW_MS)) == [Reply(8, answer)]


NOTHING_CHANGES = AlterPartitionRequest(
    BrokerId(1),
    BrokerEpoch(101),
    tuple(AlterPartitionTopic(name, None, (AlterPartition(0, 0, (1, 2), 0, 0),)) for name in ("t", "u", "v")),
)
NOTHING_LED = ControlledShutdownRequest(BrokerId(3), BrokerEpoch(103))
unwritten = pytest.mark.parametrize(
    "request_", [NOTHING_CHANGES, NOTHING_LED], ids=["AlterPartition", "ControlledShutdown"]
)


def idle() -> Context:
    context = leading(1, 2, 3)
    for name in ("t", "u", "v"):
        add_topic(context, name, [(1, 2)], led=True)
    return context


@unwritten
def test_answer_without_a_write_waits_for_one_check_of_the_epoch(request_: BrokersRequest) -> None:
    context = idle()
    effects = feed(context, BrokerRequested(7, request_, 0))
    assert replies(effects) == []
    check = Check(paths.controller_epoch(), context.cluster.epoch_version)
    assert (write_in(effects).groups, write_in(effects).fence) == (((check,),), check)
    (reply,) = replies(in_charge(context, effects))
    assert errors_of(reply.response)[0] == ErrorCode.NONE
    assert context.cluster.unanswered == {}


@unwritten
@pytest.mark.parametrize(
    "outcome, moved",
    [
        pytest.param(FenceFailed(ZkError.BAD_VERSION), True, id="moved"),
        pytest.param(GroupUnknown("?"), False, id="unknown"),
        pytest.param(GroupFailed(-1, ZkError.NO_AUTH), False, id="refused"),
    ],
)
def test_answer_without_a_write_is_not_given_unless_we_are_in_charge(
    request_: BrokersRequest, outcome: GroupOutcome, moved: bool
) -> None:
    context = idle()
    write = write_in(feed(context, BrokerRequested(7, request_, 0)))
    after = feed(context, ZnodesWritten(write.id, (outcome,), controller_moved=moved))
    assert replies(after) == [Reply(7, refused(request_))]
    assert context.cluster.unanswered == {}


def test_a_check_of_the_epoch_that_is_refused_is_recorded_in_words() -> None:
    context = idle()
    write = write_in(feed(context, BrokerRequested(7, NOTHING_LED, 0)))
    after = feed(context, ZnodesWritten(write.id, (GroupFailed(-1, ZkError.NO_AUTH),)))
    (refusal,) = (each.record for each in after if isinstance(each, Record) and "why" in each.record.data)
    assert (refusal.type, refusal.data["what"]) == (EventRecordType.REFUSAL, "answering ControlledShutdown")
    assert refusal.data["why"] == f"checking /controller_epoch failed with {error_words(ZkError.NO_AUTH)}"


def test_answer_to_a_request_that_was_answered_is_a_fault() -> None:
    context = led()
    queue_deletion(context.cluster, "t", 0)
    (reply,) = replies(in_charge(context, feed(context, BrokerRequested(7, SHUTDOWN, 3))))
    assert reply.response == ControlledShutdownResponse(ErrorCode.NONE)
    with pytest.raises(KeyError):
        StepContext(context, NOW_MS).reply(7, reply.response)
