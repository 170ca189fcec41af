"""The epoch checks that every control request passes first, and the answer to a refused request.

A broker epoch of -1 is not checked; an older one than ours is refused; a newer one is accepted, because the controller
may see our registration before we do. Kafka does the same.

An order is obeyed only under the controller epoch that ZooKeeper named last, and only from the controller that it
names with it: `/controller_epoch` rises in the same multi that elects a controller, so no true request comes before it.
Kafka's brokers adopt any epoch, so that one forged frame with epoch 2147483647 makes such a broker refuse every true
controller until it is restarted, and one that has just started obeys whoever comes first. An example, where ZooKeeper
has named epoch 5 of controller 7:

    request                 ZooKeeper says     what happens
    4                       (not asked)        STALE_CONTROLLER_EPOCH
    5, of 7                 (not asked)        obeyed
    6, of 8                 6, of 8            obeyed; 5 is stale from now on
    6, of 8                 7, of 9            STALE_CONTROLLER_EPOCH, and so are 5 and 6 from now on
    2147483647              6                  connection closed
    6                       5 (a server lags)  connection closed; the controller sends it again
    6                       nothing            the same
    6, of 9                 6, of 8            the same
    6, of 8                 6, of nobody       the same: there is no /controller, or the next one is taking control

A broker that has just started knows no epoch: it asks before it obeys its first order.

After a closed connection both Kafka's controller and Lethe's send the same request again; after an error Kafka's sends
the next one. While a request waits for ZooKeeper, requests of other connections are carried out, so a forged frame
delays no other controller; on its own connection the order is kept, because a
server reads the next request after the answer to the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.broker.core.effects import AskControllerEpoch, Effect, Refuse
from lethe.broker.core.inputs import (
    ControllerEpochAnswer,
    ControllerEpochReceived,
    ControllerEpochUnavailable,
    ControlReceived,
)
from lethe.broker.core.records import record_refusal
from lethe.broker.core.state import INITIAL_CONTROLLER_EPOCH, AgentState
from lethe.protocol.kafka.control import (
    Addressed,
    ControlRequest,
    ControlResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    api_of,
    probe_request,
    uniform_response,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import NO_EPOCH, BrokerId, ControllerEpoch

MAX_UNCONFIRMED: Final = 64
"""Requests that wait for ZooKeeper. Each comes on a connection of its own, and a cluster has few controllers."""


def check_epochs(state: AgentState, addressed: Addressed) -> ErrorCode:
    """NONE, or the error that refuses the request. Adopts the controller epoch of a request that is not refused."""
    if addressed.broker_epoch != NO_EPOCH and addressed.broker_epoch < state.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if addressed.request.controller_epoch < known_epoch(state):
        return ErrorCode.STALE_CONTROLLER_EPOCH
    state.controller_epoch = addressed.request.controller_epoch
    return ErrorCode.NONE


def known_epoch(state: AgentState) -> ControllerEpoch:
    """The highest controller epoch that was obeyed or that ZooKeeper has named."""
    return max(state.controller_epoch, state.confirmed_epoch)


def is_probe(addressed: Addressed) -> bool:
    """Whether the request is a probe: an invalid broker epoch and no partitions. Its expected answer is the error, so
    no refusal is recorded."""
    return addressed.request == probe_request(addressed.request.controller_id)


def is_unconfirmed(state: AgentState, addressed: Addressed) -> bool:
    """Whether only the controller epoch, which ZooKeeper has not confirmed as this controller's, keeps the request from
    being obeyed."""
    is_for_us = addressed.broker_epoch == NO_EPOCH or addressed.broker_epoch >= state.broker_epoch
    request = addressed.request
    is_over = request.controller_epoch < known_epoch(state)
    return is_for_us and not is_over and not _is_confirmed(state, request)


def _is_confirmed(state: AgentState, request: ControlRequest) -> bool:
    """Whether ZooKeeper has named this epoch, with this controller. The initial one is of nobody."""
    named = (state.confirmed_epoch, state.confirmed_controller)
    asked = (request.controller_epoch, request.controller_id)
    return asked == named and request.controller_epoch > INITIAL_CONTROLLER_EPOCH


def await_confirmation(state: AgentState, received: ControlReceived) -> list[Effect]:
    """Queue the request until ZooKeeper has returned the controller epoch."""
    if len(state.unconfirmed) >= MAX_UNCONFIRMED:
        return [_refuse(received, f"{MAX_UNCONFIRMED} requests with unconfirmed controller epochs are waiting already")]
    state.unconfirmed.append(received)
    return _ask(state)


def on_controller_epoch_received(state: AgentState, received: ControllerEpochReceived) -> list[Effect]:
    """Put confirmed requests before the waiting ones, and refuse those that ZooKeeper did not confirm."""
    asked, state.asked_for = state.asked_for, 0
    answer = received.answer
    if not isinstance(answer, ControllerEpochUnavailable):
        _note(state, answer, received.holder)
    every = list(state.unconfirmed)
    confirmed = [each for each in every if not is_unconfirmed(state, each.addressed)]
    refused = [each for each in every[:asked] if is_unconfirmed(state, each.addressed)]
    state.waiting.extendleft(reversed(confirmed))
    state.unconfirmed.clear()
    state.unconfirmed.extend(each for each in every[asked:] if is_unconfirmed(state, each.addressed))
    return _refuse_unconfirmed(state, refused, answer) + _ask(state)


def _note(state: AgentState, epoch: ControllerEpoch, holder: BrokerId | None) -> None:
    if epoch > state.confirmed_epoch:
        state.confirmed_epoch, state.confirmed_controller = epoch, holder
    elif epoch == state.confirmed_epoch and holder is not None:
        state.confirmed_controller = holder


def _ask(state: AgentState) -> list[Effect]:
    """Read the epoch for all queued requests, one read at a time: a result counts for requests that came before the
    read."""
    if state.asked_for or not state.unconfirmed:
        return []
    state.asked_for = len(state.unconfirmed)
    return [AskControllerEpoch()]


def _refuse_unconfirmed(
    state: AgentState, refused: Sequence[ControlReceived], answer: ControllerEpochAnswer
) -> list[Effect]:
    effects: list[Effect] = []
    for received in refused:
        request = received.addressed.request
        if isinstance(answer, ControllerEpochUnavailable):
            seen, known = f"/controller_epoch could not be read: {answer.reason}", {}
        else:
            seen, known = f"/controller_epoch in ZooKeeper is {answer}", {"known_epoch": int(answer)}
            if answer == request.controller_epoch:
                seen = f"{seen}, {_whose(state.confirmed_controller)}"
        data = {"controller": int(request.controller_id), "epoch": int(request.controller_epoch), **known}
        effects.append(_refuse(received, f"controller epoch {request.controller_epoch} is not confirmed: {seen}"))
        effects.append(record_refusal(state, api_of(request).name, f"unconfirmed controller epoch: {seen}", data))
    return effects


def _whose(controller: BrokerId | None) -> str:
    return "and no /controller shows whose it is" if controller is None else f"of controller {controller}"


def _refuse(received: ControlReceived, reason: str) -> Refuse:
    return Refuse(received.token, reason)


def refusal(request: ControlRequest, error: ErrorCode) -> ControlResponse:
    """The answer to a refused request: LeaderAndIsr repeats the error for each partition, StopReplica lists none."""
    if isinstance(request, StopReplicaRequest):
        return StopReplicaResponse(error, ())
    return uniform_response(request, error)
