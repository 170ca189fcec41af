"""`lethe zookeeper` with 100,000 partitions. With a heap of 128 MB the server stops answering for longer than a session
lasts: full collections take all its time."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.protocol.vocabulary import LeaderAndIsr, ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Children, Create, Data, GetChildren, GetData, MultiDone, Operation
from lethe.protocol.zookeeper.znodes import TopicZnode, encode_state, encode_topic

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(1800),
]

TOPICS: Final = 10_000
PARTITIONS: Final = 10
"""Of each topic."""
TOGETHER: Final = 100
"""Topics that are written before the next ones are made."""
TAKEOVERS: Final = 3
SESSION_MS: Final = 18_000
LISTENS: Final = re.compile(r"ZooKeeper listens on (\S+),")


@asynccontextmanager
async def lethe_zookeeper() -> AsyncIterator[str]:
    """The address of a `lethe zookeeper` with the heap that it has by default."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lethe", "zookeeper", "--port", "0"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        said = (await asyncio.wait_for(process.stderr.readline(), 300)).decode()
        found = LISTENS.search(said)
        assert found is not None, said
        yield found[1]
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


def tree_of(name: str) -> Iterator[Operation]:
    """What a controller leaves of a topic in service."""
    replicas = {number: ReplicaAssignment((1, 2, 3)) for number in range(PARTITIONS)}
    state = encode_state(LeaderAndIsr(1, 0, (1, 2, 3), 1))
    yield Create(paths.topic(name), encode_topic(TopicZnode(replicas, TopicId(uuid.uuid4()))))
    yield Create(paths.topic_partitions(name), None)
    for number in range(PARTITIONS):
        yield Create(paths.topic_partition(name, number), None)
        yield Create(paths.partition_state(name, number), state)


async def load_all(session: ZooKeeperSession) -> int:
    """Read what a controller that takes over reads, and arm its watches; how many states there are."""
    (listed,) = await session.read([GetChildren(paths.BROKER_TOPICS, watch=True)])
    assert isinstance(listed, Children)
    await session.read([GetData(paths.topic(name), watch=True) for name in listed.names])
    states = [paths.partition_state(name, number) for name in listed.names for number in range(PARTITIONS)]
    return sum(isinstance(found, Data) for found in await session.read([GetData(path) for path in states]))


async def test_a_hundred_thousand_partitions_cost_no_session() -> None:
    async with lethe_zookeeper() as address:
        config = ZooKeeperConfig(parse_connect_string(address), session_timeout_ms=SESSION_MS)
        async with open_session(config, lambda _: None) as writer, open_session(config, lambda _: None) as reader:
            await writer.ensure_path(paths.BROKER_TOPICS)
            for first in range(0, TOPICS, TOGETHER):
                written = await writer.multis(
                    [tuple(tree_of(f"orders-{number}")) for number in range(first, first + TOGETHER)]
                )
                assert all(isinstance(each, MultiDone) for each in written), writer.lost_reason
            for _ in range(TAKEOVERS):
                assert await load_all(reader) == TOPICS * PARTITIONS, reader.lost_reason
            assert (writer.lost_reason, reader.lost_reason) == (None, None)
            assert writer.connected
            assert reader.connected
