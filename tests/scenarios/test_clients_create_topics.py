"""Clients create topics through the controller: what they are answered, and what is there then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core.config import NewTopics
from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.protocol.kafka.admin import (
    CreatableAssignment,
    CreatableConfig,
    CreatableTopic,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.topic_configs import TOPIC_CONFIGS
from lethe.protocol.security.acls import (
    CLUSTER_NAME,
    Operation,
    ResourceType,
)
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, ZkError
from tests.fakes.one_controller import Loss, OneController
from tests.scenarios import clients
from tests.scenarios.plot import another_is_elected, another_is_elected_meanwhile, cluster, led, with_topic

VERSION = 7


def wanted(name: str, partitions: int = 2, factor: int = 2, **configs: str) -> CreatableTopic:
    named = tuple(CreatableConfig(key.replace("_", "."), value) for key, value in configs.items())
    return CreatableTopic(name, partitions, factor, (), named)


def creation(*topics: CreatableTopic, timeout_ms: int = 30_000, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics, timeout_ms, validate_only)


def created(world: OneController, request: CreateTopicsRequest) -> tuple[CreatedTopic, ...]:
    """The rows of the answer, which comes at once."""
    answer = world.ask(request, VERSION)
    assert isinstance(answer, CreateTopicsResponse)
    return answer.topics


def errors(world: OneController, request: CreateTopicsRequest) -> list[tuple[str, str, str | None]]:
    return [(row.name, ErrorCode(row.error).name, row.message) for row in created(world, request)]


def answered(world: OneController, key: int) -> tuple[CreatedTopic, ...]:
    """The rows of the only answer to this request."""
    answer = clients.answer_to(world, key)
    assert isinstance(answer, CreateTopicsResponse)
    return answer.topics


def test_a_topic_is_there_for_every_broker_when_its_client_is_answered() -> None:
    world = cluster()
    (row,) = created(world, creation(wanted("orders", 3, 2, retention_ms=" 5 ")))
    topic = world.context.cluster.topics["orders"]
    assert (row.error, row.num_partitions, row.replication_factor, row.topic_id) == (0, 3, 2, topic.id)
    assert all(len(partition.assignment.replicas) == 2 for partition in topic.partitions.values())
    assert all(len(world.cache(broker).partitions["orders"]) == 3 for broker in (1, 2, 3))
    config = world.read(paths.config_topic("orders"))
    assert config is not None
    assert znodes.decode_config("", config.data) == {"retention.ms": " 5 "}
    assert row.configs is not None
    assert [entry.name for entry in row.configs] == sorted(TOPIC_CONFIGS)
    assert [(entry.value, entry.source) for entry in row.configs if entry.name == "retention.ms"] == [("5", 1)]
    world.run()
    assert led(world, "orders", 2) is not None


def test_numbers_that_are_left_out_are_the_controllers_own() -> None:
    world = cluster()
    world.context.config = replace(world.context.config, new_topics=NewTopics(4, 3))
    (row,) = created(world, creation(wanted("t", -1, -1)))
    assert (row.num_partitions, row.replication_factor) == (4, 3)


def test_each_row_is_answered_by_itself_in_the_order_of_the_request() -> None:
    world = with_topic(cluster(), "there", (1, 2))
    rows = errors(
        world,
        creation(*map(wanted, ("b", "there", "twice", "c.d", "twice", "c_d", "a"))),
    )
    assert rows == [
        ("b", "NONE", None),
        ("there", "TOPIC_ALREADY_EXISTS", "Topic 'there' already exists."),
        ("twice", "INVALID_REQUEST", "Found multiple entries for this topic."),
        ("c.d", "NONE", None),
        ("twice", "INVALID_REQUEST", "Found multiple entries for this topic."),
        ("c_d", "INVALID_TOPIC_EXCEPTION", "Topic 'c_d' collides with existing topics: c.d"),
        ("a", "NONE", None),
    ]
    assert set(world.context.cluster.topics) == {"there", "b", "c.d", "a"}


def test_a_topic_whose_name_is_as_long_as_it_may_be() -> None:
    world, name = cluster(), "x" * 249
    assert errors(world, creation(wanted(name))) == [(name, "NONE", None)]
    assert led(world, name) is not None


def test_the_log_of_kraft_is_no_topic() -> None:
    words = "Creation of internal topic __cluster_metadata is prohibited."
    assert errors(cluster(), creation(wanted("__cluster_metadata"))) == [
        ("__cluster_metadata", "INVALID_REQUEST", words)
    ]


def test_a_request_to_validate_writes_nothing() -> None:
    world = cluster()
    before = world.zookeeper.paths()
    good, bad = created(world, creation(wanted("good", 5), wanted("bad", 0), validate_only=True, timeout_ms=0))
    assert (good.error, good.num_partitions, good.topic_id) == (0, 5, None)
    assert (bad.error, bad.message) == (ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    assert world.zookeeper.paths() == before


def test_a_topic_that_is_being_deleted_is_not_created() -> None:
    world = with_topic(cluster(), "t", (3, 1))
    world.stop_broker(3)
    world.mark("t")
    world.run()
    assert errors(world, creation(wanted("t"))) == [("t", "TOPIC_ALREADY_EXISTS", "Topic 't' is marked for deletion.")]


def test_a_marker_of_which_the_controller_has_not_heard_counts() -> None:
    world = cluster()
    world.write(Create(paths.delete_topic("t"), None))
    assert errors(world, creation(wanted("t"))) == [("t", "TOPIC_ALREADY_EXISTS", "Topic 't' is marked for deletion.")]
    assert not world.exists(paths.topic("t"))


def test_another_process_creates_the_topic_in_between() -> None:
    world = cluster()

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and not world.exists(paths.topic("t")):
            world.create_topic("t", (1, 2))

    world.meanwhile = meanwhile
    rows = errors(world, creation(wanted("t", 4), wanted("u")))
    assert rows == [("t", "TOPIC_ALREADY_EXISTS", "Topic 't' already exists."), ("u", "NONE", None)]
    world.run()
    assert len(world.context.cluster.topics["t"].partitions) == 1


def test_a_configuration_that_an_earlier_topic_left_is_replaced() -> None:
    world = cluster()
    world.write(Create(paths.config_topic("t"), znodes.encode_config({"retention.ms": "1"})))
    assert errors(world, creation(wanted("t"))) == [("t", "NONE", None)]
    config = world.read(paths.config_topic("t"))
    assert config is not None
    assert znodes.decode_config("", config.data) == {}


def test_a_configuration_that_another_process_writes_in_between_is_replaced() -> None:
    world = cluster()

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and not world.exists(paths.config_topic("t")):
            world.write(Create(paths.config_topic("t"), znodes.encode_config({"retention.ms": "1"})))

    world.meanwhile = meanwhile
    assert errors(world, creation(wanted("t"), wanted("u"))) == [("t", "NONE", None), ("u", "NONE", None)]
    config = world.read(paths.config_topic("t"))
    assert config is not None
    assert znodes.decode_config("", config.data) == {}


def test_a_refused_write_is_an_error_without_words_and_the_reason_is_recorded() -> None:
    world = cluster()
    world.refusals[paths.topic("t")] = ZkError.NO_AUTH
    assert errors(world, creation(wanted("t"), wanted("u"))) == [
        ("t", "UNKNOWN_SERVER_ERROR", None),
        ("u", "NONE", None),
    ]


# --- waiting --------------------------------------------------------------------------------------------------------


def test_a_broker_that_never_acknowledges() -> None:
    world = cluster()
    world.silent[3] = None
    key = clients.waiting(world, creation(wanted("t"), wanted("bad", 0), timeout_ms=5_000))
    world.advance(5_000)
    late, bad = answered(world, key)
    assert late == CreatedTopic("t", ErrorCode.REQUEST_TIMED_OUT, topic_id=world.context.cluster.topics["t"].id)
    assert bad.error == ErrorCode.INVALID_PARTITIONS
    assert key not in world.context.cluster.unanswered


def test_a_broker_that_leaves_is_not_waited_for() -> None:
    world = cluster()
    world.silent[3] = None
    key = clients.waiting(world, creation(CreatableTopic("t", -1, -1, (CreatableAssignment(0, (1, 2)),))))
    world.stop_broker(3)
    world.run()
    assert [row.error for row in answered(world, key)] == [ErrorCode.NONE]


def test_without_a_timeout_the_topic_is_created_and_the_answer_does_not_wait() -> None:
    world = cluster()
    assert errors(world, creation(wanted("t"), timeout_ms=0)) == [("t", "REQUEST_TIMED_OUT", None)]
    assert led(world, "t") is not None


def test_replicas_on_brokers_that_do_not_exist_have_no_leader_in_time() -> None:
    world = cluster()
    nowhere = CreatableTopic("t", -1, -1, (CreatableAssignment(0, (8, 9)),))
    key = clients.waiting(world, creation(nowhere, timeout_ms=1_000))
    world.advance(1_000)
    assert [row.error for row in answered(world, key)] == [ErrorCode.REQUEST_TIMED_OUT]


# --- control --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [creation(wanted("t")), creation(wanted("t", 0))], ids=["good", "refused"])
def test_who_has_lost_control_answers_so_and_creates_nothing(request_: CreateTopicsRequest) -> None:
    world = cluster()
    another_is_elected_meanwhile(world)
    assert errors(world, request_) == [("t", "NOT_CONTROLLER", None)]
    assert not world.exists(paths.topic("t"))


def test_control_is_lost_between_the_request_and_its_answer() -> None:
    world = cluster()
    world.silent[3] = None
    key = clients.waiting(world, creation(wanted("t")))
    another_is_elected(world)
    world.run()
    assert [row.error for row in answered(world, key)] == [ErrorCode.NOT_CONTROLLER]


@pytest.mark.parametrize("loss", list(Loss))
def test_a_write_whose_outcome_is_unknown_is_not_answered_as_done(loss: Loss) -> None:
    world = cluster()
    world.losing = lambda effect: loss if paths.topic("t") in str(effect.groups) else None
    assert errors(world, creation(wanted("t"))) == [("t", "NOT_CONTROLLER", None)]
    assert world.renewals


# --- rights ---------------------------------------------------------------------------------------------------------


def test_a_topic_that_the_client_may_not_create() -> None:
    world = cluster()
    sender = clients.ann((Operation.CREATE, ResourceType.TOPIC, "mine"))
    answer = world.ask(creation(wanted("mine"), wanted("yours")), VERSION, sender)
    assert isinstance(answer, CreateTopicsResponse)
    hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    mine, yours = answer.topics
    assert mine == CreatedTopic("mine", ErrorCode.NONE, config_error=hidden)
    assert yours == CreatedTopic("yours", hidden, "Authorization failed.", config_error=hidden)
    assert set(world.context.cluster.topics) == {"mine"}


def test_who_may_create_in_the_cluster_needs_no_right_to_each_topic() -> None:
    sender = clients.ann(
        (Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME), (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "t")
    )
    answer = cluster().ask(creation(wanted("t")), VERSION, sender)
    assert isinstance(answer, CreateTopicsResponse)
    assert [(row.error, row.num_partitions, row.config_error) for row in answer.topics] == [(0, 2, 0)]
