"""How a deletion ends: the one place that knows which outcomes there are. Tables, audit and report go by it.

An outcome is the phase of the journal that ended the deletion. VANISHED is neither success nor a deletion that goes on:
somebody else removed the topic's znodes, so the controller stops, and asks no broker for what it had not deleted yet.
What lies on disks then only a survey finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controller.core.deletion_memory import LET_GO, VANISHED

__all__ = ["DONE", "ENDED_AT", "LET_GO", "OPEN", "VANISHED"]

DONE: Final = "done"
OPEN: Final = "open"
"""None of the others yet."""
ENDED_AT: Final[Mapping[str, str]] = MappingProxyType({DONE: "done_at", VANISHED: "vanished_at", LET_GO: "let_go_at"})
"""Every outcome but OPEN, and the column of the instant at which it came. Of several in one deletion the
one counts that stands first here, not the earliest."""
