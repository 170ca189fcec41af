"""The rule on the pace: how many deletions a controller may begin in one term."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core.effects import WriteZnodes
from lethe.controller.core.pace_memory import PaceLimits
from lethe.protocol.vocabulary import ControllerEpoch, EpochVersion
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Check, SetData
from tests.simulation.cluster import Cluster
from tests.simulation.conduct import effect_is_allowed
from tests.simulation.controllers import ControllerProcess
from tests.simulation.world import Violation, World

AT_ONCE = 3
NOTES = WriteZnodes(
    1,
    tuple((SetData(paths.delete_topic(f"t{number}"), b"{}", 0),) for number in range(AT_ONCE)),
    Check(paths.controller_epoch(), 7),
)


def controller_that_has_begun(cluster: Cluster) -> ControllerProcess:
    """Under a limit of three topics a second, the controller has begun three deletions."""
    controller = cluster.controllers[0]
    context = controller.context
    context.config = replace(context.config, pace=PaceLimits(topics=AT_ONCE * 1_000))
    context.cluster.epoch, context.cluster.epoch_version = ControllerEpoch(5), EpochVersion(7)
    effect_is_allowed(cluster, controller, NOTES)
    return controller


def test_in_one_term_there_are_no_more_turns_than_the_bucket_gives() -> None:
    cluster = Cluster(World(0))
    controller = controller_that_has_begun(cluster)
    with pytest.raises(Violation, match="which are too many"):
        effect_is_allowed(cluster, controller, NOTES)


def test_a_controller_that_loads_anew_after_a_foreign_write_of_the_same_epoch_has_a_full_bucket() -> None:
    cluster = Cluster(World(0))
    controller = controller_that_has_begun(cluster)
    controller.context.cluster.epoch_version = EpochVersion(8)
    effect_is_allowed(cluster, controller, NOTES)
    assert controller.turns.begun == AT_ONCE
