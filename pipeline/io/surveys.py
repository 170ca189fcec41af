"""Kept surveys: directories with a manifest and a file of rows for each place that was looked at.

A place is a kept survey, a directory of them, or a pattern. A manifest is small and is read here, whole, so that what
cannot be used (another form, another cluster) is known before a row is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from pyspark.sql import DataFrame, SparkSession

from lethe.pipeline.io.files import Files, FileTrouble, Item
from lethe.pipeline.io.journal import NothingToRead, read_lines
from lethe.protocol.journal import JsonValue
from lethe.protocol.survey_records import MANIFEST, ROW_FILES, VERSION, File, row_problems


@dataclass(frozen=True, slots=True)
class KeptSurvey:
    """A survey that can be read. `path` is that of its directory, `manifest` has every column of MANIFEST."""

    path: str
    survey_id: str
    cluster_id: str | None
    manifest: Mapping[str, JsonValue]

    def rows(self, file: File) -> int:
        """How many rows that file has."""
        rows = self.manifest["rows"]
        assert isinstance(rows, dict), "as every manifest that was read"
        return int(rows[file.name])  # type: ignore[arg-type]  # row_problems has seen that it is one

    def checksum(self, file: File) -> int | None:
        """What its lines come to; None where the manifest does not say it."""
        checksums = self.manifest["checksums"]
        return checksums.get(file.name) if isinstance(checksums, dict) else None  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class RefusedSurvey:
    """A survey that cannot be used, with its manifest as it stands there; empty where that could not be read."""

    path: str
    manifest: str
    why: str


MANIFEST_NAME: Final = MANIFEST.name


def find_surveys(spark: SparkSession, places: Sequence[str]) -> tuple[list[KeptSurvey], list[RefusedSurvey]]:
    """What lies in these places, by path. A directory without a manifest is passed over, one whose manifest cannot be
    read is refused. Raises NothingToRead for a place that does not exist, and FileTrouble."""
    kept: dict[str, KeptSurvey] = {}
    refused: dict[str, RefusedSurvey] = {}
    for place in places:
        files = Files(spark, place)
        for directory in _directories(files, place):
            read = _read_there(files, directory)
            if isinstance(read, KeptSurvey):
                kept[directory] = read
            else:
                refused[directory] = read
    return [kept[path] for path in sorted(kept)], [refused[path] for path in sorted(refused)]


def require_surveys(spark: SparkSession, places: Sequence[str]) -> None:
    """Raises NothingToRead for a place that does not exist or holds other things alone, and FileTrouble. An empty
    directory is all right, no survey was kept yet; so is one that is being copied."""
    for place in places:
        files = Files(spark, place)
        if _directories(files, place):
            continue
        items = files.matching(place)
        below = files.opened(items)
        if below and not any(_is_begun(files, one) for one in (*items, *below)):
            raise NothingToRead(
                f"no survey at {place}: {below[0].name} and what else is there has no {MANIFEST_NAME}, which `lethe "
                "survey --out DIR` writes"
            )


def read_rows(spark: SparkSession, surveys: Collection[KeptSurvey], file: File) -> DataFrame:
    """(value, file): the lines of that file of these surveys."""
    return read_lines(spark, [f"{survey.path}/{file.name}" for survey in surveys if survey.rows(file)])


def _directories(files: Files, place: str) -> list[str]:
    items = files.matching(place)
    if not items:
        raise NothingToRead(f"no survey at {place}: there is no such directory")
    return [directory for item in items for directory in _with_manifest(files, item)]


def _is_begun(files: Files, item: Item) -> bool:
    """Whether it is a directory that may become a survey: nothing lies in it yet, or some of a survey's files."""
    names = {one.name for one in files.items(item.path)} if item.is_directory else {item.name}
    return item.is_directory and (not names or not names.isdisjoint(file.name for file in ROW_FILES))


def _with_manifest(files: Files, item: Item) -> list[str]:
    if not item.is_directory:
        return []
    if files.exists(f"{item.path}/{MANIFEST_NAME}"):
        return [item.path]
    below = [one.path for one in files.items(item.path) if one.is_directory]
    return [path for path in below if _may_have_manifest(files, path)]


def _may_have_manifest(files: Files, path: str) -> bool:
    """Also of a directory that may not be entered: reading tells, and is about this one alone."""
    try:
        return files.exists(f"{path}/{MANIFEST_NAME}")
    except FileTrouble:
        return True


def _read_there(files: Files, directory: str) -> KeptSurvey | RefusedSurvey:
    try:
        text = files.read_text(f"{directory}/{MANIFEST_NAME}")
    except FileTrouble as trouble:
        return RefusedSurvey(directory, "", f"its {MANIFEST_NAME}: {trouble}")
    return _read(directory, text)


def _read(path: str, text: str) -> KeptSurvey | RefusedSurvey:
    try:
        manifest = orjson.loads(text)
    except ValueError as error:
        return RefusedSurvey(path, text, f"its {MANIFEST_NAME} is not JSON: {error}")
    if not isinstance(manifest, dict):
        return RefusedSurvey(path, text, f"its {MANIFEST_NAME} is no object")
    version = manifest.get("version")
    if isinstance(version, int) and version > VERSION:
        return RefusedSurvey(path, text, f"it has form {version}, and this program knows {VERSION}: use a newer one")
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
    """A file that is not named would seem to have no rows, and what stands in it not to exist."""
    counts = rows if isinstance(rows, dict) else {}
    wrong = [file.name for file in ROW_FILES if not isinstance(count := counts.get(file.name), int) or count < 0]
    return [f"'rows' does not say how many rows {name} has" for name in wrong]
