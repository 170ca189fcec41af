"""The client on real loopback sockets, against brokers that answer, lie, dawdle and vanish."""

import asyncio
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lethe.adapters.kafka.client import ClientError, ConnectionFailed, KafkaConnection, ProtocolError, RequestTimedOut
from lethe.protocol.kafka.codec import (
    Unencodable,
    UnsupportedVersion,
    decode_request,
    encode_control_body,
    encode_response,
    unsupported_api_versions,
)
from lethe.protocol.kafka.connection import api_versions_response
from lethe.protocol.kafka.control import (
    Addressed,
    ApiKey,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    TopicError,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    Response,
)
from lethe.protocol.kafka.versions import VersionRange
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, ControllerEpoch

LIMIT_S = 30
ALL = MetadataRequest(None)
ANSWER = MetadataResponse((), "cluster", BrokerId(1), ())

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def broker(script: Script) -> AsyncIterator[int]:
    """A broker that does what the script says to each connection; gives its port."""
    connections: list[asyncio.StreamWriter] = []

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        try:
            await script(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            return

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in connections:
            writer.transport.abort()


@asynccontextmanager
async def connected(script: Script, request_timeout_ms: int = LIMIT_S * 1000) -> AsyncIterator[KafkaConnection]:
    async with (
        broker(script) as port,
        await KafkaConnection.open(
            "127.0.0.1", port, "1001", request_timeout_ms=request_timeout_ms, max_response_bytes=1_000_000
        ) as client,
    ):
        yield client


async def receive(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def send(writer: asyncio.StreamWriter, payload: bytes) -> None:
    writer.write(struct.pack(">i", len(payload)) + payload)


def answering(response: Response) -> Script:
    """Gives the same answer to every request."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            header, _ = decode_request(await receive(reader))
            send(writer, encode_response(header.api, header.version, header.correlation_id, response))

    return script


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


def replying(data: bytes) -> Script:
    """Waits for one request and sends these bytes, whatever they are, then goes on reading."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receive(reader)
        writer.write(data)
        await reader.read()

    return script


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.005)


# --- answers ------------------------------------------------------------------------------------------------------


async def test_requests_are_answered_one_after_the_other() -> None:
    async with connected(answering(ANSWER)) as client:
        for _ in range(3):
            assert await client.request(ALL, 12) == ANSWER
        assert await asyncio.gather(*(client.request(ALL, 12) for _ in range(5))) == [ANSWER] * 5
        assert client.is_open


async def test_one_body_goes_to_many_brokers_each_with_its_epoch() -> None:
    seen: list[Addressed] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            header, value = decode_request(await receive(reader))
            assert isinstance(value, Addressed)
            assert header.client_id == "1001"
            seen.append(value)
            response = StopReplicaResponse.of_rows(0, (TopicError("t", 0, value.broker_epoch % 100),))
            send(writer, encode_response(header.api, header.version, header.correlation_id, response))

    stop = StopReplicaRequest(
        BrokerId(1001), ControllerEpoch(1), (StopReplicaTopic("t", (StopReplicaPartition(0, -2, True),)),)
    )
    body = encode_control_body(stop, 4)
    async with connected(script) as one, connected(script) as other:
        assert await one.send_body(body, BrokerEpoch(901)) == StopReplicaResponse.of_rows(0, (TopicError("t", 0, 1),))
        assert await other.send_body(body, BrokerEpoch(902)) == StopReplicaResponse.of_rows(0, (TopicError("t", 0, 2),))
    assert seen == [Addressed(stop, BrokerEpoch(901)), Addressed(stop, BrokerEpoch(902))]


async def test_what_cannot_be_encoded_leaves_the_connection_as_it_was() -> None:
    async with connected(answering(ANSWER)) as client:
        with pytest.raises(Unencodable):
            await client.request(MetadataRequest(()), 0)
        with pytest.raises(UnsupportedVersion):
            await client.request(ALL, 13)
        assert await client.request(ALL, 12) == ANSWER


# --- versions -----------------------------------------------------------------------------------------------------


def knowing(served: dict[ApiKey, VersionRange], asked: list[int], with_versions: bool) -> Script:
    """A broker of some age; before Kafka 2.4 its refusal does not say which ApiVersions it knows."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            payload = await receive(reader)
            api, version, correlation_id = struct.unpack_from(">hhi", payload)
            asked.append(version)
            if api == ApiKey.API_VERSIONS and version not in served[ApiKey.API_VERSIONS]:
                refusal = unsupported_api_versions(served, correlation_id)
                bare = encode_response(ApiKey.API_VERSIONS, 0, correlation_id, ApiVersionsResponse(35, ()))
                send(writer, refusal if with_versions else bare)
                continue
            value = decode_request(payload).value
            answer: Response = api_versions_response(served) if isinstance(value, ApiVersionsRequest) else ANSWER
            send(writer, encode_response(ApiKey(api), version, correlation_id, answer))

    return script


@pytest.mark.parametrize(
    "newest_api_versions, with_versions, asked_versions",
    [(4, True, [4]), (3, True, [4, 3]), (2, False, [4, 0])],
)
async def test_the_highest_common_version_is_found(
    newest_api_versions: int, with_versions: bool, asked_versions: list[int]
) -> None:
    served = {ApiKey.METADATA: VersionRange(0, 9), ApiKey.API_VERSIONS: VersionRange(0, newest_api_versions)}
    asked: list[int] = []
    async with connected(knowing(served, asked, with_versions)) as client:
        assert await client.ask(ALL) == ANSWER
        assert await client.ask(ALL) == ANSWER
    assert asked == [*asked_versions, 9, 9]


async def test_without_a_common_version_both_sides_are_named() -> None:
    served = {ApiKey.METADATA: VersionRange(13, 15), ApiKey.API_VERSIONS: VersionRange(0, 4)}
    async with connected(knowing(served, [], with_versions=True)) as client:
        with pytest.raises(
            ProtocolError, match=r"no common version of METADATA: the broker offers 13-15, Lethe speaks 0-12"
        ):
            await client.ask(ALL)
        stop = StopReplicaRequest(BrokerId(1), ControllerEpoch(1), ())
        with pytest.raises(ProtocolError, match="127.0.0.1:.*does not offer STOP_REPLICA"):
            await client.ask(Addressed(stop, BrokerEpoch(1)))


async def test_a_broker_that_refuses_to_tell_its_versions_is_quoted() -> None:
    refusal = ApiVersionsResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ())
    async with connected(answering(refusal)) as client:
        with pytest.raises(ProtocolError, match="does not tell its versions: CLUSTER_AUTHORIZATION_FAILED"):
            await client.ask(ALL)


# --- brokers that break the protocol ------------------------------------------------------------------------------


def reply_with_id(correlation_id: int) -> bytes:
    payload = encode_response(ApiKey.METADATA, 12, correlation_id, ANSWER)
    return struct.pack(">i", len(payload)) + payload


@pytest.mark.parametrize(
    "data, reason",
    [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "the text 'HTTP' is no frame: the peer does not speak",
        ),
        (b"\xff\xff\xff\xf0", "frame size -16 is negative"),
        (struct.pack(">i", 1_000_001), "raise the limit for responses"),
        (b"\0\0\0\2ab", "a response of 2 bytes has no correlation id"),
        (reply_with_id(9), "the answer to METADATA has correlation id 9 instead of 0"),
        (b"\0\0\0\6\0\0\0\0\0\0", "MetadataResponse v12 is truncated"),
        (struct.pack(">iib", 9, 0, 0) + b"\0\0\0\0", "MetadataResponse v12 is truncated"),
        (struct.pack(">iibi", 14, 0, 0, 0) + b"\xff\xff\xff\xff\x07", "an array of 2147483646 items"),
    ],
)
async def test_an_answer_that_is_none_closes_the_connection(data: bytes, reason: str) -> None:
    async with connected(replying(data)) as client:
        with pytest.raises(ProtocolError) as raised:
            await client.request(ALL, 12)
        assert reason in str(raised.value)
        assert client.peer in str(raised.value)
        assert not client.is_open
        with pytest.raises(ConnectionFailed, match="is closed: the METADATA before was not answered"):
            await client.request(ALL, 12)


async def test_a_second_answer_to_one_request_is_refused() -> None:
    async with connected(replying(reply_with_id(0) * 2)) as client:
        with pytest.raises(ProtocolError, match="correlation id 0 came, and nothing was asked"):
            await client.request(ALL, 12)


async def test_an_answer_left_over_is_not_taken_for_the_next_one() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receive(reader)
        writer.write(reply_with_id(0))
        await receive(reader)
        writer.write(reply_with_id(0))
        await reader.read()

    async with connected(script) as client:
        assert await client.request(ALL, 12) == ANSWER
        with pytest.raises(ProtocolError, match="correlation id 0 instead of 1"):
            await client.request(ALL, 12)


# --- brokers that do not answer -----------------------------------------------------------------------------------


async def test_an_answer_that_never_comes_times_out_and_closes() -> None:
    async with connected(silent, request_timeout_ms=20) as client:
        with pytest.raises(RequestTimedOut, match=r"127\.0\.0\.1:\d+ did not answer METADATA within 20 ms"):
            await client.request(ALL, 12)
        assert not client.is_open
        with pytest.raises(ConnectionFailed):
            await client.request(ALL, 12)


async def test_half_an_answer_times_out() -> None:
    async with connected(replying(reply_with_id(0)[:10])) as client:
        with pytest.raises(RequestTimedOut, match="within 20 ms"):
            await client.request(ALL, 12, timeout_ms=20)


async def test_a_broker_that_does_not_read_times_out() -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    topics = tuple(StopReplicaTopic(f"t{n}" * 50, (StopReplicaPartition(0, -2, True),)) for n in range(50_000))
    body = encode_control_body(StopReplicaRequest(BrokerId(1), ControllerEpoch(1), topics), 4)
    async with connected(deaf) as client:
        with pytest.raises(RequestTimedOut):
            await client.send_body(body, BrokerEpoch(1), timeout_ms=100)


async def test_half_an_answer_and_goodbye_is_a_protocol_error() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receive(reader)
        writer.write(reply_with_id(0)[:10])
        writer.close()

    async with connected(script) as client:
        with pytest.raises(ProtocolError, match="ended inside a frame, after 10 of its bytes"):
            await client.request(ALL, 12)


async def test_a_closed_connection_is_noticed_before_anything_is_sent() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with connected(script) as client:
        await until(lambda: not client.is_open)
        with pytest.raises(ConnectionFailed, match="is closed: by the broker"):
            await client.request(ALL, 12)


async def test_a_connection_closed_in_place_of_an_answer_fails() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receive(reader)
        writer.close()

    async with connected(script) as client:
        with pytest.raises(ConnectionFailed, match="closed the connection without an answer"):
            await client.request(ALL, 12)


async def test_a_reset_in_place_of_an_answer_fails() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receive(reader)
        writer.get_extra_info("socket").setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: close by reset
        writer.transport.abort()

    async with connected(script) as client:
        with pytest.raises(ConnectionFailed):
            await client.request(ALL, 12)
        assert not client.is_open


async def test_a_cancelled_request_closes_the_connection() -> None:
    async with connected(silent) as client:
        asking = asyncio.create_task(client.request(ALL, 12))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        with pytest.raises(ConnectionFailed):
            await client.request(ALL, 12)


async def test_closing_ends_a_request_under_way() -> None:
    async with connected(silent) as client:
        async with asyncio.TaskGroup() as group:

            async def expect_failure() -> None:
                with pytest.raises(ConnectionFailed):
                    await client.request(ALL, 12)

            group.create_task(expect_failure())
            await asyncio.sleep(0)
            await client.close()
        await client.close()
        assert not client.is_open


# --- connecting ---------------------------------------------------------------------------------------------------


async def test_nobody_there_is_told_with_the_address() -> None:
    async with broker(silent) as port:
        pass
    with pytest.raises(ConnectionFailed, match=rf"cannot connect to 127\.0\.0\.1:{port}: "):
        await KafkaConnection.open("127.0.0.1", port, "1001")


@pytest.mark.parametrize("host, port", [("127.0.0.1", 70_000), ("x" * 80, 9092), ("a\0b", 9092), ("127.0.0.1", -1)])
async def test_an_address_that_is_none_fails_like_one_where_nobody_is(host: str, port: int) -> None:
    with pytest.raises(ConnectionFailed, match="cannot connect to"):
        await KafkaConnection.open(host, port, "1001")


NOBODY_IS_BLAMED = """
import asyncio, sys
from lethe.adapters.kafka.client import KafkaConnection

async def main():
    ready = []

    async def accepted(reader, writer):
        ready.append(any(name.startswith("kio.schema") for name in sys.modules))
        writer.close()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    assert not any(name.startswith("kio") for name in sys.modules)
    async with await KafkaConnection.open("127.0.0.1", server.sockets[0].getsockname()[1], "test"):
        while not ready:
            await asyncio.sleep(0.001)
    assert ready == [True]

asyncio.run(main())
"""


def test_what_it_takes_to_ask_is_there_before_the_time_of_the_first_broker_counts() -> None:
    subprocess.run(
        [sys.executable, "-c", NOBODY_IS_BLAMED],
        env={"PYTHONPATH": str(Path(__file__).parents[3])},
        check=True,
        timeout=60,
    )


async def test_the_failures_have_one_parent() -> None:
    assert issubclass(ConnectionFailed, ClientError)
    assert issubclass(RequestTimedOut, ClientError)
