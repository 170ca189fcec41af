"""Real brokers and Kafka's own clients accept an advertised controller as one of Kafka's. It holds no replicas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.cluster.daemons import ControllerDaemon
from lethe.cluster.local import LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Exists, Present
from lethe.survey.leftovers import leftovers
from tests.fakes.listed_controller import address_of
from tests.interop.clients import LIMIT_S, bootstrap, value
from tests.interop.conditions import complaints, stops_in_good_order, survey, until
from tests.interop.conftest import MakeCluster
from tests.interop.java_clients import run, running

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]
AUTOMATIC = {"auto.create.topics.enable": "true", "num.partitions": "6", "default.replication.factor": "2"}
INSISTING = {"controller.takeover": "always", "controller.takeover.interval.ms": "1000"}
"""Kafka's brokers stand for `/controller` as soon as it is free, and are there first as often as not."""
BROKERS = (1, 2, 3)


def address(controller: ControllerDaemon) -> str:
    """Where clients find the controller of this run."""
    return "{}:{}".format(*address_of(controller))


async def assignments(session: ZooKeeperSession) -> dict[str, list[tuple[int, ...]]]:
    """Every topic's replicas, by partition."""
    listed = await topic_znodes.list_topics(session)
    described = await topic_znodes.describe(session, listed.names, ())
    return {each.name: [partition.assignment.replicas for partition in each.partitions] for each in described}


async def all_whole(session: ZooKeeperSession) -> bool:
    """Every partition of every topic has a leader, and all replicas in its ISR."""
    listed = await topic_znodes.list_topics(session)
    described = await topic_znodes.describe(session, listed.names, ())
    return all(
        partition.leader in partition.isr and sorted(partition.isr) == sorted(partition.assignment.replicas)
        for each in described
        for partition in each.partitions
    )


# --- what brokers create themselves ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "racks", [pytest.param((), id="no racks", marks=pytest.mark.slow), pytest.param(("a", "b", "c"), id="racks")]
)
async def test_nothing_stays_on_the_controller_of_a_fresh_cluster(
    kafka_cluster: MakeCluster, version: str, racks: Sequence[str]
) -> None:
    """First group, first transaction, a topic that is created by being asked for; then every broker stops."""
    async with (
        kafka_cluster(version, listed=True, racks=racks, properties=AUTOMATIC) as cluster,
        cluster.session() as session,
    ):
        active = await cluster.active_controller()
        servers = bootstrap(cluster)
        await a_transaction_and_a_group(servers)
        await until(lambda: all_whole(session), "every ISR is whole")
        found = await assignments(session)
        assert set(found) == {"greetings", "__consumer_offsets", "__transaction_state"}
        assert [len(replicas) for replicas in found["greetings"]] == [2] * 6
        assert [len(replicas) for replicas in found["__consumer_offsets"]] == [3] * 5
        for topic, partitions in found.items():
            for replicas in partitions:
                assert set(replicas) <= set(BROKERS), topic
                assert len(set(replicas)) == len(replicas)
        assert await is_registered(session, active.id) is (version < "3")
        for broker in cluster.kafka_brokers:
            await stops_in_good_order(cluster, broker.id)
            await broker.start(120)
            await until(lambda: all_whole(session), f"every ISR is whole after the shutdown of {broker.id}")
        seen = await survey(cluster, session)
        assert seen.is_complete
        assert not leftovers(seen)
        assert not [name for name in moved(active) if name not in found]
        assert complaints(cluster) == []


