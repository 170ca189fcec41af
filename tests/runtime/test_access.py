"""Rights on real sockets: logins decide who a client is, and ACLs in ZooKeeper what it may do, as they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from lethe.adapters.kafka.client import ConnectionFailed, KafkaConnection
from lethe.adapters.kafka.metadata import PROBE
from lethe.adapters.kafka.peers import Close
from lethe.adapters.kafka.server import KafkaServer
from lethe.adapters.peers import Peer
from lethe.adapters.security.access import AccessControl, AccessSettings
from lethe.adapters.security.acl_reader import AclReader
from lethe.adapters.security.channel import ChannelSecurity
from lethe.adapters.security.inbound import Inbound, InboundSettings, ListenerSettings
from lethe.adapters.security.login import SaslLogin
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.kafka.admin import CreatableTopic, CreatedTopic, CreateTopicsRequest, CreateTopicsResponse
from lethe.protocol.kafka.admin_partitions import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionOutcome,
    TopicOutcome,
    TopicPartitions,
)
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.control import Addressed, ApiKey, StopReplicaResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
    Request,
    Response,
)
from lethe.protocol.security.acls import (
    CLUSTER_NAME,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    acl_path,
    encode_acls,
    encode_change,
)
from lethe.protocol.security.authorizer import Client, Sender
from lethe.protocol.security.jaas import parse_config
from lethe.protocol.security.principals import Principal
from lethe.protocol.security.rights import may_change
from lethe.protocol.security.scram import ScramMechanism
from lethe.protocol.vocabulary import NO_EPOCH, BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData
from tests.fakes.agents import ignore_watch
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.broker.core.driver import stop

LIMIT_S = 30
USERS = ("admin", "lethe", "ann")
JAAS = "PlainLoginModule required " + " ".join(f'user_{user}="{user}-pw"' for user in USERS) + ";"
STOP = Addressed(stop(), NO_EPOCH)
CLUSTER = ResourcePattern(ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME)
TOPIC_A = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "a")


def user(name: str) -> Principal:
    return Principal("User", name)


def entry(name: str, operation: Operation, permission: Permission = Permission.ALLOW) -> AclEntry:
    return AclEntry(user(name), "*", operation, permission)


class Bench:
    """A server that obeys whoever it lets through, and what it was asked to do."""

    def __init__(self, access: AccessSettings | None = None) -> None:
        settings = access or AccessSettings(frozenset({user("admin")}))
        listener = ListenerSettings(mechanisms=("PLAIN",), read_plain=lambda: parse_config(JAAS), failure_delay_ms=0)
        self.inbound = Inbound(InboundSettings({"INTERNAL": listener}, settings))
        self.zookeeper = FakeZooKeeper()
        self.done: list[tuple[str, Request]] = []
        self.topics: tuple[str, ...] = ("a", "b")
        self.server = KafkaServer(self.inbound.guarded(self.handle), name="test")

    async def handle(self, header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        self.done.append((str(peer.principal), request))
        match request:
            case Addressed():
                return StopReplicaResponse(ErrorCode.NONE, ())
            case MetadataRequest():
                rows = tuple(MetadataTopic(0, name, None, False, ()) for name in self.topics)
                return MetadataResponse((), "c", BrokerId(1), rows)
            case CreateTopicsRequest(topics=topics):
                sender = Sender(Client(peer.principal, peer.host), peer.authorizer)
                refused = {t.name for t in topics if not may_change(sender, header.api, t.name)}
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                return CreateTopicsResponse(
                    tuple(CreatedTopic(topic.name, error if topic.name in refused else 0) for topic in topics)
                )
            case _:
                return DescribeLogDirsResponse(())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ZooKeeperSession]:
        await self.server.listen("127.0.0.1", 0, "INTERNAL", self.inbound.admission("INTERNAL"))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.server.serve())
            await self.server.started()
            try:
                async with self.inbound.following(self.zookeeper.open_session)(ignore_watch) as session:
                    yield session
            finally:
                self.server.stop(0)

    async def ask(self, name: str, request: Request) -> Response:
        security = ChannelSecurity(login=SaslLogin.plain(name, lambda: f"{name}-pw"))
        async with (
            asyncio.timeout(LIMIT_S),
            await KafkaConnection.open(
                "127.0.0.1", self.server.addresses[0].port, "test", security=security
            ) as connection,
        ):
            return await connection.ask(request)

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not await condition():
                await asyncio.sleep(0.01)


async def put(session: ZooKeeperSession, resource: ResourcePattern, *entries: AclEntry) -> None:
    """Write ACLs and announce them as Kafka's tools do."""
    path, changes = acl_path(resource), "/kafka-acl-changes"
    for parent in ("/kafka-acl", paths.parent_of(path), changes, path):
        await session.multi([Create(parent, b"")])
    await session.multi([SetData(path, encode_acls(entries), ANY_VERSION)])
    await session.multi([Create(f"{changes}/acl_changes_", encode_change(resource), sequential=True)])


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_stop_replica_without_the_right_is_refused_and_obeyed_once_the_right_is_given(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    async with bench.running() as session:
        for _ in range(3):
            answer = await bench.ask("lethe", STOP)
            assert isinstance(answer, StopReplicaResponse)
            assert answer.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert [row.error for row in answer.rows] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        assert bench.done == []
        await put(session, CLUSTER, entry("lethe", Operation.CLUSTER_ACTION))

        async def is_obeyed() -> bool:
            return (await bench.ask("lethe", STOP)).error == ErrorCode.NONE  # type: ignore[union-attr]

        await bench.until(is_obeyed)
        assert (await bench.ask("ann", STOP)).error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # type: ignore[union-attr]
        assert {name for name, _ in bench.done} == {"User:lethe"}
    mine, anns = lines(caplog)
    assert mine.startswith("refused STOP_REPLICA: User:lethe from 127.0.0.1 may not ClusterAction")
    assert "kafka-acls --add --allow-principal User:lethe --operation ClusterAction --cluster" in mine
    assert "User:ann" in anns


async def test_a_super_user_needs_neither_acls_nor_zookeeper() -> None:
    bench = Bench()
    await bench.server.listen("127.0.0.1", 0, "INTERNAL", bench.inbound.admission("INTERNAL"))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bench.server.serve())
        await bench.server.started()
        assert (await bench.ask("admin", STOP)).error == ErrorCode.NONE  # type: ignore[union-attr]
        bench.server.stop(0)


