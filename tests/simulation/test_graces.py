"""The rules about what a marker and the controllers' configuration make of a topic: the trash, or its deletion."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from lethe.protocol.deletion_grace import GraceRule
from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, SetData
from lethe.protocol.zookeeper.znodes import (
    DeletionOrders,
    TopicZnode,
    TrashEntry,
    TrashPhase,
    encode_deletion_marker,
    encode_topic,
    encode_trash,
)
from tests.simulation import graces
from tests.simulation.cluster import Cluster
from tests.simulation.ledger import Incarnation
from tests.simulation.mix import Mix
from tests.simulation.world import World

ID = TopicId(uuid.UUID(int=1))
MARKER = paths.delete_topic("t0")
RULE_MS = 15_000
BY_RULE = (GraceRule("t*", RULE_MS),)


def living(grace: tuple[GraceRule, ...]) -> tuple[Cluster, Incarnation]:
    """Topic t0 lives, and controllers have these rules."""
    cluster = Cluster(World(0))
    cluster.mix = replace(cluster.mix, grace=grace)
    book(cluster, Create(paths.topic("t0"), encode_topic(TopicZnode({}, ID))))
    return cluster, cluster.ledger.living["t0"]


def book(cluster: Cluster, *operations: Create | SetData | Delete) -> None:
    for operation in operations:
        cluster.ledger.book("operator", operation, 9, by_controller=False)


def marker(grace_ms: int | None) -> Create:
    return Create(MARKER, encode_deletion_marker(DeletionOrders(grace_ms=grace_ms)))


def freezing(grace_ms: int) -> tuple[Create, ...]:
    entry = TrashEntry(TrashPhase.FREEZING, ID, 0, grace_ms, {})
    return (Create(paths.trashed("t0"), encode_trash(entry)),)


@pytest.mark.parametrize(
    "rules, ordered_ms, grace_ms",
    [((), None, 0), (BY_RULE, None, RULE_MS), (BY_RULE, 0, 0), (BY_RULE, 3_000, 3_000), ((), 3_000, 3_000)],
)
def test_a_topic_is_queued_or_goes_into_the_trash_as_its_marker_says_and_else_by_the_rules(
    rules: tuple[GraceRule, ...], ordered_ms: int | None, grace_ms: int
) -> None:
    cluster, topic = living(rules)
    book(cluster, marker(ordered_ms))
    assert (graces.why_not_at_once(cluster, topic) is None) is (grace_ms == 0)
    for entry_ms in (RULE_MS, 3_000):
        assert (graces.why_not_frozen(cluster, freezing(entry_ms)) is None) is (entry_ms == grace_ms)


def test_each_marker_that_the_topic_has_had_is_a_reason() -> None:
    cluster, topic = living(BY_RULE)
    book(cluster, marker(0), Delete(MARKER), marker(None))
    assert graces.why_not_at_once(cluster, topic) is None
    assert graces.why_not_frozen(cluster, freezing(RULE_MS)) is None


def test_a_marker_that_was_taken_back_by_request_is_none() -> None:
    cluster, topic = living(BY_RULE)
    book(cluster, marker(0), Delete(MARKER))
    cluster.ledger.book_cancellations((Delete(MARKER), Delete(paths.request("t0"))))
    assert not topic.asked
    assert graces.why_not_at_once(cluster, topic) is not None
    book(cluster, marker(None))
    assert graces.why_not_at_once(cluster, topic) is not None


@pytest.mark.parametrize("ordered, deleted_under", [({(0, 1): 1}, 0), ({}, 1)], ids=["ordered", "deleted"])
def test_what_has_begun_for_an_earlier_marker_may_go_on(
    ordered: dict[tuple[int, int], int], deleted_under: int
) -> None:
    cluster, topic = living(())
    book(cluster, marker(0), Delete(MARKER), marker(0), Delete(MARKER))
    topic.ordered, topic.deleted_under = ordered, deleted_under
    cluster.ledger.book_cancellations((Delete(MARKER), Delete(paths.request("t0"))))
    assert topic.asked


def test_a_marker_that_names_another_topic_is_none() -> None:
    cluster, topic = living(())
    book(cluster, Create(MARKER, encode_deletion_marker(DeletionOrders(topic_czxid=8))))
    assert graces.why_not_at_once(cluster, topic) is not None


def test_a_marker_that_waited_for_its_topic_counts() -> None:
    cluster = Cluster(World(0))
    book(cluster, marker(0), Create(paths.topic("t0"), encode_topic(TopicZnode({}, ID))))
    assert graces.why_not_at_once(cluster, cluster.ledger.living["t0"]) is None


def test_only_runs_with_a_trash_have_rules() -> None:
    mixes: list[Mix] = [Cluster(World(seed)).mix for seed in range(40)]
    assert any(mix.grace for mix in mixes)
    assert all("mark_for_trash" in mix.theme_weights for mix in mixes if mix.grace)
