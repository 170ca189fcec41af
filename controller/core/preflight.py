"""Looking, before control is taken, whether the registered brokers can be commanded. It is what nothing shows later.

A controller that takes `/controller` and cannot command the brokers keeps those from leading that could: no broker's
death is announced, no leader elected. So before an election and before a takeover each registered broker is probed with
a request that changes nothing: a StopReplica without topics, under controller epoch -1 and without a broker epoch.
Every broker checks the right ClusterAction first (CLUSTER_AUTHORIZATION_FAILED) and the controller epoch next. Its own
is 0 at least, so that the answer of one that can be commanded is STALE_CONTROLLER_EPOCH, whatever it has seen before.

    answer or sign                              verdict
    STALE_CONTROLLER_EPOCH, NONE                can be commanded
    CLUSTER_AUTHORIZATION_FAILED                cannot, until its authorizer allows it
    no listener that Lethe speaks               cannot, until its listeners change
    another error, no answer, no connection     does not answer: broken, or just starting

The rule. No broker registered: go on, there is nothing to be powerless over. Brokers cannot be listed, or no
registration says where its broker is: do not, for that is not the same as none. Some broker cannot be commanded: do
not, since a cluster of which a controller commands a part is worse off than under Kafka's, which commands it whole.
None can be commanded for sure: do not. Otherwise go on, and name those that do not answer: finishing deletions beside
broken brokers is what this controller is for.

Where control is not taken, the reason is shown (`Role.REFUSED`), and it is looked again after a while, and when brokers
come or go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.controller.core.agenda_power import BrokersProbed, Preflight, RegistrationsListed, RegistrationsRead
from lethe.controller.core.context import Context, Role
from lethe.controller.core.effects import ProbeTarget, StandAgain
from lethe.controller.core.endpoints import is_spoken
from lethe.controller.core.events import ProbeOutcome
from lethe.controller.core.turn import Turn
from lethe.protocol.back_off import BackOff
from lethe.protocol.kafka.control import probe_request
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.vocabulary import Broker, BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    GetChildren,
    GetData,
    ReadFailed,
    ReadOutcome,
    ZkError,
    is_absent,
)

_COMMANDED: Final = (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.NONE)
_WHAT: Final = "taking control"
_NAMED: Final = 10
VALID_MS: Final = 5_000
"""How long the result of a probe, or a term in which brokers obeyed to its end, is good for another attempt."""


def begin(turn: Turn, task: Preflight) -> None:
    """Read which brokers are registered, and be told when that changes; or go on where brokers obeyed just now. Whoever
    lost a race for `/controller` would lose each of them otherwise, against controllers that do not look."""
    passed_ms = turn.context.preflight_passed_ms
    if passed_ms is not None and turn.now_ms - passed_ms < VALID_MS:
        _go_on(turn, task)
        return
    turn.read((GetChildren(paths.broker_ids(), watch=True),), RegistrationsListed(task.then))


def listed(turn: Turn, task: RegistrationsListed, outcomes: Sequence[ReadOutcome]) -> None:
    """Read their registrations. Brokers that cannot be listed are no absence of brokers."""
    (outcome,) = outcomes
    if isinstance(outcome, ReadFailed) and outcome.error is not ZkError.NO_NODE:
        _stay(turn, f"{paths.broker_ids()} cannot be read ({outcome.error.name})")
        return
    names = outcome.names if isinstance(outcome, Children) else ()
    ids = tuple(sorted(broker for broker in map(paths.broker_named, names) if broker is not None))
    if ids:
        turn.read((GetData(paths.broker_id(broker)) for broker in ids), RegistrationsRead(task.then, ids))
    else:
        _go_on(turn, Preflight(task.then))


def were_read(turn: Turn, task: RegistrationsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Probe those that can be reached. A registration that cannot be understood is passed over, as after the
    election; where there are only such, nobody can be commanded."""
    context = turn.context
    found = [_understood(broker, outcome) for broker, outcome in zip(task.ids, outcomes, strict=True)]
    brokers = tuple(each for each in found if isinstance(each, Broker))
    if not brokers:
        unclear = [f"broker {broker} ({each})" for broker, each in zip(task.ids, found, strict=True) if each]
        if unclear:
            _stay(turn, f"no registration says where its broker is: {_listed(unclear)}")
        else:
            _go_on(turn, Preflight(task.then))
        return
    endpoints = [(broker, context.control_endpoint(broker)) for broker in brokers]
    unspoken = [f"broker {b.id} ({end.listener}: {end.protocol.name})" for b, end in endpoints if not is_spoken(end)]
    if unspoken:
        _stay(turn, f"Lethe speaks PLAINTEXT only and cannot command {_listed(unspoken)}")
        return
    targets = (ProbeTarget(broker.id, endpoint) for broker, endpoint in endpoints)
    turn.probe(probe_request(context.config.controller_id), targets, BrokersProbed(task.then, brokers))


def _understood(broker: BrokerId, outcome: ReadOutcome) -> Broker | str | None:
    """The broker; what is wrong with its registration; or None for a controller's, and for one that is gone again."""
    if not isinstance(outcome, Data):
        return None if is_absent(outcome) else f"{paths.broker_id(broker)} cannot be read"
    if znodes.is_controller_registration(outcome.data):
        return None
    try:
        found = znodes.decode_broker(broker, outcome.stat.czxid, outcome.data)
    except znodes.MalformedZnode as malformed:
        return str(malformed)
    return found if found.endpoints else f"{paths.broker_id(broker)} names no listener"


def probed(turn: Turn, task: BrokersProbed, outcomes: Sequence[ProbeOutcome]) -> None:
    """Decide by the rule of this module."""
    refused = [f"broker {each.broker}" for each in outcomes if each.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    silent = [each for each in outcomes if each.error not in (*_COMMANDED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    if refused:
        _stay(
            turn,
            f"the authorizer of {_listed(refused)} refuses this controller (CLUSTER_AUTHORIZATION_FAILED): grant its "
            "principal ClusterAction on the cluster",
        )
    elif len(silent) == len(outcomes):
        why = _listed([f"broker {each.broker} ({_why(each)})" for each in silent])
        _stay(turn, f"no registered broker answers a controller's request: {why}")
    else:
        turn.context.preflight_passed_ms = turn.now_ms
        for each in silent:
            turn.refuse(f"broker/{each.broker}", "probing the broker before control is taken", _why(each))
        _go_on(turn, Preflight(task.then))


def _why(outcome: ProbeOutcome) -> str:
    return outcome.problem or (error_name(outcome.error) if outcome.error is not None else "no answer")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _go_on(turn: Turn, task: Preflight) -> None:
    forget(turn.context)
    turn.do(task.then)


def forget(context: Context) -> None:
    """Control can be taken, or is not to be taken any more."""
    context.preflights_failed, context.preflight_problem = 0, None


def _stay(turn: Turn, why: str) -> None:
    """Leave `/controller` to whoever can command the brokers, and look again later."""
    context = turn.context
    context.role = Role.REFUSED
    context.preflights_failed += 1
    context.refusal = why
    if context.preflight_problem != why:
        context.preflight_problem = why
        turn.refuse("cluster", _WHAT, why)
    back_off = BackOff(context.config.stand_back_off_min_ms, context.config.preflight_back_off_max_ms)
    turn.set_timer(StandAgain(), turn.now_ms + back_off.wait_ms(context.preflights_failed))
