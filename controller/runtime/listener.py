"""Kafka listener of the controller: answers requests to the controller, forwards clients' other ones to brokers.

Theory of operation. A request to the controller becomes an event in the queue, and the core's `Reply` becomes the
answer. Only the core decides what is answered and whether this process leads, also while it stands by. Every request is
answered, by the first of these:

    when                                        answer
    the core has replied                        its `Reply`
    control is lost before the reply            NOT_CONTROLLER, or STALE_CONTROLLER_EPOCH to a ControlledShutdown
    no reply within `max_wait_ms`               REQUEST_TIMED_OUT
    a client's request is held (`HoldRequest`)  the same, `max_wait_ms` after the time for which it is held

When control is lost, all connections are closed as well. A broker stays with the controller that it has recorded until
it gets one of these errors or loses its connection. Answers after that moment never hold errors of single partitions:
from a former controller, they could leave an ISR unchanged for good.

Brokers connect as they do among themselves: with TLS and SASL where the listener has them, and with an authorizer they
need ClusterAction (`adapters.security.inbound`).

To clients the controller looks like a broker. Their requests are forwarded to a live broker
(`adapters.kafka.forwarding_proxy`), whose versions they are given. Exceptions are requests that clients send to every
broker about its own state. The controller answers three of them as a broker without data does, and describes and alters
its own configuration: a forwarded request would report another broker's data twice, or be refused. Where the controller
does not lead or has no live broker, it closes clients' connections; clients have other addresses. It does so wherever
the broker would take the client for another one, as with every listener that has TLS or SASL: nobody can act as a
client at a broker but the client itself.

At most `MAX_AT_ONCE` requests wait for the core. Further ones wait with their connections, which have one request in
progress each, so a flood of requests delays the other events only briefly. Requests that are held do not count: they
wait for brokers, for as long as their clients allow, or until these close their connections. The core limits their
number (`core.client_waits`); it drops one whose client is gone with its time.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from lethe.adapters.config_listeners import with_ports
from lethe.adapters.kafka.forwarding_proxy import ForwardingProxy
from lethe.adapters.kafka.limits import ServerLimits
from lethe.adapters.kafka.reach import PLAINTEXT_REACH, BrokerReach
from lethe.adapters.kafka.server import Close, KafkaServer, Peer
from lethe.adapters.security.inbound import Inbound
from lethe.controller.core.effects import HoldRequest, Reply
from lethe.controller.core.events import BrokerRequested, ClientRequested
from lethe.controller.core.requests import refused
from lethe.controller.runtime.metrics import ListenerView
from lethe.protocol.kafka.admin_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.forwarding import OwnApis
from lethe.protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    LogDir,
    Request,
    Response,
)
from lethe.protocol.kafka.to_controller import (
    AdminRequest,
    ControllerRequest,
    ControllerResponse,
    error_response,
    errors_of,
    request_name,
)
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from lethe.protocol.vocabulary import Broker, BrokerId, Endpoint

logger = logging.getLogger(__name__)

OWN: Final[Mapping[ApiKey, VersionRange]] = {
    api: SPOKEN[api]
    for api in (
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.API_VERSIONS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
    )
}
"""Requests that the controller answers: of brokers, and of clients those that only a controller can answer."""
EMPTY: Final[Mapping[ApiKey, VersionRange]] = {
    api: SPOKEN[api] for api in (ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.LIST_TRANSACTIONS)
}
"""Requests that clients send to every broker about its own state."""
CONFIGS: Final[Mapping[ApiKey, VersionRange]] = {
    api: SPOKEN[api] for api in (ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
}
"""Requests that the controller answers where they are about itself; others are forwarded."""
NO_LOGS: Final = "(a controller, which keeps no logs)"
"""The controller's one log directory: clients treat an answer without directories as a refusal."""
MAX_AT_ONCE: Final = 100


class ListenerMetrics(Protocol):
    """Measures requests to the controller."""

    def request_answered(self, request: str, seconds: float, errors: Mapping[str, int]) -> None: ...


class _Unanswered(NamedTuple):
    request: ControllerRequest
    answer: asyncio.Future[ControllerResponse]
    handled: asyncio.Future[int]
    """For how many ms the core holds the request; 0: it has answered."""

    def settle(self, response: ControllerResponse) -> None:
        """Give this answer, unless there is one."""
        if not self.answer.done():
            self.answer.set_result(response)
        self.hold(0)

    def hold(self, for_ms: int) -> None:
        """The core has handled the request."""
        if not self.handled.done():
            self.handled.set_result(for_ms)


