"""Becoming controller; `resigning` is about ceasing to be.

Being elected is one multi: create `/controller` (ephemeral) and raise `/controller_epoch` from the version just read.
From then on every write checks that version; where the check fails control is lost, whatever else happened, and we
resign at once. `/controller` is looked at with the same task whoever holds it: nobody: be elected; another: stand by;
another while we lead: resign. It is ours only if our session owns it.

Whether control is taken from one that holds it is `takeover`'s.

A cluster in migration to KRaft (`/migration` exists, or `/controller` is persistent) is refused: two kinds of
controller writing the same znodes would destroy it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core import epoch_raise, preflight, takeover
from lethe.controller.core.agenda import ListBrokers, ListNotifications, ListTopics, ReadStates, Stand, TakeOver
from lethe.controller.core.agenda_deletion import ListDeletions, ReadPause
from lethe.controller.core.agenda_power import ElectSelf, Preflight, TakeControl
from lethe.controller.core.agenda_requests import ReadConfiguration
from lethe.controller.core.agenda_residence import EvictReplicas, ListResidents
from lethe.controller.core.context import Context, Role
from lethe.controller.core.continuations import ElectionLookedUp, ElectionWritten, EpochNodeCreated
from lethe.controller.core.effects import StandAgain
from lethe.controller.core.resigning import at_rest, control_lost, resign, step_back
from lethe.controller.core.turn import Turn
from lethe.protocol.journal import FactType, JsonValue
from lethe.protocol.vocabulary import NO_BROKER, ControllerEpoch, EpochVersion
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.json_fields import INT32_MAX
from lethe.protocol.zookeeper.operations import (
    Check,
    Create,
    Data,
    Exists,
    GetData,
    Present,
    ReadOutcome,
    SetData,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

_IN_MIGRATION = "/migration exists: this cluster is being migrated to KRaft, or was"


# --- sessions -----------------------------------------------------------------------------------------------------


def session_established(turn: Turn, session_id: int, entropy: bytes) -> None:
    """A new session: stand for election, unless a fault has to be waited out first."""
    context = turn.context
    context.session_id = session_id
    context.entropy = entropy
    context.ids_made = 0
    if context.role is not Role.BACKING_OFF:
        context.role = at_rest(context)
        turn.do(Stand())


# --- standing -----------------------------------------------------------------------------------------------------


def stand(turn: Turn) -> None:
    """Arm the watch on `/controller` and read what decides whether we may be elected.

    The epoch before its holder: a write that finds this version concerns the very tenure that was read after it.
    """
    turn.read(
        (
            Exists(paths.controller(), watch=True),
            GetData(paths.controller_epoch()),
            GetData(paths.controller()),
            Exists(paths.migration()),
        ),
        ElectionLookedUp(),
    )


def stand_again(turn: Turn) -> None:
    """The time of backing off is over, control may be taken, or a refused cluster is looked at again."""
    context = turn.context
    if context.role in (Role.REFUSED, Role.STANDING_BY, Role.TAKING):
        turn.do(Stand())
    elif context.role is Role.BACKING_OFF:
        context.role = at_rest(context) if context.session_id else Role.NO_SESSION
        if context.session_id:
            turn.do(Stand())


def looked_up(turn: Turn, outcomes: Sequence[ReadOutcome]) -> None:
    """Decide on who holds `/controller` now."""
    context = turn.context
    _, epoch, controller, migration = outcomes
    if isinstance(controller, Data):
        _somebody_holds(turn, controller, epoch, migration)
        return
    context.takings.going_on = None
    if context.is_leading:
        # Whoever removed it wants another controller: Kafka's brokers have it within milliseconds, if we let them.
        resign(turn, "/controller is gone")
        if not context.retired:
            context.role = Role.BACKING_OFF
            turn.set_timer(StandAgain(), turn.now_ms + context.config.stand_back_off_min_ms)
    context.active_controller = NO_BROKER
    if isinstance(migration, Present):
        _refuse_cluster(turn, _IN_MIGRATION)
    elif context.role is not Role.BACKING_OFF:
        _come_to_rest(context, stands=not context.retired)
        if not context.retired:
            _be_elected(turn, epoch)


def _somebody_holds(turn: Turn, controller: Data, epoch: ReadOutcome, migration: ReadOutcome) -> None:
    context = turn.context
    znode: znodes.ControllerZnode | None = None
    holder, kraft = NO_BROKER, False
    try:
        znode = znodes.decode_controller(controller.data)
    except znodes.MalformedZnode as error:
        turn.refuse("controller", "reading /controller", str(error))
    else:
        holder, kraft = znode.broker_id, znode.kraft_epoch > 0
    context.active_controller = holder
    if controller.stat.ephemeral_owner == context.session_id:
        if context.takings.going_on is not None:
            _finish_taking(turn, epoch, migration)
        elif not context.is_leading:
            _find_own_election(turn, epoch)
        elif not isinstance(epoch, Data) or epoch.stat.version != context.cluster.epoch_version:
            control_lost(turn)
        else:
            epoch_raise.consider(turn)
        return
    context.takings.going_on = None
    if context.is_leading:
        resign(turn, f"controller {holder} holds /controller")
    if kraft or controller.stat.ephemeral_owner == 0:
        _refuse_cluster(turn, f"/controller is persistent and names {holder}: a KRaft controller holds this cluster")
    elif context.role is not Role.BACKING_OFF:
        due_ms = takeover.due_ms(context, turn.now_ms)
        takes = znode is not None and not context.retired and takeover.may_be_taken_from(znode) and due_ms is not None
        _come_to_rest(context, stands=takes)
        if takes:
            _take_in_time(turn, controller, epoch, migration)


def _come_to_rest(context: Context, *, stands: bool) -> None:
    """Nothing keeps us from control any more; but a preflight that failed does until another one has succeeded."""
    if not stands:
        preflight.forget(context)
    if not context.preflights_failed:
        context.role, context.refusal = at_rest(context), None


def _take_in_time(turn: Turn, controller: Data, epoch: ReadOutcome, migration: ReadOutcome) -> None:
    """Take control from who holds it, now or when that is due; not at all where that is not what we are told."""
    due_ms = takeover.due_ms(turn.context, turn.now_ms)
    if due_ms is None:
        return
    if due_ms > turn.now_ms:
        turn.set_timer(StandAgain(), due_ms)
    elif isinstance(migration, Present):
        _refuse_cluster(turn, _IN_MIGRATION)
    elif not isinstance(epoch, Data):
        turn.refuse("cluster", "taking control", f"{paths.controller_epoch()} is not there to be checked")
    elif _next_epoch(turn, epoch) is not None:
        turn.do(Preflight(TakeControl(controller, epoch)))


def take_control(turn: Turn, task: TakeControl) -> None:
    """Brokers can be commanded: take control from its holder."""
    number = _next_epoch(turn, task.epoch)
    if number is not None:
        takeover.take(turn, task.holder, task.epoch, ControllerEpoch(number - 1), _own_znode(turn))


def _finish_taking(turn: Turn, epoch: ReadOutcome, migration: ReadOutcome) -> None:
    """`/controller` is ours, and its former holder has had time to notice, or has not yet."""
    takings = turn.context.takings
    if isinstance(migration, Present):
        step_back(turn, _IN_MIGRATION)
    elif not isinstance(epoch, Data):
        step_back(turn, f"{paths.controller()} is ours, and {paths.controller_epoch()} is gone")
    elif _have_raised(turn, epoch):
        _find_own_election(turn, epoch)
    elif turn.now_ms < takings.due_ms:
        takeover.wait(turn)
    elif (number := _next_epoch(turn, epoch)) is not None:
        takings.raising, takings.raised_to = epoch.stat.version, number
        data = znodes.encode_controller_epoch(number)
        group = (Check(paths.controller(), 0), SetData(paths.controller_epoch(), data, epoch.stat.version))
        turn.write([group], ElectionWritten(number), fenced=False)
    else:
        step_back(turn, f"{paths.controller()} is ours, and {paths.controller_epoch()} cannot be raised")


def _have_raised(turn: Turn, epoch: Data) -> bool:
    """Our write of the epoch was applied, whatever became of its reply: its version and its number are there."""
    takings = turn.context.takings
    if takings.raising is None or epoch.stat.version != takings.raising + 1:
        return False
    return _readable_epoch(turn, epoch) == takings.raised_to


def _find_own_election(turn: Turn, epoch: ReadOutcome) -> None:
    """Our session owns `/controller` but we never heard that we won: the reply was lost."""
    number = _readable_epoch(turn, epoch)
    if number is not None and isinstance(epoch, Data):
        _won(turn, number, EpochVersion(epoch.stat.version))
    else:
        step_back(turn, "/controller is ours, and /controller_epoch says nothing")


def _readable_epoch(turn: Turn, outcome: ReadOutcome) -> ControllerEpoch | None:
    if isinstance(outcome, Data):
        try:
            return znodes.decode_controller_epoch(outcome.data)
        except znodes.MalformedZnode as error:
            _refuse_cluster(turn, str(error))
    return None


def _refuse_cluster(turn: Turn, why: str) -> None:
    turn.context.role = Role.REFUSED
    if turn.context.refusal != why:
        turn.context.refusal = why
        turn.refuse("cluster", "standing for election", why)
    # Nothing tells when a migration is over: look again from time to time.
    turn.set_timer(StandAgain(), turn.now_ms + turn.context.config.stand_back_off_max_ms)


def _be_elected(turn: Turn, epoch: ReadOutcome) -> None:
    if not isinstance(epoch, Data):
        turn.write(
            [(Create(paths.controller_epoch(), znodes.encode_controller_epoch(0)),)], EpochNodeCreated(), fenced=False
        )
        return
    turn.do(Preflight(ElectSelf(epoch)))


def elect_self(turn: Turn, task: ElectSelf) -> None:
    """Brokers can be commanded, or none is registered: be elected, unless another controller is quicker."""
    epoch = task.epoch
    new_epoch = _next_epoch(turn, epoch)
    if new_epoch is None:
        return
    group = (
        _own_znode(turn),
        SetData(paths.controller_epoch(), znodes.encode_controller_epoch(new_epoch), epoch.stat.version),
    )
    turn.write([group], ElectionWritten(new_epoch), fenced=False)


def _own_znode(turn: Turn) -> Create:
    config = turn.context.config
    znode = znodes.ControllerZnode(config.controller_id, turn.now_ms, admin=config.admin)
    version = 2 if config.ibp.has_kraft_controller_epoch else 1
    return Create(paths.controller(), znodes.encode_controller(znode, version=version), ephemeral=True)


def _next_epoch(turn: Turn, epoch: Data) -> ControllerEpoch | None:
    """The epoch of a tenure that begins now; None where there can be none, and the cluster is refused."""
    number = _readable_epoch(turn, epoch)
    if number is None:
        return None
    if number >= INT32_MAX:
        # Nobody reaches it by elections, and no request can carry the next one.
        _refuse_cluster(turn, f"{paths.controller_epoch()} holds {number}, after which there is no epoch")
        return None
    return ControllerEpoch(number + 1)


def epoch_node_created(turn: Turn, outcome: GroupOutcome) -> None:
    """Created, or somebody else was quicker: read it."""
    _look_again(turn, outcome)


def election_written(turn: Turn, task: ElectionWritten, outcome: GroupOutcome) -> None:
    """Won, or look again: somebody else was quicker, or our reply was lost."""
    context = turn.context
    if isinstance(outcome, GroupDone) and outcome.stats[-1] is not None:
        context.active_controller = context.config.controller_id
        _won(turn, task.new_epoch, EpochVersion(outcome.stats[-1].version))
    else:
        if isinstance(outcome, GroupFailed):
            # It was not applied: whoever wrote the next version, its epoch is not that of a tenure of ours.
            context.takings.raising = None
        _look_again(turn, outcome)


def _look_again(turn: Turn, outcome: GroupOutcome) -> None:
    """Somebody else's write explains some errors; for the others looking at once would only fail again at once."""
    if isinstance(outcome, GroupFailed) and outcome.error not in takeover.OVERTAKEN:
        step_back(turn, f"standing for election failed with {outcome.error.name}")
    else:
        turn.do(Stand())


def _won(turn: Turn, epoch: ControllerEpoch, version: EpochVersion) -> None:
    """Load the cluster in the order in which Kafka does: what is read last is acted on first."""
    context = turn.context
    context.role, context.refusal = Role.LOADING, None
    context.cluster.epoch, context.cluster.epoch_version = epoch, version
    context.cluster.elected_at_ms = turn.now_ms
    taken: dict[str, JsonValue] = {}
    if context.takings.going_on is not None:
        taken["taken_from"] = context.takings.latest = context.takings.going_on
        context.takings.going_on = None
    turn.record(
        FactType.ELECTION,
        f"controller/{context.config.controller_id}",
        what="elected",
        epoch=epoch,
        version=version,
        **taken,
    )
    turn.do(
        ListNotifications(),
        ReadConfiguration(loading=True),
        ListResidents(),
        ListBrokers(loading=True),
        ListTopics(loading=True),
        ReadStates(),
        EvictReplicas(loading=True),
        ReadPause(loading=True),
        ListDeletions(loading=True),
        TakeOver(),
    )
