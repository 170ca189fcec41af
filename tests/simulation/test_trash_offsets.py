"""The rule that a topic's entry goes from the trash only when the offsets that were saved of it are committed."""

from __future__ import annotations

import uuid

import pytest

from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Delete
from lethe.protocol.zookeeper.znodes import TrashEntry, TrashPhase
from tests.simulation import trash
from tests.simulation.cluster import Cluster
from tests.simulation.ensemble import Writer
from tests.simulation.groups import Committed
from tests.simulation.ledger import Incarnation
from tests.simulation.world import Violation, World

ID = TopicId(uuid.UUID(int=1))
BEFORE, LIVING = 1, 2
CONTROLLER = Writer("controller 1000")
END = (Delete(paths.trashed("t0")),)


def with_offsets_saved_of(number: int) -> Cluster:
    """The second topic t0 is served again; the trash was given the offset 7 of this topic t0."""
    cluster = Cluster(World(0))
    cluster.ledger.living["t0"] = Incarnation("t0", LIVING, topic_id=ID)
    cluster.ledger.trash.entries["t0"] = TrashEntry(TrashPhase.RESTORING, ID, 0, 1_000, {})
    cluster.ledger.trash.offsets[number] = {"readers": {0: 7}}
    return cluster


def test_an_entry_stays_while_an_offset_of_its_topic_is_not_committed() -> None:
    cluster = with_offsets_saved_of(LIVING)
    with pytest.raises(Violation, match="these offsets are not committed: .'readers 0: 7'"):
        trash.writes_are_allowed(cluster, CONTROLLER, END)
    cluster.groups.committed["t0"] = {"readers": {0: Committed(7, 0)}}
    trash.writes_are_allowed(cluster, CONTROLLER, END)


def test_offsets_of_an_earlier_topic_of_the_name_went_with_that() -> None:
    trash.writes_are_allowed(with_offsets_saved_of(BEFORE), CONTROLLER, END)
