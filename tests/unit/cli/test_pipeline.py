"""`lethe pipeline` without Spark: options, refusals, and tables as they are shown."""

from __future__ import annotations

import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.cli import lake_options, pipeline
from lethe.pipeline.jobs.report import DayRange, IngestCounts, RunReport, SurveyRefusal
from lethe.pipeline.report.lake_reader import LakeUnreadable
from lethe.pipeline.tables import CONTROLLER_EVENTS, DAILY_RECLAIM, DELETION_SPANS, STUCK_NOW, TABLES
from tests.fakes.lakes import at, day_of, write
from tests.fakes.report_lake import BEGAN_MS, MS_PER_DAY, span

DAY = datetime.date(2026, 1, 5)


def test_days_and_moments_are_read_or_named() -> None:
    assert pipeline.days("2026-01-05", None) == DayRange(DAY, None)
    assert DAY in pipeline.days("2026-01-05", "2026-01-05")
    assert DAY not in pipeline.days("2026-01-06", None)
    assert DAY not in pipeline.days(None, "2026-01-04")
    for first, last, words in (("yesterday", None, "--from 'yesterday'"), ("2026-01-05", "2026-01-04", "is after")):
        with pytest.raises(ValueError, match=words):
            pipeline.days(first, last)
    for text in ("2026-01-05T01:00:00+01:00", "2026-01-04T19:00:00-05:00"):
        found = pipeline.moment(text)
        assert (found, found.date()) == (datetime.datetime(2026, 1, 5, tzinfo=datetime.UTC), DAY), "a day is of UTC"
    with pytest.raises(ValueError, match="write 2026-01-05T00:00:00Z"):
        pipeline.moment("2026-01-05T00:00:00")
    with pytest.raises(ValueError, match="write 2026-01-05T00:00:00Z for UTC"):
        pipeline.moment("2026-01-05")
    with pytest.raises(ValueError, match="no RFC 3339 time"):
        pipeline.moment("now")
    for text in ("0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-01:00"):
        with pytest.raises(ValueError, match="not of the years 1970 to 9998"):
            pipeline.moment(text)


def test_without_a_moment_now_goes_on() -> None:
    before = datetime.datetime.now(datetime.UTC)
    assert before <= pipeline.clock(None)() <= datetime.datetime.now(datetime.UTC)
    stopped = pipeline.clock("2026-01-05T00:00:00Z")
    assert stopped() == stopped() == datetime.datetime(2026, 1, 5, tzinfo=datetime.UTC)


def test_a_full_disk_is_no_fault_of_ours() -> None:
    refusal = lake_options.spark_trouble(
        RuntimeError("Job aborted\nCaused by: java.io.IOException: No space left on device")
    )
    assert refusal is not None
    assert (refusal.exit, "No space left on device; is there room?" in str(refusal)) == (Exit.UNREACHABLE, True)
    assert lake_options.spark_trouble(RuntimeError("[DIVIDE_BY_ZERO]")) is None


def test_a_file_that_may_not_be_read_is_named() -> None:
    refusal = lake_options.spark_trouble(
        RuntimeError("Job aborted\nCaused by: java.io.FileNotFoundException: /data/a journal.jsonl (Permission denied)")
    )
    assert str(refusal) == "Spark could not continue: it cannot open /data/a journal.jsonl: Permission denied"


def test_a_file_that_an_executor_does_not_see_is_named() -> None:
    refusal = lake_options.spark_trouble(
        RuntimeError(
            "Job aborted due to stage failure: org.apache.spark.SparkFileNotFoundException: [FAILED_READ_FILE.FILE_NOT_"
            "EXIST] Encountered error while reading file file:///data/a.b.jsonl. File does not exist. It is possible"
        )
    )
    assert refusal is not None
    assert refusal.exit is Exit.UNREACHABLE
    assert "no file:///data/a.b.jsonl is there for an executor" in str(refusal)
    assert "HDFS, or one mount under the same name" in str(refusal)


def test_a_damaged_file_of_a_table_is_named() -> None:
    refusal = lake_options.spark_trouble(
        RuntimeError(
            "An error occurred.\n: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while "
            "reading file file:///lake/gold/violations/day=2026-01-02/part-0.parquet.  SQLSTATE: KD001\n"
            "Caused by: java.lang.RuntimeException: file:/lake/... is not a Parquet file (length is too low: 5)"
        )
    )
    assert refusal is not None
    assert refusal.exit is Exit.UNREACHABLE
    assert "cannot read file:///lake/gold/violations/day=2026-01-02/part-0.parquet: put a copy" in str(refusal)


