"""Mapping of clients' requests and brokers' responses to Kafka's schemas, version by version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from lethe.protocol.kafka.admin_configs import (
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
)
from lethe.protocol.kafka.codec_control import Binding
from lethe.protocol.kafka.codec_layout import Shape
from lethe.protocol.kafka.codec_primitives import Unencodable
from lethe.protocol.kafka.config_entries import ConfigEntry, ConfigSynonym
from lethe.protocol.kafka.consumers import NO_AUTHORIZED_OPERATIONS
from lethe.protocol.kafka.queries import (
    UNKNOWN_BYTES,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribableTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    FinalizedFeature,
    ListedGroup,
    ListedTransaction,
    ListGroupsRequest,
    ListGroupsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    LogDir,
    LogDirPartition,
    LogDirTopic,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
    SupportedFeature,
)
from lethe.protocol.vocabulary import NO_BROKER


def _attributes(*names: str) -> Callable[[Any], Sequence[Any]]:
    """Return a function that returns the value's attributes of these names, at least two."""
    get: Callable[[Any], Sequence[Any]] = attrgetter(*names)
    return get


# --- ApiVersions --------------------------------------------------------------------------------------------------


def api_versions_request(_version: int) -> Binding:
    return Binding(
        shapes={
            "ApiVersionsRequest": Shape(
                ApiVersionsRequest, ("client_software_name", "client_software_version"), ("", "")
            )
        },
        items=_attributes("client_software_name", "client_software_version"),
    )


def api_versions_response(_version: int) -> Binding:
    tags = ("supported_features", "finalized_features_epoch", "finalized_features", "zk_migration_ready")
    return Binding(
        shapes={
            "ApiVersionsResponse": Shape(
                ApiVersionsResponse, ("error_code", "api_keys", "throttle_time", *tags), (0, (), -1, (), False)
            ),
            "ApiVersion": Shape(ApiVersion, ("api_key", "min_version", "max_version")),
            "SupportedFeatureKey": Shape(SupportedFeature, ("name", "min_version", "max_version")),
            "FinalizedFeatureKey": Shape(FinalizedFeature, ("name", "max_version_level", "min_version_level")),
        },
        items=_attributes("error", "apis", "throttle_time_ms", *tags),
    )


# --- Metadata -----------------------------------------------------------------------------------------------------


def metadata_request(version: int) -> Binding:
    """Map the request. All topics are an empty list in version 0 and null in later ones."""
    flags = (
        *("allow_auto_topic_creation", "include_cluster_authorized_operations"),
        "include_topic_authorized_operations",
    )

    def make(topics: tuple[MetadataRequestTopic, ...] | None, *flag_values: bool) -> MetadataRequest:
        return MetadataRequest(None if version == 0 and not topics else topics, *flag_values)

    def items(request: MetadataRequest) -> Sequence[Any]:
        topics = request.topics
        if version == 0:
            if topics is not None and not topics:
                raise Unencodable("Metadata v0 cannot ask for no topics: its empty list means all of them")
            topics = topics or ()
        return (topics, *(getattr(request, flag) for flag in flags))

    return Binding(
        shapes={
            "MetadataRequest": Shape(make, ("topics", *flags), (True, False, False)),
            "MetadataRequestTopic": Shape(MetadataRequestTopic, ("name", "topic_id"), (None,)),
        },
        items=items,
    )


def metadata_response(_version: int) -> Binding:
    return Binding(
        shapes={
            "MetadataResponse": Shape(
                MetadataResponse,
                (
                    *("brokers", "cluster_id", "controller_id", "topics", "throttle_time"),
                    "cluster_authorized_operations",
                ),
                (None, NO_BROKER, (), 0, NO_AUTHORIZED_OPERATIONS),
            ),
            "MetadataResponseBroker": Shape(MetadataBroker, ("node_id", "host", "port", "rack"), (None,)),
            "MetadataResponseTopic": Shape(
                MetadataTopic,
                ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations"),
                (None, False, (), NO_AUTHORIZED_OPERATIONS),
            ),
            "MetadataResponsePartition": Shape(
                MetadataPartition,
                (
                    *("error_code", "partition_index", "leader_id", "leader_epoch"),
                    *("replica_nodes", "isr_nodes", "offline_replicas"),
                ),
                (-1, (), (), ()),
            ),
        },
        items=_attributes(
            *("brokers", "cluster_id", "controller_id", "topics", "throttle_time_ms"), "cluster_authorized_operations"
        ),
    )


