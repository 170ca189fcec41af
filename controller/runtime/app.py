"""Composition root of `lethe controller`: creates the parts, runs them in one task group, stops them in order.

Tasks: the loop that feeds the core, the ZooKeeper session keeper, one sender per broker, the HTTP server, the board,
and the listener where `listeners` is set. An unhandled exception in one of them stops all and ends the process. The
ZooKeeper session ends with it, so another controller takes over.

On a stop request the controller waits for unanswered tombstones (`lethe.stop.grace.ms`). Then it deletes `/controller`,
so that its successor need not wait for the session to expire, and closes the session. A second request closes the
session at once.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from lethe.adapters.clock import Clock, SystemClock
from lethe.adapters.garbage_collection import collect_rarely
from lethe.adapters.http import AddressUnavailable, HttpServer
from lethe.adapters.http_serving import serve_configured
from lethe.adapters.journal import Journal
from lethe.adapters.journal_open import open_journal
from lethe.adapters.kafka.server import ListenFailed
from lethe.adapters.logs import fields
from lethe.adapters.registration import ensure_roots
from lethe.adapters.security.inbound import Inbound
from lethe.adapters.security_metrics import security_metrics
from lethe.adapters.service_manager import ServiceManager, service_manager
from lethe.adapters.signals import stop_on_signals
from lethe.adapters.zookeeper.interface import OpenSession, ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.controller.core.context import NOTHING_UNCONFIRMED, Context, UnconfirmedDeletions
from lethe.controller.core.controller import after_fault, step
from lethe.controller.core.events import ResignationRequested, SessionLost
from lethe.controller.core.leaving import awaited, unconfirmed_deletions
from lethe.controller.core.scope import EVERYTHING, Scope
from lethe.controller.runtime.admin import AdminPages
from lethe.controller.runtime.blockers import log_blockers
from lethe.controller.runtime.board.board import Board, BoardMemory
from lethe.controller.runtime.brokers import ChannelProblem, Channels, ChannelSettings, Connect
from lethe.controller.runtime.caches import CacheReader
from lethe.controller.runtime.configuration import ControllerConfig
from lethe.controller.runtime.configured import connector, core_config, listener_for, prober
from lethe.controller.runtime.group_offsets import GroupOffsetsClient
from lethe.controller.runtime.instance import ControllerIdTaken, Instance
from lethe.controller.runtime.invariant_checks import checked
from lethe.controller.runtime.loop import ControllerLoop
from lethe.controller.runtime.metrics import ControllerMetrics
from lethe.controller.runtime.perform import Background, Performer
from lethe.controller.runtime.powers import PowerWatch
from lethe.controller.runtime.queue import EventQueue
from lethe.controller.runtime.recorder import Recorder
from lethe.controller.runtime.sessions import SessionKeeper
from lethe.controller.runtime.sources import sources
from lethe.controller.runtime.timers import Timers
from lethe.controller.runtime.unconfirmed_deletions import left_words, waiting_words
from lethe.controller.runtime.znode_rights import demand_rights
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.vocabulary import BrokerId, Endpoint

logger = logging.getLogger(__name__)

SWITCH_INTERVAL_S: Final = 0.001
"""How long a computing thread keeps the GIL while another waits. The event loop needs the GIL briefly for each piece of
a large request. Python's default of 5 ms delays it behind a step on one thread and the encoding on another."""
_RELOADS: Final = (
    "the file is read at the start only, so nothing is reloaded and the controller continues; restart it to read the "
    "file again. delete.topic.enable, lethe.protected.topics and "
    "unclean.leader.election.enable are followed in ZooKeeper without a restart."
)
_EVERYWHERE: Final = ("", "0.0.0.0", "::")
LISTENER_GRACE_MS: Final = 1_000
"""How long a stopping controller waits until brokers have received their answers."""
STEP_DOWN_LIMIT_S: Final = 5.0
"""How long a stopping controller tries to delete `/controller`; it is ephemeral, and ends with the session at the
latest."""


