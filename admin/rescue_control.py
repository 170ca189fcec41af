"""Control of the cluster for the time of a rescue: a controller inside this process, a guest that brokers cannot ask.

It takes control once at most. However the rescue ends (done, failed, Ctrl-C, SIGTERM), it gives `/controller` up in a
fenced write and does not stand again; where the process is killed, ZooKeeper removes the znode with the session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final, TypeVar

from lethe.admin.refusal import Exit, Refusal
from lethe.controller.core.cluster_state import SetAside
from lethe.controller.core.config import Takeover
from lethe.controller.core.context import Context, LeftBehind, Role
from lethe.controller.runtime.app import ControllerApp, ExitCode, application
from lethe.controller.runtime.configuration import ControllerConfig, load_controller_config
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId

T = TypeVar("T")

FIRST_ID: Final = 1000
"""Brokers that get their ids from ZooKeeper have larger ones."""
SESSION_TIMEOUT_MS: Final = 6_000
"""So long nobody controls the cluster where this process is killed."""
ELECTION_LIMIT_S: Final = 20.0
"""Beside the time that who has control is left."""
GRACE_MS: Final = 5_000
BETWEEN_TERMS_LIMIT_S: Final = 3.0
"""A controller that does not lead for longer has lost control."""
POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Means:
    """With what control is taken."""

    connect: str
    controller_id: BrokerId
    ibp: InterBrokerProtocol
    listener: str
    grace_ms: int = GRACE_MS
    """How long who has control is left to finish what it is at."""
    digest: str | None = None
    """`user:password` for ZooKeeper."""


_UNREACHED: Final = {
    "unreachable": CauseKind.BROKER_UNREACHABLE,
    "lost": CauseKind.BROKER_UNREACHABLE,
    "timeout": CauseKind.BROKER_SILENT,
    "garbage": CauseKind.BROKER_ERROR,
}
"""By the reason of a channel's problem."""


class Interrupted(Exception):
    """Somebody has asked for the rescue to end."""


def free_id(taken: Collection[int]) -> BrokerId:
    """An id that no broker has."""
    return BrokerId(next(number for number in range(FIRST_ID, FIRST_ID + len(taken) + 1) if number not in taken))


class Guest:
    """The controller that is at work, as the rescue sees it."""

    def __init__(self, app: ControllerApp, grace_ms: int) -> None:
        self._app = app
        self._lost_at_s: float | None = None
        self.grace_ms: Final = grace_ms
        """How long who has control is left to notice."""

    @property
    def url(self) -> str:
        """Where it tells what topics wait for."""
        assert self._app.http is not None
        return self._app.http.url

    @property
    def set_aside(self) -> tuple[SetAside, ...]:
        """Znodes that it cannot understand, and leaves as they are; others may fall over them."""
        context = self._app.loop.context
        return (*context.cluster.set_aside_topics.values(), *context.cluster.set_aside_brokers.values())

    @property
    def left_behind(self) -> LeftBehind:
        """What brokers had not confirmed when control was given back; known when the controller has ended."""
        return self._app.left_behind

    @property
    def taken_from(self) -> BrokerId | None:
        """Whom control was taken from; None where nobody had it, or it has not been ours yet."""
        return self._app.loop.context.takings.latest

    @property
    def unreached(self) -> dict[int, CauseKind]:
        """The brokers that it does not get through to at present, and how that is called."""
        return {int(broker): _UNREACHED[problem.reason] for broker, problem in self._app.channel_problems().items()}

    async def context(self) -> Context:
        """The controller's memory between two of its steps; see `ControllerLoop.between_steps`."""
        return await self._app.loop.between_steps()

    def check(self) -> None:
        """Raises Interrupted where somebody wants it to end, Refusal where control was lost."""
        if self._app.is_stopping:
            raise Interrupted
        context = self._app.loop.context
        if context.is_leading:
            self._lost_at_s = None
            return
        # Between two terms of its own, while it raises the epoch, it does not lead for a moment.
        now_s = time.monotonic()
        self._lost_at_s = now_s if self._lost_at_s is None else self._lost_at_s
        if now_s - self._lost_at_s >= BETWEEN_TERMS_LIMIT_S:
            raise Refusal(f"control was lost in the middle of the rescue: {_instead(self._app)}", Exit.UNREACHABLE)

    async def elected(self) -> BrokerId | None:
        """Waits until the cluster is loaded; whom control was taken from, None where nobody had it. Raises Interrupted,
        and Refusal where control cannot be had."""
        deadline = time.monotonic() + ELECTION_LIMIT_S + self.grace_ms / 1000
        while self._app.loop.context.role is not Role.ACTIVE:
            context = self._app.loop.context
            if self._app.is_stopping:
                raise Interrupted
            if context.role is Role.REFUSED or time.monotonic() > deadline:
                raise Refusal(f"control could not be taken: {_instead(self._app)}", Exit.UNREACHABLE)
            await asyncio.sleep(POLL_S)
        return self._app.loop.context.takings.latest


