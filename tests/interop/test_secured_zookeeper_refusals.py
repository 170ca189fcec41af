"""A ZooKeeper with TLS, SASL and access lists that refuses Lethe: a sentence, and nothing is changed; then a rescue.

Commands and controllers are wrong in one thing each. Meanwhile a session that does nothing is in control, so that no
broker competes and every change would be seen. In the end Lethe logs in as the brokers do, finishes the deletion, and
control goes back to Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from lethe.adapters.config_environment import variable_name
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.daemons import ControllerDaemon
from lethe.cluster.local import LocalCluster
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from lethe.cluster.zookeeper_security import ServerSecurity
from tests.fakes.certificates import Authority, Leaf
from tests.fakes.command_line import Lethe, Ran
from tests.interop.conditions import create, delete, gone_everywhere, is_whole, kafka_leads, plan, until
from tests.interop.stuck import take
from tests.interop.test_secured_zookeeper import TAKING, Door, cluster_of, secured_by_kafka, tls_properties
from tests.interop.test_secured_zookeeper import by_certificate as by_accepted_certificate
from tests.interop.unchanged import is_stored, look

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(900),
]
ROWS: Final = [(1, 2), (2, 1)]
NOT_OURS: Final = r"NO_AUTH"
SAID_WITHIN_S: Final = 60.0


@dataclass(frozen=True)
class Refused:
    """A client that is wrong in one thing, and what it is told."""

    what: str
    properties: Mapping[str, str]
    sentence: str
    can_read: bool = False


@dataclass(frozen=True)
class Guarded:
    """The right way in, and the wrong ones."""

    door: Door
    refused: tuple[Refused, ...]


def by_sasl(directory: Path) -> Guarded:
    users = {"kafka": "hunter2", "guest": "guest-secret-1"}
    zookeeper = EmbeddedZooKeeper(ZooKeeperSettings(security=ServerSecurity(users=users)))
    zookeeper.start()
    file = directory / "client.jaas"
    login = "org.apache.zookeeper.server.auth.DigestLoginModule required"
    file.write_text(f'Client {{ {login} username="kafka" password="hunter2"; }};\n')
    flags = (f"-Djava.security.auth.login.config={file}",)
    user, password = "lethe.zookeeper.sasl.username", "lethe.zookeeper.sasl.password"
    right = {user: "kafka", password: "hunter2"}
    door = Door(zookeeper, f"{zookeeper.connect_string}/kafka", {}, right, flags, ("sasl", "kafka"))
    return Guarded(
        door,
        (
            Refused(
                "wrong password", {user: "kafka", password: "wrong-secret-1"}, r"does not accept user name and password"
            ),
            Refused("another user", {user: "guest", password: "guest-secret-1"}, NOT_OURS, can_read=True),
            Refused("nobody", {"zookeeper.set.acl": "false"}, NOT_OURS, can_read=True),
        ),
    )


def by_certificate(directory: Path) -> Guarded:
    authority, foreign = Authority(), Authority("another authority")
    trust = authority.pem_file(directory / "trust.pem")
    foreign_trust = foreign.pem_file(directory / "foreign-trust.pem")

    def client(name: str, leaf: Leaf, trusted: Path = trust) -> dict[str, str]:
        return tls_properties(leaf.pem_file(directory / f"{name}.pem"), trusted)

    return Guarded(
        by_accepted_certificate(directory, authority),
        (
            Refused(
                "foreign client", client("foreign", foreign.issue("kafka")), r"certificate.*ZooKeeper's truststore"
            ),
            Refused(
                "expired client",
                client("expired", authority.expired("kafka")),
                r"zookeeper\.ssl\.keystore\.location.*expired",
            ),
            Refused(
                "foreign server",
                client("doubting", authority.issue("kafka"), foreign_trust),
                r"zookeeper\.ssl\.truststore\.location",
            ),
            Refused("another name", client("guest", authority.issue("guest")), NOT_OURS, can_read=True),
        ),
    )


@pytest.mark.parametrize("guard", [by_sasl, by_certificate])
async def test_what_zookeeper_refuses_changes_nothing(
    guard: Callable[[Path], Guarded], version: str, tmp_path: Path
) -> None:
    guarded = guard(tmp_path)
    door = guarded.door
    try:
        await secured_by_kafka(door, version, tmp_path)
        async with cluster_of(door, version, tmp_path, controllers=0) as cluster, cluster.session() as session:
            await kafka_leads(session)
            await create(session, *(plan(name, *ROWS, version=version) for name in ("kept", "stuck")))
            for name in ("kept", "stuck"):
                await until(is_whole(session, name, ROWS), f"{name} is whole")
            await until(is_stored(cluster, ("kept", "stuck"), ROWS), "every replica has its directory")
            async with cluster.session() as idle:
                await take(idle)
                await delete(session, "stuck")
                await all_are_refused(cluster, session, guarded)
                ran = await command(door, {**door.properties, **door.lethe_properties}, "rescue", "--yes", "stuck")
                assert ran.code == 0, ran
            await kafka_leads(session)
            await gone_everywhere(cluster, session, "stuck")
            await until(is_whole(session, "kept", ROWS), "kept is whole")
    finally:
        door.zookeeper.close()


async def command(door: Door, properties: Mapping[str, str], *arguments: str) -> Ran:
    """Run it with these properties in its environment."""
    environment = {variable_name(name): value for name, value in properties.items()}
    return await Lethe(door.connect, limit_s=240)(*arguments, environment=environment)


async def all_are_refused(
    cluster: LocalCluster,
    session: ZooKeeperSession,
    guarded: Guarded,
    commands: Sequence[Sequence[str]] = (("survey",), ("explain", "stuck"), ("rescue", "--yes", "stuck")),
    daemon_properties: Mapping[str, str] | None = None,
) -> None:
    """Brokers accept the commands, and controllers with these properties."""
    before = await look(cluster, session, "kept", "stuck")
    for client in guarded.refused:
        for arguments in commands:
            ran = await command(guarded.door, client.properties, *arguments)
            assert ran.code != 70, (client.what, ran)
            if not client.can_read or arguments[0] == "rescue":
                assert ran.code != 0, (client.what, ran)
                assert re.search(client.sentence, ran.err + ran.out), (client.what, ran)
            assert not any("secret-1" in text for text in ran[1:]), (client.what, ran)
            assert await look(cluster, session, "kept", "stuck") == before, (client.what, ran)
        await a_controller_is_refused(cluster, guarded.door, client, daemon_properties or {})
        assert await look(cluster, session, "kept", "stuck") == before, client.what


async def a_controller_is_refused(
    cluster: LocalCluster, door: Door, client: Refused, daemon_properties: Mapping[str, str]
) -> None:
    set_acl = "false" if client.what == "nobody" else "true"
    controller = ControllerDaemon(
        2001,
        cluster.work_dir / f"refused-{client.what.replace(' ', '-')}",
        {
            "zookeeper.connect": door.connect,
            "zookeeper.set.acl": set_acl,
            "zookeeper.connection.timeout.ms": "10000",
            "inter.broker.protocol.version": cluster.kafka_brokers[0].kafka.version.inter_broker_protocol,
            **daemon_properties,
            **client.properties,
            **TAKING,
        },
    )
    controller.launch()
    try:

        async def is_said() -> bool:
            return re.search(client.sentence, controller.process.output()) is not None

        await controller.wait_until(is_said, f"saying {client.sentence}", SAID_WITHIN_S, must_run=False)
    finally:
        await controller.stop()
