"""Becoming controller; `resigning` ends the term.

An election is one multi: create `/controller` (ephemeral) and raise `/controller_epoch` from the version just read.
Every later write checks that version (the *fence*). If the check fails, control is lost and the controller resigns at
once. The task `StandForElection` reads `/controller` and decides:

    `/controller`                              this controller leads    it does not lead
    -----------------------------------------  -----------------------  ----------------------------------------
    owned by this session, same epoch version  goes on                  has won unnoticed, or finishes a takeover
    owned by this session, other version       resigns                  has won unnoticed, or finishes a takeover
    owned by another session                   resigns                  stands by, or takes control (`takeover`)
    absent                                     resigns, stands later    stands for election

A cluster in migration to KRaft is refused (`/migration` has data, or `/controller` is persistent or names a KRaft
controller): two kinds of controller that write the same znodes would destroy it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core import epoch_raise, preflight, takeover
from lethe.controller.core.context import Context, Role
from lethe.controller.core.continuations import ElectionLookedUp, ElectionWritten, EpochNodeCreated
from lethe.controller.core.effects import StandAgain
from lethe.controller.core.resigning import at_rest, control_lost, refuse_cluster, resign, step_back
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import (
    ListBrokers,
    ListNotifications,
    ListTopics,
    StandForElection,
    TakeOver,
)
from lethe.controller.core.tasks_advertising import EvictReplicas, ListAdvertisedControllers
from lethe.controller.core.tasks_debts import ReadDebts
from lethe.controller.core.tasks_deletion import ListDeletions, ReadPause
from lethe.controller.core.tasks_power import ElectSelf, Preflight, TakeControl
from lethe.controller.core.tasks_requests import ReadConfiguration
from lethe.controller.core.tasks_trash import ReadTrash
from lethe.protocol.journal import EventRecordType, JsonValue
from lethe.protocol.vocabulary import NO_BROKER, ControllerEpoch, EpochVersion
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.json_fields import INT32_MAX
from lethe.protocol.zookeeper.operations import (
    FORBIDDEN,
    Check,
    Create,
    Data,
    Exists,
    GetData,
    ReadOutcome,
    SetData,
    error_words,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

_IN_MIGRATION = "/migration exists: this cluster is being migrated to KRaft, or was"


# --- sessions -----------------------------------------------------------------------------------------------------


def session_established(step: StepContext, session_id: int, entropy: bytes) -> None:
    """Start with a new session: stand for election, or when the back-off ends.

    The back-off's timer is set again: it may have fired just before the session was lost, and its event was dropped
    with all that were queued."""
    context = step.context
    context.session_id = session_id
    context.entropy = entropy
    context.drawn = 0
    if context.role is Role.BACKING_OFF:
        step.set_timer(StandAgain(), context.timers.get(StandAgain(), step.now_ms))
    else:
        context.role = at_rest(context)
        step.do(StandForElection())


# --- standing -----------------------------------------------------------------------------------------------------


def stand(step: StepContext) -> None:
    """Arm the watch on `/controller`, and read the znodes that decide about the election.

    The epoch is read before the holder. So a write that finds this epoch version is about the holder that was read.
    """
    step.read(
        (
            Exists(paths.controller(), watch=True),
            GetData(paths.controller_epoch()),
            GetData(paths.controller()),
            GetData(paths.migration()),
        ),
        ElectionLookedUp(),
    )


def stand_again(step: StepContext) -> None:
    """The timer fired: the back-off is over, control may be taken, or a refused cluster is checked again."""
    context = step.context
    if context.role in (Role.REFUSED, Role.STANDING_BY, Role.TAKING):
        step.do(StandForElection())
    elif context.role is Role.BACKING_OFF:
        context.role = at_rest(context) if context.session_id else Role.NO_SESSION
        if context.session_id:
            step.do(StandForElection())


def on_election_looked_up(step: StepContext, outcomes: Sequence[ReadOutcome]) -> None:
    """Decide by the holder of `/controller`: see the table above."""
    context = step.context
    _, epoch, controller, migration = outcomes
    if isinstance(controller, Data):
        _held_by_another_session(step, controller, epoch, migration)
        return
    context.takeover_history.going_on = None
    if context.is_leading:
        # It was removed so that another controller takes over: a Kafka broker does within milliseconds, if we wait.
        resign(step, "/controller is gone")
        if not context.retired:
            context.role = Role.BACKING_OFF
            step.set_timer(StandAgain(), step.now_ms + context.config.stand_back_off_min_ms)
    context.active_controller = NO_BROKER
    if _is_in_migration(migration):
        refuse_cluster(step, _IN_MIGRATION)
    elif context.role is not Role.BACKING_OFF:
        _come_to_rest(context, stands=not context.retired)
        if not context.retired:
            _be_elected(step, epoch)


def _held_by_another_session(step: StepContext, controller: Data, epoch: ReadOutcome, migration: ReadOutcome) -> None:
    context = step.context
    znode: znodes.ControllerZnode | None = None
    holder, kraft = NO_BROKER, False
    try:
        znode = znodes.decode_controller(controller.data)
    except znodes.MalformedZnode as error:
        step.refuse("controller", "reading /controller", str(error))
    else:
        holder, kraft = znode.broker_id, znode.kraft_epoch > 0
    context.active_controller = holder
    if controller.stat.ephemeral_owner == context.session_id:
        if context.takeover_history.going_on is not None:
            _finish_takeover(step, epoch, migration)
        elif not context.is_leading:
            _find_own_election(step, epoch)
        elif not isinstance(epoch, Data) or epoch.stat.version != context.cluster.epoch_version:
            control_lost(step)
        else:
            epoch_raise.consider(step, controller.stat.version)
        return
    context.takeover_history.going_on = None
    if context.is_leading:
        resign(step, f"controller {holder} holds /controller")
    if kraft or controller.stat.ephemeral_owner == 0:
        refuse_cluster(step, f"/controller is persistent and names {holder}: a KRaft controller holds this cluster")
    elif context.role is not Role.BACKING_OFF:
        due_ms = takeover.due_ms(context, step.now_ms)
        takes = znode is not None and not context.retired and takeover.may_be_taken_from(znode) and due_ms is not None
        _come_to_rest(context, stands=takes)
        if takes:
            _take_in_time(step, controller, epoch, migration)


def _is_in_migration(migration: ReadOutcome) -> bool:
    """Return whether a KRaft controller has written `/migration`. Kafka's zookeeper-security-migration makes it too,
    without data, since 3.8."""
    return isinstance(migration, Data) and bool(migration.data)


def _come_to_rest(context: Context, *, stands: bool) -> None:
    """Set the idle role. After a failed preflight, the role stays until another preflight has passed."""
    if not stands:
        preflight.forget(context)
        context.recorded_refusal = None
    if not context.preflights_failed:
        context.role, context.refusal = at_rest(context), None


def _take_in_time(step: StepContext, controller: Data, epoch: ReadOutcome, migration: ReadOutcome) -> None:
    """Take control from its holder, now or when it is due; do nothing where it is not configured."""
    due_ms = takeover.due_ms(step.context, step.now_ms)
    if due_ms is None:
        return
    if due_ms > step.now_ms:
        step.set_timer(StandAgain(), due_ms)
    elif _is_in_migration(migration):
        refuse_cluster(step, _IN_MIGRATION)
    elif not isinstance(epoch, Data):
        step.refuse("cluster", "taking control", f"{paths.controller_epoch()} is not there to be checked")
    elif _next_epoch(step, epoch) is not None:
        step.do(Preflight(TakeControl(controller, epoch)))


def take_control(step: StepContext, task: TakeControl) -> None:
    """Take control from its holder, after a preflight."""
    number = _next_epoch(step, task.epoch)
    if number is not None:
        takeover.take(step, task.holder, task.epoch, ControllerEpoch(number - 1), _own_znode(step))


def _finish_takeover(step: StepContext, epoch: ReadOutcome, migration: ReadOutcome) -> None:
    """Raise the epoch when the grace period of the former holder is over; wait before."""
    takeover_history = step.context.takeover_history
    if _is_in_migration(migration):
        step_back(step, _IN_MIGRATION)
    elif not isinstance(epoch, Data):
        step_back(step, f"{paths.controller()} is ours, and {paths.controller_epoch()} is gone")
    elif _have_raised(step, epoch):
        _find_own_election(step, epoch)
    elif step.now_ms < takeover_history.due_ms:
        takeover.wait(step)
    elif (number := _next_epoch(step, epoch)) is not None:
        takeover_history.raising, takeover_history.raised_to = epoch.stat.version, number
        data = znodes.encode_controller_epoch(number)
        ours = Check(paths.controller(), takeover_history.version)
        group = (ours, SetData(paths.controller_epoch(), data, epoch.stat.version))
        step.write([group], ElectionWritten(number), fenced=False)
    else:
        step_back(step, f"{paths.controller()} is ours, and {paths.controller_epoch()} cannot be raised")


def _have_raised(step: StepContext, epoch: Data) -> bool:
    """True if this controller's write of the epoch was applied, with or without a reply: version and number match."""
    takeover_history = step.context.takeover_history
    if takeover_history.raising is None or epoch.stat.version != takeover_history.raising + 1:
        return False
    return _readable_epoch(step, epoch) == takeover_history.raised_to