async def test_others_wait_for_the_acls_and_are_refused_if_these_are_not_read(caplog: pytest.LogCaptureFixture) -> None:
    reader = AclReader()
    access = AccessControl(AccessSettings(), reader, patience_s=0.05)
    handled: list[Request] = []

    async def handle(header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        handled.append(request)
        return DescribeLogDirsResponse(())

    header = RequestHeader(ApiKey.DESCRIBE_LOG_DIRS, 4, 1, "x")
    peer = Peer("127.0.0.1", 1, user("ann"))
    answer = await access.guarded(handle)(header, DescribeLogDirsRequest(), peer)
    assert answer == DescribeLogDirsResponse((), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert handled == []
    assert "the ACLs were not read within 0.05 s" in lines(caplog)[0]

    patient = AccessControl(AccessSettings(allow_everyone_if_no_acl_found=True), reader, patience_s=LIMIT_S)
    waiting = asyncio.ensure_future(patient.guarded(handle)(header, DescribeLogDirsRequest(), peer))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    async with FakeZooKeeper().open_session(reader.on_watch) as session:
        following = asyncio.create_task(reader.follow(session))
        assert await asyncio.wait_for(waiting, LIMIT_S) == DescribeLogDirsResponse(())
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
    assert len(handled) == 1


async def test_topics_are_shown_only_to_those_who_may_describe_them() -> None:
    bench = Bench()
    async with bench.running() as session:
        await put(session, TOPIC_A, entry("ann", Operation.READ))

        async def topics(name: str, *wanted: str) -> list[tuple[str | None, int]]:
            named = tuple(map(MetadataRequestTopic, wanted)) if wanted else None
            answer = await bench.ask(name, MetadataRequest(named))
            assert isinstance(answer, MetadataResponse)
            return [(topic.name, topic.error) for topic in answer.topics]

        async def sees_a() -> bool:
            return await topics("ann") == [("a", 0)]

        await bench.until(sees_a)
        assert await topics("ann", "a", "b") == [("a", 0), ("b", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
        assert await topics("admin") == [("a", 0), ("b", 0)]
        assert await topics("lethe") == []


async def test_a_client_that_may_not_see_all_topics_is_given_the_right_to_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.topics = (PROBE,)
    async with bench.running() as session:
        await put(session, CLUSTER, entry("ann", Operation.CLUSTER_ACTION))
        await bench.ask("ann", MetadataRequest((MetadataRequestTopic(PROBE),)))
    (line,) = lines(caplog)
    assert "User:ann from 127.0.0.1 may not Describe Topic '*'; to allow it: kafka-acls --add" in line
    assert line.endswith("--operation Describe --topic '*'")


async def test_a_denial_has_precedence_and_a_lost_session_keeps_it() -> None:
    bench = Bench(AccessSettings(allow_everyone_if_no_acl_found=True))
    async with bench.running() as session:
        assert (await bench.ask("ann", STOP)).error == ErrorCode.NONE  # type: ignore[union-attr]
        allowed = entry("ann", Operation.ALL)
        await put(session, CLUSTER, allowed, entry("ann", Operation.CLUSTER_ACTION, Permission.DENY))

        async def is_refused() -> bool:
            return (await bench.ask("ann", STOP)).error != ErrorCode.NONE  # type: ignore[union-attr]

        await bench.until(is_refused)
        bench.zookeeper.expire(session.session_id)
        await asyncio.wait_for(session.lost.wait(), LIMIT_S)
        assert await is_refused()


async def test_a_client_whose_address_is_unknown_is_closed() -> None:
    bench = Bench()
    header = RequestHeader(ApiKey.DESCRIBE_LOG_DIRS, 4, 1, "x")
    answer = await bench.inbound.guarded(bench.handle)(header, DescribeLogDirsRequest(), Peer("unknown", 0))
    assert isinstance(answer, Close)
    assert bench.done == []


async def test_a_login_that_zookeeper_cannot_confirm_is_closed_without_an_answer() -> None:
    inbound = Inbound(
        InboundSettings({"INTERNAL": ListenerSettings(mechanisms=("SCRAM-SHA-512",), failure_delay_ms=0)})
    )
    server = KafkaServer(Bench().handle)
    await server.listen("127.0.0.1", 0, "INTERNAL", inbound.admission("INTERNAL"))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve())
        await server.started()
        login = SaslLogin.scram(ScramMechanism.SHA_512, "admin", lambda: "x")
        with pytest.raises(ConnectionFailed):
            await KafkaConnection.open(
                "127.0.0.1", server.addresses[0].port, "test", security=ChannelSecurity(login=login)
            )
        server.stop(0)


async def test_the_rights_of_a_client_go_with_its_request_to_what_changes_topics(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    async with bench.running() as session:
        await put(session, TOPIC_A, entry("ann", Operation.CREATE))
        request = CreateTopicsRequest((CreatableTopic("a", 1, 1), CreatableTopic("b", 1, 1)), 1000)

        async def errors(name: str) -> list[int]:
            answer = await bench.ask(name, request)
            assert isinstance(answer, CreateTopicsResponse)
            return [topic.error for topic in answer.topics]

        async def may_create_a() -> bool:
            return await errors("ann") == [0, ErrorCode.TOPIC_AUTHORIZATION_FAILED]

        await bench.until(may_create_a)
        assert await errors("lethe") == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
        assert await errors("admin") == [0, 0]
    assert any(
        line.startswith("refused CREATE_TOPICS: User:lethe from 127.0.0.1 may not Create Topic 'a'")
        for line in lines(caplog)
    )


async def test_leaders_are_elected_only_for_those_who_may_alter_the_cluster() -> None:
    bench = Bench()
    request = ElectLeadersRequest((TopicPartitions("a", (0,)),), 1000)
    async with bench.running():
        answer = await bench.ask("ann", request)
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert answer == ElectLeadersResponse((TopicOutcome("a", (PartitionOutcome(0, refused),)),), refused)
        assert bench.done == []
