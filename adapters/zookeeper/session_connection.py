"""Keeps one session alive over a sequence of connections, and determines when it is over.

Theory of operation. A session begins with the first handshake. When nothing was sent for a third of the timeout, a ping
is sent. A server that is silent for two thirds of the timeout with a request unanswered is dropped. When the connection
breaks, the servers are tried in turn with the session's id and password; watches are set again before other requests.

The session is over when

    a server says so, or refuses our credentials or our watches;
    it is closed;
    by our own clock, the timeout has passed since the newest answered request was sent.

That clock can only be early, because the server has heard from us at that time or later. So a process that was
suspended for longer than the timeout finds its session over before it sends anything else.

Back-off: one attempt right after the loss, then pauses that double up to a twentieth of the timeout, one second at
most. A connection that breaks right after it was opened counts as a failed attempt. So a server that sends malformed
answers, or closes at a certain request, is not tried in a tight loop. A server that does not answer the handshake is
left after half of the time that is left, ten seconds at most: one that is just starting can accept a connection and
never read from it, and would cost the session although it answers the next attempt at once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

from lethe.adapters.security.handshakes import shows_refusal
from lethe.adapters.security.refusal_counts import RefusalReason
from lethe.adapters.zookeeper import wire
from lethe.adapters.zookeeper.config import Server, ZooKeeperConfig
from lethe.adapters.zookeeper.connection import Answer, Completion, Connection, connect
from lethe.adapters.zookeeper.interface import OnWatch, ZooKeeperRefused, ZooKeeperUnavailable
from lethe.adapters.zookeeper.login import LOGIN_REQUIRED, LoginRefused, log_in
from lethe.adapters.zookeeper.tls_failures import tls_failure
from lethe.adapters.zookeeper.watches import ArmedWatches
from lethe.protocol.zookeeper.operations import ZkError

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_LEAST_ATTEMPT_S: Final = 0.1
_LONGEST_HANDSHAKE_S: Final = 10.0
_CLOSE_LIMIT_S: Final = 2.0
_NONCE_BYTES: Final = 24
_FIRST_LOG_AFTER_S: Final = 0.5
_LOG_INTERVAL_S: Final = 5.0
_CLOSED: Final = "closed"
_IS_IT_THERE: Final = ". Is ZooKeeper running, and is zookeeper.connect right?"


class SessionOver(Exception):
    """Internal: the session cannot be continued."""


class _TlsFailed(ConnectionError):
    """The server was reached, and the message says what is wrong with TLS."""


class _AccessRefused(SessionOver):
    """The server refuses this client's login, and will refuse it again."""


class _Trouble(NamedTuple):
    """Why a server gave no session."""

    said: str
    is_there: bool
    """TLS with it failed at least once: it was reached."""


_Troubles = dict[Server, _Trouble]
_NO_ANSWER: Final = _Trouble("no answer in time", is_there=False)


def _describe(troubles: _Troubles) -> str:
    return "; ".join(f"{server}: {trouble.said}" for server, trouble in troubles.items())


