"""Ends a term: on request, because another controller is active, or after a fault.

The controller stops at once and drops its memory of the cluster. What follows depends on the cause:

    cause                                what follows
    -----------------------------------  ---------------------------------------------------------------------
    another controller is active         stand by
    the fence of a write failed          stand for election again
    a fault, such as an unknown outcome  end the session, and stand again with a new one after a back-off
    a request                            delete `/controller`, stand again after `stand_back_off_min_ms`
    a request for good                   the same, but never stand again; `/controller` is still watched

After a lost reply, memory and znodes may differ. Ending the session removes `/controller`, and the next term loads
everything again. The back-off doubles, so that a znode that breaks controllers does not cause an election at once.
"""

from __future__ import annotations

from lethe.controller.core import leaving, owed
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.context import Context, Role
from lethe.controller.core.continuations import GivenUp
from lethe.controller.core.effects import CloseChannel, DisconnectBrokers, RenewSession, StandAgain, Timer
from lethe.controller.core.requests import refuse_all
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import GiveUp, StandForElection
from lethe.controller.core.tasks_advertising import Unregister
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import NO_BROKER
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Check, Delete
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

SETTLED_AFTER_MS = 60_000
"""After a term of this length in which a broker obeyed, the back-off starts again at its minimum."""


def at_rest(context: Context) -> Role:
    """Return the idle role: RETIRED or STANDING_BY."""
    return Role.RETIRED if context.retired else Role.STANDING_BY


def resign(step: StepContext, reason: str, *, session_ends: bool = False) -> None:
    """Stop at once: close the channels, drop the task stack and forget the cluster.

    Only pending broker requests are answered; the answer makes the broker look for another controller. This
    controller's registration in `/brokers/ids` goes with the session, or is removed next if the session goes on."""
    context = step.context
    if context.is_leading and context.retired:
        context.unconfirmed_deletions = leaving.unconfirmed_deletions(context)
    if context.is_leading:
        step.record(
            EventRecordType.ELECTION,
            f"controller/{context.config.controller_id}",
            what="resigned",
            epoch=context.cluster.epoch,
            reason=reason,
            tenure_ms=step.now_ms - context.cluster.elected_at_ms,
        )
        if context.cluster.had_power and step.now_ms - context.cluster.elected_at_ms >= SETTLED_AFTER_MS:
            context.faults_in_a_row = 0
    if context.is_leading and any(last.error == ErrorCode.NONE for last in context.cluster.last_answers.values()):
        context.preflight_passed_ms = step.now_ms
    if context.holds_controller:
        context.role = at_rest(context)
    context.takeover_history.going_on = None
    owed.record_lost(step)
    refuse_all(step)
    step.emit(DisconnectBrokers(reason))
    for broker in context.cluster.brokers:
        step.emit(CloseChannel(broker))
    timers: dict[Timer, int] = {timer: at for timer, at in context.timers.items() if isinstance(timer, StandAgain)}
    is_registered = context.cluster.registered is not None
    context.cluster = ClusterState()
    context.tasks.clear()
    context.awaited = ()
    context.timers = timers
    if is_registered and not session_ends:
        step.do(Unregister())


def session_lost(step: StepContext, reason: str) -> None:
    """Resign: without a session, `/controller` and memory are no longer valid."""
    context = step.context
    backing_off = context.role is Role.BACKING_OFF
    resign(step, f"the ZooKeeper session was lost: {reason}", session_ends=True)
    context.session_id = 0
    context.active_controller = NO_BROKER
    if not backing_off:
        context.role = Role.NO_SESSION


def control_lost(step: StepContext) -> None:
    """Resign because a fence failed: the term is over whatever `/controller` says. Look for the next controller."""
    resign(step, "a write was refused because /controller_epoch has changed")
    step.context.tasks.append(StandForElection())


def step_back(step: StepContext, reason: str) -> None:
    """End the session after a fault, so that another controller can take over; stand again after a back-off."""
    context = step.context
    resign(step, reason, session_ends=True)
    context.faults_in_a_row += 1
    config = context.config
    back_off = BackOff(config.stand_back_off_min_ms, config.stand_back_off_max_ms)
    wait_ms = back_off.wait_ms(context.faults_in_a_row)
    context.active_controller = NO_BROKER
    step.emit(RenewSession(reason))
    if context.retired:
        context.role = Role.RETIRED
    else:
        context.role = Role.BACKING_OFF
        step.set_timer(StandAgain(), step.now_ms + wait_ms)


def refuse_cluster(step: StepContext, why: str) -> None:
    """Do not control this cluster, and say why once. Look again from time to time: no event shows a change."""
    context = step.context
    context.role, context.refusal = Role.REFUSED, why
    if context.recorded_refusal != why:
        context.recorded_refusal = why
        step.refuse("cluster", "standing for election", why)
    step.set_timer(StandAgain(), step.now_ms + context.config.stand_back_off_max_ms)


def retire(step: StepContext, reason: str, patience_ms: int) -> None:
    """Give control up and never stand again. An active controller first waits for answers to tombstones."""
    context = step.context
    context.retired = True
    if context.is_leading:
        leaving.begin(step, reason, patience_ms)
        return
    if context.role is Role.TAKING:
        # `/controller` is ours only while both have these versions.
        group = (
            Check(paths.controller_epoch(), context.takeover_history.epoch_version),
            Delete(paths.controller(), context.takeover_history.version),
        )
        step.write([group], GivenUp(reason), fenced=False)
        return
    context.timers.pop(StandAgain(), None)
    if context.role in (Role.STANDING_BY, Role.BACKING_OFF):
        context.role = Role.RETIRED if context.session_id else Role.NO_SESSION
        step.do(*((StandForElection(),) if context.session_id else ()))


def give_up(step: StepContext, task: GiveUp) -> None:
    """Delete `/controller` and this controller's registration in `/brokers/ids`, in one fenced write; after the
    outcomes of writes in the background, so that memory knows what was removed."""
    context = step.context
    if context.is_leading and context.cluster.background:
        context.cluster.removals.then_resign = task.reason
    elif context.is_leading:
        registered = () if context.cluster.registered is None else (paths.broker_id(context.config.controller_id),)
        group = tuple(Delete(path, ANY_VERSION) for path in (*registered, paths.controller()))
        step.write([group], GivenUp(task.reason))


def on_given_up(step: StepContext, task: GivenUp, outcome: GroupOutcome) -> None:
    """Resign; stand again after a pause, so that another controller can take over. Retired: never stand again."""
    context = step.context
    if isinstance(outcome, GroupDone):
        context.cluster.registered = None
    elif context.cluster.registered is not None and isinstance(outcome, GroupFailed) and outcome.index_in_group == 0:
        # The registration was removed by hand: delete the rest.
        context.cluster.registered = None
        step.do(GiveUp(task.reason))
        return
    if context.role is Role.TAKING and not isinstance(outcome, GroupDone):
        # Where `/controller` is ours still, the epoch is the former holder's: no term may begin under it.
        step_back(step, task.reason)
        return
    resign(step, task.reason)
    step.do(StandForElection())
    if context.retired:
        return
    context.role = Role.BACKING_OFF
    step.set_timer(StandAgain(), step.now_ms + context.config.stand_back_off_min_ms)
