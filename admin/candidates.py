"""Reads the pipeline's table of unused topics, without Spark.

It is read from Parquet files (the table's directory or its lake), or from an export as JSON lines or CSV with the
table's column names. A missing column or an invalid value raises an error that names the place. Nothing is guessed,
because topics are deleted by this table.
"""

from __future__ import annotations

import csv
import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import orjson

from lethe.protocol.journal import time_from_text
from lethe.protocol.lake import IDENTITY, LOG, cluster_of, has_logs
from lethe.protocol.vocabulary import TopicId, topic_id_from_text, topic_name_problem

TABLE: Final = Path("gold", "stale_topic_candidates")
"""Directory of the table below the lake."""
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A topic that was not written to for `unwritten_days`, as a survey saw it."""

    topic: str
    topic_id: TopicId | None
    partitions: int
    replicas: int
    size_bytes: int
    segment_bytes: int | None
    """Sum over all replicas of the sizes that brokers report; None where one was unknown."""
    is_empty: bool
    last_write_ms: int | None
    unwritten_days: int
    evidence: str
    created_at_ms: int
    survey_id: str
    taken_at_ms: int


class NoPyArrow(Exception):
    """PyArrow is not installed; the message says how to install it or do without."""


def read_candidates(path: Path) -> tuple[Candidate, ...]:
    """Return the candidates, by topic. Blocking. Raises ValueError naming the place, NoPyArrow, OSError."""
    rows = [_Row(where, row).candidate() for where, row in _rows(path)]
    names = [row.topic for row in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []:
        raise ValueError(f"{path} names topic {twice[0]} twice: is it the table of one run of the pipeline?")
    return tuple(sorted(rows, key=lambda row: row.topic))


def read_cluster_id(path: Path) -> str | None:
    """Return the cluster id of the lake at or around `path`; None outside of any lake, or before a survey has set it.
    Blocking. Raises ValueError for another version of lake or for no lake, and OSError."""
    lake = lake_of(path.resolve())
    if lake is None:
        return None
    file = lake / IDENTITY
    try:
        return cluster_of(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"{lake} is no lake: there is no {IDENTITY} in it") from error
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def lake_of(path: Path) -> Path | None:
    """Return the lake at `path`, or the lake that contains this table."""
    if path.is_dir() and ((path / IDENTITY).exists() or (path / TABLE).is_dir()):
        return path
    for place in (path, *path.parents):
        if place.parts[-2:] == TABLE.parts:
            lake = place.parents[1]
            return lake if (lake / IDENTITY).exists() else None
    return None


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    if path.is_dir():
        return _parquet_rows(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist: give the lake of `lethe pipeline run`, the table in it, or an export")
    match path.suffix:
        case ".parquet":
            return _parquet_rows(path)
        case ".jsonl":
            return _json_rows(path)
        case ".csv":
            return _csv_rows(path)
        case _:
            raise ValueError(f"{path} is neither a directory nor a .parquet, .jsonl or .csv file")


def _parquet_rows(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table

        files = _parquet_files(path)
    except ImportError as error:
        raise NoPyArrow(
            "to read Parquet files PyArrow and deltalake are needed: pip install 'lethe-kafka[pipeline]', or "
            "give an export (.jsonl, .csv)"
        ) from error
    for file in files:
        try:
            rows = read_table(file, partitioning=None).to_pylist()
        except ArrowException as error:
            raise ValueError(f"{file} is no Parquet file that can be read: {error}") from error
        yield from ((f"{file}, row {number}", row) for number, row in enumerate(rows, 1))


def _parquet_files(path: Path) -> list[Path]:
    if path.is_file():
        _require_log(path.parent)
        if (path.parent / LOG).is_dir() and path.resolve() not in map(Path.resolve, _files_of_log(path.parent)):
            raise ValueError(f"{path} is not of the table any more: name the table, {path.parent}")
        return [path]
    if (path / IDENTITY).exists() and not (path / TABLE).is_dir():
        raise ValueError(f"the lake {path} has no table {TABLE.name}: run `lethe pipeline run` with --surveys first")
    table = path / TABLE if (path / TABLE).is_dir() else path
    _require_log(table)
    if (table / LOG).is_dir():
        return _files_of_log(table)
    files = sorted(
        file
        for file in table.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in file.relative_to(table).parts)
    )
    if not files and table == path:
        raise ValueError(f"{table} has no Parquet file, nor is it a lake with {TABLE}: run `lethe pipeline run` first")
    return files


def _require_log(table: Path) -> None:
    """Raise ValueError for a table of a lake whose tables have logs, if it has none: its files may be of any time."""
    lake = lake_of(table.resolve())
    if lake is None or not (lake / IDENTITY).exists() or (table / LOG).is_dir():
        return
    if has_logs((lake / IDENTITY).read_text(encoding="utf-8")):
        raise ValueError(_no_log(table))


def _files_of_log(table: Path) -> list[Path]:
    """Return the files that have the table's rows; its directory has files of earlier states too."""
    from lethe.adapters.table_logs import LogUnusable, paths_of

    try:
        names = paths_of(str(table))
    except LogUnusable as error:
        raise ValueError(str(error)) from error
    if names is None:
        raise ValueError(_no_log(table))
    return [table / name for name in names]