def _instead(app: ControllerApp) -> str:
    context = app.loop.context
    if context.refusal is not None:
        return context.refusal
    if context.active_controller >= 0:
        return f"controller {context.active_controller} holds /controller"
    return f"the controller of this rescue is {context.role.value}"


async def in_control(means: Means, only_topics: frozenset[str] | None, work: Callable[[Guest], Awaitable[T]]) -> T:
    """Does the work while control is ours, and hands control back. Raises what the work raises."""
    app = application(_configuration(means), only_topics=only_topics, cache_look_rest=0, holds_id=False)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(app.run(), name="rescue-controller")
            starting = tasks.create_task(app.started.wait(), name="rescue-controller-starts")
            await asyncio.wait((running, starting), return_when=asyncio.FIRST_COMPLETED)
            starting.cancel()
            try:
                if running.done():
                    raise Refusal("the controller of the rescue could not start", Exit.FAULT)
                result = await work(Guest(app, means.grace_ms))
            finally:
                if not app.is_stopping:
                    # Asked a second time it would not wait for what brokers have yet to confirm.
                    app.stop("the rescue is over")
    except ExceptionGroup as errors:
        raise _first(errors) from None
    if running.result() not in (ExitCode.STOPPED, ExitCode.LEFT_BEHIND):
        raise Refusal("the controller of the rescue ended with a fault; the log above says which", Exit.FAULT)
    return result


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error


def _configuration(means: Means) -> ControllerConfig:
    """Nothing but what a rescue needs: no listener, no journal, and no leaders moved but for the dead."""
    values = {
        "KAFKA_BROKER_ID": str(means.controller_id),
        "KAFKA_ZOOKEEPER_CONNECT": means.connect,
        "KAFKA_ZOOKEEPER_SESSION_TIMEOUT_MS": str(SESSION_TIMEOUT_MS),
        "KAFKA_INTER_BROKER_PROTOCOL_VERSION": str(means.ibp),
        "KAFKA_INTER_BROKER_LISTENER_NAME": means.listener,
        "KAFKA_AUTO_LEADER_REBALANCE_ENABLE": "false",
        "KAFKA_CONTROLLER_SOCKET_TIMEOUT_MS": "10000",
        "KAFKA_CONTROLLER_TAKEOVER": Takeover.ONCE.value,
        "KAFKA_CONTROLLER_TAKEOVER_GRACE_MS": str(means.grace_ms),
        # Control is given back soon, and no later controller would know which broker owes a tombstone.
        "LETHE_TOMBSTONE_TIMEOUT_MS": "0",
    }
    if means.digest is not None:
        values |= {"KAFKA_ZOOKEEPER_SET_ACL": "true", "LETHE_ZOOKEEPER_DIGEST": means.digest}
    return load_controller_config(None, values)
