"""What records say is in columns of their own, made once by the program that wrote the lake last."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType

from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs.records import NOTE, judge_anew, judged, stage_lines
from lethe.pipeline.schemas import SAID
from lethe.pipeline.tables import CONTROLLER_EVENTS, LASTING_EVENTS
from lethe.pipeline.transforms import bronze_events
from lethe.pipeline.transforms.contract import Ingestion
from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, encode
from lethe.protocol.journal_forms import KeyKind
from lethe.protocol.journal_schema import SCHEMAS
from tests.pipeline.golden_run import JOURNALS
from tests.pipeline.journals import Journal, events
from tests.pipeline.test_audit_forms import cases
from tests.pipeline.test_bronze_events import ODD

DAY: Final = datetime.date(2026, 1, 2)
RUN: Final = Ingestion("run", datetime.datetime(2026, 1, 3, tzinfo=datetime.UTC))


def said(spark: SparkSession, kind: str, **data: Any) -> dict[str, Any]:
    """What is kept of a record's data, without nulls."""
    journal = Journal()
    journal.line(0, "/lethe/controller/1001", kind, "topic/orders", **data)
    (row,) = events(spark, journal.lines).select("said").collect()
    return {name: value for name, value in row["said"].asDict().items() if value is not None}


def test_keys_have_the_types_of_their_columns(spark: SparkSession) -> None:
    assert said(spark, "deletion-phase", phase="queued", partitions=2, replicas=4, marked_at_ms=7) == {
        "phase": "queued",
        "partitions": "2",
        "partition_count": 2,
        "replica_count": 4,
        "marked_at_ms": 7,
    }
    assert said(spark, "ack", topic_id="x", replicas={"1-3": "0,2"}, result="NONE", more=[1]) == {
        "topic_id": "x",
        "result": "NONE",
        "replicas": [("1-3", "0,2")],
    }


@pytest.mark.parametrize("value", [None, "many", 1.5, [1], {"a": 1}, True, 2**63])
def test_a_number_that_is_none_is_not_said(spark: SparkSession, value: Any) -> None:
    data = dict.fromkeys(("broker", "epoch", "created_zxid", "size_bytes", "tenure_ms"), value)
    assert said(spark, "debt", **data) == {}


@pytest.mark.parametrize("value", [-1, 2**62])
def test_an_impossible_size_or_time_is_not_said(spark: SparkSession, value: int) -> None:
    assert said(spark, "bytes-freed", size_bytes=value, until_ms=value, created_zxid=value) == {"created_zxid": value}


@pytest.mark.parametrize("replicas", ["0-3", 4, [1], None])
def test_replicas_that_are_no_ranges_by_brokers_are_not_said(spark: SparkSession, replicas: Any) -> None:
    assert said(spark, "ack", replicas=replicas) == {}


def plain(spark: SparkSession, root: Path) -> list[str]:
    """The table, with the texts in which Python shows `said` and `flaws`."""
    return sorted(map(str, Lake(spark, str(root)).read(CONTROLLER_EVENTS).collect()))


def told() -> Journal:
    journal = Journal()
    journal.line(
        0, "/lethe/controller/1001", "deletion-phase", "topic/orders", phase="queued", partitions=2, replicas=4
    )
    journal.line(1, "/lethe/controller/1001", "deletion-phase", "topic/orders", phase=5)
    journal.broker(2, 3, "failed")
    return journal


def test_another_program_makes_anew_what_is_made_of_records(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, str(tmp_path))
    stages: list[str] = []
    with lake.writer("first"):
        judge_anew(lake, stages.append)
        lake.append(CONTROLLER_EVENTS, events(spark, told().lines))
    as_made = plain(spark, tmp_path)
    assert "known-form" in as_made[0] + as_made[1]
    # As a program has written it that knew neither column.
    table = tmp_path / CONTROLLER_EVENTS.path / f"day={DAY}"
    older = spark.read.parquet(str(table)).drop("said", "flaws").coalesce(1)
    older.write.parquet(str(tmp_path / "older"))
    (written,), (file,) = table.iterdir(), (tmp_path / "older").glob("*.parquet")
    file.rename(written)
    assert plain(spark, tmp_path) != as_made
    (tmp_path / NOTE).write_text(json.dumps({"program": "another"}))
    with lake.writer("second"):
        judge_anew(lake, stages.append)
    assert stages == ["judging all records anew, since another version of Lethe did it"]
    assert plain(spark, tmp_path) == as_made
    assert [row["subject"] for row in lake.read(LASTING_EVENTS).collect()] == ["broker/3"]
    with lake.writer("third"):
        judge_anew(lake, stages.append)
    assert len(stages) == 1, "it is done once"


GOLDEN: Final = [line for file in JOURNALS.glob("*.jsonl") for line in file.read_bytes().splitlines()]
SPOILT: Final = (
    *({"before": "ONLINE", "after": "NEW"}, {"partitions": "7-3"}, {"broker": "3"}, {"broker": 2**40}),
    *({"size_bytes": -1}, {"size_bytes": 1.0}, {"topic_id": 7}, {"topic_id": "ä"}, {"replicas": {"3-1": "0"}}),
    *({"took_ms": 1e999}, {"took_ms": 10**20}, {"more": [1]}),
)
TWICE: Final = (
    b'"topic_id":"first",',
    b'"topic_id":null,',
    b'"broker":7,',
    b'"broker":4294967296,',
    b'"partitions":"9","error":"FIRST",',
)


