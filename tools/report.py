"""`make report`: a cluster with faults, the pipeline over what it wrote, and the page of it.

    python -m tools.report [--dir build/report] [--topics 200]

Makes DIR/cluster (journals and log directories), DIR/surveys, DIR/lake and DIR/report.html. DIR must be new or empty.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lethe.cli.demo_show import watching
from lethe.cluster.daemons import DaemonFailed
from lethe.cluster.demo import DemoFailed
from lethe.cluster.demo_plan import DemoOptions
from lethe.cluster.demo_report import run_report_demo
from lethe.cluster.java import JavaUnusable
from lethe.cluster.zookeeper import ZooKeeperStartFailed
from lethe.survey.keep import SaveFailed

STUCK: Final = ("--stuck-after", "2")
"""The demo does not wait for minutes until the topic that it leaves waiting counts as stuck."""
TITLE: Final = "The demo, with a broker and a controller killed"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: that of the first step that fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.report", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dir", type=Path, default=Path("build/report"), help="a new or empty directory")
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--limit", type=float, default=180.0, help="seconds that each stage of the demo may take")
    wanted = parser.parse_args(arguments)
    directory: Path = wanted.dir.resolve()
    options = DemoOptions(
        topics=wanted.topics,
        partitions=2,
        replication_factor=2,
        bytes_per_replica=16_384,
        work_dir=directory / "cluster",
        limit_s=wanted.limit,
        chaos=True,
    )
    try:
        with watching(quiet=False) as watcher:
            asyncio.run(run_report_demo(options, watcher, directory / "surveys"))
    except (DaemonFailed, DemoFailed, JavaUnusable, SaveFailed, ZooKeeperStartFailed, ValueError) as error:
        sys.stderr.write(f"make report: {error}\n")
        return 1
    return pipeline_and_page(directory)


def pipeline_and_page(directory: Path) -> int:
    """From what the demo has left there to the page."""
    lake, page = directory / "lake", directory / "report.html"
    journals = [str(path) for path in sorted(directory.glob("cluster/*/journal"))]
    places = [option for path in journals for option in ("--journal", path)]
    done = _lethe("pipeline", "run", "--lake", str(lake), *places, "--surveys", str(directory / "surveys"), *STUCK)
    # 1: the audit has found something, and the page says what.
    if done not in (0, 1):
        return done
    return _lethe("report", "--lake", str(lake), "--out", str(page), "--title", TITLE)


def _lethe(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "lethe", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
