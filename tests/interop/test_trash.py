"""Topics that are deleted into the trash and brought back, on real brokers: records, offsets, clients that go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiokafka import AIOKafkaProducer

from lethe.admin.trash import read_trash
from lethe.cluster.local import LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Exists, Present, is_absent
from tests.fakes.command_line import Lethe
from tests.interop.clients import bootstrap, produce, value
from tests.interop.conditions import (
    create,
    directories,
    has_no_directories,
    is_known_to_all,
    is_whole,
    plan,
    states,
    until,
)
from tests.interop.conftest import MakeCluster
from tests.interop.trashed_topics import (
    LONG,
    PROPERTIES,
    ROWS,
    SHORT,
    Size,
    are_out_of_the_trash,
    bytes_on_disk,
    commit_to_all,
    expected_offsets,
    identities,
    kept_of,
    needs_topic_ids,
    noted,
    produce_to_all,
    records_of,
)

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]

RECORDS = 60
GRACE_S = 30


@asynccontextmanager
async def producing(cluster: LocalCluster, sent: Mapping[str, list[int]]) -> AsyncIterator[None]:
    """A producer for each topic that never stops: the numbers that were acknowledged."""
    stopping = asyncio.Event()

    async def run(topic: str, numbers: list[int]) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap(cluster), acks="all", request_timeout_ms=5_000, retry_backoff_ms=200
        ) as producer:
            number = 1_000_000
            while not stopping.is_set():
                try:
                    await producer.send_and_wait(topic, number.to_bytes(8, "big"), partition=0)
                    numbers.append(number)
                    await asyncio.sleep(0.05)
                except Exception:  # noqa: BLE001 -- what is not acknowledged is not counted
                    pass
                number += 1

    async with asyncio.TaskGroup() as tasks:
        for topic, numbers in sent.items():
            tasks.create_task(run(topic, numbers))
        try:
            yield
        finally:
            stopping.set()


async def go_on(sent: Mapping[str, list[int]], limit_s: float) -> None:
    """Wait until each of these producers has had more acknowledged."""
    before = {topic: len(numbers) for topic, numbers in sent.items()}

    async def all_do() -> bool:
        return all(len(numbers) >= before[topic] + 5 for topic, numbers in sent.items())

    await until(all_do, "producers go on", limit_s)


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(LONG, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(3_600)]),
    ],
)
async def test_many_topics_come_back_with_records_and_offsets(
    kafka_cluster: MakeCluster, version: str, size: Size
) -> None:
    needs_topic_ids(version)
    properties = {**PROPERTIES, "log.index.size.max.bytes": "65536"}
    async with kafka_cluster(version, brokers=2, properties=properties) as cluster, cluster.session() as session:
        began_s = time.monotonic()
        lethe = Lethe(cluster.zookeeper_connect, limit_s=size.limit_s)
        timeout = ("--timeout-ms", str(int(size.limit_s * 1_000)))
        names = [f"t{number:04}" for number in range(size.topics)]
        rows = {name: size.rows(number) for number, name in enumerate(names)}
        await create(session, *(plan(name, *rows[name], version=version, retention_ms="3600000") for name in names))
        await until(is_known_to_all(session, 2, *names), "all brokers know the topics", size.limit_s)
        for name in names:
            await until(is_whole(session, name, rows[name]), f"{name} is whole", size.limit_s)
        noted(f"{size.topics} topics are there", began_s)
        await produce_to_all(cluster, names, size)
        await commit_to_all(cluster, names, size)
        before = await kept_of(cluster, names, size)
        assert {name: each.committed for name, each in before.items()} == expected_offsets(names, size)
        assert sum(len(each.records) for each in before.values()) == size.topics * size.records
        noted("with records and committed offsets", began_s)
        busy, quiet = names[: size.producers], names[size.producers :]
        sent: dict[str, list[int]] = {name: [] for name in busy}
        async with producing(cluster, sent):
            await go_on(sent, size.limit_s)
            gone = await lethe("topics", "delete", "--grace", "1h", "--wait", "--yes", *timeout, *names)
            assert gone.code == 0, gone
            noted("all are in the trash", began_s)
            assert set((await identities(session, names)).values()) == {None}
            assert all(directories(cluster, name) for name in names)
            listed = await lethe("topics", "trash", "list", "--json")
            assert [each["topic"] for each in listed.data["topics"]] == names
            # One broker restarts meanwhile, with its logs loaded and nobody to host them.
            await cluster.kafka_brokers[1].stop()
            await cluster.kafka_brokers[1].start()
            await until(is_known_to_all(session, 2, "__consumer_offsets"), "both brokers are back", size.limit_s)
            noted("a broker was restarted", began_s)
            back = await lethe("topics", "undelete", *names, *timeout)
            assert back.code == 0, back
            noted("all are asked back", began_s)
            await go_on(sent, size.limit_s)
        noted("producers that never stopped go on", began_s)
        for name in names:
            await until(is_whole(session, name, rows[name]), f"{name} is whole again", size.limit_s)
        await are_out_of_the_trash(session, names, size.limit_s)
        noted("all are whole again", began_s)
        after = await kept_of(cluster, names, size)
        assert {name: after[name] for name in quiet} == {name: before[name] for name in quiet}
        for name in busy:
            assert replace(after[name], records=[]) == replace(before[name], records=[])
            found = {row.number for row in after[name].records}
            assert found.issuperset({row.number for row in before[name].records}), "nothing from before is lost"
            assert found.issuperset(sent[name]), "and nothing that was acknowledged"
        noted("identities, records, offsets and settings are the same", began_s)


async def test_brokers_that_stayed_up_serve_a_topic_whose_states_were_written_often(
    kafka_cluster: MakeCluster, version: str
) -> None:
    """Since 3.2 they take a LeaderAndIsr with a partition epoch below the one that they know for old news, silently."""
    needs_topic_ids(version)
    # Under a guest no broker gets back into an ISR.
    async with (
        kafka_cluster(version, brokers=2, listed=True, properties=PROPERTIES) as cluster,
        cluster.session() as session,
    ):
        lethe = Lethe(cluster.zookeeper_connect, limit_s=SHORT.limit_s)
        await create(session, plan("orders", *ROWS, version=version))
        await until(is_whole(session, "orders", ROWS), "orders is whole")
        # Each restart shrinks and expands both ISRs, and moves the lead.
        for broker in cluster.kafka_brokers:
            await broker.stop()
            await broker.start()
            await until(is_whole(session, "orders", ROWS), "orders is whole after the restart", SHORT.limit_s)
        await produce_to_all(cluster, ["orders"], SHORT, idempotent=True)
        before = await states(session, "orders", len(ROWS))
        assert all(state is not None and state.partition_epoch >= 2 for state in before), before
        gone = await lethe("topics", "delete", "--grace", "1h", "--wait", "--yes", "orders")
        assert gone.code == 0, gone
        back = await lethe("topics", "undelete", "orders")
        assert back.code == 0, back
        await until(is_whole(session, "orders", ROWS), "orders is whole again", SHORT.limit_s)
        # With acks=all a record is acknowledged only when the leader leads and the follower follows.
        await produce_to_all(cluster, ["orders"], SHORT, idempotent=True)
        found = await records_of(cluster, ["orders"], SHORT)
        assert len(found["orders"]) == 2 * SHORT.records
        after = await states(session, "orders", len(ROWS))
        assert all(state is not None and len(state.isr) == 2 for state in after), after


@pytest.mark.slow
async def test_a_topic_stays_until_its_time_is_over_and_then_is_deleted(
    kafka_cluster: MakeCluster, version: str
) -> None:
    """Its records stay as they are on every disk until then, also while another topic is purged."""
    needs_topic_ids(version)
    async with kafka_cluster(version, brokers=2, properties=PROPERTIES) as cluster, cluster.session() as session:
        lethe = Lethe(cluster.zookeeper_connect)
        await create(session, *(plan(name, *ROWS, version=version) for name in ("short", "purged")))
        for name in ("short", "purged"):
            await until(is_whole(session, name, ROWS), f"{name} is whole")
            await produce(bootstrap(cluster), name, range(RECORDS))
        before = bytes_on_disk(cluster, ["short"])
        assert len(before) == 4
        assert sum(map(len, before.values())) > 2 * RECORDS * len(value(0))
        assert (await lethe("topics", "delete", "--grace", "1h", "--wait", "purged")).code == 0
        assert (await lethe("topics", "delete", "--grace", f"{GRACE_S}s", "--wait", "short")).code == 0
        (view,) = await read_trash(session, ["short"])
        assert view.entry is not None
        assert view.entry.grace_ms == GRACE_S * 1_000
        purged = await lethe("topics", "trash", "purge", "purged", "--yes")
        assert purged.code == 0, purged
        await until(has_no_directories(cluster, "purged"), "the bytes of purged are gone")
        looks = 0

        async def is_over() -> bool:
            nonlocal looks
            found = bytes_on_disk(cluster, ["short"])
            (entry,) = await session.read([Exists(paths.trashed("short"))])
            if isinstance(entry, Present):
                looks += 1
                assert found == before, "until its time is over nothing of it goes"
            return is_absent(entry)

        await until(is_over, "the time of short is over", GRACE_S + 60.0)
        over_ms = time.time() * 1_000
        assert over_ms >= view.entry.until_ms, "not before its time"
        assert looks >= GRACE_S / 2, "it was looked at all the time"
        await until(has_no_directories(cluster, "short"), "its bytes are gone")

        async def are_gone() -> bool:
            names = [path for name in ("short", "purged") for path in (paths.topic(name), paths.trashed(name))]
            return all(is_absent(each) for each in await session.read([Exists(path) for path in names]))

        await until(are_gone, "their znodes are gone")
        assert (await lethe("topics", "trash", "list")).out == "The trash is empty.\n"
