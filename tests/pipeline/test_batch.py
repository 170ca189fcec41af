"""A run over journals and surveys: twice is once, late and doubled lines, a crash between any two steps."""

from __future__ import annotations

import datetime
import gzip
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from lethe.pipeline import tables
from lethe.pipeline.io.files import FileSystem
from lethe.pipeline.io.journal import InputNotFound
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.io.lock import Locked
from lethe.pipeline.io.surveys import require_surveys
from lethe.pipeline.jobs import batch
from lethe.pipeline.jobs.ingest_surveys import OTHER_CLUSTER
from lethe.pipeline.jobs.report import DayRange, RunReport
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.tables import Table
from lethe.pipeline.transforms.bronze_events import DAMAGED
from lethe.protocol.journal import (
    EventRecord,
    EventRecordType,
    JournalEntry,
    JsonValue,
    LineFlaw,
    encode,
    time_from_text,
)
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.survey_records import DIRECTORIES, MANIFEST, ZNODES
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from lethe.survey.keep import save_survey
from lethe.survey.views import (
    BrokerAnswers,
    BrokerFailure,
    Directory,
    LogDirSource,
    LogDirView,
    Survey,
    TopicTree,
    UnansweredQuestion,
    ZooKeeperTree,
)

NOW: Final = datetime.datetime(2026, 1, 9, tzinfo=datetime.UTC)
CLUSTER: Final = "c1"
ONE: Final = BrokerId(1)


def day(number: int) -> datetime.date:
    return datetime.date(2026, 1, number)


def phase(number: int, at: str, name: str, topic: str = "orders") -> bytes:
    data: dict[str, JsonValue] = {
        "phase": name,
        "took_ms": 1,
        "topic_id": f"id-of-{topic}",
        "partitions": 1,
        "replicas": 2,
    }
    fact = EventRecord(EventRecordType.DELETION_PHASE, f"topic/{topic}", data)
    return encode(JournalEntry(f"a-{number}", "/lethe/controller/1", time_from_text(f"2026-01-{at}Z"), fact))


def event(number: int, at: str, kind: EventRecordType, **data: JsonValue) -> bytes:
    fact = EventRecord(kind, "controller/1", data)
    return encode(JournalEntry(f"a-{number}", "/lethe/controller/1", time_from_text(f"2026-01-{at}Z"), fact))


JOURNAL: Final = "a journal"
"""Its name has a blank, which Spark writes otherwise."""
SURVEYS: Final = "kept surveys é%41"
FIRST: Final = [phase(1, "05T23:59:00", "queued"), phase(2, "05T23:59:01", "started")]
SECOND: Final = [phase(3, "06T00:00:10", "done"), phase(4, "06T08:00:00", "queued", "users")]


def run(spark: SparkSession, root: Path, days: DayRange | None = None, **places: Any) -> RunReport:
    lake = places.pop("lake", None) or Lake(spark, str(root / "lake"))
    journals = places.get("journals", [str(root / JOURNAL)] if (root / JOURNAL).exists() else [])
    surveys = places.get("surveys", [str(root / SURVEYS)] if (root / SURVEYS).exists() else [])
    run.count += 1  # type: ignore[attr-defined]
    name = f"run-{run.count:03}"  # type: ignore[attr-defined]
    return batch.run(spark, lake, journals, surveys, days or DayRange(), lambda: NOW, batch_id=name)


run.count = 0  # type: ignore[attr-defined]


def read(root: Path, table: Table) -> list[dict[str, Any]]:
    """All rows, as readers without Spark have them; none of a table that was not made."""
    lake = LakeReader(str(root / "lake"))
    if not lake.has(table):
        return []
    return [row for batch in lake.batches(table, table.schema.names) for row in batch.to_pylist()]


def rows(root: Path, table: Table) -> list[str]:
    """All rows but what says which run read them."""
    of_the_run = ("_ingested_at", "_batch_id")
    return sorted(str({name: row[name] for name in row if name not in of_the_run}) for row in read(root, table))


def everything(root: Path) -> dict[str, list[str]]:
    return {table.name: rows(root, table) for table in tables.TABLES.values()}


def spans(root: Path) -> dict[str, tuple[str, datetime.date]]:
    return {row["topic"]: (row["outcome"], row["day"]) for row in read(root, tables.DELETION_SPANS)}


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / JOURNAL
    path.mkdir()
    return path


