"""Ceasing to be controller: on request, because another one is, or because something is wrong.

Who resigns stops at once, and forgets the cluster. A lost reply to a write means that memory and znodes may differ.
There is one cure: give the session up, which removes our `/controller`, and load everything anew if elected again.
Standing again after a fault backs off, so that a znode that makes a controller fall over does not make controllers take
turns at it. Who is asked to give control up for good only watches from then on.
"""

from __future__ import annotations

from lethe.controller.core import leaving, owed
from lethe.controller.core.agenda import GiveUp, Stand
from lethe.controller.core.agenda_residence import Unregister
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.context import Context, Role
from lethe.controller.core.continuations import GivenUp
from lethe.controller.core.effects import CloseChannel, DisconnectBrokers, RenewSession, StandAgain, Timer
from lethe.controller.core.requests import refuse_all
from lethe.controller.core.turn import Turn
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import FactType
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import NO_BROKER
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Check, Delete
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

SETTLED_AFTER_MS = 60_000
"""A tenure in which a broker obeyed and that lasted this long counts as success: the next fault backs off from the
beginning."""


def at_rest(context: Context) -> Role:
    """What we are while nothing keeps us from what we are there for."""
    return Role.RETIRED if context.retired else Role.STANDING_BY


def resign(turn: Turn, reason: str, *, session_ends: bool = False) -> None:
    """Stop at once: channels closed, what was planned dropped, the cluster forgotten. Brokers are told nothing, but
    for those that wait for an answer: they are to look for another controller. A registration among the brokers goes
    with the session where that ends, and otherwise next."""
    context = turn.context
    if context.is_leading and context.retired:
        context.left_behind = leaving.left_behind(context)
    if context.is_leading:
        turn.record(
            FactType.ELECTION,
            f"controller/{context.config.controller_id}",
            what="resigned",
            epoch=context.cluster.epoch,
            reason=reason,
            tenure_ms=turn.now_ms - context.cluster.elected_at_ms,
        )
        if context.cluster.had_power and turn.now_ms - context.cluster.elected_at_ms >= SETTLED_AFTER_MS:
            context.faults_in_a_row = 0
    if context.is_leading and any(last.error == ErrorCode.NONE for last in context.cluster.last_answers.values()):
        context.preflight_passed_ms = turn.now_ms
    if context.holds_controller:
        context.role = at_rest(context)
    context.takings.going_on = None
    owed.record_lost(turn)
    refuse_all(turn)
    turn.emit(DisconnectBrokers(reason))
    for broker in context.cluster.brokers:
        turn.emit(CloseChannel(broker))
    timers: dict[Timer, int] = {timer: at for timer, at in context.timers.items() if isinstance(timer, StandAgain)}
    is_registered = context.cluster.registered is not None
    context.cluster = ClusterState()
    context.agenda.clear()
    context.awaited = None
    context.timers = timers
    if is_registered and not session_ends:
        turn.do(Unregister())


def session_lost(turn: Turn, reason: str) -> None:
    """Without a session nothing that we know or hold counts any more."""
    context = turn.context
    backing_off = context.role is Role.BACKING_OFF
    resign(turn, f"the ZooKeeper session was lost: {reason}", session_ends=True)
    context.session_id = 0
    context.active_controller = NO_BROKER
    if not backing_off:
        context.role = Role.NO_SESSION


def control_lost(turn: Turn) -> None:
    """The fence did not hold: whatever `/controller` says, the tenure is over. Look who follows."""
    resign(turn, "a write was refused because /controller_epoch has changed")
    turn.context.agenda.append(Stand())


def step_back(turn: Turn, reason: str) -> None:
    """After a fault: give the session up, so that another controller can take over, and stand again later."""
    context = turn.context
    resign(turn, reason, session_ends=True)
    context.faults_in_a_row += 1
    config = context.config
    back_off = BackOff(config.stand_back_off_min_ms, config.stand_back_off_max_ms)
    wait_ms = back_off.wait_ms(context.faults_in_a_row)
    context.active_controller = NO_BROKER
    turn.emit(RenewSession(reason))
    if context.retired:
        context.role = Role.RETIRED
    else:
        context.role = Role.BACKING_OFF
        turn.set_timer(StandAgain(), turn.now_ms + wait_ms)


def retire(turn: Turn, reason: str, patience_ms: int) -> None:
    """Give control up where we have it, and do not stand again. Answers to tombstones are waited for first."""
    context = turn.context
    context.retired = True
    if context.is_leading:
        leaving.begin(turn, reason, patience_ms)
        return
    if context.role is Role.TAKING:
        # Ours for as long as nobody was elected since.
        group = (
            Check(paths.controller_epoch(), context.takings.epoch_version),
            Delete(paths.controller(), ANY_VERSION),
        )
        turn.write([group], GivenUp(reason), fenced=False)
        return
    context.timers.pop(StandAgain(), None)
    if context.role in (Role.STANDING_BY, Role.BACKING_OFF):
        context.role = Role.RETIRED if context.session_id else Role.NO_SESSION
        turn.do(*((Stand(),) if context.session_id else ()))


def give_up(turn: Turn, task: GiveUp) -> None:
    """Delete our `/controller` in a fenced write, and with it our registration among the brokers."""
    context = turn.context
    if context.is_leading:
        registered = () if context.cluster.registered is None else (paths.broker_id(context.config.controller_id),)
        group = tuple(Delete(path, ANY_VERSION) for path in (*registered, paths.controller()))
        turn.write([group], GivenUp(task.reason))


def given_up(turn: Turn, task: GivenUp, outcome: GroupOutcome) -> None:
    """`/controller` is free: let another controller take it before we stand again, if we do."""
    context = turn.context
    if isinstance(outcome, GroupDone):
        context.cluster.registered = None
    elif context.cluster.registered is not None and isinstance(outcome, GroupFailed) and outcome.index_in_group == 0:
        # Somebody has removed the registration; the rest is still to be done.
        context.cluster.registered = None
        turn.do(GiveUp(task.reason))
        return
    resign(turn, task.reason)
    turn.do(Stand())
    if context.retired:
        return
    context.role = Role.BACKING_OFF
    turn.set_timer(StandAgain(), turn.now_ms + context.config.stand_back_off_min_ms)
