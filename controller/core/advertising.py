"""Ids of advertised controllers, and the registration that older brokers look for.

Replicas can be assigned to an advertised controller (`eviction`), and hold nothing. So that every controller can
recognize them, `/lethe/controllers/<id>` is written before the first broker receives that id, and is never removed.

Brokers up to 2.8 read the controller's address for ControlledShutdown from `/brokers/ids`, not from UpdateMetadata. If
the inter-broker protocol is older than 3.0, the active controller registers there with the entry of `listing` and a
field that marks it as a controller. The znode is ephemeral, and the multi that gives `/controller` up deletes it.
Without brokers there is no registration.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.controller.core import listing
from lethe.controller.core.context import Context
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_advertising import (
    AdvertisedControllersListed,
    OwnIdStored,
    Register,
    RegistrationRead,
    RegistrationRemoved,
    RegistrationWritten,
)
from lethe.protocol.journal import EventRecordType
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
    error_words,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome, write_failure_words

# --- ids ----------------------------------------------------------------------------------------------------------


def list_advertised_controllers(step: StepContext) -> None:
    """Read the ids of all controllers that were ever advertised."""
    step.read((GetChildren(paths.controllers()),), AdvertisedControllersListed())


def on_advertised_controllers_listed(step: StepContext, outcomes: Sequence[ReadOutcome]) -> None:
    """Store these ids, and write this controller's own id before any broker receives it."""
    context = step.context
    cluster = context.cluster
    names = outcomes[0].names if isinstance(outcomes[0], Children) else ()
    known = sorted(broker for broker in map(paths.broker_named, names) if broker is not None)
    cluster.advertised_controllers = dict.fromkeys(known)
    own = context.config.controller_id
    if context.config.endpoints and own not in cluster.advertised_controllers:
        cluster.advertised_controllers[own] = None
        needed = (paths.lethe(), paths.controllers(), paths.controller_known(own))
        step.write([(Create(path, None),) for path in needed], OwnIdStored())


def on_own_id_stored(step: StepContext, outcomes: Sequence[GroupOutcome]) -> None:
    """Record a failed write. It is harmless: the next controller takes this id for that of an absent broker."""
    outcome = outcomes[-1]
    if isinstance(outcome, GroupFailed) and outcome.error is not ZkError.NODE_EXISTS:
        path = paths.controller_known(step.context.config.controller_id)
        step.refuse("cluster", f"creating {path}", error_words(outcome.error))


# --- registration -------------------------------------------------------------------------------------------------


def register(step: StepContext) -> None:
    """Create, change or delete the registration, if it differs from the required one."""
    context = step.context
    wanted = _wanted(context)
    if wanted == context.cluster.registered:
        return
    path = _path(context)
    operation: Operation
    if wanted is None:
        operation = Delete(path, ANY_VERSION)
    elif context.cluster.registered is None:
        operation = Create(path, _encoded(step, wanted), ephemeral=True)
    else:
        operation = SetData(path, _encoded(step, wanted), ANY_VERSION)
    step.write([(operation,)], RegistrationWritten(wanted))


def _wanted(context: Context) -> Broker | None:
    if not context.cluster.brokers or not context.config.ibp.finds_controller_in_broker_ids:
        return None
    return listing.entry(context)


def _path(context: Context) -> str:
    return paths.broker_id(context.config.controller_id)


def _encoded(step: StepContext, wanted: Broker) -> bytes:
    version = 5 if step.context.config.ibp.has_feature_znode else 4
    return znodes.encode_broker(wanted, timestamp_ms=step.now_ms, version=version, is_controller=True)


def on_registration_written(step: StepContext, task: RegistrationWritten, outcome: GroupOutcome) -> None:
    """Store the written registration; after an error, read it or write it again."""
    context = step.context
    cluster = context.cluster
    if isinstance(outcome, GroupDone):
        cluster.registered = task.wanted
        what = "unregistered" if task.wanted is None else "registered"
        step.record(
            EventRecordType.ELECTION, f"controller/{context.config.controller_id}", what=what, epoch=cluster.epoch
        )
    elif isinstance(outcome, GroupFailed) and outcome.error is ZkError.NO_NODE:
        # It was removed by hand.
        cluster.registered = None
        step.do(*(() if task.wanted is None else (Register(),)))
    elif isinstance(outcome, GroupFailed) and outcome.error is ZkError.NODE_EXISTS:
        step.read((GetData(_path(context)),), RegistrationRead())
    else:
        why = write_failure_words(outcome)
        step.refuse("cluster", f"registering as {_path(context)}", why)


def on_registration_read(step: StepContext, outcomes: Sequence[ReadOutcome]) -> None:
    """Replace the registration of an earlier term under this id; leave a broker's registration alone."""
    context = step.context
    found, wanted = outcomes[0], _wanted(context)
    if wanted is None:
        return
    if not isinstance(found, Data):
        step.do(Register())
    elif znodes.is_controller_registration(found.data):
        path = _path(context)
        group = (Delete(path, found.stat.version), Create(path, _encoded(step, wanted), ephemeral=True))
        step.write([group], RegistrationWritten(wanted))
    else:
        why = "a broker is registered under this controller's id: give one of the two another broker.id"
        step.refuse("cluster", f"registering as {_path(context)}", why)


def unregister(step: StepContext) -> None:
    """Delete the registration, unfenced because control is lost. Only this controller writes under its id."""
    context = step.context
    if context.session_id and not context.is_leading:
        step.write([(Delete(_path(context), ANY_VERSION),)], RegistrationRemoved(), fenced=False)
