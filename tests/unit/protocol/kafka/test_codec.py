"""Bytes worked out by hand from Kafka's message schemas, and what is refused."""

import struct
import uuid

import pytest

from lethe.protocol.kafka.admin import DeletableTopic, DeleteTopicsRequest
from lethe.protocol.kafka.admin_cluster import AlterUserScramCredentialsRequest, ScramDeletion
from lethe.protocol.kafka.codec import (
    Decoded,
    Malformed,
    RequestHeader,
    Unencodable,
    UnknownApi,
    UnsupportedVersion,
    decode_request,
    decode_response,
    encode_control_body,
    encode_request,
    encode_response,
    unsupported_api_versions,
)
from lethe.protocol.kafka.control import (
    Addressed,
    ApiKey,
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    Node,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    TopicError,
    TopicIdError,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeLogDirsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    Request,
)
from lethe.protocol.kafka.to_controller import ControlledShutdownRequest
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.vocabulary import (
    NO_EPOCH,
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    RecoveryState,
    SecurityProtocol,
    TopicId,
)

ID = TopicId(uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"))
EPOCH = BrokerEpoch(0x0102030405060708)


def sent(request: ControlRequest, version: int, epoch: BrokerEpoch = EPOCH) -> bytes:
    """The whole frame, with correlation id 7 and client id `9`."""
    return b"".join(encode_control_body(request, version).frame(7, "9", epoch))


def hexed(*words: str) -> bytes:
    return bytes.fromhex("".join(words))


def head(api: str, version: str, flexible: bool) -> str:
    return f"{api} {version} 00000007 0001 39" + (" 00" if flexible else "")


STATE = LeaderAndIsrPartition(3, 5, 1, 2, (1, 2), 4, (1, 2), (), (), True, RecoveryState.RECOVERING)
LEADER_AND_ISR = LeaderAndIsrRequest(
    BrokerId(1001), ControllerEpoch(6), (LeaderAndIsrTopic("ab", ID, (STATE,)),), (Node(1, "h", 9092),)
)
METADATA_STATE = UpdateMetadataPartition(3, 5, -2, 2, (1,), 4, (1, 2), (2,))
BROKER = Broker(BrokerId(1), NO_EPOCH, (Endpoint("PLAINTEXT", "h", 9092),), "r")
UPDATE_METADATA = UpdateMetadataRequest(
    BrokerId(1001), ControllerEpoch(6), (UpdateMetadataTopic("ab", ID, (METADATA_STATE,)),), (BROKER,)
)
STOP_REPLICA = StopReplicaRequest(
    BrokerId(1001), ControllerEpoch(6), (StopReplicaTopic("ab", (StopReplicaPartition(3, -2, True),)),)
)


# --- golden bytes -------------------------------------------------------------------------------------------------


def test_leader_and_isr_v7() -> None:
    payload = hexed(
        head("0004", "0007", flexible=True),
        "000003e9 00 00000006 0102030405060708 00",  # controller, not KRaft, its epoch, broker epoch, type
        "02 03 6162 00112233445566778899aabbccddeeff",  # one topic: "ab" and its id
        "02 00000003 00000005 00000001 00000002",  # one state: partition, controller epoch, leader, leader epoch
        "03 00000001 00000002 00000004 03 00000001 00000002",  # ISR, partition epoch, replicas
        "01 01 01 01 00",  # none added, none removed, new, recovering, no tags
        "00",  # the topic's tags
        "02 00000001 02 68 00002384 00",  # one live leader: 1, "h", 9092, no tags
        "00",
    )
    assert sent(LEADER_AND_ISR, 7) == struct.pack(">i", len(payload)) + payload


def test_leader_and_isr_v2() -> None:
    payload = hexed(
        head("0004", "0002", flexible=False),
        "000003e9 00000006 0102030405060708",
        "00000001 0002 6162",
        "00000001 00000003 00000005 00000001 00000002",
        "00000002 00000001 00000002 00000004 00000002 00000001 00000002 01",
        "00000001 00000001 0001 68 00002384",
    )
    assert sent(LEADER_AND_ISR, 2) == struct.pack(">i", len(payload)) + payload


def test_leader_and_isr_v1_is_flat_and_without_a_broker_epoch() -> None:
    payload = hexed(
        head("0004", "0001", flexible=False),
        "000003e9 00000006",
        "00000001 0002 6162 00000003 00000005 00000001 00000002",
        "00000002 00000001 00000002 00000004 00000002 00000001 00000002 01",
        "00000001 00000001 0001 68 00002384",
    )
    assert sent(LEADER_AND_ISR, 1) == struct.pack(">i", len(payload)) + payload


def test_update_metadata_v8_with_a_tombstone() -> None:
    payload = hexed(
        head("0006", "0008", flexible=True),
        "000003e9 00 00000006 0102030405060708",
        "02 03 6162 00112233445566778899aabbccddeeff",
        "02 00000003 00000005 fffffffe 00000002 02 00000001 00000004 03 00000001 00000002 02 00000002 00",
        "00",
        "02 00000001 02 00002384 02 68 0a 504c41494e54455854 0000 00 02 72 00",  # broker 1, its endpoint, rack "r"
        "00",
    )
    assert sent(UPDATE_METADATA, 8) == struct.pack(">i", len(payload)) + payload


def test_update_metadata_v5() -> None:
    payload = hexed(
        head("0006", "0005", flexible=False),
        "000003e9 00000006 0102030405060708",
        "00000001 0002 6162",
        "00000001 00000003 00000005 fffffffe 00000002 00000001 00000001 00000004",
        "00000002 00000001 00000002 00000001 00000002",
        "00000001 00000001 00000001 00002384 0001 68 0009 504c41494e54455854 0000 0001 72",
    )
    assert sent(UPDATE_METADATA, 5) == struct.pack(">i", len(payload)) + payload


@pytest.mark.parametrize(
    "version, body",
    [
        (0, "000003e9 00000006 01 00000001 0002 6162 00000003"),
        (1, "000003e9 00000006 0102030405060708 01 00000001 0002 6162 00000001 00000003"),
        (2, "000003e9 00000006 0102030405060708 01 02 03 6162 02 00000003 00 00"),
        (3, "000003e9 00000006 0102030405060708 02 03 6162 02 00000003 fffffffe 01 00 00 00"),
        (4, "000003e9 00 00000006 0102030405060708 02 03 6162 02 00000003 fffffffe 01 00 00 00"),
    ],
)
def test_stop_replica_in_each_version(version: int, body: str) -> None:
    payload = hexed(head("0005", f"000{version}", flexible=version >= 2), body)
    assert sent(STOP_REPLICA, version) == struct.pack(">i", len(payload)) + payload


def test_responses() -> None:
    assert encode_response(
        ApiKey.STOP_REPLICA, 4, 7, StopReplicaResponse.of_rows(0, (TopicError("ab", 3, ErrorCode.KAFKA_STORAGE_ERROR),))
    ) == hexed("00000007 00 0000 02 03 6162 00000003 0038 00 00")
    assert encode_response(
        ApiKey.LEADER_AND_ISR,
        7,
        7,
        LeaderAndIsrResponse.of_rows(0, (TopicIdError(None, ID, 3, 0), TopicIdError(None, ID, 4, 56))),
    ) == hexed("00000007 00 0000 02 00112233445566778899aabbccddeeff 03 00000003 0000 00 00000004 0038 00 00 00")
    assert encode_response(
        ApiKey.LEADER_AND_ISR, 2, 7, LeaderAndIsrResponse.of_rows(11, (TopicIdError("ab", None, 3, 11),))
    ) == hexed("00000007 000b 00000001 0002 6162 00000003 000b")
    assert encode_response(ApiKey.UPDATE_METADATA, 8, 7, UpdateMetadataResponse(77)) == hexed("00000007 00 004d 00")


def test_an_api_versions_response_has_the_shortest_header_in_every_version() -> None:
    response = ApiVersionsResponse(0, (ApiVersion(18, 0, 4),))
    assert encode_response(ApiKey.API_VERSIONS, 3, 7, response) == hexed(
        "00000007 0000 02 0012 0000 0004 00 00000000 00"
    )


# --- one body, many brokers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA], ids=lambda r: type(r).__name__)
def test_a_body_is_shared_and_each_broker_gets_its_own_epoch(request_: ControlRequest) -> None:
    api = {4: ApiKey.LEADER_AND_ISR, 5: ApiKey.STOP_REPLICA, 6: ApiKey.UPDATE_METADATA}
    for version in range(SPOKEN[ApiKey.STOP_REPLICA].max + 1):
        body = encode_control_body(request_, version)
        frames = [body.frame(n, "9", BrokerEpoch(1000 + n)) for n in range(3)]
        assert all(tail is body.tail for _, tail in frames)
        for n, frame in enumerate(frames):
            size, payload = struct.unpack(">i", frame[0][:4])[0], b"".join(frame)[4:]
            assert size == len(payload)
            header, value = decode_request(payload)
            assert header == RequestHeader(api[header.api], version, n, "9")
            assert isinstance(value, Addressed)
            assert value.broker_epoch == (1000 + n if body.has_broker_epoch else NO_EPOCH)
            assert payload.endswith(body.tail)
            assert body.size_bytes == len(payload) - len(head("", "", flexible=False).replace(" ", "")) // 2 - 4 - (
                body.header_version - 1
            )