@pytest.mark.slow
@pytest.mark.long
def test_the_same_days_twice_change_nothing(spark: SparkSession, tmp_path: Path, journal: Path) -> None:
    (journal / "controller-1-00000001.jsonl").write_bytes(b"".join(FIRST) + b'{"specversion":"1.')
    (journal / "controller-1-00000002.jsonl.gz").write_bytes(gzip.compress(b"".join(SECOND)))
    (journal / "cut off.jsonl.gz").write_bytes(gzip.compress(b"".join(SECOND))[:-40])
    (journal / "never.jsonl.gz").write_bytes(b"not compressed")
    (journal / "notes.txt").write_text("not a journal")
    report = run(spark, tmp_path)
    assert report.taken[0] == ("controller_events", 7, 4, 0, 0, 3)
    assert report.days == (day(5), day(6))
    assert spans(tmp_path) == {"orders": ("done", day(5)), "users": ("open", day(6))}
    aside = {Path(row["_source_file"]).name: row for row in read(tmp_path, tables.QUARANTINE)}
    assert {name: row["reason"] for name, row in aside.items()} == {
        "controller-1-00000001.jsonl": LineFlaw.CUT_OFF.value,
        "cut%20off.jsonl.gz": DAMAGED,
        "never.jsonl.gz": DAMAGED,
    }
    assert aside["cut%20off.jsonl.gz"]["detail"].startswith("java.io.EOFException")
    before = everything(tmp_path)
    assert all(before[table.name] for table in (tables.DELETION_SPANS, tables.STUCK_NOW, tables.VIOLATIONS))
    again = run(spark, tmp_path)
    assert again.taken[0] == ("controller_events", 7, 0, 4, 0, 3)
    assert sum(taken.new for taken in again.taken) == 0
    assert (again.days, again.errors) == (report.days, report.errors)
    assert everything(tmp_path) == before


@pytest.mark.slow
@pytest.mark.long
def test_a_deletion_goes_on_in_lines_that_are_taken_in_later(
    spark: SparkSession, tmp_path: Path, journal: Path
) -> None:
    file = journal / "controller-1-00000001.jsonl"
    file.write_bytes(b"".join([SECOND[0], FIRST[0], FIRST[1][:-20]]))
    clean = run(spark, tmp_path, DayRange(day(5), day(5)))
    assert clean.taken[0] == ("controller_events", 2, 1, 0, 0, 1), "the other day's line is left for another run"
    assert (clean.errors, clean.warnings, clean.days) == (0, 0, (day(5),))
    assert spans(tmp_path) == {"orders": ("open", day(5))}
    lake = Lake(spark, str(tmp_path / "lake"))
    assert day(5) in lake.audited()
    assert not lake.unaudited_days()
    assert not lake.days(tables.VIOLATIONS), "audited, and clean"
    file.write_bytes(b"".join([*FIRST, SECOND[0], SECOND[0]]))
    (journal / "copy-of-it.jsonl").write_bytes(b"".join(FIRST))
    report = run(spark, tmp_path)
    assert report.taken[0] == ("controller_events", 6, 2, 4, 0, 0)
    assert spans(tmp_path) == {"orders": ("done", day(5))}
    assert rows(tmp_path, tables.QUARANTINE) == [], "the line that was cut off is whole by now"
    assert report.errors == 1
    for old in journal.iterdir():
        old.unlink()
    (journal / "controller-1-00000009.jsonl").write_bytes(SECOND[1] + phase(5, "05T12:00:00", "queued", "late"))
    late = run(spark, tmp_path)
    assert (late.taken[0], late.errors) == (("controller_events", 2, 2, 0, 1, 0), 1)
    assert spans(tmp_path) == {
        "orders": ("done", day(5)),
        "users": ("open", day(6)),
        "late": ("open", day(5)),
    }
    (found,) = read(tmp_path, tables.VIOLATIONS)
    assert (found["rule"], found["subject"], found["day"]) == ("all-acknowledged", "topic/orders", day(6))
    assert {day(5), day(6)} <= set(lake.audited())


