"""Brokers asked about topics over real sockets: what counts as cached and stored, and what was not seen."""

from __future__ import annotations

import uuid

import pytest

from lethe.adapters.kafka.metadata import PROBE
from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import DescribableTopic, DescribeLogDirsRequest, MetadataRequest
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, TopicId
from lethe.survey.brokers import QueryScope, ask_all, reused_connections
from lethe.survey.views import BrokerAnswers, BrokerFailure, BrokerPlace
from tests.fakes.answering_broker import SSL, AnsweringBroker, served

TOPIC_ID = TopicId(uuid.UUID(int=5 << 90))
BOTH = QueryScope({"orders", "bills"}, {"orders": (0, 1), "bills": (0,)})


def broker() -> AnsweringBroker:
    """It caches `orders` and `other`, stores a partition of either, and does not know `bills`."""
    return AnsweringBroker({"orders": TOPIC_ID, "other": None}, {"orders": (1,), "other": (0,)})


def stored(answers: BrokerAnswers) -> list[str]:
    return [each.name for view in answers.log_dirs or () for each in view.directories]


async def test_cached_and_stored() -> None:
    handler = broker()
    async with served(handler) as registered, reused_connections(PLAINTEXT_REACH) as ask:
        told = await ask(BOTH)(registered)
        again = await ask(QueryScope({"bills"}))(registered)
    assert {name: cached.topic_id for name, cached in (told.cache or {}).items()} == {"orders": TOPIC_ID}
    assert (stored(told), told.unseen) == (["orders-1"], ())
    assert (again.cache, stored(again), again.unseen) == ({}, [], ())
    (metadata, log_dirs, _, all_log_dirs) = handler.asked
    assert isinstance(metadata, MetadataRequest)
    assert not metadata.allow_auto_topic_creation
    assert log_dirs == DescribeLogDirsRequest((DescribableTopic("orders", (0, 1)), DescribableTopic("bills", (0,))))
    assert all_log_dirs == DescribeLogDirsRequest(None)


async def test_an_old_broker_is_asked_for_everything_lest_it_create_a_topic() -> None:
    handler = broker()
    versions = {**SPOKEN, ApiKey.METADATA: VersionRange(0, 3)}
    async with served(handler, versions=versions) as registered, reused_connections(PLAINTEXT_REACH) as ask:
        told = await ask(BOTH)(registered)
    assert {name: cached.topic_id for name, cached in (told.cache or {}).items()} == {"orders": None}
    assert [request.topics for request in handler.asked if isinstance(request, MetadataRequest)] == [None]


async def test_log_directories_that_have_failed_are_told() -> None:
    async with (
        served(AnsweringBroker(failed_dirs=("/d", "/c"))) as registered,
        reused_connections(PLAINTEXT_REACH) as ask,
    ):
        told = await ask(BOTH)(registered)
    assert [view.path for view in told.log_dirs or () if view.has_failed] == ["/c", "/d"]


