"""Counts of the controller's runtime, and the collector that Prometheus scrapes.

Values are read at each scrape where they are kept: gauges from the core's memory, counts from channels and session,
event samples from here. So a scrape is up to date, and a broker's series end with its channel. While a long step runs,
the gauges are those of the previous scrape.

A scrape never iterates over topics or partitions, whose counts are updated where they change
(`controller.core.mutation`). It takes as long with 100,000 partitions as with ten. The event loop gathers the numbers,
and a thread formats them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric as Family

from lethe.adapters.journal import JournalCounts
from lethe.adapters.kafka.forwarding_proxy import ForwardingCounts
from lethe.adapters.metric_families import journal_families, single, values, written
from lethe.adapters.metric_types import JOURNAL_FILES, JOURNAL_TOPIC
from lethe.adapters.security_metrics import SecurityMetrics
from lethe.controller.core.controller_state import ControllerState
from lethe.controller.core.deletion_memory import DELETING, REFUSAL_REASONS, DeletionStage, RetriedAction
from lethe.controller.core.gauges import Gauges
from lethe.controller.core.power_view import CAUSES, PowerView
from lethe.controller.core.transitions import ReplicaState
from lethe.controller.core.trash_view import TrashSummary
from lethe.controller.runtime import broker_metrics, deletion_metrics, metric_catalog
from lethe.controller.runtime.metric_families import histograms, labelled, summaries
from lethe.controller.runtime.samples import LONG_SECONDS_BUCKETS, Buckets, Sample
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.journal_debts import PAID, VOID, WRITTEN_OFF
from lethe.protocol.journal_trash import BACK, EXPIRED, GAVE_WAY, PURGED
from lethe.protocol.zookeeper.znodes import TrashPhase

_TERMS: Final = ("elected", "resigned")
"""Values of `what` in election event records when a term begins and ends."""
_LEFT_TRASH: Final = {BACK: "back", EXPIRED: "expired", PURGED: "purged", GAVE_WAY: "gave_way"}


@dataclass(slots=True)
class ChannelCounts:
    """Counts of one channel, which writes them; a scrape reads them."""

    queue_size: int = 0
    backlog_bytes: int = 0
    queue_time_ms: Sample = field(default_factory=Sample)
    latency: dict[str, Buckets] = field(default_factory=dict)
    """API to seconds."""
    retries: dict[str, int] = field(default_factory=dict)
    """Reason to count."""
    oversized: int = 0

    def note_latency(self, api: str, seconds: float) -> None:
        self.latency.setdefault(api, Buckets()).add(seconds)

    def note_retry(self, reason: str) -> None:
        self.retries[reason] = self.retries.get(reason, 0) + 1


class ChannelView(NamedTuple):
    """One open channel at the time of a scrape."""

    broker: int
    counts: ChannelCounts
    oldest_s: float
    failing_s: float
    """How long all attempts have failed; 0: the last one was answered."""


class TermView(NamedTuple):
    """Role and elections of the controller at the time of a scrape."""

    role: str
    roles: tuple[str, ...]
    epoch: int
    active_controller: int
    elections: int
    unclean_elections: int
    term_s: float
    ghosts_cured: int


class QueueView(NamedTuple):
    """The event queue and the event in progress."""

    size: int
    waiting: Mapping[str, int]
    """Queued events by name; names that were queued before stay, with 0."""
    oldest_s: float
    in_progress_s: float


class OldestView(NamedTuple):
    """The marked topic that has waited longest."""

    topic: str
    reason: str
    broker: int | None
    age_s: float


class SessionView(NamedTuple):
    up: bool
    opened: int
    lost: int
    failed_attempts: int
    write_window: int
    """0 without a session."""


class ListenerView(NamedTuple):
    """The listener for brokers and clients."""

    connections: int
    forwarded: int
    """Those of them that are forwarded to a broker."""
    counts: ForwardingCounts


@dataclass(slots=True)
class Sources:
    """Where a scrape reads values; a source that is None has no series."""

    gauges: Callable[[], Gauges] | None = None
    oldest: Callable[[], OldestView | None] | None = None
    retries: Callable[[], Mapping[tuple[RetriedAction, str], int]] | None = None
    term: Callable[[], TermView] | None = None
    queue: Callable[[], QueueView] | None = None
    channels: Callable[[], Iterable[ChannelView]] | None = None
    power: Callable[[], PowerView] | None = None
    session: Callable[[], SessionView] | None = None
    listener: Callable[[], ListenerView] | None = None
    journal: JournalCounts | None = None
    journal_topic: JournalCounts | None = None


class ControllerMetrics:
    """Counts the runtime's events; `text` is the answer of `/metrics`."""

    def __init__(self, security: SecurityMetrics | None = None) -> None:
        self.sources = Sources()
        self._security = SecurityMetrics() if security is None else security
        self.queue_time_ms = Sample()
        self.state = ControllerState.IDLE
        self.state_times_ms = {state: Sample() for state in metric_catalog.STATE_TIMERS}
        self._is_open = True
        self._queued: dict[str, Buckets] = {}
        self._handled: dict[str, Buckets] = {}
        self._faults: dict[str, int] = {}
        self._phases: dict[str, Buckets] = {}
        self._records = dict.fromkeys(EventRecordType, 0)
        self._refused = dict.fromkeys(REFUSAL_REASONS.values(), 0)
        self._trash_left = dict.fromkeys(_LEFT_TRASH.values(), 0)
        self._debts_closed = dict.fromkeys((PAID, VOID, WRITTEN_OFF), 0)
        self._terms = dict.fromkeys(_TERMS, 0)
        self._takeover = Buckets()
        self._zookeeper_ms = Sample()
        self._zookeeper: dict[str, Buckets] = {}
        self._operations: dict[str, int] = {}
        self._requests_ms: dict[str, Sample] = {}
        self._request_errors: dict[tuple[str, str], int] = {}
        self._process = ProcessCollector(registry=None)

    # --- counting -------------------------------------------------------------------------------------------------

    def event_began(self, event: str, state: ControllerState, queued_s: float) -> None:
        """An event was taken from the queue."""
        self.state = state
        self.queue_time_ms.add(queued_s * 1000)
        self._queued.setdefault(event, Buckets()).add(queued_s)

    def event_ended(self, event: str, state: ControllerState, handled_s: float, outcome: str) -> None:
        """The course of an event is over, with any outcome."""
        self.state = ControllerState.IDLE
        if state in self.state_times_ms:
            self.state_times_ms[state].add(handled_s * 1000)
        self._handled.setdefault(event, Buckets()).add(handled_s)
        if outcome == "fault":
            self._faults[event] = self._faults.get(event, 0) + 1

    def queue_went_idle(self) -> None:
        """Clear the queue-time sample: no event came for five minutes."""
        self.queue_time_ms.clear()

    def loop_closed(self) -> None:
        """Remove the queue's metrics."""
        self._is_open = False

    def note_zookeeper(self, operation: str, seconds: float, operations: Mapping[str, int]) -> None:
        """Count a read or write of the core that was answered; `operations` is their number by type."""
        self._zookeeper_ms.add(seconds * 1000)
        self._zookeeper.setdefault(operation, Buckets()).add(seconds)
        for kind, count in operations.items():
            self._operations[kind] = self._operations.get(kind, 0) + count

    def note_record(self, record: EventRecord) -> None:
        """An event record was recorded."""
        self._records[record.type] += 1
        if record.type is EventRecordType.DELETION_PHASE:
            phase, took_ms = record.data.get("phase"), record.data.get("took_ms")
            if isinstance(phase, str) and isinstance(took_ms, int | float):
                self._phases.setdefault(phase, Buckets(LONG_SECONDS_BUCKETS)).add(took_ms / 1000)
        elif record.type is EventRecordType.REFUSAL and record.data.get("what") == DELETING:
            reason = REFUSAL_REASONS.get(str(record.data.get("why")))
            if reason is not None:
                self._refused[reason] += 1
        elif record.type is EventRecordType.DEBT and (how := record.data.get("what")) in self._debts_closed:
            self._debts_closed[str(how)] += 1
        elif record.type is EventRecordType.EVENT and (how := record.data.get("what")) in _LEFT_TRASH:
            self._trash_left[_LEFT_TRASH[str(how)]] += 1
        elif record.type is EventRecordType.ELECTION:
            what, loading_ms = record.data.get("what"), record.data.get("loading_ms")
            if what in self._terms:
                self._terms[str(what)] += 1
            if what == "active" and isinstance(loading_ms, int | float):
                self._takeover.add(loading_ms / 1000)

    def request_answered(self, request: str, seconds: float, errors: Mapping[str, int]) -> None:
        """A request of a broker or a client was answered, with these errors."""
        self._requests_ms.setdefault(request, Sample()).add(seconds * 1000)
        for error, count in errors.items():
            self._request_errors[request, error] = self._request_errors.get((request, error), 0) + count

    # --- showing --------------------------------------------------------------------------------------------------

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return written(self.gathered())

    async def text_written_aside(self) -> bytes:
        """Return the same, with certificates as their files are now; a thread formats it, which is the slowest part."""
        await asyncio.to_thread(self._security.look)
        return await asyncio.to_thread(written, self.gathered())

    def gathered(self) -> list[Family]:
        """Return a snapshot of all metrics."""
        return [*self._families(), *self._process.collect()]

    def _families(self) -> Iterator[Family]:
        sources = self.sources
        if sources.gauges is not None:
            yield from _gauges(sources.gauges(), self.state)
        if sources.oldest is not None:
            yield from _oldest(sources.oldest())
        if sources.retries is not None:
            rows = [({"part": part.value, "reason": why}, count) for (part, why), count in sources.retries().items()]
            yield values(deletion_metrics.RETRIES, rows)
        yield histograms(deletion_metrics.PHASES, labelled("phase", self._phases))
        yield values(deletion_metrics.DEBTS_CLOSED, labelled("how", self._debts_closed))
        yield values(deletion_metrics.TRASH_ENDED, labelled("how", self._trash_left))
        yield values(deletion_metrics.REFUSED, [({"reason": why}, count) for why, count in self._refused.items()])
        yield values(deletion_metrics.RECORDS, [({"type": kind.value}, count) for kind, count in self._records.items()])
        if sources.term is not None:
            yield from _term(sources.term())
        if sources.power is not None:
            yield from _power(sources.power())
        yield single(metric_catalog.TERMS, self._terms["elected"])
        yield single(metric_catalog.TERMS_ENDED, self._terms["resigned"])
        yield histograms(metric_catalog.TAKEOVER, [({}, self._takeover)])
        if self._is_open:
            if sources.queue is not None:
                yield from _queue(sources.queue())
            yield summaries(metric_catalog.QUEUE_TIME, [({}, self.queue_time_ms)])
        for state, sample in self.state_times_ms.items():
            yield summaries(metric_catalog.STATE_TIMERS[state], [({}, sample)])
        yield histograms(metric_catalog.EVENT_QUEUED, labelled("event", self._queued))
        yield histograms(metric_catalog.EVENT_HANDLED, labelled("event", self._handled))
        yield values(metric_catalog.FAULTS, labelled("event", self._faults))
        yield summaries(metric_catalog.ZOOKEEPER_LATENCY_MS, [({}, self._zookeeper_ms)])
        yield histograms(metric_catalog.ZOOKEEPER_LATENCY, labelled("operation", self._zookeeper))
        yield values(metric_catalog.ZOOKEEPER_OPERATIONS, labelled("operation", self._operations))
        if sources.session is not None:
            session = sources.session()
            yield single(metric_catalog.ZOOKEEPER_CONNECTED, session.up)
            yield single(metric_catalog.ZOOKEEPER_CONNECTS, session.opened)
            yield single(metric_catalog.ZOOKEEPER_EXPIRES, session.lost)
            yield single(metric_catalog.ZOOKEEPER_FAILED, session.failed_attempts)
            yield single(metric_catalog.ZOOKEEPER_WRITE_WINDOW, session.write_window)
        if sources.channels is not None:
            yield from _channels(list(sources.channels()))
        if sources.listener is not None:
            listener = sources.listener()
            yield single(broker_metrics.LISTENER_CONNECTIONS, listener.connections)
            yield single(broker_metrics.FORWARDED_CONNECTIONS, listener.forwarded)
            yield single(broker_metrics.FORWARDED_REQUESTS, listener.counts.requests)
            yield single(broker_metrics.FORWARDED_BYTES_IN, listener.counts.bytes_in)
            yield single(broker_metrics.FORWARDED_BYTES_OUT, listener.counts.bytes_out)
            yield single(broker_metrics.FORWARDING_FAILURES, listener.counts.failures)
            yield summaries(broker_metrics.REQUEST_TIME, labelled("request", self._requests_ms))
            errors = self._request_errors.items()
            rows = [({"request": request, "error": error}, count) for (request, error), count in errors]
            yield values(broker_metrics.REQUEST_ERRORS, rows)
        if sources.journal is not None:
            yield from journal_families(JOURNAL_FILES, sources.journal)
        if sources.journal_topic is not None:
            yield from journal_families(JOURNAL_TOPIC, sources.journal_topic)
        yield from self._security.families()


