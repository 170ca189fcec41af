"""Topics in the trash, as a controller of Lethe's leaves them in ZooKeeper."""

from __future__ import annotations

import uuid

from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.znodes import SavedPartition, TrashEntry, TrashPhase, encode_trash
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply

ID = TopicId(uuid.UUID(int=1 << 100))
ENTRY = TrashEntry(TrashPhase.TRASHED, ID, 1_000, 500, None, {0: SavedPartition((1,), 1, 0, (1,))})


async def in_trash(session: FakeSession, **entries: TrashEntry) -> None:
    """Put these topics into the trash."""
    await session.ensure_path(paths.TRASH)
    for name, entry in entries.items():
        await apply(session, Create(paths.trashed(name), encode_trash(entry)))
