"""ControlledShutdown and AlterPartition as bytes, by hand from Kafka's message schemas, and what is refused."""

import uuid

import pytest

from lethe.protocol.kafka.codec import (
    Malformed,
    RequestHeader,
    Unencodable,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlteredPartition,
    AlteredTopic,
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from lethe.protocol.vocabulary import NO_EPOCH, BrokerEpoch, BrokerId, RecoveryState, TopicId

ID = TopicId(uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"))
EPOCH = BrokerEpoch(0x0102030405060708)
HEAD = "00000007 0001 39 00"
"""Correlation id 7, client id `9`, no tags."""


def hexed(*words: str) -> bytes:
    return bytes.fromhex("".join(words))


@pytest.mark.parametrize(
    "version, payload",
    [
        (0, "0007 0000 00000007 00000003"),
        (1, "0007 0001 00000007 0001 39 00000003"),
        (2, "0007 0002 00000007 0001 39 00000003 0102030405060708"),
        (3, "0007 0003 00000007 0001 39 00 00000003 0102030405060708 00"),
    ],
)
def test_controlled_shutdown_has_no_client_id_in_version_0(version: int, payload: str) -> None:
    request = ControlledShutdownRequest(BrokerId(3), EPOCH)
    assert encode_request(request, version, 7, "9") == hexed(payload)
    header, value = decode_request(hexed(payload))
    assert header == RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, version, 7, None if version == 0 else "9")
    assert value == ControlledShutdownRequest(BrokerId(3), EPOCH if version >= 2 else NO_EPOCH)


def test_the_answer_to_a_controlled_shutdown_names_what_is_still_led() -> None:
    response = ControlledShutdownResponse(0, (RemainingPartition("ab", 3),))
    assert encode_response(ApiKey.CONTROLLED_SHUTDOWN, 3, 7, response) == hexed(
        "00000007 00 0000 02 03 6162 00000003 00 00"
    )
    assert encode_response(ApiKey.CONTROLLED_SHUTDOWN, 0, 7, response) == hexed(
        "00000007 0000 00000001 0002 6162 00000003"
    )


WANTED = AlterPartition(3, 5, (1, 2), RecoveryState.RECOVERING, 4, (BrokerEpoch(17), BrokerEpoch(18)))
REQUEST = AlterPartitionRequest(BrokerId(1), EPOCH, (AlterPartitionTopic("ab", ID, (WANTED,)),))

MEMBERS = "03 00000001 0000000000000011 00 00000002 0000000000000012 00"


@pytest.mark.parametrize(
    "version, body",
    [
        (0, "03 6162 02 00000003 00000005 03 00000001 00000002 00000004 00"),
        (1, "03 6162 02 00000003 00000005 03 00000001 00000002 01 00000004 00"),
        (2, "00112233445566778899aabbccddeeff 02 00000003 00000005 03 00000001 00000002 01 00000004 00"),
        (3, f"00112233445566778899aabbccddeeff 02 00000003 00000005 {MEMBERS} 01 00000004 00"),
    ],
)
def test_alter_partition_in_each_version(version: int, body: str) -> None:
    payload = hexed(f"0038 000{version}", HEAD, "00000001 0102030405060708 02", body, "00 00")
    assert encode_request(REQUEST, version, 7, "9") == payload
    kept = AlterPartitionTopic(
        "ab" if version < 2 else None,
        ID if version >= 2 else None,
        (
            WANTED._replace(
                recovery_state=WANTED.recovery_state if version >= 1 else RecoveryState.RECOVERED,
                isr_epochs=WANTED.isr_epochs if version >= 3 else (),
            ),
        ),
    )
    assert decode_request(payload).value == AlterPartitionRequest(BrokerId(1), EPOCH, (kept,))


def test_epochs_that_a_leader_does_not_know_are_none_at_all() -> None:
    """Kafka 3.9's brokers under a ZooKeeper-mode controller send -1 for each member."""
    unknown = AlterPartitionTopic(None, ID, (WANTED._replace(isr_epochs=()),))
    request = AlterPartitionRequest(BrokerId(1), EPOCH, (unknown,))
    payload = encode_request(request, 3, 7, "9")
    assert payload.count(b"\xff" * 8) == 2
    assert decode_request(payload).value == request


def test_an_epoch_per_member_or_none() -> None:
    lacking = AlterPartitionTopic(None, ID, (WANTED._replace(isr_epochs=(EPOCH,)),))
    with pytest.raises(Unencodable, match="partition 3: 1 broker epoch for an ISR of 2"):
        encode_request(AlterPartitionRequest(BrokerId(1), EPOCH, (lacking,)), 3, 7, "9")


ALTERED = AlteredPartition(3, 0, 1, 5, (1, 2), RecoveryState.RECOVERING, 6)
REFUSED = AlteredPartition(4, ErrorCode.INVALID_UPDATE_VERSION)


@pytest.mark.parametrize(
    "version, topic, recovering, recovered",
    [
        (0, "03 6162", "", ""),
        (1, "03 6162", "01", "00"),
        (2, "00112233445566778899aabbccddeeff", "01", "00"),
        (3, "00112233445566778899aabbccddeeff", "01", "00"),
    ],
)
def test_the_answer_to_an_alter_partition(version: int, topic: str, recovering: str, recovered: str) -> None:
    response = AlterPartitionResponse(0, (AlteredTopic("ab", ID, (ALTERED, REFUSED)),), throttle_time_ms=9)
    payload = hexed(
        *("00000007 00 00000009 0000 02", topic, "03"),
        *("00000003 0000 00000001 00000005 03 00000001 00000002", recovering, "00000006 00"),
        *("00000004 005f 00000000 00000000 01", recovered, "00000000 00"),
        *("00", "00"),
    )
    assert encode_response(ApiKey.ALTER_PARTITION, version, 7, response) == payload
    altered = ALTERED if version >= 1 else ALTERED._replace(recovery_state=RecoveryState.RECOVERED)
    named = AlteredTopic("ab" if version < 2 else None, ID if version >= 2 else None, (altered, REFUSED))
    assert decode_response(ApiKey.ALTER_PARTITION, version, payload) == (7, AlterPartitionResponse(0, (named,), 9))


def test_a_refusal_of_the_whole_request_is_short() -> None:
    response = AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)
    for version in range(4):
        payload = encode_response(ApiKey.ALTER_PARTITION, version, 7, response)
        assert payload == hexed("00000007 00 00000000 0029 01 00")


