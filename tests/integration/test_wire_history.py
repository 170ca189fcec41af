"""The small history that was recorded with real Kafka (tests/wire), played under our controller with agents: they are
told what Kafka's controller told real brokers, but for the differences that are listed, and answer and ask as these
did.

This is `tests/interop/test_wire.py` without Kafka: what it needs of Kafka is in the recording.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from lethe.cluster.kafka_fetch import KafkaVersion
from tests.wire.compare import compare
from tests.wire.differences import DIFFERENCES
from tests.wire.history import record
from tests.wire.recording import VERSIONS, Recording, Who, read_recording, write_recording

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]


def for_agents(recording: Recording) -> Recording:
    """Without producer ids, for which agents have no use."""
    exchanges = [each for each in recording.exchanges if each.phase != "an idempotent producer comes"]
    return dataclasses.replace(recording, exchanges=tuple(exchanges))


@pytest.mark.parametrize("version", VERSIONS)
async def test_agents_are_told_what_kafkas_controller_tells_brokers(version: str, tmp_path: Path) -> None:
    recording = await record(Who.LETHE, KafkaVersion.parse(version), tmp_path)
    write_recording(recording, tmp_path)
    comparison = compare(for_agents(read_recording(Who.KAFKA, version)), recording, DIFFERENCES)
    assert not comparison.unlisted, "\n\n".join(comparison.unlisted)