@pytest.mark.parametrize(
    "handler, place, failure, why",
    [
        (
            AnsweringBroker(log_dirs_error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            BrokerPlace.LOGS,
            BrokerFailure.REFUSED,
            "DescribeLogDirs: CLUSTER_AUTHORIZATION_FAILED for User:ANONYMOUS; grant it Describe on the cluster",
        ),
        (
            AnsweringBroker(log_dirs_error=ErrorCode.UNKNOWN_SERVER_ERROR),
            BrokerPlace.LOGS,
            BrokerFailure.ERROR,
            "DescribeLogDirs: UNKNOWN_SERVER_ERROR",
        ),
        (
            AnsweringBroker(names_no_log_dir=True),
            BrokerPlace.LOGS,
            BrokerFailure.REFUSED,
            (
                "DescribeLogDirs: it names no log directory; does it let User:ANONYMOUS ask? grant it Describe on the "
                "cluster"
            ),
        ),
        (
            AnsweringBroker(metadata_error=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            BrokerPlace.CACHE,
            BrokerFailure.REFUSED,
            (
                "Metadata: it does not let User:ANONYMOUS ask about topic orders, nor perhaps others; "
                "grant it Describe on all topics"
            ),
        ),
        (
            AnsweringBroker(metadata_error=ErrorCode.UNKNOWN_SERVER_ERROR),
            BrokerPlace.CACHE,
            BrokerFailure.ERROR,
            "Metadata: UNKNOWN_SERVER_ERROR for topic orders",
        ),
        (
            # What a broker says of a topic that is being created; it describes no partition.
            AnsweringBroker(metadata_error=ErrorCode.LEADER_NOT_AVAILABLE),
            BrokerPlace.CACHE,
            BrokerFailure.ERROR,
            "Metadata: LEADER_NOT_AVAILABLE for topic orders",
        ),
    ],
)
async def test_an_error_or_a_refusal_is_unseen_and_the_other_place_is_seen(
    handler: AnsweringBroker, place: BrokerPlace, failure: BrokerFailure, why: str
) -> None:
    async with served(handler) as registered, reused_connections(PLAINTEXT_REACH) as ask:
        told = await ask(QueryScope({"orders"}))(registered)
    assert told.unseen_at(place) == (failure, why, place)
    (other,) = set(BrokerPlace) - {place}
    assert told.unseen_at(other) is None


@pytest.mark.parametrize("may_describe", [frozenset(), frozenset({"orders"})])
async def test_a_list_that_leaves_topics_out_is_unseen(may_describe: frozenset[str]) -> None:
    """Without rights the list is empty, and there is no error."""
    handler = broker()
    handler.may_describe = may_describe
    async with served(handler) as registered, reused_connections(PLAINTEXT_REACH) as ask:
        told = await ask(QueryScope())(registered)
    assert told.unseen_at(BrokerPlace.CACHE) == (
        BrokerFailure.REFUSED,
        "Metadata: it does not let User:ANONYMOUS see all topics; grant it Describe on all topics",
        BrokerPlace.CACHE,
    )
    assert stored(told) == ["orders-1", "other-0"], "the log directories are seen"
    probes = [each for each in handler.asked if isinstance(each, MetadataRequest) and each.topics is not None]
    assert [(str(probe.topics[0].name), probe.allow_auto_topic_creation) for probe in probes if probe.topics] == [
        (PROBE, False)
    ]


async def test_a_whole_list_is_seen_although_the_probe_is_no_topic() -> None:
    async with served(broker()) as registered, reused_connections(PLAINTEXT_REACH) as ask:
        told = await ask(QueryScope())(registered)
    assert (set(told.cache or ()), told.unseen) == ({"orders", "other"}, ())


async def test_a_broker_that_fails_is_asked_again_over_a_new_connection() -> None:
    handler = broker()
    async with served(handler) as registered, reused_connections(PLAINTEXT_REACH) as ask:
        handler.hangs_up = True
        told = await ask(BOTH)(registered)
        assert (told.cache, told.log_dirs, told.failure) == (None, None, BrokerFailure.UNREACHABLE)
        handler.hangs_up = False
        assert (await ask(BOTH)(registered)).unseen == ()


@pytest.mark.parametrize(
    "endpoints, failure",
    [
        ((), BrokerFailure.UNASKED),
        ((SSL,), BrokerFailure.UNASKED),
        ((Endpoint("PLAINTEXT", "127.0.0.1", 1),), BrokerFailure.UNREACHABLE),
    ],
)
async def test_a_broker_that_cannot_be_asked_is_unseen_at_both_places(
    endpoints: tuple[Endpoint, ...], failure: BrokerFailure
) -> None:
    registered = Broker(BrokerId(1), BrokerEpoch(9), endpoints)
    async with reused_connections(PLAINTEXT_REACH, timeout_ms=2_000) as ask:
        told = await ask(BOTH)(registered)
    assert [unseen and unseen.failure for unseen in map(told.unseen_at, BrokerPlace)] == [failure, failure]


async def test_all_brokers_are_asked_and_one_that_fails_leaves_the_others_seen() -> None:
    async with (
        served(broker(), 1) as one,
        served(AnsweringBroker(hangs_up=True), 2) as two,
        reused_connections(PLAINTEXT_REACH) as ask,
    ):
        answers = await ask_all([two, one], ask(BOTH))
    assert [(answer.broker, answer.failure) for answer in answers] == [(2, BrokerFailure.UNREACHABLE), (1, None)]
