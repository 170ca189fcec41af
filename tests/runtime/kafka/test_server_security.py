"""TLS and SASL of the server on real sockets: who gets in, what the others are told, and clients that mean harm."""

import asyncio
import contextlib
import logging
import re
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from lethe.adapters.kafka.admission import Admission
from lethe.adapters.kafka.client import AuthenticationRefused, ConnectionFailed, KafkaConnection, TlsFailed
from lethe.adapters.kafka.limits import ServerLimits
from lethe.adapters.kafka.peers import Close
from lethe.adapters.kafka.server import KafkaServer
from lethe.adapters.peers import Peer
from lethe.adapters.properties import ConfigError, Problem
from lethe.adapters.registration import ensure_roots
from lethe.adapters.security.accepting import CredentialsUnavailable, Exchange, SaslAcceptance
from lethe.adapters.security.channel import PLAINTEXT, ChannelSecurity
from lethe.adapters.security.exchanges import PlainExchange, ScramExchange
from lethe.adapters.security.login import SaslLogin
from lethe.adapters.security.refusal_counts import RefusalReason
from lethe.adapters.security.scram_users import ScramUsers
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    Request,
    Response,
)
from lethe.protocol.kafka.sasl import (
    SaslAuthenticateResponse,
)
from lethe.protocol.kafka.versions import SPOKEN
from lethe.protocol.security.jaas import parse_config
from lethe.protocol.security.principal_mapping import PrincipalMapping
from lethe.protocol.security.scram import ScramCredential, ScramMechanism
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData
from lethe.protocol.zookeeper.paths import config_user
from lethe.protocol.zookeeper.znodes import encode_config
from tests.fakes.agents import ignore_watch
from tests.fakes.certificates import Authority, Leaf
from tests.fakes.raw_client import Raw as RawClient
from tests.fakes.zookeeper import FakeZooKeeper

LIMIT_S = 30
PASSWORD = "correct-horse"
ALL = MetadataRequest(None)
SHA_512, SHA_256 = ScramMechanism.SHA_512, ScramMechanism.SHA_256
CA = Authority()
HERE = CA.issue("controller")
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="correct-horse" user_ann="x";'


async def whoami(header: RequestHeader, value: Request, peer: Peer) -> Response | Close:
    """Answers Metadata with the client's principal, in place of the cluster id."""
    return MetadataResponse((), str(peer.principal), BrokerId(1), ())


@asynccontextmanager
async def running(
    admission: Admission,
    limits: ServerLimits = ServerLimits(max_connections=100),  # noqa: B008 - frozen
) -> AsyncIterator[KafkaServer]:
    server = KafkaServer(whoami, SPOKEN, limits, "test")
    await server.listen("127.0.0.1", 0, "INTERNAL", admission)
    task = asyncio.create_task(server.serve(), name="server")
    await server.started()
    try:
        yield server
    finally:
        server.stop(grace_ms=0)
        await asyncio.wait_for(task, LIMIT_S)
    assert server.load.connections == 0
    assert server.load.queued_bytes == 0


async def connect(server: KafkaServer, security: ChannelSecurity = PLAINTEXT) -> KafkaConnection:
    async with asyncio.timeout(LIMIT_S):
        return await KafkaConnection.open("127.0.0.1", server.addresses[0].port, "1001", security=security)


async def principal(server: KafkaServer, security: ChannelSecurity = PLAINTEXT) -> str | None:
    """Return the principal that a new connection has."""
    async with await connect(server, security) as connection:
        return principal_in(await connection.ask(ALL))


def principal_in(response: Response) -> str | None:
    assert isinstance(response, MetadataResponse)
    return response.cluster_id


def server_context(tmp_path: Path, leaf: Leaf = HERE, verify: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf.pem_file(tmp_path / "server.pem"))
    context.load_verify_locations(CA.pem_file(tmp_path / "clients.pem"))
    context.verify_mode = verify
    return context


