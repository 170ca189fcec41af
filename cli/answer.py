"""The result of a command: an Answer, which `cli.render` shows. A command that does nothing raises Refusal."""

from __future__ import annotations

from dataclasses import dataclass, field

from lethe.admin.refusal import Exit
from lethe.protocol.journal import JsonValue


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """`--json` prints `data`; otherwise the lines are printed, then the tables."""

    data: JsonValue
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = field(default=())
    exit: Exit = Exit.OK
