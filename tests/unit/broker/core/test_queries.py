"""Metadata and DescribeLogDirs as Kafka 3.9 answers them."""

from __future__ import annotations

import pytest

from lethe.broker.core.inputs import LogDirFailed
from lethe.broker.core.queries import RequestContext, answer_describe_log_dirs, answer_metadata
from lethe.protocol.kafka.consumers import NO_AUTHORIZED_OPERATIONS
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    DescribableTopic,
    DescribeLogDirsRequest,
    LogDir,
    LogDirPartition,
    LogDirTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from lethe.protocol.security.acls import Operation, ResourceType
from lethe.protocol.security.authorizer import Sender
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint
from tests.fakes.one_controller import ANYONE
from tests.scenarios.clients import ann
from tests.unit.broker.core.driver import A, B, Driver, X, Y, become, metadata, stop

ONE = Broker(BrokerId(1), BrokerEpoch(-1), (Endpoint("IN", "one", 1), Endpoint("OUT", "eins", 11)), "r")
TWO = Broker(BrokerId(2), BrokerEpoch(-1), (Endpoint("IN", "two", 2),))
READER = ann((Operation.READ, ResourceType.TOPIC, "t"))


def ask(
    driver: Driver,
    *topics: MetadataRequestTopic | str,
    everything: bool = False,
    listener: str = "IN",
    version: int = 12,
    sender: Sender = ANYONE,
    operations: bool = False,
) -> MetadataResponse:
    wanted = tuple(MetadataRequestTopic(t) if isinstance(t, str) else t for t in topics)
    request = MetadataRequest(None if everything else wanted, True, operations, operations)
    return answer_metadata(driver.state.cache, request, RequestContext(listener, version, sender), cluster_id="c")


@pytest.fixture
def driver() -> Driver:
    made = Driver()
    made.update(metadata("t", X, partitions=(1, 0), brokers=(ONE, TWO)))
    made.update(metadata("__consumer_offsets", Y, leader=2, brokers=(ONE, TWO)))
    return made


def test_brokers_are_those_with_the_listener(driver: Driver) -> None:
    assert [(b.id, b.host, b.rack) for b in ask(driver).brokers] == [(1, "one", "r"), (2, "two", None)]
    assert [(b.id, b.host) for b in ask(driver, listener="OUT").brokers] == [(1, "eins")]
    assert (ask(driver).controller_id, ask(driver).cluster_id) == (9, "c")


def test_all_topics_are_sorted_and_internal_ones_marked(driver: Driver) -> None:
    topics = ask(driver, everything=True).topics
    assert [(t.name, t.is_internal, t.topic_id) for t in topics] == [("__consumer_offsets", True, Y), ("t", False, X)]
    assert [p.partition for p in topics[1].partitions] == [0, 1]


def test_topics_by_id(driver: Driver) -> None:
    answer = ask(driver, MetadataRequestTopic(None, X), MetadataRequestTopic(None, Y))
    assert [(t.name, t.error) for t in answer.topics] == [("t", ErrorCode.NONE), ("__consumer_offsets", ErrorCode.NONE)]


