"""The daemons that are attacked: a ZooKeeper with users, a controller and an agent with two topics, all as processes.

`orders` is a topic of the cluster, `ledger` one whose leader epoch is above 0. Positive controls act on topics that
are made for them, so that both stay as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from lethe.adapters.config_zookeeper import ZooKeeperAccess
from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.security.channel import ChannelSecurity
from lethe.adapters.security.secrets import Secret
from lethe.adapters.zookeeper.config import DigestMd5Login, ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.admin import topic_znodes
from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.daemons import BrokerDaemon, ControllerDaemon, Daemon
from lethe.cluster.local import FIRST_CONTROLLER_ID, ClusterSettings, LocalCluster
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from lethe.cluster.zookeeper_security import ServerSecurity
from lethe.protocol.kafka.control import (
    Addressed,
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from lethe.protocol.kafka.queries import MetadataRequest, MetadataResponse, Request, Response
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, ControllerEpoch, TopicId
from lethe.protocol.zookeeper.operations import Children, Data, GetChildren, GetData, is_absent
from tests.attacks.setting import BROKERS, INTERNAL, LETHE, ZOOKEEPER_USER, Setting
from tests.fakes.raw_client import Raw, connected_to
from tests.unit.broker.core import driver

LIMIT_S: Final = 90.0
LEDGER_EPOCH: Final = 7
_SETTLED_S: Final = 0.15
_SESSION_MS: Final = 45_000
_LEFT_OUT: Final = re.compile(r"[^/]+/([^/]+\.log|journal(/.*)?|logs-\d+/[a-z-]+-checkpoint(\.tmp)?)")
"""What daemons write by themselves all the time: logs, journals, and the list of replicas in each log directory."""


class Look(NamedTuple):
    """What an attack may not change."""

    files: Mapping[str, str]
    """Kind or SHA-256 of everything below the cluster's directory, logs and journals left out."""
    znodes: Mapping[str, tuple[object, ...]]
    """Data and versions of the whole tree."""
    cache: str
    """The topics in the agent's metadata cache."""


class Resources(NamedTuple):
    """What a process takes."""

    peak_bytes: int
    files: int
    cpu_s: float