def test_what_is_not_there_is_named(spark: SparkSession, tmp_path: Path, journal: Path) -> None:
    with pytest.raises(InputNotFound, match="nowhere"):
        run(spark, tmp_path, journals=[str(tmp_path / "nowhere")])
    with pytest.raises(InputNotFound, match="nowhere"):
        run(spark, tmp_path, surveys=[str(tmp_path / "nowhere*")])
    assert run(spark, tmp_path, surveys=[str(journal)]).days == ()


def test_now_is_when_nobody_else_writes_any_more(spark: SparkSession, tmp_path: Path, journal: Path) -> None:
    (journal / "a.jsonl").write_bytes(b"".join(FIRST))
    root = str(tmp_path / "lake")

    def clock() -> datetime.datetime:
        with Lake(spark, root).writer("another"):
            return NOW

    with pytest.raises(Locked, match=r"in use by .*\(asking\)"):
        batch.run(spark, Lake(spark, root), [str(journal)], [], DayRange(), clock, batch_id="asking")


def test_places_are_looked_at_before_anything_is_written(spark: SparkSession, tmp_path: Path, journal: Path) -> None:
    log = journal / "controller.log"
    log.write_bytes(b"".join(FIRST))
    for place in (journal, log):
        with pytest.raises(InputNotFound, match=r"controller.log and what else is there is not \*.jsonl or"):
            run(spark, tmp_path, journals=[str(place)])
        with pytest.raises(InputNotFound, match=r"controller.log and what else is there has no survey.json"):
            run(spark, tmp_path, journals=[], surveys=[str(place)])
    (journal / "a.jsonl").write_bytes(b"".join(FIRST))
    with pytest.raises(InputNotFound, match="nowhere"):
        run(spark, tmp_path, surveys=[str(tmp_path / "nowhere")])
    assert not (tmp_path / "lake").exists()
    copied = tmp_path / SURVEYS / "20260106T090000.000Z"
    copied.mkdir(parents=True)
    require_surveys(spark, [str(tmp_path / SURVEYS)])
    (copied / ZNODES.name).write_text("")
    require_surveys(spark, [str(tmp_path / SURVEYS), str(copied)])


# --- crashes ------------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process is gone."""


