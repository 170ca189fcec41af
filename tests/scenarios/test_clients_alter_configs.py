"""Clients alter the controller's configuration: what they are answered, and what ZooKeeper has then."""

from __future__ import annotations

import json

import pytest

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.admin_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterableResource,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterOperation,
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.security.acls import CLUSTER_NAME, Operation, ResourceType
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, SetData, ZkError
from tests.fakes.one_controller import Loss, OneController
from tests.scenarios import clients
from tests.scenarios.plot import another_is_elected_meanwhile, cluster, with_topic
from tests.scenarios.test_pause import pause, resume

OWN = "1000"
INVALID = "Invalid config value for resource ConfigResource(type=TOPIC, name='t'):"
THROTTLE = "leader.replication.throttled.rate"
PATH = paths.config_broker(1000)


def change(name: str, value: str | None, operation: int = AlterOperation.SET) -> AlterableConfig:
    return AlterableConfig(name, value, operation)


def gone(name: str) -> AlterableConfig:
    return AlterableConfig(name, None, AlterOperation.DELETE)


def broker(*configs: AlterableConfig, name: str = OWN) -> AlterableResource:
    return AlterableResource(BROKER_RESOURCE, name, configs)


def of_topic(name: str, *configs: AlterableConfig) -> AlterableResource:
    return AlterableResource(TOPIC_RESOURCE, name, configs)


