"""Which right each request needs: Kafka's checks (KafkaApis of 3.9), as one table.

    where          the resource is                      without the right
    CLUSTER        the cluster                          the request is refused
    REQUEST        the one that the request is about    the request is refused
    EACH           each one that the request names      that one is answered with an error, the others as usual
    ANSWER         each one in the answer               an error if the request named it; otherwise it is left out
    CHANGE         each one that is to be changed       that one is answered with an error and stays as it is

Only the controller resolves what is to be changed (a topic may be named by its id), so the core applies CHANGE.

`error_of` is the error of a refusal. What is refused looks the same whether it exists or not. ApiVersions and
DescribeCluster need no right. SaslHandshake and SaslAuthenticate come before there is a principal, and are not in the
table.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.protocol.kafka.admin import CreatePartitionsResponse, CreateTopicsResponse, DeleteTopicsResponse
from lethe.protocol.kafka.admin_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    TOPIC_RESOURCE,
    AlterConfigsResponse,
    DescribeConfigsRequest,
)
from lethe.protocol.kafka.cluster_queries import GROUP, SHARE, TRANSACTION, FindCoordinatorRequest
from lethe.protocol.kafka.consumers import DescribeGroupsRequest, ListOffsetsRequest
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.group_offsets import OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse
from lethe.protocol.kafka.queries import (
    ListGroupsResponse,
    ListTransactionsResponse,
    MetadataResponse,
    Request,
    Response,
    api_of_request,
)
from lethe.protocol.security.acls import CLUSTER_NAME, Operation, ResourceType
from lethe.protocol.security.authorizer import Action, Authorizer, Client, Sender, cluster_action

_OF_CLUSTER: Final = frozenset({BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE})


class Where(enum.Enum):
    """Where the names of the resources stand."""

    CLUSTER = "nowhere: it is the cluster"
    REQUEST = "in the request, one"
    EACH = "in the request, several"
    ANSWER = "in the answer, several"
    CHANGE = "in the request, several: each is checked before it is changed"


class Right(NamedTuple):
    """One check that an API needs."""

    operation: Operation
    resource_type: ResourceType
    where: Where
    names: Callable[[Request | Response], tuple[str, ...]]
    """Names of the resources in the request, or in the answer: with ANSWER all of them, with CHANGE the refused ones.
    Each once, in their order."""
    unless: Action | None = None
    """A client that is allowed this needs no check of each resource."""

    def actions(self, message: Request | Response) -> tuple[Action, ...]:
        """Return what is to be allowed; `message` is the request, or with ANSWER and CHANGE the answer."""
        return tuple(Action(self.operation, self.resource_type, name) for name in self.names(message))


def config_action(operation: Operation, resource_type: int, name: str) -> Action | None:
    """Return what describing or altering this resource is; None for a type that Kafka refuses with INVALID_REQUEST."""
    if resource_type in _OF_CLUSTER:
        return cluster_action(operation)
    return Action(operation, ResourceType.TOPIC, name) if resource_type == TOPIC_RESOURCE else None


def coordinator_action(key_type: int, key: str) -> Action | None:
    """Return what finding the coordinator of this key is; None for a type that Kafka does not have."""
    if key_type == SHARE:
        return cluster_action(Operation.CLUSTER_ACTION)
    resource_type = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}.get(key_type)
    return None if resource_type is None else Action(Operation.DESCRIBE, resource_type, key)


# --- names --------------------------------------------------------------------------------------------------------


def _cluster(_: Request | Response) -> tuple[str, ...]:
    return (CLUSTER_NAME,)


def _group(message: Request | Response) -> tuple[str, ...]:
    return (message.group,) if isinstance(message, OffsetCommitRequest | OffsetFetchRequest) else ()


def _described_groups(message: Request | Response) -> tuple[str, ...]:
    return tuple(dict.fromkeys(message.groups)) if isinstance(message, DescribeGroupsRequest) else ()


def _topics(message: Request | Response) -> tuple[str, ...]:
    match message:
        case MetadataResponse(topics=topics):
            return tuple(dict.fromkeys(topic.name for topic in topics if topic.name is not None))
        case OffsetCommitRequest(topics=to_commit):
            return tuple(dict.fromkeys(topic.topic for topic in to_commit))
        case ListOffsetsRequest(topics=to_list):
            return tuple(dict.fromkeys(topic.topic for topic in to_list))
        case OffsetFetchResponse(topics=fetched):
            return tuple(dict.fromkeys(topic.topic for topic in fetched))
        case _:
            return ()


def _described(resource_type: ResourceType) -> Callable[[Request | Response], tuple[str, ...]]:
    def names(message: Request | Response) -> tuple[str, ...]:
        resources = message.resources if isinstance(message, DescribeConfigsRequest) else ()
        actions = filter(None, (config_action(Operation.DESCRIBE_CONFIGS, *each[:2]) for each in resources))
        return tuple(dict.fromkeys(action.name for action in actions if action.resource_type is resource_type))

    return names


def _coordinated(resource_type: ResourceType) -> Callable[[Request | Response], tuple[str, ...]]:
    def names(message: Request | Response) -> tuple[str, ...]:
        if not isinstance(message, FindCoordinatorRequest):
            return ()
        actions = (coordinator_action(message.key_type, key) for key in message.keys)
        return tuple(dict.fromkeys(each.name for each in actions if each and each.resource_type is resource_type))

    return names


def _listed_groups(message: Request | Response) -> tuple[str, ...]:
    return tuple(group.group for group in message.groups) if isinstance(message, ListGroupsResponse) else ()


def _listed_transactions(message: Request | Response) -> tuple[str, ...]:
    listed = message.transactions if isinstance(message, ListTransactionsResponse) else ()
    return tuple(transaction.transactional_id for transaction in listed)


def _refused_topics(message: Request | Response) -> tuple[str, ...]:
    """Return the topics that the controller refused to change, but for those that were named by their ids."""
    if not isinstance(message, CreateTopicsResponse | DeleteTopicsResponse | CreatePartitionsResponse):
        return ()
    refused = (each.name for each in message.topics if each.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return tuple(dict.fromkeys(name for name in refused if name is not None))


def _refused_configs(resource_type: ResourceType) -> Callable[[Request | Response], tuple[str, ...]]:
    """Return what names the topics, or the cluster, whose configuration the controller refused to alter."""

    def names(message: Request | Response) -> tuple[str, ...]:
        rows = message.resources if isinstance(message, AlterConfigsResponse) else ()
        refused = (each for each in rows if each.error == _ERRORS[resource_type])
        actions = filter(None, (config_action(Operation.ALTER_CONFIGS, each.type, each.name) for each in refused))
        return tuple(dict.fromkeys(action.name for action in actions))

    return names


# --- the table ----------------------------------------------------------------------------------------------------


def _on_cluster(operation: Operation) -> tuple[Right, ...]:
    return (Right(operation, ResourceType.CLUSTER, Where.CLUSTER, _cluster),)


_ALTER_CONFIGS: Final = tuple(
    Right(Operation.ALTER_CONFIGS, resource_type, Where.CHANGE, _refused_configs(resource_type))
    for resource_type in (ResourceType.CLUSTER, ResourceType.TOPIC)
)

RIGHTS: Final[Mapping[ApiKey, tuple[Right, ...]]] = MappingProxyType(
    {
        ApiKey.LIST_OFFSETS: (Right(Operation.DESCRIBE, ResourceType.TOPIC, Where.EACH, _topics),),
        ApiKey.METADATA: (Right(Operation.DESCRIBE, ResourceType.TOPIC, Where.ANSWER, _topics),),
        ApiKey.LEADER_AND_ISR: _on_cluster(Operation.CLUSTER_ACTION),
        ApiKey.STOP_REPLICA: _on_cluster(Operation.CLUSTER_ACTION),
        ApiKey.UPDATE_METADATA: _on_cluster(Operation.CLUSTER_ACTION),
        ApiKey.CONTROLLED_SHUTDOWN: _on_cluster(Operation.CLUSTER_ACTION),
        ApiKey.OFFSET_COMMIT: (
            Right(Operation.READ, ResourceType.GROUP, Where.REQUEST, _group),
            Right(Operation.READ, ResourceType.TOPIC, Where.EACH, _topics),
        ),
        ApiKey.OFFSET_FETCH: (
            Right(Operation.DESCRIBE, ResourceType.GROUP, Where.REQUEST, _group),
            Right(Operation.DESCRIBE, ResourceType.TOPIC, Where.ANSWER, _topics),
        ),
        ApiKey.FIND_COORDINATOR: (
            Right(Operation.DESCRIBE, ResourceType.GROUP, Where.EACH, _coordinated(ResourceType.GROUP)),
            Right(
                Operation.DESCRIBE,
                ResourceType.TRANSACTIONAL_ID,
                Where.EACH,
                _coordinated(ResourceType.TRANSACTIONAL_ID),
            ),
            Right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, Where.EACH, _coordinated(ResourceType.CLUSTER)),
        ),
        ApiKey.DESCRIBE_CLUSTER: (),
        ApiKey.DESCRIBE_GROUPS: (Right(Operation.DESCRIBE, ResourceType.GROUP, Where.EACH, _described_groups),),
        ApiKey.LIST_GROUPS: (
            Right(
                Operation.DESCRIBE,
                ResourceType.GROUP,
                Where.ANSWER,
                _listed_groups,
                unless=cluster_action(Operation.DESCRIBE),
            ),
        ),
        ApiKey.API_VERSIONS: (),
        ApiKey.DESCRIBE_CONFIGS: (
            Right(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, Where.EACH, _described(ResourceType.CLUSTER)),
            Right(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, Where.EACH, _described(ResourceType.TOPIC)),
        ),
        ApiKey.ALTER_CONFIGS: _ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _ALTER_CONFIGS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _on_cluster(Operation.DESCRIBE),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _on_cluster(Operation.ALTER),
        ApiKey.UPDATE_FEATURES: _on_cluster(Operation.ALTER),
        ApiKey.DESCRIBE_LOG_DIRS: _on_cluster(Operation.DESCRIBE),
        ApiKey.CREATE_TOPICS: (
            Right(
                Operation.CREATE,
                ResourceType.TOPIC,
                Where.CHANGE,
                _refused_topics,
                unless=cluster_action(Operation.CREATE),
            ),
        ),
        ApiKey.DELETE_TOPICS: (Right(Operation.DELETE, ResourceType.TOPIC, Where.CHANGE, _refused_topics),),
        ApiKey.CREATE_PARTITIONS: (Right(Operation.ALTER, ResourceType.TOPIC, Where.CHANGE, _refused_topics),),
        ApiKey.ELECT_LEADERS: _on_cluster(Operation.ALTER),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _on_cluster(Operation.ALTER),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _on_cluster(Operation.DESCRIBE),
        ApiKey.ALTER_PARTITION: _on_cluster(Operation.CLUSTER_ACTION),
        ApiKey.LIST_TRANSACTIONS: (
            Right(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, Where.ANSWER, _listed_transactions),
        ),
        ApiKey.ALLOCATE_PRODUCER_IDS: _on_cluster(Operation.CLUSTER_ACTION),
    }
)
_ERRORS: Final = MappingProxyType(
    {
        ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def error_of(action: Action) -> ErrorCode:
    """Return the error that answers a refused action. Raises KeyError for types that no request here is about."""
    return _ERRORS[action.resource_type]


def refused_action(authorizer: Authorizer, client: Client, request: Request) -> Action | None:
    """Return the action because of which the whole request is refused; None if it is not.

    Single resources may still be refused: those of rights with EACH and ANSWER. Raises KeyError for an API without an
    entry in the table.
    """
    for right in RIGHTS[api_of_request(request)]:
        if right.where in (Where.CLUSTER, Where.REQUEST):
            for action in right.actions(request):
                if not authorizer.allows(client, action):
                    return action
    return None


def may_change(sender: Sender, api: ApiKey, topic: str) -> bool:
    """Return whether the sender may do to the topic what this request does: the rights with CHANGE."""
    return all(
        (right.unless is not None and sender.allows(right.unless))
        or sender.allows(Action(right.operation, right.resource_type, topic))
        for right in RIGHTS[api]
        if right.where is Where.CHANGE
    )


def refused_actions(
    authorizer: Authorizer, client: Client, api: ApiKey, message: Request | Response, where: Where
) -> frozenset[Action]:
    """Return what is refused to the client: of the request with EACH, of the answer with ANSWER and CHANGE."""
    return frozenset(
        action
        for right in RIGHTS[api]
        if right.where is where and (right.unless is None or not authorizer.allows(client, right.unless))
        for action in right.actions(message)
        if not authorizer.allows(client, action)
    )
