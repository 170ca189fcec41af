"""A cluster in which nothing is open: SASL_SSL and ACLs at the brokers, TLS or SASL and access lists at ZooKeeper.

Brokers ask Lethe's controller, which is listed, and log in to it. Their passwords are in znodes that only the owner may
read, and rights in znodes that Kafka's tools write through brokers while Lethe's controller is in control. Whoever is
refused is right in one of both places and wrong in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from aiokafka.errors import KafkaError

from lethe.adapters.config_environment import variable_name
from lethe.adapters.kafka.config_reach import load_client_reach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.daemons import ControllerDaemon
from lethe.cluster.kafka_fetch import KafkaVersion
from lethe.cluster.local import LocalCluster
from tests.interop.clients import bootstrap, produce, read_all
from tests.interop.conditions import (
    complaints,
    controller,
    create,
    delete,
    is_known_to_all,
    is_whole,
    kafka_leads,
    plan,
    stops_in_good_order,
    until,
)
from tests.interop.java_clients import run
from tests.interop.secure_listeners import BROKERS, GUEST, LETHE, ScramOverTls, Trouble, password_of
from tests.interop.stuck import take
from tests.interop.test_secure_controller import administering
from tests.interop.test_secure_lethe import (
    Commands,
    commands_are_refused,
    controllers_are_refused,
    gone,
    no_secret_in,
    written_by,
)
from tests.interop.test_secured_zookeeper import cluster_of, secured_by_kafka, strangers_change_nothing, whose_it_is
from tests.interop.test_secured_zookeeper_refusals import Guarded, all_are_refused, by_certificate, by_sasl
from tests.interop.unchanged import look

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(900),
]
ROWS: Final = [(1, 2), (2, 1)]
TOPICS: Final = ("ours", "held", "theirs", "kept", "stuck")
AUTHORIZATION_FAILED: Final = 29
NEW_USER: Final = "late"
USERS_THROUGH_BROKERS: Final = KafkaVersion.parse("2.7.0")
"""Tools of earlier versions write users into ZooKeeper themselves (KIP-554)."""
PASSWORDS: Final = ("hunter2", "guest-secret-1", "wrong-secret-1", password_of(NEW_USER))
"""Those of ZooKeeper's users, right and wrong, and of the user that is created."""


class Scene:
    """One cluster, and its clients."""

    def __init__(self, guarded: Guarded, listeners: ScramOverTls, cluster: LocalCluster, directory: Path) -> None:
        self.guarded = guarded
        self.listeners = listeners
        self.cluster = cluster
        self.directory = directory
        self.zookeeper_properties: Mapping[str, str] = {
            "zookeeper.set.acl": "true",
            **guarded.door.properties,
            **guarded.door.lethe_properties,
        }
        environment = {variable_name(name): value for name, value in self.zookeeper_properties.items()}
        self.lethe = Commands(cluster, listeners, environment)

    @property
    def controller(self) -> ControllerDaemon:
        (found,) = self.cluster.controllers
        return found

    async def tool(self, name: str, *arguments: str) -> str:
        """Run one of Kafka's tools as the brokers' user."""
        config = str(self.listeners.client_file(BROKERS))
        access = ("--bootstrap-server", ",".join(bootstrap(self.cluster)), "--command-config", config)
        kafka = self.cluster.kafka_brokers[0].kafka
        return await run(kafka, name, (*access, *arguments), self.directory / "tools")


@pytest.mark.parametrize(
    "guard, troubles",
    [
        pytest.param(by_sasl, (None, Trouble.WRONG_PASSWORD), id="sasl"),
        pytest.param(by_certificate, (Trouble.FOREIGN_BROKERS, Trouble.EXPIRED_BROKERS), id="certificate"),
    ],
)
async def test_nothing_is_open_and_topics_live_and_die_under_lethe_and_kafka(
    guard: Callable[[Path], Guarded], troubles: Sequence[Trouble | None], version: str, tmp_path: Path
) -> None:
    """Commands meet those troubles at brokers that ZooKeeper's could be taken for; controllers meet them all."""
    guarded = guard(tmp_path)
    try:
        directory = tmp_path / "listeners"
        directory.mkdir()
        listeners = ScramOverTls(directory)
        await secured_by_kafka(guarded.door, version, tmp_path, listeners.prepare)
        made = cluster_of(guarded.door, version, tmp_path, controllers=1, listeners=listeners)
        async with made as cluster, cluster.session() as session:
            scene = Scene(guarded, listeners, cluster, tmp_path)
            await brokers_and_lethe_write_by_turns(scene, session, version)
            if KafkaVersion.parse(version) >= USERS_THROUGH_BROKERS:
                await a_user_is_created(scene)
            await topics_are_deleted(scene, session)
            await kafka_takes_over(scene, session)
            await refusals_change_nothing_and_a_rescue_follows(scene, session, troubles)
            await lethe_takes_over(scene, session)
            texts = [*scene.lethe.printed, *written_by(scene.controller)]
            no_secret_in(listeners, *texts)
            assert not [secret for secret in PASSWORDS if any(secret in text for text in texts)]
    finally:
        guarded.door.zookeeper.close()


