"""Answers to requests that are refused, or refused in part, as Kafka gives them (KafkaApis of 3.9).

request                                      without the right
LeaderAndIsr, StopReplica                    the error at the top and for each partition
UpdateMetadata, ControlledShutdown, AlterPartition, AllocateProducerIds, DescribeLogDirs    the error at the top
ElectLeaders, AlterPartitionReassignments    the error at the top and for each partition that is named
ListPartitionReassignments                   the error at the top
DescribeUserScramCredentials, UpdateFeatures the error at the top
AlterUserScramCredentials                    the error for each user
AlterConfigs, IncrementalAlterConfigs        the error for each resource that is refused
DescribeConfigs                              the error for each resource that is refused
FindCoordinator                              the error for each key that is refused
Metadata of named topics                     the error for each topic that is refused, without its id
Metadata of all topics, ListGroups, ListTransactions      what is refused is left out
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lethe.protocol.kafka.admin_cluster import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    UpdateFeaturesRequest,
)
from lethe.protocol.kafka.admin_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from lethe.protocol.kafka.cluster_queries import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from lethe.protocol.kafka.control import Addressed, uniform_response
from lethe.protocol.kafka.errors import ErrorCode, error_message
from lethe.protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ListGroupsResponse,
    ListTransactionsResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    Request,
    Response,
)
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    error_response,
)
from lethe.protocol.security.acls import Operation
from lethe.protocol.security.authorizer import Action
from lethe.protocol.security.rights import config_action, coordinator_action, error_of


def refused_response(request: Request, action: Action) -> Response:
    """Return the answer to a request that is refused as a whole. Raises KeyError for one that has no such answer."""
    error = error_of(action)
    match request:
        case Addressed(request=control):
            return uniform_response(control, error)
        case ControlledShutdownRequest() | AlterPartitionRequest() | AllocateProducerIdsRequest():
            return error_response(request, error)
        case ElectLeadersRequest() | AlterPartitionReassignmentsRequest() | ListPartitionReassignmentsRequest():
            return error_response(request, error)
        case UpdateFeaturesRequest():
            # The others leave the words to the client.
            return error_response(request, error, error_message(error))
        case AlterUserScramCredentialsRequest() | DescribeUserScramCredentialsRequest():
            return error_response(request, error)
        case DescribeLogDirsRequest():
            return DescribeLogDirsResponse((), error)
        case _:
            raise KeyError(type(request).__name__)


def filtered_response(request: Request, response: Response, refused: Collection[Action]) -> Response:
    """Return the answer without what is refused, or with the error in its place."""
    names = {action.name for action in refused}
    match request, response:
        case MetadataRequest(), MetadataResponse():
            return _metadata(response, names, request)
        case DescribeConfigsRequest(), DescribeConfigsResponse():
            return replace(response, results=tuple(_described(each, refused) for each in response.results))
        case FindCoordinatorRequest(key_type=kind), FindCoordinatorResponse():
            rows = zip(request.keys, response.coordinators, strict=True)
            return replace(response, coordinators=tuple(_found(kind, key, row, refused) for key, row in rows))
        case _, ListGroupsResponse():
            return replace(response, groups=tuple(each for each in response.groups if each.group not in names))
        case _, ListTransactionsResponse():
            left = tuple(each for each in response.transactions if each.transactional_id not in names)
            return replace(response, transactions=left)
        case _:
            return response


def _metadata(response: MetadataResponse, names: Collection[str], wanted: MetadataRequest) -> MetadataResponse:
    if wanted.topics is None:
        return replace(response, topics=tuple(topic for topic in response.topics if topic.name not in names))
    are_named = all(topic.topic_id is None for topic in wanted.topics)
    return replace(
        response,
        topics=tuple(_refused_topic(t, keeps_name=are_named) if t.name in names else t for t in response.topics),
    )


def _refused_topic(topic: MetadataTopic, *, keeps_name: bool) -> MetadataTopic:
    """Return a topic's row with the error, under what the request called the topic."""
    name, topic_id = (topic.name, None) if keeps_name else (None, topic.topic_id)
    return MetadataTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, topic_id, False, ())


def _described(result: DescribedConfigs, refused: Collection[Action]) -> DescribedConfigs:
    action = config_action(Operation.DESCRIBE_CONFIGS, result.resource_type, result.resource_name)
    if action is None or action not in refused:
        return result
    error = error_of(action)
    return DescribedConfigs(error, error_message(error), result.resource_type, result.resource_name, ())


def _found(key_type: int, key: str, row: Coordinator, refused: Collection[Action]) -> Coordinator:
    action = coordinator_action(key_type, key)
    if action is None or action not in refused:
        return row
    error = error_of(action)
    return Coordinator(row.key, error, error_message(error) if row.error_message else "")