def _gauges(gauges: Gauges, state: ControllerState) -> Iterator[Family]:
    for name, metric in metric_catalog.CONTROLLER_GAUGES.items():
        yield single(metric, state if name == "controller_state" else getattr(gauges, name))
    stages = {"held": gauges.held_topic_count} | {
        each.value: gauges.topics_in_stage.get(each, 0) for each in DeletionStage
    }
    yield values(deletion_metrics.TOPICS, labelled("stage", stages))
    states = {each.name.lower(): gauges.doomed_replicas.get(each, 0) for each in ReplicaState}
    yield values(deletion_metrics.REPLICAS, labelled("state", states))
    owed = [({"broker_id": str(broker)}, each.topics) for broker, each in gauges.owed_tombstones.items()]
    yield values(deletion_metrics.OWED, owed)
    debts = [({"broker_id": str(broker)}, each) for broker, each in gauges.debts.items()]
    yield values(deletion_metrics.DEBTS, [(labels, each.debts) for labels, each in debts])
    yield values(
        deletion_metrics.DEBT_BYTES,
        [(labels, each.size_bytes) for labels, each in debts if each.size_bytes is not None],
    )
    yield values(deletion_metrics.OLDEST_DEBT, [(labels, each.since_ms / 1000) for labels, each in debts])
    yield single(deletion_metrics.UNREADABLE_DEBTS, gauges.unreadable_debts)
    yield from _trash(gauges.trash)
    yield single(deletion_metrics.UNREADABLE_TRASH, gauges.unreadable_trash)
    yield single(deletion_metrics.TRASH_IS_UNSEEN, gauges.trash_unseen)


