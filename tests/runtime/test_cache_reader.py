"""Reading brokers' metadata caches on a thread: what is asked, and what becomes of brokers that do not answer."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lethe.adapters.kafka.client import ConnectionFailed, KafkaConnection
from lethe.adapters.kafka.metadata import PROBE
from lethe.adapters.kafka.server import Close, KafkaServer, Peer
from lethe.controller.core.effects import ReadCache
from lethe.controller.core.events import CacheRead
from lethe.controller.runtime.caches import CacheReader
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    Request,
    Response,
)
from lethe.protocol.vocabulary import BrokerId, Endpoint, TopicId
from tests.fakes.runtime import reach

TOPIC_ID = TopicId(uuid.UUID(int=5 << 90))


class OneBroker:
    """Shows `gone` with partitions 3 and 0, hides `secret`, leaves out `left-out`, and knows nothing else.

    With `hides_others`, its list leaves out all topics that the client may not describe.
    """

    def __init__(self) -> None:
        self.asked: list[MetadataRequest] = []
        self.released = asyncio.Event()
        self.holds = False
        self.hides_others = False

    async def __call__(self, header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        assert isinstance(request, MetadataRequest)
        self.asked.append(request)
        if self.holds:
            await self.released.wait()
            return Close("held")
        names = ["gone"] if request.topics is None else [str(topic.name) for topic in request.topics]
        told = tuple(self._metadata(name) for name in names if name != "left-out")
        return MetadataResponse((), None, BrokerId(1), told)

    def _metadata(self, name: str) -> MetadataTopic:
        if name == "secret" or (name != "gone" and self.hides_others):
            return MetadataTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, None, False, ())
        if name != "gone":
            return MetadataTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, None, False, ())
        rows = (MetadataPartition(ErrorCode.LEADER_NOT_AVAILABLE, n, -1, 0, (9,), (9,)) for n in (3, 0))
        return MetadataTopic(0, name, TOPIC_ID, False, tuple(rows))


class Scene:
    """A reader, and what it has posted."""

    def __init__(self, endpoint: Endpoint, limit_ms: int) -> None:
        self.posted: list[CacheRead] = []
        self.faults: list[str] = []
        self.endpoint = endpoint
        self.reader = CacheReader(_connect, self.posted.append, self._fault, limit_ms=limit_ms)

    def _fault(self, error: Exception, where: str) -> None:
        self.faults.append(f"{where}: {error}")

    async def read(self, *topics: str, endpoint: Endpoint | None = None) -> CacheRead:
        """All topics where none is named."""
        number = len(self.posted) + 1
        self.reader.read(ReadCache(number, BrokerId(1), endpoint or self.endpoint, topics or None))
        await reach(lambda: len(self.posted) == number)
        return self.posted[-1]


async def _connect(endpoint: Endpoint) -> KafkaConnection:
    return await KafkaConnection.open(endpoint.host, endpoint.port, "1001")


@asynccontextmanager
async def scene(handler: OneBroker, limit_ms: int = 60_000) -> AsyncIterator[Scene]:
    server = KafkaServer(handler)
    address = await server.listen("127.0.0.1", 0)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve(), name="server")
        await server.started()
        made = Scene(Endpoint("PLAINTEXT", "127.0.0.1", address.port), limit_ms)
        try:
            yield made
        finally:
            made.reader.end()
            handler.released.set()
            server.stop(0)
    await reach(lambda: not any(each.name.startswith("controller-caches") for each in threading.enumerate()))


async def test_all_topics_and_named_ones() -> None:
    handler = OneBroker()
    async with scene(handler) as world:
        everything = await world.read()
        assert everything == CacheRead(1, BrokerId(1), {"gone": CachedTopic(TOPIC_ID, (0, 3))})
        named = await world.read("other", "gone")
        assert named.topics == {"gone": (TOPIC_ID, (0, 3))}, "what it does not have is left out"
        assert (await world.read("other")).topics == {}
    assert [None if r.topics is None else [t.name for t in r.topics] for r in handler.asked] == [
        None,
        [PROBE],
        ["other", "gone"],
        ["other"],
    ]
    assert not any(request.allow_auto_topic_creation for request in handler.asked)


async def test_a_list_that_leaves_topics_out_is_shown_with_the_reason() -> None:
    handler = OneBroker()
    handler.hides_others = True
    async with scene(handler) as world:
        answer = await world.read()
    assert answer.topics == {"gone": (TOPIC_ID, (0, 3))}
    assert answer.problem == "it does not let User:ANONYMOUS see all topics; grant it Describe on all topics"


async def test_a_broker_that_refuses_to_tell_is_unseen() -> None:
    async with scene(OneBroker()) as world:
        answer = await world.read("gone", "secret")
    assert answer.topics is None
    assert answer.problem == "it does not tell whether it has the topic secret"


async def test_an_answer_that_leaves_a_topic_out_is_unseen() -> None:
    async with scene(OneBroker()) as world:
        answer = await world.read("gone", "left-out")
    assert answer.topics is None
    assert answer.problem == "it does not tell whether it has the topic left-out"


async def test_nobody_listens() -> None:
    async with scene(OneBroker()) as world:
        answer = await world.read(endpoint=Endpoint("PLAINTEXT", "127.0.0.1", 1))
    assert answer.topics is None
    assert "cannot connect to 127.0.0.1:1" in (answer.problem or "")


async def test_a_silent_broker_is_given_up_and_the_next_one_is_read() -> None:
    handler = OneBroker()
    handler.holds = True
    async with scene(handler, limit_ms=300) as world:
        answer = await world.read()
        assert answer == CacheRead(1, BrokerId(1), None, "its metadata cache could not be read within 300 ms")
        handler.holds = False
        # On a busy machine an answer may come too late as well.
        async with asyncio.timeout(60):
            while (answer := await world.read()).topics is None:
                pass
        assert answer.topics == {"gone": (TOPIC_ID, (0, 3))}
    assert world.faults == []


async def test_the_end_does_not_wait_for_a_silent_broker() -> None:
    handler = OneBroker()
    handler.holds = True
    async with scene(handler) as world:
        world.reader.read(ReadCache(1, BrokerId(1), world.endpoint, None))
        await reach(lambda: handler.asked)
        world.reader.end()
        await reach(lambda: not any(each.name.startswith("controller-caches") for each in threading.enumerate()))
    assert world.posted == []
    assert world.faults == []


async def test_what_is_no_failure_of_a_broker_is_a_fault() -> None:
    posted: list[CacheRead] = []
    faults: list[str] = []

    async def connect(endpoint: Endpoint) -> KafkaConnection:
        raise ZeroDivisionError("ours")

    reader = CacheReader(connect, posted.append, lambda error, where: faults.append(f"{where}: {error}"))
    reader.read(ReadCache(1, BrokerId(1), Endpoint("PLAINTEXT", "h", 1), None))
    await reach(lambda: faults)
    reader.end()
    assert faults == ["reading a metadata cache: ours"]
    assert posted == []


async def test_what_the_connection_says_is_the_reason() -> None:
    what = "SSL is spoken there"
    posted: list[CacheRead] = []

    async def connect(endpoint: Endpoint) -> KafkaConnection:
        raise ConnectionFailed(what)

    reader = CacheReader(connect, posted.append, lambda error, where: None)
    reader.read(ReadCache(1, BrokerId(1), Endpoint("SSL", "h", 1), None))
    await reach(lambda: posted)
    reader.end()
    assert posted[0].problem == f"its metadata cache could not be read: {what}"
