"""The composition root of `lethe broker`: makes the parts, runs them in one task group, ends them in order.

Start: claim the log directories, reach ZooKeeper, learn the cluster's id and check it against the directories, read
what is in them, listen, carry out missed deletions, register. From the registration on a controller sends requests.

Tasks: the keeper of the ZooKeeper session, one server per listener, the ticker that writes checkpoints, and whatever
work the core has asked for. Disk work has a thread of its own, removals another, so the event loop never waits for a
disk. On a request to stop, the agent first asks the controller to move its leaderships, and serves meanwhile; a second
request ends that wait. Then it accepts no further requests, closes its ZooKeeper session, finishes outstanding disk
work and writes its checkpoints. A kill loses nothing; the next start takes longer.
"""

from __future__ import annotations

import asyncio
import base64
import enum
import functools
import logging
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, TypeVar

from lethe.adapters.clock import Clock, SystemClock
from lethe.adapters.config_listeners import with_ports
from lethe.adapters.descriptors import connections_that_fit
from lethe.adapters.garbage_collection import collect_rarely
from lethe.adapters.http import AddressUnavailable, HttpServer
from lethe.adapters.http_serving import serve_configured
from lethe.adapters.journal import Journal
from lethe.adapters.journal_open import open_journal
from lethe.adapters.kafka.server import ListenFailed
from lethe.adapters.logs import fields
from lethe.adapters.registration import cluster_id, ensure_roots
from lethe.adapters.security.inbound import Inbound
from lethe.adapters.security_metrics import security_metrics
from lethe.adapters.service_manager import ServiceManager, service_manager
from lethe.adapters.signals import stop_on_signals
from lethe.adapters.zookeeper.interface import OpenSession, ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.broker.core.effects import DirectoryRef, DiskOperation, ProposeIsr
from lethe.broker.core.inputs import (
    BrokerRegistered,
    ControllerEpochReceived,
    DiskOutcome,
    FoundDebt,
    InventoryLoaded,
    IsrOutcome,
    LogDirFailed,
    RemovalOutcome,
    TopicIdAnswer,
)
from lethe.broker.core.isr import controller_endpoint
from lethe.broker.core.state import AgentState, Settings
from lethe.broker.runtime.auto_creation import AutoCreation
from lethe.broker.runtime.configuration import BrokerConfig
from lethe.broker.runtime.controlled_shutdown import leave_in_order
from lethe.broker.runtime.disk import Disk
from lethe.broker.runtime.isr_changes import IsrChanges
from lethe.broker.runtime.listeners import Listeners
from lethe.broker.runtime.log_dirs import LogDirs
from lethe.broker.runtime.loop import AgentLoop
from lethe.broker.runtime.metrics import AgentMetrics
from lethe.broker.runtime.missed_deletions import MissedDeletions
from lethe.broker.runtime.ownership import CannotStart
from lethe.broker.runtime.pages import AgentPages
from lethe.broker.runtime.recorder import Recorder
from lethe.broker.runtime.removal_pace import RemovalLimits, RemovalPace
from lethe.broker.runtime.remover import Remover
from lethe.broker.runtime.requests import Requests
from lethe.broker.runtime.sessions import Sessions
from lethe.protocol.journal import EventRecord
from lethe.protocol.listener_choice import ListenerChoice
from lethe.protocol.vocabulary import Broker, BrokerEpoch, Endpoint

logger = logging.getLogger(__name__)
T = TypeVar("T")

CHECKPOINT_INTERVAL_S: Final = 5.0
"""Kafka's `replica.high.watermark.checkpoint.interval.ms`."""
_RELOADS: Final = (
    "the file is read at the start only, so nothing is reloaded and the agent continues; restart it to read the file "
    "again."
)
STOP_GRACE_MS: Final = 2_000
"""Limit for outstanding requests when the agent stops."""