class SessionConnection:
    """The session's life. `connection` carries the requests; None while there is none."""

    def __init__(self, config: ZooKeeperConfig, on_watch: OnWatch) -> None:
        self.config: Final = config
        self.watches: Final = ArmedWatches()
        self.session_id = 0
        self.timeout_s = config.session_timeout_ms / 1000
        self.connection: Connection | None = None
        self.connections = 0
        """How many there have been."""
        self.online: Final = asyncio.Event()
        """Set while there is a connection, and permanently once the session is lost, so that waiting tasks wake up."""
        self.lost: Final = asyncio.Event()
        self.lost_reason: str | None = None
        self.is_refused = False
        """True once a server has ended the session because it requires a login."""
        self.last_zxid = 0
        self._password = bytes(16)
        self._on_watch = on_watch
        self._loop = asyncio.get_running_loop()
        self._confirmed_at = self._loop.time()
        self._next_server = 0
        self._pause_s = 0.0

    # --- opening --------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Do the first handshake. Raises ZooKeeperUnavailable naming each server with its failure."""
        deadline = self._loop.time() + self.config.connection_timeout_ms / 1000
        troubles: _Troubles = {}
        logging_task = self._loop.create_task(self._log_troubles(troubles), name="zookeeper-opening")
        try:
            await self._connect_before(deadline, troubles)
        except _AccessRefused as refused:
            self.config.refused.note(RefusalReason.LOGIN)
            raise ZooKeeperRefused(f"ZooKeeper at {self.config.connect} gave no session: {refused}") from refused
        except SessionOver as over:
            raise ZooKeeperUnavailable(f"ZooKeeper at {self.config.connect} gave no session: {over}") from over
        except TimeoutError:
            shown = _describe(troubles) or "no answer"
            question = "" if troubles and all(each.is_there for each in troubles.values()) else _IS_IT_THERE
            raise ZooKeeperUnavailable(
                f"no ZooKeeper session within {self.config.connection_timeout_ms} ms ({shown}){question}"
            ) from None
        finally:
            logging_task.cancel()

    async def _log_troubles(self, troubles: _Troubles) -> None:
        """Log the servers and their failures, early and then periodically."""
        began = self._loop.time()
        wait_s = _FIRST_LOG_AFTER_S
        while True:
            await asyncio.sleep(wait_s)
            logger.warning(
                "still trying to reach ZooKeeper at %s after %.1f s of %.0f s: %s",
                self.config.connect,
                self._loop.time() - began,
                self.config.connection_timeout_ms / 1000,
                _describe(troubles) or "no answer yet",
            )
            wait_s = _LOG_INTERVAL_S

    async def _connect_before(self, deadline: float, troubles: _Troubles) -> None:
        """Try the servers in turn until one accepts the session. Raises TimeoutError, SessionOver."""
        servers = self.config.connect.servers
        while True:
            for tried in range(len(servers)):
                await self._pause(deadline)
                server = servers[self._next_server % len(servers)]
                remaining = deadline - self._loop.time()
                limit = max(remaining / (len(servers) - tried), _LEAST_ATTEMPT_S)
                try:
                    async with asyncio.timeout(min(limit, remaining)):
                        await self._attempt(server, min(_LONGEST_HANDSHAKE_S, limit / 2))
                    return
                except (OSError, TimeoutError) as error:
                    # The last attempt has little time: its timeout says less than an earlier error.
                    before = troubles.get(server, _NO_ANSWER)
                    said = str(error) or before.said
                    if server not in troubles or said != before.said:
                        logger.info("ZooKeeper %s: %s", server, said)
                    troubles[server] = _Trouble(said, before.is_there or isinstance(error, _TlsFailed))
                    self._next_server += 1
            self._lengthen_pause()

    async def _pause(self, deadline: float) -> None:
        """Wait for the pause that is due. Raises TimeoutError at the deadline."""
        async with asyncio.timeout_at(deadline):
            await asyncio.sleep(self._pause_s)
            if self._loop.time() >= deadline:
                raise TimeoutError

    def _lengthen_pause(self) -> None:
        self._pause_s = min(max(self._pause_s * 2, _FIRST_PAUSE_S), self._longest_pause_s)

    @property
    def _longest_pause_s(self) -> float:
        """Short enough for many attempts before the session is over."""
        return min(_LONGEST_PAUSE_S, self.timeout_s / 20)

    async def _attempt(self, server: Server, limit_s: float) -> None:
        """Connect and shake hands, each within the limit; log in; send credentials and watches. Raises OSError if this
        server is unsuitable."""
        connection = await self._connect(server, limit_s)
        try:
            async with asyncio.timeout(limit_s):
                await self._shake_hands(connection)
            await self._log_in(connection, server)
            for each in self.config.credentials:
                await self._require(connection, wire.pack_auth(each), "lethe.zookeeper.digest", xid=wire.AUTH_XID)
            for chunk in list(self.watches.chunks(self.config.connect.chroot)):
                request = wire.pack_set_watches(self.last_zxid, *chunk)
                await self._require(connection, request, "the watches")
            if self.lost_reason is not None:
                raise SessionOver(self.lost_reason)
        except BaseException as error:
            connection.drop("given up while connecting")
            if connection.is_tls_refused:
                self.config.refused.note(RefusalReason.TLS)
                if isinstance(error, OSError):
                    raise _TlsFailed(str(error)) from error
            raise
        self.connection = connection
        self.connections += 1
        self.online.set()
        logger.info("ZooKeeper session 0x%x on %s, timeout %.1f s", self.session_id, server, self.timeout_s)

    async def _connect(self, server: Server, limit_s: float) -> Connection:
        """Connect, with TLS if it is configured. Raises OSError with a sentence for users."""
        tls = self.config.tls
        try:
            return await connect(
                server.host,
                server.port,
                self._event,
                max_reply_bytes=self.config.max_reply_bytes,
                timeout_s=limit_s,
                make_tls_context=None if tls is None else tls.make_context,
            )
        except OSError as error:
            if tls is not None and (said := tls_failure(error, server.host)):
                if shows_refusal(error):
                    self.config.refused.note(RefusalReason.TLS)
                raise _TlsFailed(said) from error
            raise
        except ValueError as error:
            raise ConnectionError(str(error)) from error

    async def _log_in(self, connection: Connection, server: Server) -> None:
        """Log in by SASL, if configured, before anything else is sent. Raises _AccessRefused, ConnectionError."""
        if self.config.sasl is None:
            return
        try:
            await log_in(connection, self.config.sasl, secrets.token_urlsafe(_NONCE_BYTES))
        except LoginRefused as refused:
            raise _AccessRefused(f"{server}: {refused}") from refused

    async def _shake_hands(self, connection: Connection) -> None:
        """Begin the session, or continue it on this connection. Raises SessionOver, ConnectionError."""
        asked_ms = self.config.session_timeout_ms
        granted = await connection.shake_hands(
            wire.pack_connect(self.last_zxid, asked_ms, self.session_id, self._password)
        )
        if granted.session_id == 0:
            raise SessionOver("expired: the server has ended the session")
        self.session_id, self._password = granted.session_id, granted.password
        self.timeout_s = granted.timeout_ms / 1000
        self._confirmed_at = max(self._confirmed_at, connection.confirmed_at)

    async def _require(
        self, connection: Connection, request: wire.Request, what: str, *, xid: int | None = None
    ) -> None:
        completion = await connection.send(request, xid=xid)
        if not isinstance(completion, Answer):
            raise ConnectionError(f"no answer to {what}: {completion[-1]}")
        if completion.code == wire.SASL_REQUIRED:
            raise _AccessRefused(LOGIN_REQUIRED)
        if completion.error is not None:
            raise SessionOver(f"the server refuses {what}: {completion.error.name}")

    # --- living ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Maintain the session from the first connection to its end; return when it is lost."""
        try:
            while self.connection is not None:
                await self._tend(self.connection)
                if self.lost_reason is None:
                    await self._reconnect()
        except SessionOver as over:
            self.lose(str(over))
        except Exception as fault:
            logger.exception("the keeper of ZooKeeper session 0x%x failed", self.session_id)
            self.lose(f"internal fault: {fault!r}")
        finally:
            # Without this task the session's end would go unnoticed, so the session ends with it.
            self.lose("its keeper was stopped")

    async def _tend(self, connection: Connection) -> None:
        """Ping and watch the clock until the connection is closed. Raises SessionOver."""
        connected_at = self._loop.time()
        while connection.is_open:
            if not self._is_in_touch(connection):
                break
            await asyncio.wait({connection.closed}, timeout=self._tend_once(connection, self._loop.time()))
        self._confirmed_at = max(self._confirmed_at, connection.confirmed_at)
        if self.lost_reason is not None:
            return
        self.online.clear()
        self.connection = None
        logger.warning("ZooKeeper session 0x%x: %s", self.session_id, connection.closed.result())
        if self._loop.time() - connected_at > self._longest_pause_s:
            self._pause_s = 0.0
        else:
            self._lengthen_pause()
        self._next_server += 1

    @property
    def in_touch(self) -> bool:
        """True while, by our own clock, the session cannot have expired."""
        confirmed_at = self._confirmed_at
        if self.connection is not None:
            confirmed_at = max(confirmed_at, self.connection.confirmed_at)
        return self.lost_reason is None and self._loop.time() < confirmed_at + self.timeout_s

    def _is_in_touch(self, connection: Connection) -> bool:
        """Return False and drop the connection if, by our own clock, the session may have expired."""
        self._confirmed_at = max(self._confirmed_at, connection.confirmed_at)
        if self._loop.time() < self._confirmed_at + self.timeout_s:
            return True
        connection.drop("out of touch for longer than the session's timeout")
        return False

    def _tend_once(self, connection: Connection, now: float) -> float:
        """Do what is due now; return the time in seconds until the next action."""
        third = self.timeout_s / 3
        silent_at = connection.last_received_at + 2 * third
        waiting_since = connection.oldest_unanswered_at
        if now >= silent_at:
            # Our own loop may have been busy: only a server that had time to answer counts as silent.
            if waiting_since is not None and now - waiting_since >= self.timeout_s / 10:
                connection.drop(f"silent for {now - connection.last_received_at:.1f} s")
                return 0.0
            if waiting_since is None:
                connection.ping()
            return self.timeout_s / 20
        if now >= connection.last_sent_at + third and waiting_since is None:
            connection.ping()
        ping_at = connection.last_sent_at + third
        return max(min(silent_at - now, ping_at - now if ping_at > now else third), 0.001)

    async def _reconnect(self) -> None:
        deadline = self._confirmed_at + self.timeout_s
        troubles: _Troubles = {}
        try:
            if self._loop.time() >= deadline:
                raise TimeoutError
            await self._connect_before(deadline, troubles)
        except TimeoutError:
            shown = f" ({_describe(troubles)})" if troubles else ""
            raise SessionOver(f"out of touch with ZooKeeper for {self.timeout_s:.1f} s{shown}") from None

    def lose(self, reason: str) -> None:
        """End the session. Only the first reason counts."""
        if self.lost_reason is not None:
            return
        if self.connections:
            level = logging.INFO if reason == _CLOSED else logging.WARNING
            logger.log(level, "ZooKeeper session 0x%x is lost: %s", self.session_id, reason)
        self.lost_reason = reason
        self.lost.set()
        if self.connection is not None:
            self.connection.drop(f"session lost: {reason}")
            self.connection = None
        self.online.set()

    async def close(self) -> None:
        """Tell the server that the session ends, if it is connected, and end it."""
        connection = self.connection
        if self.lost_reason is None and connection is not None and connection.is_open:
            # The future also ends with the connection.
            await asyncio.wait({connection.send(wire.pack_close())}, timeout=_CLOSE_LIMIT_S)
        self.lose(_CLOSED)

    # --- for requests ---------------------------------------------------------------------------------------------

    def send(
        self, request: wire.Request, on_answer: Callable[[Answer], None] | None = None
    ) -> asyncio.Future[Completion] | None:
        """Send the request; None if there is no connection."""
        connection = self.connection
        if connection is None or not connection.is_open or not self._is_in_touch(connection):
            return None

        def answered(answer: Answer) -> None:
            self.last_zxid = max(self.last_zxid, answer.zxid)
            if on_answer is not None:
                on_answer(answer)
            if answer.code == wire.SESSION_EXPIRED:
                self.lose("expired")
            elif answer.code == wire.SASL_REQUIRED:
                self.is_refused = True
                self.lose(f"the server has ended it: {LOGIN_REQUIRED}")
            elif answer.error is ZkError.SESSION_MOVED:
                connection.drop("the session has moved to another server")

        return connection.send(request, on_answer=answered)

    def _event(self, body: bytes) -> None:
        fired = wire.parse_watch_event(body, self.config.connect.chroot)
        if fired is None or not self.watches.went_off(fired) or self.lost_reason is not None:
            return
        try:
            self._on_watch(fired)
        except Exception:
            logger.exception("a listener failed on %s", fired)
