"""Offsets of consumer groups, read and committed over connections of their own: one silent coordinator delays nobody.

Silent brokers listen on real sockets and never answer. The others answer without a socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, cast

import pytest

from lethe.adapters.kafka.client import ConnectionFailed, KafkaConnection
from lethe.adapters.kafka.groups import DESCRIBE
from lethe.controller.core.effects import CommitOffsets, Coordinator, GroupCommit, ReadOffsets
from lethe.controller.core.events import OffsetsCommitted, OffsetsRead
from lethe.controller.runtime.group_offsets import ENDPOINTS_AT_ONCE, GroupOffsetsClient
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.group_offsets import (
    CommittedOffset,
    CommittedPartition,
    CommittedTopic,
    FetchedOffset,
    FetchedTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from lethe.protocol.kafka.queries import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    Request,
    Response,
)
from lethe.protocol.kafka.versions import VersionRange
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, BrokerId, Endpoint
from tests.fakes.runtime import reach

OFFSETS = {"orders": {0: CommittedOffset(42)}}
TOPICS = ("orders", "payments")
"""What each group that is listed has read."""
READY = OffsetFetchResponse()
LOADING = OffsetFetchResponse((), 14)


class Broker:
    """A connection to a coordinator that takes every offset. `answers` are what it says first about a group."""

    principal = "User:lethe"

    def __init__(self, number: int = 1, answers: Mapping[str, OffsetFetchResponse | Exception | None] | None = None):
        self.endpoint = Endpoint("PLAINTEXT", f"broker{number}", 9092)
        self.number = number
        self.answers = answers or {}
        """An exception is raised; None: it answers once it is released."""
        self.released = asyncio.Event()
        self.connections = 0
        self.asked: list[str] = []
        self.committed: list[str] = []
        self.led: Mapping[int, int] = {}
        self.listed: Mapping[str, int] = {}
        """The offset of each group."""
        self.commit_error = 0
        self.hidden: tuple[str, ...] = ()
        """Topics that the client may not DESCRIBE."""

    async def __aenter__(self) -> Self:
        self.connections += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def offered_versions(self) -> Mapping[int, VersionRange]:
        return {ApiKey.METADATA: VersionRange(0, 12)}

    async def request(self, value: MetadataRequest, version: int) -> MetadataResponse:
        rows = (MetadataPartition(0, n, self.number, epoch, (1,), (1,)) for n, epoch in self.led.items())
        topics = (
            MetadataTopic(0, GROUP_METADATA_TOPIC, None, True, tuple(rows)),
            *(
                MetadataTopic(29 if each.name in self.hidden else 0, each.name, None, False, ())
                for each in value.topics or ()
                if each.name is not None and each.name != GROUP_METADATA_TOPIC
            ),
        )
        return MetadataResponse((), None, BrokerId(1), topics, 0, DESCRIBE)

    async def ask(self, request: Request) -> Response:
        match request:
            case ListGroupsRequest():
                return ListGroupsResponse(0, tuple(ListedGroup(name, "") for name in self.listed))
            case OffsetFetchRequest(group=name) if name in self.listed:
                read = (FetchedOffset(0, self.listed[name], -1, ""),)
                shown = (topic for topic in TOPICS if topic not in self.hidden)
                return OffsetFetchResponse(tuple(FetchedTopic(topic, read) for topic in shown))
            case OffsetFetchRequest(group=name):
                self.asked.append(name)
                return await self._told(name)
            case OffsetCommitRequest(group=name, topics=topics):
                self.committed.append(name)
                rows = (
                    tuple(CommittedPartition(each.partition, self.commit_error) for each in topic.partitions)
                    for topic in topics
                )
                names = (topic.topic for topic in topics)
                return OffsetCommitResponse(tuple(map(CommittedTopic, names, rows)))
            case _:
                raise AssertionError(f"unexpected {request}")

    async def _told(self, group: str) -> OffsetFetchResponse:
        match self.answers.get(group, READY):
            case Exception() as error:
                raise error
            case None:
                await self.released.wait()
                return READY
            case OffsetFetchResponse() as answer:
                return answer


class Silent:
    """Accepts connections and answers nothing."""

    def __init__(self) -> None:
        self.connections = 0
        self.endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 0)
        self._writers: list[asyncio.StreamWriter] = []

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.endpoint = self.endpoint._replace(port=server.sockets[0].getsockname()[1])
        try:
            yield self
        finally:
            for writer in self._writers:
                writer.transport.abort()
            server.close()
            await server.wait_closed()


class Scene:
    """A client of these brokers; what is at no broker's endpoint is a real socket."""

    def __init__(self, *brokers: Broker, limit_ms: int = 60_000, request_timeout_ms: int = 20) -> None:
        self.brokers = {broker.endpoint: broker for broker in brokers}
        self.request_timeout_ms = request_timeout_ms
        self.posted: list[OffsetsRead | OffsetsCommitted] = []
        self.faults: list[Exception] = []
        self.opened: list[Endpoint] = []
        self.client = GroupOffsetsClient(self.connect, self.posted.append, self._fault, limit_ms=limit_ms)

    def _fault(self, error: Exception, where: str) -> None:
        self.faults.append(error)

    async def connect(self, endpoint: Endpoint) -> KafkaConnection:
        self.opened.append(endpoint)
        if endpoint in self.brokers:
            return cast(KafkaConnection, self.brokers[endpoint])
        timeout_ms = self.request_timeout_ms
        return await KafkaConnection.open(endpoint.host, endpoint.port, "1001", request_timeout_ms=timeout_ms)

    async def commit(self, groups: Mapping[str, Broker | Silent]) -> dict[str, str]:
        """Commit one offset for each group at its coordinator; return the problems by group."""
        commits = (GroupCommit(group, broker.endpoint, OFFSETS) for group, broker in groups.items())
        self.client.perform(CommitOffsets(len(self.posted) + 1, tuple(commits)))
        event = await self._next()
        assert isinstance(event, OffsetsCommitted)
        return dict(event.problems.get("orders", {}))

    async def read(self, *brokers: Broker, topics: tuple[str, ...] = ("orders",)) -> OffsetsRead:
        """Read from brokers that lead what they take themselves for the leaders of."""
        asked = tuple(Coordinator(BrokerId(b.number), b.endpoint, tuple(b.led.items())) for b in brokers)
        self.client.perform(ReadOffsets(len(self.posted) + 1, asked, topics))
        event = await self._next()
        assert isinstance(event, OffsetsRead)
        return event

    async def _next(self) -> OffsetsRead | OffsetsCommitted:
        number = len(self.posted) + 1
        await reach(lambda: len(self.posted) == number or self.faults)
        assert not self.faults
        assert self.posted[-1].id == number
        return self.posted[-1]


