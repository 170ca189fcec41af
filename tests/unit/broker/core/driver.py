"""Drives the agent's core against a disk that is a dictionary, the way the runtime does."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from lethe.broker.core.agent import step
from lethe.broker.core.effects import (
    AskControllerEpoch,
    AskTopicIds,
    AssignTopicId,
    CreateReplica,
    DiskOperation,
    Effect,
    FillReplica,
    PerformDisk,
    ProposeIsr,
    QuarantineDirectory,
    Record,
    RemoveDirectories,
    RenameForDeletion,
    Reply,
    SettleDebts,
)
from lethe.broker.core.inputs import (
    BrokerRegistered,
    ControllerEpochAnswer,
    ControllerEpochReceived,
    ControlReceived,
    DirectoriesRemoved,
    DiskOutcome,
    DiskPerformed,
    FoundDebt,
    FoundDirectory,
    FoundLogDir,
    FoundReplica,
    Input,
    InventoryLoaded,
    IsrProposed,
    RemovalOutcome,
    TimerFired,
    TopicAbsence,
    TopicIdAnswer,
    TopicIdsReceived,
)
from lethe.broker.core.state import AgentState, Settings
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.kafka.control import (
    Addressed,
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from lethe.protocol.kafka.directory_names import DirectoryKind, parse_directory_name
from lethe.protocol.vocabulary import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    TopicId,
)

ME = BrokerId(1)
EPOCH = BrokerEpoch(100)
DELAY_MS = 60_000
A, B = "/a", "/b"
X = TopicId(UUID(int=0xA1))
Y = TopicId(UUID(int=0xB2))


@dataclass
class Entry:
    """A directory: whose it is and what it holds."""

    topic_id: TopicId | None
    size_bytes: int
    files: int
    id_readable: bool = True
    segment_bytes: int = 0


@dataclass
class FakeDisk:
    """Log directories with their entries. `failures` maps a log directory to the error that all its operations meet."""

    log_dirs: dict[str, dict[str, Entry]] = field(default_factory=lambda: {A: {}, B: {}})
    failures: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    """Directory name → error of an operation on it that leaves the log directory usable."""
    performed: list[DiskOperation] = field(default_factory=list)

    def inventory(self) -> InventoryLoaded:
        return InventoryLoaded(tuple(self._found(log_dir) for log_dir in self.log_dirs))

    def perform(self, operation: DiskOperation) -> DiskOutcome:
        if error := self.failures.get(operation.log_dir):
            return DiskOutcome(error, log_dir_failed=True)
        name = str(operation.topic_partition)
        if error := self.refusals.get(name):
            return DiskOutcome(error)
        entries = self.log_dirs[operation.log_dir]
        self.performed.append(operation)
        match operation:
            case CreateReplica(_, _, topic_id):
                assert name not in entries or entries[name].files == 0
                entries[name] = Entry(topic_id, 0, 0)
            case FillReplica(_, _, topic_id):
                entry = entries[name]
                assert (entry.topic_id, entry.files) == (topic_id, 0)
                entry.size_bytes, entry.files, entry.segment_bytes = 4096, 4, 4000
                return DiskOutcome(size_bytes=4096, files=4, segment_bytes=4000)
            case AssignTopicId(_, _, topic_id):
                assert entries[name].topic_id is None
                entries[name].topic_id = topic_id
            case RenameForDeletion(_, _, topic_id, new_name):
                assert entries[name].topic_id == topic_id
                entries[new_name] = entries.pop(name)
            case QuarantineDirectory(_, _, new_name):
                entries[new_name] = entries.pop(name)
        return DiskOutcome()

    def _found(self, log_dir: str) -> FoundLogDir:
        if error := self.failures.get(log_dir):
            return FoundLogDir(log_dir, error)
        deleted: list[FoundDirectory] = []
        stray: list[FoundDirectory] = []
        unknown: list[FoundDirectory] = []
        lists = {DirectoryKind.DELETED: deleted, DirectoryKind.STRAY: stray}
        replicas: list[FoundReplica] = []
        for name, entry in sorted(self.log_dirs[log_dir].items()):
            parsed = parse_directory_name(name)
            if parsed.kind is DirectoryKind.REPLICA and parsed.topic_partition is not None:
                held = (entry.size_bytes, entry.files, entry.segment_bytes)
                replicas.append(FoundReplica(parsed.topic_partition, *_identity(entry), *held))
            else:
                lists.get(parsed.kind, unknown).append(
                    FoundDirectory(name, entry.size_bytes, entry.files, entry.topic_id)
                )
        return FoundLogDir(log_dir, None, tuple(replicas), tuple(deleted), tuple(stray), tuple(unknown))


def _identity(entry: Entry) -> tuple[TopicId | None, bool]:
    return entry.topic_id, entry.id_readable


class Driver:
    """One run of an agent. `performing` False leaves effects to the test."""

    def __init__(
        self,
        disk: FakeDisk | None = None,
        *,
        topic_ids: dict[str, TopicIdAnswer] | None = None,
        seed: str = "run-1",
        epoch: BrokerEpoch = EPOCH,
    ) -> None:
        self.disk = disk or FakeDisk()
        self.topic_ids: dict[str, TopicIdAnswer] = topic_ids or {}
        self.state = AgentState(Settings(ME, DELAY_MS, seed))
        self.now_ms = 0
        self.effects: list[Effect] = []
        self.replies: dict[int, Reply] = {}
        self.asked: list[tuple[str, ...]] = []
        self.controller_epoch: ControllerEpochAnswer | None = ControllerEpoch(5)
        """What ZooKeeper says; None leaves the question in flight."""
        self.controller: BrokerId | None = BrokerId(9)
        """Whose epoch it is."""
        self.epochs_asked = 0
        self.settled: list[tuple[FoundDebt, ...]] = []
        self.tokens = itertools.count(1)
        self.before_disk: Callable[[int], None] = lambda _: None
        self.answer_isr: Callable[[ProposeIsr], IsrProposed | None] = lambda _: None
        """What becomes of a proposal; None leaves it in flight."""
        self.feed(self.disk.inventory())
        self.feed(BrokerRegistered(epoch))

    def feed(self, happened: Input) -> None:
        """Step, and perform what comes out, until nothing is outstanding but timers."""
        inputs: deque[Input] = deque([happened])
        while inputs:
            for effect in step(self.state, inputs.popleft(), self.now_ms):
                self.effects.append(effect)
                if (result := self.perform(effect)) is not None:
                    inputs.append(result)

    def perform(self, effect: Effect) -> Input | None:
        match effect:
            case PerformDisk(operations):
                outcomes = []
                for index, operation in enumerate(operations):
                    self.before_disk(index)
                    outcomes.append(self.disk.perform(operation))
                return DiskPerformed(tuple(outcomes))
            case AskControllerEpoch():
                self.epochs_asked += 1
                answer = self.controller_epoch
                return None if answer is None else ControllerEpochReceived(answer, self.controller)
            case AskTopicIds(topics):
                self.asked.append(topics)
                return TopicIdsReceived(tuple(self.topic_ids.get(topic, TopicAbsence.NO_TOPIC) for topic in topics))
            case RemoveDirectories(directories):
                outcomes_of_removal = []
                for directory in directories:
                    entry = self.disk.log_dirs[directory.log_dir].pop(directory.name, Entry(None, 0, 0))
                    outcomes_of_removal.append(RemovalOutcome(None, entry.size_bytes, entry.files))
                return DirectoriesRemoved(tuple(outcomes_of_removal))
            case SettleDebts(debts):
                self.settled.append(debts)
            case ProposeIsr():
                return self.answer_isr(effect)
            case Reply(token):
                assert token not in self.replies, "a token is answered once"
                self.replies[token] = effect
            case _:
                pass
        return None

    def records(self, kind: EventRecordType) -> list[EventRecord]:
        """What was recorded of that kind."""
        return [effect.record for effect in self.effects if isinstance(effect, Record) and effect.record.type is kind]

    def advance(self, by_ms: int) -> None:
        """Let time pass and the timer fire."""
        self.now_ms += by_ms
        if self.state.timer_ms is not None and self.state.timer_ms <= self.now_ms:
            self.feed(TimerFired())

    def send_as_elected(self, request: ControlRequest, broker_epoch: int = EPOCH) -> int:
        """As `send`; ZooKeeper names the request's epoch, unless a later one was obeyed."""
        epoch = max(self.state.controller_epoch, request.controller_epoch)
        self.controller_epoch, self.controller = ControllerEpoch(epoch), request.controller_id
        return self.send(request, broker_epoch)

    def send(self, request: ControlRequest, broker_epoch: int = EPOCH) -> int:
        token = next(self.tokens)
        self.feed(ControlReceived(token, Addressed(request, BrokerEpoch(broker_epoch))))
        return token

    def leader_and_isr(self, request: LeaderAndIsrRequest, broker_epoch: int = EPOCH) -> LeaderAndIsrResponse:
        response = self.replies[self.send(request, broker_epoch)].response
        assert isinstance(response, LeaderAndIsrResponse)
        return response

    def stop(self, request: StopReplicaRequest, broker_epoch: int = EPOCH) -> StopReplicaResponse:
        response = self.replies[self.send(request, broker_epoch)].response
        assert isinstance(response, StopReplicaResponse)
        return response

    def update(self, request: UpdateMetadataRequest, broker_epoch: int = EPOCH) -> UpdateMetadataResponse:
        response = self.replies[self.send(request, broker_epoch)].response
        assert isinstance(response, UpdateMetadataResponse)
        return response


