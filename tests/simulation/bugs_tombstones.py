"""Bugs in waiting for answers to tombstones: for how long, what is owed afterwards, and before control is given up."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

from lethe.controller.core import batching, deletion, leaving, owed
from lethe.controller.core.deletion_memory import Deletion
from lethe.controller.core.events import UpdateMetadataResponseReceived
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import GiveUp
from lethe.protocol.kafka.control import UpdateMetadataRequest, UpdateMetadataResponse
from lethe.protocol.kafka.errors import ErrorCode
from tests.simulation.planting import everywhere


def silence_awaited_for_ever() -> AbstractContextManager[object]:
    """One broker that is registered and answers nothing keeps every topic."""
    return everywhere(deletion._tombstone_wait_ends_at_ms, lambda context, found: None)


def gone_before_it_is_sent() -> AbstractContextManager[object]:
    """When the limit has passed the znodes go, whether or not the tombstone is on its way."""

    def settled(step: StepContext, name: str, found: Deletion) -> bool:
        due_ms = deletion._tombstone_wait_ends_at_ms(step.context, found)
        if due_ms is not None and due_ms <= step.now_ms:
            return True
        return is_settled(step, name, found)

    is_settled = deletion.tombstone_is_settled
    return everywhere(is_settled, settled)


def owed_settled_by_errors() -> AbstractContextManager[object]:
    """A broker that answers owes nothing any more, whatever it answers."""
    answered = owed.answered

    def whatever(step: StepContext, event: UpdateMetadataResponseReceived, request: UpdateMetadataRequest) -> None:
        answered(step, replace(event, response=UpdateMetadataResponse(ErrorCode.NONE)), request)

    return everywhere(answered, whatever)


def told_while_it_owes() -> AbstractContextManager[object]:
    """A broker that owes a topic's tombstone is sent the next topic of that name."""
    return everywhere(batching._without_owed, lambda context, broker, request: request)


def left_at_once() -> AbstractContextManager[object]:
    """A controller that is to stop does not wait for the answers that brokers owe."""
    return everywhere(leaving.begin, lambda step, reason, patience_ms: step.do(GiveUp(reason)))
