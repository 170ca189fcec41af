"""Plans of deletions: their file, their hash, and what counts as a change."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest

from lethe.admin.deletion_plan import (
    PlannedDebt,
    PlannedGroup,
    PlannedPartition,
    PlannedTopic,
    TopicDeletionPlan,
    changes,
    decode_plan,
    demand_unchanged,
    encode_plan,
)
from lethe.admin.refusal import Exit, Refusal

PARTITIONS = (PlannedPartition(0, (1, 2), 0, 10), PlannedPartition(1, (2, 3), 5, 5))
GROUPS = (PlannedGroup("billing", "Empty", False),)
ORDERS = PlannedTopic("orders", "id", 7, PARTITIONS, 1_000, 99, GROUPS, ("waits for broker 3",), ())
BILLS = PlannedTopic(
    "bills", None, 8, (PlannedPartition(0, (1,), 0, 0),), None, None, None, (), ("its size: no answer",)
)
PLAN = TopicDeletionPlan("cluster", 5, (1, 2), (BILLS, ORDERS), (PlannedDebt(3, 1, None),), ("waits",), ())


def with_orders(**changed: Any) -> TopicDeletionPlan:
    return replace(PLAN, topics=(BILLS, replace(ORDERS, **changed)))


def test_a_plan_is_read_as_it_was_written() -> None:
    assert decode_plan(encode_plan(PLAN), "plan.json") == PLAN


def test_the_hash_is_over_all_but_the_time() -> None:
    assert replace(PLAN, taken_at_ms=6).hash == PLAN.hash
    assert with_orders(czxid=9).hash != PLAN.hash
    assert replace(PLAN, brokers=(1,)).hash != PLAN.hash


def test_a_plan_that_was_written_to_by_hand_is_refused() -> None:
    document = orjson.loads(encode_plan(PLAN))
    document["topics"][0]["topic"] = "payments"
    with pytest.raises(Refusal, match="its hash is another one") as refused:
        decode_plan(orjson.dumps(document), "plan.json")
    assert refused.value.exit is Exit.USAGE


NO_PLAN = "plan.json is no plan of lethe topics plan-delete: "
REMEDY = ". Plan again with lethe topics plan-delete"


@pytest.mark.parametrize(
    "data,why",
    [
        (b"", "it is not JSON (Input is a zero-length, empty document: line 1 column 1 (char 0))"),
        (b"[]", "it must be an object, found an array"),
        (b"{}", "it has no version"),
        (b'{"version":1}', "it has no hash"),
        (b'{"version":2,"hash":""}', "its version is 2, and this release reads 1"),
        (b'{"version":1,"hash":""}', "it has no cluster_id"),
    ],
)
def test_another_file_is_no_plan(data: bytes, why: str) -> None:
    with pytest.raises(Refusal) as refused:
        decode_plan(data, "plan.json")
    assert (str(refused.value), refused.value.exit) == (f"{NO_PLAN}{why}{REMEDY}", Exit.USAGE)


@pytest.mark.parametrize(
    "place,name,value,why",
    [
        ((), "brokers", 1, "brokers must be an array, found 1"),
        ((), "brokers", ["1"], "brokers[0] must be a whole number, found the string '1'"),
        ((), "cluster_id", 7, "cluster_id must be a string, found 7"),
        ((), "note", "", "it has a key that no plan has: note"),
        (("topics", 1), "czxid", None, "topics[1].czxid must be a whole number, found null"),
        (("topics", 1), "czxid", 2**64, "topics[1].czxid must be a whole number, found 1.8446744073709552e+19"),
        (("topics", 1), "groups", {}, "topics[1].groups must be an array, found an object"),
        (("topics", 1, "groups", 0), "is_reading", 0, "topics[1].groups[0].is_reading must be true or false, found 0"),
        (("topics", 1, "partitions"), 1, [], "topics[1].partitions[1] must be an object, found an array"),
        (("debts", 0), "broker", True, "debts[0].broker must be a whole number, found true"),
    ],
)
def test_a_value_of_another_kind_is_named(place: tuple[str | int, ...], name: str | int, value: Any, why: str) -> None:
    document = inside = json.loads(encode_plan(PLAN))
    for step in place:
        inside = inside[step]
    inside[name] = value
    with pytest.raises(Refusal) as refused:
        decode_plan(json.dumps(document).encode(), "plan.json")
    assert (str(refused.value), refused.value.exit) == (f"{NO_PLAN}{why}{REMEDY}", Exit.USAGE)


def test_a_missing_key_is_named_with_its_place() -> None:
    document = orjson.loads(encode_plan(PLAN))
    del document["topics"][0]["unseen"]
    with pytest.raises(Refusal, match=r"topics\[0\] has no unseen\. Plan again"):
        decode_plan(orjson.dumps(document), "plan.json")


def test_nothing_has_changed() -> None:
    assert changes(PLAN, replace(PLAN, taken_at_ms=1_000)) == ()
    fewer = with_orders(groups=(), blockers=(), size_bytes=3, last_write_ms=5)
    assert changes(PLAN, fewer) == (), "what helps is no reason to refuse, and sizes change by themselves"


@pytest.mark.parametrize(
    "now,said",
    [
        (replace(PLAN, topics=(BILLS,)), "orders does not exist any more"),
        (with_orders(czxid=9), "orders is another topic of that name, created since"),
        (with_orders(topic_id="other"), "orders is another topic of that name, created since"),
        (with_orders(partitions=PARTITIONS[:1]), "orders has 1 partition, it had 2"),
        (
            with_orders(partitions=(PARTITIONS[0], replace(PARTITIONS[1], replicas=(2, 4)))),
            "orders has other replicas of partition 1: 2, 4",
        ),
        (
            with_orders(partitions=(replace(PARTITIONS[0], end=11), PARTITIONS[1])),
            "orders was written to: partition 0 ends at offset 11, it did at 10",
        ),
        (
            with_orders(groups=(*GROUPS, PlannedGroup("new", "Stable", True))),
            "orders is used by the consumer group new, which it was not",
        ),
        (
            with_orders(groups=(PlannedGroup("billing", "Stable", True),)),
            "orders is read by the consumer group billing, which it was not",
        ),
        (
            with_orders(blockers=("waits for broker 3", "is marked for deletion")),
            "orders is marked for deletion",
        ),
        (replace(PLAN, brokers=(1,)), "broker 2, which has replicas, is not registered any more"),
        (replace(PLAN, blockers=("waits", "is paused")), "every deletion is paused"),
        (replace(PLAN, cluster_id="other"), "this is the cluster other, and the plan is of cluster"),
    ],
)
def test_what_counts_as_a_change(now: TopicDeletionPlan, said: str) -> None:
    assert changes(PLAN, now) == (said,)
    with pytest.raises(Refusal) as refused:
        demand_unchanged(PLAN, now, allow_writes=False, accept_unseen=True)
    assert str(refused.value).splitlines() == [
        f"changed: {said}",
        "Nothing was done: plan again with lethe topics plan-delete.",
    ]


def test_a_topic_that_cannot_be_read_is_unseen_and_not_gone() -> None:
    unread = replace(PLAN, topics=(BILLS,), unseen=("orders cannot be read: NO_AUTH",))
    assert changes(PLAN, unread) == ()
    with pytest.raises(Refusal, match="unseen: orders cannot be read: NO_AUTH") as refused:
        demand_unchanged(PLAN, unread, allow_writes=False, accept_unseen=False)
    assert refused.value.data["changed"] == []


def test_writes_may_be_allowed() -> None:
    written = with_orders(partitions=(replace(PARTITIONS[0], end=11), PARTITIONS[1]))
    demand_unchanged(PLAN, written, allow_writes=True, accept_unseen=True)


def test_what_could_not_be_seen_then_or_now_has_to_be_accepted() -> None:
    with pytest.raises(Refusal) as refused:
        demand_unchanged(PLAN, with_orders(unseen=("its readers: no answer",)), allow_writes=False, accept_unseen=False)
    assert refused.value.data["unseen"] == ["bills: its size: no answer", "orders: its readers: no answer"]
    demand_unchanged(PLAN, PLAN, allow_writes=False, accept_unseen=True)
