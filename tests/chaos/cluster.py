"""The cluster under test: a ZooKeeper ensemble, controllers, agents and Kafka brokers, each behind gates."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from lethe.cluster.daemons import BrokerDaemon, ControllerDaemon, Daemon, Member
from lethe.cluster.kafka import KafkaBroker
from lethe.cluster.kafka_fetch import KafkaDistribution
from lethe.cluster.local import FIRST_BROKER_ID, FIRST_CONTROLLER_ID, ClusterSettings, LocalCluster
from lethe.cluster.loopback_server import Address
from tests.chaos.ensemble import HOST, Ensemble, free_ports
from tests.chaos.gate import Gate, lose_elections
from tests.fakes.full_disk import small_disk

CONTROLLERS, AGENTS, KAFKA_BROKERS, SERVERS = 3, 5, 2, 3
SESSION_TIMEOUT_MS: Final = 6_000
START_LIMIT_S: Final = 180.0
SMALL_DISK_BYTES: Final = 32 << 20
FILL_BYTES: Final = 65_536
CONTROLLER_PROPERTIES: Final = {
    "lethe.invariants.check": "true",
    "leader.imbalance.check.interval.seconds": "20",
    # So small that some dozens of topics take slices and parts, as a large cluster does with the defaults.
    "lethe.partitions.per.slice": "6",
    "lethe.removal.operations.per.group": "8",
    "lethe.broker.request.max.bytes": "1024",
}
AGENT_IDS: Final = tuple(range(FIRST_BROKER_ID, FIRST_BROKER_ID + AGENTS))
KAFKA_IDS: Final = tuple(range(AGENT_IDS[-1] + 1, AGENT_IDS[-1] + 1 + KAFKA_BROKERS))
CONTROLLER_IDS: Final = tuple(range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + CONTROLLERS))


@dataclass(slots=True)
class ChaosCluster:
    """Everything that runs. `disk` is the small file system; None where it cannot be mounted, as `no_disk` says."""

    ensemble: Ensemble
    local: LocalCluster
    listener_ports: dict[int, int]
    zookeeper_gates: dict[int, tuple[Gate, ...]]
    listener_gates: dict[int, Gate]
    disk: Path | None = None
    no_disk: str | None = None
    ended: list[str] = field(default_factory=list)
    """Processes that ended although nobody had killed them."""
    set_aside: list[str] = field(default_factory=list)
    """Directories that kept a Kafka broker from starting (`half_created`)."""

    @property
    def members(self) -> dict[int, Member]:
        return {each.id: each for each in (*self.local.controllers, *self.local.all_brokers)}

    @property
    def controllers(self) -> dict[int, ControllerDaemon]:
        return {each.id: each for each in self.local.controllers}

    @property
    def agents(self) -> dict[int, BrokerDaemon]:
        return {each.id: each for each in self.local.brokers}

    @property
    def kafka(self) -> dict[int, KafkaBroker]:
        return {each.id: each for each in self.local.kafka_brokers}

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        """Lethe's own."""
        return self.local.daemons

    @property
    def log_dirs(self) -> dict[int, tuple[Path, ...]]:
        """Every log directory by broker, the small disk included."""
        found = dict(self.local.log_dirs)
        if self.disk is not None:
            found[AGENT_IDS[-1]] = (found[AGENT_IDS[-1]][0], self.disk / "logs")
        return found

    def address(self, number: int) -> Address:
        """Return the listener of a broker or controller, behind its gate."""
        return HOST, self.listener_ports[number]


@asynccontextmanager
async def chaos_cluster(directory: Path, kafka: KafkaDistribution) -> AsyncIterator[ChaosCluster]:
    """Start all of it in an empty directory; at the end nothing of it runs, listens or is mounted."""
    ports = free_ports()
    ensemble = Ensemble(directory / "zookeeper", ports, SERVERS)
    numbers = (*CONTROLLER_IDS, *AGENT_IDS, *KAFKA_IDS)
    listener_ports = {number: next(ports) for number in numbers}
    zookeeper_gates = {number: _zookeeper_gates(ensemble, number) for number in numbers}
    listener_gates = {number: Gate((HOST, listener_ports[number])) for number in numbers}
    with contextlib.ExitStack() as mounts:
        disk, no_disk = _mount(mounts, directory / "disk")
        gates = [*listener_gates.values(), *(gate for some in zookeeper_gates.values() for gate in some)]
        await asyncio.gather(*(gate.open() for gate in gates))
        own = {
            number: {
                "zookeeper.connect": ",".join(f"{HOST}:{gate.port}" for gate in zookeeper_gates[number]),
                "listeners": f"PLAINTEXT://{HOST}:{listener_ports[number]}",
                "advertised.listeners": f"PLAINTEXT://{HOST}:{listener_gates[number].port}",
            }
            for number in numbers
        }
        if disk is not None:
            first = directory / "cluster" / f"broker-{AGENT_IDS[-1]}" / "logs-0"
            own[AGENT_IDS[-1]]["log.dirs"] = f"{first},{disk / 'logs'}"
        local = LocalCluster(_settings(directory / "cluster", ensemble.connect_string, kafka, own))
        try:
            await ensemble.start()
            async with local:
                yield ChaosCluster(ensemble, local, listener_ports, zookeeper_gates, listener_gates, disk, no_disk)
        finally:
            ensemble.close()
            await asyncio.gather(*(gate.close() for gate in gates))


def _settings(
    directory: Path, connect: str, kafka: KafkaDistribution, own: dict[int, dict[str, str]]
) -> ClusterSettings:
    return ClusterSettings(
        controllers=CONTROLLERS,
        brokers=AGENTS,
        kafka=kafka,
        kafka_brokers=KAFKA_BROKERS,
        listed=True,
        work_dir=directory,
        zookeeper_connect=connect,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        controller_properties=CONTROLLER_PROPERTIES,
        broker_properties={
            "replica.catch.up.delay.ms": "200",
            "log.segment.delete.delay.ms": "1000",
            "lethe.fill.bytes": str(FILL_BYTES),
            "lethe.fill.segment.bytes": str(FILL_BYTES // 2),
        },
        kafka_properties={
            "auto.create.topics.enable": "false",
            "log.index.size.max.bytes": "4096",
            "zookeeper.connection.timeout.ms": "60000",
        },
        own_properties=own,
        start_limit_s=START_LIMIT_S,
    )


def _zookeeper_gates(ensemble: Ensemble, number: int) -> tuple[Gate, ...]:
    change = lose_elections if number in KAFKA_IDS else None
    return tuple(Gate((HOST, server.port), change) for server in ensemble.servers)


def _mount(mounts: contextlib.ExitStack, place: Path) -> tuple[Path | None, str | None]:
    try:
        return mounts.enter_context(small_disk(place, SMALL_DISK_BYTES)), None
    except pytest.skip.Exception as reason:
        return None, str(reason)