def client_tls(
    tmp_path: Path, leaf: Leaf | None = None, login: SaslLogin | None = None, trusted: Authority = CA
) -> ChannelSecurity:
    context = ssl.create_default_context(cafile=str(trusted.pem_file(tmp_path / "ca.pem")))
    if leaf is not None:
        context.load_cert_chain(leaf.pem_file(tmp_path / "client.pem"))
    return ChannelSecurity(lambda: context, True, login)


def plain(max_reauth_ms: Mapping[str, int] | None = None, max_login_ms: int = 30_000) -> Admission:
    mechanisms: dict[str, Callable[[], Exchange]] = {"PLAIN": lambda: PlainExchange(lambda: parse_config(JAAS))}
    return Admission(
        sasl=SaslAcceptance(mechanisms, max_reauth_ms=max_reauth_ms or {}),
        max_login_ms=max_login_ms,
        failure_delay_ms=0,
    )


def as_user(name: str = "admin", password: str = PASSWORD) -> ChannelSecurity:
    return ChannelSecurity(login=SaslLogin.plain(name, lambda: password))


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged about refused connections; nothing secret is in it."""
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert not any(PASSWORD in each for each in found)
    return found


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.005)


class Raw(RawClient):
    """A client that sends what it likes, and is `admin` if it does not say otherwise."""

    async def authenticate(self, user: str = "admin", password: str = PASSWORD) -> SaslAuthenticateResponse:
        return await super().authenticate(user, password)


@asynccontextmanager
async def raw(server: KafkaServer) -> AsyncIterator[Raw]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.addresses[0].port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.transport.abort()


# --- TLS ----------------------------------------------------------------------------------------------------------


async def test_a_client_certificate_is_the_principal_and_without_one_it_is_anonymous(tmp_path: Path) -> None:
    context = server_context(tmp_path, verify=ssl.CERT_OPTIONAL)
    async with running(Admission(lambda: context)) as server:
        assert await principal(server, client_tls(tmp_path, CA.client("broker-1"))) == "User:CN=broker-1"
        assert await principal(server, client_tls(tmp_path)) == "User:ANONYMOUS"


def test_the_same_on_uvloop(tmp_path: Path) -> None:
    async def scenario() -> None:
        context = server_context(tmp_path, verify=ssl.CERT_OPTIONAL)
        async with running(Admission(lambda: context)) as server:
            assert await principal(server, client_tls(tmp_path, CA.client("broker-1"))) == "User:CN=broker-1"
        async with running(Admission(lambda: context, plain().sasl)) as server:
            login = SaslLogin.plain("admin", lambda: PASSWORD)
            assert await principal(server, client_tls(tmp_path, login=login)) == "User:admin"

    uvloop.run(scenario())


async def test_the_mapping_makes_the_principal_and_a_name_without_rule_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = server_context(tmp_path, verify=ssl.CERT_REQUIRED)
    mapping = PrincipalMapping.parse("RULE:^CN=broker-(.*)$/b$1/")
    async with running(Admission(lambda: context, mapping=mapping)) as server:
        assert await principal(server, client_tls(tmp_path, CA.client("broker-1"))) == "User:b1"
        with pytest.raises(ConnectionFailed):
            await principal(server, client_tls(tmp_path, CA.client("other")))
    (said,) = refusals(caplog)
    assert "CN=other" in said
    assert "ssl.principal.mapping.rules" in said


@pytest.mark.parametrize(
    "leaf, words",
    [
        (None, "shows no certificate, and ssl.client.auth requires one"),
        (Authority("Other CA").client("broker-1"), "issued by an authority that is not trusted"),
        (CA.expired(), "has expired"),
    ],
    ids=["none", "foreign", "expired"],
)
async def test_a_wrong_client_certificate_is_refused_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, leaf: Leaf | None, words: str
) -> None:
    context = server_context(tmp_path, verify=ssl.CERT_REQUIRED)
    admission = Admission(lambda: context)
    async with running(admission) as server:
        for _ in range(3):
            with pytest.raises(ConnectionFailed):
                await principal(server, client_tls(tmp_path, leaf))
        await until(lambda: server.refused.count == 3)
    assert admission.refused.by_reason == {RefusalReason.TLS: 3}
    (said,) = refusals(caplog)
    assert words in said
    assert re.search(r"127\.0\.0\.1:\d+", said)


async def test_a_client_without_tls_and_one_that_sends_nothing_are_closed_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = server_context(tmp_path)
    admission = Admission(lambda: context, max_login_ms=300)
    async with running(admission) as server:
        async with raw(server) as client:
            client.send(ApiVersionsRequest(), 0)
            assert (await asyncio.wait_for(client.reader.read(), LIMIT_S))[:1] in (b"", b"\x15")
        async with raw(server) as client:
            assert await client.is_closed()
        async with raw(server):
            pass
        await until(lambda: server.connection_count == 0)
        assert server.refused.count == 3
    assert admission.refused.by_reason == {RefusalReason.TLS: 1, RefusalReason.UNFINISHED: 2}
    (said,) = refusals(caplog)
    assert "does not speak TLS" in said


async def test_each_connection_gets_the_certificate_of_its_time(tmp_path: Path) -> None:
    other_ca = Authority("Other CA")
    contexts = [server_context(tmp_path), server_context(tmp_path, other_ca.issue("later"))]
    async with running(Admission(lambda: contexts[0])) as server:
        assert await principal(server, client_tls(tmp_path)) == "User:ANONYMOUS"
        del contexts[0]
        with pytest.raises(TlsFailed):
            await principal(server, client_tls(tmp_path))
        assert await principal(server, client_tls(tmp_path, trusted=other_ca)) == "User:ANONYMOUS"


async def test_a_certificate_that_has_become_unusable_closes_connections_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def unusable() -> ssl.SSLContext:
        raise ConfigError([Problem("ssl.keystore.location", "f:1", None, "is missing", "add it")])

    async with running(Admission(unusable)) as server, raw(server) as client:
        assert await client.is_closed()
    (said,) = refusals(caplog)
    assert "ssl.keystore.location: is missing; add it" in said


async def test_a_fault_before_one_handshake_ends_neither_the_server_nor_other_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context, faults = server_context(tmp_path), [RuntimeError("can't start new thread")]

    def next_context() -> ssl.SSLContext:
        if faults:
            raise faults.pop()
        return context

    async with running(Admission(next_context)) as server:
        async with raw(server) as client:
            assert await client.is_closed()
        assert await principal(server, client_tls(tmp_path)) == "User:ANONYMOUS"
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "which could not be served" in record.getMessage()


# --- SASL ---------------------------------------------------------------------------------------------------------


async def test_plain_gives_the_user_as_the_principal_also_over_tls(tmp_path: Path) -> None:
    async with running(plain()) as server:
        assert await principal(server, as_user()) == "User:admin"
        assert await principal(server, as_user("ann", "x")) == "User:ann"
    context = server_context(tmp_path, verify=ssl.CERT_OPTIONAL)
    async with running(Admission(lambda: context, plain().sasl)) as server:
        login = SaslLogin.plain("admin", lambda: PASSWORD)
        assert await principal(server, client_tls(tmp_path, CA.client("cert"), login)) == "User:admin"


@pytest.mark.parametrize("user, password", [("admin", "wrong"), ("nobody", PASSWORD), ("ann", PASSWORD)])
async def test_a_wrong_password_is_refused_in_kafkas_words(
    caplog: pytest.LogCaptureFixture, user: str, password: str
) -> None:
    admission = plain()
    async with running(admission) as server:
        for _ in range(3):
            with pytest.raises(AuthenticationRefused, match="due to invalid credentials with SASL mechanism PLAIN"):
                await principal(server, as_user(user, password))
    (said,) = refusals(caplog)
    assert "PLAIN authentication" in said
    assert ("user 'admin'" in said) is (user == "admin")
    assert "nobody" not in said
    assert admission.refused.by_reason == {RefusalReason.LOGIN: 3}


async def test_a_login_that_cannot_be_checked_is_not_counted_as_a_wrong_one(caplog: pytest.LogCaptureFixture) -> None:
    class Unreadable(PlainExchange):
        async def answer(self, response: bytes) -> bytes:
            raise CredentialsUnavailable("there is no ZooKeeper session")

    admission = Admission(sasl=SaslAcceptance({"PLAIN": lambda: Unreadable(lambda: parse_config(JAAS))}))
    async with running(admission) as server:
        with pytest.raises(ConnectionFailed):
            await principal(server, as_user())
    assert admission.refused.by_reason == {RefusalReason.UNCHECKED: 1}
    (said,) = refusals(caplog)
    assert "its credentials could not be checked: there is no ZooKeeper session" in said


@asynccontextmanager
async def scram_server(*users: str) -> AsyncIterator[tuple[KafkaServer, FakeZooKeeper, ScramUsers]]:
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(ignore_watch) as session:
        await ensure_roots(session)
        for user in users:
            text = ScramCredential.of(SHA_512, PASSWORD, b"salt of " + user.encode()).text()
            await session.multi([Create(config_user(user), encode_config({SHA_512.value: text}))])
        known = ScramUsers(lambda: session)
        mechanisms: dict[str, Callable[[], Exchange]] = {
            each.value: lambda each=each: ScramExchange(each, known)  # type: ignore[misc]
            for each in ScramMechanism
        }
        async with running(Admission(sasl=SaslAcceptance(mechanisms), failure_delay_ms=0)) as server:
            yield server, zookeeper, known


async def test_scram_uses_the_credentials_of_kafkas_users_in_zookeeper(caplog: pytest.LogCaptureFixture) -> None:
    odd = "ann=b,c/d ~*%"
    async with scram_server("admin", odd) as (server, _, _):
        for user in ("admin", odd):
            login = SaslLogin.scram(SHA_512, user, lambda: PASSWORD)
            assert await principal(server, ChannelSecurity(login=login)) == f"User:{user}"
        for mechanism, user, password in [(SHA_512, "admin", "no"), (SHA_512, "x", PASSWORD), (SHA_256, "admin", "y")]:
            login = SaslLogin.scram(mechanism, user, lambda password=password: password)  # type: ignore[misc]
            with pytest.raises(
                AuthenticationRefused, match=f"invalid credentials with SASL mechanism {mechanism.value}"
            ):
                await principal(server, ChannelSecurity(login=login))
    assert len(refusals(caplog)) == 1


async def test_an_unknown_mechanism_is_refused_with_those_that_are_there(caplog: pytest.LogCaptureFixture) -> None:
    async with running(plain()) as server:
        login = SaslLogin.scram(SHA_512, "admin", lambda: PASSWORD)
        with pytest.raises(AuthenticationRefused, match="does not enable SCRAM-SHA-512, only PLAIN"):
            await connect(server, ChannelSecurity(login=login))
        async with raw(server) as client:
            assert (await client.handshake("GSSAPI")).error == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert await client.is_closed()
    (said,) = refusals(caplog)
    assert "sasl.enabled.mechanisms" in said


async def test_api_versions_v0_comes_before_the_login_and_lists_everything(tmp_path: Path) -> None:
    async with running(plain()) as server, raw(server) as client:
        versions = await client.ask(ApiVersionsRequest(), ApiKey.API_VERSIONS, 0)
        listed = {row.api_key: (row.min_version, row.max_version) for row in versions.apis}  # type: ignore[union-attr]
        assert listed[17] == (1, 1)
        assert listed[36] == (0, 2)
        assert ApiKey.STOP_REPLICA in listed
        assert (await client.handshake()).error == ErrorCode.NONE
        assert (await client.authenticate()).error == ErrorCode.NONE
        again = await client.ask(ApiVersionsRequest("x", "1"), ApiKey.API_VERSIONS, 3)
        assert {row.api_key for row in again.apis} == set(listed)  # type: ignore[union-attr]


@pytest.mark.parametrize("after", ["nothing", "handshake"])
async def test_any_other_request_before_the_login_ends_the_connection(
    caplog: pytest.LogCaptureFixture, after: str
) -> None:
    admission = plain()
    async with running(admission) as server, raw(server) as client:
        if after == "handshake":
            await client.handshake()
        client.send(ALL, 12)
        assert await client.is_closed()
    assert admission.refused.by_reason == {RefusalReason.NO_LOGIN: 1}
    (said,) = refusals(caplog)
    assert "sent METADATA" in said


async def test_a_token_without_handshake_and_one_in_another_form_are_refused() -> None:
    async with running(plain()) as server:
        async with raw(server) as client:
            assert (await client.token(b"\0admin\0" + PASSWORD.encode())).error == ErrorCode.ILLEGAL_SASL_STATE
            assert await client.is_closed()
        for token in (b"", b"\xff\xfe", b"admin", b"ann\0admin\0" + PASSWORD.encode()):
            async with raw(server) as client:
                await client.handshake()
                assert (await client.token(token)).error == ErrorCode.SASL_AUTHENTICATION_FAILED
                assert await client.is_closed()


async def test_sasl_on_a_listener_without_sasl_is_an_illegal_state(tmp_path: Path) -> None:
    context = server_context(tmp_path)
    async with running(Admission(lambda: context)) as server:
        with pytest.raises(AuthenticationRefused, match="takes no login"):
            await connect(server, client_tls(tmp_path, login=SaslLogin.plain("admin", lambda: PASSWORD)))


# --- authentications that end (KIP-368) ---------------------------------------------------------------------------


async def test_an_authentication_ends_and_is_repeated_on_the_same_connection() -> None:
    async with running(plain({"PLAIN": 1_200})) as server, raw(server) as client:
        await client.handshake()
        assert (await client.authenticate()).session_lifetime_ms == 1_200
        assert (await client.handshake()).error == ErrorCode.ILLEGAL_SASL_STATE  # less than a second ago
        await asyncio.sleep(1.05)
        assert (await client.handshake()).error == ErrorCode.NONE
        assert (await client.authenticate()).error == ErrorCode.NONE
        await asyncio.sleep(0.3)
        assert principal_in(await client.ask(ALL, ApiKey.METADATA, 12)) == "User:admin"
        await asyncio.sleep(1.0)
        client.send(ALL, 12)
        assert await client.is_closed()


async def test_a_repetition_neither_changes_the_user_nor_the_mechanism(caplog: pytest.LogCaptureFixture) -> None:
    admission = plain({"PLAIN": 60_000})
    assert admission.sasl is not None
    mechanisms = {**admission.sasl.mechanisms, "OTHER": admission.sasl.mechanisms["PLAIN"]}
    sasl = SaslAcceptance(mechanisms, max_reauth_ms={"PLAIN": 60_000})
    async with running(Admission(sasl=sasl, failure_delay_ms=0)) as server, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw(server)) for _ in range(2)]
        for client in clients:
            await client.handshake()
            await client.authenticate()
        await asyncio.sleep(1.05)
        await clients[0].handshake()
        assert (await clients[0].authenticate("ann", "x")).error == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await clients[0].is_closed()
        assert (await clients[1].handshake("OTHER")).error == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert await clients[1].is_closed()
    (said, *_) = refusals(caplog)
    assert "it was User:admin and repeated its authentication as User:ann" in said


async def test_without_an_end_a_repetition_is_an_illegal_state_and_the_connection_stays() -> None:
    async with running(plain()) as server, raw(server) as client:
        await client.handshake()
        assert (await client.authenticate()).session_lifetime_ms == 0
        assert (await client.handshake()).error == ErrorCode.ILLEGAL_SASL_STATE
        assert (await client.authenticate()).error == ErrorCode.ILLEGAL_SASL_STATE
        assert principal_in(await client.ask(ALL, ApiKey.METADATA, 12)) == "User:admin"


# --- attacks ------------------------------------------------------------------------------------------------------


async def test_a_large_frame_before_the_login_is_refused_at_its_size_and_accepted_after_it() -> None:
    async with running(plain()) as server:
        async with raw(server) as client:
            client.writer.write(struct.pack(">ihhi", 524_289, ApiKey.SASL_HANDSHAKE, 1, 1))
            assert await client.is_closed()
        async with raw(server) as client:
            await client.handshake()
            await client.authenticate()
            client.send(MetadataRequest(tuple([MetadataRequestTopic("t" * 200)] * 3_000)), 12)
            (size,) = struct.unpack(">i", await asyncio.wait_for(client.reader.readexactly(4), LIMIT_S))
            assert size > 0


async def test_a_login_that_never_ends_is_closed_in_time_although_it_goes_on_sending(
    caplog: pytest.LogCaptureFixture,
) -> None:
    admission = plain(max_login_ms=300)
    async with running(admission) as server, raw(server) as client:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            async with asyncio.timeout(LIMIT_S):
                while True:
                    await client.ask(ApiVersionsRequest(), ApiKey.API_VERSIONS, 0)
                    await asyncio.sleep(0.02)
        assert await client.is_closed()
    (said,) = refusals(caplog)
    assert "did not authenticate within 300 ms" in said
    assert admission.refused.by_reason == {RefusalReason.UNFINISHED: 1}


async def test_an_authenticated_connection_outlives_the_limit_of_logins() -> None:
    async with running(plain(max_login_ms=300)) as server, await connect(server, as_user()) as connection:
        await asyncio.sleep(0.5)
        assert principal_in(await connection.ask(ALL)) == "User:admin"


async def test_clients_that_never_log_in_keep_no_other_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    context = server_context(tmp_path)
    limits = ServerLimits(max_connections=5)
    login = SaslLogin.plain("admin", lambda: PASSWORD)
    async with (
        running(Admission(lambda: context, plain().sasl), limits) as server,
        contextlib.AsyncExitStack() as stack,
        await connect(server, client_tls(tmp_path, login=login)) as before,
    ):
        for _ in range(20):
            await stack.enter_async_context(raw(server))
        await until(lambda: server.load.connections == 5)
        assert await principal(server, client_tls(tmp_path, login=login)) == "User:admin"
        assert principal_in(await before.ask(ALL)) == "User:admin"
    assert sum("which has not logged in" in said for said in refusals(caplog)) == 1


async def test_a_replayed_scram_exchange_is_refused() -> None:
    """What was recorded of one exchange authenticates nobody: the server's nonce is another one."""
    async with scram_server("admin") as (server, _, _):
        sent: list[bytes] = []
        client_side = await SaslLogin.scram(SHA_512, "admin", lambda: PASSWORD).client()
        async with raw(server) as client:
            await client.handshake(SHA_512.value)
            sent.append(client_side.first())
            challenge = await client.token(sent[0])
            final = client_side.answer(challenge.auth_bytes)
            assert final is not None
            sent.append(final)
            assert (await client.token(final)).error == ErrorCode.NONE
        async with raw(server) as attacker:
            await attacker.handshake(SHA_512.value)
            assert (await attacker.token(sent[0])).error == ErrorCode.NONE
            assert (await attacker.token(sent[1])).error == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await attacker.is_closed()


async def test_a_changed_password_counts_after_some_seconds_and_zookeepers_absence_changes_nothing() -> None:
    now = [0.0]
    zookeeper = FakeZooKeeper()
    old = ScramCredential.of(SHA_512, PASSWORD, b"salt")
    new = ScramCredential.of(SHA_512, "another", b"salt")
    async with zookeeper.open_session(ignore_watch) as session:
        await ensure_roots(session)
        await session.multi([Create(config_user("ann"), encode_config({SHA_512.value: old.text()}))])
        sessions = [session]
        users = ScramUsers(lambda: sessions[0] if sessions else None, lambda: now[0])
        assert await users.find(SHA_512, "ann") == old
        assert await users.find(SHA_256, "ann") is None
        await session.multi([SetData(config_user("ann"), encode_config({SHA_512.value: new.text()}), ANY_VERSION)])
        assert await users.find(SHA_512, "ann") == old
        now[0] = 5.1
        assert await users.find(SHA_512, "ann") == new
        sessions.clear()
        now[0] = 100.0
        assert await users.find(SHA_512, "ann") == new
