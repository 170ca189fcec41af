"""Kept surveys: directories with a manifest and one file of rows per place that was surveyed.

An input is a kept survey, a directory of them, or a pattern. Manifests are small and are read whole, so that an
unusable survey (another form, another cluster) is refused before its rows are read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from pyspark.sql import DataFrame, SparkSession

from lethe.pipeline.io.files import FileStatus, FileSystem, FileSystemError
from lethe.pipeline.io.journal import InputNotFound, read_lines
from lethe.protocol.journal import JsonValue
from lethe.protocol.survey_records import LEFTOVERS, MANIFEST, ROW_FILES, VERSION, SurveyFile, row_problems


@dataclass(frozen=True, slots=True)
class KeptSurvey:
    """A readable survey. `path` is its directory; `manifest` has every column of MANIFEST."""

    path: str
    survey_id: str
    cluster_id: str | None
    manifest: Mapping[str, JsonValue]

    def row_count(self, file: SurveyFile) -> int:
        """Return the number of rows of that file, by the manifest; 0 for a file that the survey does not have."""
        return int(self._rows.get(file.name, 0))  # type: ignore[arg-type]  # row_problems has seen that it is one

    @property
    def has_leftovers(self) -> bool:
        """Return True if the survey says what is left over; those of older versions do not."""
        return LEFTOVERS.name in self._rows

    @property
    def _rows(self) -> Mapping[str, JsonValue]:
        rows = self.manifest["rows"]
        assert isinstance(rows, dict), "as every manifest that was read"
        return rows

    def checksum(self, file: SurveyFile) -> int | None:
        """Return the checksum of the file's lines; None if the manifest has none."""
        checksums = self.manifest["checksums"]
        return checksums.get(file.name) if isinstance(checksums, dict) else None  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class RefusedSurvey:
    """A survey that cannot be used, with the text of its manifest; empty if that is unreadable."""

    path: str
    manifest: str
    why: str


MANIFEST_NAME: Final = MANIFEST.name


def find_surveys(spark: SparkSession, places: Sequence[str]) -> tuple[list[KeptSurvey], list[RefusedSurvey]]:
    """Return the usable and the refused surveys in these places, by path. A directory without a manifest is skipped;
    one with an unreadable manifest is refused. Raises InputNotFound for a place that does not exist, and
    FileSystemError."""
    kept: dict[str, KeptSurvey] = {}
    refused: dict[str, RefusedSurvey] = {}
    for place in places:
        files = FileSystem(spark, place)
        for directory in _survey_directories(files, place):
            read = _read_survey(files, directory)
            if isinstance(read, KeptSurvey):
                kept[directory] = read
            else:
                refused[directory] = read
    return [kept[path] for path in sorted(kept)], [refused[path] for path in sorted(refused)]


def require_surveys(spark: SparkSession, places: Sequence[str]) -> None:
    """Raise InputNotFound for a place that does not exist or has only other files. An empty directory is valid, and so
    is a survey that is still being copied. Raises FileSystemError."""
    for place in places:
        files = FileSystem(spark, place)
        if _survey_directories(files, place):
            continue
        items = files.glob(place)
        below = files.expand_directories(items)
        if below and not any(_may_become_survey(files, one) for one in (*items, *below)):
            raise InputNotFound(
                f"no survey at {place}: {below[0].name} and what else is there has no {MANIFEST_NAME}, which `lethe "
                "survey --out DIR` writes"
            )


def read_rows(spark: SparkSession, surveys: Collection[KeptSurvey], file: SurveyFile) -> DataFrame:
    """Return (value, file): the lines of that file of these surveys."""
    return read_lines(spark, [f"{survey.path}/{file.name}" for survey in surveys if survey.row_count(file)])


def _survey_directories(files: FileSystem, place: str) -> list[str]:
    items = files.glob(place)
    if not items:
        raise InputNotFound(f"no survey at {place}: there is no such directory")
    return [directory for item in items for directory in _directories_with_manifest(files, item)]


def _may_become_survey(files: FileSystem, item: FileStatus) -> bool:
    """Return True for an empty directory, and for one with some of a survey's files."""
    names = {one.name for one in files.list_directory(item.path)} if item.is_directory else {item.name}
    return item.is_directory and (not names or not names.isdisjoint(file.name for file in ROW_FILES))


def _directories_with_manifest(files: FileSystem, item: FileStatus) -> list[str]:
    if not item.is_directory:
        return []
    if files.exists(f"{item.path}/{MANIFEST_NAME}"):
        return [item.path]
    below = [one.path for one in files.list_directory(item.path) if one.is_directory]
    return [path for path in below if _may_have_manifest(files, path)]


def _may_have_manifest(files: FileSystem, path: str) -> bool:
    """Return True also for a directory without permission: reading it then refuses this survey alone."""
    try:
        return files.exists(f"{path}/{MANIFEST_NAME}")
    except FileSystemError:
        return True


def _read_survey(files: FileSystem, directory: str) -> KeptSurvey | RefusedSurvey:
    try:
        text = files.read_text(f"{directory}/{MANIFEST_NAME}")
    except FileSystemError as trouble:
        return RefusedSurvey(directory, "", f"its {MANIFEST_NAME}: {trouble}")
    return _parse_manifest(directory, text)


def _parse_manifest(path: str, text: str) -> KeptSurvey | RefusedSurvey:
    try:
        manifest = orjson.loads(text)
    except ValueError as error:
        return RefusedSurvey(path, text, f"its {MANIFEST_NAME} is not JSON: {error}")
    if not isinstance(manifest, dict):
        return RefusedSurvey(path, text, f"its {MANIFEST_NAME} is no object")
    version = manifest.get("version")
    if isinstance(version, int) and version > VERSION:
        return RefusedSurvey(path, text, f"it has form {version}, and this program supports {VERSION}: use a newer one")
    known = {"checksums": None} | {name: value for name, value in manifest.items() if name in MANIFEST.column_names}
    problems = row_problems(MANIFEST, known)
    problems += [
        f"{name!r} is null" for name in ("version", "survey_id", "taken_at", "rows") if known.get(name) is None
    ]
    problems += _row_count_problems(known["rows"]) if not problems else []
    if problems:
        return RefusedSurvey(path, text, f"its {MANIFEST_NAME}: {'; '.join(problems)}")
    if known["version"] != VERSION:
        return RefusedSurvey(path, text, f"it has form {version}, and there is none before {VERSION}: take it anew")
    cluster_id = known["cluster_id"]
    return KeptSurvey(path, str(known["survey_id"]), cluster_id if isinstance(cluster_id, str) else None, known)


def _row_count_problems(rows: JsonValue) -> list[str]:
    """Return the files without a count: they would seem to have no rows."""
    counts = {LEFTOVERS.name: 0} | (rows if isinstance(rows, dict) else {})
    wrong = [file.name for file in ROW_FILES if not isinstance(count := counts.get(file.name), int) or count < 0]
    return [f"'rows' does not say how many rows {name} has" for name in wrong]
