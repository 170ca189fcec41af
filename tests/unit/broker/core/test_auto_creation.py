"""Which topics a Metadata request creates, and what the client receives: KafkaApis and AutoTopicCreationManager 3.9."""

from __future__ import annotations

import pytest

from lethe.broker.core.auto_creation import Missing, creation_errors, creation_request, missing_topics
from lethe.broker.core.metadata_cache import MetadataCache
from lethe.broker.core.queries import RequestContext, answer_metadata
from lethe.protocol.kafka.admin import CreatableTopic, CreatedTopic, CreateTopicsRequest, CreateTopicsResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataRequest, MetadataRequestTopic
from lethe.protocol.security.acls import Operation, ResourceType
from tests.fakes.one_controller import ANYONE
from tests.scenarios.clients import ann
from tests.unit.broker.core.driver import X, metadata


def cache() -> MetadataCache:
    made = MetadataCache()
    made.apply(metadata("t", X))
    return made


def named(*names: str, allowed: bool = True) -> MetadataRequest:
    return MetadataRequest(tuple(map(MetadataRequestTopic, names)), allowed)


DESCRIBE_A, CREATE_A = ((each, ResourceType.TOPIC, "a") for each in (Operation.DESCRIBE, Operation.CREATE))
CREATE = (Operation.CREATE, ResourceType.CLUSTER, "kafka-cluster")


@pytest.mark.parametrize(
    "request_,topics",
    [
        (named("b", "t", "a", "b"), ("b", "a")),
        (named("a", allowed=False), ()),
        (named("a/b", "__consumer_offsets", "__transaction_state"), ()),
        (MetadataRequest(None), ()),
        (MetadataRequest((MetadataRequestTopic("a"), MetadataRequestTopic(None, X))), ()),
    ],
)
def test_missing_topics_are_those_that_are_named_and_may_exist(
    request_: MetadataRequest, topics: tuple[str, ...]
) -> None:
    assert missing_topics(cache(), request_, ANYONE) == Missing(topics, {})


@pytest.mark.parametrize(
    "rights,expected",
    [
        ((), Missing((), {})),
        ((CREATE,), Missing((), {})),
        ((DESCRIBE_A,), Missing((), {"a": ErrorCode.TOPIC_AUTHORIZATION_FAILED})),
        ((DESCRIBE_A, CREATE_A), Missing(("a",), {})),
        ((DESCRIBE_A, CREATE), Missing(("a",), {})),
    ],
)
def test_a_client_creates_what_it_may_describe_and_create(
    rights: tuple[tuple[Operation, ResourceType, str], ...], expected: Missing
) -> None:
    assert missing_topics(cache(), named("a"), ann(*rights)) == expected


def test_the_controller_decides_the_numbers_and_answers_at_once() -> None:
    assert creation_request(("a",)) == CreateTopicsRequest((CreatableTopic("a", -1, -1),), 0)


@pytest.mark.parametrize(
    "error,shown",
    [
        (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICATION_FACTOR),
        (ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_what_a_client_receives(error: int, shown: int) -> None:
    answer = CreateTopicsResponse((CreatedTopic("a", error),))
    assert creation_errors(("a", "b"), answer) == {"a": shown, "b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert creation_errors(("a",), None) == {"a": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_the_error_is_that_of_the_topics_row() -> None:
    created = {"a": ErrorCode.LEADER_NOT_AVAILABLE, "a/b": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    context = RequestContext("IN", 12, ANYONE)
    answer = answer_metadata(cache(), named("a", "b", "a/b", "c/d"), context, cluster_id="c", created=created)
    assert [(topic.name, topic.error) for topic in answer.topics] == [
        ("a", ErrorCode.LEADER_NOT_AVAILABLE),
        ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("c/d", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