class ExitCode(enum.IntEnum):
    """What `run` returns."""

    STOPPED = 0
    """Stopped on request."""
    FAULT = 1
    """Every log directory failed, or a fault occurred; the log has the reason."""
    CANNOT_START = 2
    """An operator has to act first; the log says how."""


class AgentApp:
    """One agent, and the performer of its loop's effects. `run` once; everything else may be used while it runs."""

    def __init__(
        self,
        config: BrokerConfig,
        open_session: OpenSession,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        manager: ServiceManager | None = None,
    ) -> None:
        """`manager` receives the state of the agent."""
        self.started = asyncio.Event()
        """Set when the agent is registered and serves."""
        self.endpoints: tuple[Endpoint, ...] = ()
        """Where it listens, with real ports."""
        self.http: HttpServer | None = None
        self._config = config
        self._clock = SystemClock() if clock is None else clock
        self._manager = ServiceManager() if manager is None else manager
        self._log_dirs = LogDirs(
            config.log_dirs,
            broker_id=config.broker_id,
            fill_bytes=config.fill_bytes,
            fill_segment_bytes=config.fill_segment_bytes,
            disk=disk,
        )
        self._inbound = Inbound(config.inbound)
        self.metrics = AgentMetrics(security_metrics(config, self._inbound))
        opening = self._inbound.following(open_session)
        self._sessions = Sessions(opening, self._clock, prepare=self._prepare, registered=self._note_registered)
        self._missed = MissedDeletions(config.broker_id)
        self._isr_changes = IsrChanges(config.broker_id, config.reach, lambda: self._sessions.session)
        self._auto_creation = AutoCreation(config.broker_id, config.reach, lambda: controller_endpoint(self.loop.state))
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._stop_reason = ""
        self._exit_code = ExitCode.STOPPED
        self._cluster_id: str | None = None
        self._loop: AgentLoop | None = None
        self._listeners: Listeners | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._recorder = Recorder(None, self.metrics.counts)
        self._disk_thread = ThreadPoolExecutor(1, thread_name_prefix="agent-disk")
        self._removal_thread = ThreadPoolExecutor(1, thread_name_prefix="agent-removal")
        limits = RemovalLimits(config.delete_files_per_second, config.delete_bytes_per_second)
        self._removal_pace = RemovalPace(config.broker_id, limits)
        self._remover = Remover(self._log_dirs, self._removal_thread, lambda: self._removal_pace.limits)

    @property
    def loop(self) -> AgentLoop:
        """The loop that feeds the core. Raises RuntimeError before the log directories have been read."""
        if self._loop is None:
            raise RuntimeError("the agent has not read its log directories yet")
        return self._loop

    def stop(self, reason: str, exit_code: ExitCode = ExitCode.STOPPED) -> None:
        """Make `run` end in order and return `code`; the first reason counts. A second request ends the wait for the
        controller. A fault replaces an earlier request to stop."""
        if not self._stopping.is_set():
            self._stop_reason = reason
            self._exit_code = exit_code
            self._stopping.set()
            return
        if self._exit_code is ExitCode.STOPPED:
            self._exit_code = exit_code
        self._hurry.set()

    # --- life -----------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Run until stopped; an ExitCode."""
        for warning in self._config.warnings:
            logger.warning("%s", warning)
        journal = self._open_journal()
        self._recorder = Recorder(journal, self.metrics.counts)
        if journal is not None:
            self.metrics.journal = journal.counts if journal.has_files else None
            self.metrics.journal_topic = journal.topic_counts
        try:
            with stop_on_signals(self.stop, on_hangup=_RELOADS):
                await self._on_disk(self._log_dirs.open)
                await self._run_tasks()
        except* (CannotStart, AddressUnavailable, ListenFailed) as problems:
            self._exit_code = ExitCode.CANNOT_START
            for problem in _leaves(problems):
                logger.critical("the agent cannot start: %s", problem)
        except* Exception:
            self._exit_code = ExitCode.FAULT
            logger.critical("the agent cannot continue and ends", exc_info=True)
        finally:
            await self._release_directories()
            if journal is not None:
                journal.close()
        return self._exit_code

    async def _run_tasks(self) -> None:
        pages = AgentPages(self._config.broker_id, self.metrics, self._sessions, lambda: self._loop)
        async with (
            serve_configured(self._config.http, pages.routes()) as self.http,
            asyncio.TaskGroup() as self._tasks,
        ):
            keeper = self._tasks.create_task(self._sessions.run(), name="agent-zookeeper-sessions")
            ticker = self._tasks.create_task(self._tick(), name="agent-ticker")
            following = self._tasks.create_task(
                self._removal_pace.follow(lambda: self._sessions.session), name="agent-removal-pace"
            )
            reporting = self._tasks.create_task(
                self._manager.report(pages.health, pages.readiness), name="agent-report"
            )
            await self._stopping.wait()
            level = logging.INFO if self._exit_code is ExitCode.STOPPED else logging.CRITICAL
            logger.log(level, "stopping: %s", self._stop_reason)
            if self._exit_code is ExitCode.STOPPED:
                await self._leave_in_order(self._tasks)
            keeper.cancel()
            ticker.cancel()
            reporting.cancel()
            following.cancel()
            if self._listeners is not None:
                await self._listeners.stop(STOP_GRACE_MS)
            if self._loop is not None:
                self._loop.stop("the agent is stopping")
            await self._isr_changes.close()
            await self._auto_creation.close()

    async def _leave_in_order(self, tasks: asyncio.TaskGroup) -> None:
        """Ask the controller to move the leaderships, unless a second request to stop arrives."""
        config = self._config.controlled_shutdown
        if self._loop is None or not self.started.is_set() or not config.enable:
            return
        asking = leave_in_order(self._loop.state, config, self._config.reach)
        leaving = tasks.create_task(asking, name="agent-controlled-shutdown")
        hurry = tasks.create_task(self._hurry.wait(), name="agent-hurry")
        await asyncio.wait((leaving, hurry), return_when=asyncio.FIRST_COMPLETED)
        if not leaving.done():
            logger.warning("the agent leaves before the controller has let it go: it was asked to stop a second time")
        leaving.cancel()
        hurry.cancel()

    async def _release_directories(self) -> None:
        """Finish outstanding disk work, then release the directories."""
        self._removal_thread.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._removal_thread.shutdown)
        await self._on_disk(self._log_dirs.close)
        self._disk_thread.shutdown(wait=False)

    def _open_journal(self) -> Journal | None:
        config = self._config
        return open_journal("broker", config.broker_id, config.journal, config.journal_topic, self._clock)

    async def _tick(self) -> None:
        """Write checkpoints periodically. This also detects the loss of an idle directory."""
        while True:
            await asyncio.sleep(CHECKPOINT_INTERVAL_S)
            if self._loop is None:
                continue
            for log_dir, error in (await self._on_disk(self._log_dirs.write_checkpoints)).items():
                self._loop.feed(LogDirFailed(log_dir, error))

    # --- ZooKeeper ------------------------------------------------------------------------------------------------

    async def _prepare(self, session: ZooKeeperSession) -> Broker:
        """Prepare a new session; the first one starts the rest of the agent."""
        await ensure_roots(session)
        found = await cluster_id(session, _new_cluster_id())
        if self._cluster_id is None:
            await self._start(found)
        elif self._cluster_id != found:
            raise CannotStart(f"ZooKeeper was of cluster {self._cluster_id} and is of cluster {found} now")
        await self._missed.catch_up(session, self.loop.feed)
        return self._broker()

    async def _start(self, found: str) -> None:
        """Read the directories and listen; the loop exists from here on."""
        assert self._tasks is not None
        inventory = await self._on_disk(functools.partial(self._log_dirs.load, found))
        config = self._config
        settings = Settings(
            config.broker_id,
            config.delete_delay_ms,
            secrets.token_hex(16),
            config.catch_up_delay_ms,
            config.inter_broker_protocol,
            ListenerChoice(config.inter_broker_listener, config.reach.choice.spoken),
            config.acknowledge_only,
        )
        state = AgentState(settings)
        loop = AgentLoop(state, self, self._clock, self._tasks, lambda why: self.stop(why, ExitCode.FAULT))
        loop.feed(InventoryLoaded(inventory))
        if state.halted:
            raise CannotStart(self._stop_reason)
        requests = Requests(
            loop,
            found,
            config.own_settings,
            space=self._log_dirs.space,
            session=lambda: self._sessions.session,
            auto_creation=self._auto_creation if config.auto_create_topics else None,
        )
        listeners = Listeners(
            requests.handler,
            replace(config.limits, max_connections=connections_that_fit(config.limits.max_connections)),
            self._inbound,
            self.metrics.counts.note_request,
        )
        self.endpoints = await listeners.listen(self._config.listeners)
        listeners.start(self._tasks)
        self._loop, self._listeners, self._cluster_id = loop, listeners, found
        self.metrics.state = state

    def _broker(self) -> Broker:
        """The registration: advertised endpoints, with the port of the listener where theirs is 0."""
        advertised = with_ports(self._config.advertised_listeners, self.endpoints)
        return Broker(self._config.broker_id, BrokerEpoch(-1), advertised, self._config.rack)

    def _note_registered(self, epoch: BrokerEpoch) -> None:
        self.loop.feed(BrokerRegistered(epoch))
        if not self.started.is_set():
            self.started.set()
            self._greet()

    def _greet(self) -> None:
        where = ", ".join(endpoint.text for endpoint in self.endpoints)
        logger.info(
            "broker agent %d is up at %s, metrics at %s",
            self._config.broker_id,
            where,
            None if self.http is None else self.http.url,
            extra=fields(cluster=self._cluster_id),
        )
        what = f"delete replicas in {', '.join(map(str, self._config.log_dirs))} by StopReplica"
        warning = self._inbound.open_to_all(self.endpoints, what)
        if warning is not None:
            logger.warning("%s", warning)

    # --- effects of the loop -----------------------------------------------------------------------------------------

    async def perform(self, operations: Sequence[DiskOperation]) -> tuple[DiskOutcome, ...]:
        """On the disk thread."""
        return await self._on_disk(functools.partial(self._log_dirs.perform, operations))

    async def remove(self, directories: Sequence[DirectoryRef]) -> tuple[RemovalOutcome, ...]:
        """On the removal thread, paced."""
        return await self._remover.remove(directories)

    async def ask_topic_ids(self, topics: Sequence[str]) -> tuple[TopicIdAnswer, ...]:
        return await self._sessions.ask_topic_ids(topics)

    async def ask_controller_epoch(self) -> ControllerEpochReceived:
        return await self._sessions.ask_controller_epoch()

    async def propose_isr(self, proposal: ProposeIsr) -> tuple[IsrOutcome, ...]:
        return await self._isr_changes.propose(proposal)

    async def notify_log_dir_failure(self) -> None:
        await self._sessions.notify_log_dir_failure(self._broker())

    def settle_debts(self, debts: Sequence[FoundDebt]) -> None:
        self._missed.note_settled(debts)

    def record(self, record: EventRecord) -> None:
        self._recorder.record(record)

    async def _on_disk(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk_thread, work)


async def run(config: BrokerConfig) -> int:
    """Run an agent until SIGTERM or SIGINT; an ExitCode. Tunes the process's garbage collector."""
    collect_rarely()
    session_config = config.zookeeper.session()
    manager = service_manager(os.environ)
    return await AgentApp(config, lambda on_watch: open_session(session_config, on_watch), manager=manager).run()


def _new_cluster_id() -> str:
    """22 characters of URL-safe base64, as Kafka makes them."""
    while (text := base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode("ascii")).startswith("-"):
        pass
    return text


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
