"""SASL DIGEST-MD5 against real ZooKeepers: who gets in, what is said of who does not, and whose the znodes are."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lethe.adapters.security.secrets import FileSecret, Secret
from lethe.adapters.zookeeper.config import DigestMd5Login, ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import SessionLost, WriteRefused, ZooKeeperRefused, ZooKeeperUnavailable
from lethe.adapters.zookeeper.session import Session, open_session
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from lethe.cluster.zookeeper_security import ServerSecurity
from lethe.protocol.zookeeper.operations import (
    Create,
    Credentials,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MultiDone,
    MultiFailed,
    ReadFailed,
    SetData,
    WatchFired,
    WatchKind,
    ZkError,
)
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.zookeeper_acls import OPEN, READ_BY_ALL, acl_of, owned_by
from tests.integration.test_zookeeper_session import until

pytestmark = pytest.mark.zookeeper
USERS: Mapping[str, str] = {"kafka": 'se"cr\\et', "other": "hunter2", "pä": "wörd", "кафка": "пароль"}
CONNECT, EXISTS, GET_DATA, MULTI, AUTH, SET_WATCHES, SASL = 0, 3, 4, 14, 100, 101, 102


def login(name: str, password: str | None = None) -> DigestMd5Login:
    return DigestMd5Login(name, Secret(USERS[name] if password is None else password))


@asynccontextmanager
async def session_of(
    connect: str,
    user: DigestMd5Login | None,
    *,
    set_acl: bool = False,
    digest: bytes | None = None,
    fired: list[WatchFired] | None = None,
    timeout_ms: int = 60_000,
    limit_ms: int = 120_000,
) -> AsyncIterator[Session]:
    config = ZooKeeperConfig(
        parse_connect_string(connect),
        session_timeout_ms=timeout_ms,
        connection_timeout_ms=limit_ms,
        sasl=user,
        set_acl=set_acl,
        credentials=() if digest is None else (Credentials("digest", digest),),
    )
    async with open_session(config, (fired if fired is not None else []).append) as session:
        yield session


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper whose users log in by SASL; others are served without rights."""
    with EmbeddedZooKeeper(ZooKeeperSettings(tick_time_ms=1_000, security=ServerSecurity(users=USERS))) as zookeeper:
        yield zookeeper


@pytest.mark.parametrize("name", USERS)
async def test_a_user_logs_in_and_owns_what_it_creates(secured: EmbeddedZooKeeper, name: str) -> None:
    async with session_of(secured.connect_string, login(name), set_acl=True) as session:
        path = f"/of-{ord(name[0])}"
        assert isinstance(await session.multi([Create(path, b"1")]), MultiDone)
        assert await acl_of("127.0.0.1", secured.port, path, login(name)) == owned_by(("sasl", name)) | READ_BY_ALL
        assert isinstance(await session.multi([SetData(path, b"2", 0)]), MultiDone)


async def test_the_access_lists_are_kafkas(secured: EmbeddedZooKeeper) -> None:
    """ZkData.defaultAcls of Kafka 2.2 to 3.9: only /consumers itself is open, and three roots are hidden."""
    ours = owned_by(("sasl", "kafka"))
    all_read = ours | READ_BY_ALL
    expected = {
        "/acls": all_read,
        "/acls/consumers": OPEN,
        "/acls/consumers/group": all_read,
        "/acls/config/topics/t": all_read,
        "/acls/config/users/u": ours,
        "/acls/config/brokers/1": ours,
        "/acls/delegation_token/tokens": ours,
        "/acls/delegation_token": all_read,
        "/acls/brokers/topics/t": all_read,
        "/acls/lethe/debts": all_read,
    }
    async with session_of(f"{secured.connect_string}/acls", login("kafka"), set_acl=True) as session:
        for path in expected:
            await session.ensure_path(path.removeprefix("/acls") or "/")
    found = {path: await acl_of("127.0.0.1", secured.port, path, login("kafka")) for path in expected}
    assert found == expected


