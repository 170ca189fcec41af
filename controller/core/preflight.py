"""Preflight: checks, before control is taken, whether the registered brokers accept this controller's requests.

A controller that holds `/controller` without power over the brokers is harmful: it blocks other controllers, announces
no broker's death and elects no leader. So before an election or takeover each registered broker is probed with a
request without effect: a StopReplica without topics, with controller epoch -1 and without a broker epoch.

A broker first checks the permission ClusterAction (CLUSTER_AUTHORIZATION_FAILED), then the controller epoch. Its own
epoch is at least 0, so a broker that can be commanded answers STALE_CONTROLLER_EPOCH.

    answer or sign                              verdict
    STALE_CONTROLLER_EPOCH, NONE                can be commanded
    CLUSTER_AUTHORIZATION_FAILED                cannot, until its authorizer allows it
    no listener that is configured here         cannot, until its listeners or the configuration change
    the login fails                             cannot, until it has this user with this password (or a token that
                                                    cannot be read here is mended)
    one side refuses the other's certificate    cannot, until it is trusted; but where the broker's has expired, it
                                                    does not answer: Kafka's controller cannot command it either
    another error, no answer, no connection     does not answer: broken, or just starting

The first matching rule decides:

    brokers                                              control is
    ---------------------------------------------------  ------------------------------------------------------------
    cannot be listed, or no registration can be used     not taken
    none registered                                      taken
    at least one cannot be commanded                     not taken: Kafka's controller would command the whole cluster
    none is known to obey (all are silent)               not taken
    at least one obeys                                   taken; the silent brokers are recorded

If control is not taken, the reason is shown (`Role.REFUSED`). The preflight is repeated after a while, and when brokers
register or leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.controller.core.context import Context, FailedPreflight, Role
from lethe.controller.core.effects import ProbeTarget, StandAgain
from lethe.controller.core.endpoints import unreachable_reason
from lethe.controller.core.events import ProbeOutcome
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_power import BrokersProbed, Preflight, RegistrationsListed, RegistrationsRead
from lethe.protocol.back_off import BackOff
from lethe.protocol.counting import listed
from lethe.protocol.kafka.control import probe_request
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.vocabulary import Broker, BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    GetChildren,
    GetData,
    ReadOutcome,
    error_words,
    is_absent,
    read_error,
)

_COMMANDED: Final = (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.NONE)
_WHAT: Final = "taking control"
VALID_MS: Final = 5_000
"""How long a passed probe, or the end of a term in which brokers obeyed, replaces a new preflight."""


def begin(step: StepContext, task: Preflight) -> None:
    """List the registered brokers and watch for changes; skip the preflight if brokers obeyed just now.

    Without the skip, this controller would lose every race for `/controller` against controllers without a preflight.
    """
    passed_ms = step.context.preflight_passed_ms
    if passed_ms is not None and step.now_ms - passed_ms < VALID_MS:
        _go_on(step, task)
        return
    step.read((GetChildren(paths.broker_ids(), watch=True),), RegistrationsListed(task.then))


def on_registrations_listed(step: StepContext, task: RegistrationsListed, outcomes: Sequence[ReadOutcome]) -> None:
    """Read the registrations. A failed list does not mean that there are no brokers."""
    (outcome,) = outcomes
    if (error := read_error(outcome)) is not None:
        _stay(step, f"{paths.broker_ids()} cannot be read: {error_words(error)}")
        return
    names = outcome.names if isinstance(outcome, Children) else ()
    ids = tuple(sorted(broker for broker in map(paths.broker_named, names) if broker is not None))
    if ids:
        step.read((GetData(paths.broker_id(broker)) for broker in ids), RegistrationsRead(task.then, ids))
    else:
        _go_on(step, Preflight(task.then))


def on_registrations_read(step: StepContext, task: RegistrationsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Probe the brokers whose registration can be used; if there are none but unusable ones, do not take control."""
    context = step.context
    found = [_understood(broker, outcome) for broker, outcome in zip(task.ids, outcomes, strict=True)]
    brokers = tuple(each for each in found if isinstance(each, Broker))
    if not brokers:
        unclear = [f"broker {broker} ({each})" for broker, each in zip(task.ids, found, strict=True) if each]
        if unclear:
            _stay(step, f"no registration says where its broker is: {listed(unclear)}")
        else:
            _go_on(step, Preflight(task.then))
        return
    reasons = ((broker.id, unreachable_reason(context.config, broker)) for broker in brokers)
    unreachable = [f"broker {broker}, because {reason}" for broker, reason in reasons if reason is not None]
    if unreachable:
        _stay(step, f"Lethe cannot command {listed(unreachable)}; {context.config.listener_choice.remedy}")
        return
    targets = (ProbeTarget(broker.id, context.control_endpoint(broker)) for broker in brokers)
    step.probe(probe_request(context.config.controller_id), targets, BrokersProbed(task.then, brokers))


