"""The trash gives way to a full disk: real brokers with small disks of their own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from lethe.cluster.local import LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Exists, Present
from tests.fakes.command_line import Lethe
from tests.interop.clients import bootstrap
from tests.interop.conditions import create, directories, is_whole, plan, until
from tests.interop.conftest import MakeCluster
from tests.interop.trashed_topics import PROPERTIES, needs_topic_ids

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(1_200),
]

DISK_MB = 200
FREE_PERCENT = 40
TRASH = ("a", "b", "c")
LIMIT_S = 600.0


@contextmanager
def small_disk(path: Path) -> Iterator[None]:
    """A disk of DISK_MB in memory, mounted there. Only root may do that."""
    path.mkdir(parents=True)
    mounted = subprocess.run(("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", path), check=False)
    if mounted.returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        yield
    finally:
        subprocess.run(("umount", "--lazy", path), check=True)


async def fill(cluster: LocalCluster, topic: str, megabytes: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap(cluster), acks="all") as producer, asyncio.timeout(120):
        for _ in range(megabytes * 2):
            await producer.send_and_wait(topic, os.urandom(500_000), partition=0)


def free_percent(path: Path) -> float:
    found = os.statvfs(path)
    return 100 * found.f_bavail / found.f_blocks


async def test_oldest_topic_gives_way_to_a_full_disk_and_only_it(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path
) -> None:
    needs_topic_ids(version)
    if os.geteuid():
        pytest.skip("only root may mount a small disk")
    disk, other = (tmp_path / "cluster-1" / f"broker-{number}" / "logs-0" for number in (1, 2))
    properties = {**PROPERTIES, "log.index.size.max.bytes": "65536"}
    limit = {"lethe.trash.free.percent": str(FREE_PERCENT)}
    cluster = kafka_cluster(version, 2, log_dirs=1, properties=properties, controller_properties=limit)
    with small_disk(disk), small_disk(other):
        async with cluster, cluster.session() as session:
            lethe = Lethe(cluster.zookeeper_connect)

            async def in_trash() -> list[str]:
                found = await session.read([Exists(paths.trashed(name)) for name in TRASH])
                return [name for name, each in zip(TRASH, found, strict=True) if isinstance(each, Present)]

            async def only(*names: str) -> None:
                async def are_left() -> bool:
                    return await in_trash() == [*names]

                await until(are_left, f"only {names} are in the trash", LIMIT_S)

            await create(session, *(plan(name, (1, 2), version=version) for name in (*TRASH, "grows")))
            for name in (*TRASH, "grows"):
                await until(is_whole(session, name, ((1, 2),)), f"{name} is whole")
            for name in TRASH:
                await fill(cluster, name, 25)
                assert (await lethe("topics", "delete", "--grace", "1h", "--wait", name)).code == 0
            assert free_percent(disk) > FREE_PERCENT
            await fill(cluster, "grows", 15)
            assert free_percent(disk) > FREE_PERCENT
            assert await in_trash() == [*TRASH]
            began_s = time.monotonic()
            await fill(cluster, "grows", 70)
            assert free_percent(disk) < FREE_PERCENT
            await only("b", "c")
            print(f"a gave way after {time.monotonic() - began_s:.0f} s")  # noqa: T201
            listed = await lethe("topics", "trash", "list")
            print(listed.out)  # noqa: T201
            assert "Topic a has given way to broker 1" in listed.out

            async def is_removed() -> bool:
                return not directories(cluster, "a")

            await until(is_removed, "the bytes of a are gone")
            freed = free_percent(disk)
            assert freed < FREE_PERCENT, "one topic is not enough"
            await only("c")
            print(f"b gave way after {time.monotonic() - began_s:.0f} s")  # noqa: T201
            await until(lambda: _is_above(disk), "enough is free")
            await asyncio.sleep(130)
            assert await in_trash() == ["c"], "and no more than is needed"
            back = await lethe("topics", "undelete", "c")
            assert back.code == 0, back


async def _is_above(disk: Path) -> bool:
    return free_percent(disk) > FREE_PERCENT
