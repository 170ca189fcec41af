"""Opens the log of a Delta table. What is damaged is refused: it is never read as an earlier or an empty table."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from lethe.protocol.lake import LOG

COPY_BACK: Final = "put a copy of the table's directory back"
DAMAGED: Final = f"{COPY_BACK}, or make another lake of journals and surveys"
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m|↳")
_TRACE: Final = re.compile(r" (?:0:|at [\w.$]+\() .*| at [\w.$]+\(.*")
"""A stack, which delta-rs adds to some messages."""
_REASON_LENGTH: Final = 300
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_VERSION: Final = re.compile(r"(\d{20})\.(json|checkpoint)(?:\.|$)")


class LogUnusable(Exception):
    """A log cannot be read, or must not be; the message names it and says what to do."""


def open_log(place: str) -> DeltaTable | None:
    """Return the log of the table in this directory, a path or a URI; None if there is none. Raises LogUnusable."""
    if problem := place_problem(place):
        raise LogUnusable(problem)
    with refusal("read", place):
        found = _opened(place)
    if found is None:
        return None
    if found.protocol().min_reader_version > 1:
        # Files may have rows that the table has not.
        raise LogUnusable(f"another program has changed what a table is: {place}: {DAMAGED}")
    # A power failure leaves an empty entry. The table would be as if nothing had changed there.
    with refusal("read", place):
        empty = _empty_entry(place)
    if empty == found.version():
        again = "remove it and the lake's _inputs.json, and run again over all journals and surveys"
        raise LogUnusable(f"the last change of the table is empty: {_entry(place, empty)}: {COPY_BACK}, or {again}")
    if empty is not None:
        raise LogUnusable(f"a change of the table is empty: {_entry(place, empty)}: {DAMAGED}")
    return found


def place_problem(place: str) -> str | None:
    """Return why no log can be in this directory, or below it, else None: delta-rs reads and writes another one."""
    if "://" in place or not (strange := _ESCAPE.search(place)):
        return None
    return f"{place}: a table's log is not found below a directory with {strange[0]!r} in its name: name another one"


def paths_of(place: str) -> list[str] | None:
    """Return the table's files below its directory, in order; None if there is no log. Raises LogUnusable."""
    found = open_log(place)
    if found is None:
        return None
    with refusal("read", place):
        return sorted(pa.table(found.get_add_actions())["path"].to_pylist())


@contextlib.contextmanager
def refusal(what: str, place: str) -> Iterator[None]:
    """Raise LogUnusable if this cannot be done (`read`, `change`, ...) to the log of the table."""
    try:
        yield
    except (DeltaError, OSError) as error:
        reason = _TRACE.sub("", " ".join(_COLOURS.sub(" ", str(error)).split()))[:_REASON_LENGTH]
        remedy = f": {DAMAGED}" if what == "read" and isinstance(error, DeltaError) else ""
        raise LogUnusable(f"cannot {what} the log of the table: {place}: {reason}{remedy}") from error


def _opened(place: str) -> DeltaTable | None:
    # Of a local directory that may not be read, delta-rs says that there is no table.
    if "://" not in place and not _is_listable(f"{place}/{LOG}"):
        return None
    try:
        return DeltaTable(place)
    except TableNotFoundError:
        return None


def _entry(place: str, version: int) -> str:
    return f"{place}/{LOG}/{version:020}.json"


def _empty_entry(place: str) -> int | None:
    """Return the first version since the last checkpoint whose entry is an empty file; None if there is none."""
    directory = f"{place}/{LOG}"
    names = os.listdir(directory) if os.path.isdir(directory) else []
    found = [(int(match[1]), match[2]) for name in names if (match := _VERSION.match(name))]
    last = max((version for version, kind in found if kind == "checkpoint"), default=-1)
    entries = sorted(version for version, kind in found if kind == "json" and version > last)
    return next((version for version in entries if not os.path.getsize(_entry(place, version))), None)


def _is_listable(directory: str) -> bool:
    """Return False if there is no such directory. Raises OSError if it may not be read."""
    try:
        with os.scandir(directory):
            return True
    except FileNotFoundError:
        return False
