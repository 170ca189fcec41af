"""The server on real loopback sockets, with peers of every kind."""

import asyncio
import contextlib
import gc
import logging
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from lethe.adapters.kafka.client import ConnectionFailed, KafkaConnection
from lethe.adapters.kafka.limits import ServerLimits
from lethe.adapters.kafka.server import Close, Handler, KafkaServer, ListenFailed, Peer
from lethe.protocol.kafka.codec import RequestHeader, decode_response, encode_control_body, encode_request
from lethe.protocol.kafka.control import Addressed, ApiKey, StopReplicaRequest, StopReplicaResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    ApiVersion,
    ApiVersionsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    Request,
    Response,
)
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.vocabulary import NO_EPOCH, BrokerEpoch, BrokerId, ControllerEpoch

LIMIT_S = 30
STOP = StopReplicaRequest(BrokerId(1001), ControllerEpoch(3), ())


def metadata(cluster_id: str) -> MetadataResponse:
    return MetadataResponse((), cluster_id, BrokerId(1), ())


async def echo(header: RequestHeader, value: Request, peer: Peer) -> Response | Close:
    """Answers Metadata with the topic that was asked for, in place of the cluster id."""
    match value:
        case MetadataRequest(topics=((str(name), _),)):
            return metadata(name)
        case MetadataRequest():
            return metadata(f"{header.client_id}@{peer.host}")
        case _:
            return Close("a test that asks for something else")


@asynccontextmanager
async def running(
    handler: Handler = echo,
    limits: ServerLimits = ServerLimits(max_connections=100),  # noqa: B008 - frozen
    served: Mapping[ApiKey, VersionRange] = SPOKEN,
    note_request: Callable[[ApiKey, int], None] = lambda _api, _bytes: None,
) -> AsyncIterator[KafkaServer]:
    server = KafkaServer(handler, served, limits, note_request=note_request)
    await server.listen("127.0.0.1", 0)
    task = asyncio.create_task(server.serve(), name="server")
    await server.started()
    try:
        yield server
    finally:
        server.stop(grace_ms=0)
        await asyncio.wait_for(task, LIMIT_S)


async def connect(server: KafkaServer) -> KafkaConnection:
    return await KafkaConnection.open("127.0.0.1", server.addresses[0].port, "test", request_timeout_ms=LIMIT_S * 1000)


@asynccontextmanager
async def raw(server: KafkaServer) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.addresses[0].port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def named(topic: str) -> MetadataRequest:
    return MetadataRequest((MetadataRequestTopic(topic),))


async def answer_from(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), LIMIT_S))
    return await asyncio.wait_for(reader.readexactly(size), LIMIT_S)


async def closed(reader: asyncio.StreamReader) -> None:
    """Returns when the server has closed the connection without sending anything."""
    try:
        assert await asyncio.wait_for(reader.read(1), LIMIT_S) == b""
    except ConnectionResetError:
        return


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.005)


# --- serving ------------------------------------------------------------------------------------------------------


async def test_the_handler_sees_who_asks_and_what() -> None:
    seen: list[tuple[RequestHeader, Request]] = []

    async def handler(header: RequestHeader, value: Request, peer: Peer) -> Response:
        seen.append((header, value))
        return StopReplicaResponse(0, ())

    stop = StopReplicaRequest(BrokerId(1001), ControllerEpoch(3), ())
    async with running(handler) as server, await connect(server) as client:
        answer = await client.send_body(encode_control_body(stop, 4), BrokerEpoch(77))
    assert answer == StopReplicaResponse(0, ())
    assert seen == [(RequestHeader(ApiKey.STOP_REPLICA, 4, 0, "test"), Addressed(stop, BrokerEpoch(77)))]


async def test_requests_of_one_connection_are_answered_one_by_one_in_order() -> None:
    at_once = 0

    async def slow_first(header: RequestHeader, value: Request, peer: Peer) -> Response | Close:
        nonlocal at_once
        at_once += 1
        assert at_once == 1
        await asyncio.sleep(0.02 if header.correlation_id == 0 else 0)
        at_once -= 1
        return await echo(header, value, peer)

    async with running(slow_first) as server, raw(server) as (reader, writer):
        frames = [framed(encode_request(named(f"t{n}"), 12, n, "me")) for n in range(5)]
        writer.write(b"".join(frames))
        for n in range(5):
            assert decode_response(ApiKey.METADATA, 12, await answer_from(reader)) == (n, metadata(f"t{n}"))


