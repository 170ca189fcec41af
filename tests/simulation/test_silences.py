"""The rules that no broker is told of the next topic of a name while it shows the one before, and that a controller
which is asked to stop waits for answers."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from lethe.controller.core.context import NOTHING_UNCONFIRMED as NOTHING
from lethe.controller.core.context import Role, UnconfirmedDeletions
from lethe.controller.core.effects import WriteZnodes
from lethe.controller.core.events import ControllerChanged, ResignationRequested, ZnodesWritten
from lethe.protocol.kafka.control import UpdateMetadataPartition, UpdateMetadataRequest, UpdateMetadataTopic
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, ControllerEpoch, EpochVersion, ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.protocol.zookeeper.packing import GroupDone, GroupOutcome, GroupUnknown
from tests.simulation import conduct, silences
from tests.simulation.cluster import Cluster
from tests.simulation.controllers import ControllerProcess
from tests.simulation.ghosts import Ghosts
from tests.simulation.ledger import Incarnation
from tests.simulation.world import Violation, World

BEFORE = TopicId(uuid.UUID(int=1))
NEXT = TopicId(uuid.UUID(int=2))
REMOVED_IN = 3
GHOST = 40
DONE = GroupDone(())


def told(epoch: int, topic_id: TopicId, *partitions: int) -> UpdateMetadataRequest:
    rows = tuple(UpdateMetadataPartition(number, 1, 1, 0, (1,), 0, (1,)) for number in partitions)
    return UpdateMetadataRequest(
        BrokerId(1000), ControllerEpoch(epoch), (UpdateMetadataTopic("t0", topic_id, rows),), ()
    )


def removed_with_cache_showing(*partitions: int) -> Cluster:
    """Topic t0 with partition 0 was removed in epoch 3; broker 1 shows these partitions of it."""
    cluster = Cluster(World(0))
    incarnation = Incarnation("t0", 1, topic_id=BEFORE, assignments={0: ReplicaAssignment((1,))}, asked=True)
    incarnation.removed_in = REMOVED_IN
    cluster.ledger.by_id[BEFORE] = incarnation
    cluster.agents[BrokerId(1)].state.cache.apply(told(REMOVED_IN - 1, BEFORE, *partitions))
    return cluster


def test_a_broker_that_shows_the_topic_before_is_not_told_of_the_next() -> None:
    cluster = removed_with_cache_showing(0, GHOST)
    with pytest.raises(Violation, match="is told of the next t0 while it still shows"):
        cluster.agents[BrokerId(1)].state.cache.apply(told(REMOVED_IN, NEXT, 0))


def test_a_planted_ghost_of_partitions_that_the_topic_never_had_is_another_matter() -> None:
    cluster = removed_with_cache_showing(GHOST)
    cache = cluster.agents[BrokerId(1)].state.cache
    cache.apply(told(REMOVED_IN, NEXT, 0))
    assert cache.topic_ids["t0"] == NEXT


@pytest.mark.parametrize("epoch", [1, REMOVED_IN])
def test_a_planted_ghost_of_the_next_topic_is_told_by_no_controller_of_the_run(epoch: int) -> None:
    cluster = removed_with_cache_showing(0)
    cluster.ledger.by_id[BEFORE].removed_in = epoch
    agent = cluster.agents[BrokerId(1)]
    Ghosts(cluster).tell(agent, "t0", NEXT, [0])
    assert agent.state.cache.topic_ids["t0"] == NEXT


@pytest.mark.parametrize("epoch", [REMOVED_IN, REMOVED_IN + 1])
def test_a_controller_that_loads_anew_under_the_same_epoch_cannot_know_what_it_removed_before(epoch: int) -> None:
    cluster = removed_with_cache_showing(0)
    controller = cluster.controllers[0]
    changed = silences.term_may_change(controller, cluster)
    controller.context.role = Role.LOADING
    controller.context.cluster.epoch = ControllerEpoch(epoch)
    changed(ControllerChanged())
    assert (cluster.ledger.by_id[BEFORE].removed_in is None) is (epoch == REMOVED_IN)


def asked_to_stop(*second: ResignationRequested) -> tuple[Cluster, ControllerProcess]:
    """A controller is asked to stop and may wait for a second. Broker 1 shows a topic that it has removed."""
    cluster = removed_with_cache_showing(0)
    controller, agent = cluster.controllers[0], cluster.agents[BrokerId(1)]
    assert cluster.ensemble.operate(Create(paths.broker_id(agent.id), b""))
    agent.alive, agent.state.cache_epoch = True, BrokerEpoch(cluster.registered()[agent.id])
    controller.asked_to_stop = silences.Request(cluster.world.now_ms, 1_000)
    controller.context.role = Role.ACTIVE
    controller.context.cluster.epoch = ControllerEpoch(REMOVED_IN)
    for request in (ResignationRequested("SIGTERM", for_good=True, patience_ms=1_000), *second):
        silences.term_may_change(controller, cluster)(request)
    return cluster, controller


def given_up(*second: ResignationRequested, outcome: GroupOutcome = DONE, left: UnconfirmedDeletions = NOTHING) -> None:
    """It retires after a write with this outcome, before its time is over, and says that it leaves this."""
    cluster, controller = asked_to_stop(*second)
    changed = silences.term_may_change(controller, cluster)
    controller.context.role = Role.RETIRED
    controller.context.unconfirmed_deletions = left
    changed(ZnodesWritten(1, (outcome,)))


def decided(*second: ResignationRequested) -> None:
    """It decides to remove `/controller`."""
    cluster, controller = asked_to_stop(*second)
    controller.context.cluster.epoch_version = EpochVersion(cluster.ensemble.epoch_version)
    conduct.effect_is_allowed(cluster, controller, WriteZnodes(1, ((Delete(paths.controller()),),), None))


@pytest.mark.parametrize("judged", [given_up, decided])
def test_a_controller_that_may_wait_leaves_no_cache_that_shows_what_it_removed(judged: Callable[[], None]) -> None:
    with pytest.raises(Violation, match="was asked to stop and did not wait"):
        judged()


@pytest.mark.parametrize("judged", [given_up, decided])
def test_a_controller_that_is_asked_a_second_time_does_not_wait(judged: Callable[[ResignationRequested], None]) -> None:
    """Seed 5693: an operator asked a controller to resign that had been asked to stop before."""
    judged(ResignationRequested("an operator asked for it"))


def test_a_controller_whose_write_has_an_unknown_outcome_cannot_wait_and_says_what_it_leaves() -> None:
    """Seeds 61158 and 62991: the connection broke during an ordinary write, and the session was given up."""
    lost = GroupUnknown("the connection broke before the answer")
    for left in (NOTHING._replace(gone={BrokerId(1): ("t0",)}), NOTHING._replace(marked={BrokerId(1): ("t0",)})):
        given_up(outcome=lost, left=left)
    with pytest.raises(Violation, match="does not say: agent 1 shows t0"):
        given_up(outcome=lost, left=NOTHING._replace(gone={BrokerId(2): ("t0",)}))
