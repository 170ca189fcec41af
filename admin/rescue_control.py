"""Control of the cluster during a rescue: a controller without listeners, inside this process.

It takes control at most once. Whether the rescue succeeds, fails or is interrupted (Ctrl-C, SIGTERM), it deletes
`/controller` in a fenced write and does not stand again. If the process is killed, ZooKeeper deletes the znode with the
session.
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from lethe.adapters.kafka.reach import BrokerReach
from lethe.admin.refusal import Exit, Refusal
from lethe.controller.core.cluster_state import QuarantinedZnode
from lethe.controller.core.config import Takeover
from lethe.controller.core.context import Context, Role, UnconfirmedDeletions
from lethe.controller.core.scope import Scope
from lethe.controller.runtime.app import ControllerApp, ExitCode, application
from lethe.controller.runtime.configuration import ControllerConfig, load_controller_config
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper.znodes import OfflineReplicas

T = TypeVar("T")

FIRST_ID: Final = 1000
"""Kafka's default of reserved.broker.max.id; broker ids that ZooKeeper generates are larger."""
SESSION_TIMEOUT_MS: Final = 6_000
"""If this process is killed, the cluster has no controller for this time."""
ELECTION_LIMIT_S: Final = 20.0
"""Added to the grace period before fencing."""
GRACE_MS: Final = 5_000
BETWEEN_TERMS_LIMIT_S: Final = 3.0
"""A controller that does not lead for longer has lost control."""
POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class TakeoverSettings:
    """Settings with which control is taken."""

    connect: str
    controller_id: BrokerId
    ibp: InterBrokerProtocol
    reach: BrokerReach
    """How the controller reaches brokers; it names their listener."""
    grace_ms: int = GRACE_MS
    """Grace period before the present controller is fenced."""
    access: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables that say who the controller is at ZooKeeper."""
    owe: bool = False
    """Deletions do not wait for brokers that are not registered."""


_UNREACHED: Final = {
    "unreachable": CauseKind.BROKER_UNREACHABLE,
    "login": CauseKind.BROKER_UNASKABLE,
    "tls": CauseKind.BROKER_UNASKABLE,
    "lost": CauseKind.BROKER_UNREACHABLE,
    "timeout": CauseKind.BROKER_SILENT,
    "garbage": CauseKind.BROKER_ERROR,
}
"""Reason of a channel's problem to cause, in the words of `survey.replicas`."""


class ControlStage(enum.Enum):
    """How far the rescue came. Name for scripts."""

    IN_CONTROL = enum.auto()
    TAKEN = enum.auto()
    """Interrupted within the grace period, or while the cluster was loaded: `/controller` was taken, and nothing was
    done."""
    NOT_SEEN = enum.auto()
    """Interrupted before it was seen that `/controller` was taken."""


class RescueInterrupted(Exception):
    """The user has asked to end the rescue."""


def free_id(taken: Collection[int]) -> BrokerId:
    """Return an id that no broker has."""
    return BrokerId(next(number for number in range(FIRST_ID, FIRST_ID + len(taken) + 1) if number not in taken))


class RescueController:
    """The rescue's controller, as the rescue uses it."""

    def __init__(self, app: ControllerApp, grace_ms: int) -> None:
        self._app = app
        self._lost_at_s: float | None = None
        self.grace_ms: Final = grace_ms
        """Grace period before the present controller is fenced."""

    @property
    def url(self) -> str:
        """URL of its pages."""
        assert self._app.http is not None
        return self._app.http.url

    @property
    def quarantined(self) -> tuple[QuarantinedZnode, ...]:
        """Znodes that it cannot understand and leaves unchanged; other controllers may fail on them."""
        context = self._app.loop.context
        return (*context.cluster.quarantined_topics.values(), *context.cluster.quarantined_brokers.values())

    @property
    def unconfirmed_deletions(self) -> UnconfirmedDeletions:
        """What brokers had not confirmed when control was handed back; known once the controller has ended."""
        return self._app.unconfirmed_deletions

    @property
    def taken_from(self) -> BrokerId | None:
        """The controller whose `/controller` was taken, also where the rescue ends within the grace period; None where
        there was none, or before that."""
        return self._app.loop.context.takeover_history.last_from

    @property
    def unreached(self) -> dict[int, CauseKind]:
        """Brokers whose channel fails at present, and the cause."""
        return {int(broker): _UNREACHED[problem.reason] for broker, problem in self._app.channel_problems().items()}

    async def context(self) -> Context:
        """Return the controller's memory between two steps; see `ControllerLoop.between_steps`."""
        return await self._app.loop.between_steps()

    def check(self) -> None:
        """Raise RescueInterrupted if the user wants to end, Refusal if control was lost."""
        if self._app.is_stopping:
            raise RescueInterrupted
        context = self._app.loop.context
        if context.is_leading:
            self._lost_at_s = None
            return
        # While it raises the epoch, it does not lead for a moment.
        now_s = time.monotonic()
        self._lost_at_s = now_s if self._lost_at_s is None else self._lost_at_s
        if now_s - self._lost_at_s >= BETWEEN_TERMS_LIMIT_S:
            raise Refusal(
                f"control was lost in the middle of the rescue: {_why_not_in_control(self._app)}", Exit.UNREACHABLE
            )

    async def elected(self) -> BrokerId | None:
        """Wait until the cluster is loaded, and return the controller that was taken over, None where there was none.
        Raises RescueInterrupted, and Refusal where control cannot be taken."""
        deadline = time.monotonic() + ELECTION_LIMIT_S + self.grace_ms / 1000
        while self._app.loop.context.role is not Role.ACTIVE:
            context = self._app.loop.context
            if self._app.is_stopping:
                raise RescueInterrupted
            is_refused = context.role is Role.REFUSED or self._app.session_refusal() is not None
            if is_refused or time.monotonic() > deadline:
                raise Refusal(f"control could not be taken: {_why_not_in_control(self._app)}", Exit.UNREACHABLE)
            await asyncio.sleep(POLL_S)
        return self._app.loop.context.takeover_history.latest


