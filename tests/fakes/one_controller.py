"""One controller core on the ZooKeeper model, performed at once: for scenarios that are read as stories.

Brokers are registered by hand and answer by a rule; nothing is delayed, lost or reordered, unless the test says so in
`refusals`, `losing` and `meanwhile`. What the controller sent and recorded is kept for the test to look at, and told as
a story. After every step the invariants must hold. The simulator has its own world, with all the trouble in it.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lethe.controller.core import controller, events
from lethe.controller.core.config import (
    DEFAULT_LIST_PAUSE_US,
    DEFAULT_OPERATIONS_PER_GROUP,
    DEFAULT_PARTITIONS_PER_SLICE,
    CoreConfig,
    Takeover,
)
from lethe.controller.core.context import Context
from lethe.controller.core.effects import (
    CloseChannel,
    CommitOffsets,
    DisconnectBrokers,
    Effect,
    HoldRequest,
    OpenChannel,
    ProbeBrokers,
    ReadCache,
    ReadOffsets,
    ReadZnodes,
    Record,
    RenewSession,
    Reply,
    Send,
    SetTimer,
    ShowBrokers,
    WriteZnodes,
)
from lethe.controller.core.events import (
    Answer,
    Event,
    LeaderAndIsrResponseReceived,
    LogDirsDescribed,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from lethe.controller.core.invariants import violations
from lethe.controller.core.scope import EVERYTHING, Scope
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.journal_schema import schema_problems
from lethe.protocol.kafka.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicError,
    TopicIdError,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirPartition,
    LogDirTopic,
)
from lethe.protocol.kafka.to_controller import AdminRequest, ControllerRequest, ControllerResponse
from lethe.protocol.kafka.versions import LATEST, InterBrokerProtocol
from lethe.protocol.listener_choice import ANY_PLAINTEXT, ListenerChoice
from lethe.protocol.security.authorizer import Client, Sender
from lethe.protocol.security.principals import ANONYMOUS
from lethe.protocol.vocabulary import (
    NO_EPOCH,
    Broker,
    BrokerEpoch,
    BrokerId,
    Endpoint,
    ReplicaAssignment,
    SecurityProtocol,
    TopicId,
)
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Check,
    Create,
    Data,
    Delete,
    GetData,
    MultiDone,
    MultiFailed,
    MultiOutcome,
    MultiUnknown,
    Operation,
    Read,
    ReadFailed,
    ReadOutcome,
    SetData,
    ZkError,
)
from lethe.protocol.zookeeper.packing import MultiPlan
from lethe.protocol.zookeeper.znodes import OfflineReplicas
from tests.fakes.consumer_groups import ConsumerGroups
from tests.fakes.kafka_cache import KafkaCache
from tests.fakes.story import in_short, told_event, told_reply, told_sends, told_write
from tests.fakes.zookeeper_model import ZooKeeperModel

CONTROLLER_ID = BrokerId(1000)
ENTROPY = bytes(range(32))
ANYONE = Sender(Client(ANONYMOUS, "127.0.0.1"))
"""A client of a cluster without an authorizer."""

AnswerRule = Callable[[Send], Answer | None]


def consent(send: Send) -> Answer:
    """The answer of a healthy broker: NONE for everything, by topic ids as from version 5 on."""
    broker, epoch, request_id, request = send
    match request:
        case LeaderAndIsrRequest():
            rows = tuple(
                TopicIdError(None, topic.topic_id, row.partition, 0)
                for topic in request.topics
                for row in topic.partitions
            )
            return LeaderAndIsrResponseReceived(broker, epoch, request_id, LeaderAndIsrResponse.of_rows(0, rows))
        case UpdateMetadataRequest():
            return UpdateMetadataResponseReceived(broker, epoch, request_id, UpdateMetadataResponse(0))
        case StopReplicaRequest():
            stopped = tuple(
                TopicError(topic.topic, row.partition, 0) for topic in request.topics for row in topic.partitions
            )
            return StopReplicaResponseReceived(broker, epoch, request_id, StopReplicaResponse.of_rows(0, stopped))
        case DescribeLogDirsRequest():
            here = tuple(
                LogDirTopic(topic.topic, tuple(LogDirPartition(number, 1, 0, False) for number in topic.partitions))
                for topic in request.topics or ()
            )
            healthy = (LogDir(0, "/a", here), LogDir(0, "/b", ()))
            return LogDirsDescribed(broker, epoch, request_id, DescribeLogDirsResponse(healthy))


def is_deletion(send: Send) -> bool:
    """The request has replicas deleted."""
    request = send.request
    return isinstance(request, StopReplicaRequest) and any(
        row.delete for topic in request.topics for row in topic.partitions
    )


@dataclass
class Refusing:
    """A rule that answers some broker's StopReplica(delete) with an error per partition."""

    broker: int
    error: int

    def __call__(self, send: Send) -> Answer:
        answer = consent(send)
        if send.broker == self.broker and isinstance(answer, StopReplicaResponseReceived):
            rows = tuple(row._replace(error=self.error) for row in answer.response.rows)
            return StopReplicaResponseReceived(*send[:3], StopReplicaResponse.of_rows(0, rows))
        return answer


