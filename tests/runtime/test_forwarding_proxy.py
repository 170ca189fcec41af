"""Clients forwarded to brokers through the controller's listener, on real sockets."""

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from lethe.adapters.kafka.client import ConnectionFailed, KafkaConnection
from lethe.adapters.kafka.forwarding_proxy import ForwardingProxy
from lethe.adapters.kafka.limits import ServerLimits
from lethe.adapters.kafka.reach import PLAINTEXT_REACH, BrokerReach
from lethe.adapters.security.access import AccessSettings
from lethe.adapters.security.channel import ChannelSecurity
from lethe.adapters.security.inbound import Inbound, InboundSettings, ListenerSettings
from lethe.adapters.security.login import SaslLogin
from lethe.controller.core.effects import Reply
from lethe.controller.core.events import BrokerRequested, ClientRequested
from lethe.controller.runtime.listener import EMPTY, NO_LOGS, OWN, BrokerListener, proxy_for
from lethe.protocol.kafka.admin_configs import (
    AlterableResource,
    AlterConfigsRequest,
    DescribableConfigs,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.codec import decode_response, encode_request
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.forwarding import ENVELOPE
from lethe.protocol.kafka.queries import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    LogDir,
    MetadataRequest,
    api_of_request,
)
from lethe.protocol.kafka.to_controller import AdminRequest, error_response
from lethe.protocol.kafka.versions import SPOKEN
from lethe.protocol.security.acls import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from lethe.protocol.security.authorizer import Acls
from lethe.protocol.security.jaas import parse_config
from lethe.protocol.security.plain import PlainServer
from lethe.protocol.security.principals import ANONYMOUS
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol
from tests.fakes.forwarded_broker import FIND_COORDINATOR, OFFERED, PRODUCE, ForwardedBroker, answer_to, request
from tests.fakes.runtime import reach
from tests.fakes.secure_broker import SecureBroker

LIMIT_S = 30.0


class Client:
    """Frames out, frames in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, frame: bytes) -> None:
        self.writer.write(frame)

    async def receive(self) -> bytes:
        """The next frame, its size included."""
        async with asyncio.timeout(LIMIT_S):
            head = await self.reader.readexactly(4)
            return head + await self.reader.readexactly(int.from_bytes(head, "big"))

    async def ask(self, frame: bytes) -> bytes:
        self.send(frame)
        return await self.receive()

    async def versions(self) -> ApiVersionsResponse:
        payload = encode_request(ApiVersionsRequest("test", "1"), 3, 99, "me")
        answer = await self.ask(struct.pack(">i", len(payload)) + payload)
        number, response = decode_response(ApiKey.API_VERSIONS, 3, answer[4:])
        assert number == 99
        assert isinstance(response, ApiVersionsResponse)
        return response

    async def is_closed(self) -> bool:
        """The other side has closed it, without another answer."""
        try:
            return await asyncio.wait_for(self.reader.read(), LIMIT_S) == b""
        except ConnectionError:
            return True


class Bench:
    """A controller's listener that knows these brokers."""

    def __init__(
        self,
        *brokers: ForwardedBroker,
        listeners: tuple[str, ...] = ("PLAINTEXT",),
        connect_timeout_ms: int = 20_000,
        inbound: InboundSettings = InboundSettings(),  # noqa: B008 - frozen
        reach: BrokerReach = PLAINTEXT_REACH,
    ) -> None:
        self.brokers = brokers
        self.inbound = Inbound(inbound)
        self.proxy: ForwardingProxy = proxy_for(
            "1000", connect_timeout_ms=connect_timeout_ms, max_answer_bytes=100 << 20, reach=reach
        )
        self.posted: list[BrokerRequested | ClientRequested] = []
        """What the core is asked."""
        self.answered: list[str] = []
        self.listener = BrokerListener(
            self.posted.append,
            self,
            controller_id=BrokerId(1000),
            proxy=self.proxy,
            inbound=self.inbound,
            max_wait_ms=10_000,
            limits=ServerLimits(1 << 26),
        )
        self.listeners = listeners
        self.ports: dict[str, int] = {}

    def request_answered(self, request: str, seconds: float, errors: Mapping[str, int]) -> None:
        self.answered.append(request)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Bench"]:
        protocols = {name: self.inbound.admission(name).protocol for name in self.listeners}
        endpoints = tuple(Endpoint(name, "127.0.0.1", 0, protocols[name]) for name in self.listeners)
        bound = await self.listener.listen(endpoints, endpoints)
        self.ports = {endpoint.listener: endpoint.port for endpoint in bound}
        async with asyncio.TaskGroup() as tasks:
            for broker in self.brokers:
                await broker.__aenter__()
            await self.listener.start(tasks)
            self.show()
            try:
                yield self
            finally:
                await self.listener.stop(grace_ms=0)
                for broker in self.brokers:
                    await broker.die()
        assert self.proxy.open_count == 0

    def show(self, *more: Broker) -> None:
        self.listener.show_brokers((*(each.as_broker() for each in self.brokers), *more))

    @asynccontextmanager
    async def client(self, listener: str = "PLAINTEXT") -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[listener])
        try:
            yield Client(reader, writer)
        finally:
            writer.transport.abort()


