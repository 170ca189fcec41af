"""Retention and compaction are off in the trash of real brokers, and work again afterwards.

Records get timestamps in the future, so that all of them fall due at one moment that the test chooses:

    produced, read           into the trash (10 s)       due                             back
    |------------------------|---------------------------|-------------------------------|------------------>
                                                         a topic in service loses them;  those led by broker 1 lose
                                                         the trash keeps every byte      them, too

Broker 1 runs all the time, and looks for old records every second. Broker 2 is restarted while the topics are in the
trash, and looks for none afterwards: clients can still read from it what came back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import pytest
from aiokafka import AIOKafkaProducer

from lethe.cluster.local import LocalCluster
from tests.fakes.command_line import Lethe
from tests.interop.clients import bootstrap, value
from tests.interop.conditions import create, is_known_to_all, is_whole, plan, until
from tests.interop.conftest import MakeCluster
from tests.interop.trashed_topics import (
    PROPERTIES,
    ROWS,
    Size,
    are_out_of_the_trash,
    bytes_on_disk,
    commit_to_all,
    expected_offsets,
    kept_of,
    needs_topic_ids,
    noted,
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


async def test_nothing_falls_due_in_the_trash_and_everything_afterwards(
    kafka_cluster: MakeCluster, version: str
) -> None:
    needs_topic_ids(version)
    async with kafka_cluster(version, brokers=2, properties=LOOKS_OFTEN) as cluster, cluster.session() as session:
        began_s = time.monotonic()
        lethe = Lethe(cluster.zookeeper_connect)
        names, in_service, topics = [*TRASH], [*IN_SERVICE], {**TRASH, **IN_SERVICE}
        await create(
            session,
            *(plan(name, rows, version=version, **SETTINGS[kind], **SEGMENTS) for name, (kind, rows) in topics.items()),
        )
        await until(is_known_to_all(session, 2, *topics), "all brokers know the topics")
        for name, (_, rows) in topics.items():
            await until(is_whole(session, name, [rows]), f"{name} is whole")
        at_ms = int(time.time() * 1_000) + AHEAD_MS
        await produce_due(cluster, [*topics], at_ms)
        await commit_to_all(cluster, names, SIZE)
        before, stored = await kept_of(cluster, names, SIZE), bytes_on_disk(cluster, topics)
        assert all(len(each.records) == SIZE.records for each in before.values())
        assert {name: each.committed for name, each in before.items()} == expected_offsets(names, SIZE)
        assert {name: each.settings for name, each in before.items()} == {
            name: {**SETTINGS[kind], **SEGMENTS} for name, (kind, _) in TRASH.items()
        }
        assert set(stored) == {(broker, name, 0) for name in topics for broker in (1, 2)}
        noted("records are there", began_s)

        asked_s = time.monotonic()
        gone = await lethe("topics", "delete", "--grace", "1h", "--wait", "--yes", *names)
        assert gone.code == 0, gone
        assert time.monotonic() - asked_s >= FREEZE_S, "brokers get their time to notice"
        assert time.time() * 1_000 < at_ms + DUE_MS, "this machine is too slow: records were due before the trash"
        assert all(
            each is not None and OFF.items() <= each.items() for each in (await settings_of(session, names)).values()
        )
        noted("all are in the trash", began_s)

        async def have_fallen_due() -> bool:
            found = bytes_on_disk(cluster, in_service)
            return all(
                not found[each] if "by-time" in each[1] else len(found[each]) < len(stored[each]) for each in found
            )

        await until(have_fallen_due, "records in service are removed and compacted")
        noted("records in service have fallen due", began_s)
        kept = {place: stored[place] for place in stored if place[1] in names}
        assert bytes_on_disk(cluster, names) == kept, "the trash keeps every byte"
        other = cluster.kafka_brokers[1]
        other.properties |= LOOKS_NEVER
        await other.stop()
        await other.start()
        await until(is_known_to_all(session, 2, "__consumer_offsets"), "both brokers are back")
        assert bytes_on_disk(cluster, names) == kept, "also when a broker loads them anew"
        noted("a broker was restarted", began_s)

        back = await lethe("topics", "undelete", *names)
        assert back.code == 0, back
        await are_out_of_the_trash(session, names, SIZE.limit_s)
        after = await kept_of(cluster, names, SIZE)
        noted("all are back", began_s)
        for name, (_, rows) in TRASH.items():
            found, was = after[name], before[name]
            assert (found.identity, found.settings, found.committed) == (was.identity, was.settings, was.committed)
            if rows[0] == other.id:
                assert found.records == was.records, f"every record of {name} is back"

        async def works_again() -> bool:
            found = await records_of(cluster, ["by-time-1", "compacted-1"], SIZE)
            compacted = [row.number for row in found["compacted-1"]]
            assert set(compacted) >= set(range(SIZE.records - KEYS, SIZE.records)), "the last of each key stays"
            return not found["by-time-1"] and len(compacted) < SIZE.records

        await until(works_again, "old records are removed, and others are compacted")
        noted("retention and compaction work again", began_s)
