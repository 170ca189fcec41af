"""The controller's listener on real sockets, with a core that answers when the test says so."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from lethe.adapters.kafka.client import ConnectionFailed, KafkaConnection
from lethe.adapters.security.inbound import Inbound, InboundSettings
from lethe.controller.core.effects import HoldRequest, Reply
from lethe.controller.core.events import BrokerRequested, ClientRequested
from lethe.controller.runtime.listener import BrokerListener, proxy_for
from lethe.protocol.kafka.admin import DeletableTopic, DeletedTopic, DeleteTopicsRequest, DeleteTopicsResponse
from lethe.protocol.kafka.codec import encode_request
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataRequest, Response
from lethe.protocol.kafka.to_controller import (
    AlteredPartition,
    AlteredTopic,
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControllerRequest,
    RemainingPartition,
)
from lethe.protocol.security.authorizer import Client, Sender
from lethe.protocol.security.principals import ANONYMOUS
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, Endpoint
from tests.fakes.runtime import reach

LIMIT_S = 30.0
HERE = (Endpoint("PLAINTEXT", "127.0.0.1", 0),)
SHUTDOWN = ControlledShutdownRequest(BrokerId(1), BrokerEpoch(7))
ALTER = AlterPartitionRequest(
    BrokerId(1), BrokerEpoch(7), (AlterPartitionTopic("orders", None, (AlterPartition(0, 3, (1, 2), 0, 4),)),)
)
ALTERED = AlterPartitionResponse(
    0,
    (
        AlteredTopic(
            "orders",
            None,
            (AlteredPartition(0, 0, 1, 3, (1, 2), 0, 5), AlteredPartition(1, ErrorCode.FENCED_LEADER_EPOCH)),
        ),
    ),
)


class Bench:
    """A listener, what it posted, and what was measured."""

    def __init__(self, max_wait_ms: int = 10_000, max_at_once: int = 100) -> None:
        self.posted: list[BrokerRequested | ClientRequested] = []
        self.times: Counter[str] = Counter()
        self.errors: Counter[tuple[str, str]] = Counter()
        proxy = proxy_for("1000", connect_timeout_ms=1_000, max_answer_bytes=1 << 20)
        self.listener = BrokerListener(
            self.posted.append,
            self,
            controller_id=BrokerId(1000),
            proxy=proxy,
            inbound=Inbound(InboundSettings()),
            max_wait_ms=max_wait_ms,
            max_at_once=max_at_once,
        )
        self.advertised: tuple[Endpoint, ...] = ()

    def request_answered(self, request: str, seconds: float, errors: Mapping[str, int]) -> None:
        assert seconds >= 0
        self.times[request] += 1
        for error, count in errors.items():
            self.errors[request, error] += count

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Bench"]:
        self.advertised = await self.listener.listen(HERE, (HERE[0]._replace(host="localhost"),))
        async with asyncio.TaskGroup() as tasks:
            await self.listener.start(tasks)
            try:
                yield self
            finally:
                await self.listener.stop(grace_ms=0)

    async def connect(self) -> KafkaConnection:
        return await KafkaConnection.open(
            "127.0.0.1", self.advertised[0].port, "1", request_timeout_ms=int(LIMIT_S * 1000)
        )


async def outcome(connection: KafkaConnection, request: object, version: int = 1) -> Response | ConnectionFailed:
    assert isinstance(request, ControllerRequest)
    try:
        return await connection.request(request, version)
    except ConnectionFailed as error:
        return error


async def test_what_is_advertised_has_the_port_that_was_free() -> None:
    async with Bench().running() as bench:
        (told,) = bench.advertised
        assert (told.listener, told.host) == ("PLAINTEXT", "localhost")
        assert told.port > 0


@pytest.mark.parametrize("version", range(4))
async def test_requests_become_events_and_replies_become_answers(version: int) -> None:
    remaining = ControlledShutdownResponse(0, (RemainingPartition("orders", 0),))
    async with Bench().running() as bench, await bench.connect() as broker, asyncio.TaskGroup() as group:
        answer = group.create_task(outcome(broker, SHUTDOWN, version))
        await reach(lambda: len(bench.posted) == 1)
        (event,) = bench.posted
        assert isinstance(event.request, ControlledShutdownRequest)
        assert (event.version, event.request.broker_id) == (version, 1)
        bench.listener.reply(Reply(event.key, remaining))
        assert await answer == remaining


async def test_answers_may_come_in_another_order_and_are_counted_with_their_errors() -> None:
    async with (
        Bench().running() as bench,
        await bench.connect() as one,
        await bench.connect() as two,
        asyncio.TaskGroup() as group,
    ):
        altered = group.create_task(outcome(one, ALTER))
        shut_down = group.create_task(outcome(two, SHUTDOWN))
        await reach(lambda: len(bench.posted) == 2)
        keys = {type(event.request): event.key for event in bench.posted}
        bench.listener.reply(Reply(keys[ControlledShutdownRequest], ControlledShutdownResponse(0)))
        assert await shut_down == ControlledShutdownResponse(0)
        bench.listener.reply(Reply(keys[AlterPartitionRequest], ALTERED))
        assert await altered == ALTERED
    assert bench.times == {"AlterPartition": 1, "ControlledShutdown": 1}
    assert bench.errors == {
        ("AlterPartition", "NONE"): 2,
        ("AlterPartition", "FENCED_LEADER_EPOCH"): 1,
        ("ControlledShutdown", "NONE"): 1,
    }


async def test_control_lost_refuses_what_is_unanswered_and_closes_every_connection() -> None:
    async with (
        Bench().running() as bench,
        await bench.connect() as one,
        await bench.connect() as two,
        await bench.connect() as idle,
    ):
        assert idle.is_open
        async with asyncio.TaskGroup() as group:
            altered = group.create_task(outcome(one, ALTER))
            shut_down = group.create_task(outcome(two, SHUTDOWN))
            await reach(lambda: len(bench.posted) == 2)
            bench.listener.control_lost("a test")
            assert await altered == AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)
            assert await shut_down == ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        await reach(lambda: bench.listener.view().connections == 0)
        for connection in (one, two, idle):
            assert isinstance(await outcome(connection, SHUTDOWN), ConnectionFailed)
        # The core's own answers come too late; nobody gets them, nor does anything break.
        for event in bench.posted:
            bench.listener.reply(Reply(event.key, ALTERED))
        async with await bench.connect() as again, asyncio.TaskGroup() as group:
            answer = group.create_task(outcome(again, ALTER))
            await reach(lambda: len(bench.posted) == 3)
            bench.listener.reply(Reply(bench.posted[2].key, AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)))
            assert await answer == AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)


async def test_a_core_that_is_busy_for_too_long_is_not_waited_for() -> None:
    async with Bench(max_wait_ms=20).running() as bench, await bench.connect() as broker:
        assert await outcome(broker, SHUTDOWN) == ControlledShutdownResponse(ErrorCode.REQUEST_TIMED_OUT)
        assert await outcome(broker, ALTER) == AlterPartitionResponse(ErrorCode.REQUEST_TIMED_OUT)
        bench.listener.reply(Reply(bench.posted[0].key, ControlledShutdownResponse(0)))
    assert bench.errors["AlterPartition", "REQUEST_TIMED_OUT"] == 1


async def test_a_flood_of_requests_does_not_fill_the_queue() -> None:
    async with Bench(max_at_once=3).running() as bench, asyncio.TaskGroup() as group:
        connections = [await bench.connect() for _ in range(20)]
        answers = [group.create_task(outcome(each, SHUTDOWN)) for each in connections]
        for answered in range(20):
            await reach(lambda: len(bench.posted) == min(answered + 3, 20))  # noqa: B023 - awaited at once
            bench.listener.reply(Reply(bench.posted[answered].key, ControlledShutdownResponse(0)))
        assert [await each for each in answers] == [ControlledShutdownResponse(0)] * 20
        for each in connections:
            await each.close()


DELETE = DeleteTopicsRequest((DeletableTopic("orders"),), 30_000)
DELETED = DeleteTopicsResponse((DeletedTopic("orders", None, 0),))


async def test_a_clients_request_says_who_sent_it_and_may_be_held_without_holding_up_others() -> None:
    async with (
        Bench(max_wait_ms=200, max_at_once=1).running() as bench,
        await bench.connect() as client,
        await bench.connect() as broker,
        asyncio.TaskGroup() as group,
    ):
        deleted = group.create_task(outcome(client, DELETE, 5))
        await reach(lambda: len(bench.posted) == 1)
        (event,) = bench.posted
        assert isinstance(event, ClientRequested)
        assert (event.request, event.version) == (DELETE, 5)
        assert (event.sender, event.client_id) == (Sender(Client(ANONYMOUS, "127.0.0.1")), "1")
        bench.listener.hold(HoldRequest(event.key, 30_000))
        # A later request has the only place in the queue, and is over before the one that is held.
        assert await outcome(broker, SHUTDOWN) == ControlledShutdownResponse(ErrorCode.REQUEST_TIMED_OUT)
        assert len(bench.posted) == 2
        assert not deleted.done()
        bench.listener.reply(Reply(event.key, DELETED))
        assert await deleted == DELETED
    assert bench.errors["DeleteTopics", "NONE"] == 1


@asynccontextmanager
async def held(bench: Bench, behind: bytes = b"") -> AsyncIterator[asyncio.StreamWriter]:
    """A client whose request is held for 24 days, and what it has sent behind it."""
    _, writer = await asyncio.open_connection("127.0.0.1", bench.advertised[0].port)
    try:
        payload = encode_request(DELETE, 5, 1, "1")
        posted = len(bench.posted)
        writer.write(struct.pack(">i", len(payload)) + payload + behind)
        await reach(lambda: len(bench.posted) == posted + 1)
        bench.listener.hold(HoldRequest(bench.posted[-1].key, 2**31 - 1))
        yield writer
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("behind", [0, 1_000, 2_000_000])
async def test_a_client_that_leaves_a_held_request_leaves_its_connection(is_reset: bool, behind: int) -> None:
    """However much it has sent behind the request."""
    async with Bench().running() as bench:
        async with held(bench, bytes(behind)) as writer:
            assert bench.listener.view().connections == 1
            if is_reset:
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                await writer.drain()
                writer.transport.abort()
            else:
                writer.write_eof()
            await reach(lambda: bench.listener.view().connections == 0)
        # The core's answer is for nobody.
        bench.listener.reply(Reply(bench.posted[0].key, DELETED))
    assert bench.errors == Counter()


async def test_what_a_client_sends_behind_a_held_request_is_answered_after_it() -> None:
    async with Bench().running() as bench, await bench.connect() as client, asyncio.TaskGroup() as group:
        deleted = group.create_task(outcome(client, DELETE, 5))
        await reach(lambda: len(bench.posted) == 1)
        bench.listener.hold(HoldRequest(bench.posted[0].key, 30_000))
        shut_down = group.create_task(outcome(client, SHUTDOWN))
        await asyncio.wait((shut_down, deleted), timeout=0)
        assert len(bench.posted) == 1
        bench.listener.reply(Reply(bench.posted[0].key, DELETED))
        assert await deleted == DELETED
        await reach(lambda: len(bench.posted) == 2)
        bench.listener.reply(Reply(bench.posted[1].key, ControlledShutdownResponse(0)))
        assert await shut_down == ControlledShutdownResponse(0)


async def test_a_held_request_is_refused_when_control_is_lost_and_late_when_nothing_follows() -> None:
    async with Bench(max_wait_ms=20).running() as bench, await bench.connect() as client:
        async with asyncio.TaskGroup() as group:
            deleted = group.create_task(outcome(client, DELETE, 5))
            await reach(lambda: len(bench.posted) == 1)
            bench.listener.hold(HoldRequest(bench.posted[0].key, 10))
            late = DeleteTopicsResponse((DeletedTopic("orders", None, ErrorCode.REQUEST_TIMED_OUT),))
            assert await deleted == late
        async with asyncio.TaskGroup() as group:
            deleted = group.create_task(outcome(client, DELETE, 5))
            await reach(lambda: len(bench.posted) == 2)
            bench.listener.hold(HoldRequest(bench.posted[1].key, 30_000))
            bench.listener.control_lost("a test")
            refused = DeleteTopicsResponse((DeletedTopic("orders", None, ErrorCode.NOT_CONTROLLER),))
            assert await deleted == refused


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0\7",
        struct.pack(">hhi", ApiKey.ALTER_PARTITION, 4, 1),
        struct.pack(">hhi", ApiKey.CONTROLLED_SHUTDOWN, -1, 1),
        struct.pack(">hhi", 999, 0, 1),
        encode_request(MetadataRequest(None), 12, 1, "1"),
        encode_request(ALTER, 1, 1, "1")[:-3],
        encode_request(ALTER, 1, 1, "1") + b"\0",
    ],
    ids=["empty", "short", "version", "negative version", "unknown api", "not ours", "truncated", "trailing"],
)
async def test_what_it_does_not_understand_closes_that_connection_only(payload: bytes) -> None:
    async with Bench().running() as bench, await bench.connect() as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.advertised[0].port)
        try:
            writer.write(struct.pack(">i", len(payload)) + payload)
            assert await asyncio.wait_for(reader.read(), LIMIT_S) == b""
        finally:
            writer.transport.abort()
        assert bench.posted == []
        async with asyncio.TaskGroup() as group:
            answer = group.create_task(outcome(broker, SHUTDOWN))
            await reach(lambda: bench.posted)
            bench.listener.reply(Reply(bench.posted[0].key, ControlledShutdownResponse(0)))
            assert await answer == ControlledShutdownResponse(0)
