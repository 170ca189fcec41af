from __future__ import annotations

import pytest

from lethe.protocol.kafka.admin import (
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
from lethe.protocol.kafka.admin_cluster import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    UpdateFeaturesRequest,
)
from lethe.protocol.kafka.admin_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    AlterConfigsResponse,
    AlteredResource,
    DescribableConfigs,
    DescribeConfigsRequest,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from lethe.protocol.kafka.cluster_queries import GROUP, SHARE, TRANSACTION, FindCoordinatorRequest
from lethe.protocol.kafka.consumers import DescribeGroupsRequest, ListOffsetsRequest, TopicToList
from lethe.protocol.kafka.control import Addressed, ApiKey, StopReplicaRequest
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.group_offsets import (
    FetchedTopic,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TopicToCommit,
)
from lethe.protocol.kafka.queries import (
    ApiVersionsRequest,
    DescribeLogDirsRequest,
    ListedGroup,
    ListedTransaction,
    ListGroupsRequest,
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
)
from lethe.protocol.security.acls import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from lethe.protocol.security.authorizer import Acls, Action, Authorizer, Client, Sender, cluster_action
from lethe.protocol.security.principals import Principal
from lethe.protocol.security.rights import (
    RIGHTS,
    Where,
    config_action,
    error_of,
    may_change,
    refused_action,
    refused_actions,
)
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, ControllerEpoch

ANN = Client(Principal("User", "ann"), "10.0.0.1")
NOBODY = Authorizer(Acls.of({}))
CLUSTER_ACTION = cluster_action(Operation.CLUSTER_ACTION)


def allowed(*actions: Action) -> Authorizer:
    """An authorizer that allows ann exactly this."""
    acls: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
    for operation, resource_type, name in actions:
        resource = ResourcePattern(resource_type, PatternType.LITERAL, name)
        acls[resource] = (*acls.get(resource, ()), AclEntry(ANN.principal, "*", operation, Permission.ALLOW))
    return Authorizer(Acls.of(acls))


def test_every_api_has_its_rights() -> None:
    before_a_principal = {api for api in ApiKey if api.name.startswith("SASL_")}
    assert set(RIGHTS) == set(ApiKey) - before_a_principal


