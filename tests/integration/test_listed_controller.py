"""Controllers with listeners as real processes: found through the agents' metadata, asked over TCP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import pytest

from lethe.adapters.kafka.client import ConnectionFailed, KafkaConnection
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_znodes import live_brokers
from lethe.cluster.daemons import ControllerDaemon
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataBroker, MetadataRequest, MetadataResponse
from lethe.protocol.kafka.to_controller import (
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, LeaderAndIsr, ReplicaAssignment
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Data, GetData, MultiDone

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes]
LIMIT_S = 90.0
T = TypeVar("T")


async def until(found: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(LIMIT_S):
        while (value := await found()) is None:
            await asyncio.sleep(0.02)
        return value


async def connect(host: str, port: int) -> KafkaConnection:
    return await KafkaConnection.open(host, port, "test", request_timeout_ms=60_000)


async def controller_known_to(broker: Broker, controller: ControllerDaemon) -> MetadataBroker:
    """Where the agent would look for the controller, once it has been told of this one."""
    endpoint = broker.endpoints[0]

    async def told() -> MetadataBroker | None:
        async with await connect(endpoint.host, endpoint.port) as connection:
            answer = cast(MetadataResponse, await connection.ask(MetadataRequest(())))
        named = {each.id: each for each in answer.brokers}
        return named.get(BrokerId(controller.id)) if answer.controller_id == controller.id else None

    return await until(told)


async def state_of(session: ZooKeeperSession, topic: str) -> LeaderAndIsr | None:
    (found,) = await session.read([GetData(paths.partition_state(topic, 0))])
    if not isinstance(found, Data):
        return None
    return znodes.decode_state(topic, 0, found.data, found.stat.version)


def own_address(controller: ControllerDaemon) -> tuple[str, int]:
    found = re.search(r"brokers find the controller at PLAINTEXT://([0-9.]+):(\d+)", controller.process.output())
    assert found is not None, controller.process.output_tail()
    return found[1], int(found[2])


async def test_brokers_find_the_active_controller_and_ask_it(zookeeper_chroot: str) -> None:
    settings = ClusterSettings(
        controllers=2,
        brokers=2,
        log_dirs=1,
        zookeeper_connect=zookeeper_chroot,
        session_timeout_ms=20_000,
        broker_properties={"replica.catch.up.delay.ms": "600000"},
    )
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        active = await cluster.active_controller()
        (standby,) = [each for each in cluster.controllers if each is not active]
        (one, two), _ = await live_brokers(session)
        address = await controller_known_to(one, active)
        assert (address.host, address.port) == own_address(active)
        topic = znodes.TopicZnode({0: ReplicaAssignment((1, 2))}, None)
        assert isinstance(await session.multi([Create(paths.topic("orders"), znodes.encode_topic(topic))]), MultiDone)
        state = await until(lambda: state_of(session, "orders"))
        assert (state.leader, state.isr) == (1, (1, 2))

        def alter(epoch: BrokerEpoch, *new_isr: int) -> AlterPartitionRequest:
            row = AlterPartition(0, state.leader_epoch, new_isr, 0, state.partition_epoch)
            return AlterPartitionRequest(BrokerId(1), epoch, (AlterPartitionTopic("orders", None, (row,)),))

        connection = await connect(address.host, address.port)
        stale = BrokerEpoch(one.epoch - 1)
        assert await connection.request(alter(stale, 1), 1) == AlterPartitionResponse(ErrorCode.STALE_BROKER_EPOCH)
        answer = cast(AlterPartitionResponse, await connection.request(alter(one.epoch, 1), 1))
        ((row,),) = (each.partitions for each in answer.topics)
        assert (answer.error, row.error, row.leader, row.isr) == (0, 0, 1, (1,))
        changed = await state_of(session, "orders")
        assert changed is not None
        assert (changed.isr, changed.partition_epoch) == ((1,), row.partition_epoch)

        # Alone in the ISR, the leader cannot be relieved; the follower may go.
        leaving = ControlledShutdownRequest(BrokerId(2), two.epoch)
        assert await connection.request(leaving, 3) == ControlledShutdownResponse(0)
        leader = ControlledShutdownRequest(BrokerId(1), one.epoch)
        remaining = ControlledShutdownResponse(0, (RemainingPartition("orders", 0),))
        assert await connection.request(leader, 3) == remaining

        async with await connect(*own_address(standby)) as other:
            assert await other.request(alter(one.epoch, 1), 1) == AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)
            refusal = ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
            assert await other.request(leader, 3) == refusal

        assert await active.stop() == 0
        with pytest.raises(ConnectionFailed):
            await connection.request(leader, 3)
        await connection.close()
        following = await controller_known_to(one, standby)
        assert (following.host, following.port) == own_address(standby)
