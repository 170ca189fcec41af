"""A client that administers topics through a controller that may die at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.kafka.client_errors import ClientError
from lethe.protocol.kafka.admin import DeletableTopic, DeleteTopicsRequest, DeleteTopicsResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.kafka.queries import Response, api_of_request
from lethe.protocol.kafka.to_controller import AdminRequest
from lethe.protocol.kafka.versions import SPOKEN

Address = Callable[[], Awaitable[tuple[str, int]]]
R = TypeVar("R", bound=Response)
TIMEOUT_MS: Final = 30_000
PAUSE_S: Final = 0.1
LOST: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)


class Administrator:
    """Sends requests to the controller, wherever it is. `address` waits until there is one."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: KafkaConnection | None = None

    async def ask(self, request: AdminRequest, kind: type[R], limit_ms: int = 2 * TIMEOUT_MS) -> R | None:
        """The answer; None: it was lost, or this is not the controller any more."""
        try:
            if self._connection is None:
                self._connection = await KafkaConnection.open(*await self._address(), "administrator")
            answer = await self._connection.request(request, SPOKEN[api_of_request(request)].max, limit_ms)
        except (ClientError, ProtocolError):
            await self.close()
            return None
        assert isinstance(answer, kind)
        if getattr(answer, "error", ErrorCode.NONE) in LOST:
            await self.close()
            return None
        return answer

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


async def delete_topics(address: Address, names: tuple[str, ...], chunk: int) -> None:
    """Have the topics deleted, so many in a request; a request whose answer is lost is sent again."""
    client = Administrator(address)
    done = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        for first in range(0, len(names), chunk):
            left = names[first : first + chunk]
            while left:
                request = DeleteTopicsRequest(tuple(map(DeletableTopic, left)), TIMEOUT_MS)
                answer = await client.ask(request, DeleteTopicsResponse)
                rows = () if answer is None else answer.topics
                left = tuple(
                    name for name in left if (name, True) not in {(row.name, row.error in done) for row in rows}
                )
                await asyncio.sleep(PAUSE_S)
    finally:
        await client.close()
