"""Mapping of the three control requests and their responses to Kafka's schemas, version by version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from lethe.protocol.kafka.codec_errors import errors_by_name, errors_by_partition
from lethe.protocol.kafka.codec_layout import MakeArray, Shape
from lethe.protocol.kafka.codec_primitives import Malformed, Unencodable
from lethe.protocol.kafka.codec_states import leader_and_isr_states, stop_replica_states, update_metadata_states
from lethe.protocol.kafka.control import (
    Addressed,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    Node,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from lethe.protocol.kafka.partition_errors import PartitionErrors, TopicErrors
from lethe.protocol.vocabulary import (
    NO_EPOCH,
    NO_LEADER_EPOCH,
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    RecoveryState,
    SecurityProtocol,
    TopicId,
)

T = TypeVar("T")

FIRST_FLEXIBLE_LEADER_AND_ISR: Final = 4
FIRST_FLEXIBLE_STOP_REPLICA: Final = 2
_HEAD: Final = ("controller_id", "controller_epoch", "broker_epoch")


class Binding(NamedTuple):
    """Mapping of one version of one message to our value."""

    shapes: Mapping[str, Shape]
    """Shapes by the names of kio's classes; the message's own shape makes the value."""
    items: Callable[[Any], Sequence[Any]]
    """The value's items, in the order of the message's shape."""
    arrays: Mapping[str, MakeArray] = {}
    """Faster layouts for arrays of these structs."""


def row(*items: Any) -> tuple[Any, ...]:
    """Return a struct's items unchanged."""
    return items


_NO_KEY: Final = object()


def _by_key(rows: Iterable[tuple[Any, T]]) -> dict[Any, list[T]]:
    """Group values by key, in the order of each key's first occurrence."""
    grouped: dict[Any, list[T]] = {}
    last: Any = _NO_KEY
    values: list[T] = []
    for key, value in rows:
        # Rows with the same key are mostly adjacent, and hashing an id is expensive.
        if key is not last:
            last, values = key, grouped.setdefault(key, [])
        values.append(value)
    return grouped


# --- LeaderAndIsr -------------------------------------------------------------------------------------------------

_LEADER_AND_ISR_STATE: Final = (
    *("partition_index", "controller_epoch", "leader", "leader_epoch", "isr", "partition_epoch"),
    *("replicas", "adding_replicas", "removing_replicas", "is_new", "leader_recovery_state"),
)
_LEADER_AND_ISR_DEFAULTS: Final = ((), (), False, int(RecoveryState.RECOVERED))


def leader_and_isr_request(version: int) -> Binding:
    """Map the request. Flat up to version 1, by topic from version 2 on. `Type` is 0, as with Kafka's controllers."""
    by_topic = version >= 2

    def make(
        controller_id: BrokerId,
        controller_epoch: ControllerEpoch,
        broker_epoch: BrokerEpoch,
        flat: Sequence[tuple[str, LeaderAndIsrPartition]],
        topics: tuple[LeaderAndIsrTopic, ...],
        live_leaders: tuple[Node, ...],
    ) -> Addressed:
        if not by_topic:
            topics = tuple(LeaderAndIsrTopic(t, None, tuple(states)) for t, states in _by_key(flat).items())
        return Addressed(LeaderAndIsrRequest(controller_id, controller_epoch, topics, live_leaders), broker_epoch)

    def items(addressed: Addressed) -> Sequence[Any]:
        request = addressed.request
        assert isinstance(request, LeaderAndIsrRequest)
        flat = () if by_topic else [(t.topic, *state) for t in request.topics for state in t.partitions]
        head = (request.controller_id, request.controller_epoch, addressed.broker_epoch)
        return (*head, flat, request.topics, request.live_leaders)

    fast = leader_and_isr_states(version)
    return Binding(
        shapes={
            "LeaderAndIsrRequest": Shape(
                make,
                (*_HEAD, "ungrouped_partition_states", "topic_states", "live_leaders"),
                (NO_EPOCH, (), (), ()),
                {"type_": 0},
            ),
            "LeaderAndIsrTopicState": Shape(
                LeaderAndIsrTopic, ("topic_name", "topic_id", "partition_states"), (None, ())
            ),
            "LeaderAndIsrPartitionState": Shape(LeaderAndIsrPartition, _LEADER_AND_ISR_STATE, _LEADER_AND_ISR_DEFAULTS)
            if by_topic
            else Shape(
                lambda topic, *state: (topic, LeaderAndIsrPartition(*state)),
                ("topic_name", *_LEADER_AND_ISR_STATE),
                _LEADER_AND_ISR_DEFAULTS,
            ),
            "LeaderAndIsrLiveLeader": Shape(Node, ("broker_id", "host_name", "port")),
        },
        items=items,
        arrays={"LeaderAndIsrPartitionState": fast} if fast else {},
    )


