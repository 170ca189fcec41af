"""Answer DescribeCluster and FindCoordinator from the metadata cache, as Kafka 3.9 in ZooKeeper mode does.

An agent coordinates nothing itself, but in a cluster with brokers of Kafka it names the one that does: the leader of
the partition of `__consumer_offsets` or `__transaction_state` to which the key belongs. Where there is none, clients
receive COORDINATOR_NOT_AVAILABLE. A broker of Kafka then creates these topics. An agent does not, because nobody could
use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lethe.broker.core.metadata_cache import MetadataCache
from lethe.broker.core.queries import RequestContext, live_nodes
from lethe.protocol.kafka.cluster_queries import (
    BROKERS,
    GROUP,
    SHARE,
    TRANSACTION,
    Coordinator,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedBroker,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from lethe.protocol.kafka.consumers import NO_AUTHORIZED_OPERATIONS
from lethe.protocol.kafka.errors import ErrorCode, error_message
from lethe.protocol.kafka.group_offsets import coordinator_partition
from lethe.protocol.security.authorized_operations import cluster_operations
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, NO_BROKER, TRANSACTION_STATE_TOPIC, BrokerId

_CONTROLLERS: Final = 2
_TOPICS: Final[Mapping[int, str]] = MappingProxyType(
    {GROUP: GROUP_METADATA_TOPIC, TRANSACTION: TRANSACTION_STATE_TOPIC}
)
_SHARE_SINCE: Final = 6
_MESSAGE_BEFORE: Final = 4
"""Kafka leaves the message of later versions empty."""


def answer_describe_cluster(
    cache: MetadataCache, request: DescribeClusterRequest, context: RequestContext, cluster_id: str
) -> DescribeClusterResponse:
    """The live brokers that have the listener of the request; a controller is named if it is among them."""
    if request.endpoint_type != BROKERS:
        return _wrong_endpoint(request.endpoint_type, context.version)
    brokers = tuple(DescribedBroker(*node) for node in live_nodes(cache, context.listener))
    is_listed = any(broker.id == cache.controller_id for broker in brokers)
    controller = NO_BROKER if cache.controller_id is None or not is_listed else BrokerId(cache.controller_id)
    asked = request.include_cluster_authorized_operations
    operations = cluster_operations(context.sender) if asked else NO_AUTHORIZED_OPERATIONS
    return DescribeClusterResponse(cluster_id, controller, brokers, operations)


def _wrong_endpoint(endpoint_type: int, version: int) -> DescribeClusterResponse:
    if endpoint_type == _CONTROLLERS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    else:
        error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"Unsupported endpoint type {endpoint_type}"
    return DescribeClusterResponse(
        "", error=ErrorCode.INVALID_REQUEST if version == 0 else error, error_message=message
    )


def answer_find_coordinator(
    cache: MetadataCache, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    """One row for each key. What the sender may not describe is refused afterwards, by the process's authorizer."""
    return FindCoordinatorResponse(tuple(_coordinator(cache, key, request.key_type, context) for key in request.keys))


def _coordinator(cache: MetadataCache, key: str, key_type: int, context: RequestContext) -> Coordinator:
    node = None
    if key_type in _TOPICS:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        partitions = cache.topics.get(_TOPICS[key_type], {})
        owner = partitions.get(coordinator_partition(key, len(partitions))) if partitions else None
        if owner is not None:
            node = next((each for each in live_nodes(cache, context.listener) if each.id == owner.leader), None)
    elif key_type == SHARE:
        is_known = context.version >= _SHARE_SINCE
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if is_known else ErrorCode.INVALID_REQUEST
    else:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    error = error if node is None else ErrorCode.NONE
    message = error_message(error) if context.version < _MESSAGE_BEFORE else ""
    if node is None:
        return Coordinator(key, error, message)
    return Coordinator(key, error, message, node.id, node.host, node.port)
