"""The rule that nobody leads what has left the trash to be deleted, while that marker is there."""

from __future__ import annotations

import pytest

from lethe.controller.core import mutation
from lethe.controller.core.effects import Send
from lethe.protocol.kafka.control import LeaderAndIsrPartition, LeaderAndIsrRequest, LeaderAndIsrTopic
from lethe.protocol.vocabulary import LEADER_NONE, BrokerEpoch, BrokerId, ControllerEpoch, ReplicaAssignment
from tests.simulation import trash_beliefs
from tests.simulation.cluster import Cluster
from tests.simulation.ledger import Incarnation
from tests.simulation.world import World

CZXID = 9
BROKER = BrokerId(1)


def problems(
    *, leader: int = BROKER, ended: int = 1, marker: int = 1, marked: bool = True, seen: int = CZXID
) -> list[str]:
    """The controller, which knows the topic of czxid `seen`, makes broker 1 lead t0-0, or nobody."""
    cluster = Cluster(World(0))
    context = cluster.controllers[0].context
    cluster.ledger.living["t0"] = Incarnation("t0", 1, czxid=CZXID, marker=marker, ended=ended)
    if marked:
        cluster.ledger.marked["t0"] = None
    mutation.add_topic(context.cluster, "t0", None, {0: ReplicaAssignment((BROKER,))})
    context.cluster.topics["t0"].created_zxid = seen
    row = LeaderAndIsrPartition(0, 1, leader, 1, (BROKER,), 0, (BROKER,))
    request = LeaderAndIsrRequest(BrokerId(1000), ControllerEpoch(1), (LeaderAndIsrTopic("t0", None, (row,)),), ())
    return list(trash_beliefs.problems_with_leaders(cluster, context, Send(BROKER, BrokerEpoch(1), 1, request)))


def test_nobody_leads_what_has_left_the_trash_to_be_deleted() -> None:
    (problem,) = problems()
    assert "which has left the trash to be deleted" in problem


@pytest.mark.parametrize(
    "allowed",
    [
        problems(leader=LEADER_NONE),
        problems(ended=0),
        problems(marker=2),
        problems(marked=False),
        problems(seen=CZXID - 1),
    ],
    ids=["no leader", "never in the trash", "another marker", "its marker is gone", "another topic is known"],
)
def test_any_other_topic_may_be_led(allowed: list[str]) -> None:
    assert not allowed
