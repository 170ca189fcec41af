"""HTTP routes of the board: the page and its files, the stream, and the search among all topics in deletion.

The page and its files are the same on every controller, so they need no token; what the page asks for may need one
(`ask.js` sends it). The page uses no other server, and its Content-Security-Policy forbids any. It inserts foreign
strings (topics, reasons, errors) only as text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lethe.adapters.http import Handler, Reply, Request, Route, Stream, json_reply
from lethe.adapters.http_access import Access
from lethe.controller.runtime.board.feed import BoardFeed
from lethe.controller.runtime.board.state import Phase
from lethe.controller.runtime.board.view import CARDS, BoardView
from lethe.controller.runtime.loop import ControllerLoop
from lethe.protocol.journal import JsonValue

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
MAX_SEARCH: Final = 249
"""Kafka's limit on the length of a topic name."""
SLICE: Final = 5_000
"""Names examined before the event loop runs other tasks: a third of a millisecond."""
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_FILES: Final = Path(__file__).parent


def page_file(name: str) -> Reply:
    """Return a file beside this module."""
    path = _FILES / name
    return Reply(200, path.read_bytes(), f"{_TYPES[path.suffix]}; charset=utf-8", HEADERS)


class BoardPages:
    """HTTP handlers of the board."""

    def __init__(self, view: BoardView, feed: BoardFeed, loop: ControllerLoop) -> None:
        self._view = view
        self._feed = feed
        self._loop = loop
        self._search = asyncio.Lock()

    def routes(self) -> tuple[Route, ...]:
        """`/` and `/board` (the page), `/board/…` (its files), `/board/events`, `/board/topics`."""
        page = page_file("page.html")
        parts = tuple(
            Route(f"/board/{name}", _given(page_file(name)), Access.OPEN)
            for name in ("page.css", "page.js", "parts.js", "explain.js", "ask.js", "theme.js")
        )
        return (
            Route("/", _given(page), Access.OPEN),
            Route("/board", _given(page), Access.OPEN),
            *parts,
            Route("/board/events", lambda _: Stream(self._feed.stream())),
            Route("/board/topics", self._topics),
        )

    async def _topics(self, request: Request) -> Reply:
        """Search topics by `?search=`, a part of the name in any case: per column, the number of matches and the first
        of them."""
        wanted = request.query.get("search", "").lower()
        if len(wanted) > MAX_SEARCH:
            return json_reply({"error": f"search is longer than {MAX_SEARCH} characters"}, 400)
        # One search at a time.
        async with self._search:
            found = {phase: await self._matching(phase, wanted) for phase in Phase}
        context = await self._loop.between_steps()
        lists: dict[str, JsonValue] = {}
        for phase, names in found.items():
            goings = [(name, self._view.state.get(phase, name)) for name in names[:CARDS]]
            rows: dict[str, JsonValue] = {
                name: dict(self._view.card(context, going)) for name, going in goings if going is not None
            }
            lists[phase.value] = {"count": len(names), "order": list(rows), "rows": rows}
        return json_reply({"search": wanted, "lists": lists})

    async def _matching(self, phase: Phase, wanted: str) -> list[str]:
        names, found = self._view.state.names(phase), []
        for start in range(0, len(names), SLICE):
            found += [name for name in names[start : start + SLICE] if wanted in name.lower()]
            await asyncio.sleep(0)
        return found


def _given(reply: Reply) -> Handler:
    return lambda _: reply