def groups_of(broker: Broker | Silent, *names: str) -> dict[str, Broker | Silent]:
    return dict.fromkeys(names, broker)


async def test_a_broker_gets_all_offsets_over_one_connection() -> None:
    one, two = Broker(1), Broker(2)
    scene = Scene(one, two)
    assert await scene.commit({"a": one, "b": two, "c": one}) == {}
    assert (one.committed, two.committed) == (["a", "c"], ["b"])
    assert (one.connections, two.connections) == (1, 1)


async def test_a_silent_broker_is_asked_once_and_all_its_groups_are_left() -> None:
    one = Broker(1)
    async with Silent().listening() as silent:
        scene = Scene(one)
        names = tuple(f"g{number}" for number in range(400))
        left = await scene.commit({**groups_of(silent, *names), "healthy": one})
        assert left == dict.fromkeys(
            names, f"127.0.0.1:{silent.endpoint.port} did not answer API_VERSIONS within 20 ms"
        )
        assert silent.connections == 1
    assert one.committed == ["healthy"]


async def test_others_get_their_offsets_while_a_silent_broker_is_waited_for() -> None:
    one = Broker(1)
    async with Silent().listening() as silent:
        scene = Scene(one, request_timeout_ms=600_000)
        scene.client.perform(
            CommitOffsets(1, (GroupCommit("a", silent.endpoint, OFFSETS), GroupCommit("b", one.endpoint, OFFSETS)))
        )
        await reach(lambda: one.committed == ["b"])
        assert not scene.posted, "the silent one is still being waited for"
        scene.client.end()
    assert not scene.faults


async def test_the_limit_is_for_the_whole_effect_and_what_is_committed_by_then_counts() -> None:
    one = Broker(1, {"b": None})
    async with Silent().listening() as silent:
        scene = Scene(one, limit_ms=50, request_timeout_ms=600_000)
        left = await scene.commit({"s": silent, **groups_of(one, "a", "b", "c")})
    assert left == dict.fromkeys(("s", "b", "c"), "not all coordinators have answered within 50 ms")
    assert one.committed == ["a"]


