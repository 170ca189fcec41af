"""An agent that only acknowledges, over real sockets and on a real disk."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from lethe.broker.runtime.app import AgentApp, ExitCode
from lethe.protocol.kafka.codec import encode_control_body
from lethe.protocol.kafka.control import (
    Addressed,
    ApiKey,
    ControlRequest,
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
    api_of,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataRequest, MetadataResponse
from lethe.protocol.kafka.versions import SPOKEN
from lethe.protocol.vocabulary import BrokerEpoch
from tests.fakes.agents import agent_config, connected, running
from tests.fakes.zookeeper import FakeZooKeeper
from tests.unit.broker.core.driver import become, live, metadata, stop, tombstone


def addressed(app: AgentApp, request: ControlRequest, off_by: int = 0) -> Addressed:
    return Addressed(request, BrokerEpoch(app.loop.state.broker_epoch + off_by))


def entries(root: Path) -> list[str]:
    return sorted(path.name for log_dir in ("a", "b") for path in (root / log_dir).iterdir())


async def test_everything_is_acknowledged_and_nothing_done(tmp_path: Path) -> None:
    config = agent_config(tmp_path, lethe_acknowledge_only="true")
    async with running(config, FakeZooKeeper().open_session) as app, connected(app) as connection:
        before = entries(tmp_path)
        led = await connection.ask(addressed(app, become(is_new=True, partitions=(0, 1))))
        assert isinstance(led, LeaderAndIsrResponse)
        assert [(row.partition, row.error) for row in led.rows] == [(0, ErrorCode.NONE), (1, ErrorCode.NONE)]
        told = await connection.ask(addressed(app, metadata(partitions=(0, 1), brokers=live(1))))
        assert told == UpdateMetadataResponse(ErrorCode.NONE)
        cluster = await connection.ask(MetadataRequest(None))
        assert isinstance(cluster, MetadataResponse)
        assert cluster.topics == ()
        await connection.ask(addressed(app, tombstone(partitions=(0, 1))))
        stopped = await connection.ask(addressed(app, stop(partitions=(0, 1))))
        assert isinstance(stopped, StopReplicaResponse)
        assert [(*row,) for row in stopped.rows] == [("t", 0, ErrorCode.NONE), ("t", 1, ErrorCode.NONE)]
        assert entries(tmp_path) == before
        assert app.loop.state.replicas == {}


async def test_epochs_are_checked_all_the_same(tmp_path: Path) -> None:
    config = agent_config(tmp_path, lethe_acknowledge_only="true")
    async with running(config, FakeZooKeeper().open_session) as app, connected(app) as connection:
        stale = await connection.ask(addressed(app, stop(), off_by=-1))
        assert stale == StopReplicaResponse(ErrorCode.STALE_BROKER_EPOCH, ())
        await connection.ask(addressed(app, stop(controller_epoch=5)))
        stale = await connection.ask(addressed(app, stop(controller_epoch=4)))
        assert stale == StopReplicaResponse(ErrorCode.STALE_CONTROLLER_EPOCH, ())


async def test_replicas_keep_it_from_starting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a" / "orders-0").mkdir(parents=True)
    config = agent_config(tmp_path, lethe_acknowledge_only="true")
    with caplog.at_level(logging.CRITICAL):
        assert await AgentApp(config, FakeZooKeeper().open_session).run() == ExitCode.CANNOT_START
    assert "hold 1 replica" in caplog.text
    assert "log.dirs" in caplog.text
    assert (tmp_path / "a" / "orders-0").is_dir()


async def test_the_bytes_of_requests_are_counted(tmp_path: Path) -> None:
    config = agent_config(tmp_path)
    request = metadata(partitions=tuple(range(50)), brokers=live(1))
    async with running(config, FakeZooKeeper().open_session) as app, connected(app) as connection:
        await connection.ask(addressed(app, request))
        text = app.metrics.text().decode()
    found = re.search(r'^lethe_agent_request_bytes_total\{api="UPDATE_METADATA"\} (\S+)$', text, re.MULTILINE)
    assert found is not None
    version = SPOKEN[ApiKey.UPDATE_METADATA].max
    assert api_of(request) is ApiKey.UPDATE_METADATA
    buffers = encode_control_body(request, version).frame(0, "test", BrokerEpoch(1))
    assert float(found[1]) == sum(map(len, buffers))
