"""Where brokers ask the controller, over Kafka's protocol, and where clients come that take it for a broker.

Theory of operation. A request becomes an event in the one queue, and the core's `Reply` to it becomes the answer. There
is one truth: whether this process leads, and what it answers, only the core says, also while it stands by. Every
request is answered, and by one of three:

* the core, as a rule;
* this file, once control is lost: what has no answer by then gets that of a process that does not lead, and then every
  connection is closed. Brokers keep to the controller that they once recorded; an error that names it as the wrong one,
  or a closed connection, is what makes them look for the next. They are never told anything about a single partition by
  then: a verdict of a controller that is none any more would leave an ISR as it is for good;
* this file, where the core is so busy that the request has waited for too long.

To clients the controller is a broker like the others: it is told among the live ones. What they ask is passed on to a
broker that is one (`adapters.kafka.relay`), and they are told that broker's versions. Four requests go to every broker,
for what each has itself: they are answered as by a broker that has nothing, since passed on they would show another
broker's twice, or be refused. Who does not lead, or knows no broker, closes the connections of clients: they have other
addresses.

No more than `MAX_AT_ONCE` requests are with the core; further ones wait with their connections, each of which has one
request in progress, so that a flood of them neither fills the queue nor holds up for long what else is in it.
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
from lethe.adapters.kafka.limits import ServerLimits
from lethe.adapters.kafka.relay import Relay
from lethe.adapters.kafka.server import Close, KafkaServer, Peer
from lethe.controller.core.effects import Reply
from lethe.controller.core.events import BrokerRequested
from lethe.controller.core.requests import refused
from lethe.controller.runtime.metrics import ListenerView
from lethe.protocol.kafka.codec import RequestHeader
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.queries import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfigs,
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
from lethe.protocol.kafka.relaying import Claims
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControllerRequest,
    ControllerResponse,
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
    )
}
"""What a controller answers."""
EMPTY: Final[Mapping[ApiKey, VersionRange]] = {
    api: SPOKEN[api] for api in (ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.LIST_TRANSACTIONS)
}
"""What clients ask every broker, for what it has itself."""
EMPTY_OF_OURS: Final[Mapping[ApiKey, VersionRange]] = {api: SPOKEN[api] for api in (ApiKey.DESCRIBE_CONFIGS,)}
"""The same where it is about the controller itself; about others any broker knows."""
NO_LOGS: Final = "(a controller, which keeps no logs)"
"""The one log directory of the controller: clients take an answer without any for a refusal."""
MAX_AT_ONCE: Final = 100


class ListenerMetrics(Protocol):
    """What is measured of brokers' requests."""

    def broker_answered(self, request: str, seconds: float, errors: Mapping[str, int]) -> None: ...


class _Unanswered(NamedTuple):
    request: ControllerRequest
    answer: asyncio.Future[ControllerResponse]


