"""Server-sent events of the board: one look for all readers, at most four per second, none without readers.

A new reader gets the whole document (`snapshot`), then deltas, which are encoded once for all. A browser that
reconnects sends `Last-Event-ID`, and gets a snapshot too: its document may be of another process or term. A bounded
snapshot costs less than a history of deltas.

    event       sent
    snapshot    first
    delta       when the document has changed
    beat        after 5 s without a delta, with a comment that keeps proxies from closing the connection
    dropped     last, to a reader that is too slow: the page loads again
    refused     instead of a snapshot, beyond `MAX_WATCHERS` readers
    closing     last, when the controller stops

The feed never waits for a reader: each reader has a bounded buffer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

import orjson

from lethe.adapters.clock import Clock
from lethe.controller.runtime.board.document import NOTHING, VERSION, Document, delta
from lethe.protocol.journal import JsonValue

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 0.25
BEAT_S: Final = 5.0
RETRY_MS: Final = 2_000
REFUSED_RETRY_MS: Final = 15_000
MAX_WATCHERS: Final = 32
MAX_PENDING_BYTES: Final = 512 * 1024
MAX_PENDING: Final = 64


def message(event: str, document: dict[str, JsonValue], identity: str = "", retry_ms: int | None = None) -> bytes:
    """Return one server-sent event. JSON has no line breaks, so one `data` line holds it."""
    head = f"event: {event}\n" + (f"id: {identity}\n" if identity else "")
    if retry_ms is not None:
        head = f"retry: {retry_ms}\n{head}"
    return head.encode() + b"data: " + orjson.dumps(document) + b"\n\n"


class Watcher:
    """One reader of the stream, and its buffer."""

    def __init__(self) -> None:
        self._pending: deque[bytes] = deque()
        self._bytes = 0
        self._is_last = False
        self._filled = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """True once the last message is in the buffer."""
        return self._is_last

    def put(self, piece: bytes) -> None:
        """Append a message. If the buffer is full, `dropped` replaces it and ends the stream."""
        if self._is_last:
            return
        if len(self._pending) >= MAX_PENDING or self._bytes + len(piece) > MAX_PENDING_BYTES:
            self._pending.clear()
            self.end(message("dropped", {"why": "this page was too slow to receive the updates"}))
            return
        self._pending.append(piece)
        self._bytes += len(piece)
        self._filled.set()

    def end(self, piece: bytes) -> None:
        """Append the last message."""
        if not self._is_last:
            self._is_last = True
            self._pending.append(piece)
            self._filled.set()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield messages as they arrive, until the last."""
        while True:
            while self._pending:
                piece = self._pending.popleft()
                self._bytes = sum(map(len, self._pending)) if self._is_last else self._bytes - len(piece)
                yield piece
            if self._is_last:
                return
            self._filled.clear()
            await self._filled.wait()


class BoardFeed:
    """`run` is a task of the composition root; `stream` serves one request."""

    def __init__(
        self,
        look: Callable[[], Document],
        clock: Clock,
        before: Callable[[], Awaitable[None]] | None = None,
        *,
        interval_s: float = INTERVAL_S,
        beat_s: float = BEAT_S,
        max_watchers: int = MAX_WATCHERS,
    ) -> None:
        """`before` is awaited before each look."""
        self._look = look
        self._clock = clock
        self._before = before
        self._interval_s = interval_s
        self._beat_s = beat_s
        self._max_watchers = max_watchers
        self._watchers: dict[Watcher, None] = {}
        self._watched = asyncio.Event()
        self._latest: Document = NOTHING
        self._number = 0
        self._started_ms = clock.now_ms()
        self._closed = False

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    async def run(self) -> None:
        """Send changes to the readers until cancelled; then every stream ends."""
        loop = asyncio.get_running_loop()
        spoke_at_s = loop.time()
        try:
            while True:
                await self._watched.wait()
                await asyncio.sleep(self._interval_s)
                try:
                    if self._before is not None:
                        await self._before()
                    told = self._send_changes()
                except Exception:
                    # A fault of the board must not end the controller.
                    logger.exception("the board could not look; it tries again")
                    told = False
                if told:
                    spoke_at_s = loop.time()
                elif loop.time() - spoke_at_s >= self._beat_s:
                    spoke_at_s = loop.time()
                    self._put(b": nothing has changed\n" + message("beat", {"at_ms": self._clock.now_ms()}))
        finally:
            self.close()

    def close(self) -> None:
        """End every stream, and refuse new ones."""
        self._closed = True
        goodbye = message("closing", {"why": "this controller is stopping"}, retry_ms=RETRY_MS)
        for watcher in self._watchers:
            watcher.end(goodbye)

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield a snapshot, then changes."""
        refusal = self._refusal()
        if refusal is not None:
            yield message("refused", {"why": refusal}, retry_ms=REFUSED_RETRY_MS)
            return
        watcher = Watcher()
        if not self._watchers:
            # Without readers, no look has updated it.
            self._latest = self._look()
        self._watchers[watcher] = None
        self._watched.set()
        whole = delta(NOTHING, self._latest) or {}
        watcher.put(message("snapshot", {"version": VERSION, **self._head(), **whole}, self._identity(), RETRY_MS))
        try:
            async for piece in watcher.pieces():
                yield piece
        finally:
            del self._watchers[watcher]
            if not self._watchers:
                self._watched.clear()

    def _refusal(self) -> str | None:
        if self._closed:
            return "this controller is stopping"
        if len(self._watchers) >= self._max_watchers:
            return f"{self._max_watchers} pages watch this controller already, and it takes no more"
        return None

    def _send_changes(self) -> bool:
        """Send the changes to all readers; return whether there were any."""
        now = self._look()
        changed = delta(self._latest, now)
        if changed is None:
            return False
        self._latest = now
        self._number += 1
        self._put(message("delta", {**self._head(), **changed}, self._identity()))
        return True

    def _put(self, piece: bytes) -> None:
        for watcher in self._watchers:
            watcher.put(piece)

    def _head(self) -> dict[str, JsonValue]:
        return {"at_ms": self._clock.now_ms()}

    def _identity(self) -> str:
        return f"{self._started_ms}-{self._number}"
