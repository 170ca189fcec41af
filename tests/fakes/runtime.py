"""What the controller's runtime meets in its tests in place of the world: a clock, a core, ZooKeeper's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lethe.adapters.config_common import JournalFilesConfig
from lethe.adapters.config_http import HttpConfig
from lethe.adapters.config_zookeeper import ZooKeeperConfig
from lethe.adapters.kafka.limits import ServerLimits
from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.security.inbound import InboundSettings
from lethe.controller.core.config import (
    DEFAULT_OPERATIONS_PER_GROUP,
    DEFAULT_PARTITIONS_PER_SLICE,
    KAFKAS_DEFAULTS,
    CoreConfig,
    Takeover,
)
from lethe.controller.core.context import Context
from lethe.controller.core.effects import Effect
from lethe.controller.core.events import Result
from lethe.controller.core.pace_memory import NO_LIMITS
from lethe.controller.core.topic_policy import NO_POLICY
from lethe.controller.runtime.configuration import ControllerConfig
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.kafka.parts import DEFAULT_MAX_BYTES
from lethe.protocol.kafka.versions import LATEST, InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId, Endpoint
from lethe.protocol.zookeeper.znodes import OfflineReplicas

LIMIT_S: Final = 120.0
"""For a condition that comes within a second, or within minutes on a busy machine."""


async def reach(condition: Callable[[], object], within_s: float = LIMIT_S) -> None:
    """Let the event loop run until the condition holds; fails after the limit."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.001)


class ManualClock:
    """Stands still until it is told to move."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms


class Facts:
    """Keeps what is recorded."""

    def __init__(self) -> None:
        self.seen: list[EventRecord] = []

    def record(self, record: EventRecord) -> None:
        self.seen.append(record)

    def of(self, kind: EventRecordType) -> list[EventRecord]:
        return [record for record in self.seen if record.type is kind]


class HeldPerformer:
    """Performs nothing; gives the results that the test puts in, when it puts them in."""

    def __init__(self) -> None:
        self.performed: list[Effect] = []
        self.results: asyncio.Queue[Result | Exception | None] = asyncio.Queue()
        self.dropped = 0

    def perform(self, effects: Sequence[Effect]) -> None:
        self.performed += effects

    async def result(self) -> Result | None:
        result = await self.results.get()
        if isinstance(result, Exception):
            raise result
        return result

    def forget_results(self) -> None:
        while not self.results.empty():
            self.results.get_nowait()

    def drop_everything(self) -> None:
        self.dropped += 1


def new_context(controller_id: int = 1001, ibp: InterBrokerProtocol = LATEST) -> Context:
    return Context(CoreConfig(BrokerId(controller_id), ibp))


def controller_config(
    controller_id: int = 1001,
    *,
    connect: str = "127.0.0.1:1",
    http_port: int = 0,
    journal: Path | None = None,
    session_timeout_ms: int = 6_000,
    socket_timeout_ms: int = 30_000,
    request_timeout_ms: int = 30_000,
    listeners: tuple[Endpoint, ...] = (),
) -> ControllerConfig:
    """A configuration as the properties of a small cluster would give it."""
    return ControllerConfig(
        controller_id=BrokerId(controller_id),
        zookeeper=ZooKeeperConfig(connect, session_timeout_ms, session_timeout_ms, set_acl=False, credentials=None),
        http=HttpConfig("127.0.0.1", http_port),
        journal=None if journal is None else JournalFilesConfig(journal, 1 << 20, 4),
        journal_topic=None,
        delete_topic_enable=True,
        protected_topics=(),
        pace=NO_LIMITS,
        grace=(),
        trash_free_percent=0,
        new_topics=KAFKAS_DEFAULTS,
        mutation_quota_window_s=11,
        topic_policy=NO_POLICY,
        inter_broker_protocol=LATEST,
        inter_broker_listener="PLAINTEXT",
        reach=PLAINTEXT_REACH,
        listeners=listeners,
        advertised_listeners=listeners,
        inbound=InboundSettings(),
        unclean_leader_election=False,
        auto_leader_rebalance=True,
        leader_imbalance_check_interval_ms=300_000,
        leader_imbalance_per_broker_percentage=10,
        takeover=Takeover.NEVER,
        takeover_grace_ms=100,
        takeover_interval_ms=60_000,
        takeover_interval_max_ms=3_600_000,
        offline_replicas=OfflineReplicas.WAIT,
        tombstone_timeout_ms=300_000,
        stop_grace_ms=5_000,
        invariants_check=True,
        request_timeout_ms=request_timeout_ms,
        controller_socket_timeout_ms=socket_timeout_ms,
        limits=ServerLimits(max_connections=1_000),
        relay_connect_timeout_ms=2_000,
        max_broker_request_bytes=DEFAULT_MAX_BYTES,
        partitions_per_slice=DEFAULT_PARTITIONS_PER_SLICE,
        operations_per_group=DEFAULT_OPERATIONS_PER_GROUP,
        warnings=(),
    )
