"""Surveys of a running cluster, kept by `lethe survey --out`, and what `lethe pipeline run` makes of them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from pyarrow.dataset import dataset

from lethe.cluster.local import LocalCluster
from lethe.pipeline.tables import Table
from tests.fakes.command_line import Lethe, Ran

LIMIT_S = 900.0
"""Spark on a machine that is busy with something else."""


async def keep_survey(cluster: LocalCluster, directory: Path) -> Ran:
    """Looks at everything, the disks of this cluster included, and keeps it below the directory."""
    owned = (f"{broker}={path}" for broker, log_dirs in cluster.log_dirs.items() for path in log_dirs)
    options = (text for each in owned for text in ("--log-dir", each))
    return await Lethe(cluster.zookeeper_connect)("survey", "--out", str(directory), "--json", *options)


async def run_pipeline(surveys: Path, lake: Path, *options: str) -> None:
    """Makes the tables of all these surveys, in a process of its own."""
    arguments = ("pipeline", "run", "--lake", str(lake), "--surveys", str(surveys), "--master", "local[1]")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lethe", *arguments, "--conf", "spark.sql.shuffle.partitions=1", "--json", *options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert process.returncode == 0, (out.decode(), err.decode())


def rows_of(lake: Path, table: Table) -> list[dict[str, Any]]:
    """The table's rows, without Spark."""
    rows: list[dict[str, Any]] = dataset(lake / table.path, format="parquet").to_table().to_pylist()
    return rows
