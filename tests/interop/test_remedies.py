"""What the runbook advises, followed on real brokers: where something else does harm, or nothing, that is shown too."""

from __future__ import annotations

import shutil

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.local import LocalCluster
from lethe.protocol.findings import Reason
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Delete
from lethe.survey.leftovers import leftovers
from tests.fakes.command_line import Lethe
from tests.fakes.zookeeper_cluster import apply
from tests.interop.clients import bootstrap, produce, read_all
from tests.interop.conditions import (
    create,
    delete,
    gone_everywhere,
    is_known_to_all,
    is_whole,
    kafka_leads,
    plan,
    survey,
    until,
)
from tests.interop.conftest import MakeCluster
from tests.interop.stuck import nobody_in_control

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]

BOTH = [(1, 2)]
EARLY, LATE = range(100), range(100, 150)


# --- a topic that only caches know --------------------------------------------------------------------------------


async def test_a_ghost_survives_kafkas_controllers_and_neither_a_restart_nor_lethes(
    kafka_cluster: MakeCluster, version: str
) -> None:
    always = {"controller.takeover": "always", "controller.takeover.interval.ms": "1000"}
    async with (
        kafka_cluster(version, brokers=2, controller_properties=always) as cluster,
        cluster.session() as session,
    ):
        ours = await cluster.active_controller()
        await ours.stop()
        await kafka_leads(session)
        await create(session, plan("ghost", *BOTH, version=version), plan("kept", *BOTH, version=version))
        await until(is_known_to_all(session, 2, "ghost", "kept"), "both know the topics")
        async with nobody_in_control(cluster) as operator:
            await remove_by_hand(operator, "ghost")
        await kafka_leads(session)
        assert await cached(cluster, session) == [(1, "ghost"), (2, "ghost")]
        ran = await Lethe(cluster.zookeeper_connect)("controller-resign")
        assert ran.code == 0, ran
        await until(is_known_to_all(session, 2, "kept"), "both know the topic that there is")
        assert await cached(cluster, session) == [(1, "ghost"), (2, "ghost")]
        broker = cluster.kafka_broker(1)
        await broker.stop()
        await broker.start(120)
        await until(is_known_to_all(session, 2, "kept"), "both know the topic that there is")
        assert await cached(cluster, session) == [(2, "ghost")]
        await ours.start()
        await cluster.active_controller()

        async def is_cured() -> bool:
            return not await cached(cluster, session)

        await until(is_cured, "no cache shows the topic")


async def remove_by_hand(session: ZooKeeperSession, topic: str) -> None:
    """As the recipe has it that is copied from page to page."""
    partition = paths.partition_state(topic, 0)
    above = partition.rpartition("/")[0]
    await apply(
        session,
        *(Delete(path) for path in (partition, above, above.rpartition("/")[0], paths.topic(topic))),
        Delete(paths.config_topic(topic)),
    )


async def cached(cluster: LocalCluster, session: ZooKeeperSession) -> list[tuple[int | None, str | None]]:
    """Brokers that tell clients of a topic that is not there."""
    found = leftovers(await survey(cluster, session))
    return sorted((each.broker, each.topic) for each in found if each.reason is Reason.CACHED_WITHOUT_TOPIC)


# --- an empty broker ----------------------------------------------------------------------------------------------


async def test_an_empty_broker_after_its_last_copies_were_given_up(kafka_cluster: MakeCluster, version: str) -> None:
    """Broker 2 alone was in sync, and is lost with its disks; broker 1 has most of the records. The controller is
    listed: a leader has to find it to have its ISR grow."""
    async with kafka_cluster(version, brokers=2, listed=True) as cluster, cluster.session() as session:
        await cluster.active_controller()
        lethe, (first, lost) = Lethe(cluster.zookeeper_connect), cluster.kafka_brokers
        await create(session, plan("living", *BOTH, version=version), plan("doomed", *BOTH, version=version))
        await until(is_whole(session, "living", BOTH), "living is whole")
        assert len(await produce(bootstrap(cluster), "living", EARLY)) == len(EARLY)
        await first.stop()
        await until(is_whole(session, "living", [(2,)]), "broker 2 alone is in sync")
        assert len(await produce(bootstrap(cluster), "living", LATE)) == len(LATE)
        await lost.kill()
        await lost.wait_forgotten()
        await first.start(120)
        await delete(session, "doomed")

        asked = await lethe("brokers", "describe", "2")
        assert asked.code == 1, asked
        assert "In sync on no other live broker: living-0" in asked.out
        assert "NO EMPTY BROKER may take the id 2" in asked.out
        explained = await lethe("explain", "doomed")
        assert "start broker 2 with its disks" in explained.out, explained

        elected = await lethe("partitions", "elect", "--unclean", "living:0", "--yes")
        assert elected.code == 0, elected
        assert "An empty broker may take the id 2" in (await lethe("brokers", "describe", "2")).out
        for log_dir in cluster.log_dirs[2]:
            shutil.rmtree(log_dir)
        await lost.start(120)
        await gone_everywhere(cluster, session, "doomed")
        await until(is_whole(session, "living", BOTH), "living is whole again")
        kept = await read_all(bootstrap(cluster), "living", 1)
        assert [each.number for each in kept] == [*EARLY], "what broker 1 had is there, what it had not is lost"
