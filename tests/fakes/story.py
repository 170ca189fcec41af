"""What a controller did, told in lines that people read and tests compare.

    * TopicDeletionsRequested                              an event from outside
    zk delete /admin/delete_topics/orders                  an operation of a write
    -> 1,2,3 UpdateMetadata orders-0 leader -2             a request, to all brokers that get the same one in a row
    <- 2 StopReplica orders-0 KAFKA_STORAGE_ERROR          an answer; `ok` where nothing went wrong
    ? 3 ControlledShutdown                                 a broker's request
    ! ControlledShutdown still leads: nothing              its answer

Reads, channels, timers and event records are left out: a story tells what others see of a controller. So is the news of
a topic's changed znode where nothing follows from it, as after each of the controller's own writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lethe.controller.core import events
from lethe.controller.core.effects import CheckPower, CompareCaches, Reply, Send, WriteZnodes
from lethe.controller.core.events import (
    Answer,
    Event,
    LeaderAndIsrResponseReceived,
    LogDirsDescribed,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from lethe.protocol.kafka.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from lethe.protocol.kafka.errors import error_name
from lethe.protocol.kafka.queries import ChannelRequest, DescribeLogDirsRequest
from lethe.protocol.kafka.to_controller import (
    AdminResponse,
    AllocateProducerIdsResponse,
    AlterPartitionResponse,
    ControlledShutdownResponse,
    ControllerResponse,
    errors_of,
)
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Check, Create, Delete, Operation, SetData

_ECHO = "* TopicsModified "


def told_event(event: Event) -> str | None:
    """The line of an event from outside; None for results, which belong to what was asked."""
    match event:
        case events.ZnodesRead() | events.ZnodesWritten() | events.ProbesCompleted() | events.CacheRead():
            return None
        case events.OffsetsRead() | events.OffsetsCommitted():
            return None
        case events.TimerFired(timer=CompareCaches() | CheckPower()):
            # Most of the time nothing follows; what does follow tells itself.
            return None
        case LeaderAndIsrResponseReceived() | UpdateMetadataResponseReceived() | StopReplicaResponseReceived():
            return f"<- {event.broker} {type(event).__name__.removesuffix('ResponseReceived')} {_verdict(event)}"
        case LogDirsDescribed():
            return f"<- {event.broker} DescribeLogDirs {_verdict(event)}"
        case events.BrokerRequested(request=request):
            return f"? {request.broker_id} {type(request).__name__.removesuffix('Request')}"
        case events.ClientRequested(request=request, sender=sender):
            return f"? {sender.client.principal} {type(request).__name__.removesuffix('Request')}"
        case events.BrokerModified(broker=broker):
            return f"* BrokerModified {broker}"
        case events.DeletionMarkerModified(topic=topic):
            return f"* DeletionMarkerModified {topic}"
        case events.TopicsModified(topics=topics):
            return f"* TopicsModified {', '.join(topics)}"
        case events.TimerFired(timer=timer):
            return f"* TimerFired {type(timer).__name__}"
        case _:
            return f"* {type(event).__name__}"


def _verdict(answer: Answer) -> str:
    if answer.response.error:
        return error_name(answer.response.error)
    if isinstance(answer, LogDirsDescribed):
        failed = [f"{each.path} {error_name(each.error)}" for each in answer.response.log_dirs if each.error]
        return ", ".join(failed) or ("ok" if answer.response.log_dirs else "nothing")
    rows = () if isinstance(answer, UpdateMetadataResponseReceived) else answer.response.rows
    wrong = [f"{row.topic}-{row.partition} {error_name(row.error)}" for row in rows if row.error]
    return ", ".join(wrong) or "ok"


def told_reply(reply: Reply) -> str:
    """What a broker is answered, without its key."""
    return f"! {_told_response(reply.response)}"


def _told_response(response: ControllerResponse) -> str:
    name = type(response).__name__.removesuffix("Response")
    if isinstance(response, AdminResponse):
        return f"{name} {', '.join(map(error_name, errors_of(response))) or 'nothing'}"
    if response.error:
        return f"{name} {error_name(response.error)}"
    match response:
        case ControlledShutdownResponse(remaining=remaining):
            rows = [f"{topic}-{partition}" for topic, partition in remaining]
            return f"{name} still leads: {', '.join(rows) or 'nothing'}"
        case AlterPartitionResponse(topics=topics):
            rows = [
                f"{topic.topic or topic.topic_id}-{row.partition} "
                + (error_name(row.error) if row.error else f"isr {_ids(row.isr)} version {row.partition_epoch}")
                for topic in topics
                for row in topic.partitions
            ]
            return f"{name} {', '.join(rows)}"
        case AllocateProducerIdsResponse(first_id=first, id_count=count):
            return f"{name} {count} from {first}"


def told_write(write: WriteZnodes) -> Iterator[str]:
    """A line for each operation."""
    for group in write.groups:
        for operation in group:
            yield f"zk {_operation(operation)}"


def _operation(operation: Operation) -> str:
    match operation:
        case Create(path=path, data=data, ephemeral=ephemeral):
            return f"create {path}{' (ephemeral)' if ephemeral else ''}{_content(path, data)}"
        case SetData(path=path, data=data, version=version):
            return f"set {path} at version {version}{_content(path, data)}"
        case Delete(path=path):
            return f"delete {path}"
        case Check(path=path, version=version):
            return f"check {path} at version {version}"


def _content(path: str, data: bytes | None) -> str:
    partition = paths.state_of(path)
    if partition is not None and data == b"":
        return ": nothing"
    if partition is not None and data is not None:
        state = znodes.decode_state(*partition, data, 0)
        assert state is not None
        recovering = " recovering" if state.recovery_state else ""
        return f": leader {state.leader} epoch {state.leader_epoch} isr {_ids(state.isr)}{recovering}"
    if path == paths.controller_epoch() and data is not None:
        return f": {data.decode()}"
    return ""


def told_sends(sends: Iterable[Send]) -> Iterator[str]:
    """A line for each request."""
    for send in sends:
        yield f"-> {send.broker} {told_request(send.request)}"


def in_short(lines: Iterable[str]) -> str:
    """The story as text; the same request to, or answer from, several brokers in a row is one line."""
    short: list[str] = []
    for line in _without_echoes(list(lines)):
        before = short[-1].split(" ", 2) if short else []
        mine = line.split(" ", 2)
        if mine[0] in ("->", "<-") and before[:1] == mine[:1] and before[2] == mine[2]:
            brokers = before[1].split(",")
            if mine[1] not in brokers:
                short[-1] = " ".join([before[0], ",".join([*brokers, mine[1]]), before[2]])
                continue
        short.append(line)
    return "\n".join(short)


def _without_echoes(lines: list[str]) -> Iterator[str]:
    for line, following in zip(lines, [*lines[1:], "*"], strict=False):
        if not line.startswith(_ECHO) or not following.startswith(("*", "<-")):
            yield line


def told_request(request: ChannelRequest) -> str:
    """The request without its receiver and its epochs."""
    name, rows = "", list[str]()
    match request:
        case LeaderAndIsrRequest():
            name = "LeaderAndIsr"
            rows = [
                f"{topic.topic}-{row.partition} leader {row.leader} epoch {row.leader_epoch} isr {_ids(row.isr)}"
                f"{' new' if row.is_new else ''}"
                for topic in request.topics
                for row in topic.partitions
            ]
        case UpdateMetadataRequest():
            name = f"UpdateMetadata brokers {_ids(broker.id for broker in request.live_brokers)}"
            rows = [
                f"{topic.topic}-{row.partition} leader {row.leader}"
                + ("" if row.leader == -2 else f" epoch {row.leader_epoch} isr {_ids(row.isr)}")
                + (f" offline {_ids(row.offline_replicas)}" if row.offline_replicas else "")
                for topic in request.topics
                for row in topic.partitions
            ]
        case StopReplicaRequest():
            name = "StopReplica"
            rows = [
                f"{topic.topic}-{row.partition} epoch {row.leader_epoch}{' delete' if row.delete else ''}"
                for topic in request.topics
                for row in topic.partitions
            ]
        case DescribeLogDirsRequest():
            name = "DescribeLogDirs"
    return ": ".join([name, *([", ".join(rows)] if rows else [])])


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))