def test_the_broker_epoch_is_carried_from_these_versions_on() -> None:
    first = {
        ApiKey.LEADER_AND_ISR: [encode_control_body(LEADER_AND_ISR, v).has_broker_epoch for v in range(8)].index(True),
        ApiKey.STOP_REPLICA: [encode_control_body(STOP_REPLICA, v).has_broker_epoch for v in range(5)].index(True),
        ApiKey.UPDATE_METADATA: [encode_control_body(UPDATE_METADATA, v).has_broker_epoch for v in range(9)].index(
            True
        ),
    }
    assert first == {ApiKey.LEADER_AND_ISR: 2, ApiKey.STOP_REPLICA: 1, ApiKey.UPDATE_METADATA: 5}


# --- what versions leave out --------------------------------------------------------------------------------------


def came_back(request: ControlRequest, version: int) -> ControlRequest:
    value = decode_request(sent(request, version)[4:]).value
    assert isinstance(value, Addressed)
    return value.request


def test_no_topic_id_is_zeros_on_the_wire_and_none_here() -> None:
    bare = LeaderAndIsrRequest(BrokerId(1), ControllerEpoch(1), (LeaderAndIsrTopic("ab", None, ()),), ())
    assert bytes(16) in sent(bare, 5)
    assert came_back(bare, 5) == bare


