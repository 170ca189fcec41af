"""What brokers say of readers and offsets, and what they do not: one that is silent keeps nothing else unknown."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lethe.adapters.kafka.client import ConnectionFailed, KafkaConnection, RequestTimedOut
from lethe.adapters.kafka.reach import NoListener
from lethe.admin.group_coordinators import Coordinators, PartitionLeader
from lethe.admin.group_readers import Group
from lethe.admin.topic_usage import Connect, LeaderQuery, Offsets, TopicUsage, all_groups, read_offsets
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, TopicPartition
from tests.fakes.group_broker import GroupBroker, group

ORDERS, BILLS, VISITS = (TopicPartition(topic, 0) for topic in ("orders", "bills", "visits"))
LEADERS = {ORDERS: LeaderQuery(1, 5_000), BILLS: LeaderQuery(1, 5_000), VISITS: LeaderQuery(2, 5_000)}
BROKERS = tuple(Broker(BrokerId(each), BrokerEpoch(each), ()) for each in (1, 2))
COORDINATORS = Coordinators({0: PartitionLeader(1, 0), 1: PartitionLeader(2, 0)})


def connecting(brokers: Mapping[int, GroupBroker | Exception]) -> Connect:
    async def connect(broker: Broker) -> KafkaConnection:
        found = brokers[int(broker.id)]
        if isinstance(found, Exception):
            raise found
        return found.connection

    return connect


async def test_groups_of_all_coordinators_by_topic() -> None:
    one = GroupBroker({"zebras": [group("Stable", "orders")]})
    two = GroupBroker({"ants": [group("Empty")]}, {"ants": [ORDERS, BILLS]})
    groups, unasked = await all_groups(COORDINATORS, BROKERS, {"orders", "bills"}, connecting({1: one, 2: two}))
    ants, zebras = Group("ants", "Empty"), Group("zebras", "Stable", ("app (10.0.0.1)",))
    assert (groups, unasked) == ({"orders": (ants, zebras), "bills": (ants,)}, ())


@pytest.mark.parametrize("failure", [NoListener("it has no SSL listener"), ConnectionFailed("cannot connect")])
async def test_a_coordinator_that_cannot_be_asked_hides_no_other(failure: Exception) -> None:
    one = GroupBroker({"here": [group("Stable", "orders")]})
    groups, unasked = await all_groups(COORDINATORS, BROKERS, {"orders"}, connecting({1: one, 2: failure}))
    assert [each.name for each in groups["orders"]] == ["here"]
    assert unasked == (f"consumer groups of broker 2: {failure}",)


async def test_only_coordinators_are_asked_for_groups() -> None:
    alone = Coordinators({0: PartitionLeader(1, 0)})
    assert await all_groups(alone, BROKERS, {"orders"}, connecting({1: GroupBroker()})) == ({}, ())


async def test_offsets_and_the_first_record_since_a_time() -> None:
    one = GroupBroker(records={ORDERS: (1_000, 6_000, 9_000), BILLS: (1_000,)})
    two = GroupBroker()
    found, unknown = await read_offsets(BROKERS, LEADERS, connecting({1: one, 2: two}))
    assert found == {ORDERS: Offsets(3, 6, 4), BILLS: Offsets(3, 4, None), VISITS: Offsets(3, 3, None)}
    assert unknown == {}


async def test_a_partition_without_offsets_hides_no_other() -> None:
    one = GroupBroker(records={ORDERS: (1,)}, offset_errors={BILLS: 6})
    two = GroupBroker(failure=RequestTimedOut("h:2 did not answer LIST_OFFSETS within 20000 ms"))
    found, unknown = await read_offsets(BROKERS, LEADERS, connecting({1: one, 2: two}))
    assert found == {ORDERS: Offsets(3, 4, None)}
    assert unknown == {
        BILLS: "broker 1 gives no offset of bills-0: NOT_LEADER_OR_FOLLOWER",
        VISITS: "broker 2 gives no offsets: h:2 did not answer LIST_OFFSETS within 20000 ms",
    }


async def test_a_partition_without_a_live_leader_is_unknown() -> None:
    leaders = {ORDERS: LeaderQuery(-1, 0), BILLS: LeaderQuery(9, 0)}
    found, unknown = await read_offsets(BROKERS, leaders, connecting({}))
    assert found == {}
    assert unknown == {
        ORDERS: "orders-0 has no live leader to ask for offsets",
        BILLS: "bills-0 has no live leader to ask for offsets",
    }
    assert TopicUsage(unasked=("a",), unknown=dict.fromkeys(LEADERS, "a")).problems == ("a",)