@pytest.mark.parametrize(
    "said",
    ["Job 3 cancelled because SparkContext was shut down", "Cannot call methods on a stopped SparkContext.\nThis"],
)
def test_an_application_that_the_cluster_ended_is_no_fault_of_ours(said: str) -> None:
    refusal = lake_options.spark_trouble(RuntimeError(said))
    assert refusal is not None
    assert refusal.exit is Exit.UNREACHABLE
    assert str(refusal).startswith("Spark has ended the application: look whether its master is there")


def test_a_lake_in_use_is_told_by_a_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from lethe.pipeline import session
    from lethe.pipeline.io import lake
    from lethe.pipeline.io.lock import Locked
    from lethe.pipeline.jobs import batch

    class Spark:
        sparkContext = SimpleNamespace(master="local[1]")  # noqa: N815 - Spark's name

        def stop(self) -> None:
            pass

    waited: list[float] = []

    def busy(*_: object, wait_s: float, **__: object) -> None:
        waited.append(wait_s)
        raise Locked("the lake is in use by process 7 on host (stream)", ": wait for it, or end it")

    monkeypatch.setattr(pipeline, "need_java", lambda: None)
    monkeypatch.setattr(session, "build_session", lambda *_, **__: Spark())
    monkeypatch.setattr(lake, "Lake", lambda *_: None)
    monkeypatch.setattr(batch, "run", busy)
    now = pipeline.clock("2026-01-05T00:00:00Z")
    with pytest.raises(Refusal, match=r"process 7 on host \(stream\).*waited for 2.5 s") as refusal:
        pipeline.run("lake", ["journal"], [], DayRange(), now, "local[1]", {}, True, wait_s=2.5)
    assert (refusal.value.exit, waited) == (Exit.BUSY, [2.5])


def test_where_nothing_is_new_spark_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    from lethe.pipeline import session
    from lethe.pipeline.jobs import unchanged

    report = RunReport("b", (IngestCounts("controller_events", 5, 0, 5, 0, 0),), (), (DAY,), errors=1)
    monkeypatch.setattr(unchanged, "look", lambda *_, **__: unchanged.Look(report))
    now = pipeline.clock(None)
    told = pipeline.run("/lake", ["journal"], [], DayRange(), now, "local[1]", {}, True)
    assert told.exit is Exit.NO, "as the run before said"
    assert told.lines[0].startswith("Lake /lake: days made anew: none;")
    with pytest.raises(session.FixedSetting):
        pipeline.run("/lake", ["journal"], [], DayRange(), now, "local[1]", {"spark.sql.caseSensitive": "false"}, True)


def test_settings_of_spark_are_read_or_named() -> None:
    assert lake_options.settings(["spark.a=b=c"]) == {"spark.a": "b=c"}
    for text in ("spark.a", "a=b"):
        with pytest.raises(ValueError, match="spark.KEY=VALUE"):
            lake_options.settings([text])


def test_a_run_over_nothing_is_refused() -> None:
    now = pipeline.clock(None)
    with pytest.raises(ValueError, match="name a journal"):
        pipeline.run("/nowhere", [], [], DayRange(), now, "local[1]", {}, quiet=True)


def test_what_a_run_did_is_told_and_decides_the_exit_code() -> None:
    taken = (IngestCounts("controller_events", 1005, 1000, 4, 2, 1),)
    refused = (SurveyRefusal("/surveys/x", "it is of another cluster"),)
    told = pipeline.answer(RunReport("b", taken, refused, (DAY,), {"stuck_now": 3}, (DAY,)), "/lake", 1.25)
    assert told.exit is Exit.OK
    assert told.lines == ("Lake /lake: days made anew: 2026-01-05 to 2026-01-05, 1 day; 1.2 s",)
    assert told.tables[0].rows == (("controller_events", "1,005", "1,000", "4", "2", "1"),)
    assert told.tables[2].rows == (("/surveys/x", "it is of another cluster"),)
    assert isinstance(told.data, dict)
    assert told.data["rows"] == {"stuck_now": 3}
    assert told.data["refused"] == [{"path": "/surveys/x", "why": "it is of another cluster"}], (
        "docs/pipeline.md says so"
    )
    assert told.tables[2].title == "Surveys that were left out: 1"
    broken = pipeline.answer(RunReport("b", (), (), (), errors=2), "/lake", 1.0)
    assert (broken.exit, broken.data["refused"]) == (Exit.NO, [])  # type: ignore[index, call-overload]
    assert "2 errors" in broken.lines[1]


