"""One run of the pipeline in its own process, measured: `python -m benchmarks.pipeline.job PLAN`.

PLAN is a JSON file with the inputs, the lake and Spark's settings. The result file beside it has the times of all
stages and the content of the tables. The run is the same as that of `lethe pipeline run`.
"""

from __future__ import annotations

import datetime
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lethe.pipeline import session, tables
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs import batch
from lethe.pipeline.jobs.report import DayRange
from lethe.pipeline.tables import Table

NOW: Final = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
_OF_THE_RUN: Final = ("_ingested_at", "_batch_id", "_source_file")
"""Columns that differ from run to run."""


def main(plan_file: Path) -> None:
    """Execute the plan."""
    plan = json.loads(plan_file.read_text())
    began_s = time.monotonic()
    stages: list[tuple[str, float]] = [("starting Spark", 0.0)]

    def stage(name: str) -> None:
        stages.append((name, time.monotonic() - began_s))
        print(f"{stages[-1][1]:8.1f} s  {name}", flush=True)

    spark = session.build_session(plan["master"], plan["conf"], log=Path(plan["log"]))
    try:
        lake = Lake(spark, plan["lake"])
        report = batch.run(
            spark, lake, plan["journals"], plan["surveys"], DayRange(), lambda: NOW, batch_id="benchmark", stage=stage
        )
        stage("done")
        result: dict[str, Any] = {
            "stages": stages,
            "taken": [taken._asdict() for taken in report.taken],
            "refused": [refused._asdict() for refused in report.refused],
            "errors": report.errors,
            "warnings": report.warnings,
            "days": len(report.days),
        }
        result["tables"] = {
            table.name: _table_facts(lake, table, with_digest=plan["digest"]) for table in lake.written_tables()
        }
        result["sums"] = sums(lake)
        plan_file.with_suffix(".result.json").write_text(json.dumps(result))
    finally:
        spark.stop()


def _table_facts(lake: Lake, table: Table, *, with_digest: bool) -> dict[str, Any]:
    """Return the number of rows, and a digest that does not depend on the order of rows and files."""
    frame = lake.read(table)
    if not with_digest:
        return {"rows": frame.count()}
    columns = [name for name in frame.columns if name not in _OF_THE_RUN]
    of_row = F.xxhash64(*(F.col(name) for name in columns))
    row = frame.agg(
        F.count(F.lit(1)).alias("rows"),
        F.sum(of_row.cast("decimal(38,0)")).alias("sum"),
        F.bit_xor(of_row).alias("xor"),
    ).collect()[0]
    return {"rows": row["rows"], "digest": f"{row['sum']}/{row['xor']}"}


def sums(lake: Lake) -> dict[str, dict[str, int]]:
    """Return numbers that can be compared with the planted ones."""
    spans = lake.read(tables.DELETION_SPANS)
    totals = spans.agg(
        *(
            F.coalesce(F.sum(name), F.lit(0)).alias(name)
            for name in ("acked_replicas", "freed_directories", "freed_bytes")
        )
    )
    return {
        "outcomes": _counted(spans, "outcome"),
        "totals": {key: int(value) for key, value in totals.collect()[0].asDict().items()},
        "leftovers": _counted(lake.read(tables.LEFTOVERS), "reason"),
        "violations": _counted(lake.read(tables.VIOLATIONS), "rule"),
    }


def _counted(frame: DataFrame, column: str) -> dict[str, int]:
    return {row[column]: row["count"] for row in frame.groupBy(column).count().collect()}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