def spoilt() -> list[bytes]:
    """Golden lines of each type with another value."""
    by_type = {json.loads(line)["type"]: line for line in GOLDEN}
    documents = [json.loads(line) for line in by_type.values()]
    data = ({**document, "data": {**document["data"], **one}} for document in documents for one in SPOILT)
    return [json.dumps(one, separators=(",", ":"), ensure_ascii=False).encode() for one in data]


def of_every_form() -> list[bytes]:
    """Records of every form, whole and spoilt, each with texts that are escaped and with texts that are not."""
    usual = json.loads(GOLDEN[0])
    lines = []
    for number, case in enumerate(cases()):
        of_case = {"id": f"1-{number}", "type": f"lethe.{case.kind.value}", "subject": case.subject, "data": case.data}
        lines.append(json.dumps({**usual, **of_case}, separators=(",", ":")).encode())
    return [*lines, *(line.replace(rb"\"", b"") for line in lines)]


def doubled() -> list[bytes]:
    """Golden lines of each type with keys twice, of which the last ones count."""
    by_type = {json.loads(line)["type"]: line for line in GOLDEN}
    first = [line.replace(b'"data":{', b'"data":{' + one) for line in by_type.values() for one in TWICE]
    return [*first, *(line[:-2] + b"," + one[:-1] + b"}}" for line in by_type.values() for one in TWICE)]


def lines_of(spark: SparkSession, lines: list[bytes]) -> DataFrame:
    rows = [(bytearray(line), f"file:/{number}") for number, line in enumerate(lines)]
    frame = spark.createDataFrame(rows, "value binary, file string")
    return frame.select(F.col("value").cast("string").alias("value"), "file")


def test_lines_are_staged_as_they_are_parsed(spark: SparkSession, tmp_path: Path) -> None:
    lines = lines_of(spark, [*GOLDEN, *spoilt(), *doubled(), *ODD, *of_every_form()])
    parsed = judged(bronze_events.parse(lines), F.col("reason").isNull())
    wanted = bronze_events.with_staging_columns(parsed, RUN).drop("kept")
    lake = Lake(spark, str(tmp_path))
    with lake.writer("run"):
        staged = stage_lines(lake, lines, RUN)
        found = staged.read().unionByName(staged.quarantined().drop("kept"))
        # As texts, since Python has no time before the year 1 of its own zone.
        as_text = F.struct(*wanted.columns).cast("string").alias("row")
        rows = [sorted(row["row"] for row in frame.select(as_text).collect()) for frame in (found, wanted)]
    wrong = [pair for pair in zip(*rows, strict=True) if pair[0] != pair[1]]
    assert not wrong


def test_data_stays_as_it_is_written(spark: SparkSession, tmp_path: Path) -> None:
    texts = ('{"what":"ä","broker_epoch":6.30e2}', '{"what":"\\u00e4","broker_epoch":63}', '{"what":"a\x7f"}')
    documents = ({**json.loads(GOLDEN[0]), "id": f"1-{number}", "data": {}} for number in range(len(texts)))
    lines = [
        json.dumps(one, separators=(",", ":")).replace("{}", text).encode()
        for one, text in zip(documents, texts, strict=True)
    ]
    lake = Lake(spark, str(tmp_path))
    with lake.writer("run"):
        staged = stage_lines(lake, lines_of(spark, lines), RUN)
        assert {row["data"] for row in staged.read().collect()} == set(texts)


def first_step(spark: SparkSession, lines: list[bytes]) -> DataFrame:
    """The rows that are staged of these lines before any is parsed as a whole."""

    class Staged:
        rows: DataFrame

        def stage(self, _: object, rows: DataFrame, __: object) -> None:
            self.rows = rows

    lake = Staged()
    stage_lines(lake, lines_of(spark, lines), RUN)  # type: ignore[arg-type]
    return lake.rows


def test_what_is_written_is_recognised_without_parsing_it(spark: SparkSession) -> None:
    rows = first_step(spark, GOLDEN)
    undecided = {json.loads(row["data"])["type"] for row in rows.where("kept is null").collect()}
    assert rows.where("kept").count() > 0.9 * len(GOLDEN)
    # They have more keys than their forms.
    assert undecided <= {"lethe.broker", "lethe.election", "lethe.event"}


def test_a_large_number_in_a_text_is_none_of_the_data(spark: SparkSession) -> None:
    record = EventRecord(EventRecordType.REFUSAL, "topic/a", {"what": "DeleteTopics", "why": "failed at 1e999"})
    line = encode(JournalEntry("1-1", "/lethe/controller/1", 1767323045678, record)).rstrip()
    assert [row["kept"] for row in first_step(spark, [line]).collect()] == [True]


@pytest.mark.parametrize("more, jobs", [([], 1), ([b"nonsense"], 2)])
def test_only_lines_of_another_kind_need_a_second_job(
    spark: SparkSession, tmp_path: Path, more: list[bytes], jobs: int
) -> None:
    written = [line for line in GOLDEN if b'"lethe.deletion-phase"' in line]
    lake = Lake(spark, str(tmp_path))
    with lake.writer("run"):
        spark.sparkContext.setJobGroup(str(tmp_path), "staging")
        staged = stage_lines(lake, lines_of(spark, [*written, *more]), RUN)
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        done = spark.sparkContext.statusTracker().getJobIdsForGroup(str(tmp_path))
        assert (len(done), staged.read().count(), staged.has_quarantined()) == (jobs, len(written), bool(more))


def test_keys_with_columns_of_numbers_are_numbers_in_every_form() -> None:
    numbers = {field.name for field in SAID.fields if isinstance(field.dataType, IntegerType | LongType)}
    kinds = {
        key.kind for schema in SCHEMAS.values() for form in schema.forms for key in form.keys if key.name in numbers
    }
    assert kinds <= {KeyKind.COUNT, KeyKind.ID}
