"""Answers to refused requests. Their errors are those that a real broker gave (3.9.1, AclAuthorizer)."""

from __future__ import annotations

from uuid import UUID

import pytest

from lethe.protocol.kafka.admin_cluster import (
    AlteredUser,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    ScramDeletion,
    UpdateFeaturesRequest,
)
from lethe.protocol.kafka.admin_configs import (
    BROKER_RESOURCE,
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from lethe.protocol.kafka.cluster_queries import (
    GROUP,
    TRANSACTION,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from lethe.protocol.kafka.codec import encode_response
from lethe.protocol.kafka.control import Addressed
from lethe.protocol.kafka.queries import (
    ApiVersionsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ListedGroup,
    ListedTransaction,
    ListGroupsRequest,
    ListGroupsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    LogDir,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
    Request,
    api_of_request,
)
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
)
from lethe.protocol.kafka.versions import SPOKEN
from lethe.protocol.security.acls import Operation, ResourceType
from lethe.protocol.security.authorizer import Action, cluster_action
from lethe.protocol.security.refusals import filtered_response, refused_response
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, TopicId
from tests.unit.broker.core.driver import become, metadata, stop

EPOCH = BrokerEpoch(7)
COMMAND = cluster_action(Operation.CLUSTER_ACTION)
X = TopicId(UUID(int=1))


def describe(name: str) -> Action:
    return Action(Operation.DESCRIBE, ResourceType.TOPIC, name)


def row(name: str | None, error: int = 0, topic_id: TopicId | None = X) -> MetadataTopic:
    return MetadataTopic(error, name, topic_id, False, ())


@pytest.mark.parametrize(
    "request_",
    [
        Addressed(become(), EPOCH),
        Addressed(stop(), EPOCH),
        Addressed(metadata(), EPOCH),
        ControlledShutdownRequest(BrokerId(1), EPOCH),
        AlterPartitionRequest(BrokerId(1), EPOCH, ()),
        AllocateProducerIdsRequest(BrokerId(1), EPOCH),
        DescribeLogDirsRequest(),
        ElectLeadersRequest(None, 0),
        AlterPartitionReassignmentsRequest((), 0),
        ListPartitionReassignmentsRequest(None, 0),
        DescribeUserScramCredentialsRequest(("u",)),
        UpdateFeaturesRequest((), 0),
    ],
    ids=lambda each: type(getattr(each, "request", each)).__name__,
)
def test_a_request_that_is_refused_as_a_whole_has_the_error_at_the_top_and_can_be_sent(request_: Request) -> None:
    answer = refused_response(request_, COMMAND)
    assert answer.error == 31  # type: ignore[union-attr]
    api = api_of_request(request_)
    assert encode_response(api, SPOKEN[api].max, 1, answer)


def test_each_user_whose_credentials_may_not_be_altered_has_the_error() -> None:
    request = AlterUserScramCredentialsRequest(
        (ScramDeletion("b", 1), ScramDeletion("a", 1), ScramDeletion("b", 2)), ()
    )
    rows = AlteredUser("a", 31), AlteredUser("b", 31)
    assert refused_response(request, COMMAND) == AlterUserScramCredentialsResponse(rows)


def test_leader_and_isr_and_stop_replica_have_it_for_each_partition_as_well() -> None:
    for request in (become(), stop()):
        rows = refused_response(Addressed(request, EPOCH), COMMAND).rows  # type: ignore[union-attr]
        assert [(each.partition, each.error) for each in rows] == [(0, 31)]


def test_a_request_without_such_an_answer_is_no_refusal() -> None:
    with pytest.raises(KeyError):
        refused_response(ApiVersionsRequest(), COMMAND)


def test_refused_topics_are_left_out_of_all_topics_and_have_the_error_where_they_were_named() -> None:
    answer = MetadataResponse((), "c", BrokerId(1), (row("a"), row("b"), row("gone", 3, None)))
    refused = {describe("b"), describe("gone")}
    everything = filtered_response(MetadataRequest(None), answer, refused)
    assert everything.topics == (row("a"),)  # type: ignore[union-attr]
    named = MetadataRequest(tuple(MetadataRequestTopic(name) for name in ("a", "b", "gone")))
    rows = filtered_response(named, answer, refused).topics  # type: ignore[union-attr]
    assert rows == (row("a"), row("b", 29, None), row("gone", 29, None))


def test_a_topic_that_was_asked_for_by_its_id_does_not_tell_its_name() -> None:
    answer = MetadataResponse((), "c", BrokerId(1), (row("b"), row(None, 100)))
    request = MetadataRequest((MetadataRequestTopic(None, X),))
    assert filtered_response(request, answer, {describe("b")}).topics == (row(None, 29), row(None, 100))  # type: ignore[union-attr]


def test_refused_configurations_have_the_error_of_their_type() -> None:
    resources = ((BROKER_RESOURCE, "1000"), (2, "a"), (2, "b"), (99, "x"))
    request = DescribeConfigsRequest(tuple(DescribableConfigs(*each) for each in resources))
    answer = DescribeConfigsResponse(tuple(DescribedConfigs(0, None, *each, ()) for each in resources))
    refused = {
        cluster_action(Operation.DESCRIBE_CONFIGS),
        Action(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "b"),
    }
    filtered = filtered_response(request, answer, refused)
    results = filtered.results  # type: ignore[union-attr]
    assert [each.error for each in results] == [31, 0, 29, 0]
    assert results[2].error_message == "Topic authorization failed."


@pytest.mark.parametrize("message,expected", [("NONE", "Group authorization failed."), ("", "")])
def test_a_key_whose_coordinator_may_not_be_found_has_the_error(message: str, expected: str) -> None:
    """Kafka has a message before version 4 only."""
    found = tuple(Coordinator(key, 0, message, BrokerId(1), "h", 1) for key in ("a", "b"))
    refused = {Action(Operation.DESCRIBE, ResourceType.GROUP, "b")}
    answer = filtered_response(FindCoordinatorRequest(("a", "b"), GROUP), FindCoordinatorResponse(found), refused)
    assert answer == FindCoordinatorResponse((found[0], Coordinator("b", 30, expected)))
    of_transactions = FindCoordinatorRequest(("a", "b"), TRANSACTION)
    assert filtered_response(of_transactions, FindCoordinatorResponse(found), refused).coordinators == found  # type: ignore[union-attr]


def test_refused_groups_and_transactions_are_left_out() -> None:
    groups = ListGroupsResponse(0, (ListedGroup("a", ""), ListedGroup("b", "")))
    action = Action(Operation.DESCRIBE, ResourceType.GROUP, "a")
    assert filtered_response(ListGroupsRequest(), groups, {action}) == ListGroupsResponse(0, (ListedGroup("b", ""),))
    transactions = ListTransactionsResponse(0, (), (ListedTransaction("a", 1, ""), ListedTransaction("b", 2, "")))
    action = Action(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "a")
    left = filtered_response(ListTransactionsRequest(), transactions, {action})
    assert left == ListTransactionsResponse(0, (), (ListedTransaction("b", 2, ""),))


def test_other_answers_stay_as_they_are() -> None:
    answer = DescribeLogDirsResponse((LogDir(0, "/a", ()),))
    assert filtered_response(DescribeLogDirsRequest(), answer, {COMMAND}) is answer