async def test_connections_do_not_wait_for_each_other() -> None:
    release = asyncio.Event()

    async def handler(header: RequestHeader, value: Request, peer: Peer) -> Response | Close:
        if value == named("slow"):
            await release.wait()
        return await echo(header, value, peer)

    async with running(handler) as server, await connect(server) as slow, await connect(server) as quick:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(slow.request(named("slow"), 12))
            assert await quick.request(named("quick"), 12) == metadata("quick")
            assert not waiting.done()
            release.set()
        assert waiting.result() == metadata("slow")


async def test_a_request_may_come_byte_by_byte() -> None:
    async with running() as server, raw(server) as (reader, writer):
        for byte in framed(encode_request(named("slowly"), 0, 3, "me")):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        answered = decode_response(ApiKey.METADATA, 0, await answer_from(reader))
        assert answered == (3, MetadataResponse((), None, BrokerId(-1), ()))


async def test_a_large_answer_arrives_whole() -> None:
    async with running() as server, await connect(server) as client:
        name = "n" * 30_000
        for _ in range(3):
            assert await client.request(named(name), 12) == metadata(name)


async def test_served_versions_are_told() -> None:
    served = {ApiKey.METADATA: VersionRange(0, 12), ApiKey.API_VERSIONS: VersionRange(0, 3)}
    async with running(served=served) as server, await connect(server) as client:
        assert await client.offered_versions() == {3: VersionRange(0, 12), 18: VersionRange(0, 3)}
        assert await client.ask(named("t")) == metadata("t")


async def test_an_unknown_version_of_api_versions_is_answered_and_the_connection_lives() -> None:
    async with running() as server, raw(server) as (reader, writer):
        writer.write(framed(struct.pack(">hhih", 18, 99, 5, -1) + b"\0whatever comes in version 99"))
        assert decode_response(ApiKey.API_VERSIONS, 0, await answer_from(reader)) == (
            5,
            ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, (ApiVersion(18, *SPOKEN[ApiKey.API_VERSIONS]),)),
        )
        writer.write(framed(encode_request(named("after"), 12, 6, None)))
        assert decode_response(ApiKey.METADATA, 12, await answer_from(reader)) == (6, metadata("after"))


