"""A model of Kafka's broker, 2.8 to 3.9, for one topic with one partition: what a deletion meets on it.

Not the agent's core: the agent quarantines what it cannot identify and so forgives mistakes of a controller. Kafka's
broker deletes whatever has the name, so a controller that is safe with it is safe with agents too; and its state is a
few numbers, where the agent's core has a memory of its own. The rules are those of ReplicaManager and ZkMetadataCache,
as observed on real brokers:

    request                                   on the broker                              answer
    ----------------------------------------  -----------------------------------------  -------------------------------
    a broker epoch below the registration's   nothing                                    STALE_BROKER_EPOCH
    a controller epoch below the highest seen nothing                                    STALE_CONTROLLER_EPOCH
    UpdateMetadata, leader -2                 the cache drops the topic                  NONE
    UpdateMetadata                            the cache shows the topic under this id    NONE
    LeaderAndIsr, bytes of another id         nothing                                    INCONSISTENT_TOPIC_ID
    LeaderAndIsr, leader epoch not higher     nothing                                    STALE_CONTROLLER_EPOCH
    LeaderAndIsr, partition epoch lower       nothing (3.2 and later)                    NONE
    LeaderAndIsr                              hosted; a log is made where there is none  NONE
    StopReplica, delete                       the log of that name goes, whatever its id NONE
    StopReplica                               it is stopped, hosted as before; the log   NONE
                                              stays
    DescribeLogDirs                           nothing                                    the log, hosted or not

A directory that is renamed for deletion counts as gone. `made_for` of a log is the truth, which a broker without topic
ids cannot see.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from lethe.controller.core.effects import Send
from lethe.controller.core.events import (
    Answer,
    LeaderAndIsrResponseReceived,
    LogDirsDescribed,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
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
    ChannelRequest,
    DescribableTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirPartition,
    LogDirTopic,
)
from lethe.protocol.vocabulary import LEADER_DURING_DELETE, BrokerEpoch, BrokerId, TopicId

_SIZE_BYTES: Final = 1_000


class Hosted(NamedTuple):
    """The partition as the broker serves it."""

    topic_id: TopicId | None
    leader: int
    leader_epoch: int
    partition_epoch: int
    is_stopped: bool = False
    """It neither fetches nor serves; a LeaderAndIsr with a higher leader epoch starts it again."""


class KafkaBroker(NamedTuple):
    """One broker: its disk, and what its process knows, if it is up."""

    id: BrokerId
    is_up: bool
    epoch: BrokerEpoch
    """That of its latest registration."""
    log_of: TopicId | None = None
    """The topic whose records its disk has; None: there is no directory."""
    controller_epoch: int = 0
    hosted: Hosted | None = None
    shown: TopicId | None = None
    """The topic that its metadata cache shows; None: it shows none."""
    has_records: bool = True
    """The log is the one that the broker had at the start, with records; one that a request makes is empty."""

    def crashed(self) -> KafkaBroker:
        """The process is gone, and what it knew; the disk stays."""
        return KafkaBroker(self.id, False, self.epoch, self.log_of, has_records=self.has_records)

    def returned(self) -> KafkaBroker:
        """A new process with the same disk, registered again. It hosts nothing until it is told to."""
        return self._replace(is_up=True, epoch=BrokerEpoch(self.epoch + 1))


class Received(NamedTuple):
    """What a request did, and what it was answered."""

    broker: KafkaBroker
    answer: Answer
    deleted: TopicId | None = None
    """The topic whose records it deleted, if it did."""


def receive(broker: KafkaBroker, send: Send) -> Received:
    """Handle one request, which has been addressed to the incarnation `send.broker_epoch`."""
    request = send.request
    if isinstance(request, DescribeLogDirsRequest):
        return Received(broker, LogDirsDescribed(*send[:3], _described(broker, request.topics or ())))
    if send.broker_epoch < broker.epoch:
        return Received(broker, _refused(send, ErrorCode.STALE_BROKER_EPOCH))
    if request.controller_epoch < broker.controller_epoch:
        return Received(broker, _refused(send, ErrorCode.STALE_CONTROLLER_EPOCH))
    obeying = broker._replace(controller_epoch=request.controller_epoch)
    match request:
        case UpdateMetadataRequest():
            return Received(_updated(obeying, request), _answer(send, UpdateMetadataResponse(ErrorCode.NONE)))
        case LeaderAndIsrRequest():
            return _led(obeying, send, request)
        case StopReplicaRequest():
            return _stopped(obeying, send, request)


def is_without_effect(broker: KafkaBroker, epoch: BrokerEpoch, request: ChannelRequest) -> bool:
    """Return whether a request whose answer goes nowhere would change nothing, now and ever after."""
    if not broker.is_up or epoch < broker.epoch or isinstance(request, DescribeLogDirsRequest):
        return True
    return request.controller_epoch < broker.controller_epoch


def _described(broker: KafkaBroker, asked: tuple[DescribableTopic, ...]) -> DescribeLogDirsResponse:
    has_log = broker.log_of is not None
    rows = tuple(LogDirTopic(each.topic, (LogDirPartition(0, _SIZE_BYTES, 0, False),)) for each in asked if has_log)
    return DescribeLogDirsResponse((LogDir(0, "/a", rows),))


def _updated(broker: KafkaBroker, request: UpdateMetadataRequest) -> KafkaBroker:
    for topic in request.topics:
        for row in topic.partitions:
            is_dropped = row.leader == LEADER_DURING_DELETE
            broker = broker._replace(shown=None if is_dropped else topic.topic_id)
    return broker


def _led(broker: KafkaBroker, send: Send, request: LeaderAndIsrRequest) -> Received:
    rows: list[TopicIdError] = []
    for topic in request.topics:
        for row in topic.partitions:
            error = ErrorCode.NONE
            if broker.id not in row.replicas:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif broker.log_of is not None and topic.topic_id not in (None, broker.log_of):
                error = ErrorCode.INCONSISTENT_TOPIC_ID
            elif broker.hosted is not None and row.leader_epoch <= broker.hosted.leader_epoch:
                error = ErrorCode.STALE_CONTROLLER_EPOCH
            elif broker.hosted is None or row.partition_epoch >= broker.hosted.partition_epoch:
                hosted = Hosted(topic.topic_id, row.leader, row.leader_epoch, row.partition_epoch)
                broker = broker._replace(hosted=hosted, log_of=broker.log_of or topic.topic_id)
            rows.append(TopicIdError(None, topic.topic_id, row.partition, error))
    return Received(broker, _answer(send, LeaderAndIsrResponse.of_rows(ErrorCode.NONE, rows)))


def _stopped(broker: KafkaBroker, send: Send, request: StopReplicaRequest) -> Received:
    rows: list[TopicError] = []
    deleted: TopicId | None = None
    for topic in request.topics:
        for row in topic.partitions:
            error = ErrorCode.NONE
            if broker.hosted is not None and 0 <= row.leader_epoch < broker.hosted.leader_epoch:
                error = ErrorCode.FENCED_LEADER_EPOCH
            elif row.delete:
                deleted = broker.log_of
                broker = broker._replace(hosted=None, log_of=None, has_records=False)
            elif broker.hosted is not None:
                broker = broker._replace(hosted=broker.hosted._replace(is_stopped=True))
            rows.append(TopicError(topic.topic, row.partition, error))
    return Received(broker, _answer(send, StopReplicaResponse.of_rows(ErrorCode.NONE, rows)), deleted)


def _refused(send: Send, error: ErrorCode) -> Answer:
    match send.request:
        case UpdateMetadataRequest():
            return _answer(send, UpdateMetadataResponse(error))
        case LeaderAndIsrRequest():
            return _answer(send, LeaderAndIsrResponse(error, ()))
        case _:
            return _answer(send, StopReplicaResponse(error, ()))


def _answer(send: Send, response: LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse) -> Answer:
    broker, epoch, request_id, _ = send
    match response:
        case LeaderAndIsrResponse():
            return LeaderAndIsrResponseReceived(broker, epoch, request_id, response)
        case UpdateMetadataResponse():
            return UpdateMetadataResponseReceived(broker, epoch, request_id, response)
        case StopReplicaResponse():
            return StopReplicaResponseReceived(broker, epoch, request_id, response)
