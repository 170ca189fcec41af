"""Plans of deletions: their file, their hash, and what counts as a change."""

from __future__ import annotations

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


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version":1}', b'{"version":2}'])
def test_another_file_is_no_plan(data: bytes) -> None:
    with pytest.raises(Refusal, match=r"plan\.json is") as refused:
        decode_plan(data, "plan.json")
    assert refused.value.exit is Exit.USAGE


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
