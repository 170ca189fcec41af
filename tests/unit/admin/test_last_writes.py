"""The time of the newest record: found by halving, to a second, whatever the other partitions of the leader say."""

from __future__ import annotations

from lethe.adapters.kafka.client import ConnectionFailed, KafkaConnection
from lethe.admin.last_writes import EXACT_MS, ask_last_writes
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, TopicPartition
from tests.fakes.group_broker import GroupBroker

NOW_MS = 1_900_000_000_000
ORDERS, BILLS, VISITS = (TopicPartition(topic, 0) for topic in ("orders", "bills", "visits"))
BROKERS = tuple(Broker(BrokerId(each), BrokerEpoch(each), ()) for each in (1, 2))


async def test_the_newest_record_of_each_partition() -> None:
    written_ms = 1_700_000_123_456
    leader = GroupBroker(records={ORDERS: (5, written_ms, 1_600_000_000_000)}, offset_errors={VISITS: 6})

    async def connect(broker: Broker) -> KafkaConnection:
        if broker.id == 2:
            raise ConnectionFailed("cannot connect")
        return leader.connection

    leaders = {ORDERS: 1, BILLS: 1, VISITS: 1, TopicPartition("else", 0): 2, TopicPartition("away", 0): 7}
    found = await ask_last_writes(BROKERS, leaders, NOW_MS, connect)
    assert set(found) == {ORDERS, BILLS}, "what was not answered is not known"
    assert found[BILLS] is None
    newest_ms = found[ORDERS]
    assert newest_ms is not None
    assert written_ms - EXACT_MS <= newest_ms <= written_ms
    assert len(leader.asked) < 60
