"""The demo on real brokers: with records in the replicas, clean at the end, and with nothing left running."""

from __future__ import annotations

import pytest

from lethe.cluster.demo import run_demo
from lethe.cluster.demo_chaos import GONE, Chaos
from lethe.cluster.demo_plan import DemoOptions
from lethe.cluster.demo_waits import WaitCause
from lethe.cluster.demo_watch import SilentWatcher
from lethe.cluster.kafka_fetch import KafkaVersion
from tests.interop.conftest import fetched

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(400),
]


async def test_a_deletion_on_real_brokers_is_proven(version: str) -> None:
    options = DemoOptions(
        topics=6, partitions=2, replication_factor=2, bytes_per_replica=100_000, kafka=KafkaVersion.parse(version)
    )
    result = await run_demo(options, SilentWatcher(), kafka=fetched(version))
    assert result.findings == ()
    assert result.is_clean
    assert [broker.replicas for broker in result.brokers] == [8, 8, 8]
    assert [broker.acknowledged for broker in result.brokers] == [8, 8, 8]
    assert all(broker.bytes_freed == broker.bytes_before > 8 * 100_000 for broker in result.brokers)
    assert [(phase.name, phase.reached) for phase in result.phases] == [
        ("tombstoned", 6),
        ("acknowledged", 6),
        ("removed", 6),
        ("reclaimed", 3),
    ]


async def test_chaos_on_real_brokers_ends_clean(version: str) -> None:
    """The first controller's successor gets control in the end, whoever of the real brokers had it in between."""
    options = DemoOptions(
        topics=12,
        partitions=2,
        replication_factor=2,
        bytes_per_replica=4096,
        session_timeout_ms=4_000,
        chaos=True,
        kafka=KafkaVersion.parse(version),
    )
    result = await run_demo(options, SilentWatcher(), kafka=fetched(version), extension=Chaos())
    assert result.findings == ()
    assert result.is_clean
    assert result.waits is not None
    waited = result.waits.topics_by_cause()[WaitCause(GONE, 3)]
    assert (len(waited), result.untouched) == (8, 4)
    told_by = [result.waits.topics[topic][WaitCause(GONE, 3)].told_by for topic in waited]
    assert all(set(controllers) == {1001, 1002} for controllers in told_by)
