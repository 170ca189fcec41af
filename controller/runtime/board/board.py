"""The board of one controller: its memory, view, feed and pages, put together."""

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
from lethe.controller.runtime.board.view import BoardView
from lethe.controller.runtime.loop import ControllerLoop
from lethe.controller.runtime.metrics import ChannelView
from lethe.controller.runtime.powers import Problems
from lethe.controller.runtime.sessions import SessionKeeper
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.vocabulary import NO_BROKER
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Data, GetData
from lethe.protocol.zookeeper.znodes import MalformedZnode

_MASSES: Final = frozenset(
    {EventRecordType.TRANSITION, EventRecordType.REQUEST, EventRecordType.ACK, EventRecordType.ZNODE_WRITE}
)
_SCHEMES: Final = ("http://", "https://")
_LOOK_AGAIN_MS: Final = 5_000
_LOOK_LIMIT_S: Final = 0.2
"""Time limit for ZooKeeper; after it the board shows what it has."""


class BoardMemory:
    """Receives every event record, from before the loop exists."""

    def __init__(self, controller_id: int, clock: Clock) -> None:
        self.state = BoardState(controller_id)
        self.active_controller: Callable[[], int] = lambda: NO_BROKER
        """Returns the id of the active controller, as the core has it."""
        self._clock = clock

    def note_record(self, record: EventRecord) -> None:
        """Note an event record, between steps on the event loop. Of frequent types only their number counts."""
        if record.type in _MASSES:
            self.state.changes += 1
            return
        now_ms = self._clock.now_ms()
        self.state.note(record, now_ms)
        if record.type is EventRecordType.EVENT:
            # No event record names another active controller, but only events change it.
            self.state.note_active(self.active_controller(), now_ms)


class Board:
    """The board's routes, and the task that feeds its readers."""

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
        """Feed readers until cancelled; then every stream ends."""
        await self.feed.run()

    async def _find_leader(self) -> None:
        active, session = self._context.active_controller, self._sessions.session
        if session is not None:
            await self._leader.find(active, session, self._clock.now_ms())
            self.view.leader_url = self._leader.url
            await self._surroundings.look(session, self._clock.now_ms())


class LeaderAddress:
    """URL of the active controller's pages."""

    def __init__(self, own_id: int) -> None:
        self.url: str | None = None
        """None where this controller is active, or the URL is unknown."""
        self._own_id = own_id
        self._looked_for: int = NO_BROKER
        self._look_again_ms = 0

    async def find(self, active: int, session: ZooKeeperSession, now_ms: int) -> None:
        """Read the URL where it is due: at once for another controller, every `_LOOK_AGAIN_MS` for the same one, whose
        process and address may change."""
        if active == self._looked_for and now_ms < self._look_again_ms:
            return
        url = None
        if active not in (NO_BROKER, self._own_id):
            try:
                async with asyncio.timeout(_LOOK_LIMIT_S):
                    url = await admin_of(active, session)
            except (SessionLost, TimeoutError):
                # The next look retries.
                return
        self.url, self._looked_for, self._look_again_ms = url, active, now_ms + _LOOK_AGAIN_MS


async def admin_of(controller: int, session: ZooKeeperSession) -> str | None:
    """Return the URL in `/controller`; None where another controller holds it or it has no URL. Raises SessionLost."""
    (found,) = await session.read([GetData(paths.CONTROLLER)])
    try:
        known = znodes.decode_controller(found.data) if isinstance(found, Data) else None
    except MalformedZnode:
        return None
    if known is None or known.broker_id != controller or known.admin is None:
        return None
    return known.admin if known.admin.startswith(_SCHEMES) else None