def _trash(trash: TrashSummary) -> Iterator[Family]:
    phases = {phase.value: trash.topics.get(phase, 0) for phase in TrashPhase}
    yield values(deletion_metrics.TRASH, labelled("phase", phases))
    yield single(deletion_metrics.TRASH_BYTES, trash.size_bytes)
    yield single(deletion_metrics.TRASH_DUE, (trash.oldest_due_ms or 0) / 1000)
    yield single(deletion_metrics.TRASH_FULL_DISKS, trash.full_disks)
    yield single(deletion_metrics.TRASH_UNSEEN, trash.unseen_brokers)


def _oldest(oldest: OldestView | None) -> Iterator[Family]:
    yield single(deletion_metrics.OLDEST_AGE, 0 if oldest is None else oldest.age_s)
    rows = []
    if oldest is not None:
        broker = "" if oldest.broker is None else str(oldest.broker)
        rows = [({"topic": oldest.topic, "reason": oldest.reason, "broker_id": broker}, 1)]
    yield values(deletion_metrics.OLDEST_INFO, rows)


def _queue(queue: QueueView) -> Iterator[Family]:
    yield single(metric_catalog.QUEUE_SIZE, queue.size)
    yield values(metric_catalog.EVENTS_WAITING, labelled("event", queue.waiting))
    yield single(metric_catalog.OLDEST_EVENT, queue.oldest_s)
    yield single(metric_catalog.IN_PROGRESS, queue.in_progress_s)


