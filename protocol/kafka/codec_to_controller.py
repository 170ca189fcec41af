"""Mapping of brokers' requests to the controller, and their responses, to Kafka's schemas, version by version."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from lethe.protocol.counting import counted
from lethe.protocol.kafka.codec_control import Binding, row
from lethe.protocol.kafka.codec_layout import Shape
from lethe.protocol.kafka.codec_primitives import Unencodable
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlteredPartition,
    AlteredTopic,
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from lethe.protocol.vocabulary import NO_EPOCH, BrokerEpoch, RecoveryState

# --- ControlledShutdown -------------------------------------------------------------------------------------------


def controlled_shutdown_request(_version: int) -> Binding:
    return Binding(
        shapes={
            "ControlledShutdownRequest": Shape(ControlledShutdownRequest, ("broker_id", "broker_epoch"), (NO_EPOCH,))
        },
        items=attrgetter("broker_id", "broker_epoch"),
    )


def controlled_shutdown_response(_version: int) -> Binding:
    return Binding(
        shapes={
            "ControlledShutdownResponse": Shape(ControlledShutdownResponse, ("error_code", "remaining_partitions")),
            "RemainingPartition": Shape(RemainingPartition, ("topic_name", "partition_index")),
        },
        items=attrgetter("error", "remaining"),
    )


# --- AlterPartition -----------------------------------------------------------------------------------------------

_TOPIC: Final = ("topic_name", "topic_id", "partitions")
_IDS_VERSION: Final = 2
"""Topics have names below this version, and ids from it on."""
_EPOCHS_VERSION: Final = 3
"""From this version on, each ISR member has its broker epoch."""


def alter_partition_request(version: int) -> Binding:
    """Map the request. By topic name up to version 1, by id from version 2 on; broker epochs from version 3 on."""
    with_epochs = version >= _EPOCHS_VERSION

    def items(request: AlterPartitionRequest) -> Sequence[Any]:
        _need_names(request.topics, version)
        topics: Sequence[Any] = request.topics
        if with_epochs:
            topics = [(topic, topic_id, [_to_members(p) for p in rows]) for topic, topic_id, rows in topics]
        return (request.broker_id, request.broker_epoch, topics)

    return Binding(
        shapes={
            "AlterPartitionRequest": Shape(AlterPartitionRequest, ("broker_id", "broker_epoch", "topics")),
            "TopicData": Shape(AlterPartitionTopic, _TOPIC, (None, None, ())),
            "PartitionData": Shape(
                _from_members if with_epochs else AlterPartition,
                (
                    *("partition_index", "leader_epoch", "new_isr_with_epochs" if with_epochs else "new_isr"),
                    *("leader_recovery_state", "partition_epoch"),
                ),
                (int(RecoveryState.RECOVERED), 0),
            ),
            "BrokerState": Shape(row, ("broker_id", "broker_epoch")),
        },
        items=items,
    )


def alter_partition_response(version: int) -> Binding:
    """Map the response. It names topics as the request does."""

    def items(response: AlterPartitionResponse) -> Sequence[Any]:
        _need_names(response.topics, version)
        return (response.error, response.topics, response.throttle_time_ms)

    return Binding(
        shapes={
            "AlterPartitionResponse": Shape(AlterPartitionResponse, ("error_code", "topics", "throttle_time")),
            "TopicData": Shape(AlteredTopic, _TOPIC, (None, None, ())),
            "PartitionData": Shape(
                AlteredPartition,
                (
                    *("partition_index", "error_code", "leader_id", "leader_epoch", "isr"),
                    *("leader_recovery_state", "partition_epoch"),
                ),
                (int(RecoveryState.RECOVERED), 0),
            ),
        },
        items=items,
    )


def _need_names(topics: Sequence[AlterPartitionTopic | AlteredTopic], version: int) -> None:
    """Raise Unencodable if a required name is missing. A missing id needs no check: it is encoded as zeros."""
    if version < _IDS_VERSION and any(each.topic is None for each in topics):
        raise Unencodable(f"AlterPartition v{version} names topics, and one has no name")


def _to_members(state: AlterPartition) -> tuple[Any, ...]:
    partition, leader_epoch, new_isr, recovery_state, partition_epoch, isr_epochs = state
    epochs = isr_epochs or (NO_EPOCH,) * len(new_isr)
    if len(epochs) != len(new_isr):
        raise Unencodable(f"partition {partition}: {counted(len(epochs), 'broker epoch')} for an ISR of {len(new_isr)}")
    return partition, leader_epoch, tuple(zip(new_isr, epochs, strict=True)), recovery_state, partition_epoch


def _from_members(
    partition: int,
    leader_epoch: int,
    members: tuple[tuple[int, BrokerEpoch], ...],
    recovery_state: int,
    partition_epoch: int,
) -> AlterPartition:
    new_isr = tuple(broker for broker, _ in members)
    epochs = tuple(epoch for _, epoch in members)
    if all(epoch == NO_EPOCH for epoch in epochs):
        epochs = ()
    return AlterPartition(partition, leader_epoch, new_isr, recovery_state, partition_epoch, epochs)


# --- AllocateProducerIds ------------------------------------------------------------------------------------------


def allocate_producer_ids_request(_version: int) -> Binding:
    names = ("broker_id", "broker_epoch")
    return Binding(
        shapes={"AllocateProducerIdsRequest": Shape(AllocateProducerIdsRequest, names)}, items=attrgetter(*names)
    )


def allocate_producer_ids_response(_version: int) -> Binding:
    return Binding(
        shapes={
            "AllocateProducerIdsResponse": Shape(
                AllocateProducerIdsResponse, ("error_code", "producer_id_start", "producer_id_len", "throttle_time")
            )
        },
        items=attrgetter("error", "first_id", "id_count", "throttle_time_ms"),
    )