class Loss(enum.Enum):
    """What becomes of a write whose reply is lost."""

    NOT_APPLIED = "not applied"
    APPLIED = "applied"


class OneController:
    """The core, its ZooKeeper, and whoever plays operator and brokers."""

    def __init__(
        self,
        *,
        ibp: InterBrokerProtocol = LATEST,
        delete_topic_enable: bool = True,
        auto_leader_rebalance_enable: bool = False,
        max_operations_per_group: int = DEFAULT_OPERATIONS_PER_GROUP,
        partitions_per_slice: int = DEFAULT_PARTITIONS_PER_SLICE,
        list_pause_us: int = DEFAULT_LIST_PAUSE_US,
        takeover: Takeover = Takeover.NEVER,
        endpoints: tuple[Endpoint, ...] = (),
        takeover_grace_ms: int = 0,
        scope: Scope = EVERYTHING,
        offline_replicas: OfflineReplicas = OfflineReplicas.WAIT,
        listener_choice: ListenerChoice = ANY_PLAINTEXT,
    ) -> None:
        self.now_ms = 1_000_000
        self.server_ahead_ms = 0
        """By how much ZooKeeper's clock is ahead of the controller's."""
        self.zookeeper = ZooKeeperModel(lambda: self.now_ms + self.server_ahead_ms)
        self.operator = self.zookeeper.open_session()
        self.context = Context(
            CoreConfig(
                CONTROLLER_ID,
                ibp,
                delete_topic_enable=delete_topic_enable,
                auto_leader_rebalance_enable=auto_leader_rebalance_enable,
                max_operations_per_group=max_operations_per_group,
                partitions_per_slice=partitions_per_slice,
                list_pause_us=list_pause_us,
                takeover=takeover,
                endpoints=endpoints,
                takeover_grace_ms=takeover_grace_ms,
                scope=scope,
                offline_replicas=offline_replicas,
                listener_choice=listener_choice,
            )
        )
        self.answer: AnswerRule = consent
        self.probe_answer: Callable[[Send], int | None] = lambda _: ErrorCode.STALE_CONTROLLER_EPOCH
        """What a broker answers to a probe; None: nothing."""
        self.refused_logins: dict[int, None] = {}
        """Brokers that do not let the controller log in when it probes them."""
        self.sent: list[Send] = []
        self.records: list[EventRecord] = []
        self.channels: dict[BrokerId, OpenChannel] = {}
        self.caches: dict[BrokerId, KafkaCache] = {}
        """What brokers show of what they have accepted, from the first UpdateMetadata on; it outlives controllers."""
        self.groups = ConsumerGroups()
        self.hidden: dict[str, None] = {}
        """Topics that brokers leave out of an answer about all topics."""
        self.hides_because: str | None = None
        """What a reader says of every cache, if its broker hides topics; None: none hides any."""
        self.renewals: list[str] = []
        self.replies: dict[int, list[ControllerResponse]] = {}
        """What requests of brokers and clients were answered, by key."""
        self.sessions: dict[int, int] = {}
        self.session = 0
        self.silent: dict[int, None] = {}
        """Brokers that take requests and never answer."""
        self.refusals: dict[str, ZkError] = {}
        """Paths at which ZooKeeper answers the controller with an error, whether it reads or writes."""
        self.read_only: dict[str, ZkError] = {}
        """Paths at which only its writes are answered with an error; a check is none."""
        self.losing: Callable[[WriteZnodes], Loss | None] = lambda _: None
        """Asked before each write of the controller: whether its reply gets lost."""
        self.meanwhile: Callable[[ReadZnodes | WriteZnodes], None] = lambda _: None
        """Called before each read and write of the controller: somebody else may be quicker."""
        self.held: list[Event] | None = None
        """Outcomes of writes in the background, where they are to come only with `release`."""
        self.story: list[str] = []
        """See `tests.fakes.story`."""
        self._events: deque[Event] = deque()
        self._results: deque[Event] = deque()
        """Of the reads, writes and probes that are outstanding, which come before all other events."""
        for path in paths.PERSISTENT_ROOTS:
            for each in (*paths.ancestors_of(path), path):
                self.zookeeper.multi(self.operator, [Create(each, None)])

    # --- the operator ------------------------------------------------------------------------------------------------

    def write(self, *operations: Operation) -> MultiDone:
        """A write by somebody else, which must succeed."""
        outcome = self.zookeeper.multi(self.operator, operations)
        assert isinstance(outcome, MultiDone), (operations, outcome)
        return outcome

    def read(self, path: str) -> Data | None:
        outcome = self.zookeeper.read(self.operator, GetData(path))
        return outcome if isinstance(outcome, Data) else None

    def start_broker(self, broker: int, *, rack: str | None = None, listeners: Sequence[str] = ()) -> BrokerEpoch:
        """Register a broker under a session of its own; its epoch. `listeners`: as NAME:PROTOCOL."""
        self.sessions[broker] = session = self.zookeeper.open_session()
        named = (each.split(":") for each in listeners or ("PLAINTEXT:PLAINTEXT",))
        endpoints = tuple(
            Endpoint(name, "127.0.0.1", 9092 + broker + 100 * n, SecurityProtocol[protocol])
            for n, (name, protocol) in enumerate(named)
        )
        znode = Broker(BrokerId(broker), BrokerEpoch(-1), endpoints, rack)
        path = paths.broker_id(broker)
        data = znodes.encode_broker(znode, timestamp_ms=self.now_ms)
        self.zookeeper.multi(session, [Create(path, None, ephemeral=True), SetData(path, data, 0)])
        found = self.read(path)
        assert found is not None
        return BrokerEpoch(found.stat.czxid)

    def stop_broker(self, broker: int) -> None:
        self.zookeeper.close_session(self.sessions.pop(broker))

    def create_topic(self, name: str, *partitions: Sequence[int], topic_id: TopicId | None = None) -> None:
        """One list of brokers for each partition."""
        assignments = {n: ReplicaAssignment(tuple(replicas)) for n, replicas in enumerate(partitions)}
        self.write(
            Create(paths.config_topic(name), znodes.encode_config({})),
            Create(paths.topic(name), znodes.encode_topic(znodes.TopicZnode(assignments, topic_id))),
        )

    def mark(self, name: str) -> None:
        self.write(Create(paths.delete_topic(name), None))

    def unmark(self, name: str) -> None:
        self.write(Delete(paths.delete_topic(name)))

    def exists(self, path: str) -> bool:
        return self.zookeeper.node(path) is not None

    # --- the controller ----------------------------------------------------------------------------------------------

    def open_session(self) -> None:
        self.session = self.zookeeper.open_session()
        self._events.append(events.SessionEstablished(self.session, ENTROPY))

    def feed(self, event: Event) -> None:
        """Queue an event; `run` handles it."""
        self._events.append(event)

    def release(self, count: int) -> None:
        """Let the oldest held outcomes come, and what follows from them."""
        assert self.held is not None
        for _ in range(count):
            self.feed(self.held.pop(0))
        self.run()

    def ask(self, request: ControllerRequest, version: int = 3, sender: Sender = ANYONE) -> ControllerResponse:
        """A request, worked on to the end; what it was answered."""
        key = self.request(request, version, sender)
        self.run()
        (response,) = self.replies[key]
        return response

    def request(
        self, request: ControllerRequest, version: int = 3, sender: Sender = ANYONE, client_id: str = ""
    ) -> int:
        """Queue a request of a broker, or of this client; its key. `run` handles it."""
        key = max(self.replies, default=0) + 1
        self.replies[key] = []
        if isinstance(request, AdminRequest):
            self.feed(events.ClientRequested(key, request, version, sender, client_id))
        else:
            self.feed(events.BrokerRequested(key, request, version))
        return key

    def run(self) -> None:
        """Everything that follows from what has happened, timers excepted."""
        for _ in range(10_000):
            self._collect_watches()
            if not self._results and not self._events:
                return
            event = (self._results or self._events).popleft()
            line = told_event(event)
            if line is not None:
                self.story.append(line)
            self._perform(controller.step(self.context, event, self.now_ms))
            if not self.context.awaiting_result:
                assert violations(self.context) == []
        raise AssertionError("the controller does not come to rest")

    def advance(self, ms: int) -> None:
        """Let time pass, and the timers that are due fire."""
        self.now_ms += ms
        for timer, at_ms in list(self.context.timers.items()):
            if at_ms <= self.now_ms:
                self._events.append(events.TimerFired(timer))
        self.run()

    def elect(self) -> None:
        """Open a session and become controller."""
        self.open_session()
        self.run()

    def crash(self) -> None:
        """The process dies: its memory is gone, its session expires, and what brokers asked of it is not answered."""
        self.zookeeper.close_session(self.session)
        self.zookeeper.take_fired()
        self._events.clear()
        self._results.clear()
        self.replies = {key: answers for key, answers in self.replies.items() if answers}
        self.context = Context(self.context.config)
        self.channels.clear()

    def _collect_watches(self) -> None:
        for session, fired in self.zookeeper.take_fired():
            event = events.from_watch(fired) if session == self.session else None
            if event is not None:
                self._events.append(event)

    def _perform(self, effects: list[Effect]) -> None:
        self.story.extend(told_sends(effect for effect in effects if isinstance(effect, Send)))
        for effect in effects:
            match effect:
                case ReadZnodes(id=effect_id, reads=reads):
                    self.meanwhile(effect)
                    outcomes = tuple(self._read(read) for read in reads)
                    self._collect_watches()
                    self._results.append(events.ZnodesRead(effect_id, outcomes))
                case WriteZnodes(in_background=in_background):
                    self.meanwhile(effect)
                    self.story.extend(told_write(effect))
                    written = self._write(effect)
                    self._collect_watches()
                    outside = self._events if self.held is None else self.held
                    (outside if in_background else self._results).append(written)
                case Send():
                    self._send(effect)
                case OpenChannel(broker=broker):
                    self.channels[broker] = effect
                case CloseChannel(broker=broker):
                    self.channels.pop(broker, None)
                case RenewSession(reason=reason):
                    self.renewals.append(reason)
                    self.zookeeper.close_session(self.session)
                    self.open_session()
                case ReadOffsets():
                    self._events.append(self.groups.read(effect))
                case CommitOffsets():
                    self._events.append(self.groups.take(effect))
                case ReadCache():
                    self._events.append(self._cache_read(effect))
                case Reply(key=key, response=response):
                    self.story.append(told_reply(effect))
                    self.replies.setdefault(key, []).append(response)
                case Record(record=record):
                    assert schema_problems(record) == (), record
                    self.records.append(record)
                case ProbeBrokers(id=effect_id, request=request, targets=targets):
                    probes = tuple(self._probed(Send(each.broker, NO_EPOCH, 0, request)) for each in targets)
                    self._results.append(events.ProbesCompleted(effect_id, probes))
                case SetTimer() | DisconnectBrokers() | ShowBrokers() | HoldRequest():
                    pass

    def _probed(self, send: Send) -> events.ProbeOutcome:
        if send.broker in self.refused_logins:
            return events.ProbeOutcome(send.broker, None, "it refuses user lethe", has_no_access=True)
        answer = None if send.broker in self.silent else self.probe_answer(send)
        return events.ProbeOutcome(send.broker, answer, None if answer is not None else "no answer in time")

    def _read(self, read: Read) -> ReadOutcome:
        refusal = self.refusals.get(read.path)
        return self.zookeeper.read(self.session, read) if refusal is None else ReadFailed(refusal)

    def _write(self, effect: WriteZnodes) -> events.ZnodesWritten:
        loss = self.losing(effect)
        plan = MultiPlan(effect.groups, effect.fence)
        while (multi := plan.next_multi()) is not None:
            outcome = self._multi(multi.operations) if loss is not Loss.NOT_APPLIED else None
            plan.settle(multi, MultiUnknown("the connection was lost") if loss or outcome is None else outcome)
        return events.ZnodesWritten(effect.id, plan.outcomes, plan.controller_moved)

    def _multi(self, operations: Sequence[Operation]) -> MultiOutcome:
        for index, operation in enumerate(operations):
            refused = {**self.refusals, **({} if isinstance(operation, Check) else self.read_only)}
            if operation.path in refused:
                return MultiFailed(index, refused[operation.path])
        return self.zookeeper.multi(self.session, operations)

    def _send(self, send: Send) -> None:
        self.sent.append(send)
        channel = self.channels.get(send.broker)
        assert channel is not None, f"there is no channel to broker {send.broker}"
        assert channel.broker_epoch == send.broker_epoch
        if send.broker in self.silent:
            return
        answer = self.answer(send)
        if answer is not None:
            self._events.append(answer)
            if isinstance(send.request, UpdateMetadataRequest) and answer.response.error == 0:
                self.cache(send.broker).apply(send.request)
                self.groups.apply(send.request)

    def cache(self, broker: int) -> KafkaCache:
        """The broker's metadata cache."""
        return self.caches.setdefault(BrokerId(broker), KafkaCache())

    def _cache_read(self, effect: ReadCache) -> events.CacheRead:
        if effect.broker in self.silent:
            return events.CacheRead(effect.id, effect.broker, None, "it gave no answer")
        shown = self.cache(effect.broker).shown(effect.topics)
        if effect.topics is None:
            shown = {name: each for name, each in shown.items() if name not in self.hidden}
        return events.CacheRead(effect.id, effect.broker, shown, None if effect.topics else self.hides_because)

    # --- looking -----------------------------------------------------------------------------------------------------

    def take_sent(self) -> list[Send]:
        """What was sent since the last call."""
        sent, self.sent = self.sent, []
        return sent

    def take_story(self) -> str:
        """What happened since the last call, a line for each event from outside, write and request."""
        story, self.story = self.story, []
        return in_short(story)

    def recorded(self, record_type: EventRecordType) -> list[EventRecord]:
        return [record for record in self.records if record.type is record_type]
