"""Control goes back to Kafka's own controller for good, as docs/going-back.md says, and nothing of Lethe stays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.cluster.kafka import KafkaBroker
from lethe.cluster.local import LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Children, Data, GetChildren, GetData
from tests.fakes.command_line import Lethe
from tests.interop.clients import bootstrap, produce, read_all
from tests.interop.conditions import (
    answers,
    complaints,
    create,
    delete,
    directories,
    gone_everywhere,
    is_known_to_all,
    is_whole,
    kafka_leads,
    plan,
    states,
    stops_in_good_order,
    until,
)
from tests.interop.conftest import MakeCluster
from tests.interop.java_clients import run
from tests.interop.pages import Page
from tests.interop.stuck import epoch_of

pytestmark = [
    pytest.mark.interop,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
ROWS = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
GOING = [f"going-{number}" for number in range(10)]
STAYING = ["kept", "saved"]
INSISTING = {"controller.takeover": "always", "controller.takeover.interval.ms": "1000"}
POINTLESS = "under strategy PreferredReplicaPartitionLeaderElectionStrategy"
"""Kafka 2.5 tries to make a broker that has just come back the leader before it is in the ISR (KAFKA-9866)."""


@pytest.mark.parametrize("advertised", [pytest.param(True, id="resident"), pytest.param(False, id="guest")])
async def test_control_is_given_back_for_good(
    kafka_cluster: MakeCluster, version: str, advertised: bool, tmp_path: Path
) -> None:
    """While deletions wait for a dead broker, and others are paused."""
    async with (
        kafka_cluster(version, controllers=2, listed=advertised, controller_properties=INSISTING) as cluster,
        cluster.session() as session,
    ):
        active = await cluster.active_controller()
        dead = cluster.kafka_broker(3)
        await deletions_wait_for(dead, cluster, session, version)
        shell = Shell(cluster, tmp_path / "zookeeper-shell")
        await before(shell, session, version, advertised)

        epoch = await epoch_of(session)
        (standby,) = [each for each in cluster.controllers if each is not active]
        assert await standby.stop() == 0
        assert await active.stop() == 0
        leader = await kafka_leads(session)
        assert await epoch_of(session) == epoch + 1
        assert await brokers_listed(session) == [1, 2]

        await dead.start(120)
        # Kafka's controller knows no pause: what was held is gone too, what was no longer marked is not.
        await gone_everywhere(cluster, session, *GOING, "held")
        for name in STAYING:
            await until(is_whole(session, name, ROWS), f"{name} is whole")
        told = await answers(session)
        assert [(each.broker, each.controller) for each in told] == [(number, leader) for number in (1, 2, 3)]

        await shell("deleteall /lethe")
        assert await traces(session) == []
        await a_topic_comes_and_goes(cluster, session, tmp_path / "topics")
        leaving = next(broker for broker in cluster.kafka_brokers if broker.id != leader)
        await stops_in_good_order(cluster, leaving.id)
        await leaving.start(120)
        for name in STAYING:
            await until(is_whole(session, name, ROWS), f"{name} is whole after the shutdown")
        assert await kafka_leads(session) == leader
        assert await traces(session) == []
        assert [each for each in complaints(cluster) if POINTLESS not in each] == []


class Shell:
    """Kafka's `zookeeper-shell`, one command at a time, each of which the page must have."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self._cluster = cluster
        self.connect = cluster.zookeeper_connect
        self._directory = directory
        self._page = Page("going-back.md")

    async def __call__(self, command: str) -> str:
        self._page.demand(f"zookeeper-shell.sh zk1:2181 {command}")
        arguments = ("-server", self.connect, *command.split())
        kafka = self._cluster.kafka_brokers[0].kafka
        return await run(kafka, "ZooKeeperMainWithTlsSupportForKafka", arguments, self._directory)


async def deletions_wait_for(dead: KafkaBroker, cluster: LocalCluster, session: ZooKeeperSession, version: str) -> None:
    """It dies; the others have deleted their part of ten topics. Two more are marked during a pause."""
    names = [*GOING, *STAYING, "held"]
    await create(session, *(plan(name, *ROWS, version=version) for name in names))
    await until(is_known_to_all(session, 3, *names), "all brokers know the topics")
    for name in names:
        await until(is_whole(session, name, ROWS), f"{name} is whole")
    await dead.kill()
    await dead.wait_forgotten()
    await delete(session, *GOING)

    async def the_others_have_none() -> bool:
        found = [each for name in GOING for each in directories(cluster, name)]
        return {each.split("/")[0] for each in found} == {str(dead.id)}

    await until(the_others_have_none, "only the dead broker has directories")
    lethe = Lethe(cluster.zookeeper_connect)
    assert (await lethe("topics", "pause-deletions", "--reason", "going back")).code == 0
    await delete(session, "held", "saved")


