"""Ids of controllers that are listed among the brokers, and the registration that older brokers look for.

Replicas can be assigned to a listed controller (`eviction`), and hold nothing. So that every controller can recognize
them, `/lethe/controllers/<id>` is written before the first broker receives that id, and is never removed.

Brokers up to 2.8 read the controller's address for ControlledShutdown from `/brokers/ids`, not from UpdateMetadata. If
the inter-broker protocol is older than 3.0, the active controller registers there with the entry of `listing` and a
field that marks it as a controller. The znode is ephemeral, and the multi that gives `/controller` up deletes it.
Without brokers there is no registration.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core import listing
from lethe.controller.core.agenda_residence import (
    Register,
    RegistrationRead,
    RegistrationRemoved,
    RegistrationWritten,
    ResidentNoted,
    ResidentsListed,
)
from lethe.controller.core.context import Context
from lethe.controller.core.turn import Turn
from lethe.protocol.journal import FactType
from lethe.protocol.vocabulary import Broker
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Children,
    Create,
    Data,
    Delete,
    GetChildren,
    GetData,
    Operation,
    ReadOutcome,
    SetData,
    ZkError,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

# --- ids ----------------------------------------------------------------------------------------------------------


def list_residents(turn: Turn) -> None:
    """Read the ids of all controllers that were ever listed."""
    turn.read((GetChildren(paths.controllers()),), ResidentsListed())


def residents_listed(turn: Turn, outcomes: Sequence[ReadOutcome]) -> None:
    """Store these ids, and write this controller's own id before any broker receives it."""
    context = turn.context
    cluster = context.cluster
    names = outcomes[0].names if isinstance(outcomes[0], Children) else ()
    known = sorted(broker for broker in map(paths.broker_named, names) if broker is not None)
    cluster.residents = dict.fromkeys(known)
    own = context.config.controller_id
    if context.config.endpoints and own not in cluster.residents:
        cluster.residents[own] = None
        needed = (paths.lethe(), paths.controllers(), paths.controller_known(own))
        turn.write([(Create(path, None),) for path in needed], ResidentNoted())


def resident_noted(turn: Turn, outcomes: Sequence[GroupOutcome]) -> None:
    """Record a failed write. It is harmless: the next controller takes this id for that of an absent broker."""
    outcome = outcomes[-1]
    if isinstance(outcome, GroupFailed) and outcome.error is not ZkError.NODE_EXISTS:
        path = paths.controller_known(turn.context.config.controller_id)
        turn.refuse("cluster", f"creating {path}", outcome.error.name)


# --- registration -------------------------------------------------------------------------------------------------


def register(turn: Turn) -> None:
    """Create, change or delete the registration, if it differs from the required one."""
    context = turn.context
    wanted = _wanted(context)
    if wanted == context.cluster.registered:
        return
    path = _path(context)
    operation: Operation
    if wanted is None:
        operation = Delete(path, ANY_VERSION)
    elif context.cluster.registered is None:
        operation = Create(path, _encoded(turn, wanted), ephemeral=True)
    else:
        operation = SetData(path, _encoded(turn, wanted), ANY_VERSION)
    turn.write([(operation,)], RegistrationWritten(wanted))


def _wanted(context: Context) -> Broker | None:
    if not context.cluster.brokers or not context.config.ibp.finds_controller_in_broker_ids:
        return None
    return listing.entry(context)


def _path(context: Context) -> str:
    return paths.broker_id(context.config.controller_id)


def _encoded(turn: Turn, wanted: Broker) -> bytes:
    version = 5 if turn.context.config.ibp.has_feature_znode else 4
    return znodes.encode_broker(wanted, timestamp_ms=turn.now_ms, version=version, is_controller=True)


def registration_written(turn: Turn, task: RegistrationWritten, outcome: GroupOutcome) -> None:
    """Store the written registration; after an error, read it or write it again."""
    context = turn.context
    cluster = context.cluster
    if isinstance(outcome, GroupDone):
        cluster.registered = task.wanted
        what = "unregistered" if task.wanted is None else "registered"
        turn.record(FactType.ELECTION, f"controller/{context.config.controller_id}", what=what, epoch=cluster.epoch)
    elif isinstance(outcome, GroupFailed) and outcome.error is ZkError.NO_NODE:
        # It was removed by hand.
        cluster.registered = None
        turn.do(*(() if task.wanted is None else (Register(),)))
    elif isinstance(outcome, GroupFailed) and outcome.error is ZkError.NODE_EXISTS:
        turn.read((GetData(_path(context)),), RegistrationRead())
    else:
        why = outcome.error.name if isinstance(outcome, GroupFailed) else "its outcome is not known"
        turn.refuse("cluster", f"registering as {_path(context)}", why)


def registration_read(turn: Turn, outcomes: Sequence[ReadOutcome]) -> None:
    """Replace the registration of an earlier tenure under this id; leave a broker's registration alone."""
    context = turn.context
    found, wanted = outcomes[0], _wanted(context)
    if wanted is None:
        return
    if not isinstance(found, Data):
        turn.do(Register())
    elif znodes.is_controller_registration(found.data):
        path = _path(context)
        group = (Delete(path, found.stat.version), Create(path, _encoded(turn, wanted), ephemeral=True))
        turn.write([group], RegistrationWritten(wanted))
    else:
        why = "a broker is registered under this controller's id: give one of the two another broker.id"
        turn.refuse("cluster", f"registering as {_path(context)}", why)


def unregister(turn: Turn) -> None:
    """Delete the registration, unfenced because control is lost. Only this controller writes under its id."""
    context = turn.context
    if context.session_id and not context.is_leading:
        turn.write([(Delete(_path(context), ANY_VERSION),)], RegistrationRemoved(), fenced=False)
