"""Everything that a client without rights could have changed: control, topics, markers, states and directories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.cluster.local import LocalCluster
from lethe.protocol.vocabulary import LeaderAndIsr
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData
from tests.interop.conditions import directories, states


def is_stored(
    cluster: LocalCluster, topics: Sequence[str], rows: Sequence[Sequence[int]]
) -> Callable[[], Awaitable[bool]]:
    """Every replica of each topic has its directory."""

    async def condition() -> bool:
        return all(len(directories(cluster, topic)) == sum(map(len, rows)) for topic in topics)

    return condition


class Seen(NamedTuple):
    """Two are equal if nobody has changed anything between them."""

    control: list[tuple[bytes | None, int, int]]
    """Data, czxid and version of /controller and /controller_epoch."""
    topics: tuple[str, ...]
    marked: tuple[str, ...]
    states: list[list[LeaderAndIsr | None]]
    """By topic and partition."""
    directories: list[str]


async def look(cluster: LocalCluster, session: ZooKeeperSession, *topics: str, partitions: int = 2) -> Seen:
    """Look at the cluster as a whole, and at these topics in detail."""
    control = await session.read([GetData(paths.CONTROLLER), GetData(paths.CONTROLLER_EPOCH)])
    listed = await topic_znodes.list_topics(session)
    return Seen(
        [(each.data, each.stat.czxid, each.stat.version) for each in control if isinstance(each, Data)],
        tuple(listed.names),
        tuple(listed.marked),
        [await states(session, topic, partitions) for topic in topics],
        [each for topic in topics for each in directories(cluster, topic)],
    )
