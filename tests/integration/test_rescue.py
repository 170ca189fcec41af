"""`lethe rescue` on a cluster of agents that nobody controls: another session holds `/controller` and sleeps."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.vocabulary import BrokerId, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Children,
    Create,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Present,
    SetData,
)
from lethe.protocol.zookeeper.znodes import (
    ControllerZnode,
    decode_controller,
    decode_controller_epoch,
    encode_config,
    encode_controller,
    encode_controller_epoch,
    encode_reassignment,
)
from lethe.survey.brokers import ask_all, broker_asker
from tests.fakes.command_line import Lethe
from tests.fakes.haunting import haunt
from tests.fakes.zookeeper_cluster import apply

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(600)]

LIMIT_S = 120.0
SLEEPER = 7


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not await condition():
        assert time.monotonic() < deadline, f"not within {LIMIT_S:g} s: {what}"
        await asyncio.sleep(0.05)


async def there_is(session: ZooKeeperSession, path: str) -> bool:
    (found,) = await session.read([Exists(path)])
    return isinstance(found, Present)


async def controller_of(session: ZooKeeperSession) -> int:
    """Who holds `/controller`."""
    (found,) = await session.read([GetData(paths.CONTROLLER)])
    assert isinstance(found, Data)
    return int(decode_controller(found.data).broker_id)


async def fall_asleep(session: ZooKeeperSession) -> None:
    """This session becomes controller, as one of Kafka's, and does nothing."""
    (epoch,) = await session.read([GetData(paths.CONTROLLER_EPOCH)])
    assert isinstance(epoch, Data)
    data = encode_controller(ControllerZnode(BrokerId(SLEEPER), 0))
    following = encode_controller_epoch(decode_controller_epoch(epoch.data) + 1)
    await apply(
        session,
        Create(paths.CONTROLLER, data, ephemeral=True),
        SetData(paths.CONTROLLER_EPOCH, following, epoch.stat.version),
    )


@asynccontextmanager
async def asleep(
    chroot: str,
    topics: Mapping[str, Sequence[tuple[int, ...]]],
    marked: Sequence[str],
    *,
    session_timeout_ms: int = 6_000,
) -> AsyncIterator[tuple[LocalCluster, ZooKeeperSession, Lethe]]:
    """Three agents with these topics, some of them marked, and nobody who acts on that."""
    settings = ClusterSettings(
        controllers=1, brokers=3, zookeeper_connect=chroot, session_timeout_ms=session_timeout_ms
    )
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        plans = [TopicPlan(name, TopicId(uuid.uuid4()), tuple(rows)) for name, rows in topics.items()]
        assert [o.problem for o in await topic_znodes.create_topics(session, plans)] == [None] * len(plans)

        async def are_led() -> bool:
            return all([await there_is(session, paths.partition_state(name, 0)) for name in topics])

        async def are_known() -> bool:
            brokers, _ = await topic_znodes.live_brokers(session)
            answers = await ask_all(brokers, broker_asker(PLAINTEXT_REACH))
            return all(topics.keys() <= (answer.cache or {}).keys() for answer in answers)

        await until(are_led, "topics are led")
        await until(are_known, "every broker shows the topics")
        await (await cluster.active_controller()).stop()
        async with cluster.session() as sleeper:
            await fall_asleep(sleeper)
            await apply(session, *(Create(paths.delete_topic(name), None) for name in marked))
            yield cluster, session, Lethe(cluster.zookeeper_connect)


def stored(cluster: LocalCluster, topic: str) -> list[str]:
    """The topic's directories on all brokers that are no leftovers of a deletion."""
    roots = [root for roots in cluster.log_dirs.values() for root in roots]
    return sorted(d.name for root in roots for d in root.glob(f"{topic}-*") if not d.name.endswith("-delete"))


def verdicts(document: Any) -> dict[str, str]:
    return {row["topic"]: row["verdict"] for row in document["topics"]}