def test_rows_are_shown_in_order_and_counted(tmp_path: Path) -> None:
    write(tmp_path, DAILY_RECLAIM, [{"broker": broker, "size_bytes": 10 * broker, "day": DAY} for broker in (3, 1, 2)])
    shown = pipeline.show("daily_reclaim", str(tmp_path), 2, None, None)
    assert shown.lines == ("daily_reclaim: 2 of 3 rows",)
    assert [row[0] for row in shown.tables[0].rows] == ["1", "2"]
    assert isinstance(shown.data, dict)
    assert shown.data["rows"] == [
        {**dict.fromkeys(DAILY_RECLAIM.schema.names), "broker": b, "size_bytes": 10 * b, "day": "2026-01-05"}
        for b in (1, 2)
    ]
    assert pipeline.show("daily_reclaim", str(tmp_path), 2, "2026-01-06", None).tables == ()
    assert pipeline.show(STUCK_NOW.name, str(tmp_path), 2, None, None).lines == ("stuck_now: 0 of 0 rows",)


def test_rows_about_a_topic_are_its_lines_of_the_journal_in_order(tmp_path: Path) -> None:
    subjects = ("topic/a.b", "topic/a.b-0", "topic/axb", "partition/a.b-0", "replica/a.b-12@3", "replica/a.b-x-1@3")
    rows = [
        {
            "source": "s",
            "id": str(9 - number),
            "time": at(BEGAN_MS + number),
            "subject": subject,
            "day": day_of(BEGAN_MS),
        }
        for number, subject in enumerate(subjects)
    ]
    write(tmp_path, CONTROLLER_EVENTS, rows[::-1])
    shown = pipeline.show("controller_events", str(tmp_path), 9, None, None, "a.b")
    assert [row[4] for row in shown.tables[0].rows] == ["topic/a.b", "partition/a.b-0", "replica/a.b-12@3"]
    later = BEGAN_MS + MS_PER_DAY
    spans = [
        span(number, ms, topic=topic)
        for number, (ms, topic) in enumerate(((later, "a"), (BEGAN_MS, "a"), (later, "b")))
    ]
    write(tmp_path, DELETION_SPANS, spans)
    shown = pipeline.show("deletion_spans", str(tmp_path), 9, None, None, "a")
    assert [row[1] for row in shown.tables[0].rows] == ["id-000001", "id-000000"]
    with pytest.raises(ValueError, match="daily_reclaim is not about topics"):
        pipeline.show("daily_reclaim", str(tmp_path), 9, None, None, "a")


def test_tables_are_listed_with_their_rows(tmp_path: Path) -> None:
    write(tmp_path, DAILY_RECLAIM, [{"broker": 1, "day": DAY}])
    (told,) = pipeline.list_tables(str(tmp_path)).tables
    assert [row[1] for row in told.rows] == list(TABLES)
    assert {row[1]: row[4] for row in told.rows}["daily_reclaim"] == "1"
    assert {row[1]: row[4] for row in told.rows}["stuck_now"] == ""


def test_what_cannot_be_shown_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no table 'x'; there are controller_events"):
        pipeline.show("x", str(tmp_path), 2, None, None)
    with pytest.raises(ValueError, match="not by days"):
        pipeline.show("stuck_now", str(tmp_path), 2, "2026-01-05", None)
    with pytest.raises(LakeUnreadable, match="no such directory"):
        pipeline.show("stuck_now", str(tmp_path / "nowhere"), 2, None, None)
    with pytest.raises(LakeUnreadable, match="there are no tables in it"):
        pipeline.show("stuck_now", str(tmp_path), 2, None, None)
    with pytest.raises(LakeUnreadable, match="there are no tables in it"):
        pipeline.list_tables(str(tmp_path))


def test_a_package_that_is_missing_is_named_with_the_extra() -> None:
    with pytest.raises(Refusal, match=r"pyspark is not installed.*lethe-kafka\[pipeline\]"), lake_options.the_extra():
        raise ModuleNotFoundError("no pyspark", name="pyspark.sql")
    with pytest.raises(ModuleNotFoundError), lake_options.the_extra():
        raise ModuleNotFoundError("a fault of ours", name="pipeline.nothing")


def test_a_missing_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Refusal, match="lethe pipeline needs Java 17") as refusal:
        lake_options.need_java()
    assert refusal.value.exit is Exit.USAGE
