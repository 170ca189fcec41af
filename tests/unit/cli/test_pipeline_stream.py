"""`lethe pipeline stream` without Spark: options, refusals, and what is told of a batch."""

from __future__ import annotations

import datetime
import os
import signal
import threading

import pytest

from lethe.cli import pipeline_stream
from lethe.pipeline.jobs.micro_batch import BatchResult, LineCounts
from lethe.pipeline.jobs.stream import BatchProgress, KafkaTopic, StreamOptions

WATERMARK = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC)


def test_lengths_of_time_are_read_or_named() -> None:
    assert [pipeline_stream.seconds("--every", text) for text in ("30s", "5m", "12h", "7d")] == [30, 300, 43200, 604800]
    for text in ("30", "0s", "-1s", "1w", "1d "):
        with pytest.raises(ValueError, match=f"--every {text!r} is no length of time"):
            pipeline_stream.seconds("--every", text)


def test_a_stream_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="name a journal"):
        pipeline_stream.stream("/nowhere", StreamOptions(), "local[1]", {}, json_lines=False)


def test_a_batch_is_told_in_a_line_and_as_data() -> None:
    counts = LineCounts(read=1009, new=1000, duplicate=4, late=3, bad=2, lost=1)
    progress = BatchProgress(BatchResult(7, counts, 1, 0, WATERMARK, [WATERMARK.date()]), 1250, 2_500_000)
    assert pipeline_stream.in_words(progress) == (
        "batch 7: 1,000 new, 4 known or twice, 3 late, 2 quarantined, 1 ranges lost to rotation, 1 surveys, 2.5 MB "
        "behind  1.2 s  watermark 2026-01-05 12:00"
    )
    data = pipeline_stream.as_data(progress)
    assert data["watermark"] == "2026-01-05T12:00:00.000Z"
    assert (data["new"], data["days"], data["behind_bytes"]) == (1000, ["2026-01-05"], 2_500_000)
    nothing = BatchProgress(BatchResult(8, LineCounts(), 0, 0, None, []), 100, None)
    assert pipeline_stream.in_words(nothing) == "batch 8: nothing new  0.1 s"


def test_signals_end_it_and_are_then_somebody_elses_again() -> None:
    before = signal.getsignal(signal.SIGTERM)
    stopping = threading.Event()
    with pipeline_stream._ended_by_signals(stopping):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.wait(30)
    assert signal.getsignal(signal.SIGTERM) is before


def test_where_the_package_for_kafka_comes_from_is_said() -> None:
    assert pipeline_stream._package_words(StreamOptions()) == ""
    words = pipeline_stream._package_words(StreamOptions(kafka=KafkaTopic("localhost:9092", "t")))
    remedies = ("spark.jars.ivySettings=FILE", "spark.jars=A.jar,B.jar", "spark-sql-kafka-0-10_2.13:VERSION")
    assert all(each in words for each in (*remedies, "--journal DIR"))


def test_the_package_for_kafka_is_that_of_pyspark_unless_one_is_named() -> None:
    package = "org.apache.spark:spark-sql-kafka-0-10_2.13"
    packages, jars = "spark.jars.packages", "spark.jars"
    assert pipeline_stream.with_package({}, "4.3.0") == {packages: f"{package}:4.3.0"}
    assert pipeline_stream.with_package({packages: "a:b:1"}, "4.3.0") == {packages: f"a:b:1,{package}:4.3.0"}
    for named in ({packages: f"a:b:1,{package}:4.2.0"}, {jars: "/j/spark-sql-kafka-0-10_2.13-4.2.0.jar,/j/other.jar"}):
        assert pipeline_stream.with_package(named, "4.3.0") == named
    other = {jars: "/j/other.jar"}
    assert pipeline_stream.with_package(other, "4.3.0") == {**other, packages: f"{package}:4.3.0"}
