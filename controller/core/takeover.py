"""Taking control from a Kafka controller that holds it: whether, how and how often.

A Kafka controller that hangs keeps its session, and with it `/controller`, while its process answers ZooKeeper's pings.
No other controller is elected, and its work is not done. If configured (`CoreConfig.takeover`), this controller takes
`/controller` from it:

    time    write
    0 s     one multi: check the version of `/controller_epoch`, delete the holder's `/controller` at its version,
            create ours, and set it until its version is one higher
    5 s     one multi: check `/controller` at that version, raise `/controller_epoch`: the former holder is fenced
    60 s    the earliest next taking, if a Kafka controller holds `/controller` again

The epoch's version is read *before* the holder. No two terms share a version of `/controller_epoch`, and no two holders
under one epoch a version of `/controller`, which is 0 after an election. So the first multi takes control only from the
holder that was read, and the second one ends where another controller has taken control meanwhile.

The grace period (`takeover_grace_ms`) lets the former holder finish its current event and notice. Kafka's controllers
check `/controller` between two events. One whose write is refused within an event keeps its unsent requests, and every
later term of that process fails on them. In the meantime this controller only holds `/controller` (`Role.TAKING`).

Control is never taken from another Lethe controller (its `/controller` says so), from a KRaft controller, or from a
controller whose `/controller` cannot be understood.

The interval prevents takeover ping-pong. It doubles with each taking of the same process up to
`takeover_interval_max_ms`. It starts again at `takeover_interval_ms` after a pause of twice the maximum, which two
controllers that both insist never reach.

A write counts as a taking if it was applied or its reply was lost. A write that failed does not count.
"""

from __future__ import annotations

from lethe.controller.core.config import CoreConfig, Takeover
from lethe.controller.core.context import Context, Role
from lethe.controller.core.continuations import ControllerTaken
from lethe.controller.core.effects import StandAgain
from lethe.controller.core.resigning import refuse_cluster, step_back
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import StandForElection
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import ControllerEpoch
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import FORBIDDEN, Check, Create, Data, Delete, SetData, ZkError, error_words
from lethe.protocol.zookeeper.packing import Group, GroupDone, GroupFailed, GroupOutcome
from lethe.protocol.zookeeper.znodes import ControllerZnode


def may_be_taken_from(holder: ControllerZnode) -> bool:
    """Return whether the holder is a Kafka controller in ZooKeeper mode."""
    return holder.admin is None and holder.kraft_epoch <= 0


def due_ms(context: Context, now_ms: int) -> int | None:
    """Return when control may be taken, at least `now_ms`; None: never."""
    taken_at_ms = context.takeover_history.last_ms
    match context.config.takeover:
        case Takeover.NEVER:
            return None
        case Takeover.ONCE:
            return now_ms if taken_at_ms is None else None
        case Takeover.ALWAYS:
            if taken_at_ms is None:
                return now_ms
            return max(now_ms, taken_at_ms + interval_ms(context.config, context.takeover_history.count))


def interval_ms(config: CoreConfig, count: int) -> int:
    """Return the wait after this number of takeovers, from the latest one."""
    return BackOff(config.takeover_interval_ms, config.takeover_interval_max_ms).wait_ms(count)


def note_taken(context: Context, now_ms: int) -> None:
    """Count a taking: control was taken, or may have been."""
    takeover_history = context.takeover_history
    before_ms = takeover_history.last_ms
    settled = before_ms is not None and now_ms - before_ms >= 2 * context.config.takeover_interval_max_ms
    takeover_history.count = 1 if settled else takeover_history.count + 1
    takeover_history.last_ms, takeover_history.last_from = now_ms, takeover_history.going_on


OVERTAKEN = (ZkError.NODE_EXISTS, ZkError.NO_NODE, ZkError.BAD_VERSION)
"""Errors that another controller's election explains."""


def take(step: StepContext, holder: Data, epoch: Data, number: ControllerEpoch, ours: Create) -> None:
    """Replace the holder's `/controller` with ours, if both znodes still have these versions."""
    context = step.context
    context.takeover_history.going_on = context.active_controller
    context.takeover_history.epoch_version = epoch.stat.version
    context.takeover_history.version = holder.stat.version + 1
    context.takeover_history.raising = None
    group: Group = (
        Check(paths.controller_epoch(), epoch.stat.version),
        Delete(paths.controller(), holder.stat.version),
        ours,
        *(SetData(ours.path, ours.data, version) for version in range(context.takeover_history.version)),
    )
    step.write([group], ControllerTaken(number), fenced=False)


def on_controller_taken(step: StepContext, task: ControllerTaken, outcome: GroupOutcome) -> None:
    """Wait for the grace period to end; look again if another controller was faster or the outcome is unknown."""
    context, takeover_history = step.context, step.context.takeover_history
    if isinstance(outcome, GroupFailed):
        takeover_history.going_on = None
        if outcome.error in OVERTAKEN:
            step.do(StandForElection())
        elif outcome.error in FORBIDDEN:
            refuse_cluster(step, f"{paths.controller()} cannot be taken: {error_words(outcome.error)}")
        else:
            step_back(step, f"taking control failed with {error_words(outcome.error)}")
        return
    note_taken(context, step.now_ms)
    takeover_history.due_ms = step.now_ms + context.config.takeover_grace_ms
    if not isinstance(outcome, GroupDone):
        step.do(StandForElection())
        return
    step.record(
        EventRecordType.ELECTION,
        f"controller/{context.config.controller_id}",
        what="taken",
        epoch=task.epoch,
        taken_from=takeover_history.going_on,
    )
    wait(step)


def wait(step: StepContext) -> None:
    """Wait until the epoch may be raised."""
    context = step.context
    context.role, context.active_controller = Role.TAKING, context.config.controller_id
    if context.takeover_history.due_ms > step.now_ms:
        step.set_timer(StandAgain(), context.takeover_history.due_ms)
    else:
        step.do(StandForElection())
