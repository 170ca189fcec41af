"""What tests of this directory wait for, and what they look at: ISRs, directories, what each broker tells clients."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import time
import uuid
import warnings
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path

from lethe.adapters.kafka.reach import PLAINTEXT_REACH, BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.local import LocalCluster
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import NO_BROKER, BrokerId, LeaderAndIsr, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData
from lethe.protocol.zookeeper.znodes import ControllerZnode, decode_controller, decode_state
from lethe.survey.brokers import broker_asker
from lethe.survey.directories import read_log_dir
from lethe.survey.leftovers import leftovers
from lethe.survey.take import take_survey
from lethe.survey.views import BrokerAnswers, Survey

LIMIT_S = 120.0


async def until(condition: Callable[[], Awaitable[bool]], what: str, limit_s: float = LIMIT_S) -> None:
    """Waits for the condition; fails naming it where it does not come."""
    deadline = time.monotonic() + limit_s
    while not await condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        await asyncio.sleep(0.1)


# --- topics -------------------------------------------------------------------------------------------------------


def plan(name: str, *assignment: Sequence[int], version: str = "3.9.1", **config: str) -> TopicPlan:
    """A topic with these replicas by partition; it has an id where that version of Kafka gives topics one."""
    has_ids = tuple(map(int, version.split("."))) >= (2, 8)
    topic_id = TopicId(uuid.uuid4()) if has_ids else None
    overrides = {name.replace("_", "."): value for name, value in config.items()}
    return TopicPlan(name, topic_id, tuple(tuple(replicas) for replicas in assignment), overrides)


async def create(session: ZooKeeperSession, *plans: TopicPlan) -> None:
    """As `lethe topics create` does."""
    for outcome in await topic_znodes.create_topics(session, plans):
        assert outcome.problem is None, outcome.problem


async def delete(session: ZooKeeperSession, *names: str) -> None:
    """As `lethe topics delete` does."""
    outcomes = await topic_znodes.mark_for_deletion(session, names)
    assert [outcome.problem for outcome in outcomes] == [None] * len(names)


# --- ZooKeeper ----------------------------------------------------------------------------------------------------


async def states(session: ZooKeeperSession, topic: str, partitions: int) -> list[LeaderAndIsr | None]:
    """What the state znodes say, by partition; None where there is none."""
    found = await session.read([GetData(paths.partition_state(topic, number)) for number in range(partitions)])
    return [
        decode_state(topic, number, each.data, each.stat.version) if isinstance(each, Data) else None
        for number, each in enumerate(found)
    ]


def is_whole(
    session: ZooKeeperSession, topic: str, replicas: Sequence[Collection[int]]
) -> Callable[[], Awaitable[bool]]:
    """Every partition has a leader, and all of its replicas in the ISR."""

    async def condition() -> bool:
        found = await states(session, topic, len(replicas))
        return all(
            state is not None and state.leader in state.isr and sorted(state.isr) == sorted(wanted)
            for state, wanted in zip(found, replicas, strict=True)
        )

    return condition


async def controller(session: ZooKeeperSession) -> ControllerZnode | None:
    """Who holds `/controller`."""
    (found,) = await session.read([GetData(paths.CONTROLLER)])
    return decode_controller(found.data) if isinstance(found, Data) else None


async def kafka_leads(session: ZooKeeperSession) -> int:
    """Waits until one of Kafka's controllers has control; its id."""

    async def condition() -> bool:
        found = await controller(session)
        return found is not None and found.admin is None

    await until(condition, "one of Kafka's controllers has control")
    found = await controller(session)
    assert found is not None
    return int(found.broker_id)


# --- brokers ------------------------------------------------------------------------------------------------------


async def answers(session: ZooKeeperSession, reach: BrokerReach = PLAINTEXT_REACH) -> list[BrokerAnswers]:
    """What each live broker says, over its own listener."""
    brokers, unreadable = await topic_znodes.live_brokers(session)
    assert not unreadable
    ask = broker_asker(reach)
    return list(await asyncio.gather(*(ask(broker) for broker in brokers)))


def name_a_controller(session: ZooKeeperSession, brokers: int) -> Callable[[], Awaitable[bool]]:
    """At least so many live brokers tell clients of a controller."""

    async def condition() -> bool:
        told = await answers(session)
        return len(told) >= brokers and all((each.controller or NO_BROKER) != NO_BROKER for each in told)

    return condition


def is_known_to_all(
    session: ZooKeeperSession, brokers: int, *topics: str, reach: BrokerReach = PLAINTEXT_REACH
) -> Callable[[], Awaitable[bool]]:
    """So many live brokers tell clients of all these topics."""

    async def condition() -> bool:
        told = await answers(session, reach)
        return len(told) == brokers and all(
            each.cache is not None and each.cache.keys() >= set(topics) for each in told
        )

    return condition


