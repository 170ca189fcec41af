"""Requests about topics as bytes, by hand from Kafka's message schemas, and the answers to those that fail as a whole.

That all versions agree with kio is tested with the properties of the codec."""

from __future__ import annotations

import uuid

import pytest

from lethe.protocol.kafka.admin import (
    CreatableAssignment,
    CreatableConfig,
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
    TopicRequest,
    TopicResponse,
    topic_error_response,
    topic_errors,
)
from lethe.protocol.kafka.codec import Unencodable, decode_request, decode_response, encode_request, encode_response
from lethe.protocol.kafka.config_entries import ConfigEntry
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import TopicId

ID = TopicId(uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"))
CREATE = CreateTopicsRequest(
    (CreatableTopic("ab", -1, -1, (CreatableAssignment(0, (1, 2)),), (CreatableConfig("k", None),)),), 5000, True
)
CREATED = CreateTopicsResponse(
    (CreatedTopic("ab", 0, None, ID, 1, 2, (ConfigEntry("k", "v", False, 5, False),), 29),), 9
)


def hexed(*words: str) -> bytes:
    return bytes.fromhex("".join(words))


def test_topics_to_create_have_assignments_and_values_that_may_be_null() -> None:
    body = "02 03 6162 ffffffff ffff 02 00000000 03 00000001 00000002 00 02 02 6b 00 00 00 00001388 01 00"
    payload = hexed("0013 0007 00000007 0001 39 00", body)
    assert encode_request(CREATE, 7, 7, "9") == payload
    assert decode_request(payload).value == CREATE


def test_version_0_cannot_only_validate_and_says_so_by_its_default() -> None:
    value = decode_request(encode_request(CREATE, 0, 7, "9")).value
    assert value == CreateTopicsRequest(CREATE.topics, 5000, validate_only=False)


def test_a_created_topic_has_its_configuration_and_why_that_is_not_shown() -> None:
    body = "00000009 02 03 6162", ID.hex, "0000 00 00000001 0002 02 02 6b 02 76 00 05 00 00 01 00 02 001d 00"
    payload = hexed("00000007 00", *body)
    assert encode_response(ApiKey.CREATE_TOPICS, 7, 7, CREATED) == payload
    assert decode_response(ApiKey.CREATE_TOPICS, 7, payload) == (7, CREATED)


def test_before_version_5_a_created_topic_has_a_name_and_an_error_only() -> None:
    _, early = decode_response(ApiKey.CREATE_TOPICS, 4, encode_response(ApiKey.CREATE_TOPICS, 4, 7, CREATED))
    assert early == CreateTopicsResponse((CreatedTopic("ab", 0),), 9)


def test_topics_to_delete_are_names_up_to_version_5() -> None:
    request = DeleteTopicsRequest((DeletableTopic("ab"), DeletableTopic("c")), 5000)
    payload = hexed("0014 0003 00000007 0001 39 00000002 0002 6162 0001 63 00001388")
    assert encode_request(request, 3, 7, "9") == payload
    assert decode_request(payload).value == request


def test_topics_to_delete_have_names_or_ids_in_version_6() -> None:
    request = DeleteTopicsRequest((DeletableTopic("ab"), DeletableTopic(None, ID)), 5000)
    payload = hexed("0014 0006 00000007 0001 39 00 03 03 6162", "00" * 16, "00 00", ID.hex, "00 00001388 00")
    assert encode_request(request, 6, 7, "9") == payload
    assert decode_request(payload).value == request
    with pytest.raises(Unencodable, match="DeleteTopics v5 has names only"):
        encode_request(request, 5, 7, "9")


def test_new_partitions_may_have_assignments() -> None:
    request = CreatePartitionsRequest((GrowableTopic("a", 3, ((1, 2), (2, 3))), GrowableTopic("b", 2)), 5000, True)
    rows = "02 61 00000003 03 03 00000001 00000002 00 03 00000002 00000003 00 00", "02 62 00000002 00 00"
    payload = hexed("0025 0003 00000007 0001 39 00 03", *rows, "00001388 01 00")
    assert encode_request(request, 3, 7, "9") == payload
    assert decode_request(payload).value == request


@pytest.mark.parametrize(
    "request_, response",
    [
        (CREATE, CreateTopicsResponse((CreatedTopic("ab", 41, "why"),))),
        (
            DeleteTopicsRequest((DeletableTopic("a"), DeletableTopic(None, ID)), 1),
            DeleteTopicsResponse((DeletedTopic("a", None, 41, "why"), DeletedTopic(None, ID, 41, "why"))),
        ),
        (
            CreatePartitionsRequest((GrowableTopic("a", 2), GrowableTopic("b", 2)), 1),
            CreatePartitionsResponse((GrownTopic("a", 41, "why"), GrownTopic("b", 41, "why"))),
        ),
    ],
    ids=["CreateTopics", "DeleteTopics", "CreatePartitions"],
)
def test_an_error_of_the_request_is_that_of_each_topic(request_: TopicRequest, response: TopicResponse) -> None:
    assert topic_error_response(request_, ErrorCode.NOT_CONTROLLER, "why") == response
    assert topic_errors(response) == (41,) * len(request_.topics)
