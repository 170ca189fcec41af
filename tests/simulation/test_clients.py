"""The rules on what clients are told, and on what a controller writes because they asked for it."""

from __future__ import annotations

import uuid

import pytest

from lethe.controller.core.context import Role
from lethe.controller.core.effects import HoldRequest, Reply
from lethe.controller.core.requests import refused
from lethe.protocol.kafka.admin import (
    CreatableTopic,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopic,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    GrowableTopic,
    GrownTopic,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionOutcome,
    ReassignablePartition,
    ReassignableTopic,
    TopicOutcome,
    TopicPartitions,
)
from lethe.protocol.kafka.to_controller import AdminRequest, AdminResponse, ControllerResponse
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch, LeaderAndIsr, ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Operation, SetData
from lethe.protocol.zookeeper.znodes import DeletionOrders
from tests.simulation import client_answers, client_book
from tests.simulation.client_book import Arrived
from tests.simulation.clients import Asked
from tests.simulation.cluster import Cluster
from tests.simulation.ensemble import Writer
from tests.simulation.world import Violation, World

ID = TopicId(uuid.UUID(int=1))
OTHER = TopicId(uuid.UUID(int=2))
CONTROLLER = Writer("controller 1000", 1)
CREATION = CreateTopicsRequest((CreatableTopic("t0", 1, 1),), 3_000)
DELETION = DeleteTopicsRequest((DeletableTopic("t0"),), 3_000)
GROWTH = CreatePartitionsRequest((GrowableTopic("t0", 2),), 3_000)
MOVE = AlterPartitionReassignmentsRequest((ReassignableTopic("t0", (ReassignablePartition(0, (2,)),)),), 3_000)
ELECTION = ElectLeadersRequest((TopicPartitions("t0", (0,)),), 3_000)
UNCLEAN = ElectLeadersRequest(None, 3_000, 1)


def topic(topic_id: TopicId = ID, partitions: int = 1) -> Create:
    assignments = {number: ReplicaAssignment((BrokerId(1),)) for number in range(partitions)}
    return Create(paths.topic("t0"), znodes.encode_topic(znodes.TopicZnode(assignments, topic_id)))


def state(leader: int) -> Create:
    data = znodes.encode_state(LeaderAndIsr(BrokerId(leader), 0, (BrokerId(1),), 0, ControllerEpoch(1)))
    return Create(paths.partition_state("t0", 0), data)


def marker(names: int | None = None) -> Create:
    return Create(paths.delete_topic("t0"), znodes.encode_deletion_marker(DeletionOrders(topic_czxid=names)))


def book(cluster: Cluster, *operations: Operation, zxid: int = 9) -> None:
    for operation in operations:
        cluster.ledger.book(CONTROLLER.name, operation, zxid, by_controller=True)


def living(*more: Operation) -> Cluster:
    """Topic t0 lives, and no broker is up."""
    cluster = Cluster(World(0))
    book(cluster, topic(), state(1), *more)
    return cluster


def arrived(cluster: Cluster, request: AdminRequest) -> Arrived:
    return cluster.ledger.clients.arrived(request, cluster.ledger)


# --- what a controller writes -------------------------------------------------------------------------------------


def write(cluster: Cluster, *operations: Operation) -> None:
    client_book.writes_are_explained(cluster, CONTROLLER, operations)


def test_each_request_explains_one_topic() -> None:
    cluster = Cluster(World(0))
    arrived(cluster, CREATION)
    write(cluster, topic())
    with pytest.raises(Violation, match="creates t0 .* and no client asked for it"):
        write(cluster, topic())


def test_a_topic_has_as_many_partitions_as_its_client_wants() -> None:
    cluster = Cluster(World(0))
    arrived(cluster, CREATION)
    with pytest.raises(Violation, match="creates t0"):
        write(cluster, topic(partitions=2))


@pytest.mark.parametrize("asked", [DeletableTopic("t0"), DeletableTopic(None, ID)], ids=["name", "id"])
def test_a_marker_is_for_the_topic_that_a_client_names(asked: DeletableTopic) -> None:
    cluster = living()
    arrived(cluster, DeleteTopicsRequest((asked,), 0))
    write(cluster, marker(9))


@pytest.mark.parametrize("asked", [None, DeletableTopic("t1"), DeletableTopic(None, OTHER)], ids=["none", "name", "id"])
def test_a_marker_of_a_topic_that_no_client_has_named_is_a_violation(asked: DeletableTopic | None) -> None:
    cluster = living()
    if asked is not None:
        arrived(cluster, DeleteTopicsRequest((asked,), 0))
    write(cluster, marker(8))
    with pytest.raises(Violation, match="S2: controller 1000 marks t0"):
        write(cluster, marker(9))


def test_a_name_means_the_topic_that_is_created_meanwhile_and_none_after_the_answer() -> None:
    cluster = Cluster(World(0))
    request = arrived(cluster, DELETION)
    book(cluster, topic())
    write(cluster, marker())
    cluster.ledger.clients.ended(request)
    book(cluster, topic(OTHER), zxid=10)
    with pytest.raises(Violation, match="marks t0"):
        write(cluster, marker())


def test_partitions_are_added_as_a_client_has_asked() -> None:
    cluster = living()
    t0, two = cluster.ledger.living["t0"], {number: ReplicaAssignment((BrokerId(1),)) for number in (0, 1)}
    with pytest.raises(Violation, match="2 partitions, asked were"):
        client_book.growth_is_explained(CONTROLLER, t0, two)
    arrived(cluster, GROWTH)
    client_book.growth_is_explained(CONTROLLER, t0, two)


