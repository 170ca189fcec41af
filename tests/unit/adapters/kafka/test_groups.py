"""Committed offsets as coordinators tell them: what hides some has to be noticed, because brokers do not say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.kafka.groups import DESCRIBE, GroupsUnseen, read_offsets
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
    """Broker 1 leads the only partition of the coordinators' topic. Group readers has committed for topic orders."""

    principal = "User:lethe"

    def __init__(self, orders: int | None = ErrorCode.NONE, partition_error: int = 0, group_error: int = 0) -> None:
        self.orders = orders
        """The error of topic orders in Metadata; None: the topic is left out."""
        self.partition_error = partition_error
        self.group_error = group_error

    async def offered_versions(self) -> Mapping[int, VersionRange]:
        return {ApiKey.METADATA: VersionRange(0, 12)}

    async def request(self, value: MetadataRequest, version: int) -> MetadataResponse:
        led = MetadataTopic(0, GROUP_METADATA_TOPIC, None, True, (MetadataPartition(0, 0, 1, 5, (1,), (1,)),))
        asked = {each.name for each in value.topics or ()}
        others = () if self.orders is None else (MetadataTopic(self.orders, "orders", None, False, ()),)
        topics = (led, *(each for each in others if each.name in asked))
        return MetadataResponse((), None, BrokerId(1), topics, 0, DESCRIBE)

    async def ask(self, value: ListGroupsRequest | OffsetFetchRequest) -> ListGroupsResponse | OffsetFetchResponse:
        if isinstance(value, ListGroupsRequest):
            return ListGroupsResponse(0, (ListedGroup("readers", "consumer"),))
        row = FetchedTopic("orders", (FetchedOffset(0, 42, 3, "", self.partition_error),))
        may_describe = self.orders == ErrorCode.NONE
        return OffsetFetchResponse((row,) if may_describe else (), self.group_error)


async def read(coordinator: Coordinator) -> dict[str, dict[str, dict[int, CommittedOffset]]]:
    return await read_offsets(cast(KafkaConnection, coordinator), BrokerId(1), {0: 5}, ["orders"])


async def test_offsets_of_the_topics() -> None:
    assert await read(Coordinator()) == {"orders": {"readers": {0: CommittedOffset(42, 3, "")}}}


@pytest.mark.parametrize(
    "coordinator, why",
    [
        (
            Coordinator(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            (
                "consumer groups of broker 1: it hides what they have committed for topic orders, because its "
                "authorizer does not let User:lethe DESCRIBE the topic"
            ),
        ),
        (Coordinator(None), "consumer groups of broker 1: it does not say whether it hides those of topic orders"),
        (Coordinator(partition_error=14), "consumer group readers, orders-0: error 14"),
        (Coordinator(group_error=16), "consumer group readers: error 16"),
    ],
)
async def test_offsets_that_a_broker_does_not_give_are_unseen(coordinator: Coordinator, why: str) -> None:
    with pytest.raises(GroupsUnseen) as unseen:
        await read(coordinator)
    assert str(unseen.value) == why