@pytest.mark.parametrize(
    "name,error", [("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION)]
)
def test_names_that_are_not_there(driver: Driver, name: str, error: int) -> None:
    (topic,) = ask(driver, name).topics
    assert (topic.name, topic.error, topic.partitions) == (name, error, ())


def test_an_id_that_is_not_there(driver: Driver) -> None:
    driver.update(metadata("t", None, brokers=(ONE,)))
    (topic,) = ask(driver, MetadataRequestTopic(None, X)).topics
    assert (topic.name, topic.topic_id, topic.error) == (None, X, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize(
    "listener,version,leader,error",
    [
        ("IN", 12, 2, ErrorCode.NONE),
        ("OUT", 12, -1, ErrorCode.LISTENER_NOT_FOUND),
        ("OUT", 5, -1, ErrorCode.LEADER_NOT_AVAILABLE),
    ],
)
def test_a_leader_without_the_listener(driver: Driver, listener: str, version: int, leader: int, error: int) -> None:
    (topic,) = ask(driver, "__consumer_offsets", listener=listener, version=version).topics
    assert (topic.partitions[0].leader, topic.partitions[0].error) == (leader, error)


@pytest.mark.parametrize("leader", [-1, 77])
def test_no_leader_or_a_dead_one(driver: Driver, leader: int) -> None:
    driver.update(metadata("t", X, leader=leader, brokers=(ONE,)))
    (topic,) = ask(driver, "t").topics
    assert (topic.partitions[0].leader, topic.partitions[0].error) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)


def test_an_agent_that_was_told_nothing_has_nothing_to_say() -> None:
    answer = ask(Driver(), everything=True)
    assert (answer.brokers, answer.topics, answer.controller_id) == ((), (), -1)


@pytest.mark.parametrize("version", [1, 9, 10, 11])
def test_ids_before_version_12_are_refused_for_every_topic(driver: Driver, version: int) -> None:
    answer = ask(driver, MetadataRequestTopic(None, X), MetadataRequestTopic("t", None), version=version)
    assert (answer.brokers, answer.cluster_id, answer.controller_id) == ((), None, -1)
    assert [(t.error, t.name, t.topic_id) for t in answer.topics] == [(ErrorCode.INVALID_REQUEST, "", X)]


def test_a_request_with_ids_is_about_these_only(driver: Driver) -> None:
    answer = ask(driver, MetadataRequestTopic("__consumer_offsets"), MetadataRequestTopic(None, X))
    assert [t.name for t in answer.topics] == ["t"]


def test_version_0_leaves_out_replicas_without_an_address(driver: Driver) -> None:
    driver.update(metadata("u", None, replicas=(1, 7), brokers=(ONE, TWO)))
    (old,) = ask(driver, "u", version=0).topics[0].partitions
    assert (old.error, old.leader, old.replicas, old.isr) == (ErrorCode.REPLICA_NOT_AVAILABLE, 1, (1,), (1,))
    (new,) = ask(driver, "u", version=1).topics[0].partitions
    assert (new.error, new.replicas, new.isr) == (ErrorCode.NONE, (1, 7), (1, 7))


def test_without_an_authorizer_everything_may_be_done(driver: Driver) -> None:
    """The numbers are Kafka's: `AclEntry.supportedOperations` as bits of `AclOperation`'s codes."""
    answer = ask(driver, "t", version=8, operations=True)
    assert answer.cluster_authorized_operations == sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
    assert answer.topics[0].authorized_operations == sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))


def test_authorized_operations_are_those_of_the_sender(driver: Driver) -> None:
    answer = ask(driver, "t", "__consumer_offsets", "nope", version=10, operations=True, sender=READER)
    assert answer.cluster_authorized_operations == 0
    assert [topic.authorized_operations for topic in answer.topics] == [1 << 3 | 1 << 8, 0, 0]


@pytest.mark.parametrize("version,of_cluster,of_topics", [(7, False, False), (8, True, True), (11, False, True)])
def test_authorized_operations_by_version(driver: Driver, version: int, of_cluster: bool, of_topics: bool) -> None:
    answer = ask(driver, "t", version=version, operations=True)
    assert (answer.cluster_authorized_operations != NO_AUTHORIZED_OPERATIONS) is of_cluster
    assert (answer.topics[0].authorized_operations != NO_AUTHORIZED_OPERATIONS) is of_topics


# --- DescribeLogDirs ----------------------------------------------------------------------------------------------


def test_log_directories_with_their_replicas() -> None:
    """Their sizes are those of their segments, as Kafka counts, now and after a restart."""
    driver = Driver()
    driver.leader_and_isr(become("t", X, partitions=(0, 1, 2)))
    driver.leader_and_isr(become("s", Y, partitions=(0,)))
    driver.stop(stop("t", partitions=(2,)))
    row = LogDirPartition(0, 4000, 0, False)
    again = answer_describe_log_dirs(Driver(disk=driver.disk).state, DescribeLogDirsRequest(), {}).log_dirs
    assert [t.partitions for log_dir in again for t in log_dir.topics if t.topic == "s"] == [(row,)]
    first, second = answer_describe_log_dirs(driver.state, DescribeLogDirsRequest(), {A: (100, 7)}).log_dirs
    assert first == LogDir(0, A, (LogDirTopic("t", (row,)),), 100, 7)
    assert second == LogDir(0, B, (LogDirTopic("s", (row,)), LogDirTopic("t", (row._replace(partition=1),))), -1, -1)


def test_only_what_was_asked_for() -> None:
    driver = Driver()
    driver.leader_and_isr(become("t", X, partitions=(0, 1, 2)))
    request = DescribeLogDirsRequest((DescribableTopic("t", (1, 9)), DescribableTopic("nope", (0,))))
    first, second = answer_describe_log_dirs(driver.state, request, {}).log_dirs
    assert first.topics == ()
    assert [(t.topic, [p.partition for p in t.partitions]) for t in second.topics] == [("t", [1])]


def test_a_failed_log_directory_reports_its_error() -> None:
    driver = Driver()
    driver.leader_and_isr(become("t", X, partitions=(0, 1)))
    driver.feed(LogDirFailed(A, "gone"))
    first, second = answer_describe_log_dirs(driver.state, DescribeLogDirsRequest(), {}).log_dirs
    assert (first.error, first.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, ())
    assert second.error == ErrorCode.NONE
