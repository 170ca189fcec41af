"""Whatever bytes come, decoding ends in a value or in a ProtocolError, soon and without taking memory for lies."""

import contextlib
import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.protocol.kafka.codec import decode_request, decode_response, encode_request, encode_response
from lethe.protocol.kafka.connection import ClientConnection, ServerConnection
from lethe.protocol.kafka.control import (
    Addressed,
    ApiKey,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    Node,
    StopReplicaResponse,
    TopicError,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
)
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.kafka.queries import MetadataRequest
from lethe.protocol.kafka.versions import SPOKEN
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, ControllerEpoch, Endpoint

EVERY = [(api, version) for api, spoken in SPOKEN.items() for version in range(spoken.min, spoken.max + 1)]


def ends_well(decode: Callable[[], object]) -> None:
    with contextlib.suppress(ProtocolError):
        decode()


@settings(max_examples=300)
@given(message=st.sampled_from(EVERY), body=st.binary(max_size=200))
def test_any_body_behind_a_valid_header(message: tuple[ApiKey, int], body: bytes) -> None:
    api, version = message
    ends_well(lambda: decode_request(struct.pack(">hhih", api, version, 1, -1) + body))
    ends_well(lambda: decode_request(struct.pack(">hhih", api, version, 1, -1) + b"\0" + body))
    ends_well(lambda: decode_response(api, version, b"\0\0\0\1" + body))
    ends_well(lambda: decode_response(api, version, b"\0\0\0\1\0" + body))


@given(payload=st.binary(max_size=60))
def test_any_payload(payload: bytes) -> None:
    ends_well(lambda: decode_request(payload))


STATES = tuple(LeaderAndIsrPartition(p, 5, 1, 2, (1, 2), 4, (1, 2, 3), (3,), (2,), True, 1) for p in range(3))
METADATA_STATES = tuple(UpdateMetadataPartition(p, 5, 1, 2, (1, 2), 4, (1, 2, 3), (3,)) for p in range(3))
BROKERS = (Broker(BrokerId(1), BrokerEpoch(-1), (Endpoint("PLAINTEXT", "host", 9092),), "rack"),)
LEADER_AND_ISR = LeaderAndIsrRequest(
    BrokerId(1), ControllerEpoch(1), (LeaderAndIsrTopic("orders", None, STATES),), (Node(1, "host", 9092),)
)
UPDATE_METADATA = UpdateMetadataRequest(
    BrokerId(1), ControllerEpoch(1), (UpdateMetadataTopic("orders", None, METADATA_STATES),), BROKERS
)
VALID = [
    encode_request(Addressed(request, BrokerEpoch(7)), version, 1, "1001")
    for request, api in ((LEADER_AND_ISR, ApiKey.LEADER_AND_ISR), (UPDATE_METADATA, ApiKey.UPDATE_METADATA))
    for version in range(SPOKEN[api].min, SPOKEN[api].max + 1)
]


@settings(max_examples=300)
@given(payload=st.sampled_from(VALID), data=st.data())
def test_a_valid_request_with_bytes_changed(payload: bytes, data: st.DataObject) -> None:
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    ends_well(lambda: decode_request(bytes(damaged)))


@settings(max_examples=100)
@given(cut=st.integers(0, 400), payload=st.sampled_from(VALID))
def test_a_valid_request_cut_short_is_refused(cut: int, payload: bytes) -> None:
    if cut < len(payload):
        with pytest.raises(ProtocolError):
            decode_request(payload[:cut])


@given(stream=st.binary(max_size=200), cuts=st.lists(st.integers(1, 50), max_size=10))
def test_any_stream_on_either_side_of_a_connection(stream: bytes, cuts: list[int]) -> None:
    pieces, rest = [], stream
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    client, server = ClientConnection("me"), ServerConnection()
    client.send(MetadataRequest(None), 12)

    def listen() -> None:
        for piece in [*pieces, rest]:
            server.receive(piece)
            while server.next_request() is not None:
                pass

    ends_well(lambda: [client.receive(piece) for piece in [*pieces, rest]])
    ends_well(listen)


EMPTY = StopReplicaResponse(0, ())


def test_an_announced_length_takes_no_memory() -> None:
    rows = tuple(TopicError("orders", p, 0) for p in range(3))
    flat = bytearray(encode_response(ApiKey.STOP_REPLICA, 0, 1, StopReplicaResponse.of_rows(0, rows)))
    flat[6:10] = struct.pack(">i", 2**31 - 1)
    compact = b"\0\0\0\1\0\0\0" + b"\xff\xff\xff\xff\x07"
    tagged = b"\0\0\0\1\0\0\0\1" + b"\xff\xff\xff\xff\x07"
    for version, lie in ((0, bytes(flat)), (4, compact), (4, tagged)):
        decode_response(ApiKey.STOP_REPLICA, version, encode_response(ApiKey.STOP_REPLICA, version, 1, EMPTY))
        tracemalloc.start()
        with pytest.raises(ProtocolError):
            decode_response(ApiKey.STOP_REPLICA, version, lie)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < 100_000
