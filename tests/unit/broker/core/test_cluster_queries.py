"""DescribeCluster and FindCoordinator as Kafka 3.9 answers them in ZooKeeper mode."""

from __future__ import annotations

import pytest

from lethe.broker.core.cluster_queries import answer_describe_cluster, answer_find_coordinator
from lethe.broker.core.metadata_cache import MetadataCache
from lethe.broker.core.queries import RequestContext
from lethe.protocol.kafka.cluster_queries import (
    GROUP,
    SHARE,
    TRANSACTION,
    Coordinator,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedBroker,
    FindCoordinatorRequest,
)
from lethe.protocol.kafka.consumers import NO_AUTHORIZED_OPERATIONS
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.group_offsets import coordinator_partition
from lethe.protocol.security.authorizer import Sender
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerId, Endpoint, TopicId
from tests.fakes.one_controller import ANYONE
from tests.unit.broker.core.driver import Y, metadata
from tests.unit.broker.core.test_queries import ONE, READER, TWO

NINE = Broker(BrokerId(9), NO_EPOCH, (Endpoint("IN", "nine", 9),))
"""The controller of every request here."""
MISMATCHED = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"


def cache_of(*brokers: Broker, topic: str = "t", topic_id: TopicId | None = Y, leader: int = 1) -> MetadataCache:
    cache = MetadataCache()
    cache.apply(metadata(topic, topic_id, partitions=(0, 1, 2), leader=leader, brokers=brokers))
    return cache


def described(
    cache: MetadataCache, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    return answer_describe_cluster(cache, request, context, "c")


@pytest.mark.parametrize(
    "listener,ids,first,controller", [("IN", [1, 2, 9], ("one", 1), 9), ("OUT", [1], ("eins", 11), -1)]
)
def test_the_cluster_is_described_for_the_listener_that_was_asked(
    listener: str, ids: list[int], first: tuple[str, int], controller: int
) -> None:
    answer = described(cache_of(ONE, TWO, NINE), DescribeClusterRequest(), RequestContext(listener, 1, ANYONE))
    assert ([broker.id for broker in answer.brokers], answer.controller_id) == (ids, controller)
    assert (answer.cluster_id, answer.error) == ("c", 0)
    assert answer.cluster_authorized_operations == NO_AUTHORIZED_OPERATIONS
    assert answer.brokers[0] == DescribedBroker(BrokerId(1), *first, "r")


@pytest.mark.parametrize("sender,operations", [(ANYONE, 0b1111110100000), (READER, 0)])
def test_what_may_be_done_to_the_cluster(sender: Sender, operations: int) -> None:
    context = RequestContext("IN", 0, sender)
    answer = described(cache_of(ONE), DescribeClusterRequest(True), context)
    assert answer.cluster_authorized_operations == operations


@pytest.mark.parametrize(
    "endpoint_type,version,error,words",
    [
        (2, 1, ErrorCode.MISMATCHED_ENDPOINT_TYPE, MISMATCHED),
        (3, 1, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 3"),
        (2, 0, ErrorCode.INVALID_REQUEST, MISMATCHED),
    ],
)
def test_other_endpoints_than_brokers_are_refused(endpoint_type: int, version: int, error: int, words: str) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    answer = described(cache_of(ONE), request, RequestContext("IN", version, ANYONE))
    assert (answer.error, answer.error_message, answer.brokers) == (error, words, ())


# --- FindCoordinator ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key_type,topic", [(GROUP, "__consumer_offsets"), (TRANSACTION, "__transaction_state")])
def test_the_coordinator_is_the_leader_of_the_partition_of_the_key(key_type: int, topic: str) -> None:
    cache = cache_of(ONE, TWO, topic=topic)
    key = next(key for key in ("a", "b", "c") if coordinator_partition(key, 3) == 1)
    cache.apply(metadata(topic, Y, partitions=(1,), leader=2, brokers=(ONE, TWO)))
    request = FindCoordinatorRequest((key, f"{key}{key}"), key_type)
    first, other = answer_find_coordinator(cache, request, RequestContext("IN", 4, ANYONE)).coordinators
    assert first == Coordinator(key, 0, "", BrokerId(2), "two", 2)
    assert (other.error, other.node_id) == (0, 1)
    old = answer_find_coordinator(cache, request, RequestContext("IN", 3, ANYONE)).coordinators[0]
    assert old.error_message == "NONE"


@pytest.mark.parametrize("leader,listener", [(-1, "IN"), (7, "IN"), (2, "OUT")])
def test_a_leader_that_clients_cannot_reach_coordinates_nothing(leader: int, listener: str) -> None:
    cache = cache_of(ONE, TWO, topic="__consumer_offsets", leader=leader)
    (row,) = answer_find_coordinator(
        cache, FindCoordinatorRequest(("g",)), RequestContext(listener, 1, ANYONE)
    ).coordinators
    assert row == Coordinator("g", ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")


@pytest.mark.parametrize(
    "key_type,version,error",
    [
        (GROUP, 6, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (SHARE, 6, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (SHARE, 5, ErrorCode.INVALID_REQUEST),
        (9, 6, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_cluster_of_agents_has_no_coordinator(key_type: int, version: int, error: int) -> None:
    request = FindCoordinatorRequest(("g",), key_type)
    (row,) = answer_find_coordinator(cache_of(ONE), request, RequestContext("IN", version, ANYONE)).coordinators
    assert row == Coordinator("g", error)