async def before(shell: Shell, session: ZooKeeperSession, version: str, advertised: bool) -> None:
    """What the page does while Lethe is in control: save a topic, and give a replica back that is on a controller."""
    assert "saved" in await shell("ls /admin/delete_topics")
    undeleted = await Lethe(shell.connect)("topics", "undelete", "saved")
    assert undeleted.code == 0, undeleted
    assert set((await topic_znodes.list_topics(session)).marked) == {*GOING, "held"}
    if not advertised:
        return
    (number, *_) = await controllers_listed(session)
    assert str(number) in await shell("ls /lethe/controllers")
    await create(session, plan("wide", (1, 2, number), version=version))
    await until(is_whole(session, "wide", [(1, 2)]), "wide is served by the brokers that there are")
    lethe = Lethe(shell.connect)
    described = await lethe("topics", "describe", "--topic", "wide")
    assert str(number) in described.out, described
    ran = await lethe("partitions", "reassign", "wide:0=1,2", "--wait", "--yes")
    assert ran.code == 0, ran
    (described_topic,) = await topic_znodes.describe(session, ["wide"], ())
    assert [each.assignment.replicas for each in described_topic.partitions] == [(1, 2)]


async def a_topic_comes_and_goes(cluster: LocalCluster, session: ZooKeeperSession, directory: Path) -> None:
    """Created, expanded, used and deleted by Kafka's own tool, which asks Kafka's controller."""
    kafka = cluster.kafka_brokers[0].kafka

    async def topics(*arguments: str) -> str:
        options = ("--bootstrap-server", ",".join(bootstrap(cluster)), "--topic", "new")
        return await run(kafka, "TopicCommand", (*options, *arguments), directory)

    await topics("--create", "--partitions", "3", "--replication-factor", "3")
    await until(is_whole(session, "new", [(1, 2, 3)] * 3), "the new topic is whole")
    await topics("--alter", "--partitions", "5")
    await until(is_whole(session, "new", [(1, 2, 3)] * 5), "its new partitions are whole")
    stored = await produce(bootstrap(cluster), "new", range(500), idempotent=True)
    assert len(stored) == 500
    assert set(stored) <= set(await read_all(bootstrap(cluster), "new", 5))
    await topics("--delete")
    await gone_everywhere(cluster, session, "new")


async def children(session: ZooKeeperSession, path: str) -> Sequence[str]:
    (found,) = await session.read([GetChildren(path)])
    return sorted(found.names) if isinstance(found, Children) else []


async def brokers_listed(session: ZooKeeperSession) -> list[int]:
    return sorted(map(int, await children(session, paths.BROKER_IDS)))


async def controllers_listed(session: ZooKeeperSession) -> list[int]:
    return sorted(map(int, await children(session, paths.CONTROLLERS)))


async def traces(session: ZooKeeperSession) -> list[str]:
    """Every znode of the cluster that names Lethe, in its path or its data; and who is placed or in an ISR where no
    broker is."""
    found: list[str] = []
    level = [""]
    while level:
        read = await asyncio.gather(*(children(session, path or "/") for path in level))
        level = [f"{path}/{name}" for path, names in zip(level, read, strict=True) for name in names]
        for path, znode in zip(level, await session.read([GetData(path) for path in level]), strict=True):
            data = znode.data or b"" if isinstance(znode, Data) else b""
            if "lethe" in path.lower() or b"lethe" in data.lower():
                found.append(path)
    listed = await topic_znodes.list_topics(session)
    for topic in await topic_znodes.describe(session, listed.names, ()):
        for partition, state in zip(
            topic.partitions, await states(session, topic.name, len(topic.partitions)), strict=True
        ):
            named = {*partition.assignment.replicas, *(state.isr if state else ())}
            if not named <= {1, 2, 3}:
                found.append(f"{topic.name}: {sorted(named)}")
    return found
