"""Whole agents and controllers whose listeners have TLS, SASL and an authorizer, as server.properties has them."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from lethe.adapters.kafka.client import AuthenticationRefused, ConnectionFailed, KafkaConnection, TlsFailed
from lethe.adapters.security.channel import PLAINTEXT, ChannelSecurity
from lethe.adapters.security.login import SaslLogin
from lethe.broker.runtime.app import AgentApp
from lethe.broker.runtime.configuration import BrokerConfig
from lethe.controller.runtime.app import ControllerApp
from lethe.controller.runtime.configuration import load_controller_config
from lethe.protocol.kafka.control import Addressed, ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    MetadataRequest,
    MetadataResponse,
    Request,
    Response,
)
from lethe.protocol.kafka.to_controller import ControlledShutdownRequest, ControlledShutdownResponse
from lethe.protocol.security.scram import ScramCredential, ScramMechanism
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, Endpoint, TopicPartition
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.paths import config_user
from lethe.protocol.zookeeper.znodes import encode_config
from tests.fakes.agents import agent_config, ignore_watch, running
from tests.fakes.certificates import DAY, Authority, Leaf
from tests.fakes.runtime import controller_config
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.broker.core.driver import become, stop

LIMIT_S = 30
USERS = " ".join(f'user_{user}="{user}-pw"' for user in ("admin", "ann"))
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="admin-pw" {USERS};'
SASL = {
    "listeners": "INTERNAL://127.0.0.1:0",
    "listener_security_protocol_map": "INTERNAL:SASL_PLAINTEXT",
    "inter_broker_listener_name": "INTERNAL",
    "sasl_mechanism_inter_broker_protocol": "PLAIN",
    "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener_name_internal_plain_sasl_jaas_config": JAAS,
    "connection_failed_authentication_delay_ms": "0",
}
RIGHTS = {"authorizer_class_name": "kafka.security.authorizer.AclAuthorizer", "super_users": "User:admin"}


def agent(root: Path, **more: str) -> BrokerConfig:
    return agent_config(root, "127.0.0.1:1", 1, **more)


def as_user(name: str, password: str | None = None) -> ChannelSecurity:
    return ChannelSecurity(login=SaslLogin.plain(name, lambda: password or f"{name}-pw"))


async def ask(endpoint: Endpoint, security: ChannelSecurity, request: Request) -> Response:
    async with (
        asyncio.timeout(LIMIT_S),
        await KafkaConnection.open(endpoint.host, endpoint.port, "test", security=security) as connection,
    ):
        return await connection.ask(request)


def addressed(app: AgentApp, request: object) -> Addressed:
    return Addressed(request, app.loop.state.broker_epoch)  # type: ignore[arg-type]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def scraped(app: AgentApp | ControllerApp) -> dict[str, float]:
    """Value of each series with labels at /metrics, by its text."""
    assert app.http is not None
    async with aiohttp.ClientSession(app.http.url) as client, client.get("/metrics") as response:
        lines = (await response.text()).splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if "{" in line)}


def refusals(found: dict[str, float]) -> dict[str, float]:
    """Refused clients of the listener by reason, without those of which there were none."""
    begin = "lethe_authentication_refused_total{"
    rows = {name: value for name, value in found.items() if name.startswith(begin) and 'use="listener"' in name}
    return {name.partition('reason="')[2].partition('"')[0]: value for name, value in rows.items() if value}


# --- agents -------------------------------------------------------------------------------------------------------


async def test_a_forged_stop_replica_deletes_nothing_on_an_agent_with_sasl_and_rights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    zookeeper = FakeZooKeeper()
    async with running(agent(tmp_path, **SASL, **RIGHTS), zookeeper.open_session) as app:
        (endpoint,) = app.endpoints
        made = await ask(endpoint, as_user("admin"), addressed(app, become(is_new=True)))
        assert made.error == ErrorCode.NONE  # type: ignore[union-attr]
        (directory,) = tmp_path.glob("*/t-0")

        order = addressed(app, stop(delete=True))
        refused = await ask(endpoint, as_user("ann"), order)
        assert refused.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # type: ignore[union-attr]
        for security in (PLAINTEXT, as_user("admin", "guessed"), as_user("nobody")):
            with pytest.raises(ConnectionFailed):
                await ask(endpoint, security, order)
        assert directory.is_dir()
        assert TopicPartition("t", 0) in app.loop.state.replicas
        found = await scraped(app)
        assert refusals(found) == {"no_login": 1, "login": 2}
        assert found['lethe_authorization_refused_total{operation="ClusterAction",resource_type="Cluster"}'] == 1

        deleted = await ask(endpoint, as_user("admin"), order)
        assert deleted.error == ErrorCode.NONE  # type: ignore[union-attr]
        assert not directory.exists()
    said = "\n".join(warnings(caplog))
    assert "refused STOP_REPLICA: User:ann from 127.0.0.1 may not ClusterAction Cluster 'kafka-cluster'" in said
    assert "it sent STOP_REPLICA before it had authenticated" in said
    assert "the PLAIN authentication of user 'admin' failed" in said
    assert "admin-pw" not in said
    assert "guessed" not in said
    assert "can delete replicas" not in said


async def test_describing_an_agent_needs_its_rights_too(tmp_path: Path) -> None:
    async with running(agent(tmp_path, **SASL, **RIGHTS), FakeZooKeeper().open_session) as app:
        (endpoint,) = app.endpoints
        await ask(endpoint, as_user("admin"), addressed(app, become(is_new=True)))
        refused = await ask(endpoint, as_user("ann"), DescribeLogDirsRequest())
        assert refused == DescribeLogDirsResponse((), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        hidden = await ask(endpoint, as_user("ann"), MetadataRequest(None))
        assert isinstance(hidden, MetadataResponse)
        assert hidden.topics == ()


async def test_an_agent_takes_scram_users_from_zookeeper(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    async with running(agent(tmp_path, **SASL, **RIGHTS), zookeeper.open_session) as app:
        (endpoint,) = app.endpoints
        credential = ScramCredential.of(ScramMechanism.SHA_512, "pw", b"salt")
        async with zookeeper.open_session(ignore_watch) as session:
            znode = encode_config({"SCRAM-SHA-512": credential.text()})
            await session.multi([Create(config_user("admin"), znode)])
        login = SaslLogin.scram(ScramMechanism.SHA_512, "admin", lambda: "pw")
        answer = await ask(endpoint, ChannelSecurity(login=login), addressed(app, become(is_new=True)))
        assert answer.error == ErrorCode.NONE  # type: ignore[union-attr]


def tls_security(tmp_path: Path, ca: Authority, leaf: Leaf | None) -> ChannelSecurity:
    context = ssl.create_default_context(cafile=str(ca.pem_file(tmp_path / "trusted.pem")))
    if leaf is not None:
        context.load_cert_chain(leaf.pem_file(tmp_path / "client.pem"))
    return ChannelSecurity(lambda: context)


async def test_an_agent_with_tls_knows_controllers_by_their_certificates(tmp_path: Path) -> None:
    ca, stores = Authority(), tmp_path / "stores"
    stores.mkdir()
    leaf, key_store = ca.issue("agent"), stores / "agent.pem"
    tls = {
        "listeners": "SSL://127.0.0.1:0",
        "security_inter_broker_protocol": "SSL",
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(leaf.pem_file(key_store)),
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(ca.pem_file(stores / "ca.pem")),
        "ssl_client_auth": "required",
        "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
        "super_users": "User:CN=controller",
    }
    async with running(agent(tmp_path / "logs", **tls), FakeZooKeeper().open_session) as app:
        (endpoint,) = app.endpoints
        order = addressed(app, become(is_new=True))
        mine = tls_security(stores, ca, ca.client("controller"))
        assert (await ask(endpoint, mine, order)).error == ErrorCode.NONE  # type: ignore[union-attr]
        other = await ask(endpoint, tls_security(stores, ca, ca.client("ann")), addressed(app, stop(delete=True)))
        assert other.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # type: ignore[union-attr]
        foreign = Authority("Foreign CA")
        for wrong in (None, foreign.client("controller"), ca.expired()):
            with pytest.raises(ConnectionFailed):
                await ask(endpoint, tls_security(stores, ca, wrong), order)
        found = await scraped(app)
        assert refusals(found) == {"tls": 3}
        with pytest.raises(TlsFailed):
            await ask(endpoint, tls_security(stores, foreign, ca.client("controller")), order)
        assert TopicPartition("t", 0) in app.loop.state.replicas
        renewed = ca.issue("agent", ends=60 * DAY)
        renewed.pem_file(key_store)
        for listener, use in (("SSL", "listener"), ("SSL", "brokers")):
            series = f'lethe_certificate_expiry_timestamp_seconds{{listener="{listener}",use="{use}"}}'
            assert found[series] == leaf.ends_ms() / 1000
            assert (await scraped(app))[series] == renewed.ends_ms() / 1000


async def test_an_agent_without_authorizer_says_who_can_delete_replicas(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both = SASL | {
        "listeners": "INTERNAL://127.0.0.1:0,OPEN://127.0.0.1:0",
        "listener_security_protocol_map": "INTERNAL:SASL_PLAINTEXT,OPEN:PLAINTEXT",
    }
    addresses = []
    for name, listeners in (("open", {}), ("sasl", SASL), ("both", both)):
        async with running(agent(tmp_path / name, **listeners), FakeZooKeeper().open_session) as app:
            addresses.append([endpoint.text for endpoint in app.endpoints])
    said = [each.partition(f" can delete replicas in {tmp_path}/") for each in warnings(caplog)]
    ((plain,), (login,), (inside, outside)) = addresses
    assert [who for who, can, _ in said if can] == [
        f"any client that reaches {plain}",
        f"any client that may log in to {login}",
        f"any client that reaches {outside} or may log in to {inside}",
    ]
    assert [what.endswith("let listeners ask for a login or a certificate") for _, can, what in said if can] == [
        True,
        False,
        True,
    ]


# --- controllers --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def controller(tmp_path: Path, zookeeper: FakeZooKeeper, **more: str) -> AsyncIterator[ControllerApp]:
    environ = {"KAFKA_BROKER_ID": "1001", "KAFKA_ZOOKEEPER_CONNECT": "127.0.0.1:1"}
    loaded = load_controller_config(None, environ | {f"KAFKA_{name.upper()}": value for name, value in more.items()})
    config = replace(
        controller_config(listeners=loaded.listeners), inbound=loaded.inbound, inter_broker_listener="INTERNAL"
    )

    async def connect(endpoint: Endpoint) -> KafkaConnection:
        raise ConnectionFailed("there are no brokers")

    app = ControllerApp(config, zookeeper.open_session, connect)
    task = asyncio.create_task(app.run())
    try:
        async with asyncio.timeout(LIMIT_S):
            await app.started.wait()
        yield app
    finally:
        app.stop("the test is over")
        app.stop("at once")
        await asyncio.wait([task], timeout=LIMIT_S)


SHUTDOWN = ControlledShutdownRequest(BrokerId(1), BrokerEpoch(7))


async def test_brokers_in_front_of_a_controller_authenticate_and_need_their_right(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with controller(tmp_path, FakeZooKeeper(), **SASL, **RIGHTS) as app:
        (endpoint,) = app.endpoints
        answer = await ask(endpoint, as_user("admin"), SHUTDOWN)
        assert isinstance(answer, ControlledShutdownResponse)
        assert answer.error != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        refused = await ask(endpoint, as_user("ann"), SHUTDOWN)
        assert refused == ControlledShutdownResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        with pytest.raises(AuthenticationRefused):
            await ask(endpoint, as_user("admin", "guessed"), SHUTDOWN)
        found = await scraped(app)
        assert refusals(found) == {"login": 1}
        assert found['lethe_authorization_refused_total{operation="ClusterAction",resource_type="Cluster"}'] == 1
    assert any("refused CONTROLLED_SHUTDOWN: User:ann" in said for said in warnings(caplog))


async def test_a_client_of_a_broker_is_not_forwarded_with_another_identity(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with controller(tmp_path, FakeZooKeeper(), **SASL) as app:
        (endpoint,) = app.endpoints
        async with await KafkaConnection.open(
            endpoint.host, endpoint.port, "test", security=as_user("ann")
        ) as connection:
            versions = {row.api_key for row in (await connection.api_versions()).apis}
            assert {ApiKey.CONTROLLED_SHUTDOWN, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= versions
            with pytest.raises(ConnectionFailed):
                await connection.request(MetadataRequest(None), 12)
    (said,) = [each for each in warnings(caplog) if "sent a request for a broker" in each]
    assert "nobody can act as User:ann at a broker but itself" in said