def become(
    topic: str = "t",
    topic_id: TopicId | None = X,
    *,
    partitions: tuple[int, ...] = (0,),
    leader: int = ME,
    leader_epoch: int = 0,
    isr: tuple[int, ...] = (ME,),
    replicas: tuple[int, ...] = (ME,),
    partition_epoch: int = 0,
    is_new: bool = False,
    controller_epoch: int = 5,
) -> LeaderAndIsrRequest:
    """A LeaderAndIsr for partitions of one topic."""
    states = tuple(
        LeaderAndIsrPartition(p, controller_epoch, leader, leader_epoch, isr, partition_epoch, replicas, is_new=is_new)
        for p in partitions
    )
    return LeaderAndIsrRequest(
        BrokerId(9), ControllerEpoch(controller_epoch), (LeaderAndIsrTopic(topic, topic_id, states),), ()
    )


def stop(
    topic: str = "t",
    *,
    partitions: tuple[int, ...] = (0,),
    leader_epoch: int = EPOCH_DURING_DELETE,
    delete: bool = True,
    controller_epoch: int = 5,
) -> StopReplicaRequest:
    """A StopReplica for partitions of one topic."""
    states = tuple(StopReplicaPartition(p, leader_epoch, delete) for p in partitions)
    return StopReplicaRequest(BrokerId(9), ControllerEpoch(controller_epoch), (StopReplicaTopic(topic, states),))


