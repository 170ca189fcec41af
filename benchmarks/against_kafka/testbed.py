"""ZooKeeper and agents, which serve all turns with one kind of agents. Controllers come and go.

ZooKeeper runs with its defaults, as in production: it forces each transaction to the disk. Each turn starts with the
same state: no topic, no marker.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.against_kafka import contestants
from benchmarks.against_kafka.bystander import Bystander
from benchmarks.against_kafka.observer import ActiveController, Observer
from benchmarks.against_kafka.plan import KEPT_TRANSACTIONS, AgentMode
from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.cluster.daemons import BrokerDaemon, Member
from lethe.cluster.kafka_fetch import KafkaDistribution
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData
from lethe.protocol.zookeeper.packing import GroupDone, MultiPlan

SESSION_TIMEOUT_MS: Final = 30_000
START_LIMIT_S: Final = 120.0
POLL_S: Final = 0.01
_NOT_DURING_THE_RUN_MS: Final = 3_600_000
_FILLER: Final = "/lethe-bench"
"""Znode of the transactions that fill ZooKeeper's log."""


class FurtherProperties(NamedTuple):
    """Properties beside those that every run has."""

    agents: Mapping[str, str]
    """Of each agent."""
    controllers: Mapping[str, Mapping[str, str]]
    """Of single controllers, by name."""


NONE: Final = FurtherProperties({}, {})


class BenchmarkFailed(Exception):
    """An expected event did not happen in time; the message names it."""


@dataclass(frozen=True, slots=True)
class Testbed:
    """ZooKeeper, agents and session of all turns."""

    directory: Path
    agents: Sequence[BrokerDaemon]
    zookeeper: EmbeddedZooKeeper
    session: ZooKeeperSession
    observer: Observer
    bystander: Bystander
    empty_heap_mb: float | None
    """ZooKeeper's live heap before the first turn; None without jcmd."""
    common: Mapping[str, str]
    kafka: KafkaDistribution | None
    """None: Kafka's controller is not run."""
    own: Mapping[str, Mapping[str, str]]
    """Properties of single controllers, by name."""

    @asynccontextmanager
    async def turn(self, name: str, number: int) -> AsyncIterator[tuple[Member, ActiveController]]:
        """Yield an active controller; afterwards it is stopped and has given up control."""
        directory = self.directory / f"{name}-{number}"
        properties = {**self.common, **self.own.get(name, {})}
        member = contestants.make(name, directory, properties, self.kafka, self._session)
        try:
            await member.start(START_LIMIT_S)
            yield member, await self.wait_for_controller(contestants.broker_id(name))
            await member.stop(60)
            await self.until(self._has_no_controller, f"{name} has given control up", START_LIMIT_S)
        finally:
            member.process.close()

    async def wait_for_controller(self, broker_id: int, *, after: int = -1) -> ActiveController:
        """Return the controller with that id, once it is elected after that zxid. Raises BenchmarkFailed."""
        found: list[ActiveController] = []

        async def leads() -> bool:
            holder = await self.observer.holder()
            if holder is not None and holder.broker_id == broker_id and holder.czxid > after:
                found.append(holder)
            return bool(found)

        await self.until(leads, f"controller {broker_id} leads", START_LIMIT_S)
        return found[0]

    @staticmethod
    async def until(
        condition: Callable[[], Awaitable[bool]], what: str, limit_s: float, *, poll_s: float = POLL_S
    ) -> None:
        """Wait for the condition. Raises BenchmarkFailed after the limit."""
        deadline = time.monotonic() + limit_s
        while not await condition():
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"not within {limit_s:.0f} s: {what}")
            await asyncio.sleep(poll_s)

    async def fill_log(self) -> None:
        """Replace all transactions that ZooKeeper keeps in memory by small ones, so that all workloads start equal."""
        await fill_log(self.session)

    async def _has_no_controller(self) -> bool:
        return await self.observer.holder() is None

    def _session(self) -> AbstractAsyncContextManager[ZooKeeperSession]:
        return open_session(_config(self.zookeeper), lambda _: None)


@asynccontextmanager
async def testbed(
    kafka: KafkaDistribution | None,
    disk: AgentMode,
    brokers: int,
    logs: Path | None,
    further: FurtherProperties,
) -> AsyncIterator[Testbed]:
    """Yield ZooKeeper and so many agents, running. Their files are removed at the end, or kept in `logs`."""
    directory = Path(tempfile.mkdtemp(prefix="lethe-bench-")) if logs is None else logs / f"{disk}-{brokers}"
    settings = ZooKeeperSettings(data_dir=directory / "zookeeper", heap_mb=1024, durable=True)
    agents: list[BrokerDaemon] = []
    zookeeper = EmbeddedZooKeeper(settings)
    bystander: Bystander | None = None
    try:
        await zookeeper.start_async()
        common = {
            "zookeeper.connect": zookeeper.connect_string,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        }
        agents += [_agent(number, directory, disk, {**common, **further.agents}) for number in range(1, brokers + 1)]
        for agent in agents:
            agent.launch()
        for agent in agents:
            await agent.wait_ready(START_LIMIT_S)
        bystander = Bystander(zookeeper.connect_string, directory)
        bystander.start()
        async with open_session(_config(zookeeper), lambda _: None) as session:
            observer = Observer(zookeeper, session, agents)
            await fill_log(session)
            empty_heap_mb = await observer.live_heap_mb()
            yield Testbed(
                *(directory, agents, zookeeper, session, observer, bystander, empty_heap_mb, common, kafka),
                further.controllers,
            )
    finally:
        if bystander is not None:
            bystander.close()
        for agent in agents:
            agent.process.close()
        zookeeper.close()
        if logs is None:
            shutil.rmtree(directory, ignore_errors=True)


async def fill_log(session: ZooKeeperSession) -> None:
    """Write as many small transactions as ZooKeeper keeps in memory. Raises BenchmarkFailed."""
    data = bytes(100)
    # That it is there already is no failure.
    await session.write(MultiPlan([(Create(_FILLER, data),)], None))
    writes = (
        session.write(MultiPlan([(SetData(_FILLER, data, ANY_VERSION),)], None)) for _ in range(KEPT_TRANSACTIONS)
    )
    for (outcome,) in await asyncio.gather(*writes):
        if not isinstance(outcome, GroupDone):
            raise BenchmarkFailed(f"ZooKeeper's log cannot be filled: {outcome}")


def _agent(number: int, directory: Path, disk: AgentMode, common: Mapping[str, str]) -> BrokerDaemon:
    own = {
        "lethe.acknowledge.only": str(disk is AgentMode.NONE).lower(),
        # Bytes go a minute after the acknowledgement, which is what is measured: not into the next turn.
        "log.segment.delete.delay.ms": str(_NOT_DURING_THE_RUN_MS),
        "replica.catch.up.delay.ms": "0",
        "controlled.shutdown.enable": "false",
    }
    return BrokerDaemon(number, directory / f"broker-{number}", 2, {**common, **own})


def _config(zookeeper: EmbeddedZooKeeper) -> ZooKeeperConfig:
    return ZooKeeperConfig(parse_connect_string(zookeeper.connect_string), session_timeout_ms=SESSION_TIMEOUT_MS)
