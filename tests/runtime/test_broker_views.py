"""Brokers asked about topics over real sockets: what counts as cached and stored, and who does not answer."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from adapters.broker_views import brokers_asked
from adapters.deletion_progress import BrokerView, Target
from adapters.kafka.server import Close, KafkaServer, Peer
from protocol.kafka.codec import RequestHeader
from protocol.kafka.control import ApiKey
from protocol.kafka.errors import ErrorCode
from protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirPartition,
    LogDirTopic,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    Request,
    Response,
)
from protocol.kafka.versions import SPOKEN, VersionRange
from protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol, TopicId

TOPIC_ID = TopicId(uuid.UUID(int=5 << 90))
ORDERS = Target("orders", 3, TOPIC_ID, (1,), (0, 1))
BILLS = Target("bills", 4, None, (1,), (0,))


class OneBroker:
    """A broker that caches `orders`, stores one partition of it, and does not know `bills`."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.deaf = False
        self.failed: tuple[str, ...] = ()

    async def __call__(self, header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        self.asked.append(request)
        if self.deaf:
            return Close("deaf")
        match request:
            case MetadataRequest(topics=topics):
                names = ["orders", "other"] if topics is None else [str(topic.name) for topic in topics]
                return MetadataResponse((), None, BrokerId(-1), tuple(_metadata(name) for name in names))
            case DescribeLogDirsRequest():
                stored = LogDirTopic("orders", (LogDirPartition(1, 10, 0, False),))
                failed = (LogDir(ErrorCode.KAFKA_STORAGE_ERROR, path, ()) for path in self.failed)
                return DescribeLogDirsResponse((*failed, LogDir(0, "/a", ()), LogDir(0, "/b", (stored,))))
            case _:
                return Close(f"unexpected {request}")


def _metadata(name: str) -> MetadataTopic:
    if name == "bills":
        return MetadataTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, None, False, ())
    return MetadataTopic(ErrorCode.LEADER_NOT_AVAILABLE, name, TOPIC_ID, False, ())


@asynccontextmanager
async def served(
    handler: OneBroker, versions: Mapping[ApiKey, VersionRange] = SPOKEN
) -> AsyncIterator[tuple[Broker, KafkaServer]]:
    server = KafkaServer(handler, versions)
    address = await server.listen("127.0.0.1", 0)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve(), name="server")
        await server.started()
        ssl = Endpoint("SSL", "127.0.0.1", 1, SecurityProtocol.SSL)
        plain = Endpoint("PLAINTEXT", "127.0.0.1", address.port)
        yield Broker(BrokerId(1), BrokerEpoch(9), (ssl, plain)), server
        server.stop(0)


async def test_cached_and_stored() -> None:
    handler = OneBroker()
    async with served(handler) as (broker, _), brokers_asked() as ask:
        view = await ask(broker, [ORDERS, BILLS])
        assert view == BrokerView({"orders": TOPIC_ID}, frozenset({"orders"}))
        assert await ask(broker, [BILLS]) is not None
    (metadata, _, _, _) = handler.asked
    assert isinstance(metadata, MetadataRequest)
    assert not metadata.allow_auto_topic_creation


async def test_an_old_broker_is_asked_for_everything_lest_it_create_a_topic() -> None:
    handler = OneBroker()
    versions = {**SPOKEN, ApiKey.METADATA: VersionRange(0, 3)}
    async with served(handler, versions) as (broker, _), brokers_asked() as ask:
        assert await ask(broker, [ORDERS, BILLS]) == BrokerView({"orders": None}, frozenset({"orders"}))
    assert [request.topics for request in handler.asked if isinstance(request, MetadataRequest)] == [None]


async def test_log_directories_that_have_failed_are_told() -> None:
    handler = OneBroker()
    handler.failed = ("/d", "/c")
    async with served(handler) as (broker, _), brokers_asked() as ask:
        view = await ask(broker, [ORDERS])
    assert view == BrokerView({"orders": TOPIC_ID}, frozenset({"orders"}), ("/c", "/d"))


async def test_a_broker_that_fails_is_asked_again_over_a_new_connection() -> None:
    handler = OneBroker()
    async with served(handler) as (broker, _), brokers_asked() as ask:
        handler.deaf = True
        assert await ask(broker, [ORDERS]) is None
        handler.deaf = False
        assert await ask(broker, [ORDERS]) is not None


@pytest.mark.parametrize(
    "endpoints",
    [(), (Endpoint("SSL", "127.0.0.1", 1, SecurityProtocol.SSL),), (Endpoint("PLAINTEXT", "127.0.0.1", 1),)],
)
async def test_a_broker_that_cannot_be_reached_is_silent(endpoints: tuple[Endpoint, ...]) -> None:
    async with brokers_asked(timeout_ms=2_000) as ask:
        assert await ask(Broker(BrokerId(1), BrokerEpoch(9), endpoints), [ORDERS]) is None
