"""The table of stuck deletions, made anew without Spark, also by a process that is killed while it does."""

from __future__ import annotations

import datetime
import itertools
import json
import os
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from lethe.pipeline.io.files import FileSystemError
from lethe.pipeline.io.known_inputs import KnownFile, KnownInputs, read_known, write_known
from lethe.pipeline.io.lake_state import LakeState
from lethe.pipeline.io.local_files import LocalFiles
from lethe.pipeline.io.staging import WORK, discard_all
from lethe.pipeline.jobs.renew_stuck import renew_stuck_now
from lethe.pipeline.report.lake_reader import LakeReader, arrow_schema
from lethe.pipeline.tables import CONTROLLER_EVENTS, STUCK_NOW, WAITING_DELETIONS
from lethe.protocol.lake import IDENTITY, encode_identity
from tests.fakes.lakes import write

NOW: Final = datetime.datetime(2026, 1, 9, 12, tzinfo=datetime.UTC)
LATER: Final = NOW + datetime.timedelta(minutes=10)
KNOWN: Final = KnownInputs({"a": KnownFile("1", {"2026-01-05": 3}, 0)}, as_of=NOW.isoformat())


class DyingFiles(LocalFiles):
    """A local disk whose process dies before its change number `left`."""

    def __init__(self, root: str, left: int) -> None:
        super().__init__(root)
        self.left = left

    def _change(self) -> None:
        if not self.left:
            raise FileSystemError("the process has died")
        self.left -= 1

    def make_directory(self, path: str) -> None:
        self._change()
        super().make_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._change()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._change()
        super().remove(path)

    def write_text(self, path: str, text: str) -> None:
        self._change()
        super().write_text(path, text)


def lake_at(root: Path) -> Path:
    """A lake in which `orders` is stuck and `users` waits."""
    write(root, CONTROLLER_EVENTS, [{"day": datetime.date(2026, 1, 5)}])
    (root / IDENTITY).write_text(encode_identity(None))
    minute = datetime.timedelta(minutes=1)
    since = {"orders": NOW - 6 * minute, "users": NOW - minute}
    shared: dict[str, Any] = {"topic_id": "id", "span": 1, "reasons": ["a", "b"], "brokers": [3], "seen_in": "both"}
    rows = [{**shared, "topic": topic, "since": instant} for topic, instant in since.items()]
    write(root, WAITING_DELETIONS, rows, int96=False)
    write(root, STUCK_NOW, [{**rows[0], "waiting_ms": 360_000}], int96=False)
    write_known(LocalFiles(str(root)), KNOWN)
    return root


def renew(files: LocalFiles, now: datetime.datetime) -> int:
    return renew_stuck_now(LakeState(files), KNOWN, now=now, threshold_ms=300_000, name="run")


def waited(root: Path) -> dict[str, int]:
    rows = LakeReader(str(root)).table(STUCK_NOW).to_pylist()
    return {row["topic"]: row["waiting_ms"] for row in rows}


BEFORE: Final = ({"orders": 360_000}, NOW.isoformat())
UNKNOWN: Final = "a run with Spark reads all inputs"
AFTER: Final = ({"orders": 960_000, "users": 660_000}, LATER.isoformat())


def state(root: Path) -> tuple[dict[str, int], str]:
    """The table, and the moment that is noted."""
    known = read_known(LakeState(LocalFiles(str(root))))
    if known is None:
        return waited(root), UNKNOWN
    assert known.files == KNOWN.files
    return waited(root), known.as_of


def test_the_table_and_its_moment_change(tmp_path: Path) -> None:
    files = LocalFiles(str(lake_at(tmp_path)))
    assert renew(files, NOW) == 1
    assert state(tmp_path) == BEFORE
    assert len(list((tmp_path / STUCK_NOW.path).glob("*.parquet"))) == 1, "nothing was written"
    assert renew(files, LATER) == 2
    assert state(tmp_path) == AFTER


def test_a_lake_without_the_table_gets_it(tmp_path: Path) -> None:
    files = LocalFiles(str(lake_at(tmp_path)))
    files.remove(f"{files.root}/{STUCK_NOW.path}")
    assert renew(files, LATER) == 2
    assert state(tmp_path) == AFTER


def test_a_process_that_dies_leaves_one_state_or_the_other(tmp_path: Path) -> None:
    states = []
    for left in itertools.count():
        root = lake_at(tmp_path / str(left))
        try:
            renew(DyingFiles(str(root), left), LATER)
        except FileSystemError:
            discard_all(LocalFiles(str(root)))
            states.append(state(root))
            assert not list((root / WORK).glob("*"))
        else:
            break
    assert len(states) > 6
    expected = [BEFORE, (AFTER[0], BEFORE[1]), (AFTER[0], UNKNOWN), AFTER]
    assert sorted(states, key=expected.index) == states, "first the table, then its moment"
    assert {table["orders"] for table, _ in states} == {360_000, 960_000}


def test_the_file_has_the_types_that_spark_writes(tmp_path: Path) -> None:
    renew(LocalFiles(str(lake_at(tmp_path))), LATER)
    (file,) = (tmp_path / STUCK_NOW.path).glob("*.zstd.parquet")
    parquet = pq.ParquetFile(file)
    assert parquet.schema_arrow.equals(arrow_schema(STUCK_NOW.schema))
    columns = [parquet.schema.column(number) for number in range(len(STUCK_NOW.schema))]
    kinds = {column.path: (column.physical_type, str(column.logical_type)) for column in columns}
    assert kinds["reasons.list.element"][0] == "BYTE_ARRAY"
    assert kinds["since"][0] == "INT64"
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in kinds["since"][1]
    assert parquet.metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_table_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    root = lake_at(tmp_path)
    (file,) = (root / WAITING_DELETIONS.path).glob("*.parquet")
    file.write_bytes(b"damaged")
    with pytest.raises(ValueError, match="waiting_deletions cannot be read"):
        renew(LocalFiles(str(root)), LATER)
    assert state(root) == BEFORE


def test_files_of_earlier_moments_go(tmp_path: Path) -> None:
    root = lake_at(tmp_path)
    table = root / STUCK_NOW.path
    for minutes in range(1, 4):
        renew(LocalFiles(str(root)), NOW + datetime.timedelta(minutes=minutes))
    assert len(list(table.glob("*.parquet"))) == 4
    for change in (table / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in change.read_text().splitlines()]
        for removed in (action["remove"] for action in actions if "remove" in action):
            removed["deletionTimestamp"] = 0
        change.write_text("\n".join(map(json.dumps, actions)))
    for file in table.glob("*.parquet"):
        os.utime(file, (0, 0))
    renew(LocalFiles(str(root)), NOW + datetime.timedelta(minutes=4))
    assert len(list(table.glob("*.parquet"))) == 2, "this moment's, and the one of a moment ago"