def test_older_leader_and_isr_leaves_out_what_it_cannot_say() -> None:
    def state(version: int) -> LeaderAndIsrPartition:
        moving = STATE._replace(adding=(5,), removing=(6,))
        request = LeaderAndIsrRequest(BrokerId(1), ControllerEpoch(1), (LeaderAndIsrTopic("ab", ID, (moving,)),), ())
        result = came_back(request, version)
        assert isinstance(result, LeaderAndIsrRequest)
        assert result.topics[0].topic_id == (ID if version >= 5 else None)
        return result.topics[0].partitions[0]

    assert state(6) == STATE._replace(adding=(5,), removing=(6,))
    assert state(5) == STATE._replace(adding=(5,), removing=(6,), recovery_state=0)
    assert state(3) == state(5)
    assert state(2) == STATE._replace(recovery_state=0)
    assert state(1) == state(2)
    assert state(0) == STATE._replace(recovery_state=0, is_new=False)


def test_a_delete_flag_for_all_cannot_say_both() -> None:
    mixed = StopReplicaRequest(
        BrokerId(1),
        ControllerEpoch(1),
        (StopReplicaTopic("ab", (StopReplicaPartition(0, -2, True), StopReplicaPartition(1, 4, False))),),
    )
    for version in (0, 1, 2):
        with pytest.raises(ValueError, match=rf"StopReplica v{version} has one delete flag .* two requests"):
            encode_control_body(mixed, version)
    assert came_back(mixed, 3) == mixed


