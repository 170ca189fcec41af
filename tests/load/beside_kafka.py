"""The same requests to Kafka's controller and to ours, by turns, before the same three brokers of Kafka."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lethe.cluster.kafka_fetch import KafkaVersion, fetch_kafka
from lethe.cluster.local import LocalCluster
from tests.fakes.administrator import Address
from tests.fakes.listed_controller import address_of
from tests.interop.conditions import kafka_leads
from tests.judge.sides import cluster_of
from tests.judge.step import Side
from tests.load.topics import Took, both, names_of

SIDES: Final = {Side.KAFKA: "Kafka's controller", Side.LETHE: "Lethe"}
WARM_UP: Final = 200
"""Topics that are created and deleted before the clock runs, so that neither side is cold."""


async def compare(version: KafkaVersion, topics: int, rounds: int, say: Callable[[str], None]) -> None:
    """Print what creation and deletion take on each side: each round, and the medians."""
    kafka = fetch_kafka(version, say)
    took: dict[Side, list[tuple[Took, Took]]] = {side: [] for side in SIDES}
    for number in range(rounds):
        for side, name in SIDES.items():
            with tempfile.TemporaryDirectory(prefix="lethe-load-") as directory:
                async with cluster_of(side, kafka, Path(directory)) as cluster, cluster.session() as session:
                    address = await _address(side, cluster)
                    await both(address, session, names_of(WARM_UP))
                    took[side].append(await both(address, session, names_of(topics)))
            say(f"round {number + 1} of {rounds}, {name}: {_words(took[side][-1:])}")
    for side, name in SIDES.items():
        say(f"{name} on Kafka {version}, medians of {rounds}, {topics} topics in one request: {_words(took[side])}")


async def _address(side: Side, cluster: LocalCluster) -> Address:
    async def address() -> tuple[str, int]:
        if side is Side.LETHE:
            return address_of(await cluster.active_controller())
        async with cluster.session() as session:
            return await cluster.kafka_broker(await kafka_leads(session)).listener()

    return address


def _words(rounds: Sequence[tuple[Took, Took]]) -> str:
    parts = []
    for what, each in zip(("CreateTopics", "DeleteTopics"), zip(*rounds, strict=True), strict=True):
        answered_s = statistics.median(took.answered_s for took in each)
        settled_s = statistics.median(took.settled_s for took in each)
        parts.append(f"{what} answered after {answered_s:.2f} s, everywhere after {settled_s:.1f} s")
    return "; ".join(parts)