def _term(term: TermView) -> Iterator[Family]:
    yield single(metric_catalog.CURRENT_CONTROLLER, term.active_controller)
    yield single(metric_catalog.EPOCH, term.epoch)
    yield values(metric_catalog.ROLE, [({"role": role}, role == term.role) for role in term.roles])
    yield single(metric_catalog.TERM, term.term_s)
    yield single(metric_catalog.LEADERS_ELECTED, term.elections)
    yield single(metric_catalog.UNCLEAN, term.unclean_elections)
    yield single(metric_catalog.GHOSTS_CURED, term.ghosts_cured)


def _power(view: PowerView) -> Iterator[Family]:
    yield single(metric_catalog.POWERLESS, view.powerless_s)
    rows = [({"broker_id": str(each.broker), "reason": CAUSES[each.standing].name}, 1) for each in view.refusing]
    yield values(metric_catalog.BROKER_REFUSES, rows)


def _channels(channels: list[ChannelView]) -> Iterator[Family]:
    by_broker = [({"broker_id": str(channel.broker)}, channel) for channel in channels]
    yield single(broker_metrics.TOTAL_QUEUE_SIZE, sum(channel.counts.queue_size for channel in channels))
    yield values(broker_metrics.CHANNEL_QUEUE_SIZE, [(labels, each.counts.queue_size) for labels, each in by_broker])
    yield summaries(
        broker_metrics.CHANNEL_QUEUE_TIME, [(labels, each.counts.queue_time_ms) for labels, each in by_broker]
    )
    yield values(broker_metrics.CHANNEL_BACKLOG, [(labels, each.counts.backlog_bytes) for labels, each in by_broker])
    yield values(broker_metrics.CHANNEL_OLDEST, [(labels, each.oldest_s) for labels, each in by_broker])
    yield values(broker_metrics.CHANNEL_FAILING, [(labels, each.failing_s) for labels, each in by_broker])
    yield histograms(
        broker_metrics.CHANNEL_LATENCY,
        [({**labels, "api": api}, row) for labels, each in by_broker for api, row in each.counts.latency.items()],
    )
    yield values(broker_metrics.CHANNEL_OVERSIZED, [(labels, each.counts.oversized) for labels, each in by_broker])
    yield values(
        broker_metrics.CHANNEL_RETRIES,
        [({**labels, "reason": why}, row) for labels, each in by_broker for why, row in each.counts.retries.items()],
    )
