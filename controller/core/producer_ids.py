"""Allocates blocks of producer ids for idempotent and transactional producers (KIP-730, since 3.0-IV0).

`/latest_producer_id_block` has the block that was allocated last. Brokers of older protocols take blocks from there
themselves. So the next block is written with the version that was read, and read again after a conflict.

    last block 0-999, written by broker 1    broker 2 requests a block: 1000-1999

No two brokers may get the same id, because exactly-once depends on it. If the znode cannot be understood, it is left as
it is and the request is refused. The write is fenced, unlike in Kafka: a former controller allocates nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core import requests
from lethe.controller.core.context import Context
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_requests import AllocateProducerIds, ProducerIdsRead, ProducerIdsWritten
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.to_controller import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.json_fields import INT64_MAX
from lethe.protocol.zookeeper.operations import (
    Create,
    Data,
    GetData,
    Operation,
    ReadOutcome,
    SetData,
    ZkError,
    failure_words,
    is_absent,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome, write_failure_words

_SIZE = znodes.PRODUCER_ID_BLOCK_SIZE
_WHAT = "allocating producer ids"


def begin(step: StepContext, task: AllocateProducerIds) -> None:
    """Read the block that was allocated last."""
    request = requests.asked(step.context, task.key, AllocateProducerIdsRequest)
    problem = _problem(step.context, request)
    if problem is None:
        step.read((GetData(paths.producer_id_block()),), ProducerIdsRead(task.key))
    else:
        _refuse(step, task.key, problem, error_name(problem))


def _problem(context: Context, request: AllocateProducerIdsRequest) -> ErrorCode | None:
    broker = context.cluster.brokers.get(request.broker_id)
    if broker is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    return None if broker.epoch == request.broker_epoch else ErrorCode.STALE_BROKER_EPOCH


def _refuse(step: StepContext, key: int, error: ErrorCode, why: str) -> None:
    step.refuse(f"broker/{requests.asked(step.context, key, AllocateProducerIdsRequest).broker_id}", _WHAT, why)
    step.reply(key, AllocateProducerIdsResponse(error))


def on_producer_ids_read(step: StepContext, task: ProducerIdsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Write the next block."""
    path, outcome = paths.producer_id_block(), outcomes[0]
    last: znodes.ProducerIdBlock | None = None
    if isinstance(outcome, Data):
        try:
            last = znodes.decode_producer_id_block(outcome.data)
        except znodes.MalformedZnode as error:
            _refuse(step, task.key, ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
            return
    elif not is_absent(outcome):
        _refuse(step, task.key, ErrorCode.UNKNOWN_SERVER_ERROR, f"reading {path}: {failure_words(outcome)}")
        return
    block = following(last, requests.asked(step.context, task.key, AllocateProducerIdsRequest).broker_id)
    if block is None:
        _refuse(step, task.key, ErrorCode.UNKNOWN_SERVER_ERROR, f"all producer ids are used up, says {path}")
        return
    data = znodes.encode_producer_id_block(block)
    operation: Operation = (
        SetData(path, data, outcome.stat.version) if isinstance(outcome, Data) else Create(path, data)
    )
    step.write([(operation,)], ProducerIdsWritten(task.key, block))


def following(last: znodes.ProducerIdBlock | None, broker: BrokerId) -> znodes.ProducerIdBlock | None:
    """Return the block after `last`, for that broker; None if it would pass the last 64-bit number."""
    start = 0 if last is None else last.end + 1
    if start > INT64_MAX - _SIZE:
        return None
    return znodes.ProducerIdBlock(broker, start, start + _SIZE - 1)


_OVERTAKEN = (ZkError.BAD_VERSION, ZkError.NODE_EXISTS, ZkError.NO_NODE)


def on_producer_ids_written(step: StepContext, task: ProducerIdsWritten, outcome: GroupOutcome) -> None:
    """Answer with the block; after a conflict, read the znode again."""
    if isinstance(outcome, GroupDone):
        block = task.block
        step.record(
            EventRecordType.BROKER, f"broker/{block.broker_id}", what="producer ids", first=block.start, last=block.end
        )
        step.reply(task.key, AllocateProducerIdsResponse(ErrorCode.NONE, block.start, block.end - block.start + 1))
    elif isinstance(outcome, GroupFailed) and outcome.error in _OVERTAKEN:
        step.do(AllocateProducerIds(task.key))
    else:
        why = write_failure_words(outcome)
        _refuse(step, task.key, ErrorCode.UNKNOWN_SERVER_ERROR, f"writing {paths.producer_id_block()}: {why}")