def test_flat_versions_group_partitions_by_topic_again() -> None:
    stop = StopReplicaRequest(
        BrokerId(1),
        ControllerEpoch(1),
        (
            StopReplicaTopic("b", (StopReplicaPartition(1, -1, False), StopReplicaPartition(0, -1, False))),
            StopReplicaTopic("a", (StopReplicaPartition(0, -1, False),)),
        ),
    )
    assert came_back(stop, 0) == stop


def test_update_metadata_v0_names_one_plaintext_endpoint() -> None:
    result = came_back(UPDATE_METADATA, 0)
    assert isinstance(result, UpdateMetadataRequest)
    assert result.live_brokers == (Broker(BrokerId(1), NO_EPOCH, (Endpoint("PLAINTEXT", "h", 9092),), None),)
    two = UpdateMetadataRequest(
        BrokerId(1), ControllerEpoch(1), (), (Broker(BrokerId(1), NO_EPOCH, BROKER.endpoints * 2),)
    )
    with pytest.raises(Unencodable, match="v0 needs one plaintext endpoint, broker 1"):
        encode_control_body(two, 0)


def test_listener_names_travel_from_version_3_on() -> None:
    internal = Broker(BrokerId(1), NO_EPOCH, (Endpoint("INTERNAL", "h", 1, SecurityProtocol.SSL),))
    request = UpdateMetadataRequest(BrokerId(1), ControllerEpoch(1), (), (internal,))
    with pytest.raises(Unencodable, match="v2 has no listener names, broker 1"):
        encode_control_body(request, 2)
    assert came_back(request, 3) == request


def test_a_leader_and_isr_answer_by_name_needs_names() -> None:
    with pytest.raises(Unencodable, match="LeaderAndIsrResponse v4 .* names topics"):
        encode_response(ApiKey.LEADER_AND_ISR, 4, 7, LeaderAndIsrResponse.of_rows(0, (TopicIdError(None, ID, 3, 0),)))


def test_metadata_v0_has_an_empty_list_for_all_topics() -> None:
    payload = encode_request(MetadataRequest(None), 0, 7, "9")
    assert payload == hexed(head("0003", "0000", flexible=False), "00000000")
    assert decode_request(payload).value == MetadataRequest(None)
    with pytest.raises(Unencodable, match="cannot ask for no topics"):
        encode_request(MetadataRequest(()), 0, 7, "9")


def test_metadata_v1_tells_all_from_none() -> None:
    for request in (MetadataRequest(None), MetadataRequest(()), MetadataRequest((MetadataRequestTopic("ab"),))):
        assert decode_request(encode_request(request, 1, 7, "9")).value == request


def test_a_value_beyond_its_field_is_refused() -> None:
    wide = StopReplicaRequest(BrokerId(2**31), ControllerEpoch(1), ())
    with pytest.raises(Unencodable, match="StopReplicaRequest v4 cannot be encoded"):
        encode_control_body(wide, 4)
    with pytest.raises(Unencodable, match="40,000 bytes"):
        encode_request(ApiVersionsRequest("x" * 40000, "1"), 3, 7, "9")
    with pytest.raises(Unencodable, match="client id of 40,000 bytes"):
        encode_request(DescribeLogDirsRequest(), 4, 7, "x" * 40000)


# --- what is refused ----------------------------------------------------------------------------------------------


