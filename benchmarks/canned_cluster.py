"""One core with a cluster of canned results: ZooKeeper and brokers answer at once, outside of the measured time.

Each result is made when the core has asked for it, and dropped when it was handled, so that memory is the core's. An
observer sees every effect, outside of the measured time too.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from lethe.controller.core import controller, events
from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context
from lethe.controller.core.effects import Effect, ProbeBrokers, ReadZnodes, Send, WriteZnodes
from lethe.controller.core.events import Event
from lethe.protocol.kafka.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicError,
    TopicIdError,
    UpdateMetadataResponse,
)
from lethe.protocol.kafka.queries import DescribeLogDirsRequest, DescribeLogDirsResponse, LogDir
from lethe.protocol.kafka.versions import LATEST
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicId,
)
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Exists,
    Present,
    Read,
    ReadFailed,
    ReadOutcome,
    SetData,
    Stat,
    ZkError,
)
from lethe.protocol.zookeeper.packing import GroupDone

PARTITIONS_PER_TOPIC = 50
BROKERS = 3
REPLICATION_FACTOR = 3
_APPLIED = Stat(1, 1, 0, 0)


class CannedZooKeeper:
    """Answers from a prepared dict; every write succeeds."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.children: dict[str, tuple[str, ...]] = {}

    def read(self, read: Read) -> ReadOutcome:
        path = read.path
        if path in self.children:
            return Children(self.children[path])
        data = self.data.get(path)
        if data is None:
            return ReadFailed(ZkError.NO_NODE)
        return Present(_APPLIED) if isinstance(read, Exists) else Data(data, _APPLIED)

    @staticmethod
    def write(effect: WriteZnodes) -> events.ZnodesWritten:
        outcomes = tuple(
            GroupDone(tuple(Stat(1, 1, op.version + 1, 0) if isinstance(op, SetData) else None for op in group))
            for group in effect.groups
        )
        return events.ZnodesWritten(effect.id, outcomes)


class CannedCluster:
    """One core. Brokers answer requests in the order in which they were sent, each after all reads and writes."""

    def __init__(
        self,
        partitions: int,
        brokers: int = BROKERS,
        *,
        partitions_per_topic: int = PARTITIONS_PER_TOPIC,
        answering: bool = True,
        observe: Callable[[Effect], object] = id,
    ) -> None:
        self.context = Context(CoreConfig(BrokerId(1000), LATEST))
        self.zookeeper = CannedZooKeeper()
        self.answering = answering
        self.observe = observe
        self.step = controller.step
        self.partitions_per_topic = partitions_per_topic
        self.topics = [f"topic-{n:05d}" for n in range(max(1, partitions // partitions_per_topic))]
        self.core_s = 0.0
        self.steps = 0
        self.effects = 0
        self._events: deque[Event | Send | ReadZnodes | WriteZnodes] = deque()
        self.brokers = range(1, brokers + 1)
        for broker in self.brokers:
            znode = Broker(BrokerId(broker), BrokerEpoch(-1), (Endpoint("PLAINTEXT", "127.0.0.1", 9092),))
            self.zookeeper.data[paths.broker_id(broker)] = znodes.encode_broker(znode, timestamp_ms=0)
        self.zookeeper.children[paths.broker_ids()] = tuple(map(str, self.brokers))
        self.zookeeper.data[paths.controller_epoch()] = b"1"
        self.zookeeper.children[paths.broker_topics()] = ()
        self.zookeeper.children[paths.delete_topics()] = ()

    def put_topics(self, *, with_states: bool) -> None:
        """Add the topics' znodes and the states of their partitions."""
        for n, name in enumerate(self.topics):
            numbers = range(self.partitions_per_topic)
            assignments = {p: self._assignment(n * self.partitions_per_topic + p) for p in numbers}
            topic_id = TopicId(uuid.UUID(int=(n + 1) << 64))
            self.zookeeper.data[paths.topic(name)] = znodes.encode_topic(znodes.TopicZnode(assignments, topic_id))
            if with_states:
                for p, assignment in assignments.items():
                    state = LeaderAndIsr(assignment.replicas[0], 0, assignment.replicas, ControllerEpoch(1))
                    self.zookeeper.data[paths.partition_state(name, p)] = znodes.encode_state(state)
        self.zookeeper.children[paths.broker_topics()] = tuple(self.topics)

    def _assignment(self, number: int) -> ReplicaAssignment:
        """The replicas of the partition with this number among all: on neighbours, each broker in turn the first."""
        return ReplicaAssignment(
            tuple(self.brokers[(number + r) % len(self.brokers)] for r in range(REPLICATION_FACTOR))
        )

    def mark_topics(self, names: Iterable[str] | None = None) -> None:
        """Mark these topics, or all."""
        marked = tuple(self.topics if names is None else names)
        self.zookeeper.data |= {paths.delete_topic(name): b"" for name in marked}
        self.zookeeper.children[paths.delete_topics()] = marked

    def stop_broker(self, broker: int) -> None:
        """Remove the broker's registration."""
        del self.zookeeper.data[paths.broker_id(broker)]
        left = (name for name in self.zookeeper.children[paths.broker_ids()] if name != str(broker))
        self.zookeeper.children[paths.broker_ids()] = tuple(left)

    def run(self, event: Event) -> None:
        """Run the event and everything that follows from it, including answers."""
        self._events.append(event)
        while self._events:
            following = self._event(self._events.popleft())
            started_s = time.thread_time()
            effects = self.step(self.context, following, self.steps)
            self.core_s += time.thread_time() - started_s
            self.steps += 1
            self.effects += len(effects)
            self._perform(effects)

    def _event(self, waiting: Event | Send | ReadZnodes | WriteZnodes) -> Event:
        """Make the result or answer that the core gets now."""
        if isinstance(waiting, ReadZnodes):
            return events.ZnodesRead(waiting.id, tuple(map(self.zookeeper.read, waiting.reads)))
        if isinstance(waiting, WriteZnodes):
            return self.zookeeper.write(waiting)
        return _answer(waiting) if isinstance(waiting, Send) else waiting

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self.observe(effect)
            if isinstance(effect, WriteZnodes) and effect.in_background:
                self._events.append(effect)
            elif isinstance(effect, ReadZnodes | WriteZnodes):
                self._events.appendleft(effect)
            elif isinstance(effect, ProbeBrokers):
                accepted = tuple(events.ProbeOutcome(each.broker, 0, None) for each in effect.targets)
                self._events.appendleft(events.ProbesCompleted(effect.id, accepted))
            elif isinstance(effect, Send) and self.answering:
                self._events.append(effect)


def _answer(send: Send) -> Event:
    broker, epoch, request_id, request = send
    if isinstance(request, LeaderAndIsrRequest):
        rows = tuple(TopicIdError(None, t.topic_id, row.partition, 0) for t in request.topics for row in t.partitions)
        return events.LeaderAndIsrResponseReceived(broker, epoch, request_id, LeaderAndIsrResponse.of_rows(0, rows))
    if isinstance(request, StopReplicaRequest):
        stopped = tuple(TopicError(t.topic, row.partition, 0) for t in request.topics for row in t.partitions)
        return events.StopReplicaResponseReceived(broker, epoch, request_id, StopReplicaResponse.of_rows(0, stopped))
    if isinstance(request, DescribeLogDirsRequest):
        return events.LogDirsDescribed(broker, epoch, request_id, DescribeLogDirsResponse((LogDir(0, "/a", ()),)))
    return events.UpdateMetadataResponseReceived(broker, epoch, request_id, UpdateMetadataResponse(0))
