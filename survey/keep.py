"""Writes a survey to files, for the pipeline and for later readers.

A kept survey is a directory DIR/<survey id>. It is written under a name that begins with a dot, synced, and then
renamed, so it exists whole or not at all. A failed attempt removes its files. A killed process leaves its hidden
directory, which readers ignore. Rows are made one by one, so memory holds only the survey.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import orjson

from lethe.protocol.survey_records import MANIFEST, ROW_FILES, checksum, survey_id
from lethe.survey.records import Row, manifest, rows_of
from lethe.survey.views import Survey

_BUFFER_BYTES: Final = 1 << 20

Opener = Callable[[Path], BinaryIO]


class SaveFailed(Exception):
    """The survey could not be kept, and no part of it remains; the message names the place and the cause."""


def _open_new(path: Path) -> BinaryIO:
    return path.open("xb", buffering=_BUFFER_BYTES)


def require_writable(out: Path) -> None:
    """Check that a survey can be kept below `out`, before a long survey is taken. Removes what it creates. Blocking.
    Raises SaveFailed."""
    with _failures(out), contextlib.ExitStack() as undo:
        _make(out, undo)
        trial = _hidden(out, "trial")
        trial.mkdir()
        trial.rmdir()


def save_survey(survey: Survey, out: Path, open_new: Opener = _open_new) -> Path:
    """Write the survey below `out`, which is created if missing, and return its directory. Blocking. Raises
    SaveFailed."""
    target = out / survey_id(survey.taken_at_ms, survey.host)
    if target.exists():
        raise SaveFailed(f"a survey of that very moment is kept already in {target}; take it again")
    hidden = _hidden(out, target.name)
    with _failures(out), contextlib.ExitStack() as undo:
        _make(out, undo)
        undo.callback(shutil.rmtree, hidden, ignore_errors=True)
        hidden.mkdir()
        written = {file.name: _write(hidden / file.name, rows_of(file, survey), open_new) for file in ROW_FILES}
        rows, checksums = ({name: said[which] for name, said in written.items()} for which in (0, 1))
        _write(hidden / MANIFEST.name, (manifest(survey, rows, checksums),), open_new)
        _sync_directory(hidden)
        hidden.rename(target)
        undo.pop_all()
        _sync_directory(out)
    return target


def _make(out: Path, undo: contextlib.ExitStack) -> None:
    """Create the directory and its missing parents. Undoing removes those that are empty."""
    missing = [place for place in (out, *out.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(exist_ok=True)
        undo.callback(_remove_empty, place)
    if not missing:
        out.mkdir(exist_ok=True)  # raises FileExistsError if it is no directory


def _remove_empty(place: Path) -> None:
    with contextlib.suppress(OSError):
        place.rmdir()


def _hidden(out: Path, name: str) -> Path:
    return out / f".{name}-{secrets.token_hex(4)}"


def _write(path: Path, rows: Iterable[Row], open_new: Opener) -> tuple[int, int]:
    """Write one line per row and sync the file; return the number of rows and their checksum."""
    count, sum_ = 0, 0
    with open_new(path) as file:
        for row in rows:
            line = orjson.dumps(row)
            file.write(line + b"\n")
            count += 1
            sum_ += checksum(line)
        file.flush()
        os.fsync(file.fileno())
    return count, sum_


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _failures(out: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise SaveFailed(
            f"{out} is no directory; name one, in which surveys are kept (it is made if missing)"
        ) from error
    except OSError as error:
        raise SaveFailed(
            f"the survey cannot be kept in {out}: {error.strerror or error}; nothing of it is there"
        ) from error
