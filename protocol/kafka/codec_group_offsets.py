"""Mapping of OffsetFetch and OffsetCommit to Kafka's schemas."""

from __future__ import annotations

from operator import attrgetter

from lethe.protocol.kafka.codec_control import Binding
from lethe.protocol.kafka.codec_layout import Shape
from lethe.protocol.kafka.group_offsets import (
    CommittedPartition,
    CommittedTopic,
    FetchedOffset,
    FetchedTopic,
    FetchTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetToCommit,
    TopicToCommit,
)


def offset_fetch_request(_version: int) -> Binding:
    return Binding(
        shapes={
            "OffsetFetchRequest": Shape(OffsetFetchRequest, ("group_id", "topics", "require_stable"), (False,)),
            "OffsetFetchRequestTopic": Shape(FetchTopic, ("name", "partition_indexes")),
        },
        items=attrgetter("group", "topics", "require_stable"),
    )


def offset_fetch_response(_version: int) -> Binding:
    names = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    return Binding(
        shapes={
            "OffsetFetchResponse": Shape(OffsetFetchResponse, ("topics", "error_code", "throttle_time")),
            "OffsetFetchResponseTopic": Shape(FetchedTopic, ("name", "partitions")),
            "OffsetFetchResponsePartition": Shape(FetchedOffset, names),
        },
        items=attrgetter("topics", "error", "throttle_time_ms"),
    )


def offset_commit_request(_version: int) -> Binding:
    head = ("group_id", "topics", "generation_id_or_member_epoch", "member_id", "group_instance_id")
    names = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    return Binding(
        shapes={
            "OffsetCommitRequest": Shape(OffsetCommitRequest, head),
            "OffsetCommitRequestTopic": Shape(TopicToCommit, ("name", "partitions")),
            "OffsetCommitRequestPartition": Shape(OffsetToCommit, names),
        },
        items=attrgetter("group", "topics", "generation", "member", "instance"),
    )


def offset_commit_response(_version: int) -> Binding:
    return Binding(
        shapes={
            "OffsetCommitResponse": Shape(OffsetCommitResponse, ("topics", "throttle_time")),
            "OffsetCommitResponseTopic": Shape(CommittedTopic, ("name", "partitions")),
            "OffsetCommitResponsePartition": Shape(CommittedPartition, ("partition_index", "error_code")),
        },
        items=attrgetter("topics", "throttle_time_ms"),
    )
