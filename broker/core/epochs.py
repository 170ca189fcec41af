"""The two checks that every control request passes first, and what a refused one is answered. As in Kafka 3.9.

A broker epoch of -1 is not checked; an older one than ours is refused; a newer one is accepted, because the controller
may see our registration before we do. A controller epoch below the highest one seen is refused, any other is adopted.
"""

from __future__ import annotations

from broker.core.state import AgentState
from protocol.kafka.control import (
    Addressed,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicIdError,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from protocol.kafka.errors import ErrorCode
from protocol.vocabulary import NO_EPOCH


def check_epochs(state: AgentState, addressed: Addressed) -> ErrorCode:
    """NONE, or the error that refuses the request. Adopts the controller epoch of a request that is not refused."""
    if addressed.broker_epoch != NO_EPOCH and addressed.broker_epoch < state.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if addressed.request.controller_epoch < state.controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    state.controller_epoch = addressed.request.controller_epoch
    return ErrorCode.NONE


def refusal(request: ControlRequest, error: ErrorCode) -> ControlResponse:
    """The answer to a refused request: LeaderAndIsr repeats the error for each partition, StopReplica lists none."""
    match request:
        case LeaderAndIsrRequest():
            rows = tuple(
                TopicIdError(topic.topic, topic.topic_id, partition.partition, error)
                for topic in request.topics
                for partition in topic.partitions
            )
            return LeaderAndIsrResponse(error, rows)
        case StopReplicaRequest():
            return StopReplicaResponse(error, ())
        case UpdateMetadataRequest():
            return UpdateMetadataResponse(error)
