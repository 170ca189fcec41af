"""A run without Spark leaves the same table of stuck deletions as a run with Spark at that moment."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Final

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lethe.pipeline import tables
from lethe.pipeline.io.known_inputs import read_known
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs import batch
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.jobs.rules import RuleChanges
from lethe.pipeline.jobs.unchanged import RunInputs, look
from lethe.pipeline.report.lake_reader import LakeReader
from tests.pipeline.test_batch import FIRST, phase

pytestmark = pytest.mark.timeout(600)
FRESH: Final = datetime.datetime(2026, 1, 5, 23, 59, 30, 123456, tzinfo=datetime.UTC)
LATER: Final = datetime.datetime(2026, 1, 6, 0, 4, 30, 999_999, tzinfo=datetime.UTC)


@pytest.mark.slow
@pytest.mark.long
def test_the_table_is_that_of_a_run_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    journal, with_spark, without = tmp_path / "journal", tmp_path / "with", tmp_path / "without"
    journal.mkdir()
    (journal / "a.jsonl").write_bytes(b"".join([*FIRST, phase(3, "06T00:02:00", "queued", "users")]))

    def run(lake: Path, now: datetime.datetime) -> dict[str, int]:
        name = f"run-{now:%H%M}-{lake.name}"
        return batch.run(spark, Lake(spark, str(lake)), [str(journal)], [], DayRange(), lambda: now, batch_id=name).rows

    assert run(with_spark, FRESH) == {"stuck_now": 0}
    shutil.copytree(with_spark, without)
    assert run(with_spark, LATER) == {"stuck_now": 1}
    report = look(RunInputs(str(without), [str(journal)], [], DayRange(), RuleChanges()), LATER, batch_id="look").report
    assert report is not None
    assert report.rows == {"stuck_now": 1}
    for table in (tables.WAITING_DELETIONS, tables.STUCK_NOW):
        found, wanted = (LakeReader(str(lake)).table(table) for lake in (without, with_spark))
        assert found.sort_by("topic").equals(wanted.sort_by("topic"))
    found, wanted = (
        spark.read.parquet(*DeltaTable(lake / tables.STUCK_NOW.path).file_uris()) for lake in (without, with_spark)
    )
    assert found.schema.jsonValue() == wanted.schema.jsonValue()
    assert found.collect() == wanted.collect() == Lake(spark, str(without)).read(tables.STUCK_NOW).collect()
    assert read_known(Lake(spark, str(without))) == read_known(Lake(spark, str(with_spark)))