class BrokerListener:
    """The controller's listeners. Call `listen`, then `start`; `stop` ends them."""

    def __init__(
        self,
        post: Callable[[BrokerRequested | ClientRequested], None],
        metrics: ListenerMetrics,
        *,
        controller_id: BrokerId,
        proxy: ForwardingProxy,
        inbound: Inbound,
        max_wait_ms: int,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - frozen
        max_at_once: int = MAX_AT_ONCE,
    ) -> None:
        self._post = post
        self._metrics = metrics
        self._max_wait_ms = max_wait_ms
        self._request_slots = asyncio.Semaphore(max_at_once)
        self._proxy = proxy
        claims = OwnApis(CONFIGS, functools.partial(_is_about, str(controller_id)), str(controller_id).encode())
        self._inbound = inbound
        self._server = KafkaServer(
            inbound.guarded(self._handle),
            {**OWN, **EMPTY},
            limits,
            "controller-listener",
            proxy=proxy,
            claims=claims,
            refuse_forwarding=inbound.refuse_forwarding,
        )
        self._task: asyncio.Task[None] | None = None
        self._keys = itertools.count(1)
        self._unanswered: dict[int, _Unanswered] = {}

    # --- life -----------------------------------------------------------------------------------------------------

    async def listen(self, endpoints: tuple[Endpoint, ...], advertised: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """Bind all endpoints, and return the advertised ones with real ports in place of 0. Raises ListenFailed."""
        bound = []
        for endpoint in endpoints:
            admission = self._inbound.admission(endpoint.listener)
            address = await self._server.listen(endpoint.host, endpoint.port, endpoint.listener, admission)
            bound.append(endpoint._replace(port=address.port))
        return with_ports(advertised, bound)

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Serve requests in a task; return once they are accepted."""
        self._task = tasks.create_task(self._server.serve(), name="controller-listener")
        await self._server.started()

    async def stop(self, grace_ms: int) -> None:
        """Accept no more requests; those in progress are answered within the grace time."""
        self._server.stop(grace_ms)
        if self._task is not None:
            await asyncio.wait((self._task,))

    def view(self) -> ListenerView:
        """Return the values for metrics."""
        return ListenerView(self._server.connection_count, self._proxy.open_count, self._proxy.counts)

    # --- answering ------------------------------------------------------------------------------------------------

    def reply(self, effect: Reply) -> None:
        """Pass the core's answer on. It is dropped where the request was answered with a timeout."""
        waiting = self._unanswered.get(effect.key)
        if waiting is not None:
            waiting.settle(effect.response)

    def hold(self, effect: HoldRequest) -> None:
        """The request waits for brokers from now on."""
        waiting = self._unanswered.get(effect.key)
        if waiting is not None:
            waiting.hold(effect.for_ms)

    def control_lost(self, reason: str) -> None:
        """Refuse pending requests and close all connections, so that brokers look for the new controller."""
        for waiting in self._unanswered.values():
            waiting.settle(refused(waiting.request))
        self._proxy.show(())
        self._server.close_connections(reason)

    def show_brokers(self, brokers: tuple[Broker, ...]) -> None:
        """Set the live brokers to which clients are forwarded."""
        self._proxy.show(brokers)

    async def _handle(self, header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        empty = _empty_answer(request)
        if empty is not None:
            return empty
        if not isinstance(request, ControllerRequest):
            return Close(f"{peer} asked {header.api.name}, which a controller does not answer")
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(self._max_wait_ms / 1000) as limit:
                response = await self._ask(request, header, peer, limit)
        except TimeoutError:
            sender = peer if isinstance(request, AdminRequest) else f"broker {request.broker_id}"
            logger.warning("%s waited %d ms for %s", sender, self._max_wait_ms, header.api.name)
            response = error_response(request, ErrorCode.REQUEST_TIMED_OUT)
        self._metrics.request_answered(request_name(request), time.monotonic() - started_s, _errors(response))
        return response

    async def _ask(
        self, request: ControllerRequest, header: RequestHeader, peer: Peer, limit: asyncio.Timeout
    ) -> ControllerResponse:
        key, loop = next(self._keys), asyncio.get_running_loop()
        waiting = _Unanswered(request, loop.create_future(), loop.create_future())
        try:
            async with self._request_slots:
                self._unanswered[key] = waiting
                self._post(_event(key, request, header, peer, self._server.request_bytes()))
                held_ms = await waiting.handled
            limit.reschedule(loop.time() + (held_ms + self._max_wait_ms) / 1000)
            return await self._server.unless_left(waiting.answer) if held_ms else waiting.answer.result()
        finally:
            self._unanswered.pop(key, None)


def _event(
    key: int, request: ControllerRequest, header: RequestHeader, peer: Peer, frame_bytes: int
) -> BrokerRequested | ClientRequested:
    if isinstance(request, AdminRequest):
        return ClientRequested(key, request, header.version, peer.sender, header.client_id or "", frame_bytes)
    return BrokerRequested(key, request, header.version)


def _empty_answer(request: Request) -> Response | None:
    """Return the answer of a broker without data; None for other requests."""
    match request:
        case ListGroupsRequest():
            return ListGroupsResponse(ErrorCode.NONE)
        case ListTransactionsRequest():
            return ListTransactionsResponse(ErrorCode.NONE)
        case DescribeLogDirsRequest():
            return DescribeLogDirsResponse((LogDir(ErrorCode.NONE, NO_LOGS, ()),))
        case _:
            return None


def _is_about(controller: str, request: Request) -> bool:
    """Return True where the request is about the configuration of the controller itself."""
    match request:
        case DescribeConfigsRequest():
            named = [each[:2] for each in request.resources]
        case AlterConfigsRequest() | IncrementalAlterConfigsRequest():
            named = [each[:2] for each in request.resources]
        case _:
            return False
    return any((kind, controller) in named for kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE))


def proxy_for(
    client_id: str, *, connect_timeout_ms: int, max_answer_bytes: int, reach: BrokerReach = PLAINTEXT_REACH
) -> ForwardingProxy:
    """Return the proxy that forwards clients of the listener."""
    return ForwardingProxy(
        OWN,
        {**EMPTY, **CONFIGS},
        client_id,
        connect_timeout_ms=connect_timeout_ms,
        max_answer_bytes=max_answer_bytes,
        reach=reach,
    )


def _errors(response: ControllerResponse) -> Mapping[str, int]:
    """Count the errors in the answer as Kafka does: that of the request, and those of its rows."""
    return Counter(map(error_name, errors_of(response)))