@pytest.mark.parametrize(
    "request_, needed",
    [
        (
            Addressed(StopReplicaRequest(BrokerId(1), ControllerEpoch(1), ()), BrokerEpoch(1)),
            CLUSTER_ACTION,
        ),
        (ControlledShutdownRequest(), CLUSTER_ACTION),
        (AlterPartitionRequest(BrokerId(1), BrokerEpoch(1), ()), CLUSTER_ACTION),
        (AllocateProducerIdsRequest(BrokerId(1), BrokerEpoch(1)), CLUSTER_ACTION),
        (DescribeLogDirsRequest(), cluster_action(Operation.DESCRIBE)),
        (ElectLeadersRequest(None, 0), cluster_action(Operation.ALTER)),
        (AlterPartitionReassignmentsRequest((), 0), cluster_action(Operation.ALTER)),
        (ListPartitionReassignmentsRequest(None, 0), cluster_action(Operation.DESCRIBE)),
        (AlterUserScramCredentialsRequest((), ()), cluster_action(Operation.ALTER)),
        (DescribeUserScramCredentialsRequest(None), cluster_action(Operation.DESCRIBE)),
        (UpdateFeaturesRequest((), 0), cluster_action(Operation.ALTER)),
        (OffsetCommitRequest("g", ()), Action(Operation.READ, ResourceType.GROUP, "g")),
        (OffsetFetchRequest("g"), Action(Operation.DESCRIBE, ResourceType.GROUP, "g")),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_request_is_refused_without_the_right_that_it_needs(request_: Request, needed: Action) -> None:
    assert refused_action(NOBODY, ANN, request_) == needed
    assert refused_action(allowed(needed), ANN, request_) is None


CHANGES = [
    CreateTopicsRequest((CreatableTopic("a", 1, 1),), 0),
    DeleteTopicsRequest((DeletableTopic("a"),), 0),
    CreatePartitionsRequest((GrowableTopic("a", 2),), 0),
]


@pytest.mark.parametrize("request_", [ApiVersionsRequest(), MetadataRequest(None), ListGroupsRequest(), *CHANGES])
def test_these_are_never_refused_as_a_whole(request_: Request) -> None:
    assert refused_action(NOBODY, ANN, request_) is None


@pytest.mark.parametrize(
    "api, operation",
    [
        (ApiKey.CREATE_TOPICS, Operation.CREATE),
        (ApiKey.DELETE_TOPICS, Operation.DELETE),
        (ApiKey.CREATE_PARTITIONS, Operation.ALTER),
    ],
)
def test_each_topic_needs_a_right_before_it_is_changed(api: ApiKey, operation: Operation) -> None:
    needed = Action(operation, ResourceType.TOPIC, "a")
    assert may_change(Sender(ANN, allowed(needed)), api, "a")
    assert not may_change(Sender(ANN, allowed(needed)), api, "b")
    assert not may_change(Sender(ANN, NOBODY), api, "a")
    assert may_change(Sender(ANN), api, "a")
    of_cluster = Sender(ANN, allowed(cluster_action(operation)))
    assert may_change(of_cluster, api, "a") is (api is ApiKey.CREATE_TOPICS)


@pytest.mark.parametrize(
    "api, answer",
    [
        (ApiKey.CREATE_TOPICS, CreateTopicsResponse((CreatedTopic("a", 29), CreatedTopic("b", 36)))),
        (ApiKey.DELETE_TOPICS, DeleteTopicsResponse((DeletedTopic("a", None, 29), DeletedTopic(None, None, 29)))),
        (ApiKey.CREATE_PARTITIONS, CreatePartitionsResponse((GrownTopic("a", 29), GrownTopic("b", 0)))),
    ],
)
def test_topics_that_the_controller_refused_to_change_are_found_in_its_answer(api: ApiKey, answer: Response) -> None:
    (refused,) = refused_actions(NOBODY, ANN, api, answer, Where.CHANGE)
    assert refused.name == "a"
    assert refused_actions(allowed(refused), ANN, api, answer, Where.CHANGE) == frozenset()


def metadata(*names: str | None) -> MetadataResponse:
    return MetadataResponse((), "c", BrokerId(1), tuple(MetadataTopic(0, name, None, False, ()) for name in names))


@pytest.mark.parametrize(
    "api, answer, refused",
    [
        (ApiKey.METADATA, metadata("a", "b", None), Action(Operation.DESCRIBE, ResourceType.TOPIC, "b")),
        (
            ApiKey.OFFSET_FETCH,
            OffsetFetchResponse((FetchedTopic("a", ()), FetchedTopic("b", ()))),
            Action(Operation.DESCRIBE, ResourceType.TOPIC, "b"),
        ),
        (
            ApiKey.LIST_GROUPS,
            ListGroupsResponse(0, (ListedGroup("a", ""), ListedGroup("b", ""))),
            Action(Operation.DESCRIBE, ResourceType.GROUP, "b"),
        ),
        (
            ApiKey.LIST_TRANSACTIONS,
            ListTransactionsResponse(0, (), (ListedTransaction("a", 1, ""), ListedTransaction("b", 2, ""))),
            Action(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "b"),
        ),
    ],
)
def test_what_a_client_may_not_see_in_an_answer_is_found(api: ApiKey, answer: Response, refused: Action) -> None:
    rights = allowed(refused._replace(name="a"))
    assert refused_actions(rights, ANN, api, answer, Where.ANSWER) == {refused}
    assert refused_actions(rights, ANN, api, answer, Where.EACH) == frozenset()


def test_describing_the_cluster_shows_every_group() -> None:
    answer = ListGroupsResponse(0, (ListedGroup("a", ""),))
    rights = allowed(cluster_action(Operation.DESCRIBE))
    assert refused_actions(rights, ANN, ApiKey.LIST_GROUPS, answer, Where.ANSWER) == frozenset()


def test_each_topic_of_a_commit_is_looked_at() -> None:
    request = OffsetCommitRequest("g", (TopicToCommit("a", ()), TopicToCommit("b", ())))
    rights = allowed(Action(Operation.READ, ResourceType.TOPIC, "a"))
    refused = refused_actions(rights, ANN, ApiKey.OFFSET_COMMIT, request, Where.EACH)
    assert refused == {Action(Operation.READ, ResourceType.TOPIC, "b")}


def test_each_group_and_topic_that_is_asked_about_is_looked_at() -> None:
    groups = DescribeGroupsRequest(("a", "b"))
    group = Action(Operation.DESCRIBE, ResourceType.GROUP, "b")
    rights = allowed(group._replace(name="a"))
    assert refused_actions(rights, ANN, ApiKey.DESCRIBE_GROUPS, groups, Where.EACH) == {group}
    offsets = ListOffsetsRequest((TopicToList("a", ()), TopicToList("b", ())))
    topic = Action(Operation.DESCRIBE, ResourceType.TOPIC, "b")
    rights = allowed(topic._replace(name="a"))
    assert refused_actions(rights, ANN, ApiKey.LIST_OFFSETS, offsets, Where.EACH) == {topic}


@pytest.mark.parametrize("api", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS], ids=str)
def test_what_may_not_be_altered_is_noted_by_the_right_that_is_missing(api: ApiKey) -> None:
    rows = (AlteredResource(31, None, 4, "1"), AlteredResource(29, None, 2, "t"), AlteredResource(42, None, 2, "u"))
    topic = Action(Operation.ALTER_CONFIGS, ResourceType.TOPIC, "t")
    refused = refused_actions(NOBODY, ANN, api, AlterConfigsResponse(rows), Where.CHANGE)
    assert refused == {topic, cluster_action(Operation.ALTER_CONFIGS)}


def test_the_settings_of_topics_and_those_of_brokers_need_different_rights() -> None:
    resources = (
        DescribableConfigs(2, "kafka-cluster"),
        DescribableConfigs(BROKER_RESOURCE, "1"),
        DescribableConfigs(BROKER_LOGGER_RESOURCE, "1"),
        DescribableConfigs(99, "x"),
    )
    topic = Action(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "kafka-cluster")
    cluster = cluster_action(Operation.DESCRIBE_CONFIGS)
    assert [config_action(Operation.DESCRIBE_CONFIGS, *each[:2]) for each in resources] == [
        topic,
        cluster,
        cluster,
        None,
    ]
    request = DescribeConfigsRequest(resources)
    assert refused_actions(NOBODY, ANN, ApiKey.DESCRIBE_CONFIGS, request, Where.EACH) == {topic, cluster}
    assert refused_actions(allowed(topic), ANN, ApiKey.DESCRIBE_CONFIGS, request, Where.EACH) == {cluster}
    assert refused_action(NOBODY, ANN, request) is None


def test_refusals_have_the_errors_of_kafka() -> None:
    assert error_of(CLUSTER_ACTION) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    of_types = (ResourceType.CLUSTER, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    assert [int(error_of(Action(Operation.READ, each, "x"))) for each in of_types] == [31, 29, 30, 53]


@pytest.mark.parametrize(
    "key_type,needed",
    [
        (GROUP, Action(Operation.DESCRIBE, ResourceType.GROUP, "g")),
        (TRANSACTION, Action(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "g")),
        (SHARE, CLUSTER_ACTION),
    ],
)
def test_finding_a_coordinator_needs_the_right_to_what_it_coordinates(key_type: int, needed: Action) -> None:
    request = FindCoordinatorRequest(("g", "g"), key_type)
    assert refused_actions(NOBODY, ANN, ApiKey.FIND_COORDINATOR, request, Where.EACH) == {needed}
    assert refused_actions(allowed(needed), ANN, ApiKey.FIND_COORDINATOR, request, Where.EACH) == frozenset()
