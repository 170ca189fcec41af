"""A whole controller with many topics in deletion, in every phase that lasts: for the board's tests and
pictures.

Three brokers of real sockets answer. The third then answers nothing more, so that topics with a replica on it stay
started and the others stay acknowledged (its cache may still show them); replicas on brokers 4 and 5, which were never
there, keep some waiting; topics whose znodes are garbage are held. Controllers stop without waiting for broker 3.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from lethe.adapters.config_http import HttpConfig
from lethe.adapters.kafka.client import KafkaConnection
from lethe.controller.core.context import Role
from lethe.controller.runtime.app import ControllerApp
from lethe.controller.runtime.brokers import BrokerConnection
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, ReplicaAssignment
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, MultiDone, Operation
from tests.fakes.broken_broker import Act, FakeBroker
from tests.fakes.runtime import LIMIT_S, controller_config, reach
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper

AREAS: Final = ("orders", "payments", "clicks", "audit.trail", "inventory", "sessions", "billing.eu", "search-index")
KINDS: Final = ("events", "retry", "dlq", "changelog", "repartition", "v2", "staging")

CLUSTER_ID: Final = "Qm7dYk3pTnuI0aYw6w2k3g"


def name_of(number: int) -> str:
    """As topics are called where many come and go."""
    return f"{AREAS[number % len(AREAS)]}.{KINDS[number // 3 % len(KINDS)]}-{number:04d}"


@dataclass
class Scene:
    """The controller, ZooKeeper and brokers; what may be done to them."""

    app: ControllerApp
    task: asyncio.Task[int]
    session: FakeSession
    zookeeper: FakeZooKeeper
    brokers: Sequence[FakeBroker]
    made: int = 0

    @property
    def url(self) -> str:
        assert self.app.http is not None
        return self.app.http.url

    async def create(self, count: int, *replicas: int, partitions: int = 2, data: bytes | None = None) -> list[str]:
        """Topics with these replicas for each partition; `data`: what stands in their znodes instead."""
        names = [name_of(self.made + n) for n in range(count)]
        self.made += count
        await self.create_named(names, *replicas, partitions=partitions, data=data)
        return names

    async def create_named(
        self, names: Sequence[str], *replicas: int, partitions: int = 2, data: bytes | None = None
    ) -> None:
        topic = znodes.TopicZnode({n: ReplicaAssignment(replicas) for n in range(partitions)}, None)
        content = znodes.encode_topic(topic) if data is None else data
        await self.write([Create(paths.topic(name), content) for name in names])

    async def mark(self, names: Sequence[str]) -> None:
        """They are to be deleted."""
        await self.write([Create(paths.delete_topic(name), None) for name in names])

    async def write(self, operations: Sequence[Operation]) -> None:
        done = await self.session.multi(operations)
        assert isinstance(done, MultiDone), done

    async def register(self, number: int, endpoint: Endpoint) -> None:
        broker = Broker(BrokerId(number), BrokerEpoch(-1), (endpoint,))
        data = znodes.encode_broker(broker, timestamp_ms=1)
        await self.session.ensure_path(paths.BROKER_IDS)
        await self.write([Create(paths.broker_id(BrokerId(number)), data, ephemeral=True)])

    async def settled(self, partitions: int) -> None:
        """So many partitions have leaders."""
        await reach(lambda: self.app.loop.context.cluster.partitions_with_leader_and_isr >= partitions)


async def _connect(endpoint: Endpoint) -> BrokerConnection:
    return await KafkaConnection.open(endpoint.host, endpoint.port, "1001", request_timeout_ms=600_000)


@asynccontextmanager
async def quiet_scene(
    number: int = 1001, zookeeper: FakeZooKeeper | None = None, http: HttpConfig | None = None
) -> AsyncIterator[Scene]:
    """A controller with three brokers and no topics; `http`: how its pages are served."""
    zookeeper = FakeZooKeeper() if zookeeper is None else zookeeper
    async with AsyncExitStack() as stack:
        brokers = [await stack.enter_async_context(FakeBroker()) for _ in range(3)]
        session = await stack.enter_async_context(zookeeper.open_session(lambda _: None))
        await session.ensure_path(paths.CLUSTER_ID.rpartition("/")[0])
        await session.multi([Create(paths.CLUSTER_ID, znodes.encode_cluster_id(CLUSTER_ID))])
        config = replace(controller_config(number), stop_grace_ms=0)
        config = config if http is None else replace(config, http=http)
        app = ControllerApp(config, zookeeper.open_session, _connect)
        task = asyncio.create_task(app.run(), name=f"controller-{number}")
        try:
            async with asyncio.timeout(LIMIT_S):
                await app.started.wait()
            await reach(lambda: app.loop.context.role is Role.ACTIVE)
            scene = Scene(app, task, session, zookeeper, brokers)
            for broker_id, broker in enumerate(brokers, 1):
                await scene.register(broker_id, broker.endpoint)
            yield scene
        finally:
            app.stop("the test is over")
            await asyncio.wait([task], timeout=LIMIT_S)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])


@asynccontextmanager
async def busy_scene(extra: Sequence[str] = ()) -> AsyncIterator[Scene]:
    """1,000 topics in deletion, `extra` among those that wait for a broker; 40 are done."""
    async with quiet_scene() as scene:
        context = scene.app.loop.context
        done = await scene.create(40, 1, 2, 3)
        started = await scene.create(240, 1, 3)
        acknowledged = await scene.create(548, 1, 2)
        waiting = await scene.create(200 - len(extra), 1, 4)
        await scene.create_named(list(extra), 1, 5)
        await scene.settled(2 * (40 + 240 + 548 + 200))
        await scene.mark(done)
        await reach(lambda: not context.cluster.deletions and len(context.cluster.topics) == 988)
        scene.brokers[2].acts.extend([Act.HOLD] * 4)
        held = await scene.create(12, 1, data=b"{not json")
        for names in (held, started[:3], extra, waiting[:40], started[3:], acknowledged, waiting[40:]):
            before = len(context.cluster.deletions) + len(context.cluster.marks)
            await scene.mark(names)
            await reach(lambda: len(context.cluster.deletions) + len(context.cluster.marks) == before + len(names))  # noqa: B023
        await reach(lambda: len(context.cluster.deletions) == 988 and len(context.cluster.marks) == 12)
        await reach(lambda: sum(each.all_acknowledged for each in context.cluster.deletions.values()) == 548)
        yield scene


def release(scene: Scene) -> None:
    """The third broker answers again."""
    scene.brokers[2].acts.clear()
    scene.brokers[2].released.set()


@asynccontextmanager
async def standby(scene: Scene, number: int = 1002) -> AsyncIterator[str]:
    """Another controller of the same cluster; the address of its pages."""
    other = ControllerApp(replace(controller_config(number), stop_grace_ms=0), scene.zookeeper.open_session, _connect)
    task = asyncio.create_task(other.run(), name=f"controller-{number}")
    try:
        async with asyncio.timeout(LIMIT_S):
            await other.started.wait()
        await reach(lambda: other.loop.context.role is Role.STANDING_BY)
        assert other.http is not None
        yield other.http.url
    finally:
        other.stop("the test is over")
        await asyncio.wait([task], timeout=LIMIT_S)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
