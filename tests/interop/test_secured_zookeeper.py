"""A ZooKeeper with access lists, which Kafka's brokers, Kafka's tools and Lethe write in turn, as one user.

By SASL the user is `kafka`, in one JAAS file for brokers, tools and Lethe. By TLS it is the subject of the certificate,
and the ports of brokers and Lethe are ZooKeeper's secure one. The tree was begun without access lists, and secured by
Kafka's zookeeper-security-migration.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from lethe.adapters.config_zookeeper import ZOOKEEPER, ZooKeeperAccess, read_access
from lethe.adapters.properties import read_values, schema
from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from lethe.cluster.zookeeper_security import ServerSecurity, ServerTls
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Data, Delete, GetData, MultiFailed, ReadFailed, SetData, ZkError
from tests.fakes.certificates import Authority
from tests.fakes.zookeeper_acls import READ_BY_ALL, acl_of, owned_by
from tests.interop.clients import bootstrap
from tests.interop.conditions import (
    complaints,
    controller,
    create,
    delete,
    gone_everywhere,
    is_known_to_all,
    is_whole,
    kafka_leads,
    plan,
    until,
)
from tests.interop.conftest import START_LIMIT_S, fetched
from tests.interop.java_clients import run
from tests.interop.secure_listeners import LETHE, SecureListeners

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(400),
]
ROWS = [(1, 2), (2, 1)]
TAKING = {"controller.takeover": "always", "controller.takeover.interval.ms": "1000"}
JAAS = """\
Client {
    org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="hunter2";
};
"""


@dataclass(frozen=True)
class Door:
    """How brokers, tools and Lethe are let in."""

    zookeeper: EmbeddedZooKeeper
    connect: str
    properties: dict[str, str]
    """Of brokers and of Lethe's daemons; Kafka's names."""
    lethe_properties: dict[str, str]
    jvm_flags: tuple[str, ...]
    owner: tuple[str, str]

    def access(self, tmp_path: Path) -> ZooKeeperAccess:
        file = tmp_path / "access.properties"
        given = {"zookeeper.connect": self.connect, **self.properties, **self.lethe_properties}
        file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        values = read_values(file, {}, schema(ZOOKEEPER))
        access = read_access(values)
        values.finish()
        return access


def by_sasl(directory: Path) -> Door:
    zookeeper = EmbeddedZooKeeper(ZooKeeperSettings(security=ServerSecurity(users={"kafka": "hunter2"})))
    zookeeper.start()
    file = directory / "client.jaas"
    file.write_text(JAAS)
    name = "java.security.auth.login.config"
    flags = (f"-D{name}={file}",)
    return Door(zookeeper, f"{zookeeper.connect_string}/kafka", {}, {name: str(file)}, flags, ("sasl", "kafka"))


def by_certificate(directory: Path, authority: Authority | None = None) -> Door:
    authority = authority or Authority()
    trust = authority.pem_file(directory / "authority.pem")
    tls = ServerTls(authority.issue("zookeeper").pem_file(directory / "server.pem"), trust)
    # Kafka's client uses TLS 1.2 unless it is told otherwise, and ZooKeeper 3.9 offers 1.3 alone.
    both = {"ssl.enabledProtocols": "TLSv1.2,TLSv1.3"}
    zookeeper = EmbeddedZooKeeper(ZooKeeperSettings(security=ServerSecurity(tls, properties=both)))
    zookeeper.start()
    properties = tls_properties(authority.issue("kafka").pem_file(directory / "client.pem"), trust)
    connect = f"{zookeeper.secure_connect_string}/kafka"
    return Door(zookeeper, connect, properties, {}, (), ("x509", "CN=kafka"))


def tls_properties(keystore: Path, truststore: Path) -> dict[str, str]:
    """Properties of a client of ZooKeeper that shows a certificate; Kafka's names."""
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": str(keystore),
        "zookeeper.ssl.keystore.type": "PEM",
        "zookeeper.ssl.truststore.location": str(truststore),
        "zookeeper.ssl.truststore.type": "PEM",
    }


@pytest.fixture(params=[by_sasl, by_certificate])
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Door]:
    opened: Door = request.param(tmp_path)
    try:
        yield opened
    finally:
        opened.zookeeper.close()


async def secured_by_kafka(
    door: Door, version: str, directory: Path, prepare: Callable[[ZooKeeperSession], Awaitable[None]] | None = None
) -> None:
    """Make Kafka's roots without access lists, as a cluster has them, and have Kafka's own tool secure them.

    `prepare` writes what else the cluster has by then. The tool makes what is missing without data: 3.8 and later make
    /migration, which is no migration then.
    """
    plaintext = ZooKeeperConfig(parse_connect_string(f"{door.zookeeper.connect_string}/kafka"))
    async with open_session(plaintext, lambda _: None) as session:
        await ensure_roots(session)
        feature = b'{"version":2,"features":{},"status":1}'
        await session.multi([Create(paths.controller_epoch(), b"0"), Create("/feature", feature)])
        if prepare is not None:
            await prepare(session)
    arguments = ["--zookeeper.acl", "secure", "--zookeeper.connect", door.connect]
    if door.properties:
        file = directory / "zookeeper-tls.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in door.properties.items()))
        arguments += ["--zk-tls-config-file", str(file)]
    await run(fetched(version), "ZkSecurityMigrator", arguments, directory, door.jvm_flags)


