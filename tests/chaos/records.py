"""Records that a producer sends all the time to a topic that lives: what was acknowledged must be there at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.chaos.cluster import KAFKA_IDS, ChaosCluster
from tests.chaos.workload import LEDGER, LEDGER_REPLICAS
from tests.interop.clients import Stored, read_all, value

AT_ONCE: Final = 10
PAUSE_S: Final = 0.5


@dataclass(slots=True)
class Records:
    """Sends until it is cancelled."""

    cluster: ChaosCluster
    note: Callable[[str], None] = lambda text: None
    acknowledged: list[Stored] = field(default_factory=list)
    _number: int = 0

    @property
    def _servers(self) -> list[str]:
        return ["{}:{}".format(*self.cluster.address(number)) for number in KAFKA_IDS]

    async def run(self) -> None:
        """Send with acks=all, with a new producer after a failure."""
        while True:
            try:
                async with AIOKafkaProducer(
                    bootstrap_servers=self._servers, acks="all", request_timeout_ms=10_000
                ) as producer:
                    while True:
                        await self._send(producer)
                        await asyncio.sleep(PAUSE_S)
            except (KafkaError, OSError) as problem:
                self.note(f"producer: {type(problem).__name__}: {problem}")
                await asyncio.sleep(PAUSE_S)

    async def _send(self, producer: AIOKafkaProducer) -> None:
        numbers = range(self._number, self._number + AT_ONCE)
        self._number = numbers.stop
        sent = [await producer.send(LEDGER, value(number)) for number in numbers]
        for number, outcome in zip(numbers, await asyncio.gather(*sent, return_exceptions=True), strict=True):
            if not isinstance(outcome, BaseException):
                self.acknowledged.append(Stored(outcome.partition, outcome.offset, number))
            elif not isinstance(outcome, KafkaError | OSError):
                raise outcome

    async def missing(self) -> list[Stored]:
        """Return the acknowledged records that cannot be read. Raises KafkaError, OSError where nothing is seen."""
        found = set(await read_all(self._servers, LEDGER, len(LEDGER_REPLICAS)))
        return [record for record in self.acknowledged if record not in found]
