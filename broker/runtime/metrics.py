"""The metrics of an agent. Each is declared once, in `METRICS`; a scrape reads the core's state.

A scrape runs on the event loop, between two steps, so its values are consistent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from lethe.adapters.journal import JournalCounts
from lethe.adapters.metric_families import journal_families, single, values
from lethe.adapters.metric_types import JOURNAL_FILES, JOURNAL_TOPIC, Metric, MetricKind
from lethe.adapters.security_metrics import METRICS as SECURITY
from lethe.adapters.security_metrics import SecurityMetrics
from lethe.broker.core.state import AgentState
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.kafka.control import ApiKey

_GAUGE: Final = MetricKind.GAUGE
_COUNTER: Final = MetricKind.COUNTER

_REPLICAS: Final = Metric(
    "lethe_agent_replicas", _GAUGE, "Replicas by state: loaded (found on disk), hosted, offline", ("state",)
)
_HOSTED_BYTES: Final = Metric("lethe_agent_hosted_bytes", _GAUGE, "Bytes of the replicas that are not offline")
_LOG_DIRS: Final = Metric(
    "kafka_log_logmanager_offlinelogdirectorycount", _GAUGE, "Log directories that cannot be used"
)
_PENDING: Final = Metric(
    "lethe_agent_pending_removal_directories",
    _GAUGE,
    "Directories renamed for deletion that are not removed yet; they go after the delay, paced",
)
_PENDING_BYTES: Final = Metric(
    "lethe_agent_pending_removal_bytes", _GAUGE, "Bytes in them: deleted topics' bytes that are not free yet"
)
_STUCK: Final = Metric(
    "lethe_agent_failed_removals",
    _GAUGE,
    "Directories whose last removal failed; it is repeated. /state names them and the error",
)
_FREED_BYTES: Final = Metric("lethe_agent_freed_bytes_total", _COUNTER, "Bytes removed from disk since the start")
_FREED_FILES: Final = Metric("lethe_agent_freed_files_total", _COUNTER, "Files removed from disk since the start")
_REMOVED: Final = Metric("lethe_agent_removed_directories_total", _COUNTER, "Directories removed since the start")
_SET_ASIDE: Final = Metric(
    "lethe_agent_set_aside_directories",
    _GAUGE,
    "Directories renamed to `-stray`, kept and not used. /state and `lethe survey` name them",
)
_SET_ASIDE_BYTES: Final = Metric("lethe_agent_set_aside_bytes", _GAUGE, "Bytes in them")
_DUPLICATES: Final = Metric(
    "lethe_agent_duplicate_directories",
    _GAUGE,
    "Directories of partitions that have more than one; none is touched before the topic id decides",
)
_UNKNOWN: Final = Metric(
    "lethe_agent_unknown_directories", _GAUGE, "Directories in the log directories that are no replicas; left alone"
)
_CACHED: Final = Metric("lethe_agent_cached_partitions", _GAUGE, "Partitions in the metadata cache")
_CACHED_TOPICS: Final = Metric("lethe_agent_cached_topics", _GAUGE, "Topics in the metadata cache")
_EPOCH: Final = Metric("lethe_agent_broker_epoch", _GAUGE, "czxid of the registration; -1: not registered yet")
_CONTROLLER_EPOCH: Final = Metric("lethe_agent_controller_epoch", _GAUGE, "Highest controller epoch seen")
_REGISTERED: Final = Metric("lethe_agent_registered", _GAUGE, "1 while there is a ZooKeeper session")
_WAITING: Final = Metric("lethe_agent_waiting_requests", _GAUGE, "Control requests that wait for the one before")
_CATCHING_UP: Final = Metric(
    "lethe_agent_catching_up_partitions",
    _GAUGE,
    "Partitions that wait for the catch-up delay: as follower (to be filled) or as leader (to ask for ISR members)",
    ("role",),
)
_PROPOSALS: Final = Metric(
    "lethe_agent_isr_proposals_total",
    _COUNTER,
    "Partitions whose ISR this agent proposed as their leader: accepted, put back, unanswered, given up",
    ("outcome",),
)
_REQUESTS: Final = Metric("lethe_agent_requests_total", _COUNTER, "Control requests carried out", ("api",))
_REQUEST_BYTES: Final = Metric(
    "lethe_agent_request_bytes_total", _COUNTER, "Bytes of the requests that came in, their lengths included", ("api",)
)
_ANSWERS: Final = Metric(
    "lethe_agent_answers_total", _COUNTER, "Partitions answered, by request and error", ("api", "error")
)
_REFUSALS: Final = Metric("lethe_agent_refusals_total", _COUNTER, "Requests and partitions refused", ("what",))

METRICS: Final = (
    _REPLICAS,
    _HOSTED_BYTES,
    _LOG_DIRS,
    _PENDING,
    _PENDING_BYTES,
    _STUCK,
    _FREED_BYTES,
    _FREED_FILES,
    _REMOVED,
    _SET_ASIDE,
    _SET_ASIDE_BYTES,
    _DUPLICATES,
    _UNKNOWN,
    _CACHED,
    _CACHED_TOPICS,
    _EPOCH,
    _CONTROLLER_EPOCH,
    _REGISTERED,
    _WAITING,
    _CATCHING_UP,
    _PROPOSALS,
    _REQUESTS,
    _REQUEST_BYTES,
    _ANSWERS,
    _REFUSALS,
    *SECURITY,
    *JOURNAL_FILES,
    *JOURNAL_TOPIC,
)


@dataclass(slots=True)
class AgentCounts:
    """Counters that are increased as events happen."""

    requests: Counter[str] = field(default_factory=Counter)
    request_bytes: Counter[str] = field(default_factory=Counter)
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)

    def note_request(self, api: ApiKey, size_bytes: int) -> None:
        """Count a request and its bytes."""
        self.request_bytes[api.name] += size_bytes

    def note_record(self, record: EventRecord) -> None:
        """Count an event record."""
        if record.type is EventRecordType.REQUEST:
            api = str(record.data.get("api"))
            self.requests[api] += 1
            answers = record.data.get("answers")
            if isinstance(answers, Mapping):
                for error, count in answers.items():
                    self.answers[api, str(error)] += count if isinstance(count, int) else 0
        elif record.type is EventRecordType.REFUSAL:
            self.refusals[str(record.data.get("what"))] += 1


class AgentMetrics(Collector):
    """A registry of its own for one agent, so that several can live in one process."""

    def __init__(self, security: SecurityMetrics | None = None) -> None:
        self.counts = AgentCounts()
        self._security = SecurityMetrics() if security is None else security
        self.state: AgentState | None = None
        self.registered = False
        self.journal: JournalCounts | None = None
        """Counts of the journal's files; None without a journal."""
        self.journal_topic: JournalCounts | None = None
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    async def text_of_now(self) -> bytes:
        """Return the same, with certificates as their files are now."""
        await asyncio.to_thread(self._security.look)
        return self.text()

    def collect(self) -> Iterable[Family]:
        """Return the metric families of a scrape, as Prometheus' library requires."""
        yield from self._counted()
        if self.journal is not None:
            yield from journal_families(JOURNAL_FILES, self.journal)
        if self.journal_topic is not None:
            yield from journal_families(JOURNAL_TOPIC, self.journal_topic)
        yield from self._security.families()
        # Also before the first session, so that a wrong address shows.
        yield single(_REGISTERED, self.registered)
        if self.state is not None:
            yield from self._read(self.state)

    def _counted(self) -> Iterator[Family]:
        yield _family(_REQUESTS, {(api,): count for api, count in sorted(self.counts.requests.items())})
        yield _family(_REQUEST_BYTES, {(api,): count for api, count in sorted(self.counts.request_bytes.items())})
        yield _family(_ANSWERS, dict(sorted(self.counts.answers.items())))
        yield _family(_REFUSALS, {(what,): count for what, count in sorted(self.counts.refusals.items())})

    def _read(self, state: AgentState) -> Iterator[Family]:
        removal = state.removal
        yield _family(_CATCHING_UP, {("follower",): len(state.fills), ("leader",): len(state.proposals)})
        yield _family(_PROPOSALS, {(verdict.value,): count for verdict, count in state.isr_outcomes.items()})
        yield _family(_REPLICAS, {(kind.value,): count for kind, count in state.replicas_in_state.items()})
        for declared, value in (
            (_HOSTED_BYTES, state.hosted_bytes),
            (_LOG_DIRS, sum(error is not None for error in state.log_dirs.values())),
            (_PENDING, len(removal.pending)),
            (_PENDING_BYTES, removal.pending_bytes),
            (_STUCK, removal.failing),
            (_FREED_BYTES, removal.freed_bytes),
            (_FREED_FILES, removal.freed_files),
            (_REMOVED, removal.removed_directories),
            (_SET_ASIDE, len(state.strays)),
            (_SET_ASIDE_BYTES, state.stray_bytes),
            (_DUPLICATES, state.duplicate_directories),
            (_UNKNOWN, len(state.unknown)),
            (_CACHED, state.cache.partition_count),
            (_CACHED_TOPICS, len(state.cache.topics)),
            (_EPOCH, state.broker_epoch),
            (_CONTROLLER_EPOCH, state.controller_epoch),
            (_WAITING, len(state.waiting)),
        ):
            yield single(declared, value)


def _family(declared: Metric, rows: Mapping[tuple[str, ...], float]) -> Family:
    return values(declared, ((dict(zip(declared.labels, key, strict=True)), value) for key, value in rows.items()))