class Dying(FileSystem):
    """Dies at the n-th change of the file system."""

    def __init__(self, spark: SparkSession, root: str, dies_at: int) -> None:
        super().__init__(spark, root)
        self.left = dies_at

    def rename(self, source: str, target: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash
        super().rename(source, target)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("step", [1, 4, 7])
def test_after_a_crash_another_run_has_it_all(spark: SparkSession, tmp_path: Path, journal: Path, step: int) -> None:
    file = journal / "a.jsonl"
    file.write_bytes(b"".join([*FIRST, *SECOND]) + b"{nonsense\n")
    root = str(tmp_path / "lake")
    with pytest.raises(Crash):
        run(spark, tmp_path, lake=Lake(spark, root, Dying(spark, root, step)))
    if step == 7:
        assert Lake(spark, root).pending_days() == [day(5), day(6)]
        file.unlink()
    run(spark, tmp_path)
    assert spans(tmp_path) == {"orders": ("done", day(5)), "users": ("open", day(6))}
    assert len(rows(tmp_path, tables.CONTROLLER_EVENTS)) == 4
    assert Lake(spark, root).pending_days() == []


# --- surveys ------------------------------------------------------------------------------------------------------


def keep_survey(
    place: Path, at: str, cluster: str | None = CLUSTER, directories: int = 2, *, is_silent: bool = False
) -> Path:
    """A survey of a cluster with one topic, and directories of it and of a topic that is no more. `is_silent`: broker 3
    does not answer."""
    found = tuple(
        Directory(f"{topic}-0", DirectoryKind.REPLICA, TopicPartition(topic, 0), 10, None, 1, 1_767_225_600_000)
        for topic in ("orders", "gone")[:directories]
    )
    log_dirs = (LogDirView(ONE, "/data", LogDirSource.LOCAL, found),)
    orders = TopicTree("orders", None, {0: ReplicaAssignment((1,))}, (0,), {0: LeaderAndIsr(1, 0, (1,), 1)})
    tree = ZooKeeperTree({"orders": orders}, brokers=(Broker(ONE, BrokerEpoch(7), ()),), cluster_id=cluster)
    answer = BrokerAnswers(ONE, {"orders": CachedTopic(None, (0,))}, ONE, log_dirs)
    silence = BrokerAnswers(BrokerId(3), unseen=(UnansweredQuestion(BrokerFailure.SILENT, "silent"),))
    answers = (answer, silence) if is_silent else (answer,)
    return save_survey(Survey(time_from_text(f"2026-01-{at}Z"), 5, tree, answers, log_dirs), place)


@pytest.mark.slow
@pytest.mark.long
def test_surveys_are_taken_in_once_or_refused_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / SURVEYS
    keep_survey(place, "05T09:00:00.000", is_silent=True).rename(place / "a copy [1] {b}")
    keep_survey(place, "06T09:00:00.000", cluster="another")
    (keep_survey(place, "07T09:00:00.000") / MANIFEST.name).write_text("{")
    with (keep_survey(place, "08T09:00:00.000") / ZNODES.name).open("rb+") as cut:
        cut.truncate(40)
    bad = keep_survey(place, "09T09:00:00.000") / DIRECTORIES.name
    lines = bad.read_bytes().splitlines()
    bad.write_bytes(b"\n".join([lines[0].replace(b'"broker":1', b'"broker":"1"'), *lines[1:]]))
    # Without its topic's row, the directory of a living topic would be of none.
    spoilt = keep_survey(place, "10T09:00:00.000") / ZNODES.name
    spoilt.write_bytes(spoilt.read_bytes().replace(b'"created_at":null', b'"created_at":"yesterday"', 1))
    nameless = keep_survey(place, "11T09:00:00.000") / ZNODES.name
    nameless.write_bytes(nameless.read_bytes().replace(b'"topic":"orders"', b'"topic":null', 1))
    another = keep_survey(place, "12T09:00:00.000") / ZNODES.name
    another.write_bytes(another.read_bytes().replace(b"20260112T", b"20260105T"))
    copy = keep_survey(tmp_path / "other-host", "05T09:00:00.000", directories=1)
    copy.rename(place / "same-id")
    (place / ".20260110T000000.000Z").mkdir()
    report = run(spark, tmp_path)
    why = " ".join(refused.why for refused in report.refused)
    assert len(report.refused) == 8
    for words in (
        *(OTHER_CLUSTER.format(survey="another", lake="c1"), "survey.json is not JSON", "znodes.jsonl has 1 row"),
        "1 of 3 rows of directories.jsonl cannot be used",
        "1 of 3 rows of znodes.jsonl cannot be used ('created_at' is not RFC 3339",
        "1 of 3 rows of znodes.jsonl cannot be used ('topic' is missing",
        *("rows of znodes.jsonl cannot be used (they are of another survey", "is another survey with the same id"),
    ):
        assert words in why, words
    of_one = {"surveys": 1, "znode_snapshot": 3, "broker_metadata": 3, "agent_inventory": 3, "leftovers": 1}
    assert {taken.table: taken.new for taken in report.taken} == of_one
    assert report.days == (day(5),)
    lake = Lake(spark, str(tmp_path / "lake"))
    assert lake.cluster_id == CLUSTER
    (survey,) = read(tmp_path, tables.SURVEYS)
    assert (survey["day"], survey["cluster_id"], survey["problems"][0]["what"]) == (day(5), CLUSTER, "silent")
    for table in (tables.SURVEYS, tables.ZNODE_SNAPSHOT, tables.BROKER_METADATA, tables.AGENT_INVENTORY):
        assert {one["survey_id"] for one in read(tmp_path, table)} == {"20260105T090000.000Z"}
    assert {one["what"] for one in read(tmp_path, tables.LEFTOVERS)} == {"/data/gone-0"}
    assert len(rows(tmp_path, tables.QUARANTINE)) == 4
    before = everything(tmp_path)

    for old in ("06", "08", "12"):
        shutil.rmtree(place / f"202601{old}T090000.000Z")
    keep_survey(place, "13T09:00:00.000", directories=1)
    later = run(spark, tmp_path)
    assert {taken.table: taken.new for taken in later.taken}["agent_inventory"] == 2
    assert len(later.refused) == 4, "and the copy with the same id is known by now"
    assert lake.days(tables.LEFTOVERS) == [day(5)]
    assert {day(5), day(13)} <= set(lake.audited())
    after = everything(tmp_path)
    assert before["agent_inventory"]
    assert all(set(before[name]) <= set(after[name]) for name in before if name != "stale_topic_candidates")
    assert after["quarantine"] == before["quarantine"]
