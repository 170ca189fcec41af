"""The board's data about the cluster around its controller: cluster id, and the other controllers' boards.

Controllers write the URL of their pages into `/lethe/instances/<id>`. A page stores the URLs of the others, and offers
them when its own controller is gone.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession
from lethe.controller.runtime.instance import admin_in
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Children, Data, GetChildren, GetData
from lethe.protocol.zookeeper.znodes import MalformedZnode

MAX_OTHERS: Final = 20
LOOK_EVERY_MS: Final = 5_000
LOOK_LIMIT_S: Final = 0.2
"""Time limit for ZooKeeper; after it the board shows what it has."""


class PeerController(NamedTuple):
    """Another running controller, and the URL of its pages."""

    controller: int
    url: str


class Surroundings:
    """The latest values; empty before the first look."""

    def __init__(self, own_id: int) -> None:
        self.cluster_id: str | None = None
        self.others: tuple[PeerController, ...] = ()
        self._own_id = own_id
        self._look_again_ms = 0

    async def look(self, session: ZooKeeperSession, now_ms: int) -> None:
        """Read the values again where it is due; unreadable ones stay."""
        if now_ms < self._look_again_ms:
            return
        self._look_again_ms = now_ms + LOOK_EVERY_MS
        try:
            async with asyncio.timeout(LOOK_LIMIT_S):
                await self._look(session)
        except (SessionLost, TimeoutError):
            return

    async def _look(self, session: ZooKeeperSession) -> None:
        cluster, instances = await session.read([GetData(paths.CLUSTER_ID), GetChildren(paths.INSTANCES)])
        try:
            if isinstance(cluster, Data):
                self.cluster_id = znodes.decode_cluster_id(cluster.data)
        except MalformedZnode:
            self.cluster_id = None
        if not isinstance(instances, Children):
            return
        ids = [BrokerId(int(name)) for name in instances.names if name.isdecimal() and int(name) != self._own_id]
        found = await session.read([GetData(paths.instance(each)) for each in ids[:MAX_OTHERS]])
        urls = [admin_in(each.data) if isinstance(each, Data) else None for each in found]
        self.others = tuple(PeerController(each, url) for each, url in zip(ids, urls, strict=False) if url is not None)