def metadata(
    topic: str = "t",
    topic_id: TopicId | None = X,
    *,
    partitions: tuple[int, ...] = (0,),
    leader: int = ME,
    controller_epoch: int = 5,
    brokers: tuple[Broker, ...] = (),
    offline: tuple[int, ...] = (),
    replicas: tuple[int, ...] = (ME,),
) -> UpdateMetadataRequest:
    """An UpdateMetadata for partitions of one topic; all `replicas` are in sync."""
    states = tuple(
        UpdateMetadataPartition(p, controller_epoch, leader, 0, replicas, 0, replicas, offline) for p in partitions
    )
    return UpdateMetadataRequest(
        BrokerId(9), ControllerEpoch(controller_epoch), (UpdateMetadataTopic(topic, topic_id, states),), brokers
    )


def tombstone(topic: str = "t", topic_id: TopicId | None = X, **more: object) -> UpdateMetadataRequest:
    """The UpdateMetadata that makes brokers drop the partitions."""
    return metadata(topic, topic_id, leader=LEADER_DURING_DELETE, **more)  # type: ignore[arg-type]


def live(*ids: int) -> tuple[Broker, ...]:
    """Brokers as an UpdateMetadata lists them."""
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9)
    return tuple(Broker(BrokerId(each), BrokerEpoch(-1), (endpoint,)) for each in ids)
