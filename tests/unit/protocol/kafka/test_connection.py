import struct

import pytest

from lethe.protocol.kafka.admin import (
    CreatableAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    DeletableTopic,
    DeleteTopicsRequest,
)
from lethe.protocol.kafka.admin_configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterableResource,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.admin_partitions import (
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    TopicPartitions,
)
from lethe.protocol.kafka.codec import Decoded, UnsupportedVersion, encode_control_body, encode_request
from lethe.protocol.kafka.connection import (
    Buffers,
    ClientConnection,
    Reply,
    ServerConnection,
    api_versions_response,
    highest_common_version,
)
from lethe.protocol.kafka.control import ApiKey, UpdateMetadataRequest, UpdateMetadataResponse
from lethe.protocol.kafka.forwarding import MAX_CLAIMED_BYTES, OwnApis
from lethe.protocol.kafka.framing import FrameError, ProtocolError
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
from lethe.protocol.kafka.versions import VersionRange
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, ControllerEpoch

ALL = MetadataRequest(None)
ANSWER = MetadataResponse((), "cluster", BrokerId(1), ())


def joined(buffers: Buffers) -> bytes:
    return b"".join(buffers)


def taken(server: ServerConnection) -> Decoded:
    request = server.next_request()
    assert isinstance(request, Decoded)
    return request


def test_a_request_crosses_and_its_answer_comes_back() -> None:
    client, server = ClientConnection("me"), ServerConnection()
    server.receive(joined(client.send(ALL, 12)))
    header, value = taken(server)
    assert (header.correlation_id, header.client_id, value) == (0, "me", ALL)
    assert client.unanswered == 1
    assert client.receive(joined(server.reply(ANSWER))) == [Reply(0, ApiKey.METADATA, 12, ANSWER)]
    assert client.unanswered == 0
    client.end_of_stream()
    server.end_of_stream()


def test_pipelined_requests_are_taken_one_at_a_time_in_order() -> None:
    client, server = ClientConnection("me"), ServerConnection()
    body = encode_control_body(UpdateMetadataRequest(BrokerId(1), ControllerEpoch(1), (), ()), 8)
    server.receive(joined(client.send(ALL, 12)) + joined(client.send_body(body, BrokerEpoch(5))))
    assert taken(server).value == ALL
    assert server.next_request() is None
    replies = client.receive(joined(server.reply(ANSWER)))
    assert taken(server).header.api is ApiKey.UPDATE_METADATA
    replies += client.receive(joined(server.reply(UpdateMetadataResponse(0))))
    assert server.next_request() is None
    assert [(reply.correlation_id, reply.value) for reply in replies] == [(0, ANSWER), (1, UpdateMetadataResponse(0))]


def test_an_answer_out_of_order_names_both_ids() -> None:
    client, first, second = ClientConnection("me"), ServerConnection(), ServerConnection()
    first.receive(joined(client.send(ALL, 12)))
    second.receive(joined(client.send(ALL, 12)))
    taken(first)
    taken(second)
    with pytest.raises(ProtocolError, match="METADATA has correlation id 1 instead of 0"):
        client.receive(joined(second.reply(ANSWER)))


def test_an_answer_to_nothing_is_refused() -> None:
    with pytest.raises(ProtocolError, match="correlation id 5 came, and nothing was asked"):
        ClientConnection("me").receive(struct.pack(">ii", 4, 5))


def test_correlation_ids_wrap_around() -> None:
    client, server = ClientConnection("me"), ServerConnection()
    client._next_id = 2**31 - 1
    for expected in (2**31 - 1, 0):
        server.receive(joined(client.send(ALL, 12)))
        assert taken(server).header.correlation_id == expected
        assert client.receive(joined(server.reply(ANSWER)))[0].correlation_id == expected


def test_an_end_inside_a_frame_is_told_on_both_sides() -> None:
    client, server = ClientConnection("me"), ServerConnection()
    server.receive(joined(client.send(ALL, 12))[:-1])
    assert server.next_request() is None
    assert client.receive(b"\0\0\0") == []
    for side in (client, server):
        with pytest.raises(FrameError, match="ended inside a frame"):
            side.end_of_stream()


