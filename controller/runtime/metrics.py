"""What the controller's runtime counts, and how Prometheus reads it.

Nothing is copied when an event ends: at each scrape the collector reads the core's gauges from its memory, the counts
of channels and session from where they are kept, and its own samples of events. So a scrape sees the present, and a
broker's series go with its channel. While a long step runs, the gauges are those of the scrape before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric as Family

from adapters.kafka.relay import RelayCounts
from controller.core.events import ControllerState
from controller.runtime import declared
from controller.runtime.declared import Kind, Metric
from controller.runtime.samples import LONG_SECONDS_BUCKETS, Buckets, Sample
from protocol.journal import Fact, FactType

Labels = Mapping[str, str]
V = TypeVar("V")


@dataclass(slots=True)
class ChannelCounts:
    """What one channel measures; the channel writes, a scrape reads."""

    queue_size: int = 0
    backlog_bytes: int = 0
    queue_time_ms: Sample = field(default_factory=Sample)
    latency: dict[str, Buckets] = field(default_factory=dict)
    """API to seconds."""
    retries: dict[str, int] = field(default_factory=dict)
    """Reason to how often."""

    def note_latency(self, api: str, seconds: float) -> None:
        self.latency.setdefault(api, Buckets()).add(seconds)

    def note_retry(self, reason: str) -> None:
        self.retries[reason] = self.retries.get(reason, 0) + 1


class ChannelView(NamedTuple):
    """One open channel at the time of a scrape."""

    broker: int
    counts: ChannelCounts
    oldest_s: float


class Tenure(NamedTuple):
    """What the controller is at the time of a scrape."""

    role: str
    roles: tuple[str, ...]
    epoch: int
    active_controller: int
    unclean_elections: int


class SessionView(NamedTuple):
    up: bool
    opened: int
    lost: int
    failed_attempts: int


class JournalView(NamedTuple):
    written: int
    lost: int
    failing: bool


class ListenerView(NamedTuple):
    """The listener for brokers and clients."""

    connections: int
    relayed: int
    """Of them, those that are passed on to a broker."""
    counts: RelayCounts


@dataclass(slots=True)
class Sources:
    """Where a scrape reads what others keep. What is not given is left out."""

    gauges: Callable[[], object] | None = None
    """Gives an object with the fields named in `declared.CONTROLLER_GAUGES`."""
    tenure: Callable[[], Tenure] | None = None
    queue_size: Callable[[], int] | None = None
    channels: Callable[[], Iterable[ChannelView]] | None = None
    session: Callable[[], SessionView] | None = None
    listener: Callable[[], ListenerView] | None = None
    journal: Callable[[], JournalView] | None = None


class ControllerMetrics:
    """Counts what the runtime does; `text` is what `/metrics` answers."""

    def __init__(self) -> None:
        self.sources = Sources()
        self.queue_time_ms = Sample()
        self.state = ControllerState.IDLE
        self.state_times_ms = {state: Sample() for state in declared.STATE_TIMERS}
        self._is_open = True
        self._queued: dict[str, Buckets] = {}
        self._handled: dict[str, Buckets] = {}
        self._faults: dict[str, int] = {}
        self._phases: dict[str, Buckets] = {}
        self._facts = dict.fromkeys(FactType, 0)
        self._zookeeper_ms = Sample()
        self._zookeeper: dict[str, Buckets] = {}
        self._requests_ms: dict[str, Sample] = {}
        self._request_errors: dict[tuple[str, str], int] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Collector(self._families))
        ProcessCollector(registry=self._registry)

    # --- counting -------------------------------------------------------------------------------------------------

    def event_began(self, event: str, state: ControllerState, queued_s: float) -> None:
        """An event was taken from the queue."""
        self.state = state
        self.queue_time_ms.add(queued_s * 1000)
        self._queued.setdefault(event, Buckets()).add(queued_s)

    def event_ended(self, event: str, state: ControllerState, handled_s: float, outcome: str) -> None:
        """The course of an event is over, however it ended."""
        self.state = ControllerState.IDLE
        if state in self.state_times_ms:
            self.state_times_ms[state].add(handled_s * 1000)
        self._handled.setdefault(event, Buckets()).add(handled_s)
        if outcome == "fault":
            self._faults[event] = self._faults.get(event, 0) + 1

    def queue_went_idle(self) -> None:
        """No event has come for five minutes."""
        self.queue_time_ms.clear()

    def loop_closed(self) -> None:
        """The metrics of the queue go with it."""
        self._is_open = False

    def note_zookeeper(self, operation: str, seconds: float) -> None:
        """A read or write of the core was answered."""
        self._zookeeper_ms.add(seconds * 1000)
        self._zookeeper.setdefault(operation, Buckets()).add(seconds)

    def note_fact(self, fact: Fact) -> None:
        """A fact was recorded."""
        self._facts[fact.type] += 1
        if fact.type is FactType.DELETION_PHASE:
            phase, took_ms = fact.data.get("phase"), fact.data.get("took_ms")
            if isinstance(phase, str) and isinstance(took_ms, int | float):
                self._phases.setdefault(phase, Buckets(LONG_SECONDS_BUCKETS)).add(took_ms / 1000)

    def broker_answered(self, request: str, seconds: float, errors: Mapping[str, int]) -> None:
        """A broker's request was answered, with these errors."""
        self._requests_ms.setdefault(request, Sample()).add(seconds * 1000)
        for error, count in errors.items():
            self._request_errors[request, error] = self._request_errors.get((request, error), 0) + count

    # --- showing --------------------------------------------------------------------------------------------------

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def _families(self) -> Iterator[Family]:
        sources = self.sources
        if sources.gauges is not None:
            values = sources.gauges()
            for name, metric in declared.CONTROLLER_GAUGES.items():
                value = self.state if name == "controller_state" else getattr(values, name)
                yield _single(metric, value)
        if sources.tenure is not None:
            yield from _tenure(sources.tenure())
        if self._is_open:
            if sources.queue_size is not None:
                yield _single(declared.QUEUE_SIZE, sources.queue_size())
            yield _summaries(declared.QUEUE_TIME, [({}, self.queue_time_ms)])
        for state, sample in self.state_times_ms.items():
            yield _summaries(declared.STATE_TIMERS[state], [({}, sample)])
        yield _histograms(declared.EVENT_QUEUED, _labelled("event", self._queued))
        yield _histograms(declared.EVENT_HANDLED, _labelled("event", self._handled))
        yield _values(declared.FAULTS, _labelled("event", self._faults))
        yield _histograms(declared.DELETION_PHASES, _labelled("phase", self._phases))
        yield _values(declared.FACTS, [({"type": kind.value}, count) for kind, count in self._facts.items()])
        yield _summaries(declared.ZOOKEEPER_LATENCY_MS, [({}, self._zookeeper_ms)])
        yield _histograms(declared.ZOOKEEPER_LATENCY, _labelled("operation", self._zookeeper))
        if sources.session is not None:
            session = sources.session()
            yield _single(declared.ZOOKEEPER_CONNECTED, session.up)
            yield _single(declared.ZOOKEEPER_CONNECTS, session.opened)
            yield _single(declared.ZOOKEEPER_EXPIRES, session.lost)
            yield _single(declared.ZOOKEEPER_FAILED, session.failed_attempts)
        if sources.channels is not None:
            yield from _channels(list(sources.channels()))
        if sources.listener is not None:
            listener = sources.listener()
            yield _single(declared.LISTENER_CONNECTIONS, listener.connections)
            yield _single(declared.RELAY_CONNECTIONS, listener.relayed)
            yield _single(declared.RELAY_REQUESTS, listener.counts.requests)
            yield _single(declared.RELAY_BYTES_IN, listener.counts.bytes_in)
            yield _single(declared.RELAY_BYTES_OUT, listener.counts.bytes_out)
            yield _single(declared.RELAY_FAILURES, listener.counts.failures)
            yield _summaries(declared.REQUEST_TIME, _labelled("request", self._requests_ms))
            errors = self._request_errors.items()
            rows = [({"request": request, "error": error}, count) for (request, error), count in errors]
            yield _values(declared.REQUEST_ERRORS, rows)
        if sources.journal is not None:
            journal = sources.journal()
            yield _single(declared.JOURNAL_LINES, journal.written)
            yield _single(declared.JOURNAL_LOST, journal.lost)
            yield _single(declared.JOURNAL_FAILING, journal.failing)