# --- frames -------------------------------------------------------------------------------------------------------


async def test_a_request_goes_to_a_broker_byte_for_byte_and_so_does_its_answer_come_back() -> None:
    broker = ForwardedBroker(1)
    async with Bench(broker).running() as bench, bench.client() as client:
        sizes = (0, 1, 5_000, 1 << 20)
        frames = [request(FIND_COORDINATOR, 3, n - 2**31, bytes([n]) * size) for n, size in enumerate(sizes)]
        for frame in frames:
            assert await client.ask(frame) == answer_to(frame, 1)
        assert broker.frames == frames
        assert broker.connections == 1
        assert bench.proxy.counts.requests == 4
        assert bench.proxy.counts.bytes_in == sum(map(len, broker.frames))


@pytest.mark.parametrize("piece", [1, 3, 11, 13])
async def test_however_the_stream_is_cut(piece: int) -> None:
    broker = ForwardedBroker(1)
    frames = [request(FIND_COORDINATOR, 3, number, b"x" * number) for number in range(5)]
    async with Bench(broker).running() as bench, bench.client() as client:
        stream = b"".join(frames)
        for start in range(0, len(stream), piece):
            client.send(stream[start : start + piece])
            await client.writer.drain()
            await asyncio.sleep(0)
        assert [await client.receive() for _ in frames] == [answer_to(frame, 1) for frame in frames]
        assert broker.frames == frames


async def test_what_is_answered_here_waits_for_what_was_asked_before() -> None:
    broker = ForwardedBroker(1)
    async with Bench(broker).running() as bench, bench.client() as client:
        broker.released.clear()
        frame = request(FIND_COORDINATOR, 3, 1)
        groups = encode_request(ListGroupsRequest(), 3, 2, "me")
        client.send(frame + struct.pack(">i", len(groups)) + groups + request(FIND_COORDINATOR, 3, 3))
        await reach(lambda: broker.frames == [frame])
        broker.released.set()
        assert await client.receive() == answer_to(frame, 1)
        assert (await client.receive())[4:8] == struct.pack(">i", 2)
        assert await client.receive() == answer_to(request(FIND_COORDINATOR, 3, 3), 1)


def produce(version: int, acks: int, number: int) -> bytes:
    """A Produce of that version, with records that say whether they want an answer."""
    if version >= 9:
        body = b"\1\5\4abcd" + b"\3tx" + struct.pack(">h", acks)
    else:
        body = (struct.pack(">h", 2) + b"tx" if version >= 3 else b"") + struct.pack(">h", acks)
    return request(PRODUCE, version, number, body + b"\0" * 4_000 + (b"\0\0silent" if acks == 0 else b""))


@pytest.mark.parametrize("version", [0, 2, 3, 8, 9, 11])
async def test_a_produce_without_acks_gets_no_answer_and_holds_nothing_up(version: int) -> None:
    broker = ForwardedBroker(1)
    silent, loud = produce(version, 0, 1), produce(version, -1, 2)
    async with Bench(broker).running() as bench, bench.client() as client:
        client.send(silent + loud)
        assert await client.receive() == answer_to(loud, 1)
        assert broker.frames == [silent, loud]
        assert (await client.versions()).error == 0