def _why_not_in_control(app: ControllerApp) -> str:
    context = app.loop.context
    if context.refusal is not None:
        return context.refusal
    if (problem := app.session_problem()) is not None:
        return f"the controller of this rescue has no ZooKeeper session: {problem}"
    if context.active_controller >= 0:
        return f"controller {context.active_controller} holds /controller"
    return f"the controller of this rescue is {context.role.value}"


async def in_control(means: TakeoverSettings, scope: Scope, work: Callable[[RescueController], Awaitable[T]]) -> T:
    """Run the work in control of the cluster, in this scope, then hand control back. Raises what the work raises."""
    app = application(_configuration(means), scope=scope, cache_look_rest=0, holds_id=False)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(app.run(), name="rescue-controller")
            starting = tasks.create_task(app.started.wait(), name="rescue-controller-starts")
            await asyncio.wait((running, starting), return_when=asyncio.FIRST_COMPLETED)
            starting.cancel()
            try:
                if running.done():
                    raise Refusal("the controller of the rescue could not start", Exit.FAULT)
                result = await work(RescueController(app, means.grace_ms))
            finally:
                if not app.is_stopping:
                    # A second stop would not wait for the brokers' confirmations.
                    app.stop("the rescue is over")
    except ExceptionGroup as errors:
        raise _first_error(errors) from None
    if running.result() not in (ExitCode.STOPPED, ExitCode.UNCONFIRMED_DELETIONS):
        raise Refusal("the controller of the rescue ended with a fault; the log above says which", Exit.FAULT)
    return result


def _first_error(errors: ExceptionGroup[Exception]) -> Exception:
    error = errors.exceptions[0]
    return _first_error(error) if isinstance(error, ExceptionGroup) else error


def _configuration(means: TakeoverSettings) -> ControllerConfig:
    """Return the minimal configuration: no listener, no journal, no preferred leader elections."""
    values = {
        "KAFKA_BROKER_ID": str(means.controller_id),
        "KAFKA_ZOOKEEPER_CONNECT": means.connect,
        "KAFKA_ZOOKEEPER_SESSION_TIMEOUT_MS": str(SESSION_TIMEOUT_MS),
        "KAFKA_INTER_BROKER_PROTOCOL_VERSION": str(means.ibp),
        "KAFKA_INTER_BROKER_LISTENER_NAME": means.reach.listener or "PLAINTEXT",
        "KAFKA_AUTO_LEADER_REBALANCE_ENABLE": "false",
        "KAFKA_CONTROLLER_SOCKET_TIMEOUT_MS": "10000",
        "KAFKA_CONTROLLER_TAKEOVER": Takeover.ONCE.value,
        "KAFKA_CONTROLLER_TAKEOVER_GRACE_MS": str(means.grace_ms),
        # Control is handed back soon, and later controllers do not have the list of unanswered tombstones.
        "LETHE_TOMBSTONE_TIMEOUT_MS": "0",
    }
    if means.owe:
        values["LETHE_DELETION_OFFLINE_REPLICAS"] = OfflineReplicas.OWE.value
    return replace(load_controller_config(None, {**means.access, **values}), reach=means.reach)
