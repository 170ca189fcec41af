"""The agent's ZooKeeper sessions: one after the other, each with a registration and so with a broker epoch of its own.

While ZooKeeper is unreachable the agent keeps trying, and its replicas stay unchanged. The registration of a killed
process lasts until its session expires. The next process waits for that, up to the maximum session timeout, before it
reports that the id is taken.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from lethe.adapters.clock import Clock
from lethe.adapters.logs import fields
from lethe.adapters.registration import (
    BrokerIdTaken,
    Patience,
    RegistrationFailed,
    notify_log_dir_failure,
    register_broker,
)
from lethe.adapters.zookeeper.interface import (
    OpenSession,
    SessionLost,
    WriteRefused,
    ZooKeeperSession,
    ZooKeeperUnavailable,
    needs_new_settings,
)
from lethe.broker.core.inputs import (
    ControllerEpochAnswer,
    ControllerEpochReceived,
    ControllerEpochUnavailable,
    TopicAbsence,
    TopicIdAnswer,
    TopicIdUnavailable,
)
from lethe.broker.runtime.ownership import CannotStart
from lethe.protocol.back_off import BackOff
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId
from lethe.protocol.zookeeper.operations import (
    Data,
    GetData,
    ReadFailed,
    ReadOutcome,
    WatchFired,
    ZkError,
    failure_words,
)
from lethe.protocol.zookeeper.paths import controller, controller_epoch, topic
from lethe.protocol.zookeeper.znodes import MalformedZnode, decode_controller, decode_controller_epoch, decode_topic

logger = logging.getLogger(__name__)

BACK_OFF: Final = BackOff(100, 5_000)
LOG_EVERY_S: Final = 10.0
POLL_S: Final = 0.25
KEPT_SESSIONS: Final = 16
"""Number of earlier sessions of this process that are stored: their registrations may still exist."""


class Sessions:
    """Holds the present session. `run` is a task of the composition root."""

    def __init__(
        self,
        open_session: OpenSession,
        clock: Clock,
        *,
        prepare: Callable[[ZooKeeperSession], Awaitable[Broker]],
        registered: Callable[[BrokerEpoch], None],
    ) -> None:
        self.session: ZooKeeperSession | None = None
        """The session under which the agent is registered; None between two of them."""
        self.problem: str | None = "no ZooKeeper session has been opened yet"
        """Why there is none, as text to show."""
        self.opened = 0
        self._open_session = open_session
        self._clock = clock
        self._prepare = prepare
        self._registered = registered
        self._earlier: list[int] = []
        self._attempts = 0
        self._logged_at_s = -LOG_EVERY_S
        self._available = asyncio.Event()

    async def run(self) -> None:
        """Keep one session after the other until cancelled. Then close the last one, which removes the registration.

        Raises CannotStart if retrying cannot help.
        """
        while True:
            try:
                await self._hold_one_session()
            except (
                ZooKeeperUnavailable,
                WriteRefused,
                SessionLost,
                RegistrationFailed,
                MalformedZnode,
                OSError,
            ) as error:
                note = self._note_refusal if needs_new_settings(error) else self._note_failure
                note(str(error))
            await asyncio.sleep(BACK_OFF.wait_ms(self._attempts + 1) / 1000)

    async def _hold_one_session(self) -> None:
        async with self._open_session(_ignore_watch) as session:
            try:
                broker = await self._prepare(session)
                epoch = await self._register(session, broker)
            finally:
                self._earlier = [*self._earlier, session.session_id][-KEPT_SESSIONS:]
            self.opened += 1
            self._attempts = 0
            self.session, self.problem = session, None
            self._available.set()
            self._registered(epoch)
            try:
                await session.lost.wait()
            finally:
                self.session = None
                self._available.clear()
            self.problem = session.lost_reason or "the session is lost"
            logger.warning("the ZooKeeper session is lost: %s", self.problem)

    async def _register(self, session: ZooKeeperSession, broker: Broker) -> BrokerEpoch:
        """Register; wait until the registration of a dead process has expired."""
        patience = Patience(session)
        told = False
        while True:
            try:
                epoch = await register_broker(
                    session, broker, timestamp_ms=self._clock.now_ms(), earlier_sessions=self._earlier
                )
            except BrokerIdTaken as taken:
                if patience.is_over():
                    raise CannotStart(str(taken)) from taken
                if not told:
                    logger.warning("%s; waiting %.0f s for it to go", taken, patience.seconds)
                    told = True
                await asyncio.sleep(POLL_S)
            else:
                logger.info(
                    "registered as broker %d", broker.id, extra=fields(epoch=epoch, session=f"{session.session_id:#x}")
                )
                return epoch

    def _note_refusal(self, problem: str) -> None:
        is_known = self.problem == problem
        self._attempts = max(self._attempts + 1, BACK_OFF.first_longest)
        self.problem = problem
        if not is_known:
            logger.error("%s. It is tried again every %g s, and this is said once", problem, BACK_OFF.max_ms / 1000)

    def _note_failure(self, problem: str) -> None:
        self._attempts += 1
        self.problem = problem
        now_s = time.monotonic()
        if now_s - self._logged_at_s >= LOG_EVERY_S:
            self._logged_at_s = now_s
            logger.warning("ZooKeeper cannot be used; trying again: %s", problem, extra=fields(attempts=self._attempts))

    # --- reads and notifications ----------------------------------------------------------------------------

    async def ask_topic_ids(self, topics: Sequence[str]) -> tuple[TopicIdAnswer, ...]:
        """The topic id in each topic's znode."""
        session = self.session
        if session is None:
            return (TopicIdUnavailable(self.problem or "there is no session"),) * len(topics)
        try:
            outcomes = await session.read([GetData(topic(name)) for name in topics])
        except SessionLost as lost:
            return (TopicIdUnavailable(str(lost)),) * len(topics)
        return tuple(topic_id_of(name, outcome) for name, outcome in zip(topics, outcomes, strict=True))

    async def ask_controller_epoch(self) -> ControllerEpochReceived:
        """The value of `/controller_epoch`, and whose it is. A server that lags behind may return an older one."""
        session = self.session
        if session is None:
            return ControllerEpochReceived(ControllerEpochUnavailable(self.problem or "there is no session"))
        try:
            epoch, holder = await session.read([GetData(controller_epoch()), GetData(controller())])
        except SessionLost as lost:
            return ControllerEpochReceived(ControllerEpochUnavailable(str(lost)))
        return ControllerEpochReceived(_controller_epoch(epoch), controller_of_epoch(epoch, holder))

    async def notify_log_dir_failure(self, broker: Broker) -> None:
        """Notify the controller, now or with the next session."""
        told = ""
        while True:
            await self._available.wait()
            session, pause_s = self.session, POLL_S
            try:
                if session is not None:
                    await notify_log_dir_failure(session, broker.id)
                    return
            except (SessionLost, RegistrationFailed) as error:
                if str(error) != told:
                    logger.warning("the controller could not be informed of the failed log directory: %s", error)
                    told = str(error)
                if needs_new_settings(error):
                    pause_s = BACK_OFF.max_ms / 1000
            await asyncio.sleep(pause_s)


