"""Surveys of a running cluster, kept by `lethe survey --out`, and what the pipeline makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from cluster.local import LocalCluster
from pipeline import schemas, session
from pipeline.transforms.directories import directories
from pipeline.transforms.leftovers import leftovers
from protocol.survey_records import DIRECTORIES, METADATA, ZNODES, File
from tests.fakes.command_line import Lethe, Ran
from tests.fakes.survey_rows import frame


class SurveyTables(NamedTuple):
    """SURVEYS, ZNODE_SNAPSHOT, DIRECTORIES, LEFTOVERS."""

    surveys: DataFrame
    znodes: DataFrame
    directories: DataFrame
    leftovers: DataFrame


async def keep_survey(cluster: LocalCluster, directory: Path) -> tuple[Path, Ran]:
    """Looks at everything, the disks of this cluster included, and keeps it below the directory."""
    owned = (f"{broker}={path}" for broker, log_dirs in cluster.log_dirs.items() for path in log_dirs)
    options = (text for each in owned for text in ("--log-dir", each))
    ran = await Lethe(cluster.zookeeper_connect)("survey", "--out", str(directory), "--json", *options)
    kept = sorted(each for each in directory.iterdir() if not each.name.startswith("."))
    return kept[-1], ran


def tables_of(spark: SparkSession, kept: Path) -> SurveyTables:
    """What the pipeline makes of one kept survey."""

    manifest = json.loads((kept / "survey.json").read_text())
    day = date.fromisoformat(manifest["taken_at"][:10])

    def rows(file: File) -> list[dict[str, Any]]:
        return [json.loads(line) | {"day": day} for line in (kept / file.name).read_text().splitlines()]

    surveys = frame(spark, schemas.SURVEYS, [manifest | {"day": day}])
    znodes = frame(spark, schemas.ZNODE_SNAPSHOT, rows(ZNODES))
    metadata = frame(spark, schemas.BROKER_METADATA, rows(METADATA))
    seen = directories(frame(spark, schemas.AGENT_INVENTORY, rows(DIRECTORIES)))
    return SurveyTables(surveys, znodes, seen, leftovers(surveys, znodes, metadata, seen))


@contextmanager
def spark_session(log: Path) -> Iterator[SparkSession]:
    settings = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.memory": "1g",
    }
    spark = session.build("local[1]", settings, log=log)
    try:
        yield spark
    finally:
        spark.stop()
