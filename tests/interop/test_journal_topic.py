"""The journal in a topic of the very cluster that is controlled: in order, whole or with its gaps told."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from lethe.cluster.daemons import ControllerDaemon
from lethe.cluster.local import LocalCluster
from lethe.protocol.journal import DEFAULT_TOPIC, EventRecordType, JournalEntry, decode
from tests.interop.clients import bootstrap
from tests.interop.conditions import create, delete, gone_everywhere, is_known_to_all, plan, until
from tests.interop.conftest import MakeCluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]

SECOND = 1002
PARTITIONS = 3
PATH = f"/lethe/controller/{SECOND}"


def second_controller(
    cluster: LocalCluster, version: str, place: Path, own: Mapping[str, str] | None = None
) -> ControllerDaemon:
    """One that takes control when the cluster's own has stopped, with its journal in the cluster's topic too."""
    return ControllerDaemon(
        SECOND,
        place / "second",
        {
            "zookeeper.connect": cluster.zookeeper_connect,
            "zookeeper.session.timeout.ms": "6000",
            "inter.broker.protocol.version": ".".join(version.split(".")[:2]),
            # The broker's own controller may be faster to stand in for the first one.
            "controller.takeover": "always",
            "controller.takeover.interval.ms": "1000",
            "lethe.journal.kafka.bootstrap.servers": ",".join(bootstrap(cluster)),
            **(own or {}),
        },
    )


def filed(directory: Path) -> list[bytes]:
    """The lines that are in the files, whole."""
    text = b"".join(path.read_bytes() for path in sorted(directory.glob("*.jsonl")))
    return text[: text.rfind(b"\n") + 1].splitlines(keepends=True)


async def in_topic(cluster: LocalCluster) -> dict[int, list[tuple[bytes | None, bytes]]]:
    """Key and value of every record, by partition, in order."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap(cluster), auto_offset_reset="earliest")
    found: dict[int, list[tuple[bytes | None, bytes]]] = {}
    async with consumer, asyncio.timeout(60):
        wanted = [TopicPartition(DEFAULT_TOPIC, number) for number in range(PARTITIONS)]
        consumer.assign(wanted)
        ends = await consumer.end_offsets(wanted)
        while any([await consumer.position(each) < end for each, end in ends.items()]):
            for place, rows in (await consumer.getmany(*wanted, timeout_ms=500)).items():
                found.setdefault(place.partition, []).extend((row.key, row.value) for row in rows)
    return found


def entries(lines: list[bytes]) -> list[JournalEntry]:
    found = [decode(line) for line in dict.fromkeys(lines)]
    assert all(isinstance(each, JournalEntry) for each in found)
    return [each for each in found if isinstance(each, JournalEntry)]


async def arrived(cluster: LocalCluster, journal: Path) -> list[bytes]:
    """Waits until all that is in the files now is in the topic, or told to be lost; then all that is in the topic."""
    wanted = filed(journal)
    deadline = time.monotonic() + 120
    while True:
        ((_, rows),) = (await in_topic(cluster)).items()
        assert {key for key, _ in rows} == {PATH.encode()}
        lines = [value for _, value in rows]
        missing = set(wanted).difference(lines)
        gaps = [each for each in entries(lines) if each.record.type is EventRecordType.GAP]
        if len(missing) <= sum(int(str(gap.record.data["count"])) for gap in gaps):
            return lines
        assert time.monotonic() < deadline, f"{len(missing)} of {len(wanted)} lines are missing in the topic"
        await asyncio.sleep(0.2)


def is_failing(daemon: ControllerDaemon, failing: bool = True) -> Callable[[], Awaitable[bool]]:
    """Its metrics say that the topic takes nothing, or that it does."""

    def scrape() -> bool:
        with urllib.request.urlopen(f"{daemon.http_url}/metrics", timeout=10) as answer:
            return b"\nlethe_journal_topic_failing %.1f\n" % failing in answer.read()

    return lambda: asyncio.to_thread(scrape)


async def test_lines_arrive_and_go_on_after_the_broker_was_away(
    kafka_cluster: MakeCluster, version: str, unused_tcp_port: int, tmp_path: Path
) -> None:
    # A broker that comes back is to be found where it was.
    address = {"listeners": f"PLAINTEXT://127.0.0.1:{unused_tcp_port}"}
    async with kafka_cluster(version, 1, own_properties={1: address}) as cluster, cluster.session() as session:
        journal = tmp_path / "journal"
        journal_plan = plan(DEFAULT_TOPIC, *[(1,)] * PARTITIONS, version=version)
        await create(session, journal_plan)
        await until(is_known_to_all(session, 1, DEFAULT_TOPIC), "the broker knows the journal's topic")
        first = cluster.controllers[0]
        second = second_controller(cluster, version, tmp_path, {"lethe.journal.dir": str(journal)})
        await second.start()
        try:
            await first.stop()
            await until(second.is_active, "the second controller leads")
            await create(session, *(plan(f"orders-{n}", (1,), (1,), version=version) for n in range(10)))
            await delete(session, *(f"orders-{n}" for n in range(10)))
            await gone_everywhere(cluster, session, *(f"orders-{n}" for n in range(10)))
            before = await arrived(cluster, journal)
            assert before[: len(before)] == filed(journal)[: len(before)]
            assert len(before) > 50

            await cluster.kafka_broker(1).kill()
            sofar = len(filed(journal))

            async def notices() -> bool:
                return any(each.record.data.get("what") == "failed" for each in entries(filed(journal)[sofar:]))

            await until(notices, "the files go on without the broker")
            assert second.is_running
            # Longer than it is tried: what is lost now has to be told.
            await until(is_failing(second), "the topic is given up", 120.0)
            await cluster.kafka_broker(1).start(180.0)
            # It is tried again after a pause: what is told before that is lost, as the gap will say.
            await until(is_failing(second, False), "the topic takes lines again", 120.0)
            await create(session, plan("bills", (1,), version=version))
            await delete(session, "bills")
            await gone_everywhere(cluster, session, "bills")
            lines = await arrived(cluster, journal)
            told = [each for each in entries(lines) if each.record.type is not EventRecordType.GAP]
            numbers = [int(each.id.rpartition("-")[2]) for each in told]
            assert numbers == sorted(numbers)
            assert any(each.record.subject == "topic/bills" for each in told)
            gaps = [each for each in entries(lines) if each.record.type is EventRecordType.GAP]
            assert all("no broker" in str(gap.record.data["reason"]) for gap in gaps)
            assert gaps
        finally:
            assert await second.stop() == 0
        assert "ERROR" not in second.log_file.read_text()