async def test_a_slow_reader_does_not_fill_the_controllers_memory() -> None:
    broker = ForwardedBroker(1)
    huge = 64 << 20
    async with Bench(broker).running() as bench, bench.client() as client:
        broker.prepared = struct.pack(">ii", huge + 4, 7) + bytes(huge)
        client.send(request(FIND_COORDINATOR, 3, 7))
        counts = bench.proxy.counts
        await reach(lambda: counts.bytes_out > 1 << 20)
        seen = -1
        while seen != counts.bytes_out:
            seen = counts.bytes_out
            for _ in range(50):
                await asyncio.sleep(0)
        assert counts.bytes_out < huge // 2
        assert len(await client.receive()) == huge + 8


# --- versions -----------------------------------------------------------------------------------------------------


async def test_clients_are_told_a_brokers_versions_with_ours_in_place() -> None:
    broker = ForwardedBroker(1)
    async with Bench(broker).running() as bench, bench.client() as client:
        told = {api: (low, high) for api, low, high in (await client.versions()).apis}
    assert told[FIND_COORDINATOR] == (0, 6)
    assert told[ApiKey.LIST_GROUPS] == (0, 3)
    assert ApiKey.DESCRIBE_LOG_DIRS not in told
    assert ApiKey.LEADER_AND_ISR not in told
    for api, versions in OWN.items():
        assert told[api] == versions


async def test_a_broker_is_asked_for_its_versions_once_in_each_incarnation() -> None:
    broker = ForwardedBroker(1)
    async with Bench(broker).running() as bench:
        for _ in range(3):
            async with bench.client() as client:
                await client.versions()
        assert broker.versions_asked == 1
        bench.listener.show_brokers((broker.as_broker(epoch=2),))
        async with bench.client() as client:
            await client.versions()
        assert broker.versions_asked == 2


async def test_a_client_is_not_passed_on_to_a_broker_with_other_versions_than_it_was_told() -> None:
    old, new = ForwardedBroker(1), ForwardedBroker(2, offered=OFFERED[1:])
    async with Bench(old, new).running() as bench, bench.client() as client:
        bench.listener.show_brokers((old.as_broker(),))
        await client.versions()
        bench.listener.show_brokers((new.as_broker(),))
        client.send(request(FIND_COORDINATOR, 3, 1))
        assert await client.is_closed()
        assert new.frames == []


async def test_requests_that_go_to_every_broker_are_answered_as_by_one_that_has_nothing() -> None:
    broker = ForwardedBroker(1)
    asked = (
        (ApiKey.LIST_GROUPS, ListGroupsRequest(), ListGroupsResponse(0)),
        (ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest(), ListTransactionsResponse(0)),
        (ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(), DescribeLogDirsResponse((LogDir(0, NO_LOGS, ()),))),
    )
    async with Bench(broker).running() as bench, bench.client() as client:
        for api, question, wanted in asked:
            for version in range(EMPTY[api].min, EMPTY[api].max + 1):
                payload = encode_request(question, version, version, "me")
                answer = await client.ask(struct.pack(">i", len(payload)) + payload)
                assert decode_response(api, version, answer[4:]) == (version, wanted)
        assert broker.frames == []


AboutConfigs = Callable[[tuple[tuple[int, str], ...]], AdminRequest]


def describing(resources: tuple[tuple[int, str], ...]) -> AdminRequest:
    return DescribeConfigsRequest(tuple(DescribableConfigs(*each) for each in resources))


def altering(resources: tuple[tuple[int, str], ...]) -> AdminRequest:
    return IncrementalAlterConfigsRequest(tuple(AlterableResource(*each, ()) for each in resources))


def replacing(resources: tuple[tuple[int, str], ...]) -> AdminRequest:
    return AlterConfigsRequest(tuple(AlterableResource(*each, ()) for each in resources))


