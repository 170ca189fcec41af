"""The table of what each side answered, and its record in docs/judge.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.judge.compare import Verdict
from tests.judge.run import Cell, Row
from tests.judge.step import Side

RECORDED: Final = Path(__file__).resolve().parents[2] / "docs" / "judge.json"


def recorded() -> list[Row]:
    """Return the rows that docs/judge.json has; none if there is no such file."""
    return rows_from(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else []


def record(rows: Sequence[Row], order: Sequence[str]) -> None:
    """Write these rows into docs/judge.json, of which docs/judge.md is made, in the order of these steps."""
    RECORDED.write_text(as_json(merged(recorded(), rows, order)), encoding="utf-8")


def as_json(rows: Sequence[Row]) -> str:
    """Return the rows as a list in JSON with one row on each line, so that a diff shows which steps have changed."""
    return "[\n" + ",\n".join(json.dumps(row.document(), ensure_ascii=False) for row in rows) + "\n]\n"


def rows_from(text: str) -> list[Row]:
    """Return the rows of `as_json`. Raises ValueError or KeyError for other text."""
    return [Row.read(each) for each in json.loads(text)]


def merged(before: Sequence[Row], rows: Sequence[Row], order: Sequence[str]) -> list[Row]:
    """Return the recorded rows with these in their place: other steps and sides stay, but for steps that are gone."""
    known = {row.step: row for row in before}
    for row in rows:
        old = known.get(row.step)
        known[row.step] = replace(row, sides={**({} if old is None else old.sides), **row.sides})
    return [known[step] for step in order if step in known]


def sides_of(rows: Sequence[Row]) -> list[Side]:
    """Return the sides that were compared with Kafka's controller."""
    return [side for side in Side if any(side.value in row.sides for row in rows)]


def failures(rows: Sequence[Row]) -> list[tuple[Row, str]]:
    """Return each step with the name of a side whose answer is a failure."""
    return [(row, name) for row in rows for name, cell in row.sides.items() if cell.fails]


def counts(rows: Sequence[Row]) -> Iterator[str]:
    """Yield, as Markdown, how many steps have which verdict on each side."""
    yield f"| | {' | '.join(verdict.value for verdict in Verdict)} |"
    yield f"|---|{'---:|' * len(Verdict)}"
    for side in sides_of(rows):
        found = [row.sides[side.value].verdict for row in rows if side.value in row.sides]
        yield f"| {side.description} | {' | '.join(str(found.count(each.value)) for each in Verdict)} |"


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table as Markdown: a row for each step, then what differs."""
    sides = sides_of(rows)
    yield f"| step | kafka (s) | {' | '.join(f'{side.value} (s)' for side in sides)} |"
    yield f"|---|---:|{'---|' * len(sides)}"
    for row in rows:
        cells = [_cell(row.sides.get(side.value)) for side in sides]
        yield f"| {_code(row.step)} | {_seconds(row.kafka_s)} | {' | '.join(cells)} |"
    yield ""
    yield from _changes(rows)


def _changes(rows: Sequence[Row]) -> Iterator[str]:
    for row, name in failures(rows):
        yield f"{_code(row.step)}, {name}:"
        yield ""
        yield from (f"    {line}" for line in row.sides[name].changes)
        yield ""


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    if cell.verdict == Verdict.SAME.value:
        return f"same ({_seconds(cell.took_s)})"
    verdict = f"**{cell.verdict}**" if cell.fails else f"{cell.verdict}: {cell.reason}"
    return f"{verdict} ({_seconds(cell.took_s)})"


def _seconds(took_s: float | None) -> str:
    return "–" if took_s is None else f"{took_s:.1f}"


def _code(text: str) -> str:
    shortened = text if len(text) <= 200 else f"{text[:100]}…{text[-60:]}"
    return (
        "`` " + shortened.replace("|", "\\|") + " ``"
        if "`" in shortened
        else f"`{shortened.replace('|', chr(92) + '|')}`"
    )
