"""TCP proxy from clients of the controller to live brokers.

Theory of operation. Each client connection has at most one connection to a broker (`ForwardedClient`). It is opened
with the first request that the controller does not answer itself. Requests and answers are copied in pieces of at most
`CHUNK_BYTES`, and no frame is held as a whole, so the memory per client is bounded. A broker answers in the order of
the requests. An answer of the controller's own waits until all requests before it are answered (`settled`).

A client stays with one broker, because incremental fetches and versions do. When the broker's connection ends, the
proxy closes the client's; clients connect again, as they do when a broker dies. A broker that cannot be reached is
tried last for `PASSED_OVER_S`.

The proxy asks each incarnation of a broker for its versions once and merges the controller's own into the answer
(`merged_versions`). A client that received versions is connected only to a broker with the same versions. Among the
brokers with the client's listener, the one with the fewest connections is chosen. Only PLAINTEXT listeners count: on
another one the broker would take the client for this process, with its rights. Versions are asked for there as well,
with this process's login: a client needs them before it is turned away.

    brokers 1 (2 connections), 2 (1), 3 (0, refused a connection 4 s ago)  ->  order of attempts: 2, 1, 3
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from lethe.adapters.kafka.client import ClientError, ConnectionFailed
from lethe.adapters.kafka.reach import PLAINTEXT_REACH, BrokerReach
from lethe.protocol.counting import counted
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.forwarding import merged_versions
from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES, ProtocolError
from lethe.protocol.kafka.queries import ApiVersionsResponse
from lethe.protocol.kafka.versions import VersionRange
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol

_LOG: Final = logging.getLogger(__name__)
CHUNK_BYTES: Final = 64 * 1024
PASSED_OVER_S: Final = 10.0
"""How long a broker that could not be reached comes last."""
T = TypeVar("T")


class NoBrokerAvailable(Exception):
    """No broker can serve the client; the message says why."""


@dataclass(slots=True)
class ForwardingCounts:
    """Counts since the start."""

    requests: int = 0
    bytes_in: int = 0
    """From clients to brokers."""
    bytes_out: int = 0
    failures: int = 0
    """Connections of clients that were closed because no broker could be reached, or their broker was lost."""


class BrokerTarget(NamedTuple):
    """One incarnation of a broker under one listener."""

    broker: BrokerId
    epoch: BrokerEpoch
    endpoint: Endpoint


class Upstream(NamedTuple):
    """An open connection to a broker."""

    target: BrokerTarget
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _OtherVersions(Exception):
    """The broker's versions differ from those that the client received."""


_NOT_THERE: Final = (ClientError, ProtocolError, OSError, ValueError, OverflowError)
"""OSError covers TimeoutError. ValueError and OverflowError come from a host or port in a malformed registration."""


