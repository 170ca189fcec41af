"""Kafka's answers, kept for the next run: its controller does not change when ours does.

They belong to the script that they were asked in, since each step finds what the steps before it have left. So they are
used as far as the next run's steps are the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.judge.step import Answer, NotRun, Outcome, Step

KEPT: Final = Path("build/judge/kafka.json")


def keep(file: Path, steps: Sequence[Step], outcomes: Sequence[Outcome]) -> None:
    """Write the outcomes of the first steps; there may be fewer than steps."""
    rows = [
        {"step": step.name, **({"why": said.why} if isinstance(said, NotRun) else said._asdict())}
        for step, said in zip(steps, outcomes, strict=False)
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")


def kept(file: Path, steps: Sequence[Step]) -> list[Outcome]:
    """Return the outcomes of the first of these steps, up to one that was not asked in this order."""
    found: list[Outcome] = []
    rows = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    for step, row in zip(steps, rows, strict=False):
        if row["step"] != step.name:
            break
        said = NotRun(row["why"]) if "why" in row else Answer(row["code"], tuple(row["lines"]), row["took_s"])
        found.append(said)
    return found
