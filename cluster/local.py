"""The whole local cluster: ZooKeeper, controllers, agents, real Kafka brokers, gone when the block is left.

    async with LocalCluster(ClusterSettings(controllers=2, brokers=3)) as cluster:
        active = await cluster.active_controller()
        await cluster.brokers[0].kill()

A temporary work directory goes with the cluster; one that was given stays, with logs, journals and data.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.cluster.daemons import (
    ANY_PORT,
    POLL_S,
    START_LIMIT_S,
    BrokerDaemon,
    ControllerDaemon,
    Daemon,
    DaemonFailed,
    Member,
)
from lethe.cluster.kafka import KafkaBroker, ibp_property, internal_topics, racks
from lethe.cluster.kafka_fetch import KafkaDistribution
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings

FIRST_CONTROLLER_ID: Final = 1001
FIRST_BROKER_ID: Final = 1


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What to start. Properties are Kafka's or Lethe's names, and override what is set here."""

    controllers: int = 2
    brokers: int = 3
    """Agents; their ids begin with 1."""
    log_dirs: int = 2
    """Of each broker, agent or real."""
    work_dir: Path | None = None
    """Where everything is kept; it may be missing or empty. None: a temporary directory, removed at the end."""
    zookeeper_connect: str | None = None
    """A ZooKeeper that runs already, with a chroot of our own; None starts one."""
    session_timeout_ms: int = 6_000
    controller_properties: Mapping[str, str] = field(default_factory=dict)
    broker_properties: Mapping[str, str] = field(default_factory=dict)
    """Of agents."""
    kafka_properties: Mapping[str, str] = field(default_factory=dict)
    """Of real brokers."""
    own_properties: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Of single daemons, by id; they override the others."""
    start_limit_s: float = START_LIMIT_S
    kafka: KafkaDistribution | None = None
    """What real brokers run. Controllers and agents then speak its inter-broker protocol."""
    kafka_brokers: int = 0
    """Real brokers; their ids follow those of the agents. They take control where there is no controller of ours."""
    racks: tuple[str, ...] = ()
    """Of the real brokers, in turn; none where it is empty."""
    listed: bool | None = None
    """Whether brokers are to find our controllers, which then have `listeners`; None: only where all are agents."""

    def __post_init__(self) -> None:
        if min(self.controllers + self.kafka_brokers, self.brokers + self.kafka_brokers, self.log_dirs) < 1:
            raise ValueError("a cluster needs at least one controller and one broker with one log directory")
        if min(self.controllers, self.brokers, self.kafka_brokers) < 0:
            raise ValueError("a cluster cannot have less than none of anything")
        if self.kafka_brokers and self.kafka is None:
            raise ValueError("real brokers need a version of Kafka that has been fetched")


class WorkDirectoryInUse(ValueError):
    """The work directory holds something that we would have to mix with, or lose."""


class LocalCluster:
    """One cluster. `zookeeper` is None where it was not ours to start."""

    def __init__(self, settings: ClusterSettings | None = None) -> None:
        self.settings: Final = settings or ClusterSettings()
        chosen = self.settings.work_dir
        if chosen is not None and chosen.exists() and (not chosen.is_dir() or any(chosen.iterdir())):
            raise WorkDirectoryInUse(f"{chosen} is not an empty directory; name another one, or empty it")
        self.work_dir: Final = Path(tempfile.mkdtemp(prefix="lethe-cluster-")) if chosen is None else chosen.resolve()
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self._finalizer = weakref.finalize(self, _remove, self.work_dir if chosen is None else None, os.getpid())
        self.zookeeper: Final = (
            EmbeddedZooKeeper(ZooKeeperSettings(data_dir=self.work_dir / "zookeeper"))
            if self.settings.zookeeper_connect is None
            else None
        )
        self.controllers: tuple[ControllerDaemon, ...] = ()
        """Empty until ZooKeeper is there, as `brokers` and `kafka_brokers`."""
        self.brokers: tuple[BrokerDaemon, ...] = ()
        """The agents."""
        self.kafka_brokers: tuple[KafkaBroker, ...] = ()

    # --- what it is -----------------------------------------------------------------------------------------------

    @property
    def zookeeper_connect(self) -> str:
        """`zookeeper.connect` of all daemons."""
        if self.settings.zookeeper_connect is not None:
            return self.settings.zookeeper_connect
        assert self.zookeeper is not None
        return self.zookeeper.connect_string

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        """Those that are Lethe's."""
        return (*self.controllers, *self.brokers)

    @property
    def all_brokers(self) -> tuple[BrokerDaemon | KafkaBroker, ...]:
        """Agents and real brokers, by id."""
        return (*self.brokers, *self.kafka_brokers)

    @property
    def log_dirs(self) -> dict[int, tuple[Path, ...]]:
        """Every log directory, by broker, as a survey wants them."""
        return {broker.id: broker.log_dirs for broker in self.all_brokers}

    def broker(self, number: int) -> BrokerDaemon:
        """The agent with that id. Raises KeyError."""
        return {broker.id: broker for broker in self.brokers}[number]

    def kafka_broker(self, number: int) -> KafkaBroker:
        """The real broker with that id. Raises KeyError."""
        return {broker.id: broker for broker in self.kafka_brokers}[number]

    @asynccontextmanager
    async def session(self) -> AsyncIterator[ZooKeeperSession]:
        """A ZooKeeper session of one's own."""
        config = ZooKeeperConfig(parse_connect_string(self.zookeeper_connect))
        async with open_session(config, lambda _: None) as session:
            yield session

    async def active_controller(self, limit_s: float = START_LIMIT_S) -> ControllerDaemon:
        """The controller that leads, waited for. Raises DaemonFailed where none does in time."""
        deadline = time.monotonic() + limit_s
        while True:
            for controller in self.controllers:
                if await controller.is_active():
                    return controller
            if time.monotonic() > deadline:
                tails = "\n".join(f"{c.log_file}:\n{c.process.output_tail()}" for c in self.controllers)
                raise DaemonFailed(f"no controller is active after {limit_s:g} s:\n{tails}")
            await asyncio.sleep(POLL_S)

    # --- life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts everything and waits until a controller leads, the others stand by and all brokers are registered.

        Raises ZooKeeperStartFailed and DaemonFailed; what has been started by then runs until `close`.
        """
        if self.zookeeper is not None:
            await self.zookeeper.start_async()
        self._make_members()
        if not self.kafka_brokers:
            await self._start(*self.daemons)
            await self.active_controller(self.settings.start_limit_s)
            return
        # A real broker stands for control whenever it is free: whoever is to have it comes first.
        if self.controllers:
            await self._start(*self.controllers)
            await self.active_controller(self.settings.start_limit_s)
        await self._start(*self.kafka_brokers)
        await self._start(*self.brokers)

    async def _start(self, *members: Member) -> None:
        """All at once, until all are ready."""
        for member in members:
            member.launch()
        for member in members:
            await member.wait_ready(self.settings.start_limit_s)

    def _make_members(self) -> None:
        settings = self.settings
        count = settings.kafka_brokers
        common = {
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.session.timeout.ms": str(settings.session_timeout_ms),
        }
        own = common if settings.kafka is None else common | ibp_property(settings.kafka.version)
        is_listed = not count if settings.listed is None else settings.listed
        listeners = {"listeners": ANY_PORT} if is_listed else {}
        self.controllers = tuple(
            ControllerDaemon(
                number,
                self.work_dir / f"controller-{number}",
                {**own, **listeners, **settings.controller_properties, **settings.own_properties.get(number, {})},
            )
            for number in range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + settings.controllers)
        )
        self.brokers = tuple(
            BrokerDaemon(
                number,
                self.work_dir / f"broker-{number}",
                settings.log_dirs,
                # Where all are stopped together, the last ones find nobody who could lead in their place.
                {
                    **own,
                    "controlled.shutdown.retry.backoff.ms": "200",
                    **settings.broker_properties,
                    **settings.own_properties.get(number, {}),
                },
            )
            for number in range(FIRST_BROKER_ID, FIRST_BROKER_ID + settings.brokers)
        )
        first = FIRST_BROKER_ID + settings.brokers
        self.kafka_brokers = tuple(
            self._kafka_broker(number, common | racks(settings.racks, index) | internal_topics(count))
            for index, number in enumerate(range(first, first + count))
        )

    def _kafka_broker(self, number: int, properties: Mapping[str, str]) -> KafkaBroker:
        settings = self.settings
        assert settings.kafka is not None
        return KafkaBroker(
            settings.kafka,
            number,
            self.work_dir / f"broker-{number}",
            settings.log_dirs,
            {**properties, **settings.kafka_properties, **settings.own_properties.get(number, {})},
            self.session,
        )

    async def close(self) -> None:
        """Ends everything, agents and controllers first and at once, and removes a temporary work directory."""
        try:
            # Real brokers would stand for control, and shut down in good order for a quarter of a minute.
            for broker in self.kafka_brokers:
                broker.process.close()
            await asyncio.gather(*(daemon.stop(5.0) for daemon in self.daemons))
        finally:
            for member in (*self.daemons, *self.kafka_brokers):
                member.process.close()
            if self.zookeeper is not None:
                await asyncio.to_thread(self.zookeeper.close)
            self._finalizer()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()


def _remove(temporary: Path | None, owner: int) -> None:
    """At the latest when the interpreter exits; not in a fork of it."""
    if temporary is not None and os.getpid() == owner:
        shutil.rmtree(temporary, ignore_errors=True)