def test_an_unknown_api_is_named_with_its_correlation_id() -> None:
    with pytest.raises(UnknownApi, match=r"API 999 \(version 3\) is not served here") as raised:
        decode_request(struct.pack(">hhi", 999, 3, 42))
    assert (raised.value.api_key, raised.value.version, raised.value.correlation_id) == (999, 3, 42)


def test_an_unknown_version_is_named_with_what_is_spoken() -> None:
    with pytest.raises(UnsupportedVersion, match="LEADER_AND_ISR version 8 is not spoken here: versions 0-7") as raised:
        decode_request(struct.pack(">hhi", 4, 8, 42))
    assert (raised.value.api, raised.value.version, raised.value.correlation_id) == (ApiKey.LEADER_AND_ISR, 8, 42)
    with pytest.raises(UnsupportedVersion):
        decode_request(struct.pack(">hhi", 4, -1, 42))
    with pytest.raises(UnsupportedVersion):
        encode_control_body(STOP_REPLICA, 5)


def test_what_the_owner_does_not_serve_is_refused() -> None:
    payload = encode_request(DescribeLogDirsRequest(), 4, 7, "9")
    with pytest.raises(UnknownApi):
        decode_request(payload, {ApiKey.METADATA: VersionRange(0, 12)})
    with pytest.raises(UnsupportedVersion, match="versions 0-1 are"):
        decode_request(payload, {ApiKey.DESCRIBE_LOG_DIRS: VersionRange(0, 1)})


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    payload = unsupported_api_versions(SPOKEN, 42)
    assert payload == hexed("0000002a 0023 00000001 0012 0000 0004")
    for asked in range(5):
        assert decode_response(ApiKey.API_VERSIONS, asked, payload) == (
            42,
            ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, (ApiVersion(18, 0, 4),)),
        )


EVERY_REQUEST: list[tuple[Request, int]] = [
    (Addressed(LEADER_AND_ISR, EPOCH), 7),
    (Addressed(LEADER_AND_ISR, EPOCH), 0),
    (Addressed(UPDATE_METADATA, EPOCH), 8),
    (Addressed(UPDATE_METADATA, EPOCH), 0),
    (Addressed(STOP_REPLICA, EPOCH), 4),
    (ControlledShutdownRequest(BrokerId(1), EPOCH), 3),
    (MetadataRequest((MetadataRequestTopic("ab", ID),)), 12),
    (ApiVersionsRequest("kafka", "3.9"), 4),
    (DeleteTopicsRequest((DeletableTopic("ab"),), 1), 6),
]
OF_CLIENTS = 3
"""How many of them, at the end."""


@pytest.mark.parametrize("request_, version", EVERY_REQUEST)
def test_a_truncated_request_is_refused_wherever_it_ends(request_: Request, version: int) -> None:
    payload = encode_request(request_, version, 7, "client")
    for end in range(len(payload)):
        with pytest.raises(Malformed):
            decode_request(payload[:end])


@pytest.mark.parametrize("request_, version", EVERY_REQUEST[:-OF_CLIENTS])
def test_bytes_behind_the_end_of_what_brokers_and_controllers_send_are_refused(request_: Request, version: int) -> None:
    payload = encode_request(request_, version, 7, "client")
    with pytest.raises(Malformed, match=f"has 3 bytes behind its end at offset {len(payload)}"):
        decode_request(payload + b"abc")


@pytest.mark.parametrize("request_, version", EVERY_REQUEST[-OF_CLIENTS:])
def test_bytes_behind_the_end_of_what_clients_send_are_ignored_as_in_kafka(request_: Request, version: int) -> None:
    payload = encode_request(request_, version, 7, "client")
    assert decode_request(payload + b"abc") == decode_request(payload)


def test_what_librdkafka_2_16_sends_to_list_all_topics_asks_for_all_topics() -> None:
    sent = bytes.fromhex("0003000c00000003000772646b61666b61 00 00000000 01 00 00")
    decoded = decode_request(sent)
    assert decoded.header.client_id == "rdkafka"
    assert decoded.value == MetadataRequest(None, allow_auto_topic_creation=False)