@dataclass
class World:
    """The daemons, and ways to speak with them."""

    setting: Setting
    cluster: LocalCluster
    session: ZooKeeperSession
    zookeeper: EmbeddedZooKeeper
    names: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """Numbers for the names of topics."""

    @property
    def agent(self) -> BrokerDaemon:
        return self.cluster.brokers[0]

    @property
    def controller(self) -> ControllerDaemon:
        return self.cluster.controllers[0]

    # --- what is there --------------------------------------------------------------------------------------------

    async def registration(self, number: int) -> tuple[dict[str, int], int]:
        """Return the ports by listener, and the broker epoch."""
        (found,) = await self.session.read([GetData(f"/brokers/ids/{number}")])
        assert isinstance(found, Data), found
        assert found.data is not None
        endpoints = (each.split("://") for each in json.loads(found.data)["endpoints"])
        return {name: int(address.rpartition(":")[2]) for name, address in endpoints}, found.stat.czxid

    async def port(self, listener: str, daemon: Daemon | None = None) -> int:
        """Return a listener's port; the agent's if no daemon is given."""
        if daemon is self.controller:
            # Its registration is not in /brokers/ids, where the inter-broker protocol is this new.
            found = re.search(rf"\b{listener}://127\.0\.0\.1:(\d+)", daemon.process.output())
            assert found is not None, "the controller has not named its listeners"
            return int(found[1])
        ports, _ = await self.registration(self.agent.id)
        return ports[listener]

    async def broker_epoch(self) -> int:
        _, epoch = await self.registration(self.agent.id)
        return epoch

    async def controller_epoch(self) -> int:
        (found,) = await self.session.read([GetData("/controller_epoch")])
        assert isinstance(found, Data), found
        return int(found.data or b"")

    def kept(self, topic: str) -> list[Path]:
        """Return the directories of partition 0 of the topic that are quarantined."""
        return [path for log_dir in self.agent.log_dirs for path in log_dir.glob(f"{topic}-0.*-stray")]

    def directory(self, topic: str) -> list[Path]:
        """Return the directories of partition 0 of the topic in use."""
        return [path for log_dir in self.agent.log_dirs for path in log_dir.glob(f"{topic}-0")]

    async def look(self) -> Look:
        return Look(
            await asyncio.to_thread(_files, self.cluster.work_dir),
            await _tree(self.session),
            await self._cache(),
        )

    async def settled(self) -> Look:
        """Look until nothing changes any more."""
        deadline = time.monotonic() + LIMIT_S
        before = await self.look()
        while time.monotonic() < deadline:
            await asyncio.sleep(_SETTLED_S)
            after = await self.look()
            if after == before:
                return after
            before = after
        raise AssertionError("the cluster does not come to rest")

    async def _cache(self) -> str:
        answer = await self.ask(MetadataRequest(None), user=BROKERS)
        assert isinstance(answer, MetadataResponse)
        return repr(answer.topics)

    def resources(self, daemon: Daemon | None = None, *, forget_peak: bool = False) -> Resources:
        """Return what the process (the agent, if none is given) has taken at most, and its open files. `forget_peak`:
        at most from now on."""
        process = Path("/proc") / str((daemon or self.agent).pid)
        if forget_peak:
            (process / "clear_refs").write_text("5")
        (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())
        ticks = (process / "stat").read_text().rpartition(")")[2].split()
        cpu_s = (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
        return Resources(int(peak) * 1024, len(list((process / "fd").iterdir())), cpu_s)

    # --- speaking with it -----------------------------------------------------------------------------------------

    async def ask(
        self, request: Request, listener: str = INTERNAL, user: str = LETHE, daemon: Daemon | None = None
    ) -> Response:
        """Ask as this user. Raises ClientError."""
        return await self.ask_with(self.setting.security(listener, user), request, listener, daemon)

    async def ask_with(
        self, security: ChannelSecurity, request: Request, listener: str, daemon: Daemon | None = None
    ) -> Response:
        """Ask as a client that connects in this way. Raises ClientError."""
        port = await self.port(listener, daemon)
        async with (
            asyncio.timeout(LIMIT_S),
            await KafkaConnection.open("127.0.0.1", port, "attack", security=security) as connection,
        ):
            return await connection.ask(request)

    @asynccontextmanager
    async def raw(self, listener: str) -> AsyncIterator[Raw]:
        """A connection to the agent's listener, with TLS if it has it, and without a login."""
        is_clear = listener == "CLEAR"
        context = None if is_clear else self.setting.client_context(self.setting.authority.client(LETHE))
        async with connected_to(await self.port(listener), context) as connection:
            yield connection

    async def addressed(
        self,
        request: ControlRequest,
        *,
        epoch: int | None = None,
        controller: int = FIRST_CONTROLLER_ID,
        older: int = 0,
    ) -> Addressed:
        """Return the request as the controller sends it, but for what is given. `older`: of an earlier broker epoch."""
        number = await self.controller_epoch() if epoch is None else epoch
        own: dict[str, Any] = {"controller_id": BrokerId(controller), "controller_epoch": ControllerEpoch(number)}
        assert isinstance(request, StopReplicaRequest | LeaderAndIsrRequest | UpdateMetadataRequest)
        return Addressed(replace(request, **own), BrokerEpoch(await self.broker_epoch() - older))

    async def sacrifice(self) -> str:
        """Make the replica of a topic, and tell the agent that the topic is being deleted; return the topic."""
        topic = f"sacrifice-{next(self.names)}"
        await self.make(topic, tombstone=True)
        return topic

    async def make(self, topic: str, *, leader_epoch: int = 0, tombstone: bool = False) -> None:
        """Make a replica as the controller does; with a tombstone it may then be deleted."""
        topic_id = TopicId(uuid.uuid4())
        made = driver.become(topic, topic_id, leader_epoch=leader_epoch, is_new=True)
        await self.ask(await self.addressed(made))
        assert len(self.directory(topic)) == 1, f"{topic} has no directory"
        if tombstone:
            await self.ask(await self.addressed(driver.tombstone(topic, topic_id)))

    async def http_port(self, daemon: Daemon | None = None) -> int:
        url = (daemon or self.controller).http_url
        assert url is not None
        return int(url.rpartition(":")[2])

    async def is_served(self) -> bool:
        """Whether both daemons answer clients that may ask."""
        await self.ask(MetadataRequest(None), user=BROKERS)
        found = [await daemon.get("/readyz") for daemon in self.cluster.daemons]
        return all(each is not None and each.get("ok") is True for each in found)


@asynccontextmanager
async def running(directory: Path, *, weak: bool = False) -> AsyncIterator[World]:
    """Daemons below the directory, which exists and is empty."""
    inputs = directory / "inputs"
    inputs.mkdir()
    setting = Setting(inputs, weak=weak)
    password = setting.secrets.password("ZooKeeper's password")
    server = ZooKeeperSettings(
        data_dir=directory / "zookeeper", tick_time_ms=500, security=ServerSecurity(users={ZOOKEEPER_USER: password})
    )
    async with EmbeddedZooKeeper(server) as zookeeper:
        properties = setting.daemon_properties() | setting.listener_properties()
        cluster = LocalCluster(
            ClusterSettings(
                controllers=1,
                brokers=1,
                work_dir=directory / "cluster",
                zookeeper_connect=zookeeper.connect_string,
                zookeeper_access=ZooKeeperAccess(sasl=DigestMd5Login(ZOOKEEPER_USER, Secret(password))),
                session_timeout_ms=_SESSION_MS,
                controller_properties=properties,
                broker_properties={**properties, "log.segment.delete.delay.ms": "0", "replica.catch.up.delay.ms": "0"},
                http_credentials=setting.http,
            )
        )
        access = DigestMd5Login(ZOOKEEPER_USER, Secret(password))
        own = ZooKeeperConfig(
            parse_connect_string(zookeeper.connect_string), session_timeout_ms=_SESSION_MS, set_acl=True, sasl=access
        )
        async with open_session(own, lambda _: None) as session:
            await setting.write_users(session)
            async with cluster:
                world = World(setting, cluster, session, zookeeper)
                await _furnish(world)
                yield world


async def _furnish(world: World) -> None:
    """Make the two topics, and a directory beside the log directories that a path could lead to."""
    plan = TopicPlan("orders", TopicId(uuid.uuid4()), ((1,),))
    await topic_znodes.create_topics(world.session, [plan])
    await until(lambda: len(world.directory("orders")) == 1, "orders has a directory")
    outside = world.cluster.work_dir / "outside" / "orders-0"
    outside.mkdir(parents=True)
    (outside / "00000000000000000000.log").write_bytes(b"not of this agent")
    await world.make("ledger", leader_epoch=LEDGER_EPOCH)
    await world.settled()


async def until(condition: Callable[[], bool | Awaitable[bool]], what: str, limit_s: float = LIMIT_S) -> None:
    """Wait for the condition. Raises AssertionError, which names it, at the limit."""
    deadline = time.monotonic() + limit_s
    while True:
        found = condition()
        if found if isinstance(found, bool) else await found:
            return
        assert time.monotonic() < deadline, f"not after {limit_s:g} s: {what}"
        await asyncio.sleep(0.02)


def differences(before: Look, after: Look) -> list[str]:
    """Return what has changed."""
    found = [f"file {path}" for path in _changed(before.files, after.files)]
    found += [f"znode {path}" for path in _changed(before.znodes, after.znodes)]
    return [*found, *([] if before.cache == after.cache else ["the agent's metadata cache"])]


def _changed(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return sorted(path for path in {**before, **after} if before.get(path) != after.get(path))


def _files(root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if _LEFT_OUT.fullmatch(name):
            continue
        with contextlib.suppress(FileNotFoundError):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"
    return found


async def _tree(session: ZooKeeperSession) -> dict[str, tuple[object, ...]]:
    """Return the znodes, without ZooKeeper's own. One that cannot be read is an error: it would be unseen."""
    found: dict[str, tuple[object, ...]] = {}
    level = ["/"]
    while level:
        data = await session.read([GetData(path) for path in level])
        children = await session.read([GetChildren(path) for path in level])
        below: list[str] = []
        for path, read, listed in zip(level, data, children, strict=True):
            if is_absent(read) or is_absent(listed):
                continue
            assert isinstance(read, Data), f"{path} cannot be read: {read}"
            assert isinstance(listed, Children), f"the children of {path} cannot be listed: {listed}"
            found[path] = (read.data, *read.stat)
            below += [f"{path.rstrip('/')}/{name}" for name in listed.names]
        level = [path for path in below if path != "/zookeeper"]
    return found