def cluster_of(
    door: Door,
    version: str,
    directory: Path,
    *,
    controllers: int,
    listeners: SecureListeners | None = None,
) -> LocalCluster:
    """Two brokers behind the door. With `listeners` they and controllers have these, and controllers are listed."""
    secured = {"zookeeper.set.acl": "true", **door.properties}
    return LocalCluster(
        ClusterSettings(
            controllers=controllers,
            brokers=0,
            kafka=fetched(version),
            kafka_brokers=2,
            log_dirs=1,
            listed=listeners is not None,
            work_dir=directory / "cluster",
            zookeeper_connect=door.connect,
            zookeeper_access=door.access(directory),
            controller_properties={
                **secured,
                **door.lethe_properties,
                **TAKING,
                **({} if listeners is None else listeners.member_properties(LETHE)),
            },
            kafka_properties={
                "auto.create.topics.enable": "false",
                **secured,
                **({} if listeners is None else listeners.broker_properties()),
            },
            kafka_jvm_flags=door.jvm_flags,
            start_limit_s=START_LIMIT_S,
        )
    )


async def test_kafka_and_lethe_write_what_the_other_has_created(door: Door, version: str, tmp_path: Path) -> None:
    await secured_by_kafka(door, version, tmp_path)
    async with cluster_of(door, version, tmp_path, controllers=1) as cluster, cluster.session() as session:
        await create(session, plan("ours", *ROWS, version=version), plan("stays", *ROWS, version=version))
        await until(is_known_to_all(session, 2, "ours", "stays"), "both brokers know the topics")
        await until(is_whole(session, "ours", ROWS), "ours is whole")
        await whose_it_is(door, tmp_path)
        await strangers_change_nothing(door)
        await delete(session, "ours")
        await gone_everywhere(cluster, session, "ours")

        (lethe,) = cluster.controllers
        await lethe.stop()
        await kafka_leads(session)
        await by_kafkas_tool(cluster, version, tmp_path, "--create", "--topic", "theirs", "--partitions", "2")
        await until(is_known_to_all(session, 2, "theirs"), "both brokers know Kafka's topic")
        await by_kafkas_tool(cluster, version, tmp_path, "--delete", "--topic", "stays")
        await gone_everywhere(cluster, session, "stays")

        await lethe.start()
        await cluster.active_controller()
        await delete(session, "theirs")
        await gone_everywhere(cluster, session, "theirs")
        holder = await controller(session)
        assert holder is not None
        assert holder.broker_id == lethe.id
        assert complaints(cluster) == []


async def by_kafkas_tool(cluster: LocalCluster, version: str, directory: Path, *arguments: str) -> None:
    """An AdminClient, whose requests Kafka's controller carries out in ZooKeeper."""
    replicas = ("--replication-factor", "2") if "--create" in arguments else ()
    servers = ",".join(bootstrap(cluster))
    await run(fetched(version), "TopicCommand", ("--bootstrap-server", servers, *arguments, *replicas), directory)


async def whose_it_is(door: Door, tmp_path: Path, readable: Mapping[str, bool] | None = None) -> None:
    """Znodes of Kafka, of its tool, of Lethe's controller and of its commands have the same access lists.

    `readable` tells of further paths whether the world may read them.
    """
    access = door.access(tmp_path)
    context = None if access.tls is None else access.tls.make_context()
    port = door.zookeeper.port if context is None else door.zookeeper.secure_port
    hidden = owned_by(door.owner)
    shown = hidden | READ_BY_ALL
    expected = {
        paths.controller(): shown,
        paths.controller_epoch(): shown,
        paths.topic("ours"): shown,
        paths.partition_state("ours", 0): shown,
        paths.config_topic("ours"): shown,
        paths.broker_id(1): shown,
        paths.broker_topics(): shown,
        "/config/users": hidden,
        "/config/brokers": hidden,
        "/lethe": shown,
        **{path: shown if is_shown else hidden for path, is_shown in (readable or {}).items()},
    }
    found = {path: await acl_of("127.0.0.1", port, f"/kafka{path}", access.sasl, context) for path in expected}
    assert found == expected


async def strangers_change_nothing(door: Door) -> None:
    plaintext = ZooKeeperConfig(parse_connect_string(f"{door.zookeeper.connect_string}/kafka"), create_chroot=False)
    async with open_session(plaintext, lambda _: None) as stranger:
        topic, users = await stranger.read([GetData(paths.topic("ours")), GetData("/config/users")])
        assert isinstance(topic, Data)
        assert users == ReadFailed(ZkError.NO_AUTH)
        for write in (
            Create(paths.delete_topic("ours"), None),
            SetData(paths.topic("ours"), b"{}", topic.stat.version),
            Delete(paths.controller()),
        ):
            assert await stranger.multi([write]) == MultiFailed(0, ZkError.NO_AUTH)
