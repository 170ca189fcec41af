"""One Spark session for all tests of the pipeline; tests/conftest.py keeps them in one test process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from lethe.pipeline import session

PARTITIONS: Final = os.environ.get("LETHE_SPARK_PARTITIONS", "1")
"""Of a shuffle. One is quickest; `make bench-pipeline` compares tables that were made with many."""

SETTINGS: Final = {
    "spark.sql.shuffle.partitions": PARTITIONS,
    "spark.default.parallelism": PARTITIONS,
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1500m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    "spark.sql.debug.maxToStringFields": "1",
    # Of queries over a few rows nearly all time goes into compiling what runs once.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.rdd.compress": "false",
}


TIMEOUT_S: Final = 1_800
"""A limit that strikes in the middle of a call into the JVM spoils the session for all tests after it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small session on two threads. Its log lies in pytest's temporary directory: spark*/spark.log."""
    directory: Path = tmp_path_factory.mktemp("spark")
    places = {
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.local.dir": str(directory / "scratch"),
    }
    built = session.build_session("local[2]", {**SETTINGS, **places}, log=directory / "spark.log")
    yield built
    built.stop()
