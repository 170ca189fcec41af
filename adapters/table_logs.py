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


class LogUnusable(Exception):
    """A log cannot be read, or must not be; the message names it and says what to do."""


def open_log(place: str) -> DeltaTable | None:
    """Return the log of the table in this directory, a path or a URI; None if there is none. Raises LogUnusable."""
    with refusal("read", place):
        found = _opened(place)
    if found is None:
        return None
    if found.protocol().min_reader_version > 1:
        # Files may have rows that the table has not.
        raise LogUnusable(f"another program has changed what a table is: {place}: {DAMAGED}")
    newest = f"{place}/{LOG}/{found.version():020}.json"
    if os.path.exists(newest) and not os.path.getsize(newest):
        # A power failure leaves that. The table would be as it was before the change.
        again = "remove it and the lake's _inputs.json, and run again over all journals and surveys"
        raise LogUnusable(f"the last change of the table is empty: {newest}: {COPY_BACK}, or {again}")
    return found


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


def _is_listable(directory: str) -> bool:
    """Return False if there is no such directory. Raises OSError if it may not be read."""
    try:
        os.listdir(directory)
    except FileNotFoundError:
        return False
    return True