# --- peers that break the protocol --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "the text 'GET ' is no frame: the peer does not"),
        (b"\xff\xff\xff\xff", "frame size -1 is negative"),
        (framed(b"\0"), "a request of 1 byte has no complete header"),
        (framed(struct.pack(">hhih", 999, 0, 1, -1)), "API 999 (version 0) is not served here"),
        (framed(struct.pack(">hhih", 4, 99, 1, -1)), "LEADER_AND_ISR version 99 is not spoken here"),
        (framed(encode_request(named("t"), 12, 0, "x")[:-4]), "MetadataRequest v12 is truncated"),
        (framed(encode_request(Addressed(STOP, NO_EPOCH), 4, 0, "x") + b"more"), "4 bytes behind its end"),
        (framed(struct.pack(">hhihi", 3, 1, 0, -1, 2**31 - 1)), "an array of 2147483647 items"),
    ],
)
async def test_garbage_closes_its_own_connection_only(
    data: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as server, await connect(server) as bystander, raw(server) as (reader, writer):
        await bystander.request(named("before"), 12)
        peer = "{}:{}".format(*writer.get_extra_info("sockname"))
        writer.write(data)
        await closed(reader)
        assert await bystander.request(named("after"), 12) == metadata("after")
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 1
    assert peer in lines[0]
    assert reason in lines[0]


async def test_an_idle_connection_keeps_neither_the_last_request_nor_its_answer() -> None:
    def kept() -> list[object]:
        return [each for each in gc.get_objects() if isinstance(each, MetadataRequest | MetadataResponse)]

    before = len(kept())
    async with running() as server, raw(server) as (reader, writer):
        writer.write(framed(encode_request(named("t"), 12, 0, "x")))
        await reader.readexactly(4)
        assert server.connection_count == 1
        await until(lambda: len(kept()) <= before)


async def test_half_a_frame_and_goodbye_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as server, raw(server) as (reader, writer):
        writer.write(framed(encode_request(named("t"), 12, 0, "x"))[:9])
        writer.write_eof()
        await closed(reader)
        await until(lambda: server.connection_count == 0)
    assert "the stream ended inside a frame, after 9 of its bytes" in caplog.text


async def test_a_peer_that_resets_is_forgotten() -> None:
    async with running() as server:
        async with raw(server) as (_, writer):
            writer.write(b"\0\0")
            await until(lambda: server.connection_count == 1)
        await until(lambda: server.connection_count == 0)


async def test_a_peer_that_says_nothing_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running(limits=ServerLimits(max_idle_ms=20)) as server, raw(server) as (reader, _):
        await closed(reader)
        await until(lambda: server.connection_count == 0)
    assert "neither sent nor read for 20 ms" in caplog.text


async def test_a_peer_that_does_not_read_is_let_go() -> None:
    async def flood(header: RequestHeader, value: Request, peer: Peer) -> Response:
        return metadata("x" * 32_000)

    async with running(flood, ServerLimits(max_idle_ms=200)) as server, raw(server) as (_, writer):
        request = framed(encode_request(named("t"), 12, 0, "x"))
        for _ in range(20_000):
            writer.write(request)
        await until(lambda: server.connection_count == 1)
        await until(lambda: server.connection_count == 0)


async def test_a_frame_beyond_the_limit_names_the_property(caplog: pytest.LogCaptureFixture) -> None:
    async with running(limits=ServerLimits(max_request_bytes=100)) as server, raw(server) as (reader, writer):
        writer.write(struct.pack(">i", 101))
        await closed(reader)
    assert "frame of 101 bytes exceeds the limit of 100 bytes" in caplog.text
    assert "socket.request.max.bytes" in caplog.text


async def test_unfinished_requests_of_many_peers_do_not_take_more_than_the_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    limits = ServerLimits(max_request_bytes=1 << 20, max_queued_bytes=4 << 20)
    async with running(limits=limits) as server, await connect(server) as client, contextlib.AsyncExitStack() as stack:
        highest = 0
        peers = []
        for _ in range(30):
            reader, writer = await stack.enter_async_context(raw(server))
            peers.append(reader)
            writer.write(struct.pack(">i", 1 << 20) + bytes(1_000_000))
            await writer.drain()
            await until(lambda: server.load.queued_bytes % 1_000_004 == 0 or server.load.connections < 2)
            highest = max(highest, server.load.queued_bytes)
        await closed(peers[0])
        assert await client.request(named("still served"), 12) == metadata("still served")
        assert highest <= 4 << 20
        assert server.load.queued_bytes >= 3_000_000, "those that came last are kept"
    assert "queued.max.request.bytes" in caplog.text
    assert server.load.queued_bytes == 0


def large() -> bytes:
    """A frame of nearly a mebibyte, of which four are decoded at once."""
    topics = tuple(MetadataRequestTopic("x" * 30_000) for _ in range(33))
    return framed(encode_request(MetadataRequest(topics), 12, 0, "test"))


async def test_large_requests_are_decoded_as_earlier_ones_are_answered() -> None:
    handled: list[asyncio.Future[Response | Close]] = []

    async def handler(header: RequestHeader, value: Request, peer: Peer) -> Response | Close:
        handled.append(asyncio.get_running_loop().create_future())
        return await handled[-1]

    frame = large()
    async with running(handler) as server, contextlib.AsyncExitStack() as stack:
        peers = []
        for number in range(6):
            reader, writer = await stack.enter_async_context(raw(server))
            peers.append(reader)
            writer.write(frame)
            waiting = max(0, number - 3)
            await until(lambda: server.load.queued_bytes == waiting * len(frame))  # noqa: B023 - awaited at once
            await until(lambda: len(handled) == min(number + 1, 4))  # noqa: B023 - awaited at once
        assert server.load.decoded.bytes == 4 * (len(frame) - 4)
        handled[0].set_result(metadata("first"))
        await until(lambda: len(handled) == 5)
        assert server.load.queued_bytes == len(frame)
        # The last one has no turn yet, so it is not answered before it is closed.
        server.close_connections("a test")
        await closed(peers[5])
        await until(lambda: server.load.queued_bytes == 0)
        for each in handled[1:]:
            each.set_result(metadata("later"))
        for peer in peers[:5]:
            assert len(await answer_from(peer)) > 0
        await until(lambda: server.connection_count == 0)
        assert server.load.decoded.bytes == 0
    assert len(handled) == 5


async def test_a_small_request_is_answered_while_large_ones_wait() -> None:
    answers: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def handler(header: RequestHeader, value: Request, peer: Peer) -> Response | Close:
        assert isinstance(value, MetadataRequest)
        if value.topics is not None:
            await answers
        return metadata("answered")

    async with running(handler) as server, contextlib.AsyncExitStack() as stack:
        for _ in range(5):
            _, writer = await stack.enter_async_context(raw(server))
            writer.write(large())
        await until(lambda: server.load.queued_bytes > 1_000_000 - 12_000)
        async with await connect(server) as client:
            assert await client.request(MetadataRequest(None), 12) == metadata("answered")
        answers.set_result(None)


async def test_a_request_of_drops_ends_with_its_time_and_not_with_its_last_drop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with running(limits=ServerLimits(max_receive_ms=300)) as server, raw(server) as (reader, writer):
        writer.write(struct.pack(">i", 1_000))
        gone = asyncio.create_task(closed(reader))
        while not gone.done():
            writer.write(b"x")
            await asyncio.wait((gone,), timeout=0.02)
        await gone
    assert "of a request arrived within 300 ms, and not the rest" in caplog.text


async def test_a_connection_between_two_requests_may_be_silent_for_longer_than_a_request_may_take() -> None:
    limits = ServerLimits(max_receive_ms=50)
    async with running(limits=limits) as server, await connect(server) as client, raw(server) as (reader, writer):
        await client.request(named("first"), 12)
        writer.write(b"\0")
        await closed(reader)
        assert await client.request(named("second"), 12) == metadata("second")


# --- the owner's part ---------------------------------------------------------------------------------------------


async def test_a_handler_may_close() -> None:
    async with running() as server, await connect(server) as client:
        with pytest.raises(ConnectionFailed, match="closed the connection without an answer"):
            await client.request(DescribeLogDirsRequest(), 4)


@pytest.mark.parametrize("fault", [KeyError("no such thing"), TimeoutError("inner"), OSError(5, "disk")], ids=repr)
async def test_a_fault_of_the_handler_closes_one_connection_and_is_loud(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(header: RequestHeader, value: Request, peer: Peer) -> Response | Close:
        if value == named("bad"):
            raise fault
        return await echo(header, value, peer)

    async with running(handler) as server, await connect(server) as one, await connect(server) as other:
        with pytest.raises(ConnectionFailed):
            await one.request(named("bad"), 12)
        assert await other.request(named("good"), 12) == metadata("good")
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "cannot handle METADATA v12 of 127.0.0.1" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is fault


async def test_a_fault_outside_of_the_handler_closes_one_connection_too(caplog: pytest.LogCaptureFixture) -> None:
    faults = [RuntimeError("the handler is closed")]

    def note(_api: ApiKey, _bytes: int) -> None:
        if faults:
            raise faults.pop()

    async with running(note_request=note) as server, await connect(server) as one, await connect(server) as other:
        with pytest.raises(ConnectionFailed):
            await one.request(named("bad"), 12)
        assert await other.request(named("good"), 12) == metadata("good")
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "closed the connection of 127.0.0.1" in record.getMessage()
    assert record.exc_info is not None


async def test_an_answer_that_cannot_be_encoded_is_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(header: RequestHeader, value: Request, peer: Peer) -> Response:
        return DescribeLogDirsResponse((), error=2**20)

    async with running(handler) as server, await connect(server) as client:
        with pytest.raises(ConnectionFailed):
            await client.request(DescribeLogDirsRequest(), 4)
    assert "DescribeLogDirsResponse v4 cannot be encoded" in caplog.text


async def test_connections_beyond_the_limit_are_refused_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with running(limits=ServerLimits(max_connections=1)) as server, await connect(server) as first:
        await first.request(named("in"), 12)
        for _ in range(3):
            async with raw(server) as (reader, _):
                await closed(reader)
        assert await first.request(named("still in"), 12) == metadata("still in")
        await first.close()
        await until(lambda: server.connection_count == 0)
        async with await connect(server) as second:
            assert await second.request(named("now in"), 12) == metadata("now in")
    assert caplog.text.count("raise max.connections") == 1


async def test_stopped_before_it_serves_it_does_not_begin() -> None:
    server = KafkaServer(echo)
    await server.listen("127.0.0.1", 0)
    server.stop()
    await asyncio.wait_for(server.serve(), LIMIT_S)


async def test_all_connections_can_be_closed_and_new_ones_come() -> None:
    async with running() as server, await connect(server) as one, await connect(server) as two:
        await one.request(named("a"), 12)
        await two.request(named("b"), 12)
        assert server.close_connections("control was lost") == 2
        await until(lambda: server.connection_count == 0)
        for client in (one, two):
            with pytest.raises(ConnectionFailed):
                await client.request(named("c"), 12)
        async with await connect(server) as three:
            assert await three.request(named("d"), 12) == metadata("d")


async def test_who_waits_for_an_answer_gets_it_before_its_connection_is_closed() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def handler(header: RequestHeader, value: Request, peer: Peer) -> Response | Close:
        entered.set()
        await release.wait()
        return metadata("the last one")

    async with running(handler) as server, await connect(server) as client:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(_outcome(client.request(named("t"), 12)))
            await entered.wait()
            server.close_connections("control was lost")
            release.set()
            assert await waiting == metadata("the last one")
        await until(lambda: server.connection_count == 0)
        with pytest.raises(ConnectionFailed):
            await client.request(named("t"), 12)


async def _outcome(work: Awaitable[Response]) -> Response | Exception:
    try:
        return await work
    except ConnectionFailed as error:
        return error


# --- throttling ---------------------------------------------------------------------------------------------------


def throttling(*times_ms: int) -> Handler:
    """Answers, and throttles the client for the next of these times."""
    left = list(times_ms)

    async def handler(header: RequestHeader, value: Request, peer: Peer) -> Response:
        return replace(metadata("throttled"), throttle_time_ms=left.pop(0))

    return handler


async def test_a_throttled_client_is_answered_at_once_and_its_next_request_waits() -> None:
    async with running(throttling(150, 0, 0)) as server, await connect(server) as client:
        now_s = asyncio.get_running_loop().time
        await client.request(named("t"), 12)
        answered_s = now_s()
        await client.request(named("t"), 12)
        assert now_s() - answered_s >= 0.14
        answer = await client.request(named("t"), 12)
        assert answer == metadata("throttled")


async def test_a_throttled_client_holds_up_no_other_one_and_is_closed_like_one() -> None:
    handler = throttling(3_600_000, 0)
    async with running(handler) as server, await connect(server) as client, await connect(server) as other:
        for each in (client, other):
            await each.request(named("t"), 12)
        server.close_connections("control was lost")
        await until(lambda: server.connection_count == 0)


async def test_stopping_does_not_wait_for_throttled_clients() -> None:
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        server = KafkaServer(throttling(3_600_000))
        await server.listen("127.0.0.1", 0)
        group.create_task(server.serve())
        await server.started()
        client = await connect(server)
        await client.request(named("t"), 12)
        server.stop(grace_ms=LIMIT_S * 2000)
    await client.close()


async def test_a_client_that_is_throttled_for_longer_than_it_may_be_idle_is_let_go(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    limits = ServerLimits(max_idle_ms=50)
    async with running(throttling(3_600_000), limits) as server, await connect(server) as client:
        await client.request(named("t"), 12)
        await until(lambda: server.connection_count == 0)
    assert "neither sent nor read for 50 ms" in caplog.text


# --- life ---------------------------------------------------------------------------------------------------------


async def test_a_port_in_use_is_told_with_its_remedy() -> None:
    async with running() as server:
        port = server.addresses[0].port
        with pytest.raises(
            ListenFailed, match=rf"127\.0\.0\.1, port {port}: the port is in use; .*choose another port"
        ):
            await KafkaServer(echo).listen("127.0.0.1", port)


async def test_a_foreign_address_is_told() -> None:
    with pytest.raises(ListenFailed, match=r"192\.0\.2\.1, port 0: this machine does not have that address"):
        await KafkaServer(echo).listen("192.0.2.1", 0)


async def test_a_port_that_is_none_is_told() -> None:
    with pytest.raises(ListenFailed, match="port 70000"):
        await KafkaServer(echo).listen("127.0.0.1", 70_000)


async def test_a_bound_address_takes_connections_before_they_are_served_and_is_nobody_elses() -> None:
    server = KafkaServer(echo)
    address = await server.listen("127.0.0.1", 0)
    with pytest.raises(ListenFailed, match="the port is in use"):
        await KafkaServer(echo).listen("127.0.0.1", address.port)
    opening = asyncio.create_task(KafkaConnection.open(address.host, address.port, "test"))
    async with asyncio.TaskGroup() as group:
        # Time for a refusal.
        await asyncio.wait((opening,), timeout=0.05)
        group.create_task(server.serve())
        async with await opening as client:
            assert await client.request(MetadataRequest(None), 12) == metadata("test@127.0.0.1")
        server.stop()


async def test_several_addresses_are_served() -> None:
    server = KafkaServer(echo)
    first, second = await server.listen("127.0.0.1", 0), await server.listen("127.0.0.1", 0)
    assert server.addresses == (first, second)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve())
        await server.started()
        for address in (first, second):
            async with await KafkaConnection.open(address.host, address.port, "test") as client:
                assert await client.request(MetadataRequest(None), 12) == metadata("test@127.0.0.1")
        server.stop()


async def test_stopping_answers_what_is_under_way_and_closes_the_rest() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def handler(header: RequestHeader, value: Request, peer: Peer) -> Response | Close:
        if value == named("slow"):
            entered.set()
            await release.wait()
        return await echo(header, value, peer)

    server = KafkaServer(handler)
    address = await server.listen("127.0.0.1", 0)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve())
        await server.started()
        idle = await connect(server)
        await idle.request(named("quick"), 12)
        busy = await connect(server)
        waiting = group.create_task(busy.request(named("slow"), 12))
        await entered.wait()
        server.stop(grace_ms=LIMIT_S * 1000)
        await until(lambda: not idle.is_open)
        assert not serving.done()
        release.set()
        assert await waiting == metadata("slow")
    with pytest.raises(ConnectionFailed):
        await KafkaConnection.open(address.host, address.port, "test")
    await idle.close()
    await busy.close()


async def test_stopping_does_not_wait_for_a_handler_beyond_its_grace() -> None:
    entered = asyncio.Event()
    ended: list[str] = []

    async def handler(header: RequestHeader, value: Request, peer: Peer) -> Response | Close:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return Close("never reached")

    server = KafkaServer(handler)
    await server.listen("127.0.0.1", 0)
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        group.create_task(server.serve())
        await server.started()
        client = await connect(server)
        waiting = group.create_task(_outcome(client.request(named("t"), 12)))
        await entered.wait()
        server.stop(grace_ms=10)
        assert isinstance(await waiting, ConnectionFailed)
    assert ended == ["cancelled"]
    await client.close()


async def test_cancelling_the_server_closes_everything() -> None:
    server = KafkaServer(echo)
    address = await server.listen("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve())
    await server.started()
    client = await connect(server)
    await client.request(named("t"), 12)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    await until(lambda: not client.is_open)
    assert server.connection_count == 0
    with pytest.raises(ConnectionFailed):
        await KafkaConnection.open(address.host, address.port, "test")
    await client.close()


async def test_a_server_that_never_served_lets_go_of_its_port() -> None:
    server = KafkaServer(echo)
    address = await server.listen("127.0.0.1", 0)
    server.stop()
    other = KafkaServer(echo)
    assert await other.listen("127.0.0.1", address.port) == address
    other.stop()