def altered(*resources: AlterableResource, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(resources, validate_only)


Row = tuple[str, str, str | None]


def rows_of(answer: object) -> list[Row]:
    assert isinstance(answer, AlterConfigsResponse)
    return [(row.name, ErrorCode(row.error).name, row.message) for row in answer.resources]


def stored(world: OneController, path: str = PATH) -> dict[str, str] | None:
    found = world.read(path)
    return None if found is None else znodes.decode_config(path, found.data)


def notified(world: OneController) -> list[str]:
    """Whose configurations have changed, oldest first."""
    names = world.zookeeper.children(paths.config_changes())
    found = [world.read(f"{paths.config_changes()}/{name}") for name in sorted(names)]
    return [json.loads(each.data or b"")["entity_path"] for each in found if each is not None]


def test_a_throttle_is_set_and_removed_and_brokers_are_notified() -> None:
    world = cluster()
    rate = change(THROTTLE, "1000")
    assert rows_of(world.ask(altered(broker(rate)))) == [(OWN, "NONE", None)]
    assert stored(world) == {THROTTLE: "1000"}
    assert rows_of(world.ask(altered(broker(gone(THROTTLE), gone("none"))))) == [(OWN, "NONE", None)]
    assert stored(world) == {}
    assert notified(world) == ["brokers/1000", "brokers/1000"]


def test_what_the_controller_stores_is_in_force() -> None:
    world = cluster()
    protected = change("lethe.protected.topics", "orders.*")
    assert rows_of(world.ask(altered(broker(protected)))) == [(OWN, "NONE", None)]
    world.run()
    assert world.context.protected_topics == ("orders.*",)
    more = change("lethe.protected.topics", "a,orders.*", AlterOperation.APPEND)
    world.ask(altered(broker(more)))
    assert stored(world) == {"lethe.protected.topics": "orders.*,a"}
    less = change("lethe.protected.topics", "orders.*", AlterOperation.SUBTRACT)
    world.ask(altered(broker(less)))
    assert stored(world) == {"lethe.protected.topics": "a"}


def test_the_older_request_replaces_the_configuration() -> None:
    world = cluster()
    world.ask(altered(broker(change(THROTTLE, "1"), change("num.io.threads", "2"))))
    request = AlterConfigsRequest((broker(change("num.io.threads", "3")),))
    assert rows_of(world.ask(request, 2)) == [(OWN, "NONE", None)]
    assert stored(world) == {"num.io.threads": "3"}
    request = AlterConfigsRequest((AlterableResource(BROKER_LOGGER_RESOURCE, OWN, ()),))
    assert rows_of(world.ask(request, 2)) == [(OWN, "INVALID_REQUEST", "Unknown resource type 8")]


def test_kafkas_own_steps_of_incremental_changes() -> None:
    """PlaintextAdminIntegrationTest.testValidIncrementalAlterConfigs."""
    world = with_topic(with_topic(cluster(), "a", (1,)), "b", (1,))
    policy = "cleanup.policy"
    world.ask(altered(of_topic("a", change("retention.ms", "60000000"), change(policy, "compact"))))

    def done(*resources: AlterableResource, validate_only: bool = False) -> None:
        rows = rows_of(world.ask(altered(*resources, validate_only=validate_only)))
        assert rows == [(each.name, "NONE", None) for each in resources]

    more = change(policy, "compact", AlterOperation.APPEND)
    done(
        of_topic(
            "a", change("flush.ms", "1000"), change(policy, "delete", AlterOperation.APPEND), gone("retention.ms")
        ),
        of_topic("b", change("min.cleanable.dirty.ratio", "0.9"), change("compression.type", "lz4"), more),
    )
    assert stored(world, paths.config_topic("a")) == {"flush.ms": "1000", policy: "compact,delete"}
    b = {"min.cleanable.dirty.ratio": "0.9", "compression.type": "lz4"}
    assert stored(world, paths.config_topic("b")) == {**b, policy: "delete,compact"}
    done(
        of_topic(
            "a", *(change(name, value, AlterOperation.SUBTRACT) for name, value in ((policy, "compact"), (AT, "0")))
        ),
        of_topic("b", change(policy, "compact,delete", AlterOperation.SUBTRACT)),
    )
    after = {"flush.ms": "1000", policy: "delete", AT: ""}
    assert stored(world, paths.config_topic("a")) == after
    assert stored(world, paths.config_topic("b")) == {**b, policy: ""}
    done(of_topic("a", more), validate_only=True)
    zip_ = altered(of_topic("a", change("compression.type", "zip")), validate_only=True)
    ((_, error, words),) = rows_of(world.ask(zip_))
    assert (error, (words or "")[:34]) == ("INVALID_CONFIG", "Invalid config value for resource ")
    assert stored(world, paths.config_topic("a")) == after


AT = "leader.replication.throttled.replicas"


@pytest.mark.parametrize(
    "before, operation, value, expected",
    [
        (None, AlterOperation.APPEND, "0:0", "0:0"),
        ("1:1", AlterOperation.APPEND, "0:0", "1:1,0:0"),
        ("0:0", AlterOperation.APPEND, "0:0", "0:0"),
        ("0:0", AlterOperation.SUBTRACT, "0:1,0:2", "0:0"),
    ],
)
def test_replicas_are_added_to_a_throttle_once_and_removed_if_they_are_there(
    before: str | None, operation: AlterOperation, value: str, expected: str
) -> None:
    world = with_topic(cluster(), "t", (1,))
    if before is not None:
        world.ask(altered(of_topic("t", change(AT, before))))
    assert rows_of(world.ask(altered(of_topic("t", change(AT, value, operation))))) == [("t", "NONE", None)]
    assert stored(world, paths.config_topic("t")) == {AT: expected}


def test_settings_of_a_broker_are_set_and_deleted_together() -> None:
    world = cluster()
    follower, disks = "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"
    world.ask(altered(broker(change(THROTTLE, "123"), change(follower, "456"))))
    assert stored(world) == {THROTTLE: "123", follower: "456"}
    world.ask(altered(broker(gone(THROTTLE), change(follower, "654"), change(disks, "987"))))
    assert stored(world) == {follower: "654", disks: "987"}
    world.ask(altered(broker(gone(THROTTLE), gone(follower), gone(disks))))
    assert stored(world) == {}


STATIC = "Cannot update these configs dynamically: "
PASSWORD = "listener.name.x.ssl.keystore.password"
GRACE = "lethe.deletion.grace"
REFUSED = [
    ((change("broker.id", "2"),), f"{STATIC}Set(broker.id)"),
    ((change("listeners", "x"), change("broker.id", "2")), f"{STATIC}Set(broker.id, listeners)"),
    ((change(PASSWORD, "hush"),), f"{STATIC}Set({PASSWORD})"),
    ((change("lethe.unknown", "1"),), f"{STATIC}Set(lethe.unknown)"),
    ((change(THROTTLE, "-1"),), f"Invalid value -1 for configuration {THROTTLE}: Value must be at least 0"),
    ((change(THROTTLE, "x"),), f"Invalid value x for configuration {THROTTLE}: Not a number of type LONG"),
    ((change("log.roll.ms", "1h"),), "Invalid value 1h for configuration log.roll.ms: Not a number of type LONG"),
    (
        (change(GRACE, "x"),),
        f"Invalid value for configuration {GRACE}: 'x' is not a pattern and a duration, such as orders.*:24h",
    ),
    ((change(THROTTLE, "1"), gone(THROTTLE)), "Error due to duplicate config keys"),
    ((change(THROTTLE, None), change("a", None)), f"Null value not supported for : {THROTTLE}, a"),
    ((change(THROTTLE, "1", 9),), "Unknown operations type 9"),
]


@pytest.mark.parametrize("configs, words", REFUSED, ids=[words[:40] for _, words in REFUSED])
def test_settings_that_are_refused(configs: tuple[AlterableConfig, ...], words: str) -> None:
    world = cluster()
    assert rows_of(world.ask(altered(broker(*configs)))) == [(OWN, "INVALID_REQUEST", words)]
    assert stored(world) is None


def test_an_element_is_removed_as_often_as_it_is_named() -> None:
    world = cluster()
    world.ask(altered(broker(change("lethe.protected.topics", "a,b,a,c,a"))))
    less = change("lethe.protected.topics", "a,c,a,none", AlterOperation.SUBTRACT)
    assert rows_of(world.ask(altered(broker(less)))) == [(OWN, "NONE", None)]
    assert stored(world) == {"lethe.protected.topics": "b,a"}


@pytest.mark.parametrize("operation, act", [(AlterOperation.APPEND, "append"), (AlterOperation.SUBTRACT, "subtract")])
def test_only_lists_have_elements(operation: AlterOperation, act: str) -> None:
    world = cluster()
    words = f"Config value {act} is not allowed for config key: {THROTTLE}"
    assert rows_of(world.ask(altered(broker(change(THROTTLE, "1", operation))))) == [(OWN, "INVALID_CONFIG", words)]
    words = "Unknown config name: a"
    assert rows_of(world.ask(altered(broker(change("a", "1", operation))))) == [(OWN, "INVALID_CONFIG", words)]
    assert stored(world) is None


def test_the_operations_on_a_topic_are_looked_at_before_the_topic() -> None:
    world = cluster()
    words = "Config value append is not allowed for config key: retention.ms"
    append = change("retention.ms", "7", AlterOperation.APPEND)
    assert rows_of(world.ask(altered(of_topic("none", append)))) == [("none", "INVALID_CONFIG", words)]
    unknown = rows_of(world.ask(altered(of_topic("none", change("retention.ms", "7", 9)))))
    assert unknown == [("none", "INVALID_REQUEST", "Unknown operations type 9")]
    append = change("cleanup.policy", "compact", AlterOperation.APPEND)
    words = "The topic 'none' does not exist."
    assert rows_of(world.ask(altered(of_topic("none", append)))) == [("none", "UNKNOWN_TOPIC_OR_PARTITION", words)]


def test_each_resource_of_a_request_is_answered_by_itself() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    rate = change(THROTTLE, "5")
    asked = (
        broker(rate),
        broker(rate, name=""),
        broker(rate, name="2"),
        broker(rate, name="x"),
        of_topic("t", change("retention.ms", "7")),
        of_topic("none", change("retention.ms", "7")),
        of_topic("", change("retention.ms", "7")),
        AlterableResource(BROKER_LOGGER_RESOURCE, OWN, (change("kafka", "INFO"),)),
        AlterableResource(BROKER_LOGGER_RESOURCE, "", ()),
        AlterableResource(CLIENT_METRICS_RESOURCE, "m", ()),
        AlterableResource(99, "y", ()),
    )
    metrics = "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"
    assert rows_of(world.ask(altered(*asked))) == [
        (OWN, "NONE", None),
        ("", "NONE", None),
        ("2", "INVALID_REQUEST", "Unexpected broker id, expected 1000, but received 2"),
        ("x", "INVALID_REQUEST", "Node id must be an integer, but it is: x"),
        ("t", "NONE", None),
        ("none", "UNKNOWN_TOPIC_OR_PARTITION", "The topic 'none' does not exist."),
        ("", "INVALID_REQUEST", "Default topic resources are not allowed."),
        (OWN, "INVALID_CONFIG", "Logger kafka does not exist!"),
        ("", "INVALID_REQUEST", "Node id must be an integer, but it is: "),
        ("m", "INVALID_REQUEST", metrics),
        ("y", "INVALID_REQUEST", "Unknown resource type 99"),
    ]
    assert stored(world, paths.config_broker_default()) == {THROTTLE: "5"}
    assert stored(world, paths.config_topic("t")) == {"retention.ms": "7"}
    assert sorted(notified(world)) == ["brokers/1000", "brokers/<default>", "topics/t"]


def test_a_topic_that_is_being_deleted_has_no_settings_any_more_as_in_kafka() -> None:
    """Its removal may end between the read of its settings and the write, and its name be used again."""
    world = with_topic(cluster(), "t", (3, 1))
    world.stop_broker(3)
    pause(world)
    world.mark("t")
    world.run()
    request = altered(of_topic("t", change("retention.ms", "7")))
    assert rows_of(world.ask(request)) == [("t", "NONE", None)]
    resume(world)
    assert world.context.cluster.is_queued("t")
    assert rows_of(world.ask(request)) == [("t", "UNKNOWN_TOPIC_OR_PARTITION", "The topic 't' does not exist.")]
    described = DescribeConfigsRequest((DescribableConfigs(TOPIC_RESOURCE, "t"),))
    answer = world.ask(described, 4)
    assert isinstance(answer, DescribeConfigsResponse)
    assert [row.error for row in answer.results] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_resource_that_is_named_twice() -> None:
    world = cluster()
    twice = (OWN, "INVALID_REQUEST", "Each resource must appear at most once.")
    assert rows_of(world.ask(altered(broker(), broker(change(THROTTLE, "5"))))) == [twice, twice]
    assert stored(world) is None


@pytest.mark.parametrize(
    "config, words",
    [
        (change("x", "1"), "Unknown topic config name: x"),
        (
            change("segment.ms", "0"),
            f"{INVALID} Invalid value 0 for configuration segment.ms: Value must be at least 1",
        ),
    ],
)
def test_settings_of_topics_that_are_refused(config: AlterableConfig, words: str) -> None:
    world = with_topic(cluster(), "t", (1, 2))
    before = stored(world, paths.config_topic("t"))
    assert rows_of(world.ask(altered(of_topic("t", config)))) == [("t", "INVALID_CONFIG", words)]
    assert stored(world, paths.config_topic("t")) == before


def test_a_request_to_validate_writes_nothing() -> None:
    world = cluster()
    asked = altered(broker(change(THROTTLE, "5")), validate_only=True)
    assert rows_of(world.ask(asked)) == [(OWN, "NONE", None)]
    assert (stored(world), notified(world)) == (None, [])


def test_what_the_client_may_not_alter() -> None:
    world = with_topic(with_topic(cluster(), "mine", (1, 2)), "yours", (1, 2))
    sender = clients.ann((Operation.ALTER_CONFIGS, ResourceType.TOPIC, "mine"))
    retention = change("retention.ms", "7")
    asked = altered(broker(change(THROTTLE, "5")), of_topic("mine", retention), of_topic("yours", retention))
    assert rows_of(world.ask(asked, 1, sender)) == [
        (OWN, "CLUSTER_AUTHORIZATION_FAILED", None),
        ("mine", "NONE", None),
        ("yours", "TOPIC_AUTHORIZATION_FAILED", None),
    ]
    assert stored(world) is None
    sender = clients.ann((Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME))
    assert rows_of(world.ask(altered(broker(change(THROTTLE, "5"))), 1, sender)) == [(OWN, "NONE", None)]


def test_a_setting_of_another_client_in_between_stays() -> None:
    world = cluster()
    world.ask(altered(broker(change("num.io.threads", "2"))))

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes):
            world.meanwhile = lambda _: None
            world.write(SetData(PATH, znodes.encode_config({"num.io.threads": "4"}), -1))

    world.meanwhile = meanwhile
    assert rows_of(world.ask(altered(broker(change(THROTTLE, "5"))))) == [(OWN, "NONE", None)]
    assert stored(world) == {"num.io.threads": "4", THROTTLE: "5"}


