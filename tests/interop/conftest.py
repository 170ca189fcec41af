"""Clusters with real Kafka in them, for the tests of this directory."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

import pytest

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.session import open_session
from lethe.cluster.kafka_fetch import KafkaDistribution, KafkaVersion, fetch_kafka
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from tests.interop.secure_listeners import LETHE, SecureListeners

START_LIMIT_S = 180.0
"""Three JVMs on a machine that is busy with something else."""
LONGEST: Final = ("test_wire.py", "test_story_brokers.py")
"""They take more than a minute, so they run first: with `-n 2` the other process runs the rest meanwhile."""
WHOSE: Final = [pytest.param(1, id="ours"), pytest.param(0, id="kafkas", marks=pytest.mark.slow)]
"""For tests that take `controllers`: the number of ours. Without any, Kafka's own controller must pass them as well."""


def versions() -> list[str]:
    """Those that are tried: `$LETHE_KAFKA`, separated by blanks."""
    return os.environ.get("LETHE_KAFKA", "").split() or ["3.9.1", "2.5.1"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)


class MakeCluster(Protocol):
    """Makes a cluster of real brokers, to be entered with `async with`. Their ids follow those of the agents.

    Without controllers one of the real brokers takes control. Controllers are guests unless they are `listed`. It has a
    ZooKeeper of its own unless one is given; logs and data stay in pytest's temporary directory for a look afterwards.
    """

    def __call__(
        self,
        version: str,
        brokers: int = 3,
        *,
        agents: int = 0,
        controllers: int = 1,
        racks: Sequence[str] = (),
        log_dirs: int = 2,
        listed: bool = False,
        session_timeout_ms: int = 6_000,
        properties: Mapping[str, str] | None = None,
        agent_properties: Mapping[str, str] | None = None,
        controller_properties: Mapping[str, str] | None = None,
        own_properties: Mapping[int, Mapping[str, str]] | None = None,
        zookeeper_connect: str | None = None,
    ) -> LocalCluster: ...


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `version` runs once with each."""
    if "version" in metafunc.fixturenames:
        metafunc.parametrize("version", versions())


@pytest.fixture
def kafka_cluster(tmp_path: Path) -> MakeCluster:
    made = 0

    def make(
        version: str,
        brokers: int = 3,
        *,
        agents: int = 0,
        controllers: int = 1,
        racks: Sequence[str] = (),
        log_dirs: int = 2,
        listed: bool = False,
        session_timeout_ms: int = 6_000,
        properties: Mapping[str, str] | None = None,
        agent_properties: Mapping[str, str] | None = None,
        controller_properties: Mapping[str, str] | None = None,
        own_properties: Mapping[int, Mapping[str, str]] | None = None,
        zookeeper_connect: str | None = None,
    ) -> LocalCluster:
        nonlocal made
        made += 1
        return LocalCluster(
            ClusterSettings(
                controllers=controllers,
                brokers=agents,
                log_dirs=log_dirs,
                kafka=fetched(version),
                kafka_brokers=brokers,
                racks=tuple(racks),
                listed=listed,
                work_dir=tmp_path / f"cluster-{made}",
                session_timeout_ms=session_timeout_ms,
                controller_properties=controller_properties or {},
                broker_properties=agent_properties or {},
                # A client that still asks for a topic must not bring it back.
                kafka_properties={"auto.create.topics.enable": "false", **(properties or {})},
                own_properties=own_properties or {},
                zookeeper_connect=zookeeper_connect,
                start_limit_s=START_LIMIT_S,
            )
        )

    return make


class MakeSecureCluster(Protocol):
    """Makes a cluster of real brokers that ask their clients who they are. Controllers of ours are the user `lethe`;
    they are guests unless they are `listed`. Without them one of the real brokers takes control."""

    def __call__(
        self,
        kind: type[SecureListeners],
        version: str,
        brokers: int = 2,
        *,
        controllers: int = 0,
        listed: bool = False,
        controller_properties: Mapping[str, str] | None = None,
    ) -> AbstractAsyncContextManager[tuple[LocalCluster, SecureListeners]]: ...


@pytest.fixture
def secure_cluster(kafka_cluster: MakeCluster, tmp_path: Path) -> MakeSecureCluster:
    @asynccontextmanager
    async def make(
        kind: type[SecureListeners],
        version: str,
        brokers: int = 2,
        *,
        controllers: int = 0,
        listed: bool = False,
        controller_properties: Mapping[str, str] | None = None,
    ) -> AsyncIterator[tuple[LocalCluster, SecureListeners]]:
        directory = tmp_path / "security"
        directory.mkdir()
        listeners = kind(directory)
        ours = listeners.member_properties(LETHE) if listed else listeners.daemon_properties(LETHE)
        async with EmbeddedZooKeeper(ZooKeeperSettings(data_dir=tmp_path / "zookeeper")) as zookeeper:
            config = ZooKeeperConfig(parse_connect_string(zookeeper.connect_string))
            async with open_session(config, lambda _: None) as session:
                await listeners.prepare(session)
            cluster = kafka_cluster(
                version,
                brokers,
                controllers=controllers,
                log_dirs=1,
                properties=listeners.broker_properties(),
                listed=listed,
                controller_properties={**ours, **(controller_properties or {})},
                zookeeper_connect=zookeeper.connect_string,
            )
            async with cluster:
                yield cluster, listeners

    return make


def fetched(version: str) -> KafkaDistribution:
    """From the cache, or from afar where it is not there yet."""
    return fetch_kafka(KafkaVersion.parse(version), print)