def _find_own_election(step: StepContext, epoch: ReadOutcome) -> None:
    """Begin the term: this session owns `/controller`, and the reply to the election was lost."""
    number = _readable_epoch(step, epoch)
    if number is not None and isinstance(epoch, Data):
        _won(step, number, EpochVersion(epoch.stat.version))
    else:
        step_back(step, "/controller is ours, and /controller_epoch says nothing")


def _readable_epoch(step: StepContext, outcome: ReadOutcome) -> ControllerEpoch | None:
    if isinstance(outcome, Data):
        try:
            return znodes.decode_controller_epoch(outcome.data)
        except znodes.MalformedZnode as error:
            refuse_cluster(step, str(error))
    return None


def _be_elected(step: StepContext, epoch: ReadOutcome) -> None:
    if not isinstance(epoch, Data):
        step.write(
            [(Create(paths.controller_epoch(), znodes.encode_controller_epoch(0)),)], EpochNodeCreated(), fenced=False
        )
        return
    step.do(Preflight(ElectSelf(epoch)))


def elect_self(step: StepContext, task: ElectSelf) -> None:
    """Write the election, after a preflight. It fails if another controller was faster."""
    epoch = task.epoch
    new_epoch = _next_epoch(step, epoch)
    if new_epoch is None:
        return
    group = (
        _own_znode(step),
        SetData(paths.controller_epoch(), znodes.encode_controller_epoch(new_epoch), epoch.stat.version),
    )
    step.write([group], ElectionWritten(new_epoch, epoch.stat.mzxid), fenced=False)