@pytest.mark.long
async def test_what_can_be_finished_is_and_the_rest_is_named_with_its_reason(zookeeper_chroot: str) -> None:
    topics = {"orders": ((1, 2), (2, 3)), "lost": ((1, 3),), "kept": ((1, 2, 3),)}
    async with asleep(zookeeper_chroot, topics, ["orders", "lost", "ghost"]) as (cluster, session, lethe):
        await cluster.broker(3).kill()
        await apply(
            session,
            Create(paths.REASSIGN_PARTITIONS, encode_reassignment({TopicPartition("nobody", 0): (1, 2)})),
        )

        async def is_away() -> bool:
            return not await there_is(session, paths.broker_id(3))

        await until(is_away, "broker 3 is away")
        dry = await lethe("rescue", "--dry-run", "--json")
        assert dry.code == 1
        assert dry.data["outlook"] == {"ghost": "finishes", "lost": "waits", "orders": "waits"}
        assert dry.data["reassignments_of_nothing"] == ["nobody-0"]
        assert dry.data["holder"] == {"controller": SLEEPER, "lethe": False, "answers": None}, "it is not registered"
        assert stored(cluster, "orders")

        agreed = await lethe("rescue")
        assert agreed.code == 2, "nobody sits here who could agree"
        assert await there_is(session, paths.delete_topic("orders"))

        cluster.broker(3).launch()
        await cluster.broker(3).wait_ready()
        await cluster.broker(2).kill()

        async def other_is_away() -> bool:
            return not await there_is(session, paths.broker_id(2))

        await until(other_is_away, "broker 2 is away")
        ran = await lethe("rescue", "--yes", "--json")
        assert ran.code == 1, ran
        assert ran.data["control"]["taken_from"] == SLEEPER
        assert ran.data["control"]["handed_to"] is None
        assert ran.data["finished"] == ["ghost", "lost"]
        assert ran.data["remaining"] == ["orders"]
        (row,) = (row for row in ran.data["after"]["topics"] if row["topic"] == "orders")
        assert {(c["cause"], c["broker"]) for c in row["causes"]} == {("broker_to_return", 2)}
        assert not await there_is(session, paths.CONTROLLER), "control is handed back"
        assert not await there_is(session, paths.REASSIGN_PARTITIONS)
        assert stored(cluster, "lost") == []
        assert len(stored(cluster, "kept")) == 3

        cluster.broker(2).launch()
        await cluster.broker(2).wait_ready()
        again = await lethe("rescue", "--yes")
        assert again.code == 0, again
        assert "orders is gone" in again.out
        assert stored(cluster, "orders") == []
        nothing = await lethe("rescue", "--yes")
        assert nothing.code == 0
        assert "No topic is marked for deletion." in nothing.out


async def test_only_the_named_topics_are_touched(zookeeper_chroot: str) -> None:
    topics = dict.fromkeys(("orders", "invoices", "kept"), ((1, 2, 3),))
    async with asleep(zookeeper_chroot, topics, ["orders", "invoices"]) as (cluster, session, lethe):
        assert (await lethe("topics", "pause-deletions", "--reason", "audit")).code == 0
        paused = await lethe("rescue", "--yes")
        assert paused.code == 1
        assert "Deletions are paused, which a rescue obeys" in paused.err
        assert await controller_of(session) == SLEEPER
        assert (await lethe("topics", "resume-deletions")).code == 0
        # The word is for brokers with delete.topic.enable=false, which these are not: it marks nothing here.
        chosen = ("--topic", "orders", "--topic", "kept", "--even-if-disabled")
        ran = await lethe("rescue", "--yes", *chosen, "--json")
        assert ran.code == 1, ran
        assert ran.data["outlook"] == {"orders": "finishes", "kept": "not_asked_for"}
        assert ran.data["finished"] == ["orders"]
        assert ran.data["remaining"] == ["kept"]
        assert await there_is(session, paths.topic("kept"))
        assert not await there_is(session, paths.delete_topic("kept"))
        assert await there_is(session, paths.delete_topic("invoices"))
        assert await there_is(session, paths.topic("invoices"))
        assert len(stored(cluster, "invoices")) == len(stored(cluster, "kept")) == 3


