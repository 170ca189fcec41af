"""Lethe among brokers with TLS, SASL and rights: as a user of them, and as one that they refuse.

With its rights it creates and deletes topics, surveys, explains, rescues, and hands control over to Kafka and back.
Without them each command and each controller says what is wrong, changes nothing and takes no control.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from lethe.adapters.kafka.config_reach import load_client_reach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.cluster.daemons import ControllerDaemon
from lethe.cluster.local import LocalCluster
from tests.fakes.command_line import Lethe, Ran
from tests.interop.clients import bootstrap, produce, read_all
from tests.interop.conditions import (
    complaints,
    create,
    delete,
    has_no_directories,
    is_known_to_all,
    is_whole,
    kafka_leads,
    plan,
    until,
)
from tests.interop.conftest import MakeSecureCluster
from tests.interop.java_clients import run
from tests.interop.secure_listeners import BROKERS, GUEST, KINDS, LETHE, SecureListeners, Trouble
from tests.interop.stuck import take
from tests.interop.unchanged import is_stored, look

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(900),
]
ROWS = [(1, 2), (2, 1)]
TAKING = {"controller.takeover": "always", "controller.takeover.interval.ms": "1000"}
SECURITY = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
REFUSED_LIMIT_S = 60.0


class Commands:
    """Lethe's commands as one user, and everything that they have printed."""

    def __init__(
        self, cluster: LocalCluster, listeners: SecureListeners, environment: Mapping[str, str] | None = None
    ) -> None:
        """The environment has what ZooKeeper asks for."""
        self._lethe = Lethe(cluster.zookeeper_connect, limit_s=240)
        self._listeners = listeners
        self._environment = environment
        self.printed: list[str] = []

    async def __call__(self, *arguments: str, user: str = LETHE, trouble: Trouble | None = None) -> Ran:
        """Run a command that asks brokers."""
        return await self.alone(*arguments, "--command-config", str(self._listeners.client_file(user, trouble)))

    async def alone(self, *arguments: str) -> Ran:
        """Run a command that asks no broker."""
        ran = await self._lethe(*arguments, environment=self._environment)
        self.printed += [ran.out, ran.err]
        return ran


@SECURITY
async def test_topics_live_and_control_goes_to_kafka_and_back(
    secure_cluster: MakeSecureCluster, kind: type[SecureListeners], version: str, tmp_path: Path
) -> None:
    scene = secure_cluster(kind, version, 2, controllers=1, controller_properties=TAKING)
    async with scene as (cluster, listeners), cluster.session() as session:
        lethe = Commands(cluster, listeners)
        await create(session, *(plan(name, *ROWS, version=version) for name in ("orders", "held", "theirs")))
        for name in ("orders", "held", "theirs"):
            await until(is_whole(session, name, ROWS), f"{name} is whole")
        access = listeners.aiokafka(BROKERS)
        stored = await produce(bootstrap(cluster), "orders", range(100), **access)
        assert sorted(await read_all(bootstrap(cluster), "orders", 2, **access)) == sorted(stored)
        ran = await lethe("survey")
        assert ran.code == 0, ran

        assert (await lethe.alone("topics", "pause-deletions", "--reason", "seen to wait")).code == 0
        await delete(session, "orders", "held")
        explained = await lethe("explain", "held")
        assert explained.code == 6, explained
        assert "paused" in explained.out
        assert (await lethe.alone("topics", "resume-deletions")).code == 0
        await gone(cluster, session, lethe, "orders", "held")

        (controller,) = cluster.controllers
        await controller.stop()
        await kafka_leads(session)
        servers = ("--bootstrap-server", ",".join(bootstrap(cluster)))
        config = ("--command-config", str(listeners.client_file(BROKERS)))
        for arguments in (
            ("--create", "--topic", "made-by-kafka", "--replica-assignment", "1:2,2:1"),
            ("--delete", "--topic", "theirs"),
        ):
            await run(cluster.kafka_brokers[0].kafka, "TopicCommand", (*servers, *config, *arguments), tmp_path)
        await until(is_whole(session, "made-by-kafka", ROWS), "Kafka's topic is whole")
        await gone(cluster, session, lethe, "theirs")

        await controller.start()
        await cluster.active_controller()
        await delete(session, "made-by-kafka")
        await gone(cluster, session, lethe, "made-by-kafka")
        assert complaints(cluster) == []
        no_secret_in(listeners, *lethe.printed, *written_by(controller))


async def gone(cluster: LocalCluster, session: ZooKeeperSession, lethe: Commands, *topics: str) -> None:
    """Wait until nothing is left of these topics, and a survey says that nothing is left over."""

    async def is_unlisted() -> bool:
        listed = await topic_znodes.list_topics(session)
        return not set(topics) & {*listed.names, *listed.marked}

    await until(is_unlisted, f"znodes of {topics} are gone")
    await until(has_no_directories(cluster, *topics), f"the directories of {topics} are gone")
    ran = await lethe("survey")
    assert ran.code == 0, ran


def no_secret_in(listeners: SecureListeners, *texts: str) -> None:
    for secret in listeners.secrets():
        assert not any(secret in text for text in texts)


def written_by(*controllers: ControllerDaemon) -> Iterator[str]:
    """Everything that they have written, but for their configuration, which is given to them."""
    for controller in controllers:
        for file in controller.directory.rglob("*"):
            if file.is_file() and file != controller.config_file:
                yield file.read_text(errors="replace")


