"""Lines of the log about what was refused: each kind at once, and then with a number from time to time.

A peer that is refused tries again, perhaps a hundred times a second, and an attacker chooses what the lines say. So a
kind of refusal (a principal and a right, or an address and a listener) is logged when it is first seen, and then at
most every ten minutes with the number of those between. All kinds together have a limit per minute as well.

    00:00  User:ann may not ClusterAction …            logged
    00:01  the same, 600 times                         not logged
    00:10  the same                                    logged, with `600 more before`
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from lethe.protocol.counting import counted

REPEATED_S: Final = 600.0
MAX_KINDS: Final = 1_000
MAX_LINES: Final = 60
"""Lines in a minute."""
_MINUTE_S: Final = 60.0


@dataclass(slots=True)
class _Kind:
    logged_s: float
    unlogged: int = 0


class AuditLog:
    """Writes such lines to a logger."""

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        """Refusals since the start, logged or not."""
        self._logger = logger
        self._now_s = now_s
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
        self._minute_s = now_s()
        self._lines = 0
        self._dropped = 0

    def note(self, kind: Hashable, sentence: str) -> None:
        """Count the refusal, and log the sentence if it is due."""
        self.count += 1
        now_s = self._now_s()
        known = self._kinds.get(kind)
        if known is not None and now_s - known.logged_s < REPEATED_S:
            known.unlogged += 1
            self._kinds.move_to_end(kind)
            return
        if not self._has_room(now_s):
            self._dropped += 1
            return
        more = f" ({known.unlogged} more before)" if known is not None and known.unlogged else ""
        self._logger.warning("%s%s", sentence, more)
        self._kinds[kind] = _Kind(now_s)
        self._kinds.move_to_end(kind)
        while len(self._kinds) > MAX_KINDS:
            self._kinds.popitem(last=False)

    def _has_room(self, now_s: float) -> bool:
        if now_s - self._minute_s >= _MINUTE_S:
            if self._dropped:
                more = counted(self._dropped, "refusal of another kind was", "refusals of other kinds were")
                self._logger.warning("besides, %s not logged", more)
            self._minute_s, self._lines, self._dropped = now_s, 0, 0
        self._lines += 1
        return self._lines <= MAX_LINES
