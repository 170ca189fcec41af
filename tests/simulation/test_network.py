"""Which tombstones a channel holds, and since when it was told of them."""

import uuid

from lethe.controller.core.effects import OpenChannel, Send
from lethe.controller.core.events import UpdateMetadataResponseReceived
from lethe.protocol.kafka.control import (
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from lethe.protocol.vocabulary import LEADER_DURING_DELETE, BrokerEpoch, BrokerId, ControllerEpoch, Endpoint, TopicId
from tests.simulation.cluster import Cluster
from tests.simulation.ledger import Incarnation
from tests.simulation.network import Channel
from tests.simulation.world import World

AGENT, EPOCH = BrokerId(2), BrokerEpoch(7)


def topic(name: str) -> Incarnation:
    return Incarnation(name, 1, topic_id=TopicId(uuid.uuid5(uuid.NAMESPACE_DNS, name)))


def request(number: int, *names: str, leader: int = LEADER_DURING_DELETE) -> Send:
    rows = (UpdateMetadataPartition(0, 1, leader, 0, (), 0, (1,)),)
    topics = tuple(UpdateMetadataTopic(name, topic(name).topic_id, rows) for name in names)
    return Send(AGENT, EPOCH, number, UpdateMetadataRequest(BrokerId(1000), ControllerEpoch(1), topics, ()))


def test_a_tombstone_is_held_until_the_controller_has_read_the_answer() -> None:
    cluster = Cluster(World(0))
    owner = cluster.controllers[0]
    owner.alive = True
    channel = Channel(cluster, owner, OpenChannel(AGENT, EPOCH, Endpoint("PLAINTEXT", "b2", 9092)))
    channel.put(request(1, "a", "b"))
    channel.put(request(2, "c", leader=1))
    assert [channel.holds_tombstone_of(topic(name)) for name in "abc"] == [True, True, False]
    owner.post(UpdateMetadataResponseReceived(AGENT, EPOCH, 1, UpdateMetadataResponse(0)))
    channel.close()
    assert [channel.holds_tombstone_of(topic(name)) for name in "abc"] == [True, True, False]
    owner._queue.clear()
    assert not any(channel.holds_tombstone_of(topic(name)) for name in "abc")


def test_a_topic_was_told_with_the_first_of_its_tombstones() -> None:
    cluster = Cluster(World(0))
    channel = Channel(cluster, cluster.controllers[0], OpenChannel(AGENT, EPOCH, Endpoint("PLAINTEXT", "b2", 9092)))
    began_ms = cluster.world.now_ms
    channel.put(request(1, "a"))
    cluster.world.now_ms += 5
    channel.put(request(2, "a", "b"))
    assert [channel.first_told_ms(topic(name)) for name in "abc"] == [began_ms, began_ms + 5, None]
