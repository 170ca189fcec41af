"""Requests as the frames that brokers get: parts below a limit, encoded once for all receivers.

A small request is encoded when its first receiver is about to send it. A large one is encoded on a thread, starting
when it is queued, so that pings and other channels continue.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from typing import Final

from lethe.protocol.counting import counted
from lethe.protocol.kafka.codec import EncodedBody, encode_control_body
from lethe.protocol.kafka.parts import exceeds, parts_of
from lethe.protocol.kafka.queries import ChannelRequest

logger = logging.getLogger(__name__)

ESTIMATED_PARTITION_BYTES: Final = 64
"""Estimated size of a partition in a request that is not encoded yet."""
LARGE_BYTES: Final = 256 * 1024
"""Size of a request with some thousands of partitions, which takes ten milliseconds to encode."""


def _estimated_bytes(request: ChannelRequest) -> int:
    return 100 + ESTIMATED_PARTITION_BYTES * sum(len(topic.partitions) for topic in request.topics or ())


def encoded_parts(request: ChannelRequest, version: int, max_bytes: int) -> tuple[EncodedBody, ...]:
    """Return the request's bodies: one, unless its frame would exceed `max_bytes`.

    Nearly all requests fit, and counting the bytes of all rows takes half as long as encoding them."""
    if _estimated_bytes(request) <= max_bytes:
        whole = encode_control_body(request, version)
        if not exceeds(whole.size_bytes, max_bytes):
            return (whole,)
    return tuple(encode_control_body(part, version) for part in parts_of(request, max_bytes))


class SharedBody:
    """A request and, once encoded, the bytes of its parts, shared by all receivers."""

    __slots__ = ("__weakref__", "_encoded", "_max_bytes", "_under_way", "_version", "request")

    def __init__(self, request: ChannelRequest, version: int, max_bytes: int) -> None:
        self.request = request
        self._version = version
        self._max_bytes = max_bytes
        self._encoded: tuple[EncodedBody, ...] = ()
        self._under_way: asyncio.Future[tuple[EncodedBody, ...]] | None = None

    @property
    def size_bytes(self) -> int:
        """Size of the bodies; an estimate until they are encoded."""
        if self._encoded:
            return sum(body.size_bytes for body in self._encoded)
        return _estimated_bytes(self.request)

    def begin(self, executor: Executor) -> None:
        """Start to encode a large request on the executor."""
        if self.size_bytes >= LARGE_BYTES:
            self._under_way = asyncio.get_running_loop().run_in_executor(executor, self._encode)
            # If no channel remains, no caller retrieves the exception.
            self._under_way.add_done_callback(lambda done: None if done.cancelled() else done.exception())

    async def encoded(self) -> tuple[EncodedBody, ...]:
        """Return the encoded parts, in sending order. Raises Unencodable where the version cannot carry the request."""
        if self._encoded:
            return self._encoded
        # A closed channel must not cancel the encoding for the others.
        found = self._encode() if self._under_way is None else await asyncio.shield(self._under_way)
        if not self._encoded:
            self._encoded, self._under_way = found, None
            self._warn()
        return self._encoded

    def is_oversized(self, body: EncodedBody) -> bool:
        """Return whether the part exceeds the limit, because one partition takes so much."""
        return exceeds(body.size_bytes, self._max_bytes)

    def _encode(self) -> tuple[EncodedBody, ...]:
        return encoded_parts(self.request, self._version, self._max_bytes)

    def _warn(self) -> None:
        largest = max(self._encoded, key=lambda body: body.size_bytes)
        if self.is_oversized(largest):
            logger.warning(
                "%s needs %s for one partition, above lethe.broker.request.max.bytes (%d), and is sent as it is: "
                "raise that limit, and socket.request.max.bytes of brokers that refuse it",
                largest.api.name,
                counted(largest.size_bytes, "byte"),
                self._max_bytes,
            )
