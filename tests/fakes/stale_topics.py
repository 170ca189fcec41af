"""Candidates for deletion and the brokers that tell their sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lethe.admin.candidates import Candidate
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import Broker, BrokerId, TopicPartition
from lethe.survey.views import BrokerAnswers, Directory, LogDirSource, LogDirView

DAY_MS = 86_400_000
TAKEN_AT_MS = 20_000 * DAY_MS
CANDIDATE = Candidate(
    "orders", None, 1, 2, 220, 200, False, TAKEN_AT_MS - 40 * DAY_MS, 40, "mtime", 5_000, "survey-1", TAKEN_AT_MS
)


def candidate(topic: str = "orders", **changes: Any) -> Candidate:
    """Of a topic with one partition on two brokers, a hundred bytes on each."""
    return replace(CANDIDATE, topic=topic, **changes)


class ToldSizes:
    """Every live broker tells these logs: bytes by broker and directory. Others are silent."""

    def __init__(self, sizes: Mapping[int, Mapping[str, int]]) -> None:
        self.sizes = {broker: dict(logs) for broker, logs in sizes.items()}
        self.asked = 0

    async def __call__(self, broker: Broker) -> BrokerAnswers:
        self.asked += 1
        if broker.id not in self.sizes:
            return BrokerAnswers(broker.id)
        directories = tuple(
            Directory(name, _kind(name), _partition(name), size) for name, size in self.sizes[broker.id].items()
        )
        return BrokerAnswers(
            broker.id, {}, BrokerId(1), (LogDirView(broker.id, "/d", LogDirSource.BROKER, directories),)
        )


def _kind(name: str) -> DirectoryKind:
    return DirectoryKind.FUTURE if name.endswith("-future") else DirectoryKind.REPLICA


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.removesuffix("-future").rpartition("-")
    return TopicPartition(topic, int(number))