class ForwardingProxy:
    """Chooses and opens connections to brokers, for all clients of one process. `show` sets the live brokers."""

    def __init__(
        self,
        own: Mapping[ApiKey, VersionRange],
        instead: Mapping[ApiKey, VersionRange],
        client_id: str,
        *,
        connect_timeout_ms: int = 5_000,
        max_answer_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        reach: BrokerReach = PLAINTEXT_REACH,
    ) -> None:
        """`reach`: how to ask brokers for versions where they have TLS or SASL. Clients are never forwarded there."""
        self._reach = reach
        self.counts = ForwardingCounts()
        self._own = own
        self._instead = instead
        self._client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self._max_answer_bytes = max_answer_bytes
        self._brokers: tuple[Broker, ...] = ()
        self._versions: dict[BrokerTarget, ApiVersionsResponse] = {}
        self._asking: dict[BrokerTarget, asyncio.Lock] = {}
        self._failed_at_s: dict[BrokerTarget, float] = {}
        self._load: Counter[BrokerId] = Counter()

    def show(self, brokers: tuple[Broker, ...]) -> None:
        """Set the live brokers, and forget the state of all others."""
        self._brokers = brokers
        known = {broker.id: broker.epoch for broker in brokers}
        for target in [*self._asking, *self._failed_at_s]:
            if known.get(target.broker) != target.epoch:
                self._versions.pop(target, None)
                self._asking.pop(target, None)
                self._failed_at_s.pop(target, None)

    @property
    def open_count(self) -> int:
        """Connections to brokers."""
        return self._load.total()

    def check_answer(self, size: int) -> None:
        """Raise ProtocolError if a broker's answer is malformed or too large."""
        if not 4 <= size <= self._max_answer_bytes:
            raise ProtocolError(f"an answer of {counted(size, 'byte')}")

    # --- choosing -------------------------------------------------------------------------------------------------

    def _targets(self, listener: str, is_usable: Callable[[Endpoint], bool]) -> Iterator[BrokerTarget]:
        """Yield brokers, best first. The order is computed again at each step, because failures and loads change."""
        tried: list[BrokerTarget] = []
        while True:
            targets = [
                BrokerTarget(broker.id, broker.epoch, endpoint)
                for broker in self._brokers
                if (endpoint := broker.endpoint(listener)) is not None and is_usable(endpoint)
            ]
            left = [target for target in targets if target not in tried]
            if not left:
                return
            best = min(left, key=lambda target: (self._has_failed(target), self._load[target.broker], target.broker))
            tried.append(best)
            yield best

    def _has_failed(self, target: BrokerTarget) -> bool:
        return time.monotonic() - self._failed_at_s.get(target, -PASSED_OVER_S) < PASSED_OVER_S

    async def versions(self, listener: str) -> ApiVersionsResponse:
        """Return the versions for a client of this listener. Raises NoBrokerAvailable."""
        return (await self._first(listener, self._versions_of, self._tells_versions))[1]

    def _tells_versions(self, endpoint: Endpoint) -> bool:
        return _forwards(endpoint) or self._reach.choice.accepts(endpoint)

    async def connect(self, listener: str, required: ApiVersionsResponse | None) -> Upstream:
        """Open a connection to a broker, with the `required` versions unless that is None. Raises NoBrokerAvailable."""

        async def open_one(target: BrokerTarget) -> Upstream:
            if required is not None and await self._versions_of(target) != required:
                raise _OtherVersions("its API versions differ from those that the client received")
            async with asyncio.timeout(self._connect_timeout_ms / 1000):
                streams = await asyncio.open_connection(target.endpoint.host, target.endpoint.port, limit=CHUNK_BYTES)
            return Upstream(target, *streams)

        target, upstream = await self._first(listener, open_one, _forwards)
        self._load[target.broker] += 1
        return upstream

    async def versions_of(self, upstream: Upstream) -> ApiVersionsResponse:
        """Return the versions for a client that is connected to a broker. Raises NoBrokerAvailable."""
        try:
            return await self._versions_of(upstream.target)
        except _NOT_THERE as error:
            raise NoBrokerAvailable(f"broker {upstream.target.broker}: {error or 'no answer in time'}") from error

    def closed(self, upstream: Upstream) -> None:
        """Note that a connection from `connect` is closed."""
        broker = upstream.target.broker
        self._load[broker] -= 1
        if not self._load[broker]:
            del self._load[broker]

    async def _first(
        self,
        listener: str,
        attempt: Callable[[BrokerTarget], Awaitable[T]],
        is_usable: Callable[[Endpoint], bool],
    ) -> tuple[BrokerTarget, T]:
        why = f"no live broker has a listener {listener} without authentication and encryption"
        for target in self._targets(listener, is_usable):
            try:
                return target, await attempt(target)
            except _OtherVersions as error:
                why = f"broker {target.broker}: {error}"
            except _NOT_THERE as error:
                host, port = target.endpoint.host, target.endpoint.port
                why = f"broker {target.broker} at {host}:{port}: {error or 'no answer in time'}"
                self._failed_at_s[target] = time.monotonic()
                _LOG.debug("forwarding: skipping %s", why)
        raise NoBrokerAvailable(why)

    async def _versions_of(self, target: BrokerTarget) -> ApiVersionsResponse:
        began_s = time.monotonic()
        async with self._asking.setdefault(target, asyncio.Lock()):
            known = self._versions.get(target)
            if known is None:
                if self._failed_at_s.get(target, began_s) > began_s:
                    raise ConnectionFailed("it did not answer a moment ago")
                limit_ms = self._connect_timeout_ms
                reach = PLAINTEXT_REACH if _forwards(target.endpoint) else self._reach
                async with await reach.open(
                    target.endpoint, self._client_id, connect_timeout_ms=limit_ms, request_timeout_ms=limit_ms
                ) as connection:
                    theirs = await connection.api_versions()
                known = self._versions[target] = merged_versions(theirs, self._own, self._instead)
            return known


def _forwards(endpoint: Endpoint) -> bool:
    """Return whether clients are forwarded to this listener."""
    return endpoint.protocol is SecurityProtocol.PLAINTEXT
