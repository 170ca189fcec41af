"""Ghosts in metadata caches as a rescue sees and tells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lethe.admin.refusal import Exit
from lethe.admin.rescue_ghosts import (
    AWAY,
    NOT_COMPARED,
    CacheDifference,
    CacheReport,
    are_caches_compared,
    cache_report,
    compared,
    ended_lines,
    final_report,
    found_lines,
)
from lethe.cli.rescue_show import before, plan
from lethe.controller.core.cache_memory import DueCacheRead, Ghost, GhostTombstones, OutstandingCacheRead
from lethe.controller.core.context import Role
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerId, Endpoint, LeaderAndIsr, ReplicaAssignment
from lethe.survey.views import (
    BrokerAnswers,
    BrokerFailure,
    BrokerPlace,
    Survey,
    TopicTree,
    UnansweredQuestion,
    ZooKeeperTree,
)
from tests.fakes.runtime import new_context
from tests.unit.cli.test_rescue_show import GONE, WAITING, end, look

STATE = LeaderAndIsr(1, 0, (1,), 1)
ORDERS = TopicTree("orders", None, {0: ReplicaAssignment((1,))}, (0,), {0: STATE})
BROKERS = tuple(Broker(BrokerId(n), NO_EPOCH, (Endpoint("PLAINTEXT", "h", n),)) for n in (1, 2))
TREE = ZooKeeperTree(topics={"orders": ORDERS}, brokers=BROKERS)
SHOWN = {"orders": CachedTopic(None, (0,))}
ONE, TWO = BrokerId(1), BrokerId(2)


def seen(
    second: Mapping[str, CachedTopic] | None, *unseen: UnansweredQuestion, tree: ZooKeeperTree = TREE
) -> CacheReport:
    """Broker 1 shows what is there, and broker 2 this."""
    answers = (BrokerAnswers(ONE, SHOWN), BrokerAnswers(TWO, second, unseen=unseen))
    return compared(Survey(1, 1, tree, answers))


def test_caches_that_agree_are_clean() -> None:
    assert seen(SHOWN).are_clean
    assert found_lines(seen(SHOWN)) == ended_lines(seen(SHOWN)) == []


def test_a_topic_and_partitions_that_zookeeper_has_not_are_ghosts() -> None:
    found = seen({"orders": CachedTopic(None, (0, 4)), "gone": CachedTopic(None, (0,))})
    assert [(each.broker, each.topic) for each in found.ghosts] == [(TWO, "gone"), (TWO, "orders")]
    assert "partitions 4 " in found.ghosts[1].why
    (line,) = found_lines(found)
    assert line.startswith(
        "The metadata cache of broker 2 shows 2 topics (gone, orders) that ZooKeeper does not have: "
    )


@pytest.mark.parametrize("failure", [*BrokerFailure])
def test_a_broker_that_does_not_tell_is_unseen_and_never_clean(failure: BrokerFailure) -> None:
    found = seen(None, UnansweredQuestion(failure, "it said 31", BrokerPlace.CACHE))
    assert found.unseen == ((TWO, "it said 31"),)
    assert not found.are_clean
    assert plan(look(caches=found), even_if_disabled=False, lines=()).exit is Exit.UNREACHABLE


def test_a_broker_that_hides_a_living_topic_is_unseen_and_what_it_shows_is_a_ghost() -> None:
    found = seen({"gone": CachedTopic(None, (0,))})
    assert [each.topic for each in found.ghosts] == ["gone"]
    assert found.unseen == ((TWO, "it does not show 1 topic in service (orders), nor perhaps others"),)
    assert not seen({}).are_clean


def test_what_is_marked_is_not_a_ghost() -> None:
    assert seen({"orders": CachedTopic(None, (0, 4))}, tree=replace(TREE, marked=("orders",))).are_clean


def test_brokers_with_the_same_reason_share_a_line() -> None:
    (line,) = found_lines(CacheReport(unseen=((ONE, "they sleep"), (TWO, "they sleep"))))
    assert line == "Whether the metadata caches of brokers 1, 2 show deleted topics is not known: they sleep."


def test_ghosts_are_told_before_and_make_the_dry_run_fail() -> None:
    ghosts = CacheReport((CacheDifference(TWO, "gone", "why"),))
    lines = before(look(caches=ghosts), even_if_disabled=False)
    assert lines[1:] == ["No topic is marked for deletion.", *found_lines(ghosts)]
    assert plan(look(caches=ghosts), even_if_disabled=False, lines=()).exit is Exit.NO
    assert plan(look(), even_if_disabled=False, lines=()).exit is Exit.OK


def test_the_end_is_good_only_where_every_cache_was_seen_without_a_ghost() -> None:
    cured = CacheReport(cured=((TWO, "gone"), (TWO, "older")))
    answer = end(GONE, caches=cured)
    assert answer.exit is Exit.OK
    assert (
        "Broker 2 has dropped 2 topics (gone, older) from its metadata cache that ZooKeeper does not have."
        in answer.lines
    )
    kept = replace(cured, ghosts=(CacheDifference(ONE, "kept", "it is internal"),))
    answer = end(GONE, caches=kept)
    assert answer.exit is Exit.NO
    line = "The metadata cache of broker 1 still shows topic kept that ZooKeeper does not have: it is internal."
    assert line in answer.lines
    assert answer.data["metadata_caches"]["ghosts"] == [{"broker": 1, "topic": "kept", "why": "it is internal"}]
    assert end(GONE, caches=CacheReport(unseen=((ONE, "silent"),))).exit is Exit.UNREACHABLE
    assert (
        end(GONE, caches=CacheReport(unseen=((ONE, "silent"),), unfinished=True), timed_out=True).exit is Exit.TIMED_OUT
    )


def test_topics_that_wait_for_the_same_share_their_reason() -> None:
    many = [replace(WAITING, topic=f"t{number}", marked_since_ms=9_000 - number) for number in range(21)]
    lines = before(look(*many, WAITING, GONE), even_if_disabled=False)
    assert lines[1].startswith("22 topics (t0, t1, t2 and 19 more): marked for deletion, the first of them 6 s ago")
    assert lines[1].endswith("will keep waiting.")
    assert sum("waits for broker 4" in line for line in lines) == 1
    ended = end(*many, GONE, replace(GONE, topic="bills")).lines
    assert "21 topics (t0, t1, t2 and 18 more) remain:" in ended
    assert sum("waits for broker 4" in line for line in ended) == 1
    assert any(line.startswith("2 topics (invoices, bills) are gone: ") for line in ended)


def test_only_the_chosen_topics_matter_where_some_are_named() -> None:
    found = CacheReport((CacheDifference(TWO, "gone", "why"), CacheDifference(TWO, "other", "why")), ((ONE, "silent"),))
    assert found.of(["gone"]) == CacheReport((CacheDifference(TWO, "gone", "why"),), ((ONE, "silent"),))


def test_the_controllers_word_is_taken_for_the_end() -> None:
    context = new_context()
    context.role = Role.ACTIVE
    caches = context.cluster.caches
    assert are_caches_compared(context)
    caches.due[ONE] = DueCacheRead(None, 0, 0)
    assert not are_caches_compared(context)
    caches.due[ONE] = DueCacheRead(None, 0, 0, attempts=1)
    assert are_caches_compared(context), "what is tried again later is not waited for"
    caches.reading = OutstandingCacheRead(1, ONE, DueCacheRead(None, 0, 0), 0)
    assert not are_caches_compared(context)
    caches.reading, caches.checking[TWO] = None, None
    assert not are_caches_compared(context)
    caches.checking.clear()
    caches.told[TWO] = GhostTombstones(1, ("gone",), 0)
    assert not are_caches_compared(context)
    caches.ghosts[TWO] = {"gone": Ghost("gone", None, (0,), 1), "kept": Ghost("kept", None, (0,), 1, "it is internal")}
    caches.unseen[ONE] = "silent"
    caches.cured.append((TWO, Ghost("old", None, (0,), 1)))
    said = cache_report(context)
    assert [each.topic for each in said.ghosts] == ["gone", "kept"]
    assert said.ghosts[1].why == "it is internal"
    assert (said.unseen, said.cured, said.unfinished) == (((ONE, "silent"),), ((TWO, "old"),), True)


def test_a_rescue_that_is_interrupted_while_it_loads_has_seen_no_cache() -> None:
    context = new_context()
    context.role = Role.LOADING
    context.cluster.brokers = {broker.id: broker for broker in BROKERS}
    said = cache_report(context).after(CacheReport((CacheDifference(TWO, "gone", "why"),)))
    assert [broker for broker, _ in said.unseen] == [ONE, TWO]
    assert said.unfinished
    assert not said.are_clean


def test_a_controller_that_is_not_active_shows_no_broker_that_has_left() -> None:
    first = CacheReport((CacheDifference(TWO, "gone", "why"),), ((TWO, "silent"),))
    known = first.not_compared((ONE, TWO))
    assert known.ghosts == (CacheDifference(TWO, "gone", NOT_COMPARED),)
    assert known.unseen == ((ONE, NOT_COMPARED), (TWO, "silent"))
    assert ended_lines(known)[0] == (
        f"The metadata cache of broker 2 showed topic gone that ZooKeeper does not have: {NOT_COMPARED}."
    )
    context = new_context()
    for role in (Role.TAKING, Role.LOADING, Role.RETIRED):
        context.role = role
        assert final_report(context, first, known) == known
    context.role = Role.ACTIVE
    assert final_report(context, first, known).unseen == ((TWO, AWAY),)


def test_a_broker_that_has_left_unseen_or_with_a_ghost_is_not_clean() -> None:
    first = CacheReport(
        (CacheDifference(TWO, "gone", "why"), CacheDifference(ONE, "old", "why")), ((BrokerId(3), "silent"),)
    )
    last = CacheReport(cured=((ONE, "old"),), registered=(ONE,))
    found = last.after(first)
    assert [(each.broker, each.topic) for each in found.ghosts] == [(TWO, "gone")]
    assert [broker for broker, _ in found.unseen] == [3]
    assert not found.are_clean
    assert CacheReport(cured=last.cured, registered=(ONE, TWO, BrokerId(3))).after(first).are_clean