@pytest.mark.long
async def test_a_configuration_that_cannot_be_read_is_said_before_control_is_taken(zookeeper_chroot: str) -> None:
    """Kafka's controller, which leads, does not look there: only the rescue's would."""
    async with asleep(zookeeper_chroot, {"orders": ((1, 2, 3),)}, ["orders"]) as (cluster, session, lethe):
        path = paths.config_broker_default()
        await session.ensure_path(path)
        await apply(session, SetData(path, b"{", ANY_VERSION))
        dry = await lethe("rescue", "--dry-run", "--json")
        assert dry.code == 1
        assert dry.data["outlook"] == {"orders": "waits"}
        ran = await lethe("rescue", "--yes")
        assert ran.code == 1
        assert f"wait for the brokers' configuration {path} to be readable" in ran.err
        assert f"save a copy of the znode {path}, then repair it" in ran.err
        assert await controller_of(session) == SLEEPER

        await apply(session, SetData(path, encode_config({"delete.topic.enable": "false"}), ANY_VERSION))
        kept = await lethe("rescue", "--yes")
        assert kept.code == 1
        assert f"delete.topic.enable is false in {path}" in kept.err
        assert await there_is(session, paths.delete_topic("orders"))
        assert len(stored(cluster, "orders")) == 3

        await apply(session, Delete(path))
        assert (await lethe("rescue", "--yes")).code == 0
        assert stored(cluster, "orders") == []


async def test_interrupted_in_the_middle_control_is_handed_back(zookeeper_chroot: str) -> None:
    async with asleep(zookeeper_chroot, {"orders": ((1, 2, 3),)}, ["orders"]) as (cluster, session, lethe):
        cluster.broker(2).pause()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "lethe", "rescue", "--yes", "--zookeeper", lethe.connect),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            assert process.stderr is not None
            seen = b""
            while b"left" not in seen:
                line = await asyncio.wait_for(process.stderr.readline(), LIMIT_S)
                assert line, seen
                seen += line
            assert await there_is(session, paths.CONTROLLER)
            process.send_signal(signal.SIGINT)
            out, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
        finally:
            cluster.broker(2).resume()
        assert process.returncode == 130, (seen, out, err)
        assert not await there_is(session, paths.CONTROLLER)
        assert b"orders remains" in out


async def test_one_of_lethes_controllers_needs_no_rescue(zookeeper_chroot: str) -> None:
    settings = ClusterSettings(controllers=1, brokers=1, zookeeper_connect=zookeeper_chroot, session_timeout_ms=6_000)
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        await cluster.broker(1).kill()
        plan = TopicPlan("orders", TopicId(uuid.uuid4()), ((1,),))
        await topic_znodes.create_topics(session, [plan])
        await apply(session, Create(paths.delete_topic("orders"), None))
        ran = await Lethe(cluster.zookeeper_connect)("rescue", "--yes")
        assert ran.code == 1
        assert "one of Lethe's controllers is active" in ran.err
        await apply(session, Delete(paths.delete_topic("orders")))


@pytest.mark.long
async def test_ghosts_are_dropped_and_until_then_nothing_is_said_to_be_well(zookeeper_chroot: str) -> None:
    async with asleep(zookeeper_chroot, {"kept": ((1, 2, 3),)}, []) as (cluster, session, lethe):
        clean = await lethe("rescue", "--dry-run")
        assert (clean.code, "No topic is marked for deletion." in clean.out) == (0, True), clean
        await haunt(session, 2, "gone", SLEEPER)
        dry = await lethe("rescue", "--dry-run")
        assert dry.code == 1
        assert "The metadata cache of broker 2 shows topic gone that ZooKeeper does not have" in dry.out
        other = await lethe("rescue", "--dry-run", "--topic", "kept", "--json")
        assert other.data["metadata_caches_before"]["ghosts"] == []
        ran = await lethe("rescue", "--yes")
        assert ran.code == 0, ran
        assert "Broker 2 has dropped topic gone from its metadata cache that ZooKeeper does not have." in ran.out
        assert len(stored(cluster, "kept")) == 3
        assert (await lethe("rescue", "--dry-run")).code == 0


