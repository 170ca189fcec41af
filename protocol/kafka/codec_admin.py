"""Mapping of the requests that only a controller answers clients, and their responses, to Kafka's schemas."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from lethe.protocol.kafka.admin import (
    CreatableAssignment,
    CreatableConfig,
    CreatableTopic,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopic,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    GrowableTopic,
    GrownTopic,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectionKind,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MovingPartition,
    MovingTopic,
    PartitionOutcome,
    ReassignablePartition,
    ReassignableTopic,
    TopicOutcome,
    TopicPartitions,
)
from lethe.protocol.kafka.codec_control import Binding
from lethe.protocol.kafka.codec_layout import Shape
from lethe.protocol.kafka.codec_primitives import Unencodable
from lethe.protocol.kafka.config_entries import ConfigEntry

# --- CreateTopics -------------------------------------------------------------------------------------------------


def create_topics_request(_version: int) -> Binding:
    topic = ("name", "num_partitions", "replication_factor", "assignments", "configs")
    return Binding(
        shapes={
            "CreateTopicsRequest": Shape(CreateTopicsRequest, ("topics", "timeout", "validate_only"), (False,)),
            "CreatableTopic": Shape(CreatableTopic, topic),
            "CreatableReplicaAssignment": Shape(CreatableAssignment, ("partition_index", "broker_ids")),
            "CreatableTopicConfig": Shape(CreatableConfig, ("name", "value")),
        },
        items=attrgetter("topics", "timeout_ms", "validate_only"),
    )


def create_topics_response(_version: int) -> Binding:
    entry = ("name", "value", "read_only", "config_source", "is_sensitive")
    topic = (
        *("name", "error_code", "error_message", "topic_id", "num_partitions", "replication_factor", "configs"),
        "topic_config_error_code",
    )
    return Binding(
        shapes={
            "CreateTopicsResponse": Shape(CreateTopicsResponse, ("topics", "throttle_time"), (0,)),
            "CreatableTopicResult": Shape(CreatedTopic, topic, (None, None, -1, -1, (), 0)),
            "CreatableTopicConfigs": Shape(ConfigEntry, entry),
        },
        items=attrgetter("topics", "throttle_time_ms"),
    )


# --- DeleteTopics -------------------------------------------------------------------------------------------------

_STATES_VERSION: Final = 6
"""From this version on, topics may be named by their ids."""


def delete_topics_request(version: int) -> Binding:
    """Map the request. A list of names up to version 5, of names or ids from version 6 on."""
    if version >= _STATES_VERSION:
        return Binding(
            shapes={
                "DeleteTopicsRequest": Shape(DeleteTopicsRequest, ("topics", "timeout")),
                "DeleteTopicState": Shape(DeletableTopic, ("name", "topic_id")),
            },
            items=attrgetter("topics", "timeout_ms"),
        )

    def items(request: DeleteTopicsRequest) -> tuple[Any, ...]:
        if any(each.name is None or each.topic_id is not None for each in request.topics):
            raise Unencodable(f"DeleteTopics v{version} has names only, and a topic is named by its id")
        return tuple(each.name for each in request.topics), request.timeout_ms

    def make(names: tuple[str, ...], timeout_ms: int) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(tuple(map(DeletableTopic, names)), timeout_ms)

    return Binding(shapes={"DeleteTopicsRequest": Shape(make, ("topic_names", "timeout"))}, items=items)


def delete_topics_response(_version: int) -> Binding:
    def make(name: str | None, error: int, topic_id: Any, message: str | None) -> DeletedTopic:
        return DeletedTopic(name, topic_id, error, message)

    def items(response: DeleteTopicsResponse) -> tuple[Any, ...]:
        rows = [(name, error, topic_id, message) for name, topic_id, error, message in response.topics]
        return rows, response.throttle_time_ms

    topic = ("name", "error_code", "topic_id", "error_message")
    return Binding(
        shapes={
            "DeleteTopicsResponse": Shape(DeleteTopicsResponse, ("responses", "throttle_time"), (0,)),
            "DeletableTopicResult": Shape(make, topic, (None, None)),
        },
        items=items,
    )


# --- CreatePartitions ---------------------------------------------------------------------------------------------


def create_partitions_request(_version: int) -> Binding:
    def items(request: CreatePartitionsRequest) -> tuple[Any, ...]:
        topics = [
            (name, total, None if assignments is None else [(brokers,) for brokers in assignments])
            for name, total, assignments in request.topics
        ]
        return topics, request.timeout_ms, request.validate_only

    return Binding(
        shapes={
            "CreatePartitionsRequest": Shape(CreatePartitionsRequest, ("topics", "timeout", "validate_only")),
            "CreatePartitionsTopic": Shape(GrowableTopic, ("name", "count", "assignments")),
            "CreatePartitionsAssignment": Shape(_only, ("broker_ids",)),
        },
        items=items,
    )


def _only(brokers: tuple[int, ...]) -> tuple[int, ...]:
    return brokers


def create_partitions_response(_version: int) -> Binding:
    return Binding(
        shapes={
            "CreatePartitionsResponse": Shape(CreatePartitionsResponse, ("results", "throttle_time")),
            "CreatePartitionsTopicResult": Shape(GrownTopic, ("name", "error_code", "error_message")),
        },
        items=attrgetter("topics", "throttle_time_ms"),
    )


# --- ElectLeaders -------------------------------------------------------------------------------------------------


def elect_leaders_request(_version: int) -> Binding:
    names = ("topic_partitions", "timeout", "election_type")
    return Binding(
        shapes={
            "ElectLeadersRequest": Shape(ElectLeadersRequest, names, (int(ElectionKind.PREFERRED),)),
            "TopicPartitions": Shape(TopicPartitions, ("topic", "partitions")),
        },
        items=attrgetter("topics", "timeout_ms", "kind"),
    )


def elect_leaders_response(_version: int) -> Binding:
    names = ("replica_election_results", "error_code", "throttle_time")
    return Binding(
        shapes={
            "ElectLeadersResponse": Shape(ElectLeadersResponse, names, (0, 0)),
            "ReplicaElectionResult": Shape(TopicOutcome, ("topic", "partition_result")),
            "PartitionResult": Shape(PartitionOutcome, ("partition_id", "error_code", "error_message")),
        },
        items=attrgetter("topics", "error", "throttle_time_ms"),
    )


# --- reassignments ------------------------------------------------------------------------------------------------


def alter_partition_reassignments_request(_version: int) -> Binding:
    return Binding(
        shapes={
            "AlterPartitionReassignmentsRequest": Shape(AlterPartitionReassignmentsRequest, ("topics", "timeout")),
            "ReassignableTopic": Shape(ReassignableTopic, ("name", "partitions")),
            "ReassignablePartition": Shape(ReassignablePartition, ("partition_index", "replicas")),
        },
        items=attrgetter("topics", "timeout_ms"),
    )


def alter_partition_reassignments_response(_version: int) -> Binding:
    names = ("responses", "error_code", "error_message", "throttle_time")
    partition = ("partition_index", "error_code", "error_message")
    return Binding(
        shapes={
            "AlterPartitionReassignmentsResponse": Shape(AlterPartitionReassignmentsResponse, names),
            "ReassignableTopicResponse": Shape(TopicOutcome, ("name", "partitions")),
            "ReassignablePartitionResponse": Shape(PartitionOutcome, partition),
        },
        items=attrgetter("topics", "error", "message", "throttle_time_ms"),
    )


def list_partition_reassignments_request(_version: int) -> Binding:
    return Binding(
        shapes={
            "ListPartitionReassignmentsRequest": Shape(ListPartitionReassignmentsRequest, ("topics", "timeout")),
            "ListPartitionReassignmentsTopics": Shape(TopicPartitions, ("name", "partition_indexes")),
        },
        items=attrgetter("topics", "timeout_ms"),
    )


def list_partition_reassignments_response(_version: int) -> Binding:
    partition = ("partition_index", "replicas", "adding_replicas", "removing_replicas")
    names = ("topics", "error_code", "error_message", "throttle_time")
    return Binding(
        shapes={
            "ListPartitionReassignmentsResponse": Shape(ListPartitionReassignmentsResponse, names),
            "OngoingTopicReassignment": Shape(MovingTopic, ("name", "partitions")),
            "OngoingPartitionReassignment": Shape(MovingPartition, partition),
        },
        items=attrgetter("topics", "error", "message", "throttle_time_ms"),
    )
