"""Requests about SCRAM users and features as bytes, and the answers to those that fail."""

from __future__ import annotations

import pytest

from lethe.protocol.kafka.admin_cluster import (
    AlteredUser,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ClusterRequest,
    ClusterResponse,
    DescribedUser,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    FeatureUpdate,
    ScramDeletion,
    ScramUpsertion,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    cluster_error_response,
    cluster_errors,
)
from lethe.protocol.kafka.codec import decode_request, encode_request

ALTER = AlterUserScramCredentialsRequest((ScramDeletion("u", 1),), (ScramUpsertion("t", 2, 4096, b"\x05", b"\x06"),))


def hexed(*words: str) -> bytes:
    return bytes.fromhex("".join(words))


def test_a_credential_is_deleted_and_another_one_stored() -> None:
    payload = hexed("0033 0000 00000007 0001 39 00 02 02 75 01 00 02 02 74 02 00001000 02 05 02 06 00 00")
    assert encode_request(ALTER, 0, 7, "9") == payload
    assert decode_request(payload).value == ALTER
    assert repr(ALTER.upsertions[0]) == "ScramUpsertion('t', mechanism=2, iterations=4096)"


@pytest.mark.parametrize("users, words", [(None, "00"), ((), "01"), (("u",), "02 02 75 00")])
def test_users_are_described_by_name_or_all(users: tuple[str, ...] | None, words: str) -> None:
    payload = hexed("0032 0000 00000007 0001 39 00", words, "00")
    request = DescribeUserScramCredentialsRequest(users)
    assert encode_request(request, 0, 7, "9") == payload
    assert decode_request(payload).value == request


def test_version_0_allows_downgrades_or_does_not() -> None:
    request = UpdateFeaturesRequest((FeatureUpdate("f", 3, 2), FeatureUpdate("g", 3, 1)), 5)
    payload = hexed("0039 0000 00000007 0001 39 00 00000005 03 02 66 0003 01 00 02 67 0003 00 00 00")
    assert encode_request(request, 0, 7, "9") == payload
    assert decode_request(payload).value == request
    newer = UpdateFeaturesRequest((FeatureUpdate("f", 3, 9),), 5, validate_only=True)
    assert decode_request(encode_request(newer, 1, 7, "9")).value == newer


@pytest.mark.parametrize(
    "request_, response, errors",
    [
        (
            ALTER,
            AlterUserScramCredentialsResponse((AlteredUser("t", 41, "why"), AlteredUser("u", 41, "why"))),
            (41, 41),
        ),
        (
            DescribeUserScramCredentialsRequest(("u",)),
            DescribeUserScramCredentialsResponse((DescribedUser("", 41, "why"),), 41, "why"),
            (41, 41),
        ),
        (
            DescribeUserScramCredentialsRequest(None),
            DescribeUserScramCredentialsResponse((), 41, "why"),
            (41,),
        ),
        (UpdateFeaturesRequest((FeatureUpdate("f", 3, 2),), 5), UpdateFeaturesResponse((), 41, "why"), (41,)),
    ],
    ids=["Alter", "Describe", "Describe all", "UpdateFeatures"],
)
def test_an_error_of_the_request_is_where_kafka_has_it(
    request_: ClusterRequest, response: ClusterResponse, errors: tuple[int, ...]
) -> None:
    assert cluster_error_response(request_, 41, "why") == response
    assert cluster_errors(response) == errors
