"""When deletions are judged while a broker answers nothing: each one has had the time that a deletion takes."""

from __future__ import annotations

import pytest

from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from tests.simulation import silent_act
from tests.simulation.cluster import Cluster
from tests.simulation.world import START_MS, World

WORK_MS = 23_000
RETURNS_AFTER_MS = 19_800


def judged_after_ms(*, marked: bool) -> int:
    """Topic t0 comes back from the trash 3.2 seconds before the time of a deletion is over: seed 60751."""
    cluster = Cluster(World(0))
    cluster.world.run_until(START_MS + RETURNS_AFTER_MS, 10)
    assert cluster.ensemble.operate(Create(paths.topic("t0"), b""))
    if marked:
        assert cluster.ensemble.operate(Create(paths.delete_topic("t0"), b""))
    cluster.world.run_until(START_MS + WORK_MS, 10)
    silent_act.until_all_have_had(cluster, WORK_MS)
    return cluster.world.now_ms - START_MS


@pytest.mark.parametrize("marked, after_ms", [(True, RETURNS_AFTER_MS + WORK_MS), (False, WORK_MS)])
def test_a_topic_that_comes_back_from_the_trash_to_be_deleted_has_the_time_of_a_deletion(
    marked: bool, after_ms: int
) -> None:
    assert judged_after_ms(marked=marked) == after_ms