async def test_a_broker_that_is_not_reached_leaves_all_its_groups_at_once() -> None:
    one = Broker(1)
    async with Silent().listening() as gone:
        pass
    scene = Scene(one)
    left = await scene.commit({**groups_of(gone, "a", "b"), "c": one})
    assert set(left) == {"a", "b"}
    assert left["a"] == left["b"]
    assert scene.opened.count(gone.endpoint) == 1
    assert one.committed == ["c"]


async def test_an_error_of_one_group_leaves_only_that_group() -> None:
    one = Broker(1, {"a": LOADING})
    scene = Scene(one)
    assert await scene.commit(groups_of(one, "a", "b")) == {"a": "consumer group a: error 14"}
    assert (one.committed, one.connections) == (["b"], 1)


@pytest.mark.parametrize("error, what", [(30, "GROUP"), (29, "TOPIC")])
async def test_rights_that_commits_need_are_named(error: int, what: str) -> None:
    one = Broker(1)
    one.commit_error = error
    scene = Scene(one)
    named = "group a" if what == "GROUP" else "topic orders"
    assert await scene.commit(groups_of(one, "a")) == {
        "a": f"{what}_AUTHORIZATION_FAILED for User:lethe; grant it Read on {named}"
    }


async def test_groups_that_end_a_connection_do_not_keep_others_waiting_for_ever() -> None:
    lost = ConnectionFailed("it closed the connection")
    one = Broker(1, {"a": lost, "b": lost})
    scene = Scene(one)
    groups = groups_of(one, "a", "b", "c")
    assert await scene.commit(groups) == dict.fromkeys("abc", "it closed the connection")
    assert await scene.commit(groups) == dict.fromkeys("abc", "it closed the connection")
    assert await scene.commit(groups) == dict.fromkeys("ab", "it closed the connection")
    assert one.committed == ["c"]
    one.answers = {"a": lost}
    await scene.commit(groups)
    assert "b" in one.committed, "the one that failed longest ago goes first"


async def test_more_groups_than_can_be_asked_at_a_time_all_get_their_turn() -> None:
    """All saved groups are sent at each attempt, those too that are done."""
    one = Broker(1, {"c": None})
    scene = Scene(one, limit_ms=50, request_timeout_ms=600_000)
    groups = groups_of(one, "a", "b", "c", "d")
    assert set(await scene.commit(groups)) == {"c", "d"}
    one.answers = {}
    one.asked.clear()
    assert await scene.commit(groups) == {}
    assert one.asked == ["d", "a", "b", "c"]


async def test_so_many_brokers_are_asked_side_by_side_and_the_next_once_one_has_answered() -> None:
    brokers = [Broker(number, {"readers": None}) for number in range(ENDPOINTS_AT_ONCE + 1)]
    scene = Scene(*brokers)
    scene.client.perform(CommitOffsets(1, tuple(GroupCommit("readers", each.endpoint, OFFSETS) for each in brokers)))
    await reach(lambda: all(each.asked for each in brokers[:ENDPOINTS_AT_ONCE]))
    assert not brokers[-1].connections
    brokers[3].released.set()
    await reach(lambda: brokers[-1].asked)
    scene.client.end()
    assert not scene.faults


async def test_offsets_are_read_from_the_leader_of_each_groups_partition() -> None:
    """Group readers is of partition 1 of three; the broker that led it before lists it still."""
    new, late = Broker(2), Broker(5)
    new.led, new.listed = {1: 8}, {"readers": 90}
    late.led, late.listed = {0: 5, 2: 6}, {"readers": 42, "late": 7}
    scene = Scene(new, late)
    found = await scene.read(new, late)
    assert found.offsets == {
        "orders": {"readers": {0: CommittedOffset(90, -1, "")}, "late": {0: CommittedOffset(7, -1, "")}}
    }
    new.listed = {}
    assert (await scene.read(new, late)).problem == (
        "consumer group readers: broker 5 lists it, but the leader of partition 1 of __consumer_offsets, which "
        "coordinates it, does not"
    )


async def test_a_topic_that_one_coordinator_hides_is_named_and_the_others_are_read() -> None:
    one, two = Broker(1), Broker(2)
    one.led, one.listed = {1: 8}, {"readers": 90}
    two.led, two.hidden = {0: 5, 2: 6}, ("orders",)
    found = await Scene(one, two).read(one, two, topics=TOPICS)
    assert found.problem is None
    assert found.hidden == {
        "orders": "consumer groups of broker 2: it hides what they have committed for topic orders, because its "
        "authorizer does not let User:lethe DESCRIBE the topic"
    }
    assert found.offsets is not None
    assert found.offsets["payments"] == {"readers": {0: CommittedOffset(90, -1, "")}}
