"""A controller as brokers see it: a Kafka listener that answers what they ask with what the test has prepared."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lethe.adapters.kafka.limits import ServerLimits
from lethe.adapters.kafka.server import Close, KafkaServer, Peer
from lethe.cluster.daemons import ControllerDaemon
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.queries import Request, Response
from lethe.protocol.kafka.versions import SPOKEN
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint

ID = BrokerId(9)
"""Who sends the control requests that tests build."""


def address_of(controller: ControllerDaemon) -> tuple[str, int]:
    """Where clients find the controller of this run."""
    found = re.findall(r"controller at PLAINTEXT://([0-9.]+):(\d+)", controller.process.output())
    assert found, controller.process.output_tail()
    host, port = found[-1]
    return host, int(port)


class ListedController:
    """Answers are used up one per request; with none left it closes the connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.answers: deque[Response | Close] = deque()
        self.released = asyncio.Event()
        """While it is cleared nothing is answered."""
        self.released.set()
        self.asked: list[tuple[RequestHeader, Request]] = []
        self.peers: dict[str, None] = {}
        """Connections that asked something, in order."""

    @property
    def as_broker(self) -> Broker:
        """Its row among the live brokers of an UpdateMetadata."""
        return Broker(ID, BrokerEpoch(-1), (self.endpoint,))

    async def handle(self, header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        self.asked.append((header, request))
        self.peers[str(peer)] = None
        await self.released.wait()
        return self.answers.popleft() if self.answers else Close("it has nothing to say")


@asynccontextmanager
async def listed_controller(max_alter_partition: int = 3) -> AsyncIterator[ListedController]:
    """One that listens on a port of its own."""
    offered = (ApiKey.API_VERSIONS, ApiKey.CONTROLLED_SHUTDOWN, ApiKey.ALTER_PARTITION, ApiKey.CREATE_TOPICS)
    served = {api: SPOKEN[api] for api in offered}
    served[ApiKey.ALTER_PARTITION] = served[ApiKey.ALTER_PARTITION]._replace(max=max_alter_partition)
    controller = ListedController(Endpoint("PLAINTEXT", "127.0.0.1", 0))
    server = KafkaServer(controller.handle, served, ServerLimits(), "listed-controller")
    address = await server.listen("127.0.0.1", 0)
    controller.endpoint = controller.endpoint._replace(port=address.port)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve(), name="listed-controller")
        await server.started()
        try:
            yield controller
        finally:
            server.stop(0)
