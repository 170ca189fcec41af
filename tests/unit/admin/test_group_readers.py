"""What a coordinator says of the readers of topics, and what it does not: a group that is silent hides no other."""

from __future__ import annotations

import pytest

from lethe.adapters.kafka.client import RequestTimedOut
from lethe.admin import group_readers
from lethe.admin.group_readers import CoordinatedGroups, Group, read_groups
from lethe.protocol.kafka.consumers import DescribedGroup, DescribeGroupsRequest, GroupMember
from lethe.protocol.vocabulary import BrokerId, TopicPartition
from tests.fakes.group_broker import GroupBroker, assignment, group

ORDERS, BILLS = (TopicPartition(topic, 0) for topic in ("orders", "bills"))
HERE = Group("here", "Stable", ("app (10.0.0.1)",))


async def read(broker: GroupBroker, *topics: str) -> CoordinatedGroups:
    return await read_groups(broker.connection, BrokerId(1), topics or ("orders", "bills", "visits"))


async def test_groups_that_read_a_topic_and_those_that_did() -> None:
    broker = GroupBroker({"here": [group("Stable", "orders")], "gone": [group("Empty")]}, {"gone": [ORDERS, BILLS]})
    gone = Group("gone", "Empty")
    assert await read(broker) == CoordinatedGroups({"orders": [gone, HERE], "bills": [gone]}, [])


async def test_what_a_member_is_assigned_counts_although_it_does_not_subscribe() -> None:
    member = GroupMember("m-1", "app", "/10.0.0.1", b"", assignment(orders=(0, 1), others=()))
    broker = GroupBroker({"here": [DescribedGroup(0, "", "Stable", "consumer", "range", (member,))]})
    assert (await read(broker, "orders")).by_topic == {"orders": [HERE]}


async def test_members_of_another_protocol_subscribe_to_nothing() -> None:
    broker = GroupBroker({"workers": [group("Stable", kind="connect")]}, {"workers": [ORDERS]})
    assert await read(broker) == CoordinatedGroups({"orders": [Group("workers", "Stable")]}, [])


@pytest.mark.parametrize(
    "broker, problem",
    [
        (
            GroupBroker({"other": [group("Stable", error=30)]}),
            (
                "consumer group other: it cannot be described: GROUP_AUTHORIZATION_FAILED for User:ANONYMOUS; "
                "grant it Describe on group other"
            ),
        ),
        (
            GroupBroker({"other": [group("Stable", "orders")]}, stored_errors={"other": 16}),
            "consumer group other: error 16",
        ),
        (
            GroupBroker(
                {
                    "other": [
                        DescribedGroup(0, "", "Stable", "consumer", "", (GroupMember("m", "c", "h", b"\0\1", b""),))
                    ]
                }
            ),
            "consumer group other: a member's subscription ends in the middle of a field",
        ),
    ],
)
async def test_a_group_that_cannot_be_read_hides_no_other(broker: GroupBroker, problem: str) -> None:
    broker.described["here"] = [group("Stable", "orders")]
    assert await read(broker) == CoordinatedGroups({"orders": [HERE]}, [problem])


async def test_a_group_that_the_answer_leaves_out_is_a_problem() -> None:
    class Forgetful(GroupBroker):
        def _describe(self, name: str) -> DescribedGroup:
            return super()._describe(name)._replace(group="another")

    broker = Forgetful({"here": [group("Stable", "orders")]})
    assert await read(broker) == CoordinatedGroups({}, ["consumer group here: it is not in the answer"])


async def test_a_group_that_is_rebalanced_is_asked_about_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_readers, "REBALANCE_PAUSE_S", 0.0)
    joining, stable = group("PreparingRebalance"), group("Stable", "orders")
    broker = GroupBroker({"here": [joining, joining, stable], "calm": [stable]})
    found = await read(broker)
    assert ([each.name for each in found.by_topic["orders"]], found.problems) == (["calm", "here"], [])
    asked = [each.groups for each in broker.asked if isinstance(each, DescribeGroupsRequest)]
    assert asked == [("calm", "here"), ("here",), ("here",)]
    assert await read(GroupBroker({"here": [joining]})) == CoordinatedGroups(
        {}, ["consumer group here: its members are joining it, and what they read is unseen"]
    )


@pytest.mark.parametrize(
    "broker, problem",
    [
        (GroupBroker(list_error=15), "consumer groups of broker 1: COORDINATOR_NOT_AVAILABLE"),
        (GroupBroker(failure=RequestTimedOut("h:1 is silent")), "consumer groups of broker 1: h:1 is silent"),
    ],
)
async def test_where_groups_cannot_be_listed_nobody_was_asked(broker: GroupBroker, problem: str) -> None:
    assert await read(broker) == CoordinatedGroups({}, [problem])


async def test_many_groups_are_described_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_readers, "GROUPS_AT_ONCE", 2)
    broker = GroupBroker({f"g{number}": [group("Stable", "orders")] for number in range(5)})
    assert len((await read(broker)).by_topic["orders"]) == 5
    asked = [len(each.groups) for each in broker.asked if isinstance(each, DescribeGroupsRequest)]
    assert asked == [2, 2, 1]