def test_versions_by_name_need_names() -> None:
    nameless = AlterPartitionTopic(None, ID, (WANTED,))
    with pytest.raises(Unencodable, match="v1 names topics"):
        encode_request(AlterPartitionRequest(BrokerId(1), EPOCH, (nameless,)), 1, 7, "9")
    with pytest.raises(Unencodable, match="v0 names topics"):
        encode_response(ApiKey.ALTER_PARTITION, 0, 7, AlterPartitionResponse(0, (AlteredTopic(None, ID, ()),)))


@pytest.mark.parametrize("version", range(4))
def test_a_truncated_alter_partition_is_refused_wherever_it_ends(version: int) -> None:
    payload = encode_request(REQUEST, version, 7, "9")
    for end in range(8, len(payload)):
        with pytest.raises(Malformed):
            decode_request(payload[:end])


def test_allocate_producer_ids() -> None:
    request = AllocateProducerIdsRequest(BrokerId(3), EPOCH)
    payload = hexed("0043 0000 00000007 0001 39 00 00000003 0102030405060708 00")
    assert encode_request(request, 0, 7, "9") == payload
    assert decode_request(payload).value == request
    response = AllocateProducerIdsResponse(0, 2000, 1000)
    answer = hexed("00000007 00 00000000 0000 00000000000007d0 000003e8 00")
    assert encode_response(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 7, response) == answer
    assert decode_response(ApiKey.ALLOCATE_PRODUCER_IDS, 0, answer) == (7, response)
