"""On a cluster, rows have to arrive in the files that this process sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from lethe.pipeline.io import arrival
from lethe.pipeline.io.arrival import checked_arrival
from lethe.pipeline.io.files import FileSystemError


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session's executors count as those of other hosts."""
    monkeypatch.setattr(arrival, "is_local", lambda _: False)


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(0, 6, 1, 3).selectExpr("id", "id % 2 as day")


def write(frame: DataFrame, place: Path, *, lost: int = 0) -> None:
    """Append the rows; the last files are lost, as if executors had written them to another disk."""
    with checked_arrival(frame, f"file:{place}") as checked:
        before = set(place.rglob("*.parquet"))
        checked.write.mode("append").partitionBy("day").parquet(str(place))
        for file in sorted(set(place.rglob("*.parquet")) - before)[:lost]:
            file.unlink()


def test_rows_that_arrive_are_no_matter(frame: DataFrame, tmp_path: Path) -> None:
    for _ in range(2):
        write(frame, tmp_path / "lake")
    write(frame.where("id < 0"), tmp_path / "lake")


def test_rows_that_stay_elsewhere_are_an_error_with_the_remedy(frame: DataFrame, tmp_path: Path) -> None:
    write(frame, tmp_path / "lake")
    with pytest.raises(FileSystemError, match=r"executors wrote 6 rows to file:.*lake, and 5 arrived: on a cluster"):
        write(frame, tmp_path / "lake", lost=1)
    with pytest.raises(FileSystemError, match="6 rows to .* and 0 arrived"):
        write(frame, tmp_path / "other", lost=6)


def test_a_local_session_and_hdfs_are_not_counted(
    frame: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with checked_arrival(frame, "hdfs://namenode/lake") as checked:
        assert checked is frame
    monkeypatch.undo()
    write(frame, tmp_path / "lake", lost=2)
