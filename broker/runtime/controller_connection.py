"""The agent's connection to the controller: opened on demand, kept while it works and the endpoint is the same."""

from __future__ import annotations

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.kafka.reach import BrokerReach
from lethe.protocol.vocabulary import BrokerId, Endpoint


class ControllerConnection:
    """Used by one task at a time. The task closes it after an unexpected answer, so that the controller is looked up
    again."""

    def __init__(
        self, broker_id: BrokerId, reach: BrokerReach, *, connect_timeout_ms: int, request_timeout_ms: int
    ) -> None:
        self._reach = reach
        self._client_id = str(broker_id)
        self._connect_timeout_ms = connect_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._connection: KafkaConnection | None = None
        self._endpoint: Endpoint | None = None

    async def to(self, controller: Endpoint) -> KafkaConnection:
        """An open connection to that controller. Raises ClientError."""
        if self._connection is not None and (self._endpoint != controller or not self._connection.is_open):
            await self.close()
        if self._connection is None:
            self._connection = await self._reach.open(
                controller,
                self._client_id,
                connect_timeout_ms=self._connect_timeout_ms,
                request_timeout_ms=self._request_timeout_ms,
            )
            self._endpoint = controller
        return self._connection

    async def close(self) -> None:
        """Close the connection; the next use opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