def test_limits_hold_on_both_sides() -> None:
    client, server = ClientConnection("me", max_response_bytes=10), ServerConnection(max_request_bytes=10)
    client.send(ALL, 12)
    with pytest.raises(FrameError, match="11 bytes exceeds the limit of 10 bytes.*the limit for responses"):
        client.receive(struct.pack(">i", 11))
    server.receive(struct.pack(">i", 11))
    with pytest.raises(FrameError, match=r"11 bytes exceeds the limit of 10 bytes.*socket\.request\.max\.bytes"):
        server.next_request()


def test_api_versions_is_answered_from_the_table() -> None:
    served = {ApiKey.API_VERSIONS: VersionRange(0, 3), ApiKey.METADATA: VersionRange(1, 9)}
    client, server = ClientConnection("me"), ServerConnection(served)
    server.receive(joined(client.send(ApiVersionsRequest("lethe", "1"), 3)))
    answer = server.next_request()
    assert answer is not None
    assert not isinstance(answer, Decoded)
    (reply,) = client.receive(joined(answer))
    assert reply.value == ApiVersionsResponse(0, (ApiVersion(3, 1, 9), ApiVersion(18, 0, 3)))
    assert reply.value == api_versions_response(served)
    assert server.next_request() is None


def test_an_api_versions_request_that_is_too_new_learns_what_is_known() -> None:
    served = {ApiKey.API_VERSIONS: VersionRange(0, 3)}
    client, server = ClientConnection("me"), ServerConnection(served)
    server.receive(joined(client.send(ApiVersionsRequest("lethe", "1"), 4)))
    answer = server.next_request()
    assert answer is not None
    assert not isinstance(answer, Decoded)
    (reply,) = client.receive(joined(answer))
    assert reply.value == ApiVersionsResponse(35, (ApiVersion(18, 0, 3),))


def test_other_versions_that_are_not_served_are_an_error() -> None:
    server = ServerConnection({ApiKey.METADATA: VersionRange(0, 9)})
    payload = encode_request(ALL, 10, 0, "me")
    server.receive(struct.pack(">i", len(payload)) + payload)
    with pytest.raises(UnsupportedVersion, match="METADATA version 10 is not spoken here: versions 0-9 are"):
        server.next_request()


def test_a_reply_needs_a_request() -> None:
    with pytest.raises(RuntimeError, match="no request"):
        ServerConnection().reply(ANSWER)


@pytest.mark.parametrize("theirs, version", [((0, 4), 4), ((0, 9), 4), ((0, 1), 1), ((4, 7), 4), ((2, 2), 2)])
def test_the_highest_common_version(theirs: tuple[int, int], version: int) -> None:
    offered = {int(ApiKey.DESCRIBE_LOG_DIRS): VersionRange(*theirs)}
    assert highest_common_version(ApiKey.DESCRIBE_LOG_DIRS, offered) == version
    client = ClientConnection("me")
    assert client.send(DescribeLogDirsRequest(), version)


def test_no_common_version_is_an_error_that_names_both() -> None:
    with pytest.raises(
        ProtocolError, match="no common version of DESCRIBE_LOG_DIRS: the broker offers 5-6, Lethe speaks 0-4"
    ):
        highest_common_version(ApiKey.DESCRIBE_LOG_DIRS, {35: VersionRange(5, 6)})
    with pytest.raises(ProtocolError, match="does not offer METADATA"):
        highest_common_version(ApiKey.METADATA, {35: VersionRange(0, 4)})


def test_the_limit_of_requests_can_change_and_a_refusal_names_its_property() -> None:
    connection = ServerConnection()
    connection.limit(100, "sasl.server.max.receive.size")
    connection.receive(struct.pack(">ihhi", 101, ApiKey.SASL_HANDSHAKE, 1, 7))
    with pytest.raises(FrameError, match="raise sasl.server.max.receive.size"):
        connection.next_head()
    connection.limit(1_000, "socket.request.max.bytes")
    assert connection.next_head() == (101, ApiKey.SASL_HANDSHAKE, 1, 7)


def altering(resource_type: int, name: str, settings: int) -> bytes:
    """A frame of a request that sets so many settings, each to a text of 30,000 letters."""
    configs = tuple(AlterableConfig(f"s{number}", "x" * 30_000) for number in range(settings))
    request = IncrementalAlterConfigsRequest((AlterableResource(resource_type, name, configs),), False)
    payload = encode_request(request, 1, 0, "me")
    return struct.pack(">i", len(payload)) + payload


