"""One step in progress: the context it works on, the time it was given, the effects it has collected.

Subject modules get a `Turn` and nothing else. `do` puts tasks in front of the agenda, in the order given; `read` and
`write` end the step until the result is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lethe.controller.core.agenda import Task
from lethe.controller.core.agenda_power import BrokersProbed
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
from lethe.protocol.journal import Fact, FactType, JsonValue, partition_ranges
from lethe.protocol.kafka.control import StopReplicaRequest
from lethe.protocol.kafka.queries import ChannelRequest, api_of_sent
from lethe.protocol.kafka.to_controller import ControllerResponse
from lethe.protocol.vocabulary import BrokerId, TopicPartition, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Check, Operation, Read


class Turn:
    """The working set of one call of `controller.step`; thrown away afterwards."""

    __slots__ = ("context", "effects", "now_ms")

    def __init__(self, context: Context, now_ms: int) -> None:
        self.context = context
        self.now_ms = now_ms
        self.effects: list[Effect] = []

    # --- course ----------------------------------------------------------------------------------------------------

    def do(self, *tasks: Task) -> None:
        """These are next, before what is on the agenda already."""
        self.context.agenda.extendleft(reversed(tasks))

    def read(self, reads: Iterable[Read], then: ReadContinuation) -> None:
        """Ask ZooKeeper; the outcomes go to `then`."""
        effect_id = self.next_effect_id()
        self.effects.append(ReadZnodes(effect_id, tuple(reads)))
        self.context.awaited = AwaitedRead(effect_id, then)

    def write(self, groups: Sequence[tuple[Operation, ...]], then: WriteContinuation, *, fenced: bool = True) -> None:
        """Write to ZooKeeper, each group atomically; the outcomes go to `then`. Writes that check the version of
        `/controller_epoch` themselves, such as an election, are not fenced."""
        effect_id = self.next_effect_id()
        fence = Check(paths.controller_epoch(), self.context.cluster.epoch_version) if fenced else None
        self.effects.append(WriteZnodes(effect_id, tuple(groups), fence))
        self.context.awaited = AwaitedWrite(effect_id, then)

    def probe(self, request: StopReplicaRequest, targets: Iterable[ProbeTarget], then: BrokersProbed) -> None:
        """Ask brokers whether they take requests of this controller; the outcomes go to `then`."""
        effect_id = self.next_effect_id()
        self.effects.append(ProbeBrokers(effect_id, request, tuple(targets)))
        self.context.awaited = AwaitedProbes(effect_id, then)

    def next_effect_id(self) -> int:
        """Return a new id, by which the effect's result is matched to it."""
        self.context.last_effect_id += 1
        return self.context.last_effect_id

    # --- effects ---------------------------------------------------------------------------------------------------

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def batch(self) -> RequestBatch:
        """An empty batch of requests to brokers; nothing leaves before `flush`."""
        return RequestBatch(self.context)

    def flush(self, batch: RequestBatch) -> None:
        """Send what the batch has collected: LeaderAndIsr, then UpdateMetadata, then StopReplica."""
        for broker, request in batch.requests():
            self.send(broker, request)

    def send(self, broker: BrokerId, request: ChannelRequest) -> int:
        """Queue a request for a registered broker behind all that was queued for it before; its id."""
        context = self.context
        context.last_request_id += 1
        epoch = context.cluster.brokers[broker].epoch
        note_sent(context.cluster, context.last_request_id, Outstanding(broker, epoch, request, self.now_ms))
        self.effects.append(Send(broker, epoch, context.last_request_id, request))
        self.watch_power()
        self.record(
            FactType.REQUEST,
            f"broker/{broker}",
            api=api_of_sent(request).name,
            broker_epoch=epoch,
            request_id=context.last_request_id,
            topics=len(request.topics or ()),
            partitions=sum(len(topic.partitions) for topic in request.topics or ()),
        )
        return context.last_request_id

    def reply(self, key: int, response: ControllerResponse) -> None:
        """Answer a broker's request. Raises KeyError where it has been answered already."""
        del self.context.cluster.unanswered[key]
        self.effects.append(Reply(key, response))

    def set_timer(self, timer: Timer, at_ms: int) -> None:
        self.context.timers[timer] = at_ms
        self.effects.append(SetTimer(timer, at_ms))

    def watch_power(self) -> None:
        """Have it looked at in time whether brokers obey."""
        if CheckPower() not in self.context.timers:
            self.set_timer(CheckPower(), self.now_ms + self.context.config.powerless_after_ms)

    def record(self, fact_type: FactType, subject: str, **data: JsonValue) -> None:
        """State a fact about this controller's work."""
        self.effects.append(Record(Fact(fact_type, subject, data)))

    def id_of(self, topic: str) -> str | None:
        """The id of the topic as facts have it; None where it has none, or is not known any more."""
        known = self.context.cluster.topics.get(topic)
        return None if known is None or known.id is None else topic_id_to_text(known.id)

    def refuse(self, subject: str, what: str, why: str, **data: JsonValue) -> None:
        """State that something asked for was not done, for one subject, while the rest goes on."""
        self.record(FactType.REFUSAL, subject, what=what, why=why, **data)

    def refuse_partitions(self, refused: Iterable[TopicPartition], what: str, why: str) -> None:
        """As `refuse`, in a line for each topic: a broker's failure can concern many thousands of partitions."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in refused:
            by_topic.setdefault(topic, []).append(partition)
        for topic, partitions in by_topic.items():
            self.refuse(f"topic/{topic}", what, why, partitions=partition_ranges(partitions))