@pytest.mark.parametrize("about", [describing, altering, replacing])
async def test_the_core_is_asked_about_the_controllers_configuration_and_a_broker_about_others(
    about: AboutConfigs,
) -> None:
    broker = ForwardedBroker(1)

    def asked(number: int, *resources: tuple[int, str]) -> bytes:
        question = about(resources)
        payload = encode_request(question, SPOKEN[api_of_request(question)].max, number, "me")
        return struct.pack(">i", len(payload)) + payload

    async with Bench(broker).running() as bench, bench.client() as client:
        for resources in (((4, "1000"),), ((8, "1000"),), ((2, "t"), (4, "1000"))):
            frame, question = asked(7, *resources), about(resources)
            client.send(frame[:20])
            await client.writer.drain()
            client.send(frame[20:])
            await reach(lambda: len(bench.posted) > len(bench.answered))
            assert bench.posted[-1].request == question
            wanted = error_response(question, 42)
            bench.listener.reply(Reply(bench.posted[-1].key, wanted))
            answer, api = await client.receive(), api_of_request(question)
            assert decode_response(api, SPOKEN[api].max, answer[4:]) == (7, wanted)
        assert broker.frames == []
        large = ((2, "x" * 100),) * 1_000
        for frame in (asked(8, (4, "1")), asked(9, (2, "1000")), asked(10, *large), asked(11)[:-1] + b"\xff"):
            assert await client.ask(frame) == answer_to(frame, 1)


# --- brokers that come and go -------------------------------------------------------------------------------------


async def test_clients_are_spread_over_the_brokers() -> None:
    brokers = ForwardedBroker(1), ForwardedBroker(2), ForwardedBroker(3)
    async with Bench(*brokers).running() as bench:
        clients = [bench.client() for _ in range(6)]
        for number, each in enumerate(clients):
            client = await each.__aenter__()
            await client.ask(request(FIND_COORDINATOR, 3, number))
        assert [broker.open_connections for broker in brokers] == [2, 2, 2]
        assert bench.proxy.open_count == 6
        for each in clients:
            await each.__aexit__(None, None, None)
        await reach(lambda: all(broker.open_connections == 0 for broker in brokers))


async def test_when_its_broker_dies_the_client_is_closed_and_comes_back_to_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    one, two = ForwardedBroker(1), ForwardedBroker(2)
    async with Bench(one, two).running() as bench:
        async with bench.client() as client:
            one.released.clear()
            client.send(request(FIND_COORDINATOR, 3, 1))
            await reach(lambda: one.frames)
            await one.die()
            assert await client.is_closed()
        assert "broker 1" in caplog.text
        async with bench.client() as client:
            frame = request(FIND_COORDINATOR, 3, 1)
            assert await client.ask(frame) == answer_to(frame, 2)
        assert bench.proxy.counts.failures == 1


async def test_an_idle_client_is_closed_with_its_broker() -> None:
    one = ForwardedBroker(1)
    async with Bench(one).running() as bench, bench.client() as client:
        await client.ask(request(FIND_COORDINATOR, 3, 1))
        await one.die()
        assert await client.is_closed()


async def test_a_broker_that_is_registered_and_does_not_listen_is_passed_over() -> None:
    two = ForwardedBroker(2)
    async with ForwardedBroker(1) as gone:
        dead = gone.as_broker()
    async with Bench(two).running() as bench:
        bench.show(dead)
        for number in range(3):
            async with bench.client() as client:
                await client.versions()
                frame = request(FIND_COORDINATOR, 3, number)
                assert await client.ask(frame) == answer_to(frame, 2)


async def test_a_broker_that_hangs_costs_one_client_a_while_and_no_more() -> None:
    two = ForwardedBroker(2)

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    hanging = Broker(BrokerId(1), BrokerEpoch(1), (Endpoint("PLAINTEXT", "127.0.0.1", port),))
    try:
        async with Bench(two, connect_timeout_ms=500).running() as bench:
            bench.show(hanging)
            async with bench.client() as one, bench.client() as other, asyncio.TaskGroup() as group:
                answers = [group.create_task(each.versions()) for each in (one, other)]
            assert [len(each.result().apis) for each in answers] == [len(answers[0].result().apis)] * 2
            assert two.versions_asked == 1
    finally:
        silent.close()


