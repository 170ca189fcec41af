"""Run in a container of the cluster: two brokers that make trouble, for what dashboards show of it.

Broker 4 answers every control request with an error, nobody listens where broker 5 should be, and each has a topic that
is to be deleted. It lasts until the container is removed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from typing import Final

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.admin import topic_znodes
from lethe.admin.topic_plans import TopicPlan
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.protocol.zookeeper.znodes import encode_broker
from tests.fakes.broken_broker import ErringBroker
from tests.fakes.zookeeper_cluster import apply

TOPICS: Final = {"erring": ((4,),), "lost": ((5, 1),)}


async def main() -> None:
    """Makes trouble, for ever."""
    here = socket.gethostbyname(socket.gethostname())
    connect = parse_connect_string(os.environ["LETHE_ZOOKEEPER_CONNECT"])
    async with (
        ErringBroker(host=here) as erring,
        open_session(ZooKeeperConfig(connect, create_chroot=False), lambda _: None) as session,
    ):
        await _register(session, 4, erring.endpoint)
        await _register(session, 5, Endpoint("PLAINTEXT", here, 1))
        plans = [TopicPlan(name, TopicId(uuid.uuid4()), assignment) for name, assignment in TOPICS.items()]
        outcomes = await topic_znodes.create_topics(session, plans)
        assert [outcome.problem for outcome in outcomes] == [None] * len(plans), outcomes
        await apply(session, *(Create(paths.delete_topic(name), None) for name in TOPICS))
        await asyncio.Event().wait()


async def _register(session: ZooKeeperSession, number: int, endpoint: Endpoint) -> None:
    registration = encode_broker(Broker(BrokerId(number), BrokerEpoch(-1), (endpoint,)), timestamp_ms=1)
    await apply(session, Create(paths.broker_id(number), registration, ephemeral=True))


if __name__ == "__main__":
    asyncio.run(main())