def test_a_configuration_that_changes_each_time_is_given_up() -> None:
    world = cluster()
    world.ask(altered(broker()))

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and effect.groups[0][0].path == PATH:
            world.write(SetData(PATH, znodes.encode_config({}), -1))

    world.meanwhile = meanwhile
    assert rows_of(world.ask(altered(broker(change(THROTTLE, "5"))))) == [(OWN, "UNKNOWN_SERVER_ERROR", None)]
    assert stored(world) == {}


def test_nothing_is_written_for_a_topic_that_is_gone_in_between() -> None:
    world = with_topic(cluster(), "t", (1, 2))

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes):
            world.meanwhile = lambda _: None
            world.write(Delete(f"{paths.topic('t')}/partitions/0/state"), Delete(f"{paths.topic('t')}/partitions/0"))
            world.write(Delete(f"{paths.topic('t')}/partitions"), Delete(paths.topic("t")))

    world.meanwhile = meanwhile
    words = "The topic 't' does not exist."
    row = ("t", "UNKNOWN_TOPIC_OR_PARTITION", words)
    assert rows_of(world.ask(altered(of_topic("t", change("retention.ms", "7"))))) == [row]
    assert stored(world, paths.config_topic("t")) in (None, {})


def test_what_cannot_be_understood_is_not_written_over() -> None:
    world = cluster()
    world.write(Create(PATH, b"{"))
    assert rows_of(world.ask(altered(broker(change(THROTTLE, "5"))))) == [(OWN, "UNKNOWN_SERVER_ERROR", None)]
    found = world.read(PATH)
    assert found is not None
    assert found.data == b"{"


