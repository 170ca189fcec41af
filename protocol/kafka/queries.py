"""Requests that clients and brokers send, and their responses, independent of version.

Clients and our survey send ApiVersions, Metadata and DescribeLogDirs to a broker, and ListGroups and ListTransactions
to every broker. `admin_configs` has the requests about configurations, `cluster_queries` those about brokers and
coordinators, `group_offsets` those to a group's coordinator, `sasl` those of a SASL exchange, `to_controller` those to
the controller. A field that a version lacks has its default after decoding and is dropped on encoding, like Kafka's
ignorable fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.protocol.kafka.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from lethe.protocol.kafka.admin_cluster import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    UpdateFeaturesRequest,
)
from lethe.protocol.kafka.admin_configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from lethe.protocol.kafka.cluster_queries import (
    DescribeClusterRequest,
    DiscoveryRequest,
    DiscoveryResponse,
    FindCoordinatorRequest,
)
from lethe.protocol.kafka.consumers import (
    NO_AUTHORIZED_OPERATIONS,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from lethe.protocol.kafka.control import Addressed, ApiKey, ControlRequest, ControlResponse, api_of
from lethe.protocol.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from lethe.protocol.kafka.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from lethe.protocol.kafka.to_controller import (
    AdminRequest,
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ControllerRequest,
    ControllerResponse,
)
from lethe.protocol.vocabulary import BrokerId, TopicId

UNKNOWN_BYTES: Final = -1
"""Size of a volume that the broker did not report."""


# --- ApiVersions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest:
    client_software_name: str = ""
    client_software_version: str = ""


class ApiVersion(NamedTuple):
    """A broker's version range of one API; the key may be unknown to Lethe."""

    api_key: int
    min_version: int
    max_version: int


class SupportedFeature(NamedTuple):
    name: str
    min_version: int
    max_version: int


class FinalizedFeature(NamedTuple):
    name: str
    max_version_level: int
    min_version_level: int


