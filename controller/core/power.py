"""Which brokers obey this controller, derived from their answers. Holding `/controller` alone is not power.

The last answer of a broker's present incarnation decides, together with what it still owes an answer to:

    last answer (top level)              no answer to any request for  standing
    NONE, or none yet                    less than silent_after_ms     OBEYS, or ASKED where it never answered
    any, or none yet                     longer                        SILENT
    STALE_CONTROLLER_EPOCH               -                             REFUSES_EPOCH
    CLUSTER_AUTHORIZATION_FAILED         -                             REFUSES_US
    another error                        -                             FAILS
    -                                    -                             UNSPOKEN where no listener of it is configured

The runtime, which has the connections, replaces OBEYS, ASKED and SILENT by NO_ACCESS while TLS or the login fails.

Example: brokers 1 and 2 answer NONE, broker 3 answers STALE_CONTROLLER_EPOCH. The controller has power and says that
broker 3 refuses it. If all three refuse, the controller is *powerless* since the last of them began to refuse. A
powerless controller is not ready after `CoreConfig.powerless_after_ms`. It resigns, so that another controller can
lead: after `resign_refused_ms` if every broker refuses, after `resign_silent_ms` if some are only silent. A broker that
works on a large request answers nothing meanwhile.

An error for one partition inside an answer does not count: the broker has accepted the request.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from lethe.controller.core.cluster_state import LastResponse
from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context, Role
from lethe.controller.core.resigning import step_back
from lethe.controller.core.step_context import StepContext
from lethe.protocol.counting import listed, plural
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId


class BrokerStanding(enum.Enum):
    """How a registered broker handles this controller's requests."""

    OBEYS = "it accepts this controller's requests"
    ASKED = "it has been asked and has not answered yet"
    SILENT = "it does not answer"
    REFUSES_EPOCH = "it has seen a higher controller epoch and refuses this one as stale"
    REFUSES_US = "its authorizer refuses this controller the right ClusterAction"
    FAILS = "it answers with an error"
    UNSPOKEN = "it has no listener that this controller is configured for"
    NO_ACCESS = "TLS or the login of this controller fails there"


DEFINITE: Final = (BrokerStanding.REFUSES_EPOCH, BrokerStanding.REFUSES_US, BrokerStanding.UNSPOKEN)
"""Waiting does not change these."""
_BY_ERROR: Final = {
    int(ErrorCode.NONE): BrokerStanding.OBEYS,
    int(ErrorCode.STALE_CONTROLLER_EPOCH): BrokerStanding.REFUSES_EPOCH,
    int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED): BrokerStanding.REFUSES_US,
}


class BrokerPower(NamedTuple):
    """One broker's standing, and since when (in the clock of the steps)."""

    broker: BrokerId
    standing: BrokerStanding
    since_ms: int
    error: str | None = None
    """Name of the error it answered last, if it did; of NO_ACCESS the failure of the connection."""


# --- reading ------------------------------------------------------------------------------------------------------


def of_brokers(context: Context, now_ms: int) -> tuple[BrokerPower, ...]:
    """Return the standing of each registered broker, in the order of the context; empty while not leading."""
    owing = _owing(context)
    return tuple(_of(context, broker, owing.get(broker.id), now_ms) for broker in context.cluster.brokers.values())


def _of(context: Context, broker: Broker, owing_since_ms: int | None, now_ms: int) -> BrokerPower:
    if not context.is_reachable(broker):
        return BrokerPower(broker.id, BrokerStanding.UNSPOKEN, context.cluster.elected_at_ms)
    last = context.cluster.last_answers.get(broker.id)
    if last is not None and last.error != ErrorCode.NONE:
        return BrokerPower(broker.id, _standing(last.error), last.since_ms, error_name(last.error))
    if owing_since_ms is not None and last is not None:
        # It answers one request after another, or the parts of a large one.
        owing_since_ms = max(owing_since_ms, last.at_ms)
    if owing_since_ms is not None and now_ms - owing_since_ms >= context.config.silent_after_ms:
        return BrokerPower(broker.id, BrokerStanding.SILENT, owing_since_ms)
    if last is not None:
        return BrokerPower(broker.id, BrokerStanding.OBEYS, last.since_ms)
    return BrokerPower(
        broker.id, BrokerStanding.ASKED, context.cluster.elected_at_ms if owing_since_ms is None else owing_since_ms
    )


def _standing(error: int) -> BrokerStanding:
    return _BY_ERROR.get(error, BrokerStanding.FAILS)


def _owing(context: Context) -> dict[BrokerId, int]:
    """Return since when each broker owes its oldest answer; `outstanding` has the order of sending."""
    found: dict[BrokerId, int] = {}
    for outstanding in context.cluster.outstanding.values():
        found.setdefault(outstanding.broker, outstanding.sent_at_ms)
    return found