def is_unknown_to_all(session: ZooKeeperSession, *topics: str) -> Callable[[], Awaitable[bool]]:
    """Every live broker answers, and none tells clients of any of these topics."""

    async def condition() -> bool:
        told = await answers(session)
        return all(each.cache is not None and not each.cache.keys() & set(topics) for each in told)

    return condition


_HARMLESS = (
    # How Kafka words it when a replica that is to be deleted is announced without a leader, on purpose: decision 0022.
    "cannot become follower since the new leader -1 is unavailable",
    # A controller ends the thread that speaks with a broker when that broker leaves, in the middle of a request or not.
    ": java.lang.InterruptedException",
)


def complaints(cluster: LocalCluster) -> list[str]:
    """What real brokers have found wrong with a controller, or as one."""
    return [
        f"broker {broker.id}: {error}"
        for broker in cluster.kafka_brokers
        for error in broker.errors()
        if not any(words in error for words in _HARMLESS)
    ]


async def stops_in_good_order(cluster: LocalCluster, number: int) -> None:
    """On SIGTERM, after the controller has moved its leaderships, at the first try."""
    broker = cluster.kafka_broker(number)
    assert await broker.stop() in (0, 143)
    output = broker.process.output()
    said = [line for line in output.splitlines() if "ontrolled shutdown" in line]
    assert re.search(r"Controlled shutdown (succeeded|request returned successfully)", output), said
    assert "Retrying controlled shutdown" not in output, said
    assert "unclean shutdown" not in output, said


# --- disks --------------------------------------------------------------------------------------------------------


def directories(cluster: LocalCluster, topic: str) -> list[str]:
    """Names of the directories that any broker has of that topic, also those that wait for removal."""
    return sorted(
        f"{broker}/{found.name}"
        for broker, log_dirs in cluster.log_dirs.items()
        for log_dir in log_dirs
        for found in log_dir.glob(f"{topic}-*")
    )


def has_no_directories(cluster: LocalCluster, *topics: str) -> Callable[[], Awaitable[bool]]:
    """No broker has anything of these topics on its disks, running or not."""

    async def condition() -> bool:
        return not any(directories(cluster, topic) for topic in topics)

    return condition


def replicas(topic: str, log_dirs: Sequence[Path]) -> dict[int, Path]:
    """The living directories of a topic there, by partition."""
    views = (read_log_dir(BrokerId(0), log_dir, (topic,)) for log_dir in log_dirs)
    return {
        found.topic_partition.partition: Path(view.path, found.name)
        for view in views
        for found in view.directories
        if found.kind is DirectoryKind.REPLICA and found.topic_partition is not None
    }


def records_in(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(directory.glob("*.log")))


# --- all together -------------------------------------------------------------------------------------------------


async def survey(cluster: LocalCluster, session: ZooKeeperSession) -> Survey:
    """All three places, the disks of this cluster included."""
    return await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs)


async def gone_everywhere(
    cluster: LocalCluster, session: ZooKeeperSession, *topics: str, limit_s: float = 90.0
) -> None:
    """Waits until nothing is left of these topics: znodes, each broker's Metadata answer, directories; and kcat sees
    none where it is installed. Then the whole survey must be clean."""

    async def is_unlisted() -> bool:
        listed = await topic_znodes.list_topics(session)
        return not set(topics) & {*listed.names, *listed.marked}

    await until(is_unlisted, f"znodes of {topics} are gone", limit_s)
    await until(is_unknown_to_all(session, *topics), f"all brokers have forgotten {topics}", limit_s)
    await until(has_no_directories(cluster, *topics), f"the directories of {topics} are gone", limit_s)

    async def is_clean() -> bool:
        seen = await survey(cluster, session)
        return seen.is_complete and not leftovers(seen)

    await until(is_clean, "the survey is clean", limit_s)
    for broker in cluster.kafka_brokers:
        if broker.is_running:
            assert not set(topics) & (await kcat_topics(cluster, broker.id) or set())


async def kcat_topics(cluster: LocalCluster, broker: int) -> set[str] | None:
    """Topics that `kcat -L` lists, asking that broker. It is a client that shares no code with ours or Kafka's;
    where it is not installed nothing is seen, and the test's summary says so."""
    if shutil.which("kcat") is None:
        warnings.warn("not looked at with kcat, which is not installed (Debian: apt-get install kcat)", stacklevel=2)
        return None
    host, port = await cluster.kafka_broker(broker).listener()
    process = await asyncio.create_subprocess_exec(
        "kcat", "-b", f"{host}:{port}", "-L", "-J", "-m", "20", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return {topic["topic"] for topic in json.loads(output)["topics"]}
