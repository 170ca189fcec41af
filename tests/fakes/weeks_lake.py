"""A lake of weeks with gaps: days without a journal, a deletion or a survey, and disks that no survey read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from lethe.pipeline import tables
from tests.fakes.lakes import at, day_of, write
from tests.fakes.report_lake import BEGAN_MS, MS_PER_DAY, span

DAYS: Final = 35
NO_JOURNAL: Final = (11, 12)
"""Days whose journal the pipeline has not read."""
NO_DELETION: Final = (5, 6, 19, 26)
"""Days of lines without a deletion."""
NOTHING_DONE: Final = 34
"""The last day: its deletions go on."""
SURVEYS: Final = (0, 2, 4, 7, 9, 14, 16, 18, 21, 23, 25, 28, 30, 32, 34)
PARTLY: Final = (9, 23)
"""Surveys of these days read one disk of two, and one of them is not complete."""
_CAUSES: Final = ("broker_to_return", "unreachable", "asked", "log_directory")


def write_weeks(lake: Path, days: int = DAYS, per_day: int = 12) -> Path:
    """Write the tables that trends are made of."""
    moments = [BEGAN_MS + number * MS_PER_DAY for number in range(days)]
    lines = [{"day": day_of(ms), "source": "/lethe/controller/1", "id": f"{ms}", "time": at(ms)} for ms in moments]
    write(lake, tables.CONTROLLER_EVENTS, [row for n, row in enumerate(lines) if n % DAYS not in NO_JOURNAL])
    busy = [n for n in range(days) if n % DAYS not in (*NO_JOURNAL, *NO_DELETION)]
    write(lake, tables.DELETION_SPANS, [row for n in busy for row in _of_a_day(n, per_day + n * 5 % 9)])
    freed = [
        {"day": day_of(moments[n]), "broker": broker, "size_bytes": (3 + n * 7 % 11) * 400_000_000, "topics": 9}
        for n in busy
        for broker in (1, 2)
    ]
    write(lake, tables.DAILY_RECLAIM, freed)
    owed = ((8, 0, 2, 3_000_000_000, 0), (15, 0, 3, 3_000_000_000, 1), (22, 0, 1, 0, 1), (27, 0, 0, 0, 0))
    names = ("broker", "open", "owed_bytes", "unsized")
    write(
        lake,
        tables.OWED_BY_BROKER,
        [{"day": day_of(moments[n]), **dict(zip(names, row, strict=True))} for n, *row in owed if n < days],
    )
    _write_surveys(lake, [n for n in range(days) if n % DAYS in SURVEYS])
    return lake


def _of_a_day(number: int, many: int) -> list[dict[str, Any]]:
    rows = []
    for nth in range(many):
        marked = BEGAN_MS + number * MS_PER_DAY + nth * 60_000
        row = span(number * 100 + nth, marked, waits=nth % 4 == 0)
        cause = _CAUSES[(number + nth) % len(_CAUSES)]
        ms = 4_000 + (number * 13 + nth * 29) % 60 * 1_500
        row["waited_for"] = [{"broker": 3, "reason": cause, "replicas": 2, "ms": ms}] if nth % 4 == 0 else []
        row["waited_ms"] = ms if nth % 4 == 0 else 0
        row["deleted_ms"] += row["waited_ms"]
        if number % DAYS == NOTHING_DONE or (number, nth) == (30, 0):
            row |= dict.fromkeys(("done_at", "znodes_gone_at", "bytes_gone_at", "deleted_ms", "reclaimed_ms"))
            row |= {"outcome": "open", "waited_ms": None, "waited_for": [{"broker": 3, "reason": cause}]}
        elif nth == 5 and number % 3 == 0:
            row |= {"outcome": "let go", "deleted_ms": None, "reclaimed_ms": None}
        rows.append(row)
    return rows


def _write_surveys(lake: Path, taken: list[int]) -> None:
    surveys, findings, disks = [], [], []
    for nth, number in enumerate(taken):
        ms = BEGAN_MS + number * MS_PER_DAY
        shared = {"survey_id": f"s{number:03d}", "taken_at": at(ms), "day": day_of(ms)}
        is_partly = number % DAYS in PARTLY
        complete = number % DAYS != PARTLY[0]
        surveys.append(
            {**shared, "took_ms": 900, "complete": complete, "in_motion": [], "problems": [], "cluster_id": "c"}
        )
        for broker in (1, 2):
            source = "broker" if is_partly and broker == 2 else "local"
            disks.append({**shared, "kind": "log-dir", "broker": broker, "log_dir": f"/d{broker}", "source": source})
        for finding in range(nth * 3 // 2, nth * 3 // 2 + 2 + nth % 4):
            broker = 1 + finding % 2
            if is_partly and broker == 2:
                continue
            findings.append(
                {**shared, "place": "disk", "standing": "left_over", "reason": "directory_without_topic"}
                | {
                    "what": f"/d{broker}/old-{finding}",
                    "topic": f"old-{finding}",
                    "broker": broker,
                    "partition": 0,
                    "size_bytes": 5_000,
                }
            )
    write(lake, tables.SURVEYS, surveys)
    write(lake, tables.AGENT_INVENTORY, disks)
    write(lake, tables.LEFTOVERS, findings)
