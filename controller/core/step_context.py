"""One step in progress: its context, its time and the effects collected so far.

Modules that handle events and tasks receive a `StepContext`. `do` pushes tasks onto the task stack; the first of them
runs next. `read`, `write` and `probe` suspend the task stack until the result is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lethe.controller.core import client_records
from lethe.controller.core.batching import RequestBatch
from lethe.controller.core.cluster_state import Outstanding
from lethe.controller.core.context import Context
from lethe.controller.core.continuations import (
    AwaitedProbes,
    AwaitedRead,
    AwaitedWrite,
    ReadContinuation,
    WriteContinuation,
)
from lethe.controller.core.effects import (
    CheckPower,
    Effect,
    ProbeBrokers,
    ProbeTarget,
    ReadZnodes,
    Record,
    Reply,
    Send,
    SetTimer,
    Timer,
    WriteZnodes,
)
from lethe.controller.core.mutation import note_sent
from lethe.controller.core.tasks import Task
from lethe.controller.core.tasks_power import BrokersProbed
from lethe.protocol.journal import EventRecord, EventRecordType, JsonValue, partition_ranges
from lethe.protocol.kafka.admin import TopicResponse, throttled
from lethe.protocol.kafka.control import StopReplicaRequest
from lethe.protocol.kafka.queries import ChannelRequest, api_of_sent
from lethe.protocol.kafka.to_controller import AdminRequest, ControllerResponse
from lethe.protocol.vocabulary import BrokerId, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Check, Operation, Read


class StepContext:
    """The working data of one call of `controller.step`."""

    __slots__ = ("context", "effects", "now_ms")

    def __init__(self, context: Context, now_ms: int) -> None:
        self.context = context
        self.now_ms = now_ms
        self.effects: list[Effect] = []

    # --- course ----------------------------------------------------------------------------------------------------

    def do(self, *tasks: Task) -> None:
        """Push these tasks; the first one runs next."""
        self.context.tasks.extendleft(reversed(tasks))

    def read(self, reads: Iterable[Read], then: ReadContinuation) -> None:
        """Read from ZooKeeper; the outcomes go to `then`."""
        effect_id = self.next_effect_id()
        self.effects.append(ReadZnodes(effect_id, tuple(reads)))
        self.context.awaited += (AwaitedRead(effect_id, then),)

    def write(self, groups: Sequence[tuple[Operation, ...]], then: WriteContinuation, *, fenced: bool = True) -> None:
        """Write to ZooKeeper, each group atomically; the outcomes go to `then`.

        A fenced write fails when `/controller_epoch` has changed. Elections check its version themselves."""
        effect_id = self.next_effect_id()
        self.effects.append(WriteZnodes(effect_id, tuple(groups), self._fence() if fenced else None))
        self.context.awaited += (AwaitedWrite(effect_id, then),)

    def write_in_background(self, groups: Sequence[tuple[Operation, ...]], then: WriteContinuation) -> None:
        """As `write`, fenced, but other tasks and events go on before the outcomes come."""
        effect_id = self.next_effect_id()
        self.effects.append(WriteZnodes(effect_id, tuple(groups), self._fence(), in_background=True))
        self.context.cluster.background[effect_id] = then

    def _fence(self) -> Check:
        return Check(paths.controller_epoch(), self.context.cluster.epoch_version)

    def probe(self, request: StopReplicaRequest, targets: Iterable[ProbeTarget], then: BrokersProbed) -> None:
        """Probe whether brokers accept requests of this controller; the outcomes go to `then`."""
        effect_id = self.next_effect_id()
        self.effects.append(ProbeBrokers(effect_id, request, tuple(targets)))
        self.context.awaited += (AwaitedProbes(effect_id, then),)

    def next_effect_id(self) -> int:
        """Return a new id, which the effect's result will carry."""
        self.context.last_effect_id += 1
        return self.context.last_effect_id

    # --- effects ---------------------------------------------------------------------------------------------------

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def batch(self) -> RequestBatch:
        """Return an empty batch of requests to brokers; `flush` sends it."""
        return RequestBatch(self.context)

    def flush(self, batch: RequestBatch) -> None:
        """Send the requests of the batch: LeaderAndIsr, then UpdateMetadata, then StopReplica."""
        # Brokers share requests, so each is counted once.
        last: ChannelRequest | None = None
        counts = (0, 0)
        for broker, request in batch.requests():
            if request is not last:
                last, counts = request, _count(request)
            self.send(broker, request, counts)

    def send(
        self,
        broker: BrokerId,
        request: ChannelRequest,
        counts: tuple[int, int] | None = None,
        *,
        confirms: bool = True,
    ) -> int:
        """Queue a request for a registered broker, behind its earlier requests; return its id.

        `counts`: the request's topics and partitions, if the caller has counted them. `confirms`: its answer tells of
        the replicas of topics in memory; False for a LeaderAndIsr about topics that are gone."""
        context = self.context
        topics, partitions = counts or _count(request)
        context.last_request_id += 1
        epoch = context.cluster.brokers[broker].epoch
        outstanding = Outstanding(broker, epoch, request, self.now_ms)
        note_sent(context.cluster, context.last_request_id, outstanding, confirms=confirms)
        self.effects.append(Send(broker, epoch, context.last_request_id, request))
        self.watch_power()
        self.record(
            EventRecordType.REQUEST,
            f"broker/{broker}",
            api=api_of_sent(request).name,
            broker_epoch=epoch,
            request_id=context.last_request_id,
            topics=topics,
            partitions=partitions,
        )
        return context.last_request_id

    def reply(self, key: int, response: ControllerResponse) -> None:
        """Answer a request of a broker or a client, and tell how long its client is throttled. Raises KeyError if it
        was answered already."""
        answered = self.context.cluster.unanswered.pop(key)
        if isinstance(response, TopicResponse):
            response = throttled(response, max(0, answered.throttled_until_ms - self.now_ms))
        self.context.cluster.client_waits.pop(key, None)
        self.effects.append(Reply(key, response))
        if answered.sender is not None and isinstance(answered.request, AdminRequest):
            record = client_records.record_of(answered.request, answered.sender, response)
            if record is not None:
                self.effects.append(Record(record))

    def set_timer(self, timer: Timer, at_ms: int) -> None:
        self.context.timers[timer] = at_ms
        self.effects.append(SetTimer(timer, at_ms))

    def watch_power(self) -> None:
        """Set the timer that checks whether brokers obey, unless it is set."""
        if CheckPower() not in self.context.timers:
            self.set_timer(CheckPower(), self.now_ms + self.context.config.powerless_after_ms)

    def record(self, record_type: EventRecordType, subject: str, **data: JsonValue) -> None:
        """Record an event of this controller's work."""
        self.effects.append(Record(EventRecord(record_type, subject, data)))

    def id_of(self, topic: str) -> str | None:
        """Return the topic's id as text, for event records; None if it has none, or is not in memory any more."""
        known = self.context.cluster.topics.get(topic)
        return None if known is None or known.id is None else topic_id_to_text(known.id)

    def refuse(self, subject: str, what: str, why: str, **data: JsonValue) -> None:
        """Record that a request was not carried out for one subject."""
        self.record(EventRecordType.REFUSAL, subject, what=what, why=why, **data)

    def refuse_partitions(self, refused: Mapping[str, Iterable[int]], what: str, why: str) -> None:
        """As `refuse`, with one event record for each topic: a broker's failure can concern many thousands of
        partitions."""
        for topic, partitions in refused.items():
            self.refuse(f"topic/{topic}", what, why, partitions=partition_ranges(partitions))


def _count(request: ChannelRequest) -> tuple[int, int]:
    """Return how many topics and partitions the request has."""
    topics = request.topics or ()
    return len(topics), sum(len(topic.partitions) for topic in topics)
