"""How a deletion ends: the one place that knows which outcomes there are. Tables, audit and report go by it.

An outcome is the phase of the journal that ended the deletion. VANISHED is neither success nor a deletion that goes on:
somebody else removed the topic's znodes, so the controller stops, and asks no broker for what it had not deleted yet.
What lies on disks then only a survey finds.

A controller that took over does not know what another one had begun. Where it refuses what the mark asks for, it writes
no phase: the refusal ended the deletion, as REFUSED_AS says.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lethe.controller.core.deletion_memory import DISABLED, LET_GO, NO_SUCH_TOPIC, VANISHED

__all__ = ["DONE", "ENDED_AT", "LET_GO", "OPEN", "REFUSED_AS", "VANISHED"]

DONE: Final = "done"
OPEN: Final = "open"
"""None of the others yet."""
ENDED_AT: Final[Mapping[str, str]] = MappingProxyType({DONE: "done_at", VANISHED: "vanished_at", LET_GO: "let_go_at"})
"""Every outcome but OPEN, and the column of the instant at which it came. Of several in one deletion the
one counts that stands first here, not the earliest."""
REFUSED_AS: Final[Mapping[str, str]] = MappingProxyType({DISABLED: LET_GO, NO_SUCH_TOPIC: VANISHED})
"""Why a deletion was refused, and what became of one that had been going on: its mark was removed, and the topic stays;
or somebody had removed the topic while nobody led."""
