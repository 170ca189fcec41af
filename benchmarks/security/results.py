"""The results of a run as a document, and medians of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from benchmarks.against_kafka.measure import TurnResult
from benchmarks.documents import Document
from benchmarks.provenance import DOCS, Origin
from benchmarks.security.connections import Accepted, LoggedIn

JSON_NAME: Final = "benchmarks-security.json"
JSON: Final = DOCS / JSON_NAME


def document(
    accepted: Sequence[Accepted],
    logged_in: Sequence[LoggedIn],
    turns: Sequence[TurnResult],
    load: Sequence[float],
    measured: Origin,
) -> Document:
    """Return all measurements of one run, with its origin. `load` are load averages at the end of each."""
    return {
        **measured,
        "load": [round(each, 2) for each in load],
        "accepted": [asdict(each) for each in accepted],
        "logged_in": [asdict(each) for each in logged_in],
        "turns": [asdict(each) for each in turns],
    }


def kinds(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the kinds of connections in these rows, in order."""
    return list(dict.fromkeys(row["kind"] for row in rows))


def per_second(found: Document, kind: str) -> float:
    """Return the median of connections accepted in a second."""
    return float(statistics.median(row["connections"] / row["seconds"] for row in _of(found["accepted"], kind)))


def processor_ms(found: Document, kind: str, side: str) -> float:
    """Return the median processor time of a connection at that side, `server_s` or `client_s`."""
    return float(statistics.median(row[side] / row["connections"] * 1000 for row in _of(found["accepted"], kind)))


def login(found: Document, kind: str, brokers: int) -> tuple[float, float, int] | None:
    """Return medians of seconds and of processor time, and the most unanswered brokers; None if not measured."""
    rows = [row for row in _of(found["logged_in"], kind) if row["brokers"] == brokers]
    if not rows:
        return None
    middle, used = (statistics.median(row[name] for row in rows) for name in ("seconds", "controller_s"))
    return middle, used, max(row["unanswered"] for row in rows)


def _of(rows: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] == kind]
