"""What a controller may not even try, judged by what it knows at the moment at which it decides.

What it knows is judged elsewhere (`belief`), and what comes of it too (`invariants`). These rules are about intent: an
order that is given in spite of better knowledge, and that is only prevented from doing harm by something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from controller.core.context import Context
from controller.core.effects import Effect, Send, WriteZnodes
from protocol.kafka.control import StopReplicaRequest
from protocol.zookeeper import paths
from protocol.zookeeper.operations import Create, Delete, Operation
from tests.simulation.ledger import lasting
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.controllers import ControllerProcess


def effect_is_allowed(controller: ControllerProcess, effect: Effect) -> None:
    """Judged before the effect is performed."""
    match effect:
        case WriteZnodes(groups=groups):
            problems = _writes(controller.context, [operation for group in groups for operation in lasting(group)])
        case Send(request=StopReplicaRequest() as request):
            problems = _deletes(controller.context, request)
        case _:
            return
    for problem in problems:
        raise Violation("conduct", f"{controller.name} {problem}")


def _writes(context: Context, operations: Iterable[Operation]) -> Iterator[str]:
    for operation in operations:
        match operation:
            case Create(path=path) if (state_of := paths.state_of(path)) is not None:
                if context.is_queued(state_of.topic):
                    yield f"brings {state_of} into service, and its topic is queued for deletion"
            case Delete(path=path) if context.paused is not None and paths.topic_of(path) is not None:
                yield f"removes {path}, and knows that deletions are paused"
            case _:
                pass


def _deletes(context: Context, request: StopReplicaRequest) -> Iterator[str]:
    """Replicas that a reassignment removes go also while deletions are paused."""
    if context.paused is None:
        return
    for topic in request.topics:
        if context.is_queued(topic.topic) and any(row.delete for row in topic.partitions):
            yield f"has replicas of {topic.topic} deleted, and knows that deletions are paused"
