"""A cluster as its clients see it: reached by bootstrap servers, read from brokers, changed by its controller.

It works with ZooKeeper and with KRaft, whose brokers pass such requests on. Brokers do not show markers of deletions,
requests that a controller has not taken up, and why something waits.

One command has one `ClientCluster` and one time for all of it.

    the controller                           the command
    ---------------------------------------  -------------------------------------------------------------------
    cannot be reached                        looks for the controller again
    answers NOT_CONTROLLER                   looks for it again, and sends the request again; a controller of
                                             Lethe that loses control after the write answers so: `may_be_done`
    gives no answer, or a malformed one      says that the outcome is unknown, and sends nothing again
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar, cast

from lethe.adapters.kafka.bootstrap import CHECK_MS, open_first
from lethe.adapters.kafka.client import ClientError, KafkaConnection, ProtocolError, RequestTimedOut
from lethe.adapters.kafka.metadata import ask_metadata, why_incomplete
from lethe.adapters.kafka.reach import BrokerReach
from lethe.admin.refusal import Exit, Refusal
from lethe.protocol.kafka.connection import highest_common_version
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataResponse, Request, Response, api_of_request
from lethe.protocol.kafka.to_controller import AdminRequest, AdminResponse, errors_of
from lethe.protocol.kafka.versions import VersionRange
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerId, Endpoint

T = TypeVar("T")

RequestFor = Callable[[Mapping[int, VersionRange]], AdminRequest]
"""Returns the request for a controller that offers these versions."""

CLIENT_ID: Final = "lethe-admin"
MAX_ANSWER_BYTES: Final = 512 * 1024 * 1024
LEAST_MS: Final = 200
"""Time for a request where none is left."""
SEARCH_MS: Final = 5_000
"""How long a controller is looked for that clients do not see."""
_PAUSE_S: Final = 0.2
_MARGIN_MS: Final = 5_000
"""A controller answers at the end of a request's own time; the answer has to arrive."""


class ClientCluster:
    """The cluster of one command. Create it with `open_cluster`. Methods raise ClientError and ProtocolError."""

    def __init__(self, reach: BrokerReach, connection: KafkaConnection, timeout_ms: int) -> None:
        self.reach: Final = reach
        self._connection = connection
        self._ends_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        self.may_be_done = False
        """True if NOT_CONTROLLER was an answer to the last request for the controller."""

    @property
    def peer(self) -> str:
        """`host:port` of the broker that is asked."""
        return self._connection.peer

    @property
    def left_ms(self) -> int:
        """The command's time that is left, in milliseconds, at least LEAST_MS."""
        return max(int((self._ends_s - asyncio.get_running_loop().time()) * 1000), LEAST_MS)

    @property
    def is_over(self) -> bool:
        return asyncio.get_running_loop().time() >= self._ends_s

    async def ask(self, request: Request) -> Response:
        """Return the answer of the broker, in the highest common version."""
        return await self._connection.ask(request, self.left_ms)

    async def metadata(self, topics: Collection[str] | None = None) -> MetadataResponse:
        """Return the broker's Metadata about these topics, or about all. It creates none."""
        return await self._in_time("Metadata", ask_metadata(self._connection, topics))

    async def why_hidden(self) -> str | None:
        """Return why the broker's list of all topics may lack some; None: it is complete."""
        reason = await self._in_time("Metadata", why_incomplete(self._connection))
        return None if reason is None else f"broker {self.peer}: {reason}"

    async def _in_time(self, what: str, asked: Awaitable[T]) -> T:
        limit_ms = self.left_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await asked
        except TimeoutError as error:
            raise RequestTimedOut(f"{self.peer} did not answer {what} within {limit_ms} ms") from error

    def brokers(self, answer: MetadataResponse) -> tuple[Broker, ...]:
        """Return the brokers of a Metadata answer. Their epochs are unknown, and they have the one listener."""
        ((protocol, _),) = self.reach.security.items()
        name = self.reach.listener or "CLIENT"
        return tuple(
            Broker(each.id, NO_EPOCH, (Endpoint(name, each.host, each.port, protocol),), each.rack)
            for each in sorted(answer.brokers, key=lambda broker: broker.id)
        )

    async def ask_controller(self, request: AdminRequest | RequestFor, *, act: str) -> AdminResponse:
        """Return the controller's answer. `act` says what was to be done, as in "delete topic orders".

        Raises Refusal where no controller is found, or where the outcome is unknown.
        """
        loop = asyncio.get_running_loop()
        began, reason = loop.time(), "no controller is elected"
        self.may_be_done = False
        while True:
            answer = await self.metadata(())
            found = next((each for each in self.brokers(answer) if each.id == answer.controller_id), None)
            if found is None:
                reason = _not_seen(answer.controller_id)
            else:
                given = await self._ask_at(found, request, act)
                if not isinstance(given, str):
                    return given
                reason = given
            too_long = found is None and (loop.time() - began) * 1000 >= SEARCH_MS
            if too_long or self.is_over:
                unknown = f"whether a controller did {act} is unknown"
                known = unknown if self.may_be_done else f"nobody was asked to {act}"
                raise Refusal(f"{known}: {reason}", Exit.UNREACHABLE)
            await asyncio.sleep(min(_PAUSE_S, self.left_ms / 1000))

    async def _ask_at(self, controller: Broker, request: AdminRequest | RequestFor, act: str) -> AdminResponse | str:
        """Return the answer, or why this broker did not take the request."""
        try:
            connection = await self.reach.open(
                self.reach.endpoint_of(controller),
                CLIENT_ID,
                connect_timeout_ms=min(CHECK_MS, self.left_ms),
                request_timeout_ms=self.left_ms + _MARGIN_MS,
                max_response_bytes=MAX_ANSWER_BYTES,
            )
        except ClientError as error:
            return str(error)
        async with connection:
            try:
                offered = await connection.offered_versions(self.left_ms)
            except ClientError as error:
                return str(error)
            sent = request(offered) if callable(request) else request
            try:
                version = highest_common_version(api_of_request(sent), offered)
            except ProtocolError as error:
                raise ProtocolError(f"{connection.peer}: {error}") from error
            try:
                answer = cast(AdminResponse, await connection.request(sent, version))
            except (ClientError, ProtocolError) as error:
                raise Refusal(f"whether the controller did {act} is unknown: {error}", Exit.UNREACHABLE) from error
        if ErrorCode.NOT_CONTROLLER in errors_of(answer):
            self.may_be_done = True
            return f"broker {controller.id} answers NOT_CONTROLLER, and Metadata names it as the controller"
        return answer


def _not_seen(controller: BrokerId) -> str:
    if controller < 0:
        return (
            "brokers show no controller; clients do not see a controller of Lethe without listeners (give --zookeeper)"
        )
    return (
        f"the controller {controller} is not among the brokers that clients see (a controller of Lethe has to have a "
        "listener of this name; or give --zookeeper)"
    )


@asynccontextmanager
async def open_cluster(reach: BrokerReach, servers: Sequence[str], *, timeout_ms: int) -> AsyncIterator[ClientCluster]:
    """Yield the cluster of the first server that answers. Raises ConnectionFailed that names all dead ones."""
    each_ms = max(LEAST_MS, min(CHECK_MS, timeout_ms // len(servers)))
    connection = await open_first(
        reach,
        servers,
        CLIENT_ID,
        connect_timeout_ms=each_ms,
        request_timeout_ms=timeout_ms,
        max_response_bytes=MAX_ANSWER_BYTES,
    )
    async with connection:
        yield ClientCluster(reach, connection, timeout_ms)
