"""The log of a controller process that deletes many topics: a line for each cause, and none for each topic."""

from __future__ import annotations

import asyncio
import re

import pytest

from lethe.cluster.local import ClusterSettings, LocalCluster
from tests.fakes.command_line import Lethe

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes]

TOPICS = 40


async def test_one_line_for_each_cause(zookeeper_chroot: str) -> None:
    settings = ClusterSettings(controllers=1, brokers=2, zookeeper_connect=zookeeper_chroot, session_timeout_ms=2_000)
    async with LocalCluster(settings) as cluster:
        lethe = Lethe(cluster.zookeeper_connect)
        first, second = (broker.id for broker in cluster.brokers)
        names = [f"topic-{number:02}" for number in range(TOPICS)]
        made = await lethe("topics", "create", *names, "--replica-assignment", f"{first}:{second}")
        assert made.code == 0, made
        async with asyncio.timeout(90):
            while (await lethe("topics", "describe", "--unavailable-partitions")).out:
                pass
        await cluster.broker(second).kill()
        waiting = await lethe("topics", "delete", *names, "--wait", "--timeout-ms", "8000")
        assert waiting.code == 4
        assert len(waiting.out.splitlines()) < 15, waiting.out
        assert len(waiting.err.splitlines()) < TOPICS, waiting.err
        log = cluster.controllers[0].log_file
        # How many topics have waited for long enough when the controller looks depends on when each was queued.
        what = re.compile(rf" topics? .*waits for broker {second}, which is not registered in ZooKeeper: start")
        async with asyncio.timeout(90):
            while what.search(log.read_text()) is None:
                await asyncio.sleep(0.1)
        await cluster.broker(second).start()
        ended = f"no topic has this cause any more: waits for broker {second}, which is not registered"
        async with asyncio.timeout(90):
            while ended not in log.read_text():
                await asyncio.sleep(0.1)
        text = log.read_text()
        assert text.count("which is not registered in ZooKeeper: start broker") == 1
        assert sum("topic-" in line for line in text.splitlines()) < TOPICS, text