async def test_a_cache_that_was_not_seen_is_not_clean(zookeeper_chroot: str) -> None:
    # Its session may end meanwhile; its process would come back with the cache that it has.
    long = asleep(zookeeper_chroot, {"kept": ((1, 2, 3),)}, [], session_timeout_ms=40_000)
    async with long as (cluster, session, lethe):
        await haunt(session, 2, "gone", SLEEPER)
        cluster.broker(3).pause()
        try:
            ran = await lethe("rescue", "--yes", "--patience-ms", "15000")
        finally:
            cluster.broker(3).resume()
        assert ran.code == 3, ran
        assert "Whether the metadata cache of broker 3 shows deleted topics is not known" in ran.err
        assert "Broker 2 has dropped topic gone" in ran.out, "a silent broker holds up no other"
        assert "Whether the metadata cache of broker 3 shows deleted topics is not known" in ran.out


@pytest.mark.long
async def test_with_owe_nobody_is_waited_for_and_what_remains_to_be_done_is_said(zookeeper_chroot: str) -> None:
    topics = {"orders": ((1, 2), (2, 3)), "lost": ((1, 3),), "kept": ((1, 2, 3),)}
    async with asleep(zookeeper_chroot, topics, ["orders", "lost"]) as (cluster, session, lethe):
        await cluster.broker(3).kill()

        async def is_away() -> bool:
            return not await there_is(session, paths.broker_id(3))

        await until(is_away, "broker 3 is away")
        dry = await lethe("rescue", "--dry-run", "--owe", "--json")
        assert dry.data["outlook"] == {"lost": "finishes", "orders": "finishes"}
        done = await lethe("rescue", "--yes", "--owe")
        assert done.code == 0, done
        assert "Broker 3, which is not registered, will owe 2 partitions of 2 topics" in done.err
        assert "Broker 3 owes 2 partitions of 2 deleted topics" in done.out
        assert "lethe brokers settle 3" in done.out
        assert not await there_is(session, paths.topic("lost"))
        assert [each for each in stored(cluster, "lost") if each] == ["lost-0"], "broker 3 has it"

        refused = await lethe("brokers", "settle", "3", "--yes")
        assert refused.code == 1
        assert "broker 3 is not registered" in refused.err
        script = await lethe("brokers", "settle", "3", "--script")
        assert script.code == 0
        file = cluster.log_dirs[3][0].parent / "settle-3.sh"
        file.write_text(script.out)
        run = await asyncio.create_subprocess_exec("sh", str(file), *map(str, cluster.log_dirs[3]))
        assert await run.wait() == 0
        assert stored(cluster, "lost") == []
        assert stored(cluster, "orders") == []
        assert len(stored(cluster, "kept")) == 3
        wrong = await asyncio.create_subprocess_exec("sh", str(file), *map(str, cluster.log_dirs[1]))
        assert await wrong.wait() == 1, "the disks of another broker"
        await cluster.broker(3).start()
        settled = await lethe("brokers", "settle", "3", "--yes")
        assert (settled.code, settled.out) == (0, "Broker 3 owes nothing.\n"), "an agent settles at its start"


@pytest.mark.long
async def test_with_forget_a_broker_is_given_up(zookeeper_chroot: str) -> None:
    topics = {"lost": ((1, 3),), "kept": ((1, 2, 3),), "later": ((2, 3),)}
    async with asleep(zookeeper_chroot, topics, ["lost", "later"]) as (cluster, session, lethe):
        refused = await lethe("rescue", "--yes", "--forget", "3")
        assert (refused.code, "broker 3 is registered" in refused.err) == (1, True), refused
        await cluster.broker(3).kill()

        async def is_away() -> bool:
            return not await there_is(session, paths.broker_id(3))

        await until(is_away, "broker 3 is away")
        chosen = await lethe("rescue", "--yes", "--topic", "lost", "--forget", "3")
        assert "1 deletion ends without it: lost." in chosen.err, chosen
        assert "Left alone, though they wait for broker 3 too: later." in chosen.err
        assert "Still marked, and waiting for broker 3: later." in chosen.out
        assert chosen.code == 1
        assert not await there_is(session, paths.topic("lost"))
        done = await lethe("rescue", "--yes", "--forget", "3")
        assert "1 deletion ends without it: later." in done.err, done
        assert "One replica short is 1 living partition: kept-0." in done.err
        assert "Broker 3 is forgotten." in done.out, done
        assert not await there_is(session, paths.topic("later"))
        assert await session.read([GetChildren(paths.debts_of(3))]) == [Children(())], "written off"
