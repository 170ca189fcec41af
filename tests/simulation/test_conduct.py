"""Rules on intent: how many deletions a controller may begin in one term, and which ones it may go on with."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from lethe.controller.core import mutation
from lethe.controller.core.effects import WriteZnodes
from lethe.controller.core.pace_memory import PaceLimits
from lethe.controller.core.trash_memory import TrashedTopic
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch, EpochVersion, ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Check, Create, Delete, Operation, SetData
from lethe.protocol.zookeeper.znodes import DeletionOrders, TrashEntry, TrashPhase, encode_deletion_marker
from tests.simulation.cluster import Cluster
from tests.simulation.conduct import effect_is_allowed, marker_written, queued_is_allowed
from tests.simulation.controllers import ControllerProcess
from tests.simulation.ensemble import Writer
from tests.simulation.ledger import Incarnation
from tests.simulation.settings import DELETION, Knowledge, Said
from tests.simulation.world import Violation, World

UNCLEAR = Said(unclear=(DELETION,))
AT_ONCE = 3
FENCE = Check(paths.controller_epoch(), 7)


def notes(*numbers: int, begun: int = 1) -> WriteZnodes:
    """Note in the markers of topics `t<number>` that the deletion of the topic with this czxid begins."""
    data = encode_deletion_marker(DeletionOrders(begun=begun))
    return WriteZnodes(1, tuple((SetData(paths.delete_topic(f"t{number}"), data, 0),) for number in numbers), FENCE)


def purge(controller: ControllerProcess, number: int, since_ms: int) -> WriteZnodes:
    """End the stay in the trash of topic `t<number>`, which began then."""
    name = f"t{number}"
    entry = TrashEntry(TrashPhase.TRASHED, TopicId(uuid.UUID(int=number + 1)), since_ms, 1_000, {})
    controller.context.cluster.trash.topics[name] = TrashedTopic(entry)
    return WriteZnodes(1, ((Create(paths.topic(name), b""), Create(paths.delete_topic(name), b"")),), FENCE)


def controller_that_has_begun(cluster: Cluster) -> ControllerProcess:
    """Under a limit of three topics a second, the controller has begun three deletions."""
    controller = cluster.controllers[0]
    context = controller.context
    context.config = replace(context.config, pace=PaceLimits(topics=AT_ONCE * 1_000))
    context.cluster.epoch, context.cluster.epoch_version = ControllerEpoch(5), EpochVersion(7)
    effect_is_allowed(cluster, controller, notes(*range(AT_ONCE)))
    return controller


def test_in_one_term_there_are_no_more_turns_than_the_bucket_gives() -> None:
    cluster = Cluster(World(0))
    controller = controller_that_has_begun(cluster)
    with pytest.raises(Violation, match="which are too many"):
        effect_is_allowed(cluster, controller, notes(*range(AT_ONCE), begun=2))


@pytest.mark.parametrize("in_trash", [False, True])
def test_a_topic_whose_first_write_fails_has_one_turn(*, in_trash: bool) -> None:
    cluster = Cluster(World(0))
    controller = controller_that_has_begun(cluster)

    def begin(life: int) -> None:
        effect = purge(controller, 3, since_ms=life) if in_trash else notes(3, begun=life)
        effect_is_allowed(cluster, controller, effect)

    begin(5)
    begin(5)
    assert controller.turns.begun == AT_ONCE + 1
    with pytest.raises(Violation, match=r"begins with \['t3'\], which are too many"):
        begin(6)


def test_a_turn_that_came_under_another_limit_is_none_under_the_next() -> None:
    cluster = Cluster(World(0))
    controller = controller_that_has_begun(cluster)
    controller.context.config = replace(controller.context.config, pace=PaceLimits(topics=500))
    effect_is_allowed(cluster, controller, notes(*range(AT_ONCE)))
    effect_is_allowed(cluster, controller, notes(3, 4))
    with pytest.raises(Violation, match="which are too many"):
        effect_is_allowed(cluster, controller, notes(5))


def test_a_controller_that_loads_anew_after_a_foreign_write_of_the_same_epoch_has_a_full_bucket() -> None:
    cluster = Cluster(World(0))
    controller = controller_that_has_begun(cluster)
    controller.context.cluster.epoch_version = EpochVersion(8)
    effect_is_allowed(cluster, controller, notes(*range(AT_ONCE)))
    assert controller.turns.begun == AT_ONCE


CZXID = 9
MARKER = paths.delete_topic("t0")
BEGUN = SetData(MARKER, encode_deletion_marker(DeletionOrders(begun=CZXID)), 0)


def marked() -> tuple[Cluster, Incarnation]:
    cluster = Cluster(World(0))
    incarnation = cluster.ledger.living["t0"] = Incarnation("t0", 1, readable=True, czxid=CZXID)
    cluster.ledger.by_zxid[CZXID, "t0"] = incarnation
    return cluster, incarnation


def queue_knowing_nothing(cluster: Cluster) -> None:
    """A controller that cannot read whether topics may be deleted queues t0."""
    controller = cluster.controllers[0]
    mutation.add_topic(controller.context.cluster, "t0", None, {0: ReplicaAssignment((BrokerId(1),))})
    controller.context.cluster.topics["t0"].created_zxid = CZXID
    mutation.queue_deletion(controller.context.cluster, "t0", 0)
    controller.knowledge = Knowledge(controller.started_with, said=UNCLEAR)
    queued_is_allowed(cluster, controller, {})


def test_a_controller_goes_on_with_what_another_one_has_noted_by_right() -> None:
    cluster, incarnation = marked()
    marker_written(cluster, Writer("controller 1001", 1, Knowledge(cluster.controllers[1].started_with)), BEGUN)
    queue_knowing_nothing(cluster)
    assert incarnation.condemned


@pytest.mark.parametrize(
    "writes",
    [
        (),
        ((UNCLEAR, SetData(MARKER, b"{}", 0)),),
        ((UNCLEAR, BEGUN),),
        ((Said(), BEGUN), (Said(), Delete(MARKER))),
    ],
    ids=["nothing was noted", "the note says nothing", "who noted it knew nothing", "the marker is gone"],
)
def test_a_controller_begins_no_deletion_that_it_does_not_know_to_be_allowed(
    writes: tuple[tuple[Said, Operation], ...],
) -> None:
    cluster, _ = marked()
    for said, operation in writes:
        knowledge = Knowledge(cluster.controllers[1].started_with, said=said)
        marker_written(cluster, Writer("controller 1001", 1, knowledge), operation)
    with pytest.raises(Violation, match="queues t0, having read"):
        queue_knowing_nothing(cluster)
