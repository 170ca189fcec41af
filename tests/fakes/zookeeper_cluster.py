"""A Kafka cluster's znodes in a ZooKeeper, fake or real: roots, brokers, and what a controller would write."""

from __future__ import annotations

from collections.abc import Mapping

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerId, Endpoint, LeaderAndIsr
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Children,
    Create,
    Delete,
    GetChildren,
    MultiDone,
    MultiFailed,
    Operation,
    ZkError,
)
from lethe.protocol.zookeeper.znodes import ControllerZnode, encode_broker, encode_controller, encode_state


async def prepare(session: ZooKeeperSession, racks: Mapping[int, str | None]) -> None:
    """The persistent roots and a registration for each broker, with its rack. The brokers are this session's."""
    for root in paths.PERSISTENT_ROOTS:
        await session.ensure_path(root)
    for number, rack in racks.items():
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
        broker = Broker(BrokerId(number), NO_EPOCH, (endpoint,), rack)
        await apply(session, Create(paths.broker_id(number), encode_broker(broker, timestamp_ms=0), ephemeral=True))


async def elect(session: ZooKeeperSession, broker: int, *, admin: str | None = None) -> None:
    """Makes this session the active controller, under that broker id; with an HTTP port it is one of Lethe's."""
    znode = ControllerZnode(BrokerId(broker), 7, admin=admin)
    await apply(session, Create(paths.CONTROLLER, encode_controller(znode), ephemeral=True))


async def bring_online(session: ZooKeeperSession, topic: str, leaders: Mapping[int, tuple[int, ...]]) -> None:
    """State znodes: by partition the ISR, of which the first leads."""
    await session.ensure_path(paths.topic_partitions(topic))
    for partition, isr in leaders.items():
        await session.ensure_path(paths.topic_partition(topic, partition))
        state = encode_state(LeaderAndIsr(isr[0] if isr else -1, 0, isr, 1))
        await apply(session, Create(paths.partition_state(topic, partition), state))


async def delete_tree(session: ZooKeeperSession, path: str) -> None:
    """The znode and everything below it, children first; it may be missing."""
    found = [path]
    for parent in found:
        (outcome,) = await session.read([GetChildren(parent)])
        found += [f"{parent}/{name}" for name in outcome.names] if isinstance(outcome, Children) else []
    for each in reversed(found):
        gone = await session.multi([Delete(each)])
        assert isinstance(gone, MultiDone) or gone == MultiFailed(0, ZkError.NO_NODE), gone


async def complete_deletion(session: ZooKeeperSession, topic: str) -> None:
    """What a controller does at the end of a deletion: the topic, its settings, and last the mark."""
    await delete_tree(session, paths.topic(topic))
    await delete_tree(session, paths.config_topic(topic))
    await apply(session, Delete(paths.delete_topic(topic)))


async def apply(session: ZooKeeperSession, *operations: Operation) -> None:
    """All of them, or an assertion fails."""
    outcome = await session.multi(operations)
    assert isinstance(outcome, MultiDone), outcome
