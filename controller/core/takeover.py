"""Taking control from a controller that holds it: whether, how, and how often.

Theory of operation. A controller of Kafka that is wedged keeps its session, and with it `/controller`, for as long as
its process answers ZooKeeper's pings: nobody else is elected, and what it does not do is not done. Who is told to may
take `/controller` from it, in one multi that deletes its znode and creates ours. It checks that `/controller_epoch`
still has the version that was read *before* the holder was: no two tenures share that version, so that control is taken
from the controller that was looked at or from nobody.

The epoch, on which every write is fenced, is raised in a second write, some time later. Kafka's controllers look at
`/controller` between two events; one whose write is refused in the middle of an event keeps the requests that it was
about to send, and every later tenure of that process fails on them. So it is left time to finish what it is at, with
writes that still take effect, and to notice. One that sleeps is fenced when the time is over, whatever it does then.
Until then we only hold `/controller` (`Role.TAKING`): nothing is loaded, nothing written, nobody asked for anything.

Never taken from: another Lethe controller (it says in `/controller` that it is one: two that stand by for each other
are no rivals), a KRaft controller, and one whose `/controller` cannot be understood.

Two who insist must not take turns. Between one taking and the next of the same process lies an interval, which doubles
with each taking up to a longest one. It begins anew only after twice the longest: two who insist at the longest
interval never get there.

What counts as a taking is a write that was applied, or may have been: where its reply was lost nobody knows. A race
that was lost to another one's election changed nothing and does not count.
"""

from __future__ import annotations

from lethe.controller.core.agenda import Stand
from lethe.controller.core.config import CoreConfig, Takeover
from lethe.controller.core.context import Context, Role
from lethe.controller.core.continuations import ControllerTaken
from lethe.controller.core.effects import StandAgain
from lethe.controller.core.resigning import step_back
from lethe.controller.core.turn import Turn
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import FactType
from lethe.protocol.vocabulary import ControllerEpoch
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Check, Create, Data, Delete, ZkError
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome
from lethe.protocol.zookeeper.znodes import ControllerZnode


def may_be_taken_from(holder: ControllerZnode) -> bool:
    """Whether the holder is one of Kafka's own controllers in ZooKeeper mode."""
    return holder.admin is None and holder.kraft_epoch <= 0


def due_ms(context: Context, now_ms: int) -> int | None:
    """When control may be taken, `now_ms` at the earliest; None: never."""
    taken_at_ms = context.takings.last_ms
    match context.config.takeover:
        case Takeover.NEVER:
            return None
        case Takeover.ONCE:
            return now_ms if taken_at_ms is None else None
        case Takeover.ALWAYS:
            if taken_at_ms is None:
                return now_ms
            return max(now_ms, taken_at_ms + interval_ms(context.config, context.takings.count))


def interval_ms(config: CoreConfig, count: int) -> int:
    """How long to wait after so many takings, from the latest of them."""
    return BackOff(config.takeover_interval_ms, config.takeover_interval_max_ms).wait_ms(count)


def note_taken(context: Context, now_ms: int) -> None:
    """Control was taken, or may have been."""
    takings = context.takings
    before_ms = takings.last_ms
    settled = before_ms is not None and now_ms - before_ms >= 2 * context.config.takeover_interval_max_ms
    takings.count = 1 if settled else takings.count + 1
    takings.last_ms = now_ms


OVERTAKEN = (ZkError.NODE_EXISTS, ZkError.NO_NODE, ZkError.BAD_VERSION)
"""Errors that somebody else's election explains."""


def take(turn: Turn, holder: Data, epoch: Data, number: ControllerEpoch, ours: Create) -> None:
    """Put our `/controller` in the place of the holder's, in the tenure that has this epoch."""
    context = turn.context
    context.takings.going_on = context.active_controller
    context.takings.epoch_version = epoch.stat.version
    context.takings.raising = None
    group = (
        Check(paths.controller_epoch(), epoch.stat.version),
        Delete(paths.controller(), holder.stat.version),
        ours,
    )
    turn.write([group], ControllerTaken(number), fenced=False)


def taken(turn: Turn, task: ControllerTaken, outcome: GroupOutcome) -> None:
    """It is ours, and its former holder has time to notice; or somebody was quicker: look again."""
    context, takings = turn.context, turn.context.takings
    if isinstance(outcome, GroupFailed):
        takings.going_on = None
        if outcome.error not in OVERTAKEN:
            step_back(turn, f"taking control failed with {outcome.error.name}")
        else:
            turn.do(Stand())
        return
    note_taken(context, turn.now_ms)
    takings.due_ms = turn.now_ms + context.config.takeover_grace_ms
    if not isinstance(outcome, GroupDone):
        turn.do(Stand())
        return
    turn.record(
        FactType.ELECTION,
        f"controller/{context.config.controller_id}",
        what="taken",
        epoch=task.epoch,
        taken_from=takings.going_on,
    )
    wait(turn)


def wait(turn: Turn) -> None:
    """Until the epoch is to be raised."""
    context = turn.context
    context.role, context.active_controller = Role.TAKING, context.config.controller_id
    if context.takings.due_ms > turn.now_ms:
        turn.set_timer(StandAgain(), context.takings.due_ms)
    else:
        turn.do(Stand())
