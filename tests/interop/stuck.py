"""Deletions that Kafka's controller does not finish, and what `lethe rescue` makes of them, told for docs/rescue.md.

Where `$LETHE_RESCUE_STORIES` names a directory, each story is left there: what was done, what the cluster looked like
before, the command with its output, and what it looked like afterwards. `python -m tools.rescue_page` makes the page.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.cluster.local import LocalCluster
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Data, Delete, GetData, SetData
from lethe.protocol.zookeeper.znodes import (
    ControllerZnode,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)
from tests.fakes.command_line import Lethe, Ran
from tests.fakes.zookeeper_cluster import apply
from tests.interop.conditions import controller, directories

STORIES = "LETHE_RESCUE_STORIES"
NOBODY = 99
STUCK_FOR_S = 10.0
RESCUE_LIMIT_S = 240.0
"""Controllers that take turns at falling over leave little of the machine to others."""


@asynccontextmanager
async def nobody_in_control(cluster: LocalCluster) -> AsyncIterator[ZooKeeperSession]:
    """Control is held by a session that does nothing, as between a controller's death and the next one's election."""
    async with cluster.session() as session:
        await take(session)
        try:
            yield session
        finally:
            await apply(session, Delete(paths.CONTROLLER))


async def take(session: ZooKeeperSession) -> None:
    """Have the session in control, whoever is, until it ends."""
    while True:
        epoch, holder = await session.read([GetData(paths.CONTROLLER_EPOCH), GetData(paths.CONTROLLER)])
        if not isinstance(epoch, Data) or not isinstance(holder, Data):
            await asyncio.sleep(0.01)
            continue
        following = encode_controller_epoch(decode_controller_epoch(epoch.data) + 1)
        data = encode_controller(ControllerZnode(BrokerId(NOBODY), 0), version=1)
        try:
            await apply(
                session,
                Delete(paths.CONTROLLER, holder.stat.version),
                Create(paths.CONTROLLER, data, ephemeral=True),
                SetData(paths.CONTROLLER_EPOCH, following, epoch.stat.version),
            )
        except AssertionError:
            continue
        return


async def epoch_of(session: ZooKeeperSession) -> int:
    """Of the controller in control, or of the last one."""
    (found,) = await session.read([GetData(paths.CONTROLLER_EPOCH)])
    assert isinstance(found, Data)
    return decode_controller_epoch(found.data)


class Story:
    """One situation: seen to be stuck, rescued, seen again."""

    def __init__(self, title: str, version: str, cluster: LocalCluster, session: ZooKeeperSession) -> None:
        self.lethe = Lethe(cluster.zookeeper_connect, limit_s=RESCUE_LIMIT_S)
        self._cluster = cluster
        self._session = session
        self._told: list[dict[str, str]] = []
        self._head = {"title": title, "version": version}

    async def stays_stuck(self, *topics: str, for_s: float = STUCK_FOR_S) -> None:
        """Nothing of these topics is deleted meanwhile, in ZooKeeper or on any disk."""
        before = await self._looks(*topics)
        deadline = time.monotonic() + for_s
        while time.monotonic() < deadline:
            listed = await topic_znodes.list_topics(self._session)
            assert set(topics) <= set(listed.marked), "Kafka's controller has finished it: nothing is stuck"
            await asyncio.sleep(0.5)
        after = await self._looks(*topics)
        assert after == before, f"something has moved: {before} became {after}"
        self.note(f"For {for_s:.0f} s nothing moves", after)

    async def rescue(self, *options: str) -> Ran:
        """Runs `lethe rescue --yes` with these options."""
        ran = await self.lethe("rescue", "--yes", *options)
        command = " ".join(("lethe rescue --yes", *options, "--zookeeper zk1:2181"))
        assert ran.code != 70, ran
        self.note(f"$ {command}", f"{ran.err}{ran.out}(exit code {ran.code})")
        return ran

    async def look(self, what: str, *topics: str) -> None:
        """Tells what there is of these topics now."""
        self.note(what, await self._looks(*topics))

    def note(self, what: str, text: str) -> None:
        """A step of the story, and what was to be seen."""
        self._told.append({"what": what, "text": _without_chance(text)})

    def finish(self) -> None:
        """Leaves the story where it was asked for."""
        directory = os.environ.get(STORIES)
        if directory:
            name = re.sub(r"\W+", "-", f"{self._head['title']}-{self._head['version']}".lower())
            Path(directory).mkdir(parents=True, exist_ok=True)
            Path(directory, f"{name}.json").write_text(json.dumps(self._head | {"steps": self._told}, indent=1))

    async def _looks(self, *topics: str) -> str:
        listed = await topic_znodes.list_topics(self._session)
        lines = []
        for topic in topics:
            znode = "topic znode" if topic in listed.names else "no topic znode"
            marker = "marker" if topic in listed.marked else "no marker"
            living = [each for each in directories(self._cluster, topic) if not each.endswith("-delete")]
            lines.append(f"{topic}: {znode}, {marker}, directories (broker/name): {', '.join(living) or 'none'}")
        return "\n".join(lines)

    async def holder(self) -> int | None:
        """Who is in control."""
        found = await controller(self._session)
        return None if found is None else int(found.broker_id)


def _without_chance(text: str) -> str:
    """Ports are of no interest to readers."""
    return re.sub(r"127\.0\.0\.1:\d+", "host:9092", text).strip()
