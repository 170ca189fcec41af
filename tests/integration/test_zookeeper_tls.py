"""TLS with client certificates against a real ZooKeeper (ssl.clientAuth=need), and what is said where it fails."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lethe.adapters.security.refusal_counts import RefusalCounts, RefusalReason
from lethe.adapters.security.secrets import Secret
from lethe.adapters.zookeeper.config import DigestMd5Login, ZooKeeperConfig, ZooKeeperTls, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperRefused, ZooKeeperUnavailable
from lethe.adapters.zookeeper.session import Session, open_session
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from lethe.cluster.zookeeper_security import ClientCertificate, ServerSecurity, ServerTls
from lethe.protocol.zookeeper.operations import Create, Data, GetData, MultiDone, MultiFailed, SetData, ZkError
from tests.fakes.certificates import Authority, Leaf
from tests.fakes.zookeeper_acls import READ_BY_ALL, acl_of, owned_by
from tests.integration.test_zookeeper_session import until

pytestmark = pytest.mark.zookeeper
HOST = "127.0.0.1"
KAFKA = DigestMd5Login("kafka", Secret("secret"))
LIMITS_MS = (1_000, 4_000, 16_000, 64_000)
"""For a refusal, which is told at the end of its limit: a longer one where the server has not refused yet. On a busy
machine its first handshake takes seconds."""


@dataclass(frozen=True)
class Place:
    """An authority, a directory for its stores, and a server with a certificate of it."""

    authority: Authority
    directory: Path
    zookeeper: EmbeddedZooKeeper

    def context(self, leaf: Leaf | None, authority: Authority | None = None) -> ssl.SSLContext:
        trusted = (authority or self.authority).pem_file(self.directory / "trusted.pem")
        context = ssl.create_default_context(cafile=str(trusted))
        if leaf is not None:
            context.load_cert_chain(leaf.pem_file(self.directory / "leaf.pem"))
        return context


def server(
    directory: Path,
    authority: Authority,
    leaf: Leaf,
    *,
    client_certificate: ClientCertificate = ClientCertificate.NEEDED,
    protocol: str = "TLSv1.3",
    **settings: object,
) -> EmbeddedZooKeeper:
    tls = ServerTls(
        leaf.pem_file(directory / "server.pem"), authority.pem_file(directory / "authority.pem"), client_certificate
    )
    properties = {"ssl.protocol": protocol, "ssl.enabledProtocols": protocol}
    security = ServerSecurity(tls, {"kafka": "secret"}, properties=properties)
    return EmbeddedZooKeeper(ZooKeeperSettings(tick_time_ms=1_000, security=security, **settings))  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["TLSv1.2", "TLSv1.3"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory, authority = tmp_path_factory.mktemp("tls"), Authority()
    with server(directory, authority, authority.issue("zookeeper"), protocol=request.param) as zookeeper:
        yield Place(authority, directory, zookeeper)


@asynccontextmanager
async def session_of(
    connect: str,
    context: ssl.SSLContext | None,
    *,
    set_acl: bool = False,
    user: DigestMd5Login | None = None,
    timeout_ms: int = 60_000,
    limit_ms: int = 120_000,
    refused: RefusalCounts | None = None,
) -> AsyncIterator[Session]:
    config = ZooKeeperConfig(
        parse_connect_string(connect),
        session_timeout_ms=timeout_ms,
        connection_timeout_ms=limit_ms,
        tls=None if context is None else ZooKeeperTls(lambda: context, has_certificate=True),
        sasl=user,
        set_acl=set_acl,
        refused=refused or RefusalCounts(),
    )
    async with open_session(config, lambda _: None) as session:
        yield session


async def test_znodes_belong_to_the_certificate(place: Place) -> None:
    context, zookeeper = place.context(place.authority.client("lethe")), place.zookeeper
    stranger = place.context(place.authority.client("stranger"))
    connect = f"{zookeeper.secure_connect_string}/by-certificate"
    async with session_of(connect, context, set_acl=True) as ours, session_of(connect, stranger) as others:
        assert isinstance(await ours.multi([Create("/a", b"1")]), MultiDone)
        assert isinstance(await ours.multi([SetData("/a", b"2", 0)]), MultiDone)
        assert await others.multi([SetData("/a", b"3", 1)]) == MultiFailed(0, ZkError.NO_AUTH)
    found = await acl_of(HOST, zookeeper.secure_port, "/by-certificate/a", context=context)
    assert found == owned_by(("x509", "CN=lethe")) | READ_BY_ALL


async def test_with_sasl_znodes_belong_to_both(place: Place) -> None:
    context, zookeeper = place.context(place.authority.client("lethe")), place.zookeeper
    async with session_of(zookeeper.secure_connect_string, context, set_acl=True, user=KAFKA) as session:
        await session.multi([Create("/both", b"1")])
    found = await acl_of(HOST, zookeeper.secure_port, "/both", context=context)
    assert found == owned_by(("x509", "CN=lethe"), ("sasl", "kafka")) | READ_BY_ALL
    async with session_of(zookeeper.connect_string, None, user=KAFKA) as plaintext:
        assert isinstance(await plaintext.multi([SetData("/both", b"2", 0)]), MultiDone)


async def test_a_wrong_password_inside_tls_is_final(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    context = place.context(place.authority.client("lethe"))
    wrong, refused = DigestMd5Login("kafka", Secret("wrong")), RefusalCounts()
    with pytest.raises(ZooKeeperRefused, match=f"{HOST}:{place.zookeeper.secure_port}: it does not accept user name"):
        async with session_of(place.zookeeper.secure_connect_string, context, user=wrong, refused=refused):
            pass
    assert refused.by_reason == {RefusalReason.LOGIN: 1}
    assert "is lost" not in caplog.text, "no session was open"


async def refusal(connect: str, context: ssl.SSLContext | None, *, is_counted: bool = True) -> str:
    """What is said where no session can be opened. It names the server and its port, and asks nobody whether that
    runs where TLS has shown it."""
    expected, counts, said = {RefusalReason.TLS} if is_counted else set(), RefusalCounts(), ""
    for limit_ms in LIMITS_MS:
        counts = RefusalCounts()
        with pytest.raises(ZooKeeperUnavailable) as refused:
            async with session_of(connect, context, limit_ms=limit_ms, refused=counts):
                pass
        said = str(refused.value)
        if "no answer in time" not in said and set(counts.by_reason) == expected:
            break
    assert set(counts.by_reason) == expected
    assert f"({connect}: " in said
    assert ("Is ZooKeeper running" in said) == (context is None and not is_counted)
    return said


async def test_a_client_without_a_certificate_is_told_to_show_one(place: Place) -> None:
    said = await refusal(place.zookeeper.secure_connect_string, place.context(None))
    assert "zookeeper.ssl.keystore.location" in said
    assert "certificate" in said


async def test_a_client_certificate_of_another_authority_is_refused(place: Place) -> None:
    said = await refusal(place.zookeeper.secure_connect_string, place.context(Authority("Other").client()))
    assert "refuses this side's certificate; check that" in said


async def test_an_expired_client_certificate_is_refused(place: Place) -> None:
    said = await refusal(place.zookeeper.secure_connect_string, place.context(place.authority.expired()))
    assert "refuses this side's certificate; check that" in said
    assert "has not expired" in said


async def test_a_server_of_another_authority_is_not_believed(place: Place) -> None:
    context = place.context(place.authority.client(), Authority("Other"))
    said = await refusal(place.zookeeper.secure_connect_string, context)
    assert "zookeeper.ssl.truststore.location" in said


async def test_plaintext_to_the_port_of_tls(place: Place) -> None:
    said = await refusal(place.zookeeper.secure_connect_string, None, is_counted=False)
    assert "TLS port" in said
    assert "zookeeper.ssl.client.enable=true" in said


async def test_tls_to_the_plaintext_port(place: Place) -> None:
    said = await refusal(place.zookeeper.connect_string, place.context(place.authority.client()), is_counted=False)
    assert "plaintext port" in said
    assert "zookeeper.ssl.client.enable=false" in said


async def test_an_expired_server_certificate_is_not_believed(tmp_path: Path) -> None:
    authority = Authority()
    with server(tmp_path, authority, authority.expired()) as zookeeper:
        context = Place(authority, tmp_path, zookeeper).context(authority.client())
        said = await refusal(zookeeper.secure_connect_string, context)
        assert "certificate has expired" in said


async def test_a_server_certificate_of_another_host_is_not_believed(tmp_path: Path) -> None:
    authority = Authority()
    leaf = authority.issue("zookeeper", hosts=("zk.example",))
    with server(tmp_path, authority, leaf, client_certificate=ClientCertificate.NONE) as zookeeper:
        context = Place(authority, tmp_path, zookeeper).context(None)
        said = await refusal(zookeeper.secure_connect_string, context)
        assert f"{HOST!r} among its subject alternative names" in said
        context.check_hostname = False
        async with session_of(zookeeper.secure_connect_string, context) as session:
            assert session.connected


async def test_a_restart_of_the_server_is_survived_with_a_new_context(tmp_path: Path) -> None:
    """The certificates are made again meanwhile, by another authority: each connect asks for the present context."""
    first, second = Authority("First"), Authority("Second")
    zookeeper = server(tmp_path, first, first.issue("zookeeper"))
    with zookeeper:
        made = [Place(first, tmp_path, zookeeper).context(first.client())]
        config = ZooKeeperConfig(
            parse_connect_string(zookeeper.secure_connect_string),
            session_timeout_ms=120_000,
            tls=ZooKeeperTls(lambda: made[-1], has_certificate=True),
            sasl=KAFKA,
            set_acl=True,
        )
        async with open_session(config, lambda _: None) as session:
            await session.multi([Create("/e", b"1", ephemeral=True)])
            zookeeper.kill()
            await until(lambda: not session.connected)
            second.issue("zookeeper").pem_file(tmp_path / "server.pem")
            second.pem_file(tmp_path / "authority.pem")
            made.append(Place(second, tmp_path, zookeeper).context(second.client()))
            await zookeeper.start_async()
            (found,) = await session.read([GetData("/e")])
            assert isinstance(found, Data)
            assert found.stat.ephemeral_owner == session.session_id
            assert isinstance(await session.multi([SetData("/e", b"2", 0)]), MultiDone)
            assert session.lost_reason is None
