"""Clients add partitions through the controller: what they are answered, and what is there then."""

from __future__ import annotations

import pytest

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.protocol.kafka.admin import CreatePartitionsRequest, CreatePartitionsResponse, GrowableTopic
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.security.acls import Operation, ResourceType
from lethe.protocol.vocabulary import ReplicaAssignment
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import SetData, ZkError
from tests.fakes.one_controller import Loss, OneController
from tests.scenarios import clients, moves
from tests.scenarios.plot import another_is_elected, another_is_elected_meanwhile, cluster, led, with_topic
from tests.scenarios.test_pause import pause


def growth(*topics: GrowableTopic, timeout_ms: int = 30_000, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics, timeout_ms, validate_only)


def grown(name: str, total: int, *assignments: tuple[int, ...]) -> GrowableTopic:
    return GrowableTopic(name, total, assignments or None)


def rows_of(answer: object) -> list[tuple[str, str, str | None]]:
    assert isinstance(answer, CreatePartitionsResponse)
    return [(row.name, ErrorCode(row.error).name, row.message) for row in answer.topics]


def replicas(world: OneController, name: str) -> dict[int, tuple[int, ...]]:
    """The assignment in ZooKeeper."""
    found = world.read(paths.topic(name))
    assert found is not None
    return {number: each.replicas for number, each in znodes.decode_topic(name, found.data).assignments.items()}


def test_the_partitions_are_there_for_every_broker_when_the_client_is_answered() -> None:
    world = with_topic(cluster(), "t", (2, 3))
    before = world.context.cluster.topics["t"].id
    assert rows_of(world.ask(growth(grown("t", 3)))) == [("t", "NONE", None)]
    assert replicas(world, "t") == {0: (2, 3), 1: (3, 2), 2: (1, 3)}
    assert all(set(world.cache(broker).partitions["t"]) == {0, 1, 2} for broker in (1, 2, 3))
    assert led(world, "t", 2) == (1, 0, (1, 3))
    assert world.context.cluster.topics["t"].id == before


def test_given_replicas_are_those_of_the_new_partitions() -> None:
    world = with_topic(cluster(), "t", (2, 3))
    assert rows_of(world.ask(growth(grown("t", 2, (3, 1))))) == [("t", "NONE", None)]
    assert replicas(world, "t") == {0: (2, 3), 1: (3, 1)}


def test_each_topic_is_answered_by_itself_and_one_named_twice_once() -> None:
    world = with_topic(with_topic(cluster(), "a", (1, 2)), "b", (1, 2))
    asked = growth(grown("b", 0), grown("twice", 3), grown("a", 2), grown("none", 3), grown("twice", 4))
    assert rows_of(world.ask(asked)) == [
        ("b", "INVALID_PARTITIONS", "Topic currently has 1 partitions, which is higher than the requested 0."),
        ("twice", "INVALID_REQUEST", "Duplicate topic in request."),
        ("a", "NONE", None),
        ("none", "UNKNOWN_TOPIC_OR_PARTITION", "The topic 'none' does not exist."),
    ]
    assert (len(replicas(world, "a")), len(replicas(world, "b"))) == (2, 1)


def test_a_request_to_validate_writes_nothing() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    asked = growth(grown("t", 2), validate_only=True, timeout_ms=0)
    assert rows_of(world.ask(asked)) == [("t", "NONE", None)]
    assert len(replicas(world, "t")) == 1


@pytest.mark.parametrize("is_paused", [False, True], ids=["queued", "held"])
def test_a_topic_that_is_marked_gets_no_partitions(is_paused: bool) -> None:
    world = with_topic(cluster(), "t", (3, 1))
    if is_paused:
        pause(world)
    world.stop_broker(3)
    world.mark("t")
    world.run()
    words = "The topic is queued for deletion."
    assert rows_of(world.ask(growth(grown("t", 2)))) == [("t", "INVALID_TOPIC_EXCEPTION", words)]
    assert len(replicas(world, "t")) == 1


def test_a_topic_that_is_being_reassigned_gets_no_partitions() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.silent[3] = None
    moves.ask(world, t_0=(3, 1))
    words = "A partition reassignment is in progress for the topic 't'."
    assert rows_of(world.ask(growth(grown("t", 2)))) == [("t", "REASSIGNMENT_IN_PROGRESS", words)]


