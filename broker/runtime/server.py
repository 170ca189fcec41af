"""Answer the requests that arrive on the agent's listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from lethe.adapters.kafka.limits import ServerLimits, ServerLoad
from lethe.adapters.kafka.server import Close, Handler, KafkaServer, Peer
from lethe.adapters.security.inbound import Inbound
from lethe.broker.core.queries import RequestContext, answer_describe_log_dirs, answer_metadata
from lethe.broker.runtime.log_dirs import Space
from lethe.broker.runtime.loop import AgentLoop, RequestRefused
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.control import Addressed, ApiKey
from lethe.protocol.kafka.queries import DescribeLogDirsRequest, MetadataRequest, Request, Response
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.vocabulary import Endpoint

SERVED: Final[Mapping[ApiKey, VersionRange]] = {
    api: SPOKEN[api]
    for api in (
        ApiKey.METADATA,
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_LOG_DIRS,
    )
}
"""ControlledShutdown and AlterPartition are missing: controllers answer those."""


def handler_for(listener: str, loop: AgentLoop, cluster_id: str, space: Callable[[], Mapping[str, Space]]) -> Handler:
    """Return the handler of the requests on this listener."""

    async def handle(header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        match request:
            case Addressed():
                try:
                    return await loop.control(request)
                except RequestRefused as refused:
                    return Close(str(refused))
            case MetadataRequest():
                context = RequestContext(listener, header.version, peer.sender)
                return answer_metadata(loop.state.cache, request, context, cluster_id=cluster_id)
            case DescribeLogDirsRequest():
                sizes = await asyncio.to_thread(space)
                return answer_describe_log_dirs(loop.state, request, sizes)
            case _:
                return Close(f"{peer} asked {header.api.name}, which an agent does not answer")

    return handle


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
