"""`lethe topics alter` and `lethe partitions` as their users run them, against a real ZooKeeper."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData
from tests.fakes.command_line import Lethe
from tests.fakes.zookeeper_cluster import bring_online, elect, prepare

pytestmark = pytest.mark.zookeeper


@pytest.fixture
async def session(zookeeper_chroot: str) -> AsyncIterator[ZooKeeperSession]:
    """Three brokers' registrations and a controller, in a chroot of their own. Nobody listens, nobody acts."""
    config = ZooKeeperConfig(parse_connect_string(zookeeper_chroot), session_timeout_ms=20_000)
    async with open_session(config, lambda _: None) as session:
        await prepare(session, {1: None, 2: None, 3: None})
        await elect(session, 1)
        yield session


@pytest.fixture
def lethe(zookeeper_chroot: str, session: ZooKeeperSession) -> Lethe:
    return Lethe(zookeeper_chroot)


async def _json(session: ZooKeeperSession, path: str) -> Any:
    (found,) = await session.read([GetData(path)])
    return json.loads(found.data or b"null") if isinstance(found, Data) else None


async def test_partitions_and_settings_are_added(lethe: Lethe, session: ZooKeeperSession) -> None:
    await lethe("topics", "create", "--topic", "orders", "--replica-assignment", "1:2")
    alter = ("topics", "alter", "orders", "--partitions", "2", "--config", "retention.ms=5", "--no-wait")
    altered = await lethe(*alter)
    assert altered.code == 0
    assert altered.out.splitlines()[1:3] == ["\tPartitions: 1 -> 2", "\tPartition: 1\tReplicas: 2,3"]
    assert (await _json(session, paths.topic("orders")))["partitions"] == {"0": [1, 2], "1": [2, 3]}
    assert (await _json(session, paths.config_change("0000000000")))["entity_path"] == "topics/orders"
    again = await lethe(*alter)
    assert again.code == 1
    assert "has 2 partitions already" in again.err


async def test_a_reassignment_from_the_proposal_to_the_list(
    lethe: Lethe, session: ZooKeeperSession, tmp_path: Path
) -> None:
    await lethe("topics", "create", "--topic", "orders", "--replica-assignment", "1:2")
    await bring_online(session, "orders", {0: (1, 2)})
    spread = ("--topics", "orders", "--brokers", "3", "--generate")
    refused = await lethe("partitions", "reassign", *spread)
    assert refused.code == 1
    assert "replication factor 2 is larger" in refused.err
    generated = await lethe("partitions", "reassign", "--topics", "orders", "--brokers", "2,3", "--generate")
    file = tmp_path / "moves.json"
    file.write_text(generated.out.splitlines()[-1])
    unasked = await lethe("partitions", "reassign", "--file", str(file))
    assert unasked.code == 2
    assert "give --yes to confirm" in unasked.err
    assert await _json(session, paths.REASSIGN_PARTITIONS) is None
    done = await lethe("partitions", "reassign", "--file", str(file), "--yes", "--json")
    assert (done.code, done.data["requested"]) == (0, True)
    assert await _json(session, paths.REASSIGN_PARTITIONS) == json.loads(file.read_text())
    listed = await lethe("partitions", "reassign", "--list", "--json")
    assert [(one["topic"], one["state"]) for one in listed.data] == [("orders", "requested")]
    assert (await lethe("partitions", "reassign", "--verify", str(file))).code == 4
    contradictory = await lethe("partitions", "reassign", "--list", "--cancel")
    assert contradictory.code == 2


async def test_pausing(lethe: Lethe, session: ZooKeeperSession) -> None:
    paused = await lethe("topics", "pause-deletions", "--reason", "an audit")
    assert paused.code == 0
    assert "is not Lethe's" in paused.out
    assert (await _json(session, paths.DELETIONS_PAUSED))["reason"] == "an audit"
    assert (await lethe("topics", "resume-deletions")).code == 0
    assert await _json(session, paths.DELETIONS_PAUSED) is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_unclean_election_puts_the_setting_back(
    lethe: Lethe, session: ZooKeeperSession, number: signal.Signals
) -> None:
    await lethe("topics", "create", "--topic", "orders", "--replica-assignment", "1:2", "--config", "retention.ms=5")
    await bring_online(session, "orders", {0: (9,)})
    before = await _json(session, paths.config_topic("orders"))
    arguments = ("partitions", "elect", "--unclean", "orders:0", "--yes", "--zookeeper", lethe.connect)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "lethe", *arguments, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(90):
            while await _json(session, paths.config_topic("orders")) == before:
                pass
            process.send_signal(number)
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 130
    assert f"received {number.name}: the settings are put back" in err.decode()
    assert await _json(session, paths.config_topic("orders")) == before
