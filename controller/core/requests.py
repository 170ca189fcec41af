"""What brokers ask of their controller: taken in, kept until it is answered, answered exactly once.

A request is worked on like any other event, and its answer is an effect of the step that knows the outcome. Who does
not lead, or ceases to, says so: then the broker looks for the controller again and repeats its request there. Kafka's
controller lets some requests time out instead.

Between the election of another controller and the watch that tells us of it we take ourselves for the controller. What
is answered after a write is safe, since the fence was checked with it. Where nothing had to be written, the fence is
checked alone before the answer is given: a leader builds on what it is told of its partitions.
"""

from __future__ import annotations

from typing import TypeVar, assert_never

from lethe.controller.core.agenda_requests import (
    AllocateProducerIds,
    AlterPartitions,
    AnswerAsController,
    ControlProven,
    ControlShutdown,
)
from lethe.controller.core.cluster_state import Asked
from lethe.controller.core.context import Context
from lethe.controller.core.effects import Reply
from lethe.controller.core.events import BrokerRequested
from lethe.controller.core.turn import Turn
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControllerRequest,
    ControllerResponse,
)
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Check
from lethe.protocol.zookeeper.packing import GroupDone, GroupOutcome

R = TypeVar("R", bound=ControllerRequest)


def received(turn: Turn, event: BrokerRequested) -> None:
    """Work on the request, or say at once that we are not the controller."""
    context = turn.context
    if not context.is_leading:
        turn.emit(Reply(event.key, refused(event.request)))
        return
    context.cluster.unanswered[event.key] = Asked(event.request, event.version)
    match event.request:
        case ControlledShutdownRequest():
            turn.do(ControlShutdown(event.key))
        case AlterPartitionRequest():
            turn.do(AlterPartitions(event.key))
        case AllocateProducerIdsRequest():
            turn.do(AllocateProducerIds(event.key))
        case _:
            assert_never(event.request)


def asked(context: Context, key: int, kind: type[R]) -> R:
    """The request under this key, which is of that kind. Raises TypeError where it is not."""
    request = context.cluster.unanswered[key].request
    if not isinstance(request, kind):
        raise TypeError(f"request {key} is no {kind.__name__}: {request}")
    return request


def answer(turn: Turn, key: int, response: ControllerResponse) -> None:
    """Answer a request for which nothing was written, as soon as ZooKeeper has confirmed that we are in charge."""
    turn.do(AnswerAsController(key, response))


def prove(turn: Turn, task: AnswerAsController) -> None:
    """Write nothing, fenced. The group is the fence once more, since there is no multi without a group."""
    check = Check(paths.controller_epoch(), turn.context.cluster.epoch_version)
    turn.write([(check,)], ControlProven(task.key, task.response))


def proven(turn: Turn, then: ControlProven, outcome: GroupOutcome) -> None:
    """The fence held: answer. What else went wrong proves nothing, so the broker is to look for its controller."""
    if isinstance(outcome, GroupDone):
        turn.reply(then.key, then.response)
        return
    request = turn.context.cluster.unanswered[then.key].request
    turn.refuse("controller", f"answering {type(request).__name__}", f"{paths.controller_epoch()}: {outcome}")
    turn.reply(then.key, refused(request))


def refused(request: ControllerRequest) -> ControllerResponse:
    """The answer of one that is not, or no longer, the controller; the error is the one that makes a broker of any
    version look for the controller again."""
    match request:
        case ControlledShutdownRequest():
            return ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        case AlterPartitionRequest():
            return AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(ErrorCode.NOT_CONTROLLER)
        case _:
            assert_never(request)


def refuse_all(turn: Turn) -> None:
    """Our tenure ends: nothing that is not answered yet will be done by us."""
    for key, asked in list(turn.context.cluster.unanswered.items()):
        turn.reply(key, refused(asked.request))