def _no_log(table: Path) -> str:
    return f"{table} has no log ({LOG}): put a copy of its directory back"


def _json_rows(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        where = f"{path}, line {number}"
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"{where} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"{where} is no object")
        yield where, row


def _csv_rows(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    """A file without the header line is truncated, not an empty table."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        try:
            if not reader.fieldnames:
                raise ValueError(f"{path} is empty: not even the columns' names are in it; export the table again")
            for row in reader:
                yield f"{path}, line {reader.line_num}", {name: value or None for name, value in row.items() if name}
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 ({error}): export the table again as UTF-8") from error
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {reader.line_num} is no CSV of a table ({error}): export the table again"
            ) from error


@dataclass(frozen=True, slots=True)
class _Row:
    where: str
    values: Mapping[str, object] = field(repr=False)

    def candidate(self) -> Candidate:
        name = self._value("topic", _text)
        if (problem := topic_name_problem(name)) is not None:
            raise ValueError(f"{self.where}: {problem}")
        return Candidate(
            name,
            self._optional("topic_id", _topic_id),
            self._value("partitions", _count),
            self._value("replicas", _count),
            self._value("size_bytes", _number),
            self._optional("segment_bytes", _number),
            self._value("is_empty", _truth),
            self._optional("last_write", _instant_ms),
            self._value("unwritten_days", _number),
            self._value("evidence", _text),
            self._value("created_at", _instant_ms),
            self._value("survey_id", _text),
            self._value("taken_at", _instant_ms),
        )

    def _value(self, column: str, decode: Callable[[object], T]) -> T:
        if column not in self.values:
            raise ValueError(f"{self.where}: there is no column {column!r}; is this the table {TABLE.name}?")
        found = self._optional(column, decode)
        if found is None:
            raise ValueError(f"{self.where}: {column!r} says nothing")
        return found

    def _optional(self, column: str, decode: Callable[[object], T]) -> T | None:
        value = self.values.get(column)
        if value is None:
            return None  # Spark writes no nulls into JSON
        try:
            return decode(value)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.where}: {column!r} is {str(value)[:60]!r}, which is no value of it") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _topic_id(value: object) -> TopicId:
    return topic_id_from_text(_text(value))


def _number(value: object) -> int:
    """Parse a non-negative number of 64 bits; CSV has it as text."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    number = int(value)
    if not 0 <= number < 2**63:
        raise ValueError
    return number


def _count(value: object) -> int:
    """Parse a positive number of 32 bits."""
    number = _number(value)
    if not 1 <= number < 2**31:
        raise ValueError
    return number


def _truth(value: object) -> bool:
    known = {True: True, False: False, "true": True, "false": False}
    if not isinstance(value, bool | str) or value not in known:
        raise ValueError
    return known[value]


def _instant_ms(value: object) -> int:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise ValueError
        return (value - _EPOCH) // datetime.timedelta(milliseconds=1)
    return time_from_text(_text(value))
