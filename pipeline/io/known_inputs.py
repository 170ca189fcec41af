"""What a lake's runs have read to the end, so that a later run reads only the rest: `_inputs.json`.

A journal file is known by its identity on the local disk (`local_files.file_identity`): one that grew, was written to
or was replaced is read again. Kept surveys are known by a fingerprint of all that is in the given places. Files of
other file systems are never known.

The note counts only for the program that wrote it. Another one may make other tables of the same lines: it reads
everything, and makes all days anew. The same holds for a lake whose note is missing or damaged. Files whose rows the
lake no longer has are unknown.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from lethe.pipeline.io.files import FileSystemError
from lethe.pipeline.io.lake_state import LakeState, WritableFiles
from lethe.pipeline.io.local_files import file_identity, local_path
from lethe.pipeline.io.tailing import survey_fingerprint
from lethe.pipeline.tables import CONTROLLER_EVENTS, QUARANTINE, SURVEYS

NAME: Final = "_inputs.json"
_SOURCES: Final = ("pipeline", "protocol", "controller/core")


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A journal file that was read to its end."""

    identity: str
    records: Mapping[str, int]
    """Its event records by day, the copies of others among them."""
    quarantined: int


@dataclass(frozen=True, slots=True)
class KnownSurveys:
    """Kept surveys of some places, all of them ingested."""

    fingerprint: str
    read: int
    of_cluster: int
    """Those of the lake's cluster."""
    days: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnownInputs:
    """`files` by path, `surveys` by `survey_key`."""

    files: Mapping[str, KnownFile] = field(default_factory=dict)
    surveys: Mapping[str, KnownSurveys] = field(default_factory=dict)
    as_of: str = ""
    """The moment of the tables that depend on time; empty if unknown."""


@functools.cache
def program() -> str:
    """Return a text that differs between programs that may make different tables."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parents[2]
    for source in sorted(file for place in _SOURCES for file in (root / place).rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:32]


def read_known(lake: LakeState[Any]) -> KnownInputs | None:
    """Return what this program has noted, as far as the lake has the rows; None if it has noted nothing."""
    try:
        said = json.loads(lake.files.read_text(f"{lake.root}/{NAME}"))
        if said.pop("program") != program():
            return None
        files = {path: KnownFile(**one) for path, one in said.pop("files").items()}
        surveys = {key: KnownSurveys(**{**one, "days": tuple(one["days"])}) for key, one in said.pop("surveys").items()}
        known = KnownInputs(files, surveys, **said)
    except (FileSystemError, ValueError, TypeError, KeyError, AttributeError):
        return None
    has_quarantine = lake.has(QUARANTINE)
    events, surveyed = ({str(day) for day in lake.days(table)} for table in (CONTROLLER_EVENTS, SURVEYS))
    return replace(
        known,
        files={
            path: one
            for path, one in known.files.items()
            if one.records.keys() <= events and (has_quarantine or not one.quarantined)
        },
        surveys={key: one for key, one in known.surveys.items() if surveyed.issuperset(one.days)},
    )


def write_known(files: WritableFiles, known: KnownInputs) -> None:
    """Note it. Inside `lake.writer`. Raises FileSystemError."""
    path, temporary = f"{files.root}/{NAME}", f"{files.root}/_{NAME}"
    files.write_text(temporary, json.dumps({"program": program(), **asdict(known)}))
    files.remove(path)
    files.rename(temporary, path)


def forget(lake: LakeState[Any], *, files: bool) -> None:
    """Note that the tables that depend on time have changed, and with `files` that all inputs must be read again.
    Inside `lake.writer`. Raises FileSystemError."""
    if (known := read_known(lake)) is not None:
        write_known(lake.files, KnownInputs() if files else replace(known, as_of=""))


def is_known(known: KnownFile | None, identity: str | None) -> bool:
    """Return True if a file with this identity was read to its end."""
    return known is not None and known.identity == identity


def still_there(files: Mapping[str, KnownFile]) -> dict[str, KnownFile]:
    """Return the files that are as they were."""
    return {path: known for path, known in files.items() if is_known(known, file_identity(path))}


def survey_key(places: Iterable[str]) -> str:
    """Return the name of these places."""
    return json.dumps(sorted(places))


def surveys_identity(places: Sequence[str]) -> str | None:
    """Return a text that changes with whatever is in these places; None if that is unknown."""
    local = [local_path(place) for place in places]
    try:
        return survey_fingerprint([path for path in local if path is not None]) if None not in local else None
    except OSError:
        return None
