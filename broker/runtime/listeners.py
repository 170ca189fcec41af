"""The agent's listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lethe.adapters.kafka.limits import ServerLimits, ServerLoad
from lethe.adapters.kafka.server import Handler, KafkaServer
from lethe.adapters.security.inbound import Inbound
from lethe.broker.runtime.requests import SERVED
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.vocabulary import Endpoint


class Listeners:
    """One server per listener, so that an answer has the addresses of the listener that received the request."""

    def __init__(
        self,
        make_handler: Callable[[str], Handler],
        limits: ServerLimits,
        inbound: Inbound,
        note_request: Callable[[ApiKey, int], None] = lambda _api, _bytes: None,
    ) -> None:
        """`note_request` receives each request and its bytes. The limits are shared by all listeners."""
        self._make_handler = make_handler
        self._note_request = note_request
        self._limits = limits
        self._inbound = inbound
        self._load = ServerLoad(limits)
        self._servers: dict[str, KafkaServer] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def listen(self, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """Bind all listeners. Return the endpoints with their real ports. Raises ListenFailed."""
        bound: list[Endpoint] = []
        for endpoint in endpoints:
            server = KafkaServer(
                self._inbound.guarded(self._make_handler(endpoint.listener)),
                SERVED,
                self._limits,
                f"agent-{endpoint.listener.lower()}",
                self._note_request,
                load=self._load,
            )
            admission = self._inbound.admission(endpoint.listener)
            address = await server.listen(endpoint.host, endpoint.port, endpoint.listener, admission)
            self._servers[endpoint.listener] = server
            bound.append(endpoint._replace(port=address.port))
        return tuple(bound)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Serve all listeners."""
        for listener, server in self._servers.items():
            self._tasks.append(tasks.create_task(server.serve(), name=f"agent-listener-{listener.lower()}"))

    async def stop(self, grace_ms: int) -> None:
        """Close idle connections now, busy ones after their answer or the grace period."""
        for server in self._servers.values():
            server.stop(grace_ms)
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def connection_count(self) -> int:
        return sum(server.connection_count for server in self._servers.values())
