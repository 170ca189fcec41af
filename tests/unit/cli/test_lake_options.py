"""Commands that `spark-submit` has started: where Spark runs is decided, and so is where it logs."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.lake_options import end_of, need_java, spark_master
from lethe.cli.spark_log import spark_log
from lethe.pipeline.jobs.executors import NoExecutors


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


def test_without_spark_submit_all_cores_are_used_unless_said_otherwise() -> None:
    assert spark_master(None, []) == "local[*]"
    assert spark_master("yarn", ["spark.a=b"]) == "yarn"


@pytest.mark.usefixtures("submitted")
def test_options_of_spark_come_before_the_file() -> None:
    assert spark_master(None, []) is None
    for master, conf, named in (("yarn", [], "--master"), (None, ["spark.a=b"], "--conf"), ("yarn", ["x"], "--master")):
        with pytest.raises(ValueError, match=f"{named} is an option of spark-submit.*before the file"):
            spark_master(master, conf)


@pytest.mark.usefixtures("submitted")
def test_java_is_there() -> None:
    need_java()


@pytest.mark.usefixtures("submitted")
def test_the_log_is_that_of_spark_submit(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        with spark_log() as log:
            assert log is None
            raise RuntimeError("[DIVIDE_BY_ZERO]")

    with pytest.raises(RuntimeError, match="DIVIDE"):
        command()
    assert "what Spark said is in the driver's log" in capsys.readouterr().err


def test_a_cluster_without_executors_has_the_code_of_time_that_is_over() -> None:
    with pytest.raises(Refusal, match="no executor for 3 s") as raised, spark_log():
        raise NoExecutors("no executor for 3 s")
    assert raised.value.exit is Exit.TIMED_OUT


def test_a_state_is_that_of_a_day_that_is_over() -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    yesterday = today - datetime.timedelta(days=1)
    end = end_of(str(yesterday))
    assert end is not None
    assert (end.date(), end.hour, end_of(None)) == (yesterday, 23, None)
    for day in (today, datetime.date.max):
        with pytest.raises(ValueError, match=f"--state-of {day}: this day is not over"):
            end_of(str(day))
    with pytest.raises(ValueError, match="--state-of 'yesterday' is not a day"):
        end_of("yesterday")
