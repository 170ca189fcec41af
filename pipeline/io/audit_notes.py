"""Which state of each day was audited.

    _audited/1767398400000.json        after the audit of this time, in milliseconds; the newest one counts
    {"2026-01-02": {"controller_events": "5f3c0a9e", ...}, ...}    a digest of the names of the day's files, by table

A file never changes, so a day whose files have the same names is as it was.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from lethe.pipeline.io.table_log import TableFile

PLACE: Final = "_audited"
_ENDING: Final = ".json"
_DIGEST_LENGTH: Final = 16
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS

AuditNotes = Mapping[datetime.date, Mapping[str, str]]
"""By day and table."""


def newest_notes(names: Iterable[str], until_ms: int | None = None) -> str | None:
    """Return the name of the newest of these files, or of the newest one of that time; None if there is none."""
    times = [time for name in names if (time := _time_of(name)) is not None and (until_ms is None or time <= until_ms)]
    return f"{max(times)}{_ENDING}" if times else None


def next_notes(names: Iterable[str], now_ms: int) -> str:
    """Return the name of a file that is newer than these, whatever the clock says."""
    times = [time for name in names if (time := _time_of(name)) is not None]
    return f"{max([now_ms, *(time + 1 for time in times)])}{_ENDING}"


def superseded(names: Iterable[str], now_ms: int, kept_ms: int) -> list[str]:
    """Return the names of files that are read no more: neither the last one of a day within `kept_ms`, nor of the last
    hour, nor the newest one."""
    times = sorted(time for name in names if (time := _time_of(name)) is not None)
    last = {time // _DAY_MS: time for time in times}
    return [
        f"{time}{_ENDING}"
        for time in times[:-1]
        if time < now_ms - kept_ms or (time != last[time // _DAY_MS] and not now_ms - _HOUR_MS < time <= now_ms)
    ]


def _time_of(name: str) -> int | None:
    text = name.removesuffix(_ENDING)
    return int(text) if text.isdecimal() and text != name else None


def decode_notes(text: str) -> AuditNotes:
    """Return the notes; none for a text that is none: then all days are audited again."""
    try:
        return {datetime.date.fromisoformat(day): dict(tables) for day, tables in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def encode_notes(notes: AuditNotes) -> str:
    return json.dumps({str(day): dict(notes[day]) for day in sorted(notes)})


def digests(files: Mapping[str, Iterable[TableFile]]) -> AuditNotes:
    """Return what is to be noted of days whose tables have these files."""
    found: dict[datetime.date, dict[str, str]] = defaultdict(dict)
    for table, every in files.items():
        names: dict[datetime.date, list[str]] = defaultdict(list)
        for file in every:
            if file.day is not None:
                names[file.day].append(file.path)
        for day, paths in names.items():
            found[day][table] = hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:_DIGEST_LENGTH]
    return found


def unaudited(notes: AuditNotes, files: Mapping[str, Iterable[TableFile]]) -> set[datetime.date]:
    """Return the days of these tables that were never audited, or have other files than at their audit."""
    found = digests(files)
    return {
        day
        for day in {*found, *notes}
        if day not in notes or any(notes[day].get(table) != found.get(day, {}).get(table) for table in files)
    }
