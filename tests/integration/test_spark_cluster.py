"""A standalone Spark cluster as child processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lethe.cluster.spark import SparkCluster, SparkSettings, SparkStartFailed

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_master_and_workers_come_and_go(tmp_path: Path) -> None:
    with SparkCluster(tmp_path, SparkSettings(workers=1, memory_per_worker_mb=512)) as spark:
        assert spark.master.startswith("spark://127.0.0.1:")
        pids = spark.pids
        assert len(pids) == 2
    assert not any(_is_alive(pid) for pid in pids)
    assert spark.pids == ()


def test_a_worker_that_cannot_start_is_told_of_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(SparkStartFailed, match=r"spark-worker-1 ended while starting; its output is in"):
        SparkCluster(tmp_path, SparkSettings(workers=1, memory_per_worker_mb=0)).__enter__()
