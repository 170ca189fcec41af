"""Runs the pipeline in a child process, measures its memory, and compares its tables with the planted counts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.pipeline.planted import Planted
from benchmarks.pipeline.watch import MemoryWatch
from lethe.cluster.process import die_with_parent
from lethe.cluster.spark import SparkCluster, SparkSettings, SparkStartFailed

ROOT: Final = Path(__file__).parents[2]
Tell = Callable[[str], None]
_CLUSTER: Final = SparkSettings(workers=2, cores_per_worker=1, memory_per_worker_mb=2048)


class RunFailed(Exception):
    """A run of the pipeline did not finish."""


class Input(NamedTuple):
    """Generated files: `journal/`, and `surveys/` if there are any."""

    place: Path
    has_surveys: bool


def run_job(
    work: Path,
    found: Input,
    planted: Planted,
    tell: Tell,
    *,
    master: str = "local[2]",
    heap: str = "4g",
    also_watched: tuple[int, ...] = (),
    digest: bool = False,
    conf: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the measurements of one run: stages, memory, tables, and `wrong`: counts that differ from the planted
    ones. Raises RunFailed."""
    here = Path(tempfile.mkdtemp(prefix="run-", dir=work))
    plan_file = here / "plan.json"
    plan = {
        "master": master,
        "conf": {"spark.driver.memory": heap, "spark.local.dir": str(here / "scratch"), **(conf or {})},
        "log": str(here / "spark.log"),
        "lake": str(here / "lake"),
        "journals": [str(found.place / "journal")],
        "surveys": [str(found.place / "surveys")] if found.has_surveys else [],
        "digest": digest,
    }
    plan_file.write_text(json.dumps(plan))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        command = die_with_parent([sys.executable, "-m", "benchmarks.pipeline.job", str(plan_file)])
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
        with child, MemoryWatch(child.pid, *also_watched) as watch:
            try:
                for line in child.stdout or ():
                    tell(f"  {line.rstrip()}")
            except BaseException:
                child.terminate()
                raise
        if child.returncode:
            raise RunFailed(f"the run on {master} ended with {child.returncode}; Spark said at last:\n{_tail(here)}")
        result = json.loads(plan_file.with_suffix(".result.json").read_text())
    finally:
        shutil.rmtree(here, ignore_errors=True)
    seconds = result["stages"][-1][1]
    tell(f"  {seconds:.0f} s, {planted.lines / seconds:,.0f} lines a second, {watch.peak_bytes / 1e9:.1f} GB at most")
    return {
        "master": master,
        "lines": planted.lines,
        "directories": planted.directories,
        "size_bytes": planted.size_bytes,
        "seconds": seconds,
        "peak_bytes": watch.peak_bytes,
        **result,
        "wrong": wrong(result, planted),
    }


def run_on_cluster(work: Path, found: Input, planted: Planted, tell: Tell) -> dict[str, Any]:
    """Run the same input on local[2] and on a standalone cluster; `wrong` has the tables that differ."""
    with ExitStack() as stack:
        alone = run_job(work, found, planted, tell, digest=True)
        try:
            spark = stack.enter_context(SparkCluster(work / "cluster", _CLUSTER))
        except SparkStartFailed as error:
            raise RunFailed(str(error)) from error
        tell(f"{spark.master}: a master and {_CLUSTER.workers} workers")
        conf = {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "1500m",
        }
        there = run_job(
            work, found, planted, tell, master=spark.master, also_watched=spark.pids, digest=True, conf=conf, heap="1g"
        )
    one, other = alone["tables"], there["tables"]
    differ = [f"{name}: {one.get(name)} on local[2], {other.get(name)} on the cluster" for name in {**one, **other}]
    differ = [line for name, line in zip({**one, **other}, differ, strict=True) if one.get(name) != other.get(name)]
    return {**there, "local": alone, "wrong": [*alone["wrong"], *there["wrong"], *differ]}


def wrong(result: Mapping[str, Any], planted: Planted) -> list[str]:
    """Return every count that differs from the planted one."""
    said = expected(planted)
    got = observed(result)
    return [
        f"{planted.lines:,} lines: {name} is {got.get(name, 0):,} instead of {said.get(name, 0):,}"
        for name in {**said, **got}
        if got.get(name, 0) != said.get(name, 0)
    ]


def expected(planted: Planted) -> dict[str, int]:
    """Return the counts that the tables must have."""
    return {
        "controller_events": planted.lines,
        "duplicates": planted.repeated,
        "quarantine": planted.bad,
        "deletion_spans": planted.deletions,
        "replica_deletions": planted.replicas,
        "controller_tenures": planted.tenures,
        "done": planted.done,
        "let go": planted.let_go,
        "vanished": planted.vanished,
        "open": planted.open,
        "acked_replicas": planted.acked,
        "freed_directories": planted.freed_directories,
        "freed_bytes": planted.freed_bytes,
        "znode_snapshot": planted.znodes,
        "stale_topic_candidates": planted.unused,
        **{f"violations of {rule}": count for rule, count in planted.violations.items() if count},
        **{f"leftovers, {reason}": count for reason, count in planted.leftovers.items() if count},
    }


def observed(result: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts that the tables have."""
    rows = {name: facts["rows"] for name, facts in result["tables"].items()}
    names = ("controller_events", "quarantine", "deletion_spans", "replica_deletions", "controller_tenures")
    duplicates = sum(taken["duplicate"] for taken in result["taken"] if taken["table"] == "controller_events")
    sums = result["sums"]
    return {
        **{name: rows.get(name, 0) for name in (*names, "znode_snapshot", "stale_topic_candidates")},
        "duplicates": duplicates,
        **sums["outcomes"],
        **sums["totals"],
        **{f"violations of {rule}": count for rule, count in sums["violations"].items()},
        **{f"leftovers, {reason}": count for reason, count in sums["leftovers"].items()},
    }


def _tail(here: Path) -> str:
    log = here / "spark.log"
    return log.read_text(errors="replace")[-4000:] if log.exists() else "nothing"