def test_what_librdkafka_2_16_sends_to_delete_a_scram_credential_is_understood() -> None:
    wanted = AlterUserScramCredentialsRequest((ScramDeletion("nobody", 1),), ())
    assert decode_request(encode_request(wanted, 0, 7, "rdkafka") + b"\0").value == wanted


@pytest.mark.parametrize(
    "what, body",
    [
        ("announces more items than there are bytes", "0000 7fffffff"),
        ("has a negative length", "0000 fffffffb"),
        ("is null where none is allowed", "0000 ffffffff"),
        ("has text that is not UTF-8", "0000 00000001 0002 fffe 00000001 0000"),
        ("has a text longer than the message", "0000 00000001 7fff 61"),
        ("has a null text", "0000 00000001 ffff 00000001 0000"),
    ],
)
def test_a_lying_response_is_malformed(what: str, body: str) -> None:
    with pytest.raises(Malformed, match="StopReplicaResponse v0"):
        decode_response(ApiKey.STOP_REPLICA, 0, hexed("00000007", body))


@pytest.mark.parametrize(
    "body",
    ["00 0000 ffffffff07", "00 0000 ffffffffff07", "00 0000 01 ffffffff07", "00 0000 01 01 05 ffffffff0f 00", "01 05"],
)
def test_a_lying_flexible_response_is_malformed(body: str) -> None:
    with pytest.raises(Malformed, match="StopReplicaResponse v4"):
        decode_response(ApiKey.STOP_REPLICA, 4, hexed("00000007", body))


def test_tagged_fields_of_a_later_kafka_are_passed_over() -> None:
    payload = hexed("00000007 01 63 01 ff 0000 01 01 2a 02 6162")
    assert decode_response(ApiKey.STOP_REPLICA, 4, payload) == (7, StopReplicaResponse(0, ()))
    request = hexed("0012 0003 00000007 0001 39 01 05 02 6162 02 61 02 62 01 07 00")
    assert decode_request(request) == Decoded(
        RequestHeader(ApiKey.API_VERSIONS, 3, 7, "9"), ApiVersionsRequest("a", "b")
    )


def test_a_tagged_field_must_fill_its_size() -> None:
    with pytest.raises(Malformed, match="tagged field 1 at offset 14 takes 8 bytes of 9"):
        decode_response(ApiKey.API_VERSIONS, 3, hexed("00000007 0000 01 00000000 01 01 09 000000000000000000"))


def test_error_codes_of_a_later_kafka_are_kept_as_numbers() -> None:
    assert decode_response(ApiKey.UPDATE_METADATA, 5, hexed("00000007 03e7")) == (7, UpdateMetadataResponse(999))


def test_a_security_protocol_that_kafka_does_not_have_is_malformed() -> None:
    payload = bytearray(sent(UPDATE_METADATA, 8)[4:])
    at = payload.index(b"PLAINTEXT") + len("PLAINTEXT")
    payload[at : at + 2] = b"\x00\x09"
    with pytest.raises(Malformed, match="endpoint h:9092 has security protocol 9"):
        decode_request(bytes(payload))


def test_a_null_client_id_is_none() -> None:
    payload = encode_request(MetadataRequest(None), 12, 7, None)
    assert decode_request(payload).header.client_id is None


def test_a_client_id_that_is_not_text_is_malformed() -> None:
    with pytest.raises(Malformed, match="client id is not UTF-8"):
        decode_request(hexed("0003 0001 00000007 0002 fffe ffffffff"))


def test_fields_that_a_version_lacks_have_their_defaults() -> None:
    payload = encode_response(ApiKey.METADATA, 0, 7, MetadataResponse((), "cluster", BrokerId(4), ()))
    assert decode_response(ApiKey.METADATA, 0, payload) == (7, MetadataResponse((), None, BrokerId(-1), ()))