async def test_another_user_gets_a_refusal_and_never_an_absence(secured: EmbeddedZooKeeper) -> None:
    connect = f"{secured.connect_string}/refusals"
    async with (
        session_of(connect, login("kafka"), set_acl=True) as owner,
        session_of(connect, login("other")) as other,
        session_of(connect, None) as nobody,
    ):
        await owner.ensure_path("/config/users/u")
        await owner.ensure_path("/brokers/topics/t")
        for stranger in (other, nobody):
            users, names, topic = await stranger.read(
                [GetData("/config/users/u"), GetChildren("/config/users"), GetData("/brokers/topics/t")]
            )
            assert [users, names] == [ReadFailed(ZkError.NO_AUTH)] * 2
            assert isinstance(topic, Data)
            many = await stranger.read([Exists("/config/users/u")] * 10)
            assert not any(found == ReadFailed(ZkError.NO_NODE) for found in many)
            for write in (SetData("/brokers/topics/t", b"x", 0), Delete("/brokers/topics/t"), Create("/x", None)):
                assert await stranger.multi([write]) == MultiFailed(0, ZkError.NO_AUTH)
            with pytest.raises(WriteRefused, match="/brokers/topics/u: NO_AUTH, since its access list .* log in to "):
                await stranger.ensure_path("/brokers/topics/u")


async def test_digest_users_own_znodes_too_and_a_session_can_be_both(secured: EmbeddedZooKeeper) -> None:
    async with session_of(secured.connect_string, login("kafka"), set_acl=True, digest=b"alice:secret") as both:
        await both.multi([Create("/both", b"1")])
    found = await acl_of("127.0.0.1", secured.port, "/both", login("kafka"))
    assert {scheme for scheme, _ in found} == {"sasl", "digest", "world"}
    for user, digest in ((login("kafka"), None), (None, b"alice:secret")):
        async with session_of(secured.connect_string, user, digest=digest) as one:
            (there,) = await one.read([GetData("/both")])
            assert isinstance(there, Data)
            assert isinstance(await one.multi([SetData("/both", b"2", there.stat.version)]), MultiDone)