@dataclass(frozen=True, slots=True)
class ApiVersionsResponse:
    error: int
    apis: tuple[ApiVersion, ...]
    throttle_time_ms: int = 0
    supported_features: tuple[SupportedFeature, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[FinalizedFeature, ...] = ()
    zk_migration_ready: bool = False


# --- Metadata -----------------------------------------------------------------------------------------------------


class MetadataRequestTopic(NamedTuple):
    """A topic by name (every version) or by id (version 12)."""

    name: str | None
    topic_id: TopicId | None = None


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    topics: tuple[MetadataRequestTopic, ...] | None
    """None for all topics; the empty tuple for no topics, which version 0 cannot express."""
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class MetadataBroker(NamedTuple):
    id: BrokerId
    host: str
    port: int
    rack: str | None = None


class MetadataPartition(NamedTuple):
    error: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


class MetadataTopic(NamedTuple):
    error: int
    name: str | None
    """None only if the request named an id that the broker does not have."""
    topic_id: TopicId | None
    is_internal: bool
    partitions: tuple[MetadataPartition, ...]
    authorized_operations: int = NO_AUTHORIZED_OPERATIONS


@dataclass(frozen=True, slots=True)
class MetadataResponse:
    brokers: tuple[MetadataBroker, ...]
    cluster_id: str | None
    controller_id: BrokerId
    topics: tuple[MetadataTopic, ...]
    throttle_time_ms: int = 0
    cluster_authorized_operations: int = NO_AUTHORIZED_OPERATIONS


# --- DescribeLogDirs ----------------------------------------------------------------------------------------------


class DescribableTopic(NamedTuple):
    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescribeLogDirsRequest:
    topics: tuple[DescribableTopic, ...] | None = None
    """None for every replica in every directory."""


class LogDirPartition(NamedTuple):
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirTopic(NamedTuple):
    topic: str
    partitions: tuple[LogDirPartition, ...]


class LogDir(NamedTuple):
    error: int
    path: str
    topics: tuple[LogDirTopic, ...]
    total_bytes: int = UNKNOWN_BYTES
    usable_bytes: int = UNKNOWN_BYTES


@dataclass(frozen=True, slots=True)
class DescribeLogDirsResponse:
    log_dirs: tuple[LogDir, ...]
    error: int = 0
    throttle_time_ms: int = 0


# --- ListGroups ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListGroupsRequest:
    """Without filters it lists every group that the broker coordinates."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class ListedGroup(NamedTuple):
    group: str
    protocol_type: str
    state: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class ListGroupsResponse:
    error: int
    groups: tuple[ListedGroup, ...] = ()
    throttle_time_ms: int = 0


# --- ListTransactions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListTransactionsRequest:
    """Without filters it lists every transactional id that the broker coordinates."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    min_duration_ms: int = -1


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class ListTransactionsResponse:
    error: int
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[ListedTransaction, ...] = ()
    throttle_time_ms: int = 0


# --- requests on a controller's channel to a broker ---------------------------------------------------------------

ChannelRequest = ControlRequest | DescribeLogDirsRequest
"""Among these only DescribeLogDirs carries no broker epoch."""
ChannelResponse = ControlResponse | DescribeLogDirsResponse


def api_of_sent(request: ChannelRequest) -> ApiKey:
    """Return the API that carries the request."""
    return ApiKey.DESCRIBE_LOG_DIRS if isinstance(request, DescribeLogDirsRequest) else api_of(request)


# --- all of them --------------------------------------------------------------------------------------------------

ClientRequest = (
    ApiVersionsRequest
    | MetadataRequest
    | DescribeLogDirsRequest
    | DiscoveryRequest
    | ListGroupsRequest
    | ListTransactionsRequest
    | DescribeGroupsRequest
    | ListOffsetsRequest
    | OffsetFetchRequest
    | OffsetCommitRequest
    | SaslHandshakeRequest
    | SaslAuthenticateRequest
)
ClientResponse = (
    ApiVersionsResponse
    | MetadataResponse
    | DescribeLogDirsResponse
    | DiscoveryResponse
    | ListGroupsResponse
    | ListTransactionsResponse
    | DescribeGroupsResponse
    | ListOffsetsResponse
    | OffsetFetchResponse
    | OffsetCommitResponse
    | SaslHandshakeResponse
    | SaslAuthenticateResponse
)
QueryRequest = ClientRequest | ControllerRequest
QueryResponse = ClientResponse | ControllerResponse
Request = Addressed | QueryRequest
Response = ControlResponse | QueryResponse


_API_OF_ADMIN: Final[Mapping[type[AdminRequest | DiscoveryRequest], ApiKey]] = MappingProxyType(
    {
        CreateTopicsRequest: ApiKey.CREATE_TOPICS,
        DeleteTopicsRequest: ApiKey.DELETE_TOPICS,
        CreatePartitionsRequest: ApiKey.CREATE_PARTITIONS,
        ElectLeadersRequest: ApiKey.ELECT_LEADERS,
        AlterPartitionReassignmentsRequest: ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ListPartitionReassignmentsRequest: ApiKey.LIST_PARTITION_REASSIGNMENTS,
        DescribeConfigsRequest: ApiKey.DESCRIBE_CONFIGS,
        AlterConfigsRequest: ApiKey.ALTER_CONFIGS,
        IncrementalAlterConfigsRequest: ApiKey.INCREMENTAL_ALTER_CONFIGS,
        DescribeUserScramCredentialsRequest: ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        AlterUserScramCredentialsRequest: ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        UpdateFeaturesRequest: ApiKey.UPDATE_FEATURES,
        DescribeClusterRequest: ApiKey.DESCRIBE_CLUSTER,
        FindCoordinatorRequest: ApiKey.FIND_COORDINATOR,
    }
)


def api_of_request(request: Request) -> ApiKey:
    """Return the API that carries the request."""
    if isinstance(request, AdminRequest | DiscoveryRequest):
        return _API_OF_ADMIN[type(request)]
    match request:
        case Addressed(request=control):
            return api_of(control)
        case ApiVersionsRequest():
            return ApiKey.API_VERSIONS
        case MetadataRequest():
            return ApiKey.METADATA
        case DescribeLogDirsRequest():
            return ApiKey.DESCRIBE_LOG_DIRS
        case ControlledShutdownRequest():
            return ApiKey.CONTROLLED_SHUTDOWN
        case AlterPartitionRequest():
            return ApiKey.ALTER_PARTITION
        case AllocateProducerIdsRequest():
            return ApiKey.ALLOCATE_PRODUCER_IDS
        case ListTransactionsRequest():
            return ApiKey.LIST_TRANSACTIONS
        case ListOffsetsRequest():
            return ApiKey.LIST_OFFSETS
        case ListGroupsRequest() | DescribeGroupsRequest() | OffsetFetchRequest() | OffsetCommitRequest():
            return _api_of_groups(request)
        case SaslHandshakeRequest() | SaslAuthenticateRequest():
            return ApiKey.SASL_HANDSHAKE if isinstance(request, SaslHandshakeRequest) else ApiKey.SASL_AUTHENTICATE


def _api_of_groups(
    request: ListGroupsRequest | DescribeGroupsRequest | OffsetFetchRequest | OffsetCommitRequest,
) -> ApiKey:
    match request:
        case ListGroupsRequest():
            return ApiKey.LIST_GROUPS
        case DescribeGroupsRequest():
            return ApiKey.DESCRIBE_GROUPS
        case OffsetFetchRequest():
            return ApiKey.OFFSET_FETCH
        case OffsetCommitRequest():
            return ApiKey.OFFSET_COMMIT