def add_partition(world: OneController, *brokers: int) -> None:
    """Another process adds a partition to topic t."""
    found = world.read(paths.topic("t"))
    assert found is not None
    znode = znodes.decode_topic("t", found.data)
    more = {**znode.assignments, len(znode.assignments): ReplicaAssignment(brokers)}
    data = znodes.encode_topic(znodes.TopicZnode(more, znode.topic_id))
    world.write(SetData(paths.topic("t"), data, found.stat.version))


@pytest.mark.parametrize(
    "total,row",
    [(4, ("t", "NONE", None)), (2, ("t", "INVALID_PARTITIONS", "Topic already has 2 partitions."))],
)
def test_another_process_adds_a_partition_in_between(total: int, row: tuple[str, str, str | None]) -> None:
    world = with_topic(with_topic(cluster(), "t", (1, 2)), "u", (1, 2))

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        world.meanwhile = lambda _: None
        add_partition(world, 2, 1)

    world.meanwhile = meanwhile
    assert rows_of(world.ask(growth(grown("t", total), grown("u", 2)))) == [row, ("u", "NONE", None)]
    assert replicas(world, "t")[1] == (2, 1)
    assert len(replicas(world, "t")) == max(total, 2)
    assert led(world, "t", 1) is not None


def test_a_topic_that_changes_each_time_is_given_up() -> None:
    world = with_topic(cluster(), "t", (1, 2))

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and effect.groups[0][0].path == paths.topic("t"):
            add_partition(world, 2, 1)

    world.meanwhile = meanwhile
    assert rows_of(world.ask(growth(grown("t", 50)))) == [("t", "UNKNOWN_SERVER_ERROR", None)]
    assert len(replicas(world, "t")) == 6


def test_a_refused_write_is_an_error_without_words() -> None:
    world = with_topic(with_topic(cluster(), "t", (1, 2)), "u", (1, 2))
    world.read_only[paths.topic("t")] = ZkError.NO_AUTH
    assert rows_of(world.ask(growth(grown("t", 2), grown("u", 2)))) == [
        ("t", "UNKNOWN_SERVER_ERROR", None),
        ("u", "NONE", None),
    ]


def test_a_broker_that_never_acknowledges() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.silent[3] = None
    key = clients.waiting(world, growth(grown("t", 2, (1, 2)), timeout_ms=5_000))
    world.advance(5_000)
    assert rows_of(clients.answer_to(world, key)) == [("t", "REQUEST_TIMED_OUT", None)]
    assert led(world, "t", 1) is not None


@pytest.mark.parametrize("total", [2, 1], ids=["good", "refused"])
def test_who_has_lost_control_answers_so_and_adds_nothing(total: int) -> None:
    world = with_topic(cluster(), "t", (1, 2))
    another_is_elected_meanwhile(world)
    assert rows_of(world.ask(growth(grown("t", total)))) == [("t", "NOT_CONTROLLER", None)]
    assert len(replicas(world, "t")) == 1


def test_control_is_lost_between_the_request_and_its_answer() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.silent[3] = None
    key = clients.waiting(world, growth(grown("t", 2, (1, 2))))
    another_is_elected(world)
    world.run()
    assert rows_of(clients.answer_to(world, key)) == [("t", "NOT_CONTROLLER", None)]


@pytest.mark.parametrize("loss", list(Loss))
def test_a_write_whose_outcome_is_unknown_is_not_answered_as_done(loss: Loss) -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.losing = lambda effect: loss if paths.topic("t") in str(effect.groups) else None
    assert rows_of(world.ask(growth(grown("t", 2)))) == [("t", "NOT_CONTROLLER", None)]


def test_what_the_client_may_not_alter() -> None:
    world = with_topic(with_topic(cluster(), "mine", (1, 2)), "yours", (1, 2))
    sender = clients.ann((Operation.ALTER, ResourceType.TOPIC, "mine"))
    assert rows_of(world.ask(growth(grown("mine", 2), grown("yours", 2)), 3, sender)) == [
        ("mine", "NONE", None),
        ("yours", "TOPIC_AUTHORIZATION_FAILED", "The topic authorization is failed."),
    ]
    assert len(replicas(world, "yours")) == 1
