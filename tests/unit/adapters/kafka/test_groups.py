"""Committed offsets as coordinators tell them: what hides some has to be noticed, because brokers do not say so."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

import pytest

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.kafka.groups import DESCRIBE, GroupsUnseen, ListedOffsets, hidden_by, merged, read_offsets
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.group_offsets import (
    CommittedOffset,
    FetchedOffset,
    FetchedTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from lethe.protocol.kafka.queries import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from lethe.protocol.kafka.versions import VersionRange
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, BrokerId


class Coordinator:
    """By its own answer it is broker 1 and leads partition 0 of the coordinators' topic, if no others are named. It
    lists group readers, which has committed for topic orders."""

    principal = "User:lethe"

    def __init__(
        self,
        orders: int | None = ErrorCode.NONE,
        partition_error: int = 0,
        group_error: int = 0,
        *,
        broker: int = 1,
        believes: Mapping[int, int] = MappingProxyType({0: 5}),
        committed: int = 42,
        groups: tuple[str, ...] = ("readers",),
    ) -> None:
        self.orders = orders
        """The error of topic orders in Metadata; None: the topic is left out."""
        self.partition_error = partition_error
        self.group_error = group_error
        self.broker = broker
        self.believes = believes
        """The partitions that it takes itself for the leader of, with their leader epochs."""
        self.committed = committed
        self.groups = groups

    async def offered_versions(self) -> Mapping[int, VersionRange]:
        return {ApiKey.METADATA: VersionRange(0, 12)}

    async def request(self, value: MetadataRequest, version: int) -> MetadataResponse:
        rows = (MetadataPartition(0, n, self.broker, epoch, (1,), (1,)) for n, epoch in self.believes.items())
        led = MetadataTopic(0, GROUP_METADATA_TOPIC, None, True, tuple(rows))
        asked = {each.name for each in value.topics or ()}
        others = () if self.orders is None else (MetadataTopic(self.orders, "orders", None, False, ()),)
        topics = (led, *(each for each in others if each.name in asked))
        return MetadataResponse((), None, BrokerId(1), topics, 0, DESCRIBE)

    async def ask(self, value: ListGroupsRequest | OffsetFetchRequest) -> ListGroupsResponse | OffsetFetchResponse:
        if isinstance(value, ListGroupsRequest):
            return ListGroupsResponse(0, tuple(ListedGroup(name, "consumer") for name in self.groups))
        row = FetchedTopic("orders", (FetchedOffset(0, self.committed, 3, "", self.partition_error),))
        may_describe = self.orders == ErrorCode.NONE
        return OffsetFetchResponse((row,) if may_describe else (), self.group_error)


async def read(
    coordinator: Coordinator, led: Mapping[int, int] = MappingProxyType({0: 5}), partitions: int = 1
) -> ListedOffsets:
    """`led` and `partitions` are what the controller's memory has of the coordinators' topic."""
    connection = cast(KafkaConnection, coordinator)
    return await read_offsets(connection, BrokerId(coordinator.broker), led, partitions, ["orders"])


async def test_offsets_of_the_topics() -> None:
    found = await read(Coordinator())
    assert hidden_by([found]) == {}
    assert merged([found]) == {"orders": {"readers": {0: CommittedOffset(42, 3, "")}}}


# Group readers is of partition 1 of three, which has moved from broker 5 to broker 2.
NEW = Coordinator(broker=2, believes={1: 8}, committed=90)
LATE = Coordinator(broker=5, believes={0: 5, 1: 7, 2: 6}, committed=42)
LED_BY_NEW, LED_BY_LATE = {1: 8}, {0: 5, 2: 6}


@pytest.mark.parametrize("late_first", [False, True])
async def test_offsets_are_those_of_the_present_coordinator_and_not_of_the_one_before(late_first: bool) -> None:
    """The last leader of the group's partition has not heard of the move yet: it lists the group as it was before."""
    parts = [await read(NEW, LED_BY_NEW, 3), await read(LATE, LED_BY_LATE, 3)]
    found = merged(parts[::-1] if late_first else parts)
    assert found == {"orders": {"readers": {0: CommittedOffset(90, 3, "")}}}


async def test_a_group_that_only_a_broker_lists_which_does_not_coordinate_it_is_unseen() -> None:
    """Brokers count with the partitions that the coordinators' topic had when they started."""
    without = Coordinator(broker=2, believes={1: 8}, groups=())
    parts = [await read(without, LED_BY_NEW, 3), await read(LATE, LED_BY_LATE, 3)]
    with pytest.raises(GroupsUnseen) as unseen:
        merged(parts)
    assert str(unseen.value) == (
        "consumer group readers: broker 5 lists it, but the leader of partition 1 of __consumer_offsets, which "
        "coordinates it, does not"
    )


@pytest.mark.parametrize(
    "coordinator, why",
    [
        (Coordinator(partition_error=14), "consumer group readers, orders-0: error 14"),
        (Coordinator(group_error=16), "consumer group readers: error 16"),
        (
            Coordinator(group_error=ErrorCode.GROUP_AUTHORIZATION_FAILED),
            "consumer group readers: GROUP_AUTHORIZATION_FAILED for User:lethe; grant it Describe on group readers",
        ),
        (
            Coordinator(partition_error=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            (
                "consumer group readers, orders-0: TOPIC_AUTHORIZATION_FAILED for User:lethe; "
                "grant it Describe on topic orders"
            ),
        ),
    ],
)
async def test_offsets_that_a_broker_does_not_give_are_unseen(coordinator: Coordinator, why: str) -> None:
    with pytest.raises(GroupsUnseen) as unseen:
        await read(coordinator)
    assert str(unseen.value) == why


@pytest.mark.parametrize(
    "orders, why",
    [
        (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            (
                "consumer groups of broker 1: it hides what they have committed for topic orders, because its "
                "authorizer does not let User:lethe DESCRIBE the topic"
            ),
        ),
        (None, "consumer groups of broker 1: it does not say whether it hides those of topic orders"),
    ],
)
async def test_topic_of_which_one_broker_may_hide_offsets_is_named(orders: int | None, why: str) -> None:
    others = await read(Coordinator(broker=2, believes={1: 8}, groups=()), {1: 8}, 2)
    hiding = await read(Coordinator(orders, groups=()), partitions=2)
    assert hidden_by([others, hiding]) == hidden_by([hiding, others]) == {"orders": why}
    assert hiding.offsets == {}
