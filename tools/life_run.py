"""Record the deletion of one topic on a real cluster: what passed between the processes, and what was on the disks.

An embedded ZooKeeper, one controller and three agents run as they would anywhere; recording proxies stand between the
controller and each of the others, so that every request and every answer is written down by one clock. The directories
are looked at every few milliseconds. Nothing here explains or draws: that is `life_of_a_deletion`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_plans import TopicPlan
from lethe.admin.topic_znodes import create_topics, mark_for_deletion
from lethe.cluster.daemons import DaemonFailed
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.cluster.loopback_server import Address
from lethe.cluster.recording_proxy import FindAddress, Frame, RecordingProxy
from lethe.cluster.zookeeper import EmbeddedZooKeeper
from lethe.protocol.journal import JournalEntry, decode_lines
from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Children, Data, Exists, GetChildren, GetData, ReadFailed
from lethe.survey.take import take_survey
from tests.wire.cluster import RecordingFailed, until

TOPIC: Final = "orders"
BROKERS: Final = (1, 2, 3)
DELETE_DELAY_MS: Final = 1_000
FILL_BYTES: Final = 300_000
_LOOK_EVERY_S: Final = 0.002
_QUIET_S: Final = 0.5
_PING: Final = b"\xff\xff\xff\xfe"
"""How ZooKeeper's pings and their answers begin."""


class Directories(NamedTuple):
    """The topic's directories on one broker from a moment on: name to size in bytes."""

    time_ns: int
    broker: int
    found: Mapping[str, int]


@dataclass(slots=True)
class Recording:
    """One deletion. Frames are those since the mark, by the peer of the controller that they were exchanged with."""

    marked_ns: int
    zookeeper: list[Frame] = field(default_factory=list)
    brokers: dict[int, list[Frame]] = field(default_factory=dict)
    directories: list[Directories] = field(default_factory=list)
    """The first of each broker is from before the mark."""
    znodes_before: dict[str, bytes | None] = field(default_factory=dict)
    znodes_after: dict[str, bytes | None] = field(default_factory=dict)
    records: list[JournalEntry] = field(default_factory=list)
    """From the controller's journal, since the mark."""


async def record(topic_id: TopicId) -> Recording:
    """Run the cluster, create the topic, delete it and wait for the last byte. Raises RecordingFailed, and what
    starting a cluster raises."""
    async with _cluster() as (cluster, zookeeper, brokers), cluster.session() as session:
        await _create(cluster, session, topic_id)
        await _quiet([zookeeper, *brokers.values()])
        seen = {proxy.name: len(proxy.frames) for proxy in (zookeeper, *brokers.values())}
        recording = Recording(0, znodes_before=await _znodes(session))

        async def has_directories() -> bool:
            return len(recording.directories) >= len(BROKERS)

        watching = asyncio.create_task(_watch_disks(cluster, recording.directories), name="disks")
        try:
            await until(has_directories, "the directories were not found")
            recording.marked_ns = time.time_ns()
            (outcome,) = await mark_for_deletion(session, [TOPIC])
            if outcome.problem is not None:
                raise RecordingFailed(outcome.problem)
            await _gone(session, recording.directories)
            await _quiet([zookeeper, *brokers.values()])
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        recording.znodes_after = await _znodes(session)
        recording.zookeeper = zookeeper.frames[seen[zookeeper.name] :]
        recording.brokers = {number: proxy.frames[seen[proxy.name] :] for number, proxy in brokers.items()}
        recording.records = _records(cluster, recording.marked_ns)
        return recording


