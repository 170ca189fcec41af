"""Deletions held back and forced from the command line, with a real controller and real agents."""

from __future__ import annotations

import asyncio

import pytest

from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import SetData
from tests.fakes.command_line import Lethe
from tests.fakes.zookeeper_cluster import apply

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes]


async def test_a_paused_deletion_waits_and_an_unreadable_topic_goes_when_ordered(zookeeper_chroot: str) -> None:
    async with LocalCluster(ClusterSettings(controllers=1, brokers=1, zookeeper_connect=zookeeper_chroot)) as cluster:
        lethe = Lethe(cluster.zookeeper_connect)
        for name in ("held", "odd"):
            assert (await lethe("topics", "create", "--topic", name, "--replica-assignment", "1")).code == 0
        async with asyncio.timeout(90):
            while (await lethe("topics", "describe", "--unavailable-partitions")).out:
                pass
        paused = await lethe("topics", "pause-deletions", "--reason", "an audit", "--json")
        assert (paused.code, paused.data["heeded"]) == (0, True)
        held = await lethe("topics", "delete", "--topic", "held", "--wait", "--timeout-ms", "1500")
        assert held.code == 4
        assert "an audit" in held.err
        assert (await lethe("topics", "list")).out == "held - marked for deletion, which is paused\nodd\n"
        back = await lethe("topics", "undelete", "held")
        assert (back.code, back.out) == (0, "Topic held is no longer marked, and stays.\n"), back
        assert (await lethe("topics", "list")).out == "held\nodd\n"
        assert (await lethe("topics", "resume-deletions")).code == 0
        again = await lethe("topics", "delete", "--topic", "held", "--if-exists", "--wait", "--timeout-ms", "90000")
        assert again.code == 0, again

        async with cluster.session() as session:
            await apply(session, SetData(paths.topic("odd"), b"\x00", -1))
        await (await cluster.active_controller()).kill()
        await cluster.controllers[0].start()
        await cluster.active_controller()
        assert (await lethe("topics", "delete", "--topic", "odd")).code == 0
        ordered = await lethe("topics", "delete", "--topic", "odd", "--unreadable", "--yes")
        assert ordered.code == 0, ordered
        assert "WARNING" not in ordered.out
        async with asyncio.timeout(90):
            while (await lethe("topics", "list")).out:
                pass
