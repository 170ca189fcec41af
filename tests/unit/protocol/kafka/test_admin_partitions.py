"""Requests about partitions as bytes, by hand from Kafka's message schemas, and the answers to those that fail."""

from __future__ import annotations

import pytest

from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectionKind,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MovingPartition,
    MovingTopic,
    PartitionOutcome,
    PartitionRequest,
    PartitionResponse,
    ReassignablePartition,
    ReassignableTopic,
    TopicOutcome,
    TopicPartitions,
    partition_error_response,
    partition_errors,
)
from lethe.protocol.kafka.codec import decode_request, decode_response, encode_request, encode_response
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode

MOVE = AlterPartitionReassignmentsRequest(
    (ReassignableTopic("a", (ReassignablePartition(0, (1, 2)), ReassignablePartition(3, None))),), 5000
)


def hexed(*words: str) -> bytes:
    return bytes.fromhex("".join(words))


def test_leaders_are_elected_of_named_partitions_or_of_all() -> None:
    request = ElectLeadersRequest((TopicPartitions("a", (0, 3)),), 5000, ElectionKind.UNCLEAN)
    payload = hexed("002b 0002 00000007 0001 39 00 01 02 02 61 03 00000000 00000003 00 00001388 00")
    assert encode_request(request, 2, 7, "9") == payload
    assert decode_request(payload).value == request
    everything = ElectLeadersRequest(None, 5000)
    assert encode_request(everything, 0, 7, "9") == hexed("002b 0000 00000007 0001 39 ffffffff 00001388")
    assert decode_request(encode_request(everything, 0, 7, "9")).value == everything


def test_version_0_elects_preferred_leaders_and_has_no_error_at_the_top() -> None:
    request = ElectLeadersRequest(None, 5000, ElectionKind.UNCLEAN)
    assert decode_request(encode_request(request, 0, 7, "9")).value == ElectLeadersRequest(None, 5000)
    response = ElectLeadersResponse((), ErrorCode.NOT_CONTROLLER)
    _, early = decode_response(ApiKey.ELECT_LEADERS, 0, encode_response(ApiKey.ELECT_LEADERS, 0, 7, response))
    assert early == ElectLeadersResponse(())


def test_a_partition_without_replicas_ends_its_reassignment() -> None:
    payload = hexed(
        *("002d 0000 00000007 0001 39 00 00001388 02 02 61 03", "00000000 03 00000001 00000002 00"),
        *("00000003 00 00", "00 00"),
    )
    assert encode_request(MOVE, 0, 7, "9") == payload
    assert decode_request(payload).value == MOVE


def test_a_moving_partition_has_all_its_replicas() -> None:
    response = ListPartitionReassignmentsResponse((MovingTopic("a", (MovingPartition(3, (2, 1), (2,), (1,)),)),))
    payload = hexed(
        *("00000007 00 00000000 0000 00 02 02 61 02 00000003", "03 00000002 00000001"),
        *("02 00000002", "02 00000001", "00 00 00"),
    )
    assert encode_response(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 7, response) == payload
    assert decode_response(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, payload) == (7, response)


ROWS = (TopicOutcome("a", (PartitionOutcome(0, 41, "why"), PartitionOutcome(3, 41, "why"))),)


@pytest.mark.parametrize(
    "request_, response, errors",
    [
        (ElectLeadersRequest((TopicPartitions("a", (0, 3)),), 1), ElectLeadersResponse(ROWS, 0), (0, 41, 41)),
        (ElectLeadersRequest(None, 1), ElectLeadersResponse((), 41), (41,)),
        (MOVE, AlterPartitionReassignmentsResponse(ROWS, 41, "why"), (41, 41, 41)),
        (
            ListPartitionReassignmentsRequest((TopicPartitions("a", (0,)),), 1),
            ListPartitionReassignmentsResponse((), 41, "why"),
            (41,),
        ),
    ],
    ids=["ElectLeaders", "ElectLeaders of all", "AlterPartitionReassignments", "ListPartitionReassignments"],
)
def test_an_error_of_the_request_is_at_the_top_and_of_each_partition_that_it_names(
    request_: PartitionRequest, response: PartitionResponse, errors: tuple[int, ...]
) -> None:
    assert partition_error_response(request_, ErrorCode.NOT_CONTROLLER, "why") == response
    assert partition_errors(response) == errors