# --- the cluster --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _cluster() -> AsyncIterator[tuple[LocalCluster, RecordingProxy, dict[int, RecordingProxy]]]:
    made: list[LocalCluster] = []

    def finder(number: int) -> FindAddress:
        async def broker_address() -> Address:
            try:
                return await made[0].broker(number).listener()
            except DaemonFailed as failed:
                raise OSError(str(failed)) from failed

        return broker_address

    async with AsyncExitStack() as stack:
        server = EmbeddedZooKeeper()
        stack.callback(server.close)
        await server.start_async()

        async def zookeeper_address() -> Address:
            return "127.0.0.1", server.port

        zookeeper = await stack.enter_async_context(RecordingProxy("ZooKeeper", zookeeper_address))
        brokers = {
            number: await stack.enter_async_context(RecordingProxy(f"broker {number}", finder(number)))
            for number in BROKERS
        }
        settings = ClusterSettings(
            controllers=1,
            brokers=len(BROKERS),
            log_dirs=1,
            zookeeper_connect=server.connect_string,
            controller_properties={"zookeeper.connect": f"127.0.0.1:{zookeeper.port}"},
            broker_properties={
                "lethe.fill.bytes": str(FILL_BYTES),
                "lethe.fill.segment.bytes": "100000",
                "log.segment.delete.delay.ms": str(DELETE_DELAY_MS),
            },
            own_properties={
                number: {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
                for number, proxy in brokers.items()
            },
        )
        made.append(LocalCluster(settings))
        await stack.enter_async_context(made[0])
        yield made[0], zookeeper, brokers


async def _quiet(proxies: Sequence[RecordingProxy]) -> None:
    """Wait until nothing but pings has passed for a while."""

    async def is_quiet() -> bool:
        times = [frame.time_ns for proxy in proxies for frame in proxy.frames if frame.payload[:4] != _PING]
        return time.time_ns() - max(times, default=0) > _QUIET_S * 1e9

    await until(is_quiet, "the cluster did not come to rest")


async def _create(cluster: LocalCluster, session: ZooKeeperSession, topic_id: TopicId) -> None:
    plan = TopicPlan(TOPIC, topic_id, (BROKERS,), {"retention.ms": "86400000"})
    (outcome,) = await create_topics(session, [plan])
    if outcome.problem is not None:
        raise RecordingFailed(outcome.problem)

    async def is_created() -> bool:
        survey = await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs)
        filled = [view for view in survey.log_dirs if any(d.size_bytes >= FILL_BYTES for d in view.directories)]
        known = [answer.cache is not None and TOPIC in answer.cache for answer in survey.answers]
        return len(filled) == len(BROKERS) and all(known)

    await until(is_created, "the topic was not created")


async def _gone(session: ZooKeeperSession, directories: list[Directories]) -> None:
    async def is_gone() -> bool:
        topic, marker = await session.read([Exists(paths.topic(TOPIC)), Exists(paths.delete_topic(TOPIC))])
        latest = {each.broker: each.found for each in directories}
        return isinstance(topic, ReadFailed) and isinstance(marker, ReadFailed) and not any(latest.values())

    await until(is_gone, "the topic was not deleted")


# --- what there is ------------------------------------------------------------------------------------------------


async def _znodes(session: ZooKeeperSession) -> dict[str, bytes | None]:
    """The znodes that a topic's life is about, in the order of their paths."""
    fixed = [paths.CONTROLLER_EPOCH, paths.CONTROLLER, paths.config_topic(TOPIC)]
    found: dict[str, bytes | None] = {}
    waiting = [*fixed, paths.DELETE_TOPICS, paths.BROKER_TOPICS]
    while waiting:
        path = waiting.pop()
        data, children = await session.read([GetData(path), GetChildren(path)])
        if isinstance(data, Data) and isinstance(children, Children):
            found[path] = data.data
            waiting += [f"{path}/{name}" for name in children.names]
    return dict(sorted(found.items()))


async def _watch_disks(cluster: LocalCluster, into: list[Directories]) -> None:
    """Note each change of the topic's directories. Reading a few names is quicker than handing it to a thread."""
    last: dict[int, Mapping[str, int]] = {}
    while True:
        for broker, log_dirs in cluster.log_dirs.items():
            found = {path.name: _size(path) for log_dir in log_dirs for path in sorted(log_dir.glob(f"{TOPIC}-*"))}
            if last.get(broker) != found:
                last[broker] = found
                into.append(Directories(time.time_ns(), broker, found))
        await asyncio.sleep(_LOOK_EVERY_S)


def _size(path: Path) -> int:
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries)
    except FileNotFoundError:
        return 0  # renamed or removed since it was listed


def _records(cluster: LocalCluster, since_ns: int) -> list[JournalEntry]:
    (controller,) = cluster.controllers
    journal = b"".join(file.read_bytes() for file in sorted(controller.journal_dir.glob("*.jsonl")))
    entries = [entry for entry in decode_lines(journal.splitlines(keepends=True)) if isinstance(entry, JournalEntry)]
    return [entry for entry in entries if entry.time_ms >= since_ns // 1_000_000]
