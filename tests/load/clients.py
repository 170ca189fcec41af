"""The clients of the load: those that ask, those that are slow or silent, and those that send garbage."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.kafka.client_errors import ClientError
from lethe.protocol.kafka.admin_partitions import ListPartitionReassignmentsRequest
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.kafka.queries import MetadataRequest
from tests.fuzz import seeds
from tests.fuzz.mutation import in_a_stream, mutated

Address = tuple[str, int]
METADATA = "Metadata of all topics (forwarded)"
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


async def asks(address: Address, seen: Seen, start_s: float, interval_s: float) -> None:
    """Ask both requests each interval, from its own moment on."""
    try:
        async with await KafkaConnection.open(*address, "load", connect_timeout_ms=60_000) as connection:
            await connection.api_versions(60_000)
            await asyncio.sleep(start_s)
            while True:
                with seen.waiting(METADATA):
                    await connection.request(MetadataRequest(None), 8, 60_000)
                with seen.waiting(LIST):
                    await connection.request(ListPartitionReassignmentsRequest(None, 30_000), 0, 60_000)
                await asyncio.sleep(interval_s)
    except (ClientError, ProtocolError) as error:
        seen.failures.append(str(error))


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


async def sends_garbage(address: Address, seen: Seen, seed: int) -> None:
    """Send damaged frames, ten in a second; again when the server has closed."""
    draw = random.Random(seed)
    frames = seeds.recorded()
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(*address)
            try:
                while not writer.is_closing():
                    writer.write(in_a_stream(mutated(draw.choice(frames), draw, frames), draw))
                    await writer.drain()
                    seen.garbage += 1
                    await asyncio.sleep(0.1)
            finally:
                writer.close()
        await asyncio.sleep(0.1)