@pytest.mark.parametrize(
    "frame, is_ours, decoded",
    [
        (altering(BROKER_RESOURCE, "1001", 1), True, 1),
        (altering(BROKER_RESOURCE, "1001", 30), True, 1),
        (altering(TOPIC_RESOURCE, "1001", 1), False, 1),
        (altering(TOPIC_RESOURCE, "orders", 30), False, 0),
        (altering(BROKER_RESOURCE, "1001", 35), False, 0),
    ],
)
def test_a_request_about_the_owner_is_answered_and_others_are_forwarded(
    frame: bytes, is_ours: bool, decoded: int
) -> None:
    """Only what may be about the owner is decoded for that, once it is complete."""
    seen: list[Request] = []

    def are_ours(request: Request) -> bool:
        seen.append(request)
        assert isinstance(request, IncrementalAlterConfigsRequest)
        return request.resources[0].resource == (BROKER_RESOURCE, "1001")

    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    server = ServerConnection({}, passes_on=True, claims=OwnApis({api: VersionRange(0, 1)}, are_ours, b"1001"))
    server.receive(frame[:-1])
    assert (server.foreign_head() is None) == (len(frame) <= MAX_CLAIMED_BYTES + 4)
    assert not seen
    server.receive(frame[-1:])
    head = server.foreign_head()
    assert (head is None, len(seen)) == (is_ours, decoded)
    assert server.pending_bytes == len(frame)
    if is_ours:
        assert taken(server).header.api is api


MIB = 1_048_576


@pytest.mark.parametrize(
    "api, limit",
    [
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, MIB),
        (ApiKey.DELETE_TOPICS, 2 * MIB),
        (ApiKey.ELECT_LEADERS, 2 * MIB),
        (ApiKey.METADATA, 2 * MIB),
        (ApiKey.CREATE_TOPICS, 4 * MIB),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 4 * MIB),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 4 * MIB),
        (ApiKey.ALTER_PARTITION, 4 * MIB),
    ],
    ids=lambda each: each.name if isinstance(each, ApiKey) else str(each),
)
def test_a_request_too_large_for_its_api_is_refused_before_its_rows_arrive(api: ApiKey, limit: int) -> None:
    largest, larger = ServerConnection(), ServerConnection()
    largest.receive(struct.pack(">ihhi", limit, api, 1, 7))
    assert largest.next_request() is None
    larger.receive(struct.pack(">ihhi", limit + 1, api, 1, 7))
    with pytest.raises(FrameError, match=f"{api.name} of {limit + 1:,} bytes exceeds the limit of {limit:,} bytes"):
        larger.next_request()


def test_a_controllers_request_about_the_whole_cluster_may_have_any_size_below_the_common_limit() -> None:
    server = ServerConnection()
    server.receive(struct.pack(">ihhi", 100 * MIB, ApiKey.UPDATE_METADATA, 8, 7))
    assert server.next_request() is None


PARTITIONS = tuple(range(10))
NAMES = tuple(f"{number:0100}" for number in range(10_000))
THROTTLED = ",".join(f"{number}:{broker}" for number in PARTITIONS for broker in (1001, 1002, 1003))
PLACED = tuple(CreatableAssignment(number, (1, 2, 3)) for number in PARTITIONS)
THROTTLE = (AlterableConfig("leader.replication.throttled.replicas", THROTTLED),)


@pytest.mark.parametrize(
    "request_, version",
    [
        (CreateTopicsRequest(tuple(CreatableTopic(name[-30:], -1, -1, PLACED) for name in NAMES), 30_000), 7),
        (DeleteTopicsRequest(tuple(map(DeletableTopic, NAMES)), 30_000), 6),
        (MetadataRequest(tuple(map(MetadataRequestTopic, NAMES))), 12),
        (ElectLeadersRequest(tuple(TopicPartitions(name, PARTITIONS) for name in NAMES), 30_000), 2),
        (ListPartitionReassignmentsRequest(tuple(TopicPartitions(name, PARTITIONS) for name in NAMES), 30_000), 0),
        (
            IncrementalAlterConfigsRequest(
                tuple(AlterableResource(TOPIC_RESOURCE, name[-30:], THROTTLE) for name in NAMES)
            ),
            1,
        ),
    ],
    ids=lambda each: str(each) if isinstance(each, int) else type(each).__name__,
)
def test_the_largest_requests_of_clients_with_ten_thousand_topics_fit(request_: Request, version: int) -> None:
    payload = encode_request(request_, version, 0, "me")
    server = ServerConnection()
    server.receive(struct.pack(">i", len(payload)) + payload[:8])
    assert server.next_request() is None
