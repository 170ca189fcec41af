"""The board of one controller, put together: what the composition root makes and runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from lethe.adapters.clock import Clock
from lethe.adapters.http import Route
from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession
from lethe.controller.runtime.board.feed import BoardFeed
from lethe.controller.runtime.board.pages import BoardPages
from lethe.controller.runtime.board.state import BoardState
from lethe.controller.runtime.board.view import BoardView, Problems
from lethe.controller.runtime.loop import ControllerLoop
from lethe.controller.runtime.metrics import ChannelView
from lethe.controller.runtime.sessions import SessionKeeper
from lethe.protocol.journal import Fact, FactType
from lethe.protocol.vocabulary import NO_BROKER
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Data, GetData
from lethe.protocol.zookeeper.znodes import MalformedZnode

_MASSES: Final = frozenset({FactType.TRANSITION, FactType.REQUEST, FactType.ACK, FactType.ZNODE_WRITE})
_SCHEMES: Final = ("http://", "https://")
_LOOK_AGAIN_MS: Final = 5_000
_LOOK_LIMIT_S: Final = 0.2
"""The board does not wait longer for ZooKeeper than this: it shows what it knows."""


class BoardMemory:
    """What every fact is given to, from before there is a loop."""

    def __init__(self, controller_id: int, clock: Clock) -> None:
        self.state = BoardState(controller_id)
        self.active_controller: Callable[[], int] = lambda: NO_BROKER
        """Who is active, as far as the core knows."""
        self._clock = clock

    def note_fact(self, fact: Fact) -> None:
        """Facts come between steps, on the event loop; what comes in masses is of no interest but as a change."""
        if fact.type in _MASSES:
            self.state.changes += 1
            return
        now_ms = self._clock.now_ms()
        self.state.note(fact, now_ms)
        if fact.type is FactType.EVENT:
            # Who else is active is stated in no fact, but whatever changes it is an event.
            self.state.note_active(self.active_controller(), now_ms)


class Board:
    """Its routes, and the task that feeds those who watch."""

    def __init__(
        self,
        memory: BoardMemory,
        loop: ControllerLoop,
        sessions: SessionKeeper,
        channels: Callable[[], Iterable[ChannelView]],
        problems: Callable[[], Problems],
        clock: Clock,
    ) -> None:
        self.view = BoardView(memory.state, loop, sessions, channels, problems, clock)
        self.feed = BoardFeed(self.view.look, clock, self._find_leader)
        self._pages = BoardPages(self.view, self.feed, loop)
        self._context = loop.context
        self._sessions = sessions
        self._clock = clock
        self._leader = LeaderAddress(loop.context.config.controller_id)
        self._surroundings = self.view.surroundings

    def routes(self) -> tuple[Route, ...]:
        return self._pages.routes()

    async def run(self) -> None:
        """Until cancelled; then every stream ends."""
        await self.feed.run()

    async def _find_leader(self) -> None:
        active, session = self._context.active_controller, self._sessions.session
        if session is not None:
            await self._leader.find(active, session, self._clock.now_ms())
            self.view.leader_url = self._leader.url
            await self._surroundings.look(session, self._clock.now_ms())


class LeaderAddress:
    """Where the active controller is to be looked at."""

    def __init__(self, own_id: int) -> None:
        self.url: str | None = None
        """None where it is this one, or not known."""
        self._own_id = own_id
        self._looked_for: int = NO_BROKER
        self._look_again_ms = 0

    async def find(self, active: int, session: ZooKeeperSession, now_ms: int) -> None:
        """Ask for it where it is due: at once for another controller, and now and then for the same one, which may be
        another process by now, at another address."""
        if active == self._looked_for and now_ms < self._look_again_ms:
            return
        url = None
        if active not in (NO_BROKER, self._own_id):
            try:
                async with asyncio.timeout(_LOOK_LIMIT_S):
                    url = await admin_of(active, session)
            except (SessionLost, TimeoutError):
                # Asked again at the next look.
                return
        self.url, self._looked_for, self._look_again_ms = url, active, now_ms + _LOOK_AGAIN_MS


async def admin_of(controller: int, session: ZooKeeperSession) -> str | None:
    """The HTTP address that the active controller has written down, if it is that one, and one of Lethe's. Raises
    SessionLost."""
    (found,) = await session.read([GetData(paths.CONTROLLER)])
    try:
        known = znodes.decode_controller(found.data) if isinstance(found, Data) else None
    except MalformedZnode:
        return None
    if known is None or known.broker_id != controller or known.admin is None:
        return None
    return known.admin if known.admin.startswith(_SCHEMES) else None
