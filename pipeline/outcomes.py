"""The outcomes of a deletion. Tables, audit and report use this list.

An outcome is the phase of the journal that ended the deletion. VANISHED is neither a success nor an open deletion:
another process removed the topic's znodes, so the controller stops, and sends no further requests to brokers. Only a
survey finds the bytes that are still on disks.

A controller that took over does not know the progress of its predecessor. If it refuses a marked deletion, it writes no
phase: the refusal ends the deletion, with the outcome of REFUSED_AS.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lethe.controller.core.deletion_memory import (
    DISABLED,
    LET_GO,
    NO_SUCH_TOPIC,
    OTHER_INCARNATION,
    PROTECTED,
    VANISHED,
)

__all__ = ["DONE", "ENDED_AT", "LET_GO", "OPEN", "REFUSED_AS", "VANISHED"]

DONE: Final = "done"
OPEN: Final = "open"
"""No other outcome yet."""
ENDED_AT: Final[Mapping[str, str]] = MappingProxyType({DONE: "done_at", VANISHED: "vanished_at", LET_GO: "let_go_at"})
"""Every outcome but OPEN, and the column of its instant. Of several outcomes of one deletion the first one here counts,
not the earliest."""
REFUSED_AS: Final[Mapping[str, str]] = MappingProxyType(
    {DISABLED: LET_GO, PROTECTED: LET_GO, OTHER_INCARNATION: LET_GO, NO_SUCH_TOPIC: VANISHED}
)
"""Refusal → outcome of a deletion in progress: its mark was removed and the topic stays; or the topic was removed while
no controller was active."""