# --- who does not get in ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", [login("kafka", "wrong"), DigestMd5Login("nobody", Secret("wrong"))])
async def test_a_wrong_password_is_final_and_said_at_once(
    secured: EmbeddedZooKeeper, user: DigestMd5Login, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with TcpProxy("127.0.0.1", secured.port) as proxy:
        began, where = time.monotonic(), f"127.0.0.1:{proxy.port}"
        with pytest.raises(ZooKeeperRefused) as refused:
            async with session_of(where, user):
                pass
        assert time.monotonic() - began < 10
        assert proxy.connections == 1
    assert str(refused.value) == (
        f"ZooKeeper at {where} gave no session: {where}: it does not accept user name and password of "
        f"{user.username!r} (SASL DIGEST-MD5): compare them with the section Server of its JAAS file"
    )
    assert "wrong" not in caplog.text + repr(user)


async def test_a_password_that_cannot_be_read_is_not_called_a_refusal(secured: EmbeddedZooKeeper) -> None:
    with pytest.raises(ZooKeeperRefused) as refused:
        async with session_of(secured.connect_string, DigestMd5Login("kafka", FileSecret(Path("/none")))):
            pass
    assert "/none: does not exist" in str(refused.value)
    assert "refuse" not in str(refused.value)


async def test_a_server_without_the_scheme_digest_is_told_with_the_property() -> None:
    security = ServerSecurity(properties={"DigestAuthenticationProvider.enabled": "false"})
    with (
        EmbeddedZooKeeper(ZooKeeperSettings(security=security)) as zookeeper,
        pytest.raises(ZooKeeperUnavailable, match=r"the server refuses lethe\.zookeeper\.digest: AUTH_FAILED"),
    ):
        async with session_of(zookeeper.connect_string, None, digest=b"a:b"):
            pass


REFUSALS = [
    pytest.param(
        ServerSecurity(), "'kafka' is to log in: give the server a JAAS section Server", id="without a JAAS section"
    ),
    pytest.param(
        ServerSecurity(users=USERS, properties={"allowSaslFailedClients": "true"}),
        "it goes on without any rights .allowSaslFailedClients",
        id="that lets failed clients in",
    ),
    pytest.param(
        ServerSecurity(users=USERS, properties={"sessionRequireClientSASLAuth": "true"}),
        "does not accept user name and password of 'kafka'",
        id="that requires a login",
    ),
]


@pytest.mark.parametrize("security", [each.values[0] for each in REFUSALS], ids=[each.id for each in REFUSALS])
async def test_a_server(security: ServerSecurity, request: pytest.FixtureRequest) -> None:
    told = next(each.values[1] for each in REFUSALS if each.values[0] is security)
    with EmbeddedZooKeeper(ZooKeeperSettings(security=security)) as zookeeper:
        with pytest.raises(ZooKeeperRefused, match=str(told)):
            async with session_of(zookeeper.connect_string, login("kafka", "wrong")):
                pass
        if "sessionRequireClientSASLAuth" in security.properties:
            await _is_told_to_log_in(zookeeper.connect_string)


async def _is_told_to_log_in(connect: str) -> None:
    """A client without a user: with digest the server refuses at once, and otherwise its first request."""
    for digest in (b"a:b", None):
        with pytest.raises(ZooKeeperRefused, match="only clients that log in by SASL: give lethe.zookeeper.sasl.user"):
            async with session_of(connect, None, digest=digest):
                pass
    config = ZooKeeperConfig(parse_connect_string(connect), create_chroot=False)
    async with open_session(config, lambda _: None) as session:
        with pytest.raises(SessionLost, match="only clients that log in by SASL"):
            await session.read([Exists("/")])


async def test_a_server_without_the_sasl_provider_cannot_make_znodes_ours() -> None:
    security = ServerSecurity(users=USERS, has_sasl_provider=False)
    with EmbeddedZooKeeper(ZooKeeperSettings(security=security)) as zookeeper:
        async with session_of(zookeeper.connect_string, login("kafka"), set_acl=True) as session:
            with pytest.raises(WriteRefused, match="/a: INVALID_ACL, .*the authProvider for the login, or turn"):
                await session.ensure_path("/a")
        with pytest.raises(ZooKeeperUnavailable, match="/kafka does not exist and cannot be created: INVALID_ACL"):
            async with session_of(f"{zookeeper.connect_string}/kafka", login("kafka"), set_acl=True):
                pass


# --- again and again ----------------------------------------------------------------------------------------------


async def test_the_login_comes_first_on_each_connection(secured: EmbeddedZooKeeper) -> None:
    fired: list[WatchFired] = []
    async with TcpProxy("127.0.0.1", secured.port) as proxy:
        connect = f"127.0.0.1:{proxy.port}"
        async with session_of(connect, login("kafka"), set_acl=True, digest=b"a:b", fired=fired) as session:
            await session.multi([Create("/again", b"1")])
            await session.read([GetData("/again", watch=True)])
            proxy.cut()
            await until(lambda: proxy.connections == 2 and session.connected)
            assert isinstance(await session.multi([SetData("/again", b"2", 0)]), MultiDone)
            await until(lambda: fired == [WatchFired(WatchKind.DATA_CHANGED, "/again")])
    said = [int.from_bytes(frame[4:8]) for frame in proxy.requests]
    first = [CONNECT, SASL, SASL, AUTH, EXISTS, MULTI, GET_DATA]
    assert said[: len(first)] == first
    assert said[len(first) :][:6] == [CONNECT, SASL, SASL, AUTH, SET_WATCHES, MULTI]
    responses = [frame for frame, kind in zip(proxy.requests, said, strict=True) if kind == SASL][1::2]
    assert len(set(responses)) == 2, "no two logins are alike"


async def test_a_restart_of_the_server_is_survived() -> None:
    settings = ZooKeeperSettings(tick_time_ms=1_000, security=ServerSecurity(users=USERS))
    with EmbeddedZooKeeper(settings) as zookeeper:
        async with session_of(
            zookeeper.connect_string, login("kafka"), set_acl=True, timeout_ms=120_000, limit_ms=60_000
        ) as session:
            await session.multi([Create("/e", b"1", ephemeral=True)])
            zookeeper.kill()
            await until(lambda: not session.connected)
            await zookeeper.start_async()
            assert isinstance(await session.multi([SetData("/e", b"2", 0)]), MultiDone)
            assert session.lost_reason is None


async def test_a_password_that_changes_meanwhile_ends_the_session_with_the_reason() -> None:
    changed = {**USERS, "kafka": "another"}
    settings = ZooKeeperSettings(tick_time_ms=1_000, security=ServerSecurity(users=USERS))
    with EmbeddedZooKeeper(settings) as zookeeper:
        async with session_of(zookeeper.connect_string, login("kafka"), timeout_ms=120_000) as session:
            zookeeper.kill()
            later = EmbeddedZooKeeper(
                ZooKeeperSettings(
                    data_dir=zookeeper.data_dir,
                    port=zookeeper.port,
                    tick_time_ms=1_000,
                    security=ServerSecurity(users=changed),
                )
            )
            async with later:
                await until(lambda: session.lost_reason is not None)
                assert session.lost_reason is not None
                assert "does not accept user name and password of 'kafka'" in session.lost_reason