@pytest.mark.parametrize("told", [True, False])
async def test_where_there_is_no_broker_the_client_is_closed(told: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with Bench().running() as bench, bench.client() as client:
        payload = encode_request(ApiVersionsRequest(), 3, 1, "me")
        frame = struct.pack(">i", len(payload)) + payload if told else request(FIND_COORDINATOR, 3, 1)
        client.send(frame)
        assert await client.is_closed()
    assert "cannot be forwarded" in caplog.text


async def test_clients_reach_the_listener_of_the_same_name() -> None:
    outer, inner = ForwardedBroker(1, listener="CLIENTS"), ForwardedBroker(1, listener="PLAINTEXT")
    async with Bench(outer, inner, listeners=("PLAINTEXT", "CLIENTS")).running() as bench:
        endpoints = (*outer.as_broker().endpoints, *inner.as_broker().endpoints)
        bench.listener.show_brokers((Broker(BrokerId(1), BrokerEpoch(1), endpoints),))
        for name, broker in (("CLIENTS", outer), ("PLAINTEXT", inner)):
            async with bench.client(name) as client:
                frame = request(FIND_COORDINATOR, 3, 1)
                assert await client.ask(frame) == answer_to(frame, 1)
                assert broker.frames == [frame]


async def test_a_brokers_listener_with_encryption_is_none_to_pass_on_to() -> None:
    broker = ForwardedBroker(1)
    async with Bench(broker).running() as bench, bench.client() as client:
        (endpoint,) = broker.as_broker().endpoints
        secret = endpoint._replace(protocol=SecurityProtocol.SSL)
        bench.listener.show_brokers((Broker(BrokerId(1), BrokerEpoch(1), (secret,)),))
        client.send(request(FIND_COORDINATOR, 3, 1))
        assert await client.is_closed()
        assert broker.connections == 0


async def test_control_lost_closes_clients_at_once_and_forgets_the_brokers() -> None:
    broker = ForwardedBroker(1)
    async with Bench(broker).running() as bench:
        async with bench.client() as client:
            broker.released.clear()
            client.send(request(FIND_COORDINATOR, 3, 1))
            await reach(lambda: broker.frames)
            bench.listener.control_lost("a test")
            assert await client.is_closed()
        broker.released.set()
        await reach(lambda: broker.open_connections == 0)
        async with bench.client() as client:
            client.send(request(FIND_COORDINATOR, 3, 1))
            assert await client.is_closed()


async def test_a_client_that_goes_takes_its_way_with_it() -> None:
    broker = ForwardedBroker(1)
    async with Bench(broker).running() as bench:
        async with bench.client() as client:
            broker.released.clear()
            client.send(request(FIND_COORDINATOR, 3, 1))
            await reach(lambda: broker.open_connections == 1)
        await reach(lambda: bench.proxy.open_count == 0)
        broker.released.set()
        await reach(lambda: broker.open_connections == 0)


# --- what is not right --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ENVELOPE])
async def test_what_a_controller_orders_is_not_passed_on(api: int) -> None:
    broker = ForwardedBroker(1)
    async with Bench(broker).running() as bench, bench.client() as client:
        client.send(request(api, 0, 1))
        assert await client.is_closed()
        assert broker.connections == 0


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">i", -1) + bytes(20),
        struct.pack(">i", (1 << 26) + 1) + bytes(20),
        struct.pack(">ihh", 4, FIND_COORDINATOR, 3) + bytes(20),
        request(PRODUCE, 8, 1)[:-2] + b"\x7f\xff",
        struct.pack(">i", 1 << 20) + request(PRODUCE, 9, 1, b"\x7f" + b"\x01\xff\xff\xff\x0f" * 40_000)[4:],
    ],
    ids=["negative", "too large", "no header", "truncated produce", "endless tags"],
)
async def test_a_bad_frame_closes_that_connection_only(frame: bytes) -> None:
    broker = ForwardedBroker(1)
    async with Bench(broker).running() as bench, bench.client() as bad, bench.client() as good:
        bad.send(frame)
        assert await bad.is_closed()
        fine = request(FIND_COORDINATOR, 3, 1)
        assert await good.ask(fine) == answer_to(fine, 1)