def leader_and_isr_response(version: int) -> Binding:
    """Map the response. Errors are listed by topic name up to version 4, by topic id from version 5 on."""
    by_id = version >= 5

    def make(error: int, flat: tuple[TopicErrors, ...], topics: tuple[TopicErrors, ...]) -> LeaderAndIsrResponse:
        return LeaderAndIsrResponse(error, topics if by_id else flat)

    def items(response: LeaderAndIsrResponse) -> Sequence[Any]:
        return (response.error, (), _by_id(response.topics)) if by_id else (response.error, response.topics, ())

    return Binding(
        shapes={
            "LeaderAndIsrResponse": Shape(make, ("error_code", "partition_errors", "topics"), ((), ())),
            "LeaderAndIsrTopicError": Shape(
                lambda topic_id, errors: TopicErrors(None, topic_id, errors), ("topic_id", "partition_errors")
            ),
            "LeaderAndIsrPartitionError": Shape(row, ("partition_index", "error_code"))
            if by_id
            else Shape(row, ("topic_name", "partition_index", "error_code")),
        },
        items=items,
        arrays={
            "LeaderAndIsrPartitionError": errors_by_partition()
            if by_id
            else errors_by_name(version >= FIRST_FLEXIBLE_LEADER_AND_ISR)
        },
    )


def _by_id(topics: Sequence[TopicErrors]) -> list[tuple[TopicId | None, PartitionErrors]]:
    """Return the errors of each id. Topics without an id share an entry."""
    grouped = _by_key((each.topic_id, each.errors) for each in topics)
    return [(topic_id, PartitionErrors.joined(errors)) for topic_id, errors in grouped.items()]


# --- UpdateMetadata -----------------------------------------------------------------------------------------------

_UPDATE_METADATA_STATE: Final = (
    *("partition_index", "controller_epoch", "leader", "leader_epoch", "isr", "zk_version"),
    *("replicas", "offline_replicas"),
)


def update_metadata_request(version: int) -> Binding:
    """Map the request. Flat up to version 4, by topic from version 5 on.

    Version 0 carries one plaintext endpoint per broker; listener names travel from version 3 on.
    """
    by_topic = version >= 5

    def make(
        controller_id: BrokerId,
        controller_epoch: ControllerEpoch,
        broker_epoch: BrokerEpoch,
        flat: Sequence[tuple[str, UpdateMetadataPartition]],
        topics: tuple[UpdateMetadataTopic, ...],
        live_brokers: tuple[Broker, ...],
    ) -> Addressed:
        if not by_topic:
            topics = tuple(UpdateMetadataTopic(t, None, tuple(states)) for t, states in _by_key(flat).items())
        return Addressed(UpdateMetadataRequest(controller_id, controller_epoch, topics, live_brokers), broker_epoch)

    def items(addressed: Addressed) -> Sequence[Any]:
        request = addressed.request
        assert isinstance(request, UpdateMetadataRequest)
        flat = () if by_topic else [(t.topic, *state) for t in request.topics for state in t.partitions]
        brokers = [_broker_items(broker, version) for broker in request.live_brokers]
        head = (request.controller_id, request.controller_epoch, addressed.broker_epoch)
        return (*head, flat, request.topics, brokers)

    fast = update_metadata_states(version)
    return Binding(
        shapes={
            "UpdateMetadataRequest": Shape(
                make, (*_HEAD, "ungrouped_partition_states", "topic_states", "live_brokers"), (NO_EPOCH, (), (), ())
            ),
            "UpdateMetadataTopicState": Shape(
                UpdateMetadataTopic, ("topic_name", "topic_id", "partition_states"), (None, ())
            ),
            "UpdateMetadataPartitionState": Shape(UpdateMetadataPartition, _UPDATE_METADATA_STATE, ((),))
            if by_topic
            else Shape(
                lambda topic, *state: (topic, UpdateMetadataPartition(*state)),
                ("topic_name", *_UPDATE_METADATA_STATE),
                ((),),
            ),
            "UpdateMetadataBroker": Shape(_make_broker, ("id_", "v0_host", "v0_port", "endpoints", "rack"), _V0_BROKER),
            "UpdateMetadataEndpoint": Shape(_make_endpoint, ("port", "host", "security_protocol", "listener"), (None,)),
        },
        items=items,
        arrays={"UpdateMetadataPartitionState": fast} if fast else {},
    )


_V0_BROKER: Final = (None, 0, None, None)
"""Defaults of `v0_host` and `v0_port` (only in version 0), `endpoints` (from version 1 on) and `rack` (from 2 on)."""


def _make_broker(
    broker_id: BrokerId, host: str | None, port: int, endpoints: tuple[Endpoint, ...] | None, rack: str | None
) -> Broker:
    if endpoints is None:
        endpoints = (Endpoint(SecurityProtocol.PLAINTEXT.name, host or "", port),)
    return Broker(broker_id, NO_EPOCH, endpoints, rack)


