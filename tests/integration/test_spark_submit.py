"""`spark-submit` with the built wheel on a standalone cluster of two workers whose executors can run no Python."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyspark
import pytest

from benchmarks.pipeline.journal import write_journal
from lethe.admin.refusal import Exit
from lethe.cluster.spark import SparkCluster, SparkSettings
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.tables import TABLES
from tests.fakes.built import ROOT, built, outside

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(1800)]

GOLDEN: Final = ROOT / "tests" / "pipeline" / "golden" / "journal"
LINES: Final = 2000
"""Of the planted journal."""
OF_THE_RUN: Final = frozenset({"_ingested_at", "_batch_id"})
AS_OF: Final = ("--as-of", "2027-01-01T00:00:00Z")
QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONF: Final = {
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.executor.memory": "800m",
}
"""Three processes compile on the cores of one machine."""
OF_SUBMISSION: Final = {
    "spark.pyspark.driver.python": sys.executable,
    "spark.pyspark.python": "/nonexistent/python",
    "spark.driver.host": "127.0.0.1",
}
"""Executors that needed Lethe's code would need Python, which is not there."""


class Submitted:
    """Runs the wheel with `spark-submit`, from a directory that holds the wheel and the file to run."""

    def __init__(self, directory: Path, master: str) -> None:
        self._directory = directory
        self._master = master
        self._wheel = built(ROOT, directory / "dist", "wheel")
        with zipfile.ZipFile(self._wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("/lethe-spark.py"))
            (directory / "lethe-spark.py").write_bytes(archive.read(name))

    def run(self, *words: str | Path, conf: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        home = Path(pyspark.__file__).parent
        settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        command: list[str | Path] = [
            home / "bin" / "spark-submit",
            "--master",
            self._master,
            "--py-files",
            self._wheel,
            *settings,
        ]
        return subprocess.run(
            [*command, "lethe-spark.py", *words],
            cwd=self._directory,
            env=outside(SPARK_HOME=str(home)),
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submitted]:
    directory = tmp_path_factory.mktemp("submitted")
    with SparkCluster(directory / "cluster", SparkSettings(workers=2, memory_per_worker_mb=1024)) as spark:
        yield Submitted(directory, spark.master)


def rows(lake: Path) -> dict[str, list[str]]:
    """The rows of all tables, but for what differs from run to run."""
    reader = LakeReader(str(lake))
    found: dict[str, list[str]] = {}
    for table in TABLES.values():
        if reader.has(table):
            names = [name for name in table.schema.names if name not in OF_THE_RUN]
            read: list[dict[str, Any]] = [row for batch in reader.batches(table, names) for row in batch.to_pylist()]
            found[table.name] = sorted(map(repr, read))
    return found


def test_the_tables_are_those_of_one_process(submitted: Submitted, tmp_path: Path) -> None:
    write_journal(tmp_path / "planted", LINES, lines_per_day=LINES // 2, seed=6, processes=1)
    words = ("pipeline", "run", "--json", *AS_OF, "--journal", GOLDEN, "--journal", tmp_path / "planted")
    there = submitted.run(*words, "--lake", tmp_path / "there", conf={**CONF, **OF_SUBMISSION})
    here = subprocess.run(
        [sys.executable, "-m", "lethe", *words, "--lake", tmp_path / "here", "--master", "local[2]"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert there.returncode == here.returncode == Exit.NO, there.stderr + here.stderr
    counts = [json.loads(done.stdout)["taken"] for done in (there, here)]
    assert counts[0] == counts[1]
    found, wanted = rows(tmp_path / "there"), rows(tmp_path / "here")
    assert {"controller_events", "quarantine", "deletion_spans", "violations"} <= wanted.keys() == found.keys()
    for name, lines in wanted.items():
        assert found[name] == lines, name


def test_a_cluster_without_room_is_not_waited_for_without_end(submitted: Submitted, tmp_path: Path) -> None:
    words = ("pipeline", "run", "--wait", "3", "--journal", GOLDEN, "--lake", tmp_path / "lake")
    done = submitted.run(*words, conf={**CONF, **OF_SUBMISSION, "spark.executor.memory": "64g"})
    assert done.returncode == Exit.TIMED_OUT, done.stderr
    # spark-submit joins both outputs of the driver's Python.
    assert "has no executor for this application (spark.executor.memory=64g)" in done.stdout
    assert "for 3 s: start workers or end other applications, ask for less" in done.stdout
