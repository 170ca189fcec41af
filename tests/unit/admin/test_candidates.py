"""The table of stale topics, read from every form that it comes in, and refused where something is wrong with it."""

from __future__ import annotations

import csv
import datetime
import uuid
from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pyarrow.parquet
import pytest

from lethe.admin.candidates import TABLE, Candidate, read_candidates, read_cluster_id
from lethe.pipeline.io.table_log import TableFile, TableLog
from lethe.pipeline.tables import STALE_TOPIC_CANDIDATES
from lethe.protocol.lake import IDENTITY, encode_identity
from lethe.protocol.vocabulary import TopicId, topic_id_to_text

ID = TopicId(uuid.UUID(int=2**100 + 1))
WANTED = Candidate(
    "orders", ID, 3, 6, 700, 600, False, 1_700_000_000_123, 40, "mtime", 1_600_000_000_000, "s1", 1_800_000_000_000
)
INSTANTS = ("last_write", "created_at", "taken_at")


def instant(ms: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=ms)


def row(**changes: Any) -> dict[str, Any]:
    """As Spark writes it."""
    return {
        "topic": "orders",
        "topic_id": topic_id_to_text(ID),
        "partitions": 3,
        "replicas": 6,
        "size_bytes": 700,
        "segment_bytes": 600,
        "is_empty": False,
        "last_write": instant(1_700_000_000_123),
        "unwritten_days": 40,
        "evidence": "mtime",
        "created_at": instant(1_600_000_000_000),
        "survey_id": "s1",
        "taken_at": instant(1_800_000_000_000),
    } | changes


def as_text(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime.datetime) else value for name, value in values.items()
    }


def write_parquet(directory: Path, *rows: dict[str, Any]) -> Path:
    directory.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), directory / "part-0.zstd.parquet")
    return directory


def write_json(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_bytes(b"\n".join(orjson.dumps(as_text(each)) for each in rows))
    return path


def test_the_table_and_the_lake_that_it_is_in(tmp_path: Path) -> None:
    table = write_parquet(tmp_path / "lake" / TABLE, row(topic="z"), row())
    (table / "_temporary").mkdir()
    (table / "_temporary" / "part-1.parquet").write_bytes(b"half written")
    assert read_candidates(table)[0] == WANTED
    assert [each.topic for each in read_candidates(tmp_path / "lake")] == ["orders", "z"]
    assert len(read_candidates(table / "part-0.zstd.parquet")) == 2


def test_files_of_earlier_states_are_passed_over(tmp_path: Path) -> None:
    table = write_parquet(tmp_path / TABLE, row(topic="used-again"), row())
    (table / "part-0.zstd.parquet").rename(table / "part-1.zstd.parquet")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row()]), table / "part-2.zstd.parquet")
    log = TableLog(str(tmp_path), STALE_TOPIC_CANDIDATES)
    first, second = (TableFile(f"part-{number}.zstd.parquet", None, 1) for number in (1, 2))
    log.create([first])
    assert len(read_candidates(tmp_path)) == 2
    log.change([second], [first])
    assert read_candidates(table) == (WANTED,)
    assert read_candidates(table / second.path) == (WANTED,)
    with pytest.raises(ValueError, match="is not of the table any more: name the table"):
        read_candidates(table / first.path)
    log.change([], [second])
    assert read_candidates(tmp_path) == ()
    (table / "_delta_log" / f"{2:020}.json").write_text("damaged")
    with pytest.raises(ValueError, match="cannot read the log of the table"):
        read_candidates(tmp_path)
    (table / "_delta_log" / f"{2:020}.json").write_text("")
    with pytest.raises(ValueError, match="the last change of .* is empty"):
        read_candidates(tmp_path)


def test_a_table_that_lost_its_log_is_not_all_files(tmp_path: Path) -> None:
    table = write_parquet(tmp_path / TABLE, row())
    (tmp_path / IDENTITY).write_text('{"version": 1, "cluster_id": null}')
    for path in (tmp_path, table, table / "part-0.zstd.parquet"):
        assert read_candidates(path) == (WANTED,)
    (tmp_path / IDENTITY).write_text(encode_identity(None))
    for path in (tmp_path, table, table / "part-0.zstd.parquet"):
        with pytest.raises(ValueError, match=r"stale_topic_candidates has no log \(_delta_log\): put a copy"):
            read_candidates(path)
    (table / "_delta_log").mkdir()
    with pytest.raises(ValueError, match=r"stale_topic_candidates has no log \(_delta_log\): put a copy"):
        read_candidates(tmp_path)


def test_a_table_from_which_another_program_deleted_rows_is_refused(tmp_path: Path) -> None:
    table = write_parquet(tmp_path / TABLE, row(), row(topic="kept"))
    TableLog(str(tmp_path), STALE_TOPIC_CANDIDATES).create([TableFile("part-0.zstd.parquet", None, 1)])
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    (table / "_delta_log" / f"{1:020}.json").write_bytes(orjson.dumps(protocol))
    with pytest.raises(ValueError, match="another program has changed .*stale_topic_candidates"):
        read_candidates(tmp_path)


def test_exports(tmp_path: Path) -> None:
    assert read_candidates(write_json(tmp_path / "t.jsonl", row())) == (WANTED,)
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        values = as_text(row(is_empty="false", segment_bytes=None))
        writer = csv.DictWriter(file, values)
        writer.writeheader()
        writer.writerow(values)
    (found,) = read_candidates(path)
    assert found.segment_bytes is None
    assert (found.size_bytes, found.is_empty, found.taken_at_ms) == (700, False, 1_800_000_000_000)


