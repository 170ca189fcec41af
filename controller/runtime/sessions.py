"""Keeps one ZooKeeper session after the other, for as long as the process lives.

The keeper opens a session, posts `SessionEstablished`, and waits until the session is lost or `renew` is called. Then
it puts `SessionLost` ahead of all queued events, and opens the next session. While ZooKeeper is unavailable it retries
with growing pauses, and logs a warning from time to time. A refused login (ZooKeeperRefused) and an access list that
forbids the first writes are logged once, and tried again with the longest pause only: somebody has to change a setting
first.

A session that is lost within `settled_after_ms` counts as a failed attempt. Otherwise a server that accepts and hangs
up would get hundreds of connections per second.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from lethe.adapters.logs import fields
from lethe.adapters.registration import RegistrationFailed
from lethe.adapters.zookeeper.interface import (
    OpenSession,
    WriteRefused,
    ZooKeeperSession,
    ZooKeeperUnavailable,
    needs_new_settings,
)
from lethe.adapters.zookeeper.interface import SessionLost as SessionIsLost
from lethe.controller.core.events import External, SessionEstablished, SessionLost, from_watch
from lethe.controller.runtime.instance import ControllerIdTaken
from lethe.protocol.back_off import BackOff
from lethe.protocol.zookeeper.operations import WatchFired

logger = logging.getLogger(__name__)

ENTROPY_BYTES: Final = 32
DEFAULT_BACK_OFF: Final = BackOff(100, 5_000)


@dataclass(slots=True)
class SessionCounts:
    """Counts for metrics."""

    opened: int = 0
    lost: int = 0
    failed_attempts: int = 0


class SessionKeeper:
    """Holds the current session. `run` is a task of the composition root."""

    def __init__(
        self,
        open_session: OpenSession,
        *,
        post: Callable[[External], None],
        overtake: Callable[[SessionLost], None],
        prepare: Callable[[ZooKeeperSession], Awaitable[None]] | None = None,
        back_off: BackOff = DEFAULT_BACK_OFF,
        settled_after_ms: int = 5_000,
        log_every_ms: int = 10_000,
    ) -> None:
        self.counts = SessionCounts()
        self.session: ZooKeeperSession | None = None
        """The usable session; None between two sessions."""
        self.problem: str | None = "no session has been opened yet"
        """Why there is no session, as text for users."""
        self.is_refused = False
        """True if `problem` stays until somebody changes a setting or an access list."""
        self._open_session = open_session
        self._post = post
        self._overtake = overtake
        self._prepare = prepare
        self._back_off = back_off
        self._settled_after_ms = settled_after_ms
        self._log_every_ms = log_every_ms
        self._attempts = 0
        self._failing_since_s = 0.0
        self._logged_at_s = 0.0
        self._renewal: asyncio.Future[str] | None = None

    def renew(self, reason: str) -> None:
        """Give up the current session, if any, and open another. `SessionLost` is queued before this returns."""
        if self.session is not None and self._renewal is not None and not self._renewal.done():
            self._end(reason)
            self._renewal.set_result(reason)

    async def run(self) -> None:
        """Open sessions until cancelled, then close the current one. Raises ControllerIdTaken."""
        while True:
            await asyncio.sleep(self._back_off.wait_ms(self._attempts) / 1000)
            try:
                await self._hold_one_session()
            except ControllerIdTaken:
                raise
            except (ZooKeeperUnavailable, WriteRefused, SessionIsLost, RegistrationFailed, OSError) as error:
                note = self._note_refusal if needs_new_settings(error) else self._note_failure
                note(str(error))
            except Exception:
                # A controller without ZooKeeper can only retry, whatever the error is.
                logger.exception("opening a ZooKeeper session failed in an unexpected way")
                self._note_failure("an unexpected error; the log has it")

    async def _hold_one_session(self) -> None:
        generation = self.counts.opened + 1

        def on_watch(fired: WatchFired) -> None:
            if self.session is not None and self.counts.opened == generation:
                event = from_watch(fired)
                if event is not None:
                    self._post(event)

        async with self._open_session(on_watch) as session:
            if self._prepare is not None:
                await self._prepare(session)
            started_s = time.monotonic()
            self._note_success(session)
            self._renewal = asyncio.get_running_loop().create_future()
            self._post(SessionEstablished(session.session_id, os.urandom(ENTROPY_BYTES)))
            reason = await self._until_over(session, self._renewal)
            if not self._renewal.done():
                self._end(reason)
            if (time.monotonic() - started_s) * 1000 >= self._settled_after_ms:
                self._attempts = 0
            else:
                self._attempts += 1

    def _end(self, reason: str) -> None:
        self.session = None
        self.problem, self.is_refused = reason, False
        self.counts.lost += 1
        self._overtake(SessionLost(reason))

    async def _until_over(self, session: ZooKeeperSession, renewal: asyncio.Future[str]) -> str:
        """Wait until the session ends and return the reason."""
        async with asyncio.TaskGroup() as group:
            lost = group.create_task(session.lost.wait(), name="zookeeper-session-lost")
            await asyncio.wait((lost, renewal), return_when=asyncio.FIRST_COMPLETED)
            lost.cancel()
        if renewal.done():
            logger.info(
                "giving the ZooKeeper session up: %s",
                renewal.result(),
                extra=fields(session=f"{session.session_id:#x}"),
            )
            return renewal.result()
        reason = session.lost_reason or "no reason is known"
        logger.warning("the ZooKeeper session is lost: %s", reason, extra=fields(session=f"{session.session_id:#x}"))
        return reason

    def _note_success(self, session: ZooKeeperSession) -> None:
        self.counts.opened += 1
        self.session = session
        self.problem, self.is_refused = None, False
        self._failing_since_s = 0.0
        self._logged_at_s = 0.0
        logger.info(
            "ZooKeeper session established",
            extra=fields(session=f"{session.session_id:#x}", timeout_ms=session.negotiated_timeout_ms),
        )

    def _note_refusal(self, problem: str) -> None:
        is_known = self.problem == problem
        self._attempts = max(self._attempts + 1, self._back_off.first_longest)
        self.counts.failed_attempts += 1
        self.problem, self.is_refused = problem, True
        if not is_known:
            logger.error(
                "%s. Without ZooKeeper nothing is controlled; it is tried again every %g s, and this is said once",
                problem,
                self._back_off.max_ms / 1000,
            )

    def _note_failure(self, problem: str) -> None:
        self._attempts += 1
        self.counts.failed_attempts += 1
        self.problem, self.is_refused = problem, False
        now_s = time.monotonic()
        self._failing_since_s = self._failing_since_s or now_s
        if not self._logged_at_s or (now_s - self._logged_at_s) * 1000 >= self._log_every_ms:
            self._logged_at_s = now_s
            logger.warning(
                "ZooKeeper cannot be used, and without it nothing is controlled; trying again: %s",
                problem,
                extra=fields(for_s=round(now_s - self._failing_since_s, 1), attempts=self._attempts),
            )
