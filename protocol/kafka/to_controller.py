"""Requests of brokers to their controller, and its responses, independent of version.

At the end are the unions of all requests to a controller, with those of clients (`admin`, `admin_partitions`,
`admin_configs`, `admin_cluster`).

A field that a version lacks has its default after decoding and is dropped on encoding, like Kafka's ignorable fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.protocol.kafka.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    TopicRequest,
    TopicResponse,
    topic_error_response,
    topic_errors,
)
from lethe.protocol.kafka.admin_cluster import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ClusterRequest,
    ClusterResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    cluster_error_response,
    cluster_errors,
)
from lethe.protocol.kafka.admin_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    ConfigsRequest,
    ConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    configs_error_response,
    configs_errors,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    PartitionRequest,
    PartitionResponse,
    partition_error_response,
    partition_errors,
)
from lethe.protocol.vocabulary import NO_BROKER, NO_EPOCH, BrokerEpoch, BrokerId, RecoveryState, TopicId

# --- ControlledShutdown -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ControlledShutdownRequest:
    broker_id: BrokerId = NO_BROKER
    broker_epoch: BrokerEpoch = NO_EPOCH
    """Encoded from version 2 on."""


class RemainingPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class ControlledShutdownResponse:
    error: int
    remaining: tuple[RemainingPartition, ...] = ()
    """Partitions that the broker still leads. If empty, and without an error, the broker may stop."""


# --- AlterPartition -----------------------------------------------------------------------------------------------


class AlterPartition(NamedTuple):
    """The ISR that a leader proposes for one of its partitions, and the state on which the proposal is based."""

    partition: int
    leader_epoch: int
    new_isr: tuple[int, ...]
    recovery_state: int
    """A RecoveryState, or another number that the leader sent; RECOVERED in version 0, which does not carry it."""
    partition_epoch: int
    """Data version of the state znode according to the leader."""
    isr_epochs: tuple[BrokerEpoch, ...] = ()
    """One broker epoch per member of `new_isr`. Empty before version 3, and if every epoch is -1."""


class AlterPartitionTopic(NamedTuple):
    """`topic` is set up to version 1, `topic_id` from version 2 on; the other one is None."""

    topic: str | None
    topic_id: TopicId | None
    partitions: tuple[AlterPartition, ...]


@dataclass(frozen=True, slots=True)
class AlterPartitionRequest:
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    topics: tuple[AlterPartitionTopic, ...]


class AlteredPartition(NamedTuple):
    """The state after the request; or the error, with Kafka's defaults in the other fields."""

    partition: int
    error: int
    leader: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    recovery_state: int = RecoveryState.RECOVERED
    """Encoded from version 1 on."""
    partition_epoch: int = 0


class AlteredTopic(NamedTuple):
    """Named as in the request: by `topic` up to version 1, by `topic_id` from version 2 on."""

    topic: str | None
    topic_id: TopicId | None
    partitions: tuple[AlteredPartition, ...]


@dataclass(frozen=True, slots=True)
class AlterPartitionResponse:
    error: int
    topics: tuple[AlteredTopic, ...] = ()
    """Empty if `error` is set."""
    throttle_time_ms: int = 0


# --- AllocateProducerIds ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsRequest:
    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsResponse:
    """Without an error, the broker alone owns `id_count` ids from `first_id` on."""

    error: int
    first_id: int = 0
    id_count: int = 0
    throttle_time_ms: int = 0


# --- all of them --------------------------------------------------------------------------------------------------

BrokersRequest = ControlledShutdownRequest | AlterPartitionRequest | AllocateProducerIdsRequest
BrokersResponse = ControlledShutdownResponse | AlterPartitionResponse | AllocateProducerIdsResponse
AdminRequest = TopicRequest | PartitionRequest | ConfigsRequest | ClusterRequest
AdminResponse = TopicResponse | PartitionResponse | ConfigsResponse | ClusterResponse
ControllerRequest = BrokersRequest | AdminRequest
ControllerResponse = BrokersResponse | AdminResponse


def request_name(request: ControllerRequest) -> str:
    """Return the name that Kafka has for the request, such as AlterPartition."""
    return type(request).__name__.removesuffix("Request")


def error_response(request: ControllerRequest, error: int, message: str | None = None) -> ControllerResponse:
    """Return the response with this error for the whole request: at the top where the response has one, and for each
    thing that a client's request names. Responses to brokers have no message."""
    match request:
        case ControlledShutdownRequest():
            return ControlledShutdownResponse(error)
        case AlterPartitionRequest():
            return AlterPartitionResponse(error)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(error)
        case CreateTopicsRequest() | DeleteTopicsRequest() | CreatePartitionsRequest():
            return topic_error_response(request, error, message)
        case ElectLeadersRequest() | AlterPartitionReassignmentsRequest() | ListPartitionReassignmentsRequest():
            return partition_error_response(request, error, message)
        case AlterConfigsRequest() | IncrementalAlterConfigsRequest() | DescribeConfigsRequest():
            return configs_error_response(request, error, message)
        case AlterUserScramCredentialsRequest() | DescribeUserScramCredentialsRequest() | UpdateFeaturesRequest():
            return cluster_error_response(request, error, message)


def errors_of(response: ControllerResponse) -> tuple[int, ...]:
    """Return each error in the response, as Kafka counts them: at the top, where the response has one, and by row."""
    match response:
        case AlterPartitionResponse(error=error, topics=topics):
            return (error, *(row.error for topic in topics for row in topic.partitions))
        case ControlledShutdownResponse() | AllocateProducerIdsResponse():
            return (response.error,)
        case CreateTopicsResponse() | DeleteTopicsResponse() | CreatePartitionsResponse():
            return topic_errors(response)
        case ElectLeadersResponse() | AlterPartitionReassignmentsResponse() | ListPartitionReassignmentsResponse():
            return partition_errors(response)
        case AlterConfigsResponse() | DescribeConfigsResponse():
            return configs_errors(response)
        case AlterUserScramCredentialsResponse() | DescribeUserScramCredentialsResponse() | UpdateFeaturesResponse():
            return cluster_errors(response)