def topic_id_of(name: str, outcome: ReadOutcome) -> TopicIdAnswer:
    match outcome:
        case Data(data):
            try:
                topic_id = decode_topic(name, data).topic_id
            except MalformedZnode as malformed:
                return TopicIdUnavailable(str(malformed))
            return TopicAbsence.NO_ID if topic_id is None else topic_id
        case ReadFailed(ZkError.NO_NODE):
            return TopicAbsence.NO_TOPIC
        case other:
            return TopicIdUnavailable(f"{topic(name)} cannot be read: {failure_words(other)}")


def _controller_epoch(outcome: ReadOutcome) -> ControllerEpochAnswer:
    match outcome:
        case Data(data):
            try:
                return decode_controller_epoch(data)
            except MalformedZnode as malformed:
                return ControllerEpochUnavailable(str(malformed))
        case ReadFailed(ZkError.NO_NODE):
            return ControllerEpochUnavailable("there is no such znode")
        case other:
            return ControllerEpochUnavailable(failure_words(other))


def _ignore_watch(fired: WatchFired) -> None:
    """The agent watches nothing."""
    logger.debug("a watch fired that was not set: %s", fired)


def controller_of_epoch(epoch: ReadOutcome, controller: ReadOutcome) -> BrokerId | None:
    """Whose the epoch in `/controller_epoch` is, by `/controller`; None if that is not known.

    A `/controller` that is newer than the epoch is not of its controller: who takes control from another one writes
    its own id first, and raises the epoch some seconds later.
    """
    if not isinstance(epoch, Data) or not isinstance(controller, Data) or controller.stat.czxid > epoch.stat.mzxid:
        return None
    try:
        return decode_controller(controller.data).broker_id
    except MalformedZnode:
        return None
