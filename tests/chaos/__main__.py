"""`python -m tests.chaos`; exit code 0: no violation and residue 0, 1: something was found, 3: it cannot run here,
130: interrupted."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

from lethe.cluster.java import JavaUnusable, java_executable
from lethe.cluster.kafka_fetch import KafkaUnavailable, KafkaVersion, fetch_kafka
from tests.chaos.report import Report
from tests.chaos.run import Run
from tests.chaos.schedule import draw

CANNOT_RUN, INTERRUPTED = 3, 130
PLAIN_PROGRESS_S: Final = 15.0
"""Between two lines where standard error is no terminal."""


class Progress:
    """One line on a terminal that is written again and again; elsewhere a line now and then."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._said = 0.0

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if self._is_terminal:
            width = shutil.get_terminal_size().columns
            sys.stderr.write(f"\r\x1b[K{text[: width - 1]}")
        elif now - self._said > PLAIN_PROGRESS_S:
            sys.stderr.write(text + "\n")
            self._said = now
        sys.stderr.flush()

    def end(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")


def main(arguments: list[str] | None = None) -> int:
    """The exit code."""
    options = _parser().parse_args(arguments)
    seed = time.time_ns() % 1_000_000 if options.seed is None else options.seed
    # A shell that starts this in the background has SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        java_executable("chaos")
    except JavaUnusable as problem:
        sys.stderr.write(f"chaos: {problem}\n")
        return CANNOT_RUN
    try:
        kafka = fetch_kafka(options.kafka, _say)
    except KafkaUnavailable as problem:
        sys.stderr.write(f"chaos: {problem}\n")
        return CANNOT_RUN
    evidence: Path = options.out / f"seed-{seed}"
    # What clients in this process say of the faults is no part of the report.
    logging.disable(logging.CRITICAL)
    progress = Progress()
    directory = Path(tempfile.mkdtemp(prefix="lethe-chaos-"))
    run = Run(seed, options.minutes, kafka, directory, progress)
    try:
        report = asyncio.run(run.perform())
        _keep(evidence, run, report)
    except KeyboardInterrupt:
        sys.stderr.write("\nchaos: interrupted; everything that was started has been ended\n")
        return INTERRUPTED
    except BaseException:
        _keep(evidence, run, None)
        sys.stderr.write(f"\nchaos: the suite failed; see {evidence}\n")
        raise
    finally:
        progress.end()
        if options.keep:
            sys.stderr.write(f"chaos: the cluster's files are in {directory}\n")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    sys.stdout.write(report.as_json() + "\n" if options.json else report.as_text())
    return 0 if report.passed else 1


def _keep(evidence: Path, run: Run, report: Report | None) -> None:
    """Keep the schedule, the report and, unless all is well, every log and transaction."""
    shutil.rmtree(evidence, ignore_errors=True)
    evidence.mkdir(parents=True)
    schedule = [
        {**asdict(each), "target": each.target.value, "harm": each.harm.value}
        for each in draw(run.seed, run.minutes * 60)
    ]
    (evidence / "schedule.json").write_text(json.dumps(schedule, indent=1))
    (evidence / "notes.txt").write_text("".join(f"{line}\n" for line in run.notes))
    if report is not None:
        (evidence / "report.json").write_text(report.as_json())
    if report is None or not report.passed:
        for file in filter(_is_evidence, sorted(run.directory.rglob("*"))):
            target = evidence / file.relative_to(run.directory)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)


def _is_evidence(file: Path) -> bool:
    is_log = file.suffix in (".log", ".jsonl") or file.parent.name == "version-2"
    return is_log and file.is_file() and "/logs-" not in str(file) and "disk" not in file.parts


def _interrupt(number: int, frame: object) -> None:
    # asyncio cancels the main task at SIGINT, so that everything ends in good order.
    signal.raise_signal(signal.SIGINT)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _version(text: str) -> KafkaVersion:
    try:
        return KafkaVersion.parse(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults go on (default: 10)")
    parser.add_argument("--seed", type=int, help="replays the schedule of a run (default: a new one)")
    parser.add_argument("--kafka", type=_version, default="3.9.1", help="version of the Kafka brokers (default: 3.9.1)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--out", type=Path, default=Path("build/chaos"), help="where schedule, report and logs go")
    parser.add_argument("--keep", action="store_true", help="keep all files of the cluster")
    return parser


if __name__ == "__main__":
    sys.exit(main())