class BrokerListener:
    """The controller's listeners. `listen`, then `start`; `stop` ends them."""

    def __init__(
        self,
        post: Callable[[BrokerRequested], None],
        metrics: ListenerMetrics,
        *,
        controller_id: BrokerId,
        relay: Relay,
        max_wait_ms: int,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - frozen
        max_at_once: int = MAX_AT_ONCE,
    ) -> None:
        self._post = post
        self._metrics = metrics
        self._max_wait_ms = max_wait_ms
        self._room = asyncio.Semaphore(max_at_once)
        self._relay = relay
        claims = Claims(EMPTY_OF_OURS, functools.partial(_is_about, str(controller_id)))
        self._server = KafkaServer(
            self._handle, {**OWN, **EMPTY}, limits, "controller-listener", relay=relay, claims=claims
        )
        self._task: asyncio.Task[None] | None = None
        self._keys = itertools.count(1)
        self._unanswered: dict[int, _Unanswered] = {}

    # --- life -----------------------------------------------------------------------------------------------------

    async def listen(self, endpoints: tuple[Endpoint, ...], advertised: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """Bind them all; what brokers are to be told, with the real ports where 0 was given. Raises ListenFailed."""
        bound = []
        for endpoint in endpoints:
            address = await self._server.listen(endpoint.host, endpoint.port, endpoint.listener)
            bound.append(endpoint._replace(port=address.port))
        return with_ports(advertised, bound)

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Returns when requests are taken."""
        self._task = tasks.create_task(self._server.serve(), name="controller-listener")
        await self._server.started()

    async def stop(self, grace_ms: int) -> None:
        """Take no more; what is in progress is answered, within the grace time."""
        self._server.stop(grace_ms)
        if self._task is not None:
            await asyncio.wait((self._task,))

    def view(self) -> ListenerView:
        """What metrics tell of it."""
        return ListenerView(self._server.connection_count, self._relay.open_count, self._relay.counts)

    # --- answering ------------------------------------------------------------------------------------------------

    def reply(self, effect: Reply) -> None:
        """The core's answer. Nothing where the request has one already, because it waited for too long."""
        waiting = self._unanswered.get(effect.key)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(effect.response)

    def control_lost(self, reason: str) -> None:
        """We lead no longer, or cannot know: refuse what has no answer, and have brokers look for the controller."""
        for request, answer in self._unanswered.values():
            if not answer.done():
                answer.set_result(refused(request))
        self._relay.show(())
        self._server.close_connections(reason)

    def show_brokers(self, brokers: tuple[Broker, ...]) -> None:
        """Who is live now, for clients to be passed on to."""
        self._relay.show(brokers)

    async def _handle(self, header: RequestHeader, request: Request, peer: Peer) -> Response | Close:
        empty = _empty_answer(request)
        if empty is not None:
            return empty
        if not isinstance(request, ControllerRequest):
            return Close(f"{peer} asked {header.api.name}, which a controller does not answer")
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(self._max_wait_ms / 1000), self._room:
                response = await self._ask(request, header.version)
        except TimeoutError:
            logger.warning("broker %d waited %d ms for %s", request.broker_id, self._max_wait_ms, header.api.name)
            response = _timed_out(request)
        self._metrics.broker_answered(_name(request), time.monotonic() - started_s, _errors(response))
        return response

    async def _ask(self, request: ControllerRequest, version: int) -> ControllerResponse:
        key = next(self._keys)
        waiting = _Unanswered(request, asyncio.get_running_loop().create_future())
        self._unanswered[key] = waiting
        try:
            self._post(BrokerRequested(key, request, version))
            return await waiting.answer
        finally:
            del self._unanswered[key]


def _empty_answer(request: Request) -> Response | None:
    """What a broker says that has nothing of what is asked for; None for other requests."""
    match request:
        case ListGroupsRequest():
            return ListGroupsResponse(ErrorCode.NONE)
        case ListTransactionsRequest():
            return ListTransactionsResponse(ErrorCode.NONE)
        case DescribeLogDirsRequest():
            return DescribeLogDirsResponse((LogDir(ErrorCode.NONE, NO_LOGS, ()),))
        case DescribeConfigsRequest(resources=resources):
            results = (
                DescribedConfigs(ErrorCode.NONE, None, each.resource_type, each.resource_name, ()) for each in resources
            )
            return DescribeConfigsResponse(tuple(results))
        case _:
            return None


def _is_about(controller: str, request: Request) -> bool:
    """Whether it asks for the configuration of the controller, which Kafka's clients ask each broker for itself."""
    return isinstance(request, DescribeConfigsRequest) and any(
        each.resource_type in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE) and each.resource_name == controller
        for each in request.resources
    )


def relay_for(client_id: str, *, connect_timeout_ms: int, max_answer_bytes: int) -> Relay:
    """What clients of the listener are passed on by."""
    return Relay(
        OWN,
        {**EMPTY, **EMPTY_OF_OURS},
        client_id,
        connect_timeout_ms=connect_timeout_ms,
        max_answer_bytes=max_answer_bytes,
    )


def _name(request: ControllerRequest) -> str:
    return type(request).__name__.removesuffix("Request")


def _timed_out(request: ControllerRequest) -> ControllerResponse:
    match request:
        case ControlledShutdownRequest():
            return ControlledShutdownResponse(ErrorCode.REQUEST_TIMED_OUT)
        case AlterPartitionRequest():
            return AlterPartitionResponse(ErrorCode.REQUEST_TIMED_OUT)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(ErrorCode.REQUEST_TIMED_OUT)


def _errors(response: ControllerResponse) -> Mapping[str, int]:
    """How often each error is in the answer, as Kafka counts: the one of the request, and those of its partitions."""
    counts = Counter([error_name(response.error)])
    if isinstance(response, AlterPartitionResponse):
        counts.update(error_name(row.error) for topic in response.topics for row in topic.partitions)
    return counts