async def a_transaction_and_a_group(servers: Sequence[str]) -> None:
    async with (
        AIOKafkaProducer(bootstrap_servers=list(servers), transactional_id="first") as producer,
        asyncio.timeout(LIMIT_S),
        producer.transaction(),
    ):
        await asyncio.gather(*[await producer.send("greetings", value(n), partition=n % 6) for n in range(60)])
    consumer = AIOKafkaConsumer(
        "greetings",
        bootstrap_servers=list(servers),
        group_id="first",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    async with consumer, asyncio.timeout(LIMIT_S):
        numbers = [int.from_bytes((await anext(consumer)).value[:8], "big") for _ in range(60)]
        await consumer.commit()
    assert sorted(numbers) == list(range(60))


async def is_registered(session: ZooKeeperSession, number: int) -> bool:
    (found,) = await session.read([Exists(paths.broker_id(number))])
    return isinstance(found, Present)


def moved(active: ControllerDaemon) -> list[str]:
    """Topics that were created with the controller among their replicas, as its journal has it."""
    lines = [line for file in active.journal_dir.glob("*.jsonl") for line in file.read_text().splitlines()]
    records = (json.loads(line) for line in lines if "replicas moved off a controller" in line)
    return [str(record["subject"]).removeprefix("topic/") for record in records]


# --- clients that know nobody else ----------------------------------------------------------------------------------


@pytest.mark.slow
async def test_java_clients_that_know_only_lethe(kafka_cluster: MakeCluster, version: str, tmp_path: Path) -> None:
    """A console producer and consumer go on while control changes hands twice, and others begin after that."""
    async with (
        kafka_cluster(
            version, controllers=2, listed=True, properties=AUTOMATIC, controller_properties=INSISTING
        ) as cluster,
        cluster.session() as session,
    ):
        active = await cluster.active_controller()
        (other,) = [each for each in cluster.controllers if each is not active]
        kafka = cluster.kafka_brokers[0].kafka
        servers = f"{address(active)},{address(other)}"
        await every_broker_is_asked(cluster, tmp_path, address(active))
        options = ("--bootstrap-server", servers, "--topic", "lines")
        wanted = [f"line {number}" for number in range(900)]
        async with (
            running(kafka, "ConsoleProducer", options, tmp_path / "producer") as producer,
            consuming(cluster, options, len(wanted), tmp_path / "consumer") as consumed,
        ):
            await say(producer, wanted[:300])
            await until(consumed.at_least(300), "a part has been consumed", 120)
            assert await active.stop() == 0
            await say(producer, wanted[300:600])
            await until(other.is_active, "the other one leads", 60)
            await until(consumed.at_least(600), "the second part has been consumed", 120)
            await active.start()
            await other.kill()
            await say(producer, wanted[600:])
            assert producer.stdin is not None
            producer.stdin.close()
            async with asyncio.timeout(120):
                assert await producer.wait() == 0
            await until(consumed.at_least(len(wanted)), "all of it has been consumed", 120)
            assert sorted(consumed.lines) == sorted(wanted)
        await until(active.is_active, "the first one leads again", 60)
        # The other one is dead, and stays among those that clients begin with.
        servers = f"{address(other)},{address(active)}"
        options = ("--bootstrap-server", servers, "--topic", "lines")
        async with running(kafka, "ConsoleProducer", options, tmp_path / "late producer") as late:
            await late.communicate(b"last\n")
            assert late.returncode == 0
        async with consuming(cluster, options, len(wanted) + 1, tmp_path / "late consumer", group="late") as consumed:
            await until(consumed.at_least(len(wanted) + 1), "all of it has been consumed again", 120)
            assert consumed.lines.count("last") == 1
        for partitions in (await assignments(session)).values():
            assert all(set(replicas) <= set(BROKERS) for replicas in partitions)
        assert complaints(cluster) == []


async def every_broker_is_asked(cluster: LocalCluster, directory: Path, server: str) -> None:
    """By these tools, for what each of them has."""
    kafka = cluster.kafka_brokers[0].kafka
    server_option = ("--bootstrap-server", server)
    await run(kafka, "ConsumerGroupCommand", (*server_option, "--list"), directory / "groups")
    await run(kafka, "ConfigCommand", (*server_option, "--describe", "--entity-type", "brokers"), directory / "configs")
    told = await run(kafka, "LogDirsCommand", (*server_option, "--describe"), directory / "log dirs")
    (document,) = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    assert {each["broker"] for each in document["brokers"]} >= set(BROKERS)


class Consumed:
    """What a console consumer has printed so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def at_least(self, count: int) -> Callable[[], Awaitable[bool]]:
        async def condition() -> bool:
            return len(self.lines) >= count

        return condition

    async def follow(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            self.lines.append(line.decode().rstrip("\n"))


@asynccontextmanager
async def consuming(
    cluster: LocalCluster, options: Sequence[str], count: int, directory: Path, group: str = "lines"
) -> AsyncIterator[Consumed]:
    """A console consumer that reads so many records from the beginning."""
    kafka = cluster.kafka_brokers[0].kafka
    arguments = (*options, "--group", group, "--from-beginning", "--max-messages", str(count))
    consumed = Consumed()
    async with running(kafka, "ConsoleConsumer", arguments, directory) as process:
        assert process.stdout is not None
        following = asyncio.create_task(consumed.follow(process.stdout), name="console-consumer")
        try:
            yield consumed
        finally:
            following.cancel()
            await asyncio.wait((following,))


async def say(producer: asyncio.subprocess.Process, lines: Sequence[str]) -> None:
    """Lines for the producer, a few at a time."""
    assert producer.stdin is not None
    for start in range(0, len(lines), 20):
        producer.stdin.write("".join(f"{line}\n" for line in lines[start : start + 20]).encode())
        await producer.stdin.drain()
        await asyncio.sleep(0.05)
