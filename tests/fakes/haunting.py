"""Puts a topic that ZooKeeper does not have into one broker's metadata cache, as a controller would."""

from __future__ import annotations

import uuid

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.protocol.kafka.codec import encode_control_body
from lethe.protocol.kafka.connection import highest_common_version
from lethe.protocol.kafka.control import (
    ApiKey,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from lethe.protocol.vocabulary import LEADER_DURING_DELETE, BrokerId, ControllerEpoch, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData
from lethe.protocol.zookeeper.znodes import decode_controller_epoch

_ID = TopicId(uuid.UUID(int=4711))


async def haunt(session: ZooKeeperSession, number: int, topic: str, controller: int) -> None:
    """Tell the broker of a topic with one partition, in the name of that controller in the present epoch."""
    await _tell(session, number, topic, controller, leader=number)


async def drop(session: ZooKeeperSession, number: int, topic: str, controller: int) -> None:
    """Tell the broker that the topic is gone."""
    await _tell(session, number, topic, controller, leader=LEADER_DURING_DELETE)


async def _tell(session: ZooKeeperSession, number: int, topic: str, controller: int, *, leader: int) -> None:
    brokers, _ = await topic_znodes.live_brokers(session)
    (broker,) = (each for each in brokers if each.id == number)
    (found,) = await session.read([GetData(paths.CONTROLLER_EPOCH)])
    assert isinstance(found, Data)
    epoch = decode_controller_epoch(found.data)
    row = UpdateMetadataPartition(0, epoch, leader, 0, (number,), 0, (number,))
    ghost = UpdateMetadataTopic(topic, _ID, (row,))
    request = UpdateMetadataRequest(BrokerId(controller), ControllerEpoch(epoch), (ghost,), brokers)
    end = broker.plaintext_endpoint
    assert end is not None
    async with await KafkaConnection.open(end.host, end.port, "operator") as connection:
        version = highest_common_version(ApiKey.UPDATE_METADATA, await connection.offered_versions())
        answer = await connection.send_body(encode_control_body(request, version), broker.epoch)
    assert answer == UpdateMetadataResponse(0)
