"""Mapping of DescribeGroups and ListOffsets to Kafka's schemas."""

from __future__ import annotations

from operator import attrgetter

from lethe.protocol.kafka.codec_control import Binding
from lethe.protocol.kafka.codec_layout import Shape
from lethe.protocol.kafka.consumers import (
    NO_AUTHORIZED_OPERATIONS,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupMember,
    ListedOffset,
    ListedTopic,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetQuestion,
    TopicToList,
)


def describe_groups_request(_version: int) -> Binding:
    names = ("groups", "include_authorized_operations")
    return Binding(
        shapes={"DescribeGroupsRequest": Shape(DescribeGroupsRequest, names, (False,))},
        items=attrgetter("groups", "include_authorized_operations"),
    )


def describe_groups_response(_version: int) -> Binding:
    member = ("member_id", "client_id", "client_host", "member_metadata", "member_assignment", "group_instance_id")
    group = (
        "error_code",
        "group_id",
        "group_state",
        "protocol_type",
        "protocol_data",
        "members",
        "authorized_operations",
    )
    return Binding(
        shapes={
            "DescribeGroupsResponse": Shape(DescribeGroupsResponse, ("groups", "throttle_time"), (0,)),
            "DescribedGroup": Shape(DescribedGroup, group, (NO_AUTHORIZED_OPERATIONS,)),
            "DescribedGroupMember": Shape(GroupMember, member, (None,)),
        },
        items=attrgetter("groups", "throttle_time_ms"),
    )


def list_offsets_request(_version: int) -> Binding:
    return Binding(
        shapes={
            "ListOffsetsRequest": Shape(ListOffsetsRequest, ("topics", "replica_id", "isolation_level"), (0,)),
            "ListOffsetsTopic": Shape(TopicToList, ("name", "partitions")),
            "ListOffsetsPartition": Shape(
                OffsetQuestion, ("partition_index", "timestamp", "current_leader_epoch"), (-1,)
            ),
        },
        items=attrgetter("topics", "replica", "isolation_level"),
    )


def list_offsets_response(_version: int) -> Binding:
    names = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")
    return Binding(
        shapes={
            "ListOffsetsResponse": Shape(ListOffsetsResponse, ("topics", "throttle_time"), (0,)),
            "ListOffsetsTopicResponse": Shape(ListedTopic, ("name", "partitions")),
            "ListOffsetsPartitionResponse": Shape(ListedOffset, names, (-1,)),
        },
        items=attrgetter("topics", "throttle_time_ms"),
    )