class ExitCode(enum.IntEnum):
    """Result of `run`."""

    STOPPED = 0
    """Stopped on request."""
    FAULT = 1
    """Ended by an error, which is in the log."""
    CANNOT_START = 2
    UNCONFIRMED_DELETIONS = 4
    """Stopped on request, while metadata caches may still show deleted topics; the log names them."""


def reachable_url(http: HttpServer) -> str:
    """Return the server's URL for other hosts; the machine's name replaces a wildcard address."""
    host = socket.gethostname() if http.host in _EVERYWHERE else http.host
    return HttpServer(host, http.port, has_tls=http.has_tls).url


class ControllerApp:
    """One controller. Call `run` once; use everything else while it runs."""

    def __init__(
        self,
        config: ControllerConfig,
        open_session: OpenSession,
        connect: Connect,
        clock: Clock | None = None,
        *,
        scope: Scope = EVERYTHING,
        cache_look_rest: int | None = None,
        holds_id: bool = True,
        manager: ServiceManager | None = None,
    ) -> None:
        """`scope`: what the controller does on its own. `cache_look_rest`: see `CoreConfig`.
        `holds_id`: run as a daemon that holds its id exclusively. `manager` receives health and readiness."""
        self.started = asyncio.Event()
        """Set when the HTTP server listens and the tasks run; the ZooKeeper session may still be missing."""
        self.http: HttpServer | None = None
        self.endpoints: tuple[Endpoint, ...] = ()
        """Advertised endpoints with real ports; empty without `listeners`."""
        self._config = config
        self._scope = scope
        self._cache_look_rest = cache_look_rest
        # The controller of a command does not hold its id, and SIGHUP ends it.
        self._holds_id = holds_id
        self._open_session = open_session
        self._connect = connect
        self._clock = SystemClock() if clock is None else clock
        self._manager = ServiceManager() if manager is None else manager
        self._stopping = asyncio.Event()
        self._stop_reason = ""
        self._patience: asyncio.Timeout | None = None
        self._loop: ControllerLoop | None = None
        self.channel_problems: Callable[[], Mapping[BrokerId, ChannelProblem]] = dict
        """Brokers whose channel fails at present, and why."""
        self.session_problem: Callable[[], str | None] = lambda: None
        """Why there is no ZooKeeper session; None if there is one."""
        self.session_refusal: Callable[[], str | None] = lambda: None
        """The same, if waiting does not help: a setting or an access list has to change."""

    @property
    def loop(self) -> ControllerLoop:
        """The loop that feeds the core. Raises RuntimeError before `started`."""
        if self._loop is None:
            raise RuntimeError("the controller has not started")
        return self._loop

    @property
    def is_stopping(self) -> bool:
        """True once a stop was requested, also after control was given up."""
        return self._stopping.is_set()

    @property
    def unconfirmed_deletions(self) -> UnconfirmedDeletions:
        """Deleted topics that metadata caches may have shown when a stop request made the controller give up
        control."""
        return NOTHING_UNCONFIRMED if self._loop is None else self._loop.context.unconfirmed_deletions

    def stop(self, reason: str) -> None:
        """Stop `run` in order. A second call makes it stop at once."""
        if self._stopping.is_set() and self._patience is not None:
            logger.warning("%s once more: stopping at once, without waiting for brokers or ZooKeeper", reason)
            self._patience.reschedule(asyncio.get_running_loop().time())
        self._stop_reason = self._stop_reason or reason
        self._stopping.set()

    async def run(self) -> int:
        """Run until stopped, and return an ExitCode."""
        for warning in self._config.warnings:
            logger.warning("%s", warning)
        journal = self._open_journal()
        try:
            with stop_on_signals(self.stop, on_hangup=_RELOADS if self._holds_id else None):
                await self._run_tasks(journal)
        except ExceptionGroup as errors:
            unavailable = errors.subgroup((AddressUnavailable, ListenFailed, ControllerIdTaken))
            if unavailable is not None:
                logger.critical("%s", unavailable.exceptions[0])
                return ExitCode.CANNOT_START
            logger.critical("the controller cannot continue and ends", exc_info=True)
            return ExitCode.FAULT
        finally:
            if journal is not None:
                journal.close()
        return ExitCode.STOPPED if self.unconfirmed_deletions.is_nothing else ExitCode.UNCONFIRMED_DELETIONS

    async def _run_tasks(self, journal: Journal | None) -> None:
        inbound = Inbound(self._config.inbound)
        metrics = ControllerMetrics(security_metrics(self._config, inbound))
        memory = BoardMemory(self._config.controller_id, self._clock)
        recorder = Recorder(journal, metrics, memory)
        queue = EventQueue()
        timers = Timers(self._clock, queue.post)
        listener = listener_for(self._config, queue.post, metrics, inbound)
        open_session = self._open_session if listener is None else inbound.following(self._open_session)

        def session_lost(event: SessionLost) -> None:
            if listener is not None:
                listener.control_lost(f"the ZooKeeper session was lost: {event.reason}")
            loop.session_lost(event)

        instance = Instance(self._config.controller_id, lambda: context.config.admin)
        make_znodes = instance.prepare if self._holds_id else ensure_roots

        async def prepare(session: ZooKeeperSession) -> None:
            await demand_rights(session)
            await make_znodes(session)

        sessions = SessionKeeper(open_session, post=queue.post, overtake=session_lost, prepare=prepare)
        self.session_problem = lambda: sessions.problem
        self.session_refusal = lambda: sessions.problem if sessions.is_refused else None
        async with asyncio.TaskGroup() as tasks:
            channels = Channels(
                tasks,
                ChannelSettings(self._config.inter_broker_protocol, self._config.max_broker_request_bytes),
                self._connect,
                queue.deliver,
                lambda error, where: loop.fault(error, where),
            )
            subject = f"controller/{self._config.controller_id}"
            self.channel_problems = channels.problems
            caches = CacheReader(connector(self._config), queue.post, lambda error, where: loop.fault(error, where))
            offsets = GroupOffsetsClient(
                connector(self._config), queue.post, lambda error, where: loop.fault(error, where)
            )
            performer = Performer(
                sessions,
                channels,
                timers,
                recorder.record,
                metrics.note_zookeeper,
                subject,
                listener,
                caches.read,
                prober(self._config, self._connect).probe,
                Background(tasks.create_task, queue.post, lambda error, where: loop.fault(error, where)),
                offsets.perform,
            )
            if listener is not None:
                self.endpoints = await listener.listen(self._config.listeners, self._config.advertised_listeners)
            core = replace(core_config(self._config, self.endpoints), scope=self._scope)
            if self._cache_look_rest is not None:
                core = replace(core, cache_look_rest=self._cache_look_rest)
            context = Context(core)
            core_step = checked(step) if self._config.invariants_check else step
            loop = ControllerLoop(
                context, core_step, after_fault, performer, self._clock, metrics, recorder.record, queue=queue
            )
            powers = PowerWatch(loop.readable, self._clock, channels.problems)
            metrics.sources = sources(loop, sessions, channels.views, self._clock, journal, listener, powers)
            memory.active_controller = lambda: context.active_controller
            board = Board(memory, loop, sessions, channels.views, channels.problems, self._clock)
            board.view.power = powers.look
            pages = AdminPages(loop, sessions, metrics, self._clock, channels.problems, powers)
            routes = (*board.routes(), *pages.routes())
            async with serve_configured(self._config.http, routes) as self.http:
                # Before the election: the port is known only now.
                context.config = replace(context.config, admin=reachable_url(self.http))
                if listener is not None:
                    await listener.start(tasks)
                consumer = tasks.create_task(loop.run(), name="controller-loop")
                keeper = tasks.create_task(sessions.run(), name="zookeeper-sessions")
                watching = tasks.create_task(board.run(), name="board")
                telling = tasks.create_task(
                    log_blockers(loop.between_steps, channels.problems, self._clock), name="blockers"
                )
                reporting = tasks.create_task(self._manager.report(pages.health, pages.readiness), name="report")
                self._loop = loop
                self.started.set()
                self._announce(recorder, "process started", inbound)
                await self._stopping.wait()
                await self._step_down(loop)
                keeper.cancel()
                consumer.cancel()
                watching.cancel()
                telling.cancel()
                reporting.cancel()
                performer.drop_everything()
                channels.end()
                caches.end()
                offsets.end()
                if listener is not None:
                    await listener.stop(LISTENER_GRACE_MS)
            self._announce(recorder, "process stopping", inbound)

    async def _step_down(self, loop: ControllerLoop) -> None:
        logger.info("stopping: %s", self._stop_reason)
        grace_ms = self._config.stop_grace_ms
        try:
            async with asyncio.timeout(STEP_DOWN_LIMIT_S + grace_ms / 1000) as self._patience:
                if loop.context.holds_controller:
                    loop.post(ResignationRequested(self._stop_reason, for_good=True, patience_ms=grace_ms))
                is_waiting = False
                # Nothing is awaited between the look and `changed`: an event handled meanwhile would be missed.
                while (context := await loop.between_steps()).holds_controller:
                    if context.cluster.leaving is not None and not is_waiting:
                        is_waiting = True
                        left = awaited(context)
                        logger.warning("%s; a second signal ends this at once", waiting_words(left, grace_ms))
                    await loop.changed()
        except TimeoutError:
            logger.warning("/controller could not be given up in good order; it goes with the session")
            context = await loop.between_steps()
            if context.is_leading:
                context.unconfirmed_deletions = unconfirmed_deletions(context)
        finally:
            self._patience = None
        for line in left_words(self.unconfirmed_deletions):
            logger.warning("%s", line)

    def _announce(self, recorder: Recorder, what: str, inbound: Inbound) -> None:
        subject = f"controller/{self._config.controller_id}"
        recorder.record(
            EventRecord(
                EventRecordType.EVENT, subject, {"event": what, "outcome": "handled", "process_id": os.getpid()}
            )
        )
        if what == "process started" and self.http is not None:
            logger.info(
                "controller %d is up, metrics and state at %s",
                self._config.controller_id,
                self.http.url,
                extra=fields(inter_broker_protocol=str(self._config.inter_broker_protocol)),
            )
        if what == "process started" and self.endpoints:
            self._announce_listeners(inbound)

    def _announce_listeners(self, inbound: Inbound) -> None:
        where = ", ".join(endpoint.text for endpoint in self.endpoints)
        logger.info("brokers find the controller at %s, among the live brokers; clients take it for one", where)
        warning = inbound.open_to_all(self.endpoints, "change ISRs")
        if warning is not None:
            logger.warning("%s", warning)

    def _open_journal(self) -> Journal | None:
        config = self._config
        return open_journal("controller", config.controller_id, config.journal, config.journal_topic, self._clock)


def application(
    config: ControllerConfig,
    *,
    scope: Scope = EVERYTHING,
    cache_look_rest: int | None = None,
    holds_id: bool = True,
    manager: ServiceManager | None = None,
) -> ControllerApp:
    """Return a controller over real ZooKeeper and brokers. Raises ValueError for a contradictory configuration."""
    opening = functools.partial(open_session, config.zookeeper.session())
    return ControllerApp(
        config,
        opening,
        connector(config),
        scope=scope,
        cache_look_rest=cache_look_rest,
        holds_id=holds_id,
        manager=manager,
    )


async def run(config: ControllerConfig) -> int:
    """Run a controller until SIGTERM or SIGINT, and return an ExitCode. Sets gc thresholds and the switch interval of
    the process."""
    collect_rarely()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        app = application(config, manager=service_manager(os.environ))
    except ValueError as error:
        logger.critical("%s", error)
        return ExitCode.CANNOT_START
    return await app.run()
