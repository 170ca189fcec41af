"""A local cluster of ZooKeeper, controllers, agents and real Kafka brokers, which ends with its context.

    async with LocalCluster(ClusterSettings(controllers=2, brokers=3)) as cluster:
        active = await cluster.active_controller()
        await cluster.brokers[0].kill()

A temporary work directory is removed with the cluster; a given one stays, with logs, journals and data.
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

from lethe.adapters.config_zookeeper import NOBODY, ZooKeeperAccess
from lethe.adapters.http_client import HttpCredentials
from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.cluster.daemons import (
    ANY_PORT,
    NO_CREDENTIALS,
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
    """What to start. Properties use Kafka's or Lethe's names, and override the defaults of this module."""

    controllers: int = 2
    brokers: int = 3
    """Number of agents; their ids start at 1."""
    log_dirs: int = 2
    """Per broker, agent or real."""
    work_dir: Path | None = None
    """Directory of all files; it may be missing or empty. None: a temporary one, removed at the end."""
    zookeeper_connect: str | None = None
    """A running ZooKeeper, with an own chroot; None starts one."""
    zookeeper_access: ZooKeeperAccess = NOBODY
    """Who the sessions of `LocalCluster.session` are. Daemons have properties for it, real brokers JVM flags too."""
    session_timeout_ms: int = 6_000
    controller_properties: Mapping[str, str] = field(default_factory=dict)
    broker_properties: Mapping[str, str] = field(default_factory=dict)
    """For agents."""
    kafka_properties: Mapping[str, str] = field(default_factory=dict)
    """For real brokers."""
    own_properties: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """For single members, by id; they override the others."""
    start_limit_s: float = START_LIMIT_S
    kafka: KafkaDistribution | None = None
    """The Kafka of real brokers. Controllers and agents then use its inter-broker protocol."""
    kafka_brokers: int = 0
    """Number of real brokers; their ids follow the agents'. Without controllers of ours they take control."""
    racks: tuple[str, ...] = ()
    """Racks of the real brokers, in turn; none if empty."""
    listed: bool | None = None
    """Whether our controllers have `listeners`, so that brokers discover them; None: only if all brokers are agents."""
    kafka_jvm_flags: tuple[str, ...] = ()
    """Further JVM flags of real brokers, such as the one that names a JAAS file."""
    http_credentials: HttpCredentials = NO_CREDENTIALS
    """What the HTTP servers of our daemons ask of clients, if the properties set a token or a certificate."""

    def __post_init__(self) -> None:
        if min(self.controllers + self.kafka_brokers, self.brokers + self.kafka_brokers, self.log_dirs) < 1:
            raise ValueError("a cluster needs at least one controller and one broker with one log directory")
        if min(self.controllers, self.brokers, self.kafka_brokers) < 0:
            raise ValueError("a cluster cannot have less than none of anything")
        if self.kafka_brokers and self.kafka is None:
            raise ValueError("real brokers need a version of Kafka that has been fetched")


class WorkDirectoryInUse(ValueError):
    """The work directory is not empty."""


class LocalCluster:
    """One cluster. `zookeeper` is None if the cluster uses a running one."""

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
        """Empty until ZooKeeper has started, like `brokers` and `kafka_brokers`."""
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
        """Lethe's daemons."""
        return (*self.controllers, *self.brokers)

    @property
    def all_brokers(self) -> tuple[BrokerDaemon | KafkaBroker, ...]:
        """Agents and real brokers, by id."""
        return (*self.brokers, *self.kafka_brokers)

    @property
    def log_dirs(self) -> dict[int, tuple[Path, ...]]:
        """Log directories by broker, for a survey."""
        return {broker.id: broker.log_dirs for broker in self.all_brokers}

    def broker(self, number: int) -> BrokerDaemon:
        """Return the agent with this id. Raises KeyError."""
        return {broker.id: broker for broker in self.brokers}[number]

    def kafka_broker(self, number: int) -> KafkaBroker:
        """Return the real broker with this id. Raises KeyError."""
        return {broker.id: broker for broker in self.kafka_brokers}[number]

    @asynccontextmanager
    async def session(self) -> AsyncIterator[ZooKeeperSession]:
        """Open a separate ZooKeeper session."""
        access = self.settings.zookeeper_access
        config = ZooKeeperConfig(
            parse_connect_string(self.zookeeper_connect),
            set_acl=access.has_identity,
            credentials=() if access.credentials is None else (access.credentials,),
            sasl=access.sasl,
            tls=access.tls,
        )
        async with open_session(config, lambda _: None) as session:
            yield session

    async def active_controller(self, limit_s: float = START_LIMIT_S) -> ControllerDaemon:
        """Wait for the active controller and return it. Raises DaemonFailed if none is active in time."""
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
        """Start everything; wait until a controller leads, the others stand by and all brokers are registered.

        Raises ZooKeeperStartFailed and DaemonFailed; processes that were started by then run until `close`.
        """
        if self.zookeeper is not None:
            await self.zookeeper.start_async()
        self._make_members()
        if not self.kafka_brokers:
            await self._start(*self.daemons)
            await self.active_controller(self.settings.start_limit_s)
            return
        # Real brokers compete for `/controller` too, so controllers of ours start first.
        if self.controllers:
            await self._start(*self.controllers)
            await self.active_controller(self.settings.start_limit_s)
        await self._start(*self.kafka_brokers)
        await self._start(*self.brokers)

    async def _start(self, *members: Member) -> None:
        """Launch all members, then wait until all are ready."""
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
                settings.http_credentials,
            )
            for number in range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + settings.controllers)
        )
        self.brokers = tuple(
            BrokerDaemon(
                number,
                self.work_dir / f"broker-{number}",
                settings.log_dirs,
                # If all brokers stop together, the last ones find no other leader; short retries let them end soon.
                {
                    **own,
                    "controlled.shutdown.retry.backoff.ms": "200",
                    **settings.broker_properties,
                    **settings.own_properties.get(number, {}),
                },
                settings.http_credentials,
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
            more_jvm_flags=settings.kafka_jvm_flags,
        )

    async def close(self) -> None:
        """Stop everything, agents and controllers first and in parallel, and remove a temporary work directory."""
        try:
            # Killed first: real brokers would compete for control, and their orderly shutdown takes 15 s.
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
    """Remove the directory at the latest when the interpreter exits, but not in a fork of it."""
    if temporary is not None and os.getpid() == owner:
        shutil.rmtree(temporary, ignore_errors=True)
