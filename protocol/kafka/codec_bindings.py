"""The messages that `codec` has: the name in Kafka's schemas, and the mapping to our values, of each API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from lethe.protocol.kafka import (
    codec_admin,
    codec_admin_cluster,
    codec_cluster,
    codec_consumers,
    codec_control,
    codec_group_offsets,
    codec_queries,
    codec_sasl,
    codec_to_controller,
)
from lethe.protocol.kafka.codec_control import Binding
from lethe.protocol.kafka.control import ApiKey

BINDINGS: Final[Mapping[ApiKey, tuple[str, Callable[[int], Binding], Callable[[int], Binding]]]] = MappingProxyType(
    {
        ApiKey.LEADER_AND_ISR: (
            "LeaderAndIsr",
            codec_control.leader_and_isr_request,
            codec_control.leader_and_isr_response,
        ),
        ApiKey.STOP_REPLICA: ("StopReplica", codec_control.stop_replica_request, codec_control.stop_replica_response),
        ApiKey.UPDATE_METADATA: (
            "UpdateMetadata",
            codec_control.update_metadata_request,
            codec_control.update_metadata_response,
        ),
        ApiKey.CONTROLLED_SHUTDOWN: (
            "ControlledShutdown",
            codec_to_controller.controlled_shutdown_request,
            codec_to_controller.controlled_shutdown_response,
        ),
        ApiKey.ALTER_PARTITION: (
            "AlterPartition",
            codec_to_controller.alter_partition_request,
            codec_to_controller.alter_partition_response,
        ),
        ApiKey.ALLOCATE_PRODUCER_IDS: (
            "AllocateProducerIds",
            codec_to_controller.allocate_producer_ids_request,
            codec_to_controller.allocate_producer_ids_response,
        ),
        ApiKey.CREATE_TOPICS: (
            "CreateTopics",
            codec_admin.create_topics_request,
            codec_admin.create_topics_response,
        ),
        ApiKey.DELETE_TOPICS: (
            "DeleteTopics",
            codec_admin.delete_topics_request,
            codec_admin.delete_topics_response,
        ),
        ApiKey.CREATE_PARTITIONS: (
            "CreatePartitions",
            codec_admin.create_partitions_request,
            codec_admin.create_partitions_response,
        ),
        ApiKey.ELECT_LEADERS: (
            "ElectLeaders",
            codec_admin.elect_leaders_request,
            codec_admin.elect_leaders_response,
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
            "AlterPartitionReassignments",
            codec_admin.alter_partition_reassignments_request,
            codec_admin.alter_partition_reassignments_response,
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (
            "ListPartitionReassignments",
            codec_admin.list_partition_reassignments_request,
            codec_admin.list_partition_reassignments_response,
        ),
        ApiKey.ALTER_CONFIGS: (
            "AlterConfigs",
            codec_admin_cluster.alter_configs_request,
            codec_admin_cluster.alter_configs_response,
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (
            "IncrementalAlterConfigs",
            codec_admin_cluster.incremental_alter_configs_request,
            codec_admin_cluster.alter_configs_response,
        ),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (
            "DescribeUserScramCredentials",
            codec_admin_cluster.describe_user_scram_credentials_request,
            codec_admin_cluster.describe_user_scram_credentials_response,
        ),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
            "AlterUserScramCredentials",
            codec_admin_cluster.alter_user_scram_credentials_request,
            codec_admin_cluster.alter_user_scram_credentials_response,
        ),
        ApiKey.UPDATE_FEATURES: (
            "UpdateFeatures",
            codec_admin_cluster.update_features_request,
            codec_admin_cluster.update_features_response,
        ),
        ApiKey.METADATA: ("Metadata", codec_queries.metadata_request, codec_queries.metadata_response),
        ApiKey.API_VERSIONS: ("ApiVersions", codec_queries.api_versions_request, codec_queries.api_versions_response),
        ApiKey.DESCRIBE_CONFIGS: (
            "DescribeConfigs",
            codec_queries.describe_configs_request,
            codec_queries.describe_configs_response,
        ),
        ApiKey.DESCRIBE_LOG_DIRS: (
            "DescribeLogDirs",
            codec_queries.describe_log_dirs_request,
            codec_queries.describe_log_dirs_response,
        ),
        ApiKey.DESCRIBE_CLUSTER: (
            "DescribeCluster",
            codec_cluster.describe_cluster_request,
            codec_cluster.describe_cluster_response,
        ),
        ApiKey.FIND_COORDINATOR: (
            "FindCoordinator",
            codec_cluster.find_coordinator_request,
            codec_cluster.find_coordinator_response,
        ),
        ApiKey.LIST_GROUPS: ("ListGroups", codec_queries.list_groups_request, codec_queries.list_groups_response),
        ApiKey.DESCRIBE_GROUPS: (
            "DescribeGroups",
            codec_consumers.describe_groups_request,
            codec_consumers.describe_groups_response,
        ),
        ApiKey.LIST_OFFSETS: (
            "ListOffsets",
            codec_consumers.list_offsets_request,
            codec_consumers.list_offsets_response,
        ),
        ApiKey.LIST_TRANSACTIONS: (
            "ListTransactions",
            codec_queries.list_transactions_request,
            codec_queries.list_transactions_response,
        ),
        ApiKey.OFFSET_FETCH: (
            "OffsetFetch",
            codec_group_offsets.offset_fetch_request,
            codec_group_offsets.offset_fetch_response,
        ),
        ApiKey.OFFSET_COMMIT: (
            "OffsetCommit",
            codec_group_offsets.offset_commit_request,
            codec_group_offsets.offset_commit_response,
        ),
        ApiKey.SASL_HANDSHAKE: ("SaslHandshake", codec_sasl.handshake_request, codec_sasl.handshake_response),
        ApiKey.SASL_AUTHENTICATE: (
            "SaslAuthenticate",
            codec_sasl.authenticate_request,
            codec_sasl.authenticate_response,
        ),
    }
)
"""By API: the schema's name, and what returns the mapping of a version of its request, and of its response."""
