"""The clients of the load: those that ask, those that are slow or silent, and those that send garbage."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lethe.protocol.kafka.admin_partitions import ListPartitionReassignmentsRequest
from lethe.protocol.kafka.codec import decode_response, encode_request, response_correlation_id
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.framing import ProtocolError, frame_size
from lethe.protocol.kafka.queries import ApiVersionsRequest, MetadataRequest, MetadataResponse, Request, api_of_request
from tests.fuzz import seeds
from tests.fuzz.mutation import in_a_stream, mutated

Address = tuple[str, int]
METADATA = "Metadata of all topics (forwarded)"
GARBAGE_FRAMES = 200
LIST = "ListPartitionReassignments (answered here)"


@dataclass(slots=True)
class Seen:
    """What the clients saw."""

    took_s: dict[str, list[float]] = field(default_factory=lambda: {METADATA: [], LIST: []})
    """How long each request has waited, those included that have no answer."""
    failures: list[str] = field(default_factory=list)
    garbage: int = 0
    """Frames of garbage that were sent."""
    slow: int = 0
    """Connections of slow and silent clients, each of which connects again when it is closed."""

    @contextlib.contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Measure a request, also one that fails or is given up at the end: it has waited so long at least."""
        began_s = time.perf_counter()
        try:
            yield
        finally:
            self.took_s[name].append(time.perf_counter() - began_s)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of the values does not exceed. Raises ValueError without values."""
    if not values:
        raise ValueError("there is nothing to take a percentile of")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


class Asker:
    """A client that measures how long answers take to arrive, and leaves all but its first ones undecoded: what it
    costs to decode 1,000 topics would delay those of the other clients in this process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._asked = 0
        self._looked_at: dict[ApiKey, None] = {}

    async def ask(self, request: Request, version: int) -> None:
        """Return when the whole answer is there. Raises ProtocolError if it is none, or the first of its API an
        error."""
        self._asked += 1
        payload = encode_request(request, version, self._asked, "load")
        self._writer.write(frame_size(len(payload)) + payload)
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        answer = await self._reader.readexactly(size)
        if response_correlation_id(answer) != self._asked:
            raise ProtocolError(f"an answer to another request than number {self._asked}")
        api = api_of_request(request)
        if api not in self._looked_at:
            self._looked_at[api] = None
            _, found = decode_response(api, version, answer)
            rows = found.topics if isinstance(found, MetadataResponse) else ()
            errors = [getattr(found, "error", 0), *(row.error for row in rows)]
            if any(errors):
                raise ProtocolError(f"{api.name} is answered with the errors {[*filter(None, errors)]}")


async def asks(address: Address, seen: Seen, start_s: float, interval_s: float) -> None:
    """Ask both requests each interval, from its own moment on."""
    try:
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection(*address, limit=1 << 20)
            asker = Asker(reader, writer)
            await asker.ask(ApiVersionsRequest("load", "1"), 3)
        try:
            await asyncio.sleep(start_s)
            while True:
                for name, request, version in (
                    (METADATA, MetadataRequest(None), 8),
                    (LIST, ListPartitionReassignmentsRequest(None, 30_000), 0),
                ):
                    with seen.waiting(name):
                        async with asyncio.timeout(60):
                            await asker.ask(request, version)
                await asyncio.sleep(interval_s)
        finally:
            writer.close()
    except (OSError, EOFError, ProtocolError) as error:
        seen.failures.append(repr(error))


async def is_slow(address: Address, seen: Seen, *, drips: bool) -> None:
    """Connect and send nothing, or a request by single bytes; again when the server has closed."""
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(*address)
            seen.slow += 1
            try:
                for byte in b"\0\0\x10\0" + bytes(4096) if drips else b"":
                    writer.write(bytes((byte,)))
                    await writer.drain()
                    await asyncio.sleep(1)
                await reader.read()
            finally:
                writer.close()
        await asyncio.sleep(1)


async def sends_garbage(address: Address, seen: Seen, frames: Sequence[bytes]) -> None:
    """Send these damaged frames, ten in a second; again when the server has closed."""
    left = itertools.cycle(frames)
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(*address)
            try:
                while not writer.is_closing():
                    writer.write(next(left))
                    await writer.drain()
                    seen.garbage += 1
                    await asyncio.sleep(0.1)
            finally:
                writer.close()
        await asyncio.sleep(0.1)


def garbage(clients: int, seed: int = 0) -> list[list[bytes]]:
    """Damaged frames for each of so many clients, made before the clock runs."""
    frames, draw = seeds.recorded(), random.Random(seed)
    return [
        [in_a_stream(mutated(draw.choice(frames), draw, frames), draw) for _ in range(GARBAGE_FRAMES)]
        for _ in range(clients)
    ]