# --- refusals -----------------------------------------------------------------------------------------------------


SENTENCES: Final[Mapping[Trouble | None, str]] = {
    Trouble.WRONG_PASSWORD: r"refuses user lethe with .*; check user name and password in sasl\.jaas\.config",
    Trouble.FOREIGN_BROKERS: r"not trusted here; add that authority's certificate to ssl\.truststore\.location",
    Trouble.FOREIGN_CLIENT: r"client certificate.*; set ssl\.keystore\.location to a certificate",
    Trouble.EXPIRED_CLIENT: r"its certificate CN=lethe expired on .*; put a new certificate into it",
    Trouble.EXPIRED_BROKERS: r"its certificate has expired; renew it there",
    None: r"ClusterAction on the cluster",
}
"""What is told about control that is not taken. None: nothing is wrong, but the user has no rights."""


@SECURITY
async def test_what_is_refused_changes_nothing_and_the_rescue_finishes_what_is_stuck(
    secure_cluster: MakeSecureCluster, kind: type[SecureListeners], version: str
) -> None:
    async with secure_cluster(kind, version, 2) as (cluster, listeners), cluster.session() as session:
        await kafka_leads(session)
        await create(session, *(plan(name, *ROWS, version=version) for name in ("kept", "stuck")))
        for name in ("kept", "stuck"):
            await until(is_whole(session, name, ROWS), f"{name} is whole")
        await until(is_stored(cluster, ("kept", "stuck"), ROWS), "every replica has its directory")
        reach = load_client_reach(listeners.client_file(LETHE))
        await until(is_known_to_all(session, 2, "kept", "stuck", reach=reach), "both brokers know the topics")
        lethe = Commands(cluster, listeners)
        async with cluster.session() as idle:
            # A controller that holds /controller and does nothing: its brokers do not compete, and no epoch moves.
            await take(idle)
            await delete(session, "stuck")
            before = await look(cluster, session, "kept", "stuck")
            for trouble in (None, *listeners.troubles):
                await commands_are_refused(lethe, GUEST if trouble is None else LETHE, trouble)
                assert await look(cluster, session, "kept", "stuck") == before, trouble
            await controllers_are_refused(cluster, listeners)
            assert await look(cluster, session, "kept", "stuck") == before

            explained = await lethe("explain", "stuck")
            assert explained.code in (0, 6), explained
            assert "cannot ask" not in explained.out
            ran = await lethe("rescue", "--yes", "stuck")
            assert ran.code == 0, ran
        await kafka_leads(session)
        await gone(cluster, session, lethe, "stuck")
        await until(is_whole(session, "kept", ROWS), "kept is whole")
        no_secret_in(listeners, *lethe.printed)


async def commands_are_refused(lethe: Commands, user: str, trouble: Trouble | None) -> None:
    """Each says why, and none takes what it does not see for what is not there."""
    sentence = SENTENCES[trouble]
    if trouble is Trouble.EXPIRED_BROKERS:
        ran = await lethe("rescue", "--yes", "stuck", "--listener", "EXPIRED")
        assert ran.code == 3, ran
        assert re.search(sentence, ran.err), ran
        return
    surveyed = await lethe("survey", "--json", user=user, trouble=trouble)
    explained = await lethe("explain", "stuck", user=user, trouble=trouble)
    ran = await lethe("rescue", "--yes", "stuck", user=user, trouble=trouble)
    if trouble is Trouble.EXPIRED_CLIENT:
        for each in (surveyed, explained, ran):
            assert each.code == 2, each
            assert re.search(sentence, each.out + each.err), each
        return
    assert [each["place"] for each in surveyed.data["findings"]] == ["zookeeper"], "nothing but the marker"
    assert {each["where"] for each in surveyed.data["problems"]} == {"broker 1", "broker 2"}
    for each in surveyed.data["problems"]:
        assert re.search("grant it Describe" if trouble is None else sentence, each["what"]), each
    assert explained.code == 6, explained
    assert "stuck may wait for broker 1, which lethe cannot ask" in explained.out, explained
    assert ran.code == 1, ran
    assert re.search(sentence, ran.err), ran


async def controllers_are_refused(
    cluster: LocalCluster, listeners: SecureListeners, zookeeper_properties: Mapping[str, str] | None = None
) -> None:
    """One for each trouble, all at once: each says why it does not take control from the one that does nothing.

    ZooKeeper lets them in.
    """
    troubles = (None, *listeners.troubles)
    controllers = {
        trouble: ControllerDaemon(
            2001 + number,
            cluster.work_dir / f"refused-{number}",
            {
                "zookeeper.connect": cluster.zookeeper_connect,
                "inter.broker.protocol.version": cluster.kafka_brokers[0].kafka.version.inter_broker_protocol,
                **(zookeeper_properties or {}),
                **listeners.daemon_properties(GUEST if trouble is None else LETHE, trouble),
                **TAKING,
            },
        )
        for number, trouble in enumerate(troubles)
    }
    try:
        for controller in controllers.values():
            controller.launch()
        for trouble, controller in controllers.items():
            await says_why(controller, SENTENCES[trouble])
    finally:
        for controller in controllers.values():
            await controller.stop()
    no_secret_in(listeners, *written_by(*controllers.values()))


async def says_why(controller: ControllerDaemon, sentence: str) -> None:
    async def is_said() -> bool:
        return re.search(sentence, controller.process.output()) is not None

    await controller.wait_until(is_said, f"saying {sentence}", REFUSED_LIMIT_S)