def powerless_since(powers: tuple[BrokerPower, ...]) -> int | None:
    """Return since when no registered broker obeys; None if one does, or none is registered."""
    if not powers or any(each.standing is BrokerStanding.OBEYS for each in powers):
        return None
    return max(each.since_ms for each in powers)


def refusing_epoch(context: Context) -> tuple[BrokerId, ...]:
    """Return registered brokers whose last answer was STALE_CONTROLLER_EPOCH."""
    stale = ErrorCode.STALE_CONTROLLER_EPOCH
    answers = context.cluster.last_answers
    return tuple(broker for broker in context.cluster.brokers if broker in answers and answers[broker].error == stale)


def powerless_reason(context: Context, powers: tuple[BrokerPower, ...], now_ms: int) -> str | None:
    """Return why an active controller has no power, as a sentence; None while it has, or has just lost it."""
    if context.role is not Role.ACTIVE:
        return None
    since_ms = powerless_since(powers)
    if since_ms is None or now_ms - since_ms < context.config.powerless_after_ms:
        return None
    return f"no registered broker accepts this controller's requests: {told(powers, context.config)}"


def _powerless(powers: tuple[BrokerPower, ...], config: CoreConfig, for_ms: int) -> str:
    return f"no registered broker has accepted a request for {for_ms // 1000} s: {told(powers, config)}"


def told(powers: tuple[BrokerPower, ...], config: CoreConfig) -> str:
    """Return the brokers by standing and the remedies, as text: `brokers 1, 2: it does not answer; broker 3: ...`."""
    groups: dict[tuple[BrokerStanding, str | None], list[BrokerId]] = {}
    for each in powers:
        if each.standing is not BrokerStanding.OBEYS:
            error = each.error if each.standing in (BrokerStanding.FAILS, BrokerStanding.NO_ACCESS) else None
            groups.setdefault((each.standing, error), []).append(each.broker)
    return "; ".join(_told_group(brokers, *group, config) for group, brokers in groups.items())


def _told_group(brokers: list[BrokerId], standing: BrokerStanding, error: str | None, config: CoreConfig) -> str:
    who = f"{plural(len(brokers), 'broker')} {listed(brokers)}"
    cure = _cure(standing, config)
    return f"{who}: {standing.value}" + (f", {error}" if error else "") + (f"; {cure}" if cure else "")


def _cure(standing: BrokerStanding, config: CoreConfig) -> str | None:
    """Return what changes a definite standing. The error of NO_ACCESS has its own remedy."""
    match standing:
        case BrokerStanding.REFUSES_US:
            return f"grant {config.principal} ClusterAction on the cluster"
        case BrokerStanding.UNSPOKEN:
            return config.listener_choice.remedy
        case BrokerStanding.REFUSES_EPOCH:
            return "if it lasts, restart the broker"
        case _:
            return None


# --- taking note --------------------------------------------------------------------------------------------------


def note_answer(step: StepContext, broker: BrokerId, broker_epoch: BrokerEpoch, error: int) -> None:
    """Store the top-level error that a broker's present incarnation answered."""
    context = step.context
    before = context.cluster.last_answers.get(broker)
    is_same = before is not None and (before.broker_epoch, before.error) == (broker_epoch, error)
    since_ms = before.since_ms if before is not None and is_same else step.now_ms
    has_accepted = before is not None and before.broker_epoch == broker_epoch and before.has_accepted
    has_accepted = has_accepted or error == ErrorCode.NONE
    context.cluster.last_answers[broker] = LastResponse(broker_epoch, error, since_ms, step.now_ms, has_accepted)
    if error == ErrorCode.NONE:
        context.cluster.had_power = True
        if context.raises.leaps and 2 * _obeying(context) > len(context.cluster.brokers):
            context.raises.settled()
    else:
        step.watch_power()


def _obeying(context: Context) -> int:
    return sum(1 for last in context.cluster.last_answers.values() if last.error == ErrorCode.NONE)


# --- acting -------------------------------------------------------------------------------------------------------


def check(step: StepContext) -> None:
    """Resign if no broker has obeyed for too long; else check again later if that, or a silent broker, is possible."""
    context = step.context
    powers = of_brokers(context, step.now_ms)
    since_ms = powerless_since(powers)
    if since_ms is not None and step.now_ms - since_ms >= resignation_after_ms(context.config, powers):
        step_back(step, _powerless(powers, context.config, step.now_ms - since_ms))
        context.preflight_passed_ms = None
    elif since_ms is not None or context.cluster.outstanding:
        step.watch_power()


def resignation_after_ms(config: CoreConfig, powers: tuple[BrokerPower, ...]) -> int:
    """Return how long a powerless controller waits before it resigns."""
    is_definite = all(each.standing in DEFINITE for each in powers)
    return config.resign_refused_ms if is_definite else config.resign_silent_ms
