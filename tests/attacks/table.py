"""All attacks, in the order in which they are tried, and the table of what happened."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.attacks import (
    forged,
    frames,
    http_attacks,
    leaks,
    names,
    outbound,
    replay,
    scram_attacks,
    tls_attacks,
)
from tests.attacks.attack import Attack, Row, Verdict
from tests.attacks.forged import FORGED, STALE
from tests.attacks.frames import OVERSIZED, SLOW
from tests.attacks.http_attacks import REBINDING, TRAVERSAL, UNAUTHENTICATED
from tests.attacks.leaks import SECRETS
from tests.attacks.replay import REPLAYED
from tests.attacks.scram_attacks import DOWNGRADE, REPLAY
from tests.attacks.tls_attacks import CHAIN, RENEGOTIATION

RECORDED: Final = Path(__file__).resolve().parents[2] / "docs" / "attacks.json"
SUBJECTS: Final = (
    FORGED,
    REPLAYED,
    STALE,
    OVERSIZED,
    SLOW,
    DOWNGRADE,
    RENEGOTIATION,
    REPLAY,
    CHAIN,
    TRAVERSAL,
    REBINDING,
    UNAUTHENTICATED,
    SECRETS,
)
_MODULES: Final = (forged, replay, frames, tls_attacks, scram_attacks, outbound, names, http_attacks, leaks)
ATTACKS: Final[tuple[Attack, ...]] = tuple(
    sorted((each for module in _MODULES for each in module.ATTACKS), key=lambda each: SUBJECTS.index(each.subject))
)


def recorded() -> list[Row]:
    """Return the rows that docs/attacks.json has; none if there is no such file."""
    return [Row(**each) for each in json.loads(RECORDED.read_text())] if RECORDED.exists() else []


def record(rows: Sequence[Row]) -> None:
    """Write these rows into docs/attacks.json, of which docs/attacks.md is made; rows of other attacks stay."""
    known = {row.sent: row for row in (*recorded(), *rows)}
    kept = [known[attack.sent].document() for attack in ATTACKS if attack.sent in known]
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    RECORDED.write_text(text + "\n", encoding="utf-8")


def deviations(rows: Sequence[Row], before: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence for each attack that was not refused, or with which something else happened than is recorded."""
    known = {row.sent: row for row in before}
    for row in rows:
        if row.verdict != Verdict.REFUSED.value:
            yield f"{row.sent}: {row.verdict}: {row.happened}; {row.unchanged or row.control}"
        elif known.get(row.sent) != row:
            was = known[row.sent].happened if row.sent in known else "no such attack"
            yield f"{row.sent}: {row.happened}; docs/attacks.json has: {was}"


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table as Markdown."""
    for subject, group in groupby(rows, key=lambda row: row.subject):
        yield f"## {subject[0].upper()}{subject[1:]}"
        yield ""
        yield "| sent | before, by the right client | what happened | unchanged | verdict |"
        yield "|---|---|---|---|---|"
        for row in group:
            yield f"| {' | '.join(map(_cell, _cells(row)))} |"
        yield ""


def _cells(row: Row) -> tuple[str, ...]:
    return row.sent, row.control, row.happened, row.unchanged, row.verdict


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
