"""The rule on answers to a controlled shutdown: who is let go leads nothing that another broker could serve."""

from __future__ import annotations

import pytest

from lethe.controller.core import mutation
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import ControlledShutdownResponse
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch, EpochVersion, LeaderAndIsr, ReplicaAssignment
from tests.simulation import leaving
from tests.simulation.cluster import Cluster
from tests.simulation.ledger import Incarnation
from tests.simulation.world import World


def problems_with_letting_1_go(*replicas: int) -> list[str]:
    """Broker 1 leads the only partition of t0, which has these replicas, and the controller lets it go."""
    cluster = Cluster(World(0))
    assignment = ReplicaAssignment(tuple(BrokerId(each) for each in replicas))
    state = LeaderAndIsr(BrokerId(1), 0, (BrokerId(1),), ControllerEpoch(1))
    cluster.ledger.living["t0"] = Incarnation("t0", 1, readable=True, assignments={0: assignment}, states={0: state})
    controller = cluster.controllers[0]
    mutation.add_topic(controller.context.cluster, "t0", None, {0: assignment})
    controller.context.cluster.epoch_version = EpochVersion(cluster.ensemble.epoch_version)
    return list(leaving.untrue(cluster, controller, BrokerId(1), ControlledShutdownResponse(ErrorCode.NONE, ())))


@pytest.mark.parametrize("replicas", [(1,), (1, 1002)], ids=["alone", "beside a controller"])
def test_a_broker_without_another_one_beside_it_may_go(replicas: tuple[int, ...]) -> None:
    assert problems_with_letting_1_go(*replicas) == []


def test_a_broker_that_could_hand_over_may_not() -> None:
    assert problems_with_letting_1_go(1, 1002, 2) == ["broker 1 may go, and it leads t0-0"]