def test_a_refused_write_is_an_error_without_words() -> None:
    world = cluster()
    world.read_only[PATH] = ZkError.NO_AUTH
    assert rows_of(world.ask(altered(broker(change(THROTTLE, "5"))))) == [(OWN, "UNKNOWN_SERVER_ERROR", None)]


def test_settings_that_no_write_can_hold_are_refused_alone() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    long = change("leader.replication.throttled.replicas", ",".join(["0:1"] * 260_000))
    words = "This takes 1,040,294 bytes in ZooKeeper, and one write has room for 980,000."
    rows = [("t", "INVALID_REQUEST", words), (OWN, "NONE", None)]
    assert rows_of(world.ask(altered(of_topic("t", long), broker(change(THROTTLE, "5"))))) == rows
    assert stored(world) == {THROTTLE: "5"}
    assert world.context.is_leading


@pytest.mark.parametrize("config", [change(THROTTLE, "5"), change(THROTTLE, "x")], ids=["good", "refused"])
def test_who_has_lost_control_answers_so_and_writes_nothing(config: AlterableConfig) -> None:
    world = cluster()
    another_is_elected_meanwhile(world)
    assert rows_of(world.ask(altered(broker(config)))) == [(OWN, "NOT_CONTROLLER", None)]
    assert stored(world) is None


@pytest.mark.parametrize("loss", list(Loss))
def test_a_write_whose_outcome_is_unknown_is_not_answered_as_done(loss: Loss) -> None:
    world = cluster()
    world.losing = lambda effect: loss if PATH in str(effect.groups) else None
    assert rows_of(world.ask(altered(broker(change(THROTTLE, "5"))))) == [(OWN, "NOT_CONTROLLER", None)]


def test_the_journal_names_the_settings_and_no_value() -> None:
    world = cluster()
    world.ask(altered(broker(change("lethe.protected.topics", "hush"), gone("x"))))
    (record,) = world.recorded(EventRecordType.CLIENT_REQUEST)
    assert record.data["names"] == "BROKER 1000"
    assert record.data["settings"] == "lethe.protected.topics, x"
    assert "hush" not in repr(record)
    assert "hush" not in repr(altered(broker(change("a", "hush"))))