def test_what_may_be_unknown(tmp_path: Path) -> None:
    unknown = row(topic_id=None, segment_bytes=None)
    del unknown["last_write"]
    (found,) = read_candidates(write_json(tmp_path / "t.jsonl", unknown))
    assert (found.topic_id, found.segment_bytes, found.last_write_ms) == (None, None, None)


@pytest.mark.parametrize(
    "changes,words",
    [
        ({"taken_at": None}, "line 1: 'taken_at' says nothing"),
        ({"topic": "../etc"}, "line 1: Topic name is invalid: '../etc' contains"),
        ({"topic_id": "short"}, "'topic_id' is 'short', which is no value of it"),
        ({"size_bytes": 1.5}, "'size_bytes' is '1.5'"),
        ({"size_bytes": -1}, "'size_bytes' is '-1', which is no value of it"),
        ({"size_bytes": "9" * 40}, "'size_bytes' is '999"),
        ({"segment_bytes": -1}, "'segment_bytes' is '-1'"),
        ({"partitions": 0}, "'partitions' is '0'"),
        ({"partitions": 2**31}, "'partitions' is '2147483648'"),
        ({"replicas": -3}, "'replicas' is '-3'"),
        ({"unwritten_days": -1}, "'unwritten_days' is '-1'"),
        ({"is_empty": "perhaps"}, "'is_empty' is 'perhaps'"),
        ({"created_at": "2026-01-01T00:00:00"}, "'created_at' is"),
    ],
)
def test_values_that_are_none(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as refused:
        read_candidates(write_json(tmp_path / "t.jsonl", row(**changes)))
    assert words in str(refused.value)
    assert str(tmp_path / "t.jsonl") in str(refused.value)


def test_files_that_are_no_table(tmp_path: Path) -> None:
    for name, content, words in (
        ("a.jsonl", b"{", "line 1 is not JSON"),
        ("b.jsonl", b"[]", "line 1 is no object"),
        ("c.jsonl", b'{"topic": "x"}', "there is no column 'partitions'"),
        ("d.parquet", b"PAR0", "is no Parquet file that can be read"),
        ("e.txt", b"", "neither a directory nor"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=words):
            read_candidates(tmp_path / name)
    with pytest.raises(ValueError, match="does not exist: give the lake"):
        read_candidates(tmp_path / "nowhere")
    (tmp_path / "lake" / TABLE).mkdir(parents=True)
    assert read_candidates(tmp_path / "lake") == (), "a run that found none"
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="run `lethe pipeline run` first"):
        read_candidates(tmp_path / "empty")


COLUMNS = ",".join(row()).encode() + b"\n"


@pytest.mark.parametrize(
    "content,words",
    [
        (b"", "t.csv is empty: not even the columns' names are in it; export the table again"),
        (
            COLUMNS + b"x" * 200_000 + b"," * 12,
            r"t.csv, line \d+ is no CSV of a table \(field larger .*export the table",
        ),
        (COLUMNS + b"\xe9" + b"," * 12, r"t.csv is not UTF-8 \(.*0xe9.*\): export the table again as UTF-8"),
    ],
)
def test_a_csv_that_is_damaged(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        read_candidates(tmp_path / "t.csv")


def test_a_csv_of_an_empty_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(COLUMNS)
    assert read_candidates(tmp_path / "t.csv") == ()


def test_two_rows_of_one_topic_are_no_table_of_one_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="names topic orders twice"):
        read_candidates(write_json(tmp_path / "t.jsonl", row(), row(survey_id="s2")))


def identify(root: Path, text: str) -> Path:
    (root / TABLE).mkdir(parents=True, exist_ok=True)
    (root / IDENTITY).write_text(text)
    return root


def test_the_cluster_of_the_lake_that_a_table_lies_in(tmp_path: Path) -> None:
    root = identify(tmp_path / "lake", encode_identity("c1"))
    for path in (root, root / TABLE, root / TABLE / "part-0.parquet"):
        assert read_cluster_id(path) == "c1"
    assert read_cluster_id(identify(tmp_path / "new", encode_identity(None))) is None
    assert read_cluster_id(tmp_path / "export.jsonl") is None
    (tmp_path / "copied" / TABLE).mkdir(parents=True)
    assert read_cluster_id(tmp_path / "copied" / TABLE) is None


@pytest.mark.parametrize(
    "text,words",
    [
        ('{"version": 9, "cluster_id": "c1"}', "a lake of version 9, and this program supports 2"),
        ('{"version": 1, "cluster_id": 7}', "its cluster_id is no text"),
        ("garbage", "says of no lake what it is"),
        ('{"cluster_id": "c1"}', "says of no lake what it is"),
        ("[]", "says of no lake what it is"),
    ],
)
def test_a_lake_that_is_not_understood(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_cluster_id(identify(tmp_path, text) / TABLE)


def test_a_lake_without_the_table(tmp_path: Path) -> None:
    (tmp_path / IDENTITY).write_text(encode_identity(None))
    other = tmp_path / "bronze" / "controller_events"
    other.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.table({"source": ["a"]}), other / "part-0.parquet")
    with pytest.raises(ValueError, match=r"has no table stale_topic_candidates: run .* with --surveys"):
        read_candidates(tmp_path)


def test_a_directory_that_only_looks_like_a_lake(tmp_path: Path) -> None:
    (tmp_path / TABLE).mkdir(parents=True)
    with pytest.raises(ValueError, match="is no lake: there is no lake.json in it"):
        read_cluster_id(tmp_path)
