"""Protected topics, paced deletions and plans against a whole cluster of agents: processes, and a real ZooKeeper."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Data, Exists, GetData, MultiDone, is_absent
from lethe.protocol.zookeeper.znodes import ConfigChange, decode_controller, encode_config, encode_config_change
from tests.fakes.command_line import Lethe

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes]


async def pace_told(session: ZooKeeperSession) -> Any:
    """What the controller's `/state` says of the pace."""
    (found,) = await session.read([GetData(paths.CONTROLLER)])
    assert isinstance(found, Data)
    async with aiohttp.ClientSession() as client, client.get(f"{decode_controller(found.data).admin}/state") as answer:
        return (await answer.json())["pace"]


async def test_what_is_protected_stays_and_what_waits_for_its_turn_says_so(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    settings = ClusterSettings(
        controllers=1,
        brokers=1,
        zookeeper_connect=zookeeper_chroot,
        controller_properties={
            "lethe.protected.topics": "kept*",
            "lethe.deletion.topics.per.second": "0.001",
            "lethe.deletion.bytes.per.second": "1000000000",
        },
    )
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        lethe, file = Lethe(cluster.zookeeper_connect), tmp_path / "plan.json"
        for name in ("first", "second", "kept"):
            assert (await lethe("topics", "create", "--topic", name, "--replica-assignment", "1")).code == 0
        async with asyncio.timeout(90):
            while (await lethe("topics", "describe", "--unavailable-partitions")).out:
                pass
        refused = await lethe("topics", "delete", "kept")
        assert (refused.code, "by the pattern kept*" in refused.err) == (1, True)
        marked = await session.multi([Create(paths.delete_topic("kept"), None)])
        assert isinstance(marked, MultiDone)
        async with asyncio.timeout(30):
            while not is_absent((await session.read([Exists(paths.delete_topic("kept"))]))[0]):
                pass
        # Agents store no records, so that their offsets are unseen.
        planned = await lethe("topics", "plan-delete", "first", "second", "--out", str(file), "--json")
        assert planned.code == 3
        assert all(topic["unseen"] and topic["size_bytes"] is not None for topic in planned.data["topics"])
        unseen = await lethe("topics", "delete", "--plan", str(file), "--yes")
        assert (unseen.code, "--accept-unseen deletes none the less" in unseen.err) == (1, True)
        done = await lethe("topics", "delete", "--plan", str(file), "--yes", "--accept-unseen")
        assert done.code == 0, done
        async with asyncio.timeout(60):
            while "first" in (await lethe("topics", "list")).out:
                pass
            while (told := await pace_told(session))["waiting"] != 1 or told["unknown_sizes"]:
                pass
        assert told["topics_per_second"] == 0.001
        assert told["time_left_ms"] > 900_000
        waiting = await lethe("explain", "second")
        assert (waiting.code, "waits for its turn: deletions are paced" in waiting.out) == (6, True)
        config = {"lethe.deletion.topics.per.second": "0", "lethe.protected.topics": "kept*"}
        change = encode_config_change(ConfigChange(f"brokers/{paths.DEFAULT_ENTITY}"))
        await session.ensure_path(paths.CONFIG_BROKERS)
        for write in (
            Create(paths.config_broker_default(), encode_config(config)),
            Create(paths.config_change(), change, sequential=True),
        ):
            assert isinstance(await session.multi([write]), MultiDone)
        async with asyncio.timeout(60):
            while (await lethe("topics", "list")).out != "kept\n":
                pass
