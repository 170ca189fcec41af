"""Requests, answers and writes in few words, for the trace, whose digest they make."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from lethe.broker.core.effects import DiskOperation, IsrChange
from lethe.broker.core.inputs import IsrOutcome
from lethe.protocol.kafka.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from lethe.protocol.kafka.errors import error_name
from lethe.protocol.kafka.queries import (
    ChannelRequest,
    ChannelResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper.operations import Check, Create, Delete, MultiDone, MultiOutcome, Operation, SetData


def request(each: ChannelRequest) -> str:
    """`LeaderAndIsr(epoch 3) t1/4f0a[0: leader 2 epoch 1 isr (2, 3) of (2, 3)]`."""
    match each:
        case LeaderAndIsrRequest(_, epoch, topics, _):
            rows = (
                f"{topic.topic}/{_id(topic.topic_id)}-{row.partition}: leader {row.leader} epoch {row.leader_epoch} "
                f"isr {row.isr} of {row.replicas}{' new' if row.is_new else ''}"
                for topic in topics
                for row in topic.partitions
            )
            return f"LeaderAndIsr(epoch {epoch}) {_list(rows)}"
        case UpdateMetadataRequest(_, epoch, topics, brokers):
            rows = (
                f"{topic.topic}/{_id(topic.topic_id)}-{row.partition}: leader {row.leader} epoch {row.leader_epoch} "
                f"isr {row.isr} offline {row.offline_replicas}"
                for topic in topics
                for row in topic.partitions
            )
            return f"UpdateMetadata(epoch {epoch}) brokers {[b.id for b in brokers]} {_list(rows)}"
        case StopReplicaRequest(_, epoch, topics):
            rows = (
                f"{topic.topic}-{row.partition}: epoch {row.leader_epoch}{' delete' if row.delete else ''}"
                for topic in topics
                for row in topic.partitions
            )
            return f"StopReplica(epoch {epoch}) {_list(rows)}"
        case DescribeLogDirsRequest():
            return "DescribeLogDirs"


def response(each: ChannelResponse) -> str:
    """`LeaderAndIsr NONE [t1-0: NONE]`."""
    error = error_name(each.error)
    match each:
        case LeaderAndIsrResponse(rows=rows):
            return (
                f"LeaderAndIsr {error} {_list(f'{row.topic}-{row.partition}: {error_name(row.error)}' for row in rows)}"
            )
        case UpdateMetadataResponse():
            return f"UpdateMetadata {error}"
        case StopReplicaResponse(rows=stopped):
            rows_text = _list(f"{row.topic}-{row.partition}: {error_name(row.error)}" for row in stopped)
            return f"StopReplica {error} {rows_text}"
        case DescribeLogDirsResponse(log_dirs):
            dirs_text = _list(f"{log_dir.path}: {error_name(log_dir.error)}" for log_dir in log_dirs)
            return f"DescribeLogDirs {error} {dirs_text}"


def isr(changes: Sequence[IsrChange], outcomes: Sequence[IsrOutcome]) -> str:
    """`[t1-0: (1, 2) accepted]`."""
    pairs = zip(changes, outcomes, strict=True)
    return _list(f"{change.topic_partition}: {change.isr} {outcome.verdict.value}" for change, outcome in pairs)


def write(operations: Sequence[Operation], outcome: MultiOutcome) -> str:
    """`[check /controller_epoch 2; delete /admin/delete_topics/t1]: done 77`."""
    done = f"done {outcome.zxid}" if isinstance(outcome, MultiDone) else repr(outcome)
    return f"{_list(map(_operation, operations))}: {done}"


def _operation(operation: Operation) -> str:
    match operation:
        case Create(path, data):
            return f"create {path} {_data(data)}"
        case SetData(path, data, version):
            return f"set {path} version {version} {_data(data)}"
        case Delete(path):
            return f"delete {path}"
        case Check(path, version):
            return f"check {path} {version}"


def on_disk(operation: DiskOperation) -> str:
    """`RenameForDeletion /1a t1-0 4f0a t1-0.0123...-delete`."""
    parts = (_id(TopicId(part)) if isinstance(part, uuid.UUID) else str(part) for part in operation)
    return f"{type(operation).__name__} {' '.join(parts)}"


def _id(topic_id: TopicId | None) -> str:
    return "-" if topic_id is None else topic_id.hex[:4]


def _data(data: bytes | None) -> str:
    return "" if data is None else data.decode("latin-1")


def _list(texts: Iterable[str]) -> str:
    return f"[{'; '.join(texts)}]"
