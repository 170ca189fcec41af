"""Retention and compaction are off in the trash of real brokers, and work again afterwards.

Records get timestamps in the future, so that all of them fall due at one moment that the test chooses:

    produced, read           into the trash (10 s)       due                             back, settings restored
    |------------------------|---------------------------|-------------------------------|---------------------->
                                                         a topic in service loses them;  they go as well
                                                         the trash keeps every byte

Brokers look for old records every second. Broker 2 is restarted while the topics are in the trash.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace

import pytest
from aiokafka import AIOKafkaProducer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.trash import read_trash
from lethe.cluster.local import LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Delete, MultiDone
from lethe.protocol.zookeeper.znodes import TrashPhase
from tests.fakes.command_line import Lethe
from tests.interop.clients import bootstrap, value
from tests.interop.conditions import create, is_known_to_all, is_whole, plan, until
from tests.interop.conftest import MakeCluster
from tests.interop.trashed_topics import (
    PROPERTIES,
    ROWS,
    Bytes,
    Kept,
    Size,
    are_out_of_the_trash,
    bytes_on_disk,
    commit_to_all,
    expected_offsets,
    kept_of,
    needs_topic_ids,
    records_of,
    settings_of,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]

DUE_MS = 6_000
AHEAD_MS = 50_000
"""Time to read all records and to get the topics into the trash before they are due."""
FREEZE_S = 10.0
KEYS = 5
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "by-time": {"retention.ms": str(DUE_MS), "retention.bytes": "100000000", "max.message.bytes": "500000"},
    "compacted": {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": str(DUE_MS),
        "min.cleanable.dirty.ratio": "0.01",
    },
}
SEGMENTS = {"segment.bytes": "2000"}
OFF = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
LOOKS_OFTEN = {**PROPERTIES, "log.cleaner.backoff.ms": "500", "log.index.size.max.bytes": "65536"}
LOOKS_NEVER = {"log.retention.check.interval.ms": "86400000", "log.cleaner.enable": "false"}
SIZE = Size(topics=4, partitions=1, records=60, producers=0, limit_s=180)
TRASH = {f"{kind}-{rows[0]}": (kind, rows) for kind in SETTINGS for rows in ROWS}
NAMES = [*TRASH]
IN_SERVICE = {f"{kind}-in-service": (kind, ROWS[0]) for kind in SETTINGS}


async def produce_due(cluster: LocalCluster, names: list[str], at_ms: int) -> None:
    """One batch for each record, so that segments are as small as their settings say."""
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap(cluster), acks="all") as producer,
        asyncio.timeout(SIZE.limit_s),
    ):

        async def fill(name: str) -> None:
            for number in range(SIZE.records):
                key = str(number % KEYS).encode()
                await producer.send_and_wait(name, value(number), key=key, partition=0, timestamp_ms=at_ms)

        await asyncio.gather(*map(fill, names))


@dataclass(frozen=True)
class Due:
    """What there was before records fell due, and when that is."""

    at_ms: int
    before: dict[str, Kept]
    stored: Bytes

    def of(self, names: Collection[str]) -> Bytes:
        return {place: found for place, found in self.stored.items() if place[1] in names}


async def topics_with_records(cluster: LocalCluster, session: ZooKeeperSession, version: str) -> Due:
    """The topics are made, with records that will be due, and with committed offsets."""
    topics = {**TRASH, **IN_SERVICE}
    await create(
        session,
        *(plan(name, rows, version=version, **SETTINGS[kind], **SEGMENTS) for name, (kind, rows) in topics.items()),
    )
    await until(is_known_to_all(session, len(cluster.kafka_brokers), *topics), "all brokers know the topics")
    for name, (_, rows) in topics.items():
        await until(is_whole(session, name, [rows]), f"{name} is whole")
    at_ms = int(time.time() * 1_000) + AHEAD_MS
    await produce_due(cluster, [*topics], at_ms)
    await commit_to_all(cluster, NAMES, SIZE)
    before = await kept_of(cluster, NAMES, SIZE)
    assert all(len(each.records) == SIZE.records for each in before.values())
    assert {name: each.committed for name, each in before.items()} == expected_offsets(NAMES, SIZE)
    assert {name: each.settings for name, each in before.items()} == {
        name: {**SETTINGS[kind], **SEGMENTS} for name, (kind, _) in TRASH.items()
    }
    due = Due(at_ms + DUE_MS, before, bytes_on_disk(cluster, topics))
    assert set(due.stored) == {(broker, name, 0) for name in topics for broker in (1, 2)}
    return due


async def into_the_trash_until_due(cluster: LocalCluster, session: ZooKeeperSession, lethe: Lethe, due: Due) -> None:
    """The topics are in the trash, with every byte, when the same records of topics in service are gone."""
    asked_s = time.monotonic()
    gone = await lethe("topics", "delete", "--grace", "1h", "--wait", "--yes", *NAMES)
    assert gone.code == 0, gone
    assert time.monotonic() - asked_s >= FREEZE_S, "brokers get their time to notice"
    assert time.time() * 1_000 < due.at_ms, "this machine is too slow: records were due before the trash"
    assert await are_off(session)

    async def have_fallen_due() -> bool:
        found, stored = bytes_on_disk(cluster, IN_SERVICE), due.stored
        return all(not found[each] if "by-time" in each[1] else len(found[each]) < len(stored[each]) for each in found)

    await until(have_fallen_due, "records in service are removed and compacted")
    assert bytes_on_disk(cluster, NAMES) == due.of(NAMES), "the trash keeps every byte"


async def are_off(session: ZooKeeperSession) -> bool:
    """Retention and compaction of all topics."""
    found = await settings_of(session, NAMES)
    return all(each is not None and OFF.items() <= each.items() for each in found.values())


async def restarts(cluster: LocalCluster, session: ZooKeeperSession, due: Due) -> None:
    """Broker 2 loads the logs of topics that nobody hosts."""
    other = cluster.kafka_broker(2)
    await other.stop()
    await other.start()
    await until(is_known_to_all(session, len(cluster.kafka_brokers), "__consumer_offsets"), "all brokers are back")
    assert bytes_on_disk(cluster, NAMES) == due.of(NAMES), "also when a broker loads them anew"


def without_records(found: Mapping[str, Kept]) -> dict[str, Kept]:
    return {name: replace(each, records=[]) for name, each in found.items()}


def all_fall_due(cluster: LocalCluster, *leaders: int) -> Callable[[], Awaitable[bool]]:
    """Old records of the topics that these brokers lead are removed, or compacted."""

    async def condition() -> bool:
        found = await records_of(cluster, [name for name, (_, rows) in TRASH.items() if rows[0] in leaders], SIZE)
        compacted = [[row.number for row in rows] for name, rows in found.items() if "compacted" in name]
        for numbers in compacted:
            assert set(numbers) >= set(range(SIZE.records - KEYS, SIZE.records)), "the last of each key stays"
        are_removed = not any(rows for name, rows in found.items() if "by-time" in name)
        return are_removed and all(len(numbers) < SIZE.records for numbers in compacted)

    return condition


async def test_nothing_falls_due_in_the_trash_and_everything_afterwards(
    kafka_cluster: MakeCluster, version: str
) -> None:
    """Broker 2 looks for no old records after its restart: clients can still read from it all that came back."""
    needs_topic_ids(version)
    async with kafka_cluster(version, brokers=2, properties=LOOKS_OFTEN) as cluster, cluster.session() as session:
        lethe = Lethe(cluster.zookeeper_connect)
        due = await topics_with_records(cluster, session, version)
        await into_the_trash_until_due(cluster, session, lethe, due)
        cluster.kafka_broker(2).properties |= LOOKS_NEVER
        await restarts(cluster, session, due)
        back = await lethe("topics", "undelete", *NAMES)
        assert back.code == 0, back
        await are_out_of_the_trash(session, NAMES, SIZE.limit_s)
        after = await kept_of(cluster, NAMES, SIZE)
        assert without_records(after) == without_records(due.before)
        for name in (name for name, (_, rows) in TRASH.items() if rows[0] == 2):
            assert after[name].records == due.before[name].records, f"every record of {name} is back"
        await until(all_fall_due(cluster, 1), "old records are removed, and others are compacted")


async def test_nothing_falls_due_before_all_is_restored(kafka_cluster: MakeCluster, version: str) -> None:
    """Brokers host the topics again, one of them with logs that it has loaded anew, and some of these without the
    settings of their topics, which were removed in the trash. The coordinator of the groups takes no offsets
    meanwhile, so the settings wait as well."""
    needs_topic_ids(version)
    properties = {**LOOKS_OFTEN, "log.retention.ms": str(DUE_MS)}
    coordinator = {3: {"zookeeper.session.timeout.ms": "50000"}}
    async with (
        kafka_cluster(version, brokers=3, properties=properties, own_properties=coordinator) as cluster,
        cluster.session() as session,
    ):
        lethe = Lethe(cluster.zookeeper_connect)
        await create(session, plan("__consumer_offsets", *[(3,)] * 4, version=version, cleanup_policy="compact"))
        due = await topics_with_records(cluster, session, version)
        await into_the_trash_until_due(cluster, session, lethe, due)
        removed = [Delete(paths.config_topic(name), ANY_VERSION) for name in NAMES if "by-time" in name]
        assert isinstance(await session.multi(removed), MultiDone)
        await restarts(cluster, session, due)
        cluster.kafka_broker(3).process.pause()
        asked = asyncio.create_task(lethe("topics", "undelete", *NAMES))
        for name, (_, rows) in TRASH.items():
            await until(is_whole(session, name, [rows]), f"{name} is whole again")
        for _ in range(2):
            await old_records_are_looked_for(cluster)
        assert bytes_on_disk(cluster, NAMES) == due.of(NAMES), "nothing goes while the topics wait for their offsets"
        assert {view.name: view.entry and view.entry.phase for view in await read_trash(session)} == dict.fromkeys(
            NAMES, TrashPhase.RESTORING
        )
        assert await are_off(session)
        cluster.kafka_broker(3).process.resume()
        back = await asked
        assert back.code == 0, back
        await are_out_of_the_trash(session, NAMES, SIZE.limit_s)
        assert without_records(await kept_of(cluster, NAMES, SIZE)) == without_records(due.before)
        await until(all_fall_due(cluster, 1, 2), "old records are removed, and others are compacted")


async def old_records_are_looked_for(cluster: LocalCluster) -> None:
    """Both brokers remove a record of a topic in service that is due at once."""
    name = next(iter(IN_SERVICE))
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap(cluster)[:2], acks="all", request_timeout_ms=3_000
    ) as producer:
        await producer.send_and_wait(name, value(0), partition=0, timestamp_ms=1)

    async def is_removed() -> bool:
        return not any(bytes_on_disk(cluster, [name]).values())

    await until(is_removed, "what is due is removed")