def _understood(broker: BrokerId, outcome: ReadOutcome) -> Broker | str | None:
    """Return the broker, the problem with its registration, or None if it is a controller's or gone."""
    if not isinstance(outcome, Data):
        return None if is_absent(outcome) else f"{paths.broker_id(broker)} cannot be read"
    if znodes.is_controller_registration(outcome.data):
        return None
    try:
        found = znodes.decode_broker(broker, outcome.stat.czxid, outcome.data)
    except znodes.MalformedZnode as malformed:
        return str(malformed)
    return found if found.endpoints else f"{paths.broker_id(broker)} names no listener"


def probed(step: StepContext, task: BrokersProbed, outcomes: Sequence[ProbeOutcome]) -> None:
    """Decide by the rules of this module."""
    refused = [f"broker {each.broker}" for each in outcomes if each.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    closed = [f"broker {each.broker} ({_why(each)})" for each in outcomes if each.has_no_access]
    silent = [each for each in outcomes if each.error not in (*_COMMANDED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    if closed:
        _stay(step, f"this controller has no access to {listed(closed)}")
    elif refused:
        _stay(
            step,
            f"the authorizer of {listed(refused)} refuses this controller (CLUSTER_AUTHORIZATION_FAILED): grant "
            f"{step.context.config.principal} ClusterAction on the cluster",
        )
    elif len(silent) == len(outcomes):
        why = listed([f"broker {each.broker} ({_why(each)})" for each in silent])
        _stay(step, f"no registered broker answers a controller's request: {why}")
    else:
        step.context.preflight_passed_ms = step.now_ms
        for each in silent:
            step.refuse(f"broker/{each.broker}", "probing the broker before control is taken", _why(each))
        _go_on(step, Preflight(task.then))


def _why(outcome: ProbeOutcome) -> str:
    return outcome.problem or (error_name(outcome.error) if outcome.error is not None else "no answer")


def _go_on(step: StepContext, task: Preflight) -> None:
    forget(step.context)
    step.context.not_passed = None
    step.do(task.then)


def forget(context: Context) -> None:
    """Drop the failed preflights, which are repeated: control can be taken, or is no longer to be taken."""
    context.preflights_failed, context.preflight_problem = 0, None


def _stay(step: StepContext, why: str) -> None:
    """Do not take `/controller`; repeat the preflight later."""
    context = step.context
    context.role = Role.REFUSED
    context.preflights_failed += 1
    context.refusal = why
    context.not_passed = FailedPreflight(step.now_ms, why)
    if context.preflight_problem != why:
        context.preflight_problem = why
        step.refuse("cluster", _WHAT, why)
    back_off = BackOff(context.config.stand_back_off_min_ms, context.config.preflight_back_off_max_ms)
    step.set_timer(StandAgain(), step.now_ms + back_off.wait_ms(context.preflights_failed))
