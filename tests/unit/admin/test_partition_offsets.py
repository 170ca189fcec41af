"""ListOffsets: one request for all partitions of a leader, and one answer for each."""

from __future__ import annotations

from lethe.admin.partition_offsets import FoundRecord, list_offsets
from lethe.protocol.kafka.consumers import LATEST
from lethe.protocol.vocabulary import TopicPartition
from tests.fakes.group_broker import GroupBroker

FIRST, SECOND, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("bills", 0)


async def test_each_partition_has_its_own_answer() -> None:
    broker = GroupBroker(records={FIRST: (10, 20), SECOND: (10,)}, offset_errors={OTHER: 6})
    found = await list_offsets(broker.connection, {FIRST: 11, SECOND: 11, OTHER: LATEST})
    assert found == {FIRST: FoundRecord(4, 20), SECOND: None, OTHER: "NOT_LEADER_OR_FOLLOWER"}
    assert len(broker.asked) == 1