@pytest.mark.parametrize(
    "answer",
    [
        struct.pack(">ii", 4, 8),
        struct.pack(">ii", -5, 7),
        struct.pack(">ii", 2, 7),
        struct.pack(">ii", (100 << 20) + 1, 7),
        struct.pack(">ii", 4, 7) * 2,
    ],
    ids=["other number", "negative", "too small", "too large", "one too many"],
)
async def test_a_broker_that_answers_nonsense_loses_the_client(answer: bytes) -> None:
    broker = ForwardedBroker(1)
    async with Bench(broker).running() as bench, bench.client() as client:
        broker.prepared = answer
        client.send(request(FIND_COORDINATOR, 3, 7))
        if answer == struct.pack(">ii", 4, 7) * 2:
            assert await client.receive() == answer[:8]
        assert await client.is_closed()
        await reach(lambda: bench.proxy.open_count == 0)


# --- identity -----------------------------------------------------------------------------------------------------


def acls(*entries: AclEntry) -> dict[ResourcePattern, tuple[AclEntry, ...]]:
    return {ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "orders"): entries}


async def test_with_an_authorizer_anonymous_clients_are_forwarded_unless_an_acl_has_a_host(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = ForwardedBroker(1)
    bench = Bench(broker, inbound=InboundSettings(access=AccessSettings()))
    access = bench.inbound.access
    assert access is not None
    anyone = AclEntry(ANONYMOUS, "*", Operation.READ, Permission.ALLOW)
    frame = request(FIND_COORDINATOR, 3, 1, b"x")
    async with bench.running():
        access.reader.acls = Acls.of(acls(anyone))
        async with bench.client() as client:
            assert await client.ask(frame) == answer_to(frame, 1)
        access.reader.acls = Acls.of(acls(anyone._replace(host="127.0.0.1")))
        for _ in range(2):
            async with bench.client() as client:
                client.send(frame)
                assert await client.is_closed()
    assert len(broker.frames) == 1
    (said,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "some ACLs of User:ANONYMOUS or everyone have a host" in said


async def test_a_client_with_a_login_gets_a_brokers_versions_and_is_not_forwarded_there() -> None:
    """A client that misses Metadata among the versions gives up; one that is closed tries another broker."""
    users = 'PlainLoginModule required user_ann="pw";'
    listener = ListenerSettings(mechanisms=("PLAIN",), read_plain=lambda: parse_config(users), failure_delay_ms=0)
    mechanisms = {"PLAIN": lambda: PlainServer(lambda user, password: (user, password) == ("lethe", "pw"))}
    secure = SecureBroker(mechanisms=mechanisms)
    async with secure.running() as port:
        protocol = SecurityProtocol.SASL_PLAINTEXT
        login = ChannelSecurity(login=SaslLogin.plain("lethe", lambda: "pw"))
        bench = Bench(
            listeners=("INTERNAL",),
            inbound=InboundSettings({"INTERNAL": listener}),
            reach=BrokerReach("INTERNAL", {protocol: login}),
        )
        async with bench.running():
            bench.show(Broker(BrokerId(1), BrokerEpoch(1), (Endpoint("INTERNAL", "127.0.0.1", port, protocol),)))
            async with await KafkaConnection.open(
                "127.0.0.1",
                bench.ports["INTERNAL"],
                "client",
                security=ChannelSecurity(login=SaslLogin.plain("ann", lambda: "pw")),
            ) as connection:
                offered = await connection.offered_versions()
                assert {ApiKey.METADATA, ApiKey.CONTROLLED_SHUTDOWN, ApiKey.SASL_AUTHENTICATE} <= set(offered)
                assert offered[ApiKey.SASL_HANDSHAKE] == (1, 1)
                with pytest.raises(ConnectionFailed):
                    await connection.request(MetadataRequest(None), 12)
    assert secure.principals == ["lethe"]
    assert "METADATA" not in secure.apis()