async def brokers_and_lethe_write_by_turns(scene: Scene, session: ZooKeeperSession, version: str) -> None:
    """A broker leaves and returns. ISRs are then written by leaders (2.5.1), or by Lethe at their request (3.9.1)."""
    cluster, access = scene.cluster, scene.listeners.aiokafka(BROKERS)
    await create(session, *(plan(name, *ROWS, version=version) for name in TOPICS))
    reach = load_client_reach(scene.listeners.client_file(LETHE))
    await until(is_known_to_all(session, 2, *TOPICS, reach=reach), "both brokers know the topics")
    for name in TOPICS:
        await until(is_whole(session, name, ROWS), f"{name} is whole")
    stored = await produce(bootstrap(cluster), "ours", range(100), idempotent=True, **access)
    await stops_in_good_order(cluster, 2)
    assert sorted(await read_all(bootstrap(cluster), "ours", 2, **access)) == sorted(stored)
    assert len(stored) == 100
    await cluster.kafka_broker(2).start(120)
    for name in TOPICS:
        await until(is_whole(session, name, ROWS), f"{name} is whole again")
    readable = {"/config/users/lethe": False, "/kafka-acl/Cluster/kafka-cluster": True}
    await whose_it_is(scene.guarded.door, scene.directory, readable)
    await strangers_change_nothing(scene.guarded.door)


async def a_user_is_created(scene: Scene) -> None:
    """Kafka's tool asks Lethe's controller, whose znode brokers can read and nobody else."""
    password = f"{ScramOverTls.mechanism}=[password={password_of(NEW_USER)}]"
    user = ("--entity-type", "users", "--entity-name", NEW_USER)
    await scene.tool("ConfigCommand", "--alter", *user, "--add-config", password)
    await whose_it_is(scene.guarded.door, scene.directory, {f"/config/users/{NEW_USER}": False})

    async def is_let_in() -> bool:
        try:
            async with administering(scene.cluster, scene.listeners, NEW_USER):
                return True
        except KafkaError:
            return False

    await until(is_let_in, "brokers let the new user in")


async def topics_are_deleted(scene: Scene, session: ZooKeeperSession) -> None:
    """One after a pause, one by a user whose right to it Kafka's tool has written meanwhile, through a broker."""
    lethe = scene.lethe
    surveyed = await lethe("survey")
    assert surveyed.code == 0, surveyed
    assert (await lethe.alone("topics", "pause-deletions", "--reason", "seen to wait")).code == 0
    await delete(session, "held")
    explained = await lethe("explain", "held")
    assert explained.code == 6, explained
    assert "paused" in explained.out
    assert (await lethe.alone("topics", "resume-deletions")).code == 0

    async with administering(scene.cluster, scene.listeners, GUEST) as guest:

        async def answered(code: int) -> bool:
            return [row[:2] for row in (await guest.delete_topics(["ours"])).topic_error_codes] == [("ours", code)]

        assert await answered(AUTHORIZATION_FAILED)
        grant = ("--allow-principal", f"User:{GUEST}", "--operation", "Delete", "--topic", "ours")
        await scene.tool("AclCommand", "--add", *grant)
        await whose_it_is(scene.guarded.door, scene.directory, {"/kafka-acl/Topic/ours": True})
        await until(lambda: answered(0), "Lethe follows the ACL that a broker has written, and deletes the topic")
    await gone(scene.cluster, session, lethe, "ours", "held")
    assert complaints(scene.cluster) == []
    refused = [line for line in scene.controller.process.output().splitlines() if ": refused " in line]
    assert all(f"User:{GUEST} from" in line for line in refused), refused


async def kafka_takes_over(scene: Scene, session: ZooKeeperSession) -> None:
    """Kafka's controller writes what Lethe's has created."""
    await scene.controller.stop()
    await kafka_leads(session)
    await scene.tool("TopicCommand", "--create", "--topic", "made-by-kafka", "--replica-assignment", "1:2,2:1")
    await scene.tool("TopicCommand", "--delete", "--topic", "theirs")
    await until(is_whole(session, "made-by-kafka", ROWS), "Kafka's topic is whole")
    await gone(scene.cluster, session, scene.lethe, "theirs")
    assert complaints(scene.cluster) == []


async def refusals_change_nothing_and_a_rescue_follows(
    scene: Scene, session: ZooKeeperSession, troubles: Sequence[Trouble | None]
) -> None:
    """A session that does nothing is in control, so every change would be seen."""
    cluster, listeners, lethe = scene.cluster, scene.listeners, scene.lethe
    async with cluster.session() as idle:
        await take(idle)
        await delete(session, "stuck")
        before = await look(cluster, session, "kept", "stuck")
        for trouble in troubles:
            await commands_are_refused(lethe, GUEST if trouble is None else LETHE, trouble)
            assert await look(cluster, session, "kept", "stuck") == before, trouble
        await controllers_are_refused(cluster, listeners, scene.zookeeper_properties)
        assert await look(cluster, session, "kept", "stuck") == before
        rescue = ("rescue", "--yes", "stuck", "--command-config", str(listeners.client_file(LETHE)))
        await all_are_refused(cluster, session, scene.guarded, (rescue,), listeners.daemon_properties(LETHE))

        ran = await lethe("rescue", "--yes", "stuck")
        assert ran.code == 0, ran
    await kafka_leads(session)
    await gone(cluster, session, lethe, "stuck")
    await until(is_whole(session, "kept", ROWS), "kept is whole")


async def lethe_takes_over(scene: Scene, session: ZooKeeperSession) -> None:
    """Lethe's controller writes what Kafka's has created."""
    await scene.controller.start()
    await scene.cluster.active_controller()
    await delete(session, "made-by-kafka")
    await gone(scene.cluster, session, scene.lethe, "made-by-kafka")
    await until(is_whole(session, "kept", ROWS), "kept is whole")
    holder = await controller(session)
    assert holder is not None
    assert holder.broker_id == scene.controller.id