def _make_endpoint(port: int, host: str, protocol_id: int, listener: str | None) -> Endpoint:
    try:
        protocol = SecurityProtocol(protocol_id)
    except ValueError:
        raise Malformed(
            f"endpoint {host}:{port} has security protocol {protocol_id}, which Kafka does not have"
        ) from None
    return Endpoint(listener or protocol.name, host, port, protocol)


def _broker_items(broker: Broker, version: int) -> Sequence[Any]:
    host, port = "", 0
    if version == 0:
        if len(broker.endpoints) != 1 or broker.endpoints[0].protocol is not SecurityProtocol.PLAINTEXT:
            raise Unencodable(f"UpdateMetadata v0 needs one plaintext endpoint, broker {broker.id} has other ones")
        host, port = broker.endpoints[0].host, broker.endpoints[0].port
    elif version < 3 and any(e.listener != e.protocol.name for e in broker.endpoints):
        raise Unencodable(f"UpdateMetadata v{version} has no listener names, broker {broker.id} has custom listeners")
    endpoints = [(e.port, e.host, e.protocol, e.listener) for e in broker.endpoints]
    return (broker.id, host, port, endpoints, broker.rack)


def update_metadata_response(_version: int) -> Binding:
    """Map the response: one error in every version."""
    return Binding(
        shapes={"UpdateMetadataResponse": Shape(UpdateMetadataResponse, ("error_code",))},
        items=lambda response: (response.error,),
    )


# --- StopReplica --------------------------------------------------------------------------------------------------


def stop_replica_request(version: int) -> Binding:
    """Map the request. One delete flag for all up to version 2; one per partition, with its leader epoch, from 3 on."""

    def make(
        controller_id: BrokerId,
        controller_epoch: ControllerEpoch,
        broker_epoch: BrokerEpoch,
        delete: bool,
        flat: Sequence[tuple[str, int]],
        named: Sequence[tuple[str, Sequence[int]]],
        topics: tuple[StopReplicaTopic, ...],
    ) -> Addressed:
        if version < 1:
            named = tuple(_by_key(flat).items())
        if version < 3:
            topics = tuple(
                StopReplicaTopic(name, tuple(StopReplicaPartition(p, NO_LEADER_EPOCH, delete) for p in partitions))
                for name, partitions in named
            )
        return Addressed(StopReplicaRequest(controller_id, controller_epoch, topics), broker_epoch)

    def items(addressed: Addressed) -> Sequence[Any]:
        request = addressed.request
        assert isinstance(request, StopReplicaRequest)
        head = (request.controller_id, request.controller_epoch, addressed.broker_epoch)
        if version >= 3:
            return (*head, False, (), (), request.topics)
        delete = _common_delete_flag(request, version)
        if version >= 1:
            return (*head, delete, (), [(t.topic, [p.partition for p in t.partitions]) for t in request.topics], ())
        return (*head, delete, [(t.topic, p.partition) for t in request.topics for p in t.partitions], (), ())

    return Binding(
        shapes={
            "StopReplicaRequest": Shape(
                make,
                (*_HEAD, "delete_partitions", "ungrouped_partitions", "topics", "topic_states"),
                (NO_EPOCH, False, (), (), ()),
            ),
            "StopReplicaPartitionV0": Shape(row, ("topic_name", "partition_index")),
            "StopReplicaTopicV1": Shape(row, ("name", "partition_indexes")),
            "StopReplicaTopicState": Shape(StopReplicaTopic, ("topic_name", "partition_states")),
            "StopReplicaPartitionState": Shape(
                StopReplicaPartition, ("partition_index", "leader_epoch", "delete_partition")
            ),
        },
        items=items,
        arrays={"StopReplicaPartitionState": stop_replica_states()},
    )


def _common_delete_flag(request: StopReplicaRequest, version: int) -> bool:
    flags = {partition.delete for topic in request.topics for partition in topic.partitions}
    if len(flags) > 1:
        raise Unencodable(
            f"StopReplica v{version} has one delete flag for all its partitions: send those to be deleted and those to "
            f"be stopped in two requests"
        )
    return True in flags


def stop_replica_response(version: int) -> Binding:
    """Map the response: a flat list in every version."""
    return Binding(
        shapes={
            "StopReplicaResponse": Shape(StopReplicaResponse, ("error_code", "partition_errors")),
            "StopReplicaPartitionError": Shape(row, ("topic_name", "partition_index", "error_code")),
        },
        items=lambda response: (response.error, response.topics),
        arrays={"StopReplicaPartitionError": errors_by_name(version >= FIRST_FLEXIBLE_STOP_REPLICA)},
    )