def test_moves_and_unclean_elections_belong_to_the_topics_that_lived_with_the_request() -> None:
    cluster = living()
    t0 = cluster.ledger.living["t0"]
    assert not client_book.wants_moved(t0, 0)
    assert not client_book.wants_unclean(t0, 0)
    for request in (MOVE, UNCLEAN):
        arrived(cluster, request)
    assert client_book.wants_moved(t0, 0)
    assert client_book.wants_unclean(t0, 0)
    assert not client_book.wants_moved(t0, 1)


# --- what clients are told ----------------------------------------------------------------------------------------


def problems(cluster: Cluster, request: AdminRequest, response: ControllerResponse) -> list[str]:
    """What is not so of an answer that a controller gives at once."""
    return list(client_answers.untrue(cluster, cluster.controllers[0], arrived(cluster, request), response))


def created(topic_id: TopicId | None) -> CreateTopicsResponse:
    return CreateTopicsResponse((CreatedTopic("t0", 0, None, topic_id, 1, 1),))


GONE = DeleteTopicsResponse((DeletedTopic("t0", None, 0),))
GROWN = CreatePartitionsResponse((GrownTopic("t0", 0),))
MOVED = AlterPartitionReassignmentsResponse((TopicOutcome("t0", (PartitionOutcome(0, 0),)),))
ELECTED = ElectLeadersResponse((TopicOutcome("t0", (PartitionOutcome(0, 0),)),))
LEADERLESS = SetData(paths.partition_state("t0", 0), state(-1).data or b"", 0)


@pytest.mark.parametrize(
    "change, request_, response, problem",
    [
        ((), CREATION, created(OTHER), "never was there"),
        ((), CREATION, created(None), "never was there"),
        ((), CREATION, CreateTopicsResponse(()), "the rows"),
        ((), DELETION, GONE, "nobody has marked it"),
        ((), GROWTH, GROWN, "and it has not"),
        ((), MOVE, MOVED, "moves to"),
        ((LEADERLESS,), ELECTION, ELECTED, "its state is"),
        ((), ELECTION, GONE, "DeleteTopicsResponse to ElectLeadersRequest"),
    ],
)
def test_an_answer_that_is_not_so(
    change: tuple[Operation, ...], request_: AdminRequest, response: AdminResponse, problem: str
) -> None:
    cluster = living(*change)
    cluster.controllers[0].context.cluster.epoch_version = cluster.ensemble.epoch_version  # type: ignore[assignment]
    assert any(problem in each for each in problems(cluster, request_, response))


@pytest.mark.parametrize(
    "change, request_, response",
    [((), CREATION, created(ID)), ((marker(),), DELETION, GONE), ((), ELECTION, ELECTED)],
)
def test_an_answer_that_is_so(change: tuple[Operation, ...], request_: AdminRequest, response: AdminResponse) -> None:
    cluster = living(*change)
    cluster.controllers[0].context.cluster.epoch_version = cluster.ensemble.epoch_version  # type: ignore[assignment]
    assert problems(cluster, request_, response) == []


def test_what_a_former_controller_says_of_caches_is_not_judged() -> None:
    cluster = living(LEADERLESS)
    assert problems(cluster, ELECTION, ELECTED) == []


# --- one answer ---------------------------------------------------------------------------------------------------


def waiting() -> tuple[Cluster, list[ControllerResponse | None]]:
    """A request has reached a controller that does not lead; what its client hears."""
    cluster = Cluster(World(0))
    heard: list[ControllerResponse | None] = []
    controller = cluster.controllers[0]
    controller.alive = True
    controller.desk.receive(Asked(cluster, controller, DELETION, heard.append))
    return cluster, heard


def test_a_request_is_answered_once() -> None:
    cluster, _ = waiting()
    desk = cluster.controllers[0].desk
    desk.reply(Reply(1, refused(DELETION)))
    with pytest.raises(Violation, match="nobody waits"):
        desk.reply(Reply(1, refused(DELETION)))
    with pytest.raises(Violation, match="is held, and nobody waits"):
        desk.hold(HoldRequest(1, 5))
    desk.nobody_waits()


def test_who_does_not_lead_says_so() -> None:
    cluster, _ = waiting()
    assert cluster.controllers[0].context.role is not Role.ACTIVE
    with pytest.raises(Violation, match="does not lead"):
        cluster.controllers[0].desk.reply(Reply(1, GONE))


def test_the_client_of_a_process_that_dies_hears_that_its_connection_is_lost() -> None:
    cluster, heard = waiting()
    cluster.controllers[0].crash()
    cluster.world.after_event = lambda: None
    cluster.world.run_until(cluster.world.now_ms + 1_000, 100)
    assert heard == [None]
    cluster.controllers[0].desk.nobody_waits()


def test_a_request_waits_no_longer_than_the_core_has_said() -> None:
    cluster, _ = waiting()
    desk = cluster.controllers[0].desk
    with pytest.raises(Violation, match="has nothing to do, and has not answered"):
        desk.nobody_is_forgotten()
    desk.hold(HoldRequest(1, 5))
    desk.nobody_is_forgotten()
    cluster.world.now_ms += 6
    with pytest.raises(Violation, match="has nothing to do, and has not answered"):
        desk.nobody_is_forgotten()
    with pytest.raises(Violation, match="has never answered"):
        desk.nobody_waits()
