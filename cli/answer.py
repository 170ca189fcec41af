"""What a command returns: an Answer, which `cli.render` shows. Commands raise Refusal where they do nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from lethe.admin.refusal import Exit
from lethe.protocol.journal import JsonValue


@dataclass(frozen=True, slots=True)
class Table:
    """Rows to be shown under each other; cells are text already."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """`data` is what `--json` prints; otherwise the lines are printed, then the tables."""

    data: JsonValue
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = field(default=())
    exit: Exit = Exit.OK
