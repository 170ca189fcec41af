"""`lethe survey` and bytes of deleted replicas that their broker has still to remove."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.session import open_session
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.znodes import encode_broker
from tests.fakes.answering_broker import AnsweringBroker, served
from tests.fakes.command_line import Lethe
from tests.fakes.zookeeper_cluster import apply, prepare

pytestmark = pytest.mark.zookeeper

RENAMED = "orders-0.0123456789abcdef0123456789abcdef-delete"


@asynccontextmanager
async def cluster(connect: str, broker: AnsweringBroker | None) -> AsyncIterator[None]:
    """Broker 1 is this one, or not registered."""
    config = ZooKeeperConfig(parse_connect_string(connect), session_timeout_ms=20_000)
    async with open_session(config, lambda _: None) as session:
        await prepare(session, {})
        if broker is None:
            yield
            return
        async with served(broker) as registered:
            data = encode_broker(registered, timestamp_ms=0)
            await apply(session, Create(paths.broker_id(1), data, ephemeral=True))
            yield


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    (tmp_path / RENAMED).mkdir()
    (tmp_path / RENAMED / "00000000000000000000.log").write_bytes(bytes(1_500))
    return tmp_path


@pytest.mark.parametrize(
    "config, delay",
    [
        ({"log.segment.delete.delay.ms": "3600000"}, "is 3600000"),
        # The test takes less than that and the minute that is allowed.
        ({}, "is not known and assumed to be 60000"),
    ],
)
async def test_bytes_within_the_delay_are_no_reason_to_page(
    zookeeper_chroot: str, log_dir: Path, config: dict[str, str], delay: str
) -> None:
    async with cluster(zookeeper_chroot, AnsweringBroker(config=config)):
        lethe = Lethe(zookeeper_chroot)
        told = await lethe("survey", f"--log-dir=1={log_dir}", "--json")
        shown = await lethe("survey", f"--log-dir=1={log_dir}")
    assert told.code == 0, told
    (finding,) = told.data["findings"]
    assert (finding["standing"], finding["within_delay"], told.data["clean"]) == ("pending", True, False)
    assert "due within" in finding["detail"]
    assert delay in finding["detail"]
    assert shown.code == 0
    assert "1 directory with 1,500 bytes will be removed within the brokers' delay." in shown.out


async def test_bytes_that_no_process_removes_are_one(zookeeper_chroot: str, log_dir: Path) -> None:
    async with cluster(zookeeper_chroot, None):
        told = await Lethe(zookeeper_chroot)("survey", f"--log-dir=1={log_dir}", "--json")
    assert told.code == 1, told
    (finding,) = told.data["findings"]
    assert "broker 1 is not registered" in finding["detail"]


async def test_anything_else_beside_them_is_one(zookeeper_chroot: str, log_dir: Path) -> None:
    (log_dir / "orders-1").mkdir()
    async with cluster(zookeeper_chroot, AnsweringBroker()):
        told = await Lethe(zookeeper_chroot)("survey", f"--log-dir=1={log_dir}", "--json")
    assert told.code == 1, told
    assert [finding["within_delay"] for finding in told.data["findings"]] == [True, False]
