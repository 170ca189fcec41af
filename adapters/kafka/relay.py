"""Passes clients of a process that is no broker on to one that is.

Theory of operation. Each client connection has a *passage*: at most one connection to one broker, opened when the
client first sends something to be passed on. Requests are copied to it as they arrive and answers back, in pieces of
at most `CHUNK_BYTES`: no frame is ever held as a whole, so that a client of the relay costs the same whatever it sends.
A broker answers in the order of the requests, so order needs no bookkeeping but one: what the relay's owner answers
itself waits until everything before it is answered (`settled`).

A passage belongs to the broker to which it was first opened, since incremental fetches and versions do. When that
connection ends, so does the client's, and the client connects again: that is what it does when a broker dies. A broker
that cannot be reached is passed over for a while, and the next one is tried.

Clients are told the versions of a broker (`merged_versions`), asked for once per incarnation of each broker; a passage
whose client was told some versions is opened to a broker with the same ones only. Brokers are chosen by how many
passages they have, under the listener by which the client came: it is told the brokers' addresses under that listener.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from lethe.adapters.kafka.client import ClientError, ConnectionFailed, KafkaConnection
from lethe.protocol.counting import counted
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.framing import DEFAULT_MAX_FRAME_BYTES, ProtocolError
from lethe.protocol.kafka.passing import merged_versions
from lethe.protocol.kafka.queries import ApiVersionsResponse
from lethe.protocol.kafka.versions import VersionRange
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol

_LOG: Final = logging.getLogger(__name__)
CHUNK_BYTES: Final = 64 * 1024
PASSED_OVER_S: Final = 10.0
"""How long a broker that could not be reached comes last."""
T = TypeVar("T")


class NobodyThere(Exception):
    """There is no broker to pass the client on to; says why."""


@dataclass(slots=True)
class RelayCounts:
    """Since the start."""

    requests: int = 0
    bytes_in: int = 0
    """From clients to brokers."""
    bytes_out: int = 0
    failures: int = 0
    """Connections of clients that were closed because no broker could be reached, or their broker was lost."""


class _Way(NamedTuple):
    """One incarnation of a broker under one listener."""

    broker: BrokerId
    epoch: BrokerEpoch
    endpoint: Endpoint


class Upstream(NamedTuple):
    """An open connection to a broker."""

    way: _Way
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _OtherVersions(Exception):
    """The broker is there, and is none for this client."""


_NOT_THERE: Final = (ClientError, ProtocolError, OSError, ValueError, OverflowError)
"""OSError has TimeoutError in it; host and port come from a registration that anybody could have made."""


class Relay:
    """All passages of one process. `show` says who is there; none are until then."""

    def __init__(
        self,
        own: Mapping[ApiKey, VersionRange],
        instead: Mapping[ApiKey, VersionRange],
        client_id: str,
        *,
        connect_timeout_ms: int = 5_000,
        max_answer_bytes: int = DEFAULT_MAX_FRAME_BYTES,
    ) -> None:
        self.counts = RelayCounts()
        self._own = own
        self._instead = instead
        self._client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self._max_answer_bytes = max_answer_bytes
        self._brokers: tuple[Broker, ...] = ()
        self._versions: dict[_Way, ApiVersionsResponse] = {}
        self._asking: dict[_Way, asyncio.Lock] = {}
        self._failed_at_s: dict[_Way, float] = {}
        self._load: Counter[BrokerId] = Counter()

    def show(self, brokers: tuple[Broker, ...]) -> None:
        """These are live; of others nothing is remembered."""
        self._brokers = brokers
        known = {broker.id: broker.epoch for broker in brokers}
        for way in [*self._asking, *self._failed_at_s]:
            if known.get(way.broker) != way.epoch:
                self._versions.pop(way, None)
                self._asking.pop(way, None)
                self._failed_at_s.pop(way, None)

    @property
    def open_count(self) -> int:
        """Connections to brokers."""
        return self._load.total()

    def check_answer(self, size: int) -> None:
        """Raises ProtocolError where a broker's answer is no frame, or a larger one than is accepted."""
        if not 4 <= size <= self._max_answer_bytes:
            raise ProtocolError(f"an answer of {counted(size, 'byte')}")

    # --- choosing -------------------------------------------------------------------------------------------------

    def _ways(self, listener: str) -> Iterator[_Way]:
        """The best broker first. Judged anew at each step, since time passes between them."""
        tried: list[_Way] = []
        while True:
            ways = [
                _Way(broker.id, broker.epoch, endpoint)
                for broker in self._brokers
                if (endpoint := broker.endpoint(listener)) is not None
                and endpoint.protocol is SecurityProtocol.PLAINTEXT
            ]
            left = [way for way in ways if way not in tried]
            if not left:
                return
            best = min(left, key=lambda way: (self._has_failed(way), self._load[way.broker], way.broker))
            tried.append(best)
            yield best

    def _has_failed(self, way: _Way) -> bool:
        return time.monotonic() - self._failed_at_s.get(way, -PASSED_OVER_S) < PASSED_OVER_S

    async def versions(self, listener: str) -> ApiVersionsResponse:
        """What a client that came by this listener is told. Raises NobodyThere."""
        return (await self._first(listener, self._versions_of))[1]

    async def connect(self, listener: str, told: ApiVersionsResponse | None) -> Upstream:
        """A connection to a broker that has the versions that the client was told, if any. Raises NobodyThere."""

        async def open_one(way: _Way) -> Upstream:
            if told is not None and await self._versions_of(way) != told:
                raise _OtherVersions("it has other versions than the client was told")
            async with asyncio.timeout(self._connect_timeout_ms / 1000):
                streams = await asyncio.open_connection(way.endpoint.host, way.endpoint.port, limit=CHUNK_BYTES)
            return Upstream(way, *streams)

        way, upstream = await self._first(listener, open_one)
        self._load[way.broker] += 1
        return upstream

    async def versions_of(self, upstream: Upstream) -> ApiVersionsResponse:
        """What a client is told that has been passed on already. Raises NobodyThere."""
        try:
            return await self._versions_of(upstream.way)
        except _NOT_THERE as error:
            raise NobodyThere(f"broker {upstream.way.broker}: {error or 'no answer in time'}") from error

    def closed(self, upstream: Upstream) -> None:
        """A connection that `connect` gave is no longer there."""
        broker = upstream.way.broker
        self._load[broker] -= 1
        if not self._load[broker]:
            del self._load[broker]

    async def _first(self, listener: str, attempt: Callable[[_Way], Awaitable[T]]) -> tuple[_Way, T]:
        why = f"no live broker has a listener {listener} without authentication and encryption"
        for way in self._ways(listener):
            try:
                return way, await attempt(way)
            except _OtherVersions as error:
                why = f"broker {way.broker}: {error}"
            except _NOT_THERE as error:
                why = f"broker {way.broker} at {way.endpoint.host}:{way.endpoint.port}: {error or 'no answer in time'}"
                self._failed_at_s[way] = time.monotonic()
                _LOG.debug("relay: passing over %s", why)
        raise NobodyThere(why)

    async def _versions_of(self, way: _Way) -> ApiVersionsResponse:
        began_s = time.monotonic()
        async with self._asking.setdefault(way, asyncio.Lock()):
            known = self._versions.get(way)
            if known is None:
                if self._failed_at_s.get(way, began_s) > began_s:
                    raise ConnectionFailed("it was asked just now, in vain")
                host, port, limit_ms = way.endpoint.host, way.endpoint.port, self._connect_timeout_ms
                async with await KafkaConnection.open(
                    host, port, self._client_id, connect_timeout_ms=limit_ms, request_timeout_ms=limit_ms
                ) as connection:
                    theirs = await connection.api_versions()
                known = self._versions[way] = merged_versions(theirs, self._own, self._instead)
            return known