def _own_znode(step: StepContext) -> Create:
    config = step.context.config
    znode = znodes.ControllerZnode(config.controller_id, step.now_ms, admin=config.admin)
    version = 2 if config.ibp.has_kraft_controller_epoch else 1
    return Create(paths.controller(), znodes.encode_controller(znode, version=version), ephemeral=True)


def _next_epoch(step: StepContext, epoch: Data) -> ControllerEpoch | None:
    """Return the epoch of a term that begins now; None: there is none, and the cluster is refused."""
    number = _readable_epoch(step, epoch)
    if number is None:
        return None
    if number >= INT32_MAX:
        # Elections cannot reach this number, and no request can carry the next one.
        refuse_cluster(step, f"{paths.controller_epoch()} holds {number}, after which there is no epoch")
        return None
    return ControllerEpoch(number + 1)


def on_epoch_node_created(step: StepContext, outcome: GroupOutcome) -> None:
    """Read `/controller_epoch`, which this or another controller has created."""
    _look_again(step, outcome)


def on_election_written(step: StepContext, task: ElectionWritten, outcome: GroupOutcome) -> None:
    """Begin the term, or look again: another controller was faster, or the reply was lost."""
    context = step.context
    if isinstance(outcome, GroupDone) and outcome.stats[-1] is not None:
        context.active_controller = context.config.controller_id
        context.cluster.previous_term_zxid, context.cluster.term_zxid = task.before_zxid, outcome.stats[-1].mzxid
        _won(step, task.new_epoch, EpochVersion(outcome.stats[-1].version))
    else:
        if isinstance(outcome, GroupFailed):
            # The write was not applied, so the next version of the epoch is another controller's.
            context.takeover_history.raising = None
        _look_again(step, outcome)


def _look_again(step: StepContext, outcome: GroupOutcome) -> None:
    """Stand again at once if another controller's write explains the error; back off after other errors."""
    if not isinstance(outcome, GroupFailed) or outcome.error in takeover.OVERTAKEN:
        step.do(StandForElection())
        return
    why = f"standing for election failed with {error_words(outcome.error)}"
    if outcome.error in FORBIDDEN and step.context.role is not Role.TAKING:
        refuse_cluster(step, why)
    else:
        step_back(step, why)


def _won(step: StepContext, epoch: ControllerEpoch, version: EpochVersion) -> None:
    """Begin the term: load the cluster in Kafka's order."""
    context = step.context
    context.role, context.refusal, context.recorded_refusal = Role.LOADING, None, None
    context.cluster.epoch, context.cluster.epoch_version = epoch, version
    context.cluster.elected_at_ms = step.now_ms
    taken: dict[str, JsonValue] = {}
    if context.takeover_history.going_on is not None:
        taken["taken_from"] = context.takeover_history.latest = context.takeover_history.going_on
        context.takeover_history.going_on = None
    step.record(
        EventRecordType.ELECTION,
        f"controller/{context.config.controller_id}",
        what="elected",
        epoch=epoch,
        version=version,
        **taken,
    )
    step.do(
        ListNotifications(),
        ReadConfiguration(loading=True),
        ListAdvertisedControllers(),
        ListBrokers(loading=True),
        ReadTrash(),
        ListTopics(loading=True),
        EvictReplicas(loading=True),
        ReadDebts(),
        ReadPause(loading=True),
        ListDeletions(loading=True),
        TakeOver(),
    )
