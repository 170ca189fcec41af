"""The metrics of an agent. Each is declared once, in `METRICS`; a scrape reads the core's state.

A scrape runs on the event loop, between two steps, so its values are consistent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lethe.adapters.journal import JournalCounts
from lethe.broker.core.state import AgentState
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.kafka.control import ApiKey


class MetricFamily(NamedTuple):
    """One metric family."""

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...] = ()


_REPLICAS: Final = MetricFamily(
    "lethe_agent_replicas", "gauge", "Replicas by state: loaded (found on disk), hosted, offline", ("state",)
)
_HOSTED_BYTES: Final = MetricFamily("lethe_agent_hosted_bytes", "gauge", "Bytes of the replicas that are not offline")
_LOG_DIRS: Final = MetricFamily(
    "kafka_log_logmanager_offlinelogdirectorycount", "gauge", "Log directories that cannot be used"
)
_PENDING: Final = MetricFamily(
    "lethe_agent_pending_removal_directories",
    "gauge",
    "Directories renamed for deletion that are not removed yet; they go after the delay, paced",
)
_PENDING_BYTES: Final = MetricFamily(
    "lethe_agent_pending_removal_bytes", "gauge", "Bytes in them: deleted topics' bytes that are not free yet"
)
_STUCK: Final = MetricFamily(
    "lethe_agent_failed_removals",
    "gauge",
    "Directories whose last removal failed; it is repeated. /state names them and the error",
)
_FREED_BYTES: Final = MetricFamily(
    "lethe_agent_freed_bytes_total", "counter", "Bytes removed from disk since the start"
)
_FREED_FILES: Final = MetricFamily(
    "lethe_agent_freed_files_total", "counter", "Files removed from disk since the start"
)
_REMOVED: Final = MetricFamily(
    "lethe_agent_removed_directories_total", "counter", "Directories removed since the start"
)
_SET_ASIDE: Final = MetricFamily(
    "lethe_agent_set_aside_directories",
    "gauge",
    "Directories renamed to `-stray`, kept and not used. /state and `lethe survey` name them",
)
_SET_ASIDE_BYTES: Final = MetricFamily("lethe_agent_set_aside_bytes", "gauge", "Bytes in them")
_DUPLICATES: Final = MetricFamily(
    "lethe_agent_duplicate_directories",
    "gauge",
    "Directories of partitions that have more than one; none is touched before the topic id decides",
)
_UNKNOWN: Final = MetricFamily(
    "lethe_agent_unknown_directories", "gauge", "Directories in the log directories that are no replicas; left alone"
)
_CACHED: Final = MetricFamily("lethe_agent_cached_partitions", "gauge", "Partitions in the metadata cache")
_CACHED_TOPICS: Final = MetricFamily("lethe_agent_cached_topics", "gauge", "Topics in the metadata cache")
_EPOCH: Final = MetricFamily("lethe_agent_broker_epoch", "gauge", "czxid of the registration; -1: not registered yet")
_CONTROLLER_EPOCH: Final = MetricFamily("lethe_agent_controller_epoch", "gauge", "Highest controller epoch seen")
_REGISTERED: Final = MetricFamily("lethe_agent_registered", "gauge", "1 while there is a ZooKeeper session")
_WAITING: Final = MetricFamily("lethe_agent_waiting_requests", "gauge", "Control requests that wait for the one before")
_CATCHING_UP: Final = MetricFamily(
    "lethe_agent_catching_up_partitions",
    "gauge",
    "Partitions that wait for the catch-up delay: as follower (to be filled) or as leader (to ask for ISR members)",
    ("role",),
)
_PROPOSALS: Final = MetricFamily(
    "lethe_agent_isr_proposals_total",
    "counter",
    "Partitions whose ISR this agent proposed as their leader: accepted, put back, unanswered, given up",
    ("outcome",),
)
_REQUESTS: Final = MetricFamily("lethe_agent_requests_total", "counter", "Control requests carried out", ("api",))
_REQUEST_BYTES: Final = MetricFamily(
    "lethe_agent_request_bytes_total", "counter", "Bytes of the requests that came in, their lengths included", ("api",)
)
_ANSWERS: Final = MetricFamily(
    "lethe_agent_answers_total", "counter", "Partitions answered, by request and error", ("api", "error")
)
_REFUSALS: Final = MetricFamily("lethe_agent_refusals_total", "counter", "Requests and partitions refused", ("what",))

_JOURNAL_LINES: Final = MetricFamily("lethe_journal_lines_total", "counter", "Event records written to the journal")
_JOURNAL_LOST: Final = MetricFamily(
    "lethe_journal_lost_total",
    "counter",
    "Event records that the journal could not take; reports made from it have a gap",
)
_JOURNAL_FAILING: Final = MetricFamily(
    "lethe_journal_failing", "gauge", "1 while the journal cannot be written; the log says why: a full disk, mostly"
)
_JOURNAL_TOPIC: Final = (
    MetricFamily("lethe_journal_topic_lines_total", "counter", "Lines that the journal's topic has acknowledged"),
    MetricFamily(
        "lethe_journal_topic_lost_total",
        "counter",
        "Lines that the journal's topic did not accept; the topic records the gap",
    ),
    MetricFamily("lethe_journal_topic_failing", "gauge", "1 while the journal's topic takes nothing; the log says why"),
)

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
    _JOURNAL_LINES,
    _JOURNAL_LOST,
    _JOURNAL_FAILING,
    *_JOURNAL_TOPIC,
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

    def __init__(self) -> None:
        self.counts = AgentCounts()
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

    def collect(self) -> Iterable[Metric]:
        """Return the metric families of a scrape, as Prometheus' library requires."""
        yield from self._counted()
        if self.journal is not None:
            yield _family(_JOURNAL_LINES, {(): self.journal.written})
            yield _family(_JOURNAL_LOST, {(): self.journal.lost})
            yield _family(_JOURNAL_FAILING, {(): self.journal.failing is not None})
        if (topic := self.journal_topic) is not None:
            counted = (topic.written, topic.lost, topic.failing is not None)
            yield from (_family(each, {(): value}) for each, value in zip(_JOURNAL_TOPIC, counted, strict=True))
        # Also before the first session, so that a wrong address shows.
        yield _family(_REGISTERED, {(): int(self.registered)})
        if self.state is not None:
            yield from self._read(self.state)

    def _counted(self) -> Iterator[Metric]:
        yield _family(_REQUESTS, {(api,): count for api, count in sorted(self.counts.requests.items())})
        yield _family(_REQUEST_BYTES, {(api,): count for api, count in sorted(self.counts.request_bytes.items())})
        yield _family(_ANSWERS, dict(sorted(self.counts.answers.items())))
        yield _family(_REFUSALS, {(what,): count for what, count in sorted(self.counts.refusals.items())})

    def _read(self, state: AgentState) -> Iterator[Metric]:
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
            yield _family(declared, {(): value})


def _family(declared: MetricFamily, values: Mapping[tuple[str, ...], float]) -> Metric:
    kind = GaugeMetricFamily if declared.kind == "gauge" else CounterMetricFamily
    family = kind(declared.name, declared.meaning, labels=declared.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
