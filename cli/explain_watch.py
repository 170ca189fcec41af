"""`lethe explain --watch`: live at a terminal; in a file, every changed answer is written."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable

from lethe.cli.answer import Answer
from lethe.cli.render import line, live, renderable, show

Poll = Callable[[], Awaitable[Answer]]
_TIMES = re.compile(r", since [^()]*\([^)]*\)| since [^()]*\([^)]*\)|in \d+ \w+|\d+ (s|min|h|days)\b")


async def watched(poll: Poll, *, interval_ms: int, as_json: bool) -> Answer:
    """Poll until no topic is marked any more, and return the last answer, which is still to be shown."""
    if as_json or not sys.stdout.isatty():
        return await _changes(poll, interval_ms, as_json=as_json)
    return await _live(poll, interval_ms)


async def _changes(poll: Poll, interval_ms: int, *, as_json: bool) -> Answer:
    last = None
    while not is_over(answer := await poll()):
        if (now := _without_times(answer)) != last:
            last = now
            try:
                if not as_json:
                    line(f"--- {time.strftime('%H:%M:%S')}")
                show(answer, as_json=as_json)
            except BrokenPipeError:
                return answer  # the reader has closed the pipe (`… --watch | head`)
        await asyncio.sleep(interval_ms / 1000)
    return answer


async def _live(poll: Poll, interval_ms: int) -> Answer:
    answer = await poll()
    with live(answer) as display:
        while not is_over(answer):
            display.update(renderable(answer), refresh=True)
            await asyncio.sleep(interval_ms / 1000)
            answer = await poll()
    return answer


def is_over(answer: Answer) -> bool:
    """Return True if no topic in question is marked any more."""
    topics = answer.data.get("topics") if isinstance(answer.data, dict) else None
    if not isinstance(topics, list):
        return True
    return not any(isinstance(each, dict) and each["verdict"] in ("waiting", "in_progress") for each in topics)


def _without_times(answer: Answer) -> str:
    """Return the answer without elapsed times."""
    cells = (cell for table in answer.tables for row in table.rows for cell in row)
    return _TIMES.sub("", "\n".join((*answer.lines, *cells)))