# --- DescribeLogDirs ----------------------------------------------------------------------------------------------


def describe_log_dirs_request(_version: int) -> Binding:
    return Binding(
        shapes={
            "DescribeLogDirsRequest": Shape(DescribeLogDirsRequest, ("topics",)),
            "DescribableLogDirTopic": Shape(DescribableTopic, ("topic", "partitions")),
        },
        items=lambda request: (request.topics,),
    )


def describe_log_dirs_response(_version: int) -> Binding:
    return Binding(
        shapes={
            "DescribeLogDirsResponse": Shape(
                DescribeLogDirsResponse, ("results", "error_code", "throttle_time"), (0, 0)
            ),
            "DescribeLogDirsResult": Shape(
                LogDir,
                ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes"),
                (UNKNOWN_BYTES, UNKNOWN_BYTES),
            ),
            "DescribeLogDirsTopic": Shape(LogDirTopic, ("name", "partitions")),
            "DescribeLogDirsPartition": Shape(
                LogDirPartition, ("partition_index", "partition_size", "offset_lag", "is_future_key")
            ),
        },
        items=_attributes("log_dirs", "error", "throttle_time_ms"),
    )


# --- ListGroups and ListTransactions ------------------------------------------------------------------------------


def list_groups_request(_version: int) -> Binding:
    return Binding(
        shapes={"ListGroupsRequest": Shape(ListGroupsRequest, ("states_filter", "types_filter"), ((), ()))},
        items=_attributes("states", "types"),
    )


def list_groups_response(_version: int) -> Binding:
    return Binding(
        shapes={
            "ListGroupsResponse": Shape(ListGroupsResponse, ("error_code", "groups", "throttle_time"), (0,)),
            "ListedGroup": Shape(ListedGroup, ("group_id", "protocol_type", "group_state", "group_type"), ("", "")),
        },
        items=_attributes("error", "groups", "throttle_time_ms"),
    )


def list_transactions_request(_version: int) -> Binding:
    names = ("state_filters", "producer_id_filters", "duration_filter")
    return Binding(
        shapes={"ListTransactionsRequest": Shape(ListTransactionsRequest, names, (-1,))},
        items=_attributes("states", "producer_ids", "min_duration_ms"),
    )


def list_transactions_response(_version: int) -> Binding:
    return Binding(
        shapes={
            "ListTransactionsResponse": Shape(
                ListTransactionsResponse,
                ("error_code", "unknown_state_filters", "transaction_states", "throttle_time"),
            ),
            "TransactionState": Shape(ListedTransaction, ("transactional_id", "producer_id", "transaction_state")),
        },
        items=_attributes("error", "unknown_states", "transactions", "throttle_time_ms"),
    )


# --- DescribeConfigs ----------------------------------------------------------------------------------------------


def describe_configs_request(_version: int) -> Binding:
    return Binding(
        shapes={
            "DescribeConfigsRequest": Shape(
                DescribeConfigsRequest, ("resources", "include_synonyms", "include_documentation"), (False, False)
            ),
            "DescribeConfigsResource": Shape(
                DescribableConfigs, ("resource_type", "resource_name", "configuration_keys")
            ),
        },
        items=_attributes("resources", "include_synonyms", "include_documentation"),
    )


def describe_configs_response(_version: int) -> Binding:
    return Binding(
        shapes={
            "DescribeConfigsResponse": Shape(DescribeConfigsResponse, ("results", "throttle_time")),
            "DescribeConfigsResult": Shape(
                DescribedConfigs, ("error_code", "error_message", "resource_type", "resource_name", "configs")
            ),
            "DescribeConfigsResourceResult": Shape(
                ConfigEntry,
                (
                    "name",
                    "value",
                    "read_only",
                    "config_source",
                    "is_sensitive",
                    "synonyms",
                    "config_type",
                    "documentation",
                ),
                (0, None),
            ),
            "DescribeConfigsSynonym": Shape(ConfigSynonym, ("name", "value", "source")),
        },
        items=_attributes("results", "throttle_time_ms"),
    )
