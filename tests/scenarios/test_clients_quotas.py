"""Clients have quotas on changes of topics: the figures of Kafka's ControllerMutationQuotaTest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lethe.controller.core import mutation_quotas
from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.mutation_quota_rules import QuotaClients
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    TopicRequest,
    TopicResponse,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.security.authorizer import Client, Sender
from lethe.protocol.security.principals import Principal
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, SetData, ZkError
from lethe.protocol.zookeeper.quota_paths import quota_of_client, quota_of_user_client
from lethe.protocol.zookeeper.znodes import encode_config
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import OneController
from tests.scenarios import clients
from tests.scenarios.plot import another_is_elected_meanwhile, cluster, with_topic
from tests.scenarios.test_clients_add_partitions import add_partition, grown, growth
from tests.scenarios.test_clients_create_topics import creation, wanted
from tests.scenarios.test_clients_delete_topics import deletion

THROTTLED, UNBOUNDED = (Sender(Client(Principal("User", name), "127.0.0.1")) for name in ("throttled", "unbounded"))
DONE = [("a", "NONE", None), ("b", "NONE", None)]
SECOND_REFUSED = [("a", "NONE", None), ("b", "THROTTLING_QUOTA_EXCEEDED", None)]
Ask = Callable[[OneController], TopicRequest]


def limited(rate: str = "2.0", *others: Create) -> OneController:
    """A cluster in which the user `throttled` may change two partitions a second, and save them up for ten seconds."""
    world = OneController()
    world.context.config = replace(world.context.config, mutation_quota_window_s=10)
    quota = Create(paths.config_user("throttled"), encode_config({"controller_mutation_rate": rate}))
    cluster(world=world)
    world.write(quota, *others)
    return world


def creating(partitions: int) -> Ask:
    return lambda _: creation(wanted("a", partitions, 1), wanted("b", partitions, 1))


def deleting(world: OneController) -> TopicRequest:
    for name in ("a", "b"):
        with_topic(world, name, *[(1,)] * 30)
    return deletion("a", "b")


def growing(world: OneController) -> TopicRequest:
    for name in ("a", "b"):
        with_topic(world, name, (1,))
    return growth(grown("a", 31), grown("b", 31))


def without_first(request: TopicRequest) -> TopicRequest:
    match request:
        case CreateTopicsRequest():
            return replace(request, topics=request.topics[1:])
        case DeleteTopicsRequest():
            return replace(request, topics=request.topics[1:])
        case CreatePartitionsRequest():
            return replace(request, topics=request.topics[1:])


def answer(world: OneController, request: TopicRequest, version: int, sender: Sender = THROTTLED) -> TopicResponse:
    response = world.ask(request, version, sender)
    assert isinstance(response, TopicResponse)
    return response


def rows(response: TopicResponse) -> list[tuple[str | None, str, str | None]]:
    return [(row.name, ErrorCode(row.error).name, row.message) for row in response.topics]


@pytest.mark.parametrize("ask, strict", [(creating(30), 6), (deleting, 5), (growing, 3)])
def test_versions_that_know_the_error_are_refused_what_exceeds_the_quota(ask: Ask, strict: int) -> None:
    world = limited()
    request = ask(world)
    first = answer(world, request, strict)
    assert (rows(first), first.throttle_time_ms) == (SECOND_REFUSED, 5_000)
    second_only = without_first(request)
    world.advance(4_999)
    again = answer(world, second_only, strict)
    assert (rows(again), again.throttle_time_ms) == (SECOND_REFUSED[1:], 1)
    world.advance(1)
    later = answer(world, second_only, strict)
    assert (rows(later), later.throttle_time_ms) == (DONE[1:], 0)


@pytest.mark.parametrize("ask, strict", [(creating(30), 6), (deleting, 5), (growing, 3)])
def test_earlier_versions_are_done_and_throttled(ask: Ask, strict: int) -> None:
    world = limited()
    done = answer(world, ask(world), strict - 1)
    assert (rows(done), done.throttle_time_ms) == (DONE, 20_000)


@pytest.mark.parametrize("ask, strict", [(creating(30), 6), (deleting, 5), (growing, 3)])
def test_a_client_without_a_quota_is_not_measured(ask: Ask, strict: int) -> None:
    world = limited()
    done = answer(world, ask(world), strict, UNBOUNDED)
    assert (rows(done), done.throttle_time_ms) == (DONE, 0)
    assert world.context.cluster.mutation_buckets == {}


def test_the_wait_that_is_told_is_what_is_left_of_it_when_the_answer_comes() -> None:
    world = limited()
    world.silent[3] = None
    request = creation(wanted("a", 30, 1), wanted("b", 30, 1), timeout_ms=8_000)
    key = world.request(request, 5, THROTTLED)
    world.run()
    world.advance(8_000)
    late = clients.answer_to(world, key)
    assert isinstance(late, TopicResponse)
    assert ([row.error for row in late.topics], late.throttle_time_ms) == ([ErrorCode.REQUEST_TIMED_OUT] * 2, 12_000)


def test_what_is_only_validated_or_refused_costs_nothing() -> None:
    world = limited()
    for request in (
        creation(wanted("a", 100, 1), validate_only=True),
        creation(wanted("a", 100, 9)),
        deletion("none"),
        growth(grown("none", 100)),
    ):
        assert answer(world, request, 7).throttle_time_ms == 0
    assert world.context.cluster.mutation_buckets == {}


def test_clients_of_one_user_share_a_quota_and_those_of_one_id_have_their_own() -> None:
    own = encode_config({"controller_mutation_rate": "1"})
    both = quota_of_user_client("throttled", "c")
    world = limited("2", Create(paths.parent_of(both), None), Create(both, own))
    for client_id in ("a", "b", "c"):
        world.request(creation(wanted(f"of-{client_id}", 5, 1)), 7, THROTTLED, client_id)
    world.run()
    left = {whose: bucket.tokens for whose, bucket in world.context.cluster.mutation_buckets.items()}
    assert left == {QuotaClients("throttled", ""): 10, QuotaClients("throttled", "c"): 5}


def test_a_changed_quota_counts_with_the_next_request() -> None:
    world = limited("1")
    answer(world, creation(wanted("a", 15, 1)), 7)
    assert rows(answer(world, creation(wanted("b", 1, 1)), 7)) == SECOND_REFUSED[1:]
    path = paths.config_user("throttled")
    world.write(SetData(path, encode_config({"controller_mutation_rate": "1000"}), ANY_VERSION))
    world.advance(10)
    assert rows(answer(world, creation(wanted("b", 1, 1)), 7)) == DONE[1:]
    world.write(SetData(path, encode_config({}), ANY_VERSION))
    assert rows(answer(world, creation(wanted("c", 100, 1), wanted("d", 1, 1)), 7)) == [
        ("c", "NONE", None),
        ("d", "NONE", None),
    ]


def test_full_buckets_are_forgotten_with_the_next_request() -> None:
    world = limited()
    answer(world, creation(wanted("a", 4, 1)), 7)
    assert list(world.context.cluster.mutation_buckets) == [QuotaClients("throttled", "")]
    world.advance(2_000)
    answer(world, creation(wanted("b", 1, 1)), 7, UNBOUNDED)
    assert world.context.cluster.mutation_buckets == {}


def test_a_bucket_that_never_fills_is_forgotten_an_hour_after_its_last_use() -> None:
    """A refused try is no use of it, as in Kafka."""
    world = limited("0")
    assert rows(answer(world, creation(wanted("a", 1, 1), wanted("b", 1, 1)), 7)) == SECOND_REFUSED
    world.advance(3_599_999)
    assert rows(answer(world, creation(wanted("c", 1, 1)), 7)) == [("c", "THROTTLING_QUOTA_EXCEEDED", None)]
    world.advance(1)
    assert rows(answer(world, creation(wanted("c", 1, 1)), 7)) == [("c", "NONE", None)]


def test_buckets_of_ids_that_clients_make_up_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation_quotas, "MOST_BUCKETS", 2)
    world = limited("1", Create(quota_of_client(None), encode_config({"controller_mutation_rate": "0"})))
    for client_id in ("a", "b", "a", "c"):
        world.request(creation(wanted(f"t{len(world.context.cluster.topics)}", 1, 1)), 0, UNBOUNDED, client_id)
        world.run()
    assert list(world.context.cluster.mutation_buckets) == [QuotaClients("", "a"), QuotaClients("", "c")]


@pytest.mark.parametrize("ask", [creating(1), deleting, growing])
def test_nothing_is_done_while_the_quota_is_unknown(ask: Ask) -> None:
    world = limited()
    request = ask(world)
    world.refusals[paths.config_user("throttled")] = ZkError.NO_AUTH
    before = len(world.zookeeper.paths())
    assert [error for _, error, _ in rows(answer(world, request, 7))] == ["UNKNOWN_SERVER_ERROR"] * 2
    assert len(world.zookeeper.paths()) == before
    (refusal,) = world.recorded(EventRecordType.REFUSAL)
    assert refusal.data["why"] == f"/config/users/throttled: reading it: {NO_AUTH}"


def test_partitions_that_are_written_anew_after_a_conflict_are_charged_once() -> None:
    world = with_topic(limited(), "t", (1, 2))

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes):
            world.meanwhile = lambda _: None
            add_partition(world, 2, 1)

    world.meanwhile = meanwhile
    assert rows(answer(world, growth(grown("t", 11)), 3)) == [("t", "NONE", None)]
    assert world.context.cluster.mutation_buckets[QuotaClients("throttled", "")].tokens == 10


def test_a_client_whose_quota_is_being_read_is_answered_when_control_is_lost() -> None:
    world = limited()
    another_is_elected_meanwhile(world)
    answered = answer(world, creation(wanted("a")), 7)
    assert rows(answered) == [("a", "NOT_CONTROLLER", None)]
    assert not world.exists(paths.topic("a"))