class _Collector:
    """What prometheus_client asks at each scrape."""

    def __init__(self, families: Callable[[], Iterator[Family]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        return self._families()


# --- families -----------------------------------------------------------------------------------------------------


def _labelled(label: str, values: Mapping[str, V]) -> list[tuple[Labels, V]]:
    return [({label: key}, value) for key, value in values.items()]


def _family(metric: Metric) -> Family:
    # A counter under one of Kafka's names, which do not end in _total, has to be untyped: the text format adds that.
    kind = metric.kind.value
    if metric.kind is Kind.COUNTER and not metric.name.endswith("_total"):
        kind = "unknown"
    return Family(metric.name.removesuffix("_total"), metric.meaning, kind)


def _values(metric: Metric, rows: Iterable[tuple[Labels, float]]) -> Family:
    family = _family(metric)
    for labels, value in rows:
        family.add_sample(metric.name, dict(labels), float(value))
    return family


def _single(metric: Metric, value: float) -> Family:
    return _values(metric, [({}, value)])


def _summaries(metric: Metric, rows: Iterable[tuple[Labels, Sample]]) -> Family:
    family = _family(metric)
    for labels, sample in rows:
        for quantile, value in sample.quantiles():
            family.add_sample(metric.name, {**labels, "quantile": str(quantile)}, value)
        family.add_sample(f"{metric.name}_count", dict(labels), float(sample.count))
        family.add_sample(f"{metric.name}_sum", dict(labels), sample.total)
    return family


def _histograms(metric: Metric, rows: Iterable[tuple[Labels, Buckets]]) -> Family:
    family = _family(metric)
    for labels, buckets in rows:
        for bound, count in buckets.cumulative():
            family.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, count)
        family.add_sample(f"{metric.name}_count", dict(labels), float(buckets.count))
        family.add_sample(f"{metric.name}_sum", dict(labels), buckets.total)
    return family


def _tenure(tenure: Tenure) -> Iterator[Family]:
    yield _single(declared.CURRENT_CONTROLLER, tenure.active_controller)
    yield _single(declared.EPOCH, tenure.epoch)
    yield _values(declared.ROLE, [({"role": role}, role == tenure.role) for role in tenure.roles])
    yield _single(declared.UNCLEAN, tenure.unclean_elections)


def _channels(channels: list[ChannelView]) -> Iterator[Family]:
    by_broker = [({"broker_id": str(channel.broker)}, channel) for channel in channels]
    yield _single(declared.TOTAL_QUEUE_SIZE, sum(channel.counts.queue_size for channel in channels))
    yield _values(declared.CHANNEL_QUEUE_SIZE, [(labels, each.counts.queue_size) for labels, each in by_broker])
    yield _summaries(declared.CHANNEL_QUEUE_TIME, [(labels, each.counts.queue_time_ms) for labels, each in by_broker])
    yield _values(declared.CHANNEL_BACKLOG, [(labels, each.counts.backlog_bytes) for labels, each in by_broker])
    yield _values(declared.CHANNEL_OLDEST, [(labels, each.oldest_s) for labels, each in by_broker])
    yield _histograms(
        declared.CHANNEL_LATENCY,
        [({**labels, "api": api}, row) for labels, each in by_broker for api, row in each.counts.latency.items()],
    )
    yield _values(
        declared.CHANNEL_RETRIES,
        [({**labels, "reason": why}, row) for labels, each in by_broker for why, row in each.counts.retries.items()],
    )


def metrics_page() -> str:
    """The text of `docs/metrics.md`, made from the declarations."""
    return declared.page()
