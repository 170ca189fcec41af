"""Ask the same of a cluster under Kafka's controller, of one under Lethe's, and of Lethe's agents; compare the answers.

python -m tests.judge [--only TEXT] [--sides lethe,agents] [--again] [--json] [--record] [--keep]

Exit code 1: a side answers otherwise without a listed reason, hangs, or a listed difference is gone; 3: it cannot run
here, or some steps were not run, as after Ctrl-C. `--only` plays the steps that have this in their name. `--record`
writes these rows into docs/judge.json and docs/judge.md.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from lethe.cli.progress import progress
from lethe.cluster.java import JavaUnusable
from lethe.cluster.kafka_fetch import KafkaUnavailable
from tests.judge.compare import unfound
from tests.judge.differences import DIFFERENCES
from tests.judge.java_steps import JavaSteps, prepare
from tests.judge.kept import KEPT, keep, kept
from tests.judge.run import Row, play, rows_of
from tests.judge.script import STEPS
from tests.judge.step import NotRun, Outcome, Side, Step
from tests.judge.table import as_json, failures, lines, record
from tools import docs

CANNOT_RUN: Final = 3


async def judged(
    steps: Sequence[Step], sides: Sequence[Side], java: JavaSteps, directory: Path, known: Sequence[Outcome]
) -> dict[Side, list[Outcome]]:
    """Play these steps on Kafka's side, unless its outcomes are `known`, then on the others. Ctrl-C ends it."""
    outcomes: dict[Side, list[Outcome]] = {side: [] for side in (Side.KAFKA, *sides)}
    outcomes[Side.KAFKA] += known
    to_play = [side for side in outcomes if not outcomes[side]]
    with progress("steps", len(steps) * len(to_play)) as show:

        def on_outcome(side: Side, outcome: Outcome) -> None:
            outcomes[side].append(outcome)
            show(sum(len(outcomes[each]) for each in to_play))

        try:
            for side in to_play:
                await play(side, steps, java, directory, partial(on_outcome, side))
        except asyncio.CancelledError:
            _say("judge: interrupted; what was not asked by now is not run")
    return outcomes


def completed(steps: Sequence[Step], outcomes: Mapping[Side, list[Outcome]]) -> list[Row]:
    """Compare what was asked; the rest was not run."""
    missing = NotRun("the judge was interrupted")
    filled = {side: [*said, *[missing] * (len(steps) - len(said))] for side, said in outcomes.items()}
    return rows_of(steps, filled, DIFFERENCES)


def main() -> int:
    options = _parser().parse_args()
    steps = [step for step in STEPS if options.only in step.name]
    known = kept(KEPT, steps) if options.again else []
    steps = steps[: len(known)] if options.again else steps
    if not steps:
        _say(f"judge: no such steps{', or none of them in ' + str(KEPT) if options.again else ''}")
        return CANNOT_RUN
    # What clients in this process say of steps that fail is no part of the answers.
    logging.disable(logging.CRITICAL)
    directory = Path(tempfile.mkdtemp(prefix="lethe-judge-"))
    try:
        java = prepare(directory, _say)
        outcomes = asyncio.run(judged(steps, options.sides, java, directory, known))
    except (JavaUnusable, KafkaUnavailable) as problem:
        _say(f"judge: {problem}")
        return CANNOT_RUN
    finally:
        if options.keep:
            _say(f"judge: the clusters' files are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    if not options.again:
        keep(KEPT, steps, outcomes[Side.KAFKA])
    rows = completed(steps, outcomes)
    sys.stdout.write(as_json(rows) if options.json else "\n".join(lines(rows)) + "\n")
    if options.record:
        record(rows, [step.name for step in STEPS])
        docs.write(next(page for page in docs.PAGES if page.path == "docs/judge.md"))
    return summary(steps, options.sides, rows)


def summary(steps: Sequence[Step], sides: Sequence[Side], rows: Sequence[Row]) -> int:
    """Tell how many steps failed or were not run; return the exit code."""
    failed = failures(rows)
    pairs = [(step, side, row.sides[side.value]) for step, row in zip(steps, rows, strict=True) for side in sides]
    gone = unfound(
        DIFFERENCES,
        [cell.reason for _, _, cell in pairs],
        [(step, side) for step, side, cell in pairs if cell.was_run],
    )
    for title in gone:
        _say(f"listed in tests/judge/differences.py and not found any more: {title}")
    left = sum(not cell.was_run for _, _, cell in pairs)
    _say(
        f"{len(rows)} steps on {len(sides)} sides: {len(failed)} answers differ from Kafka's for no listed reason; "
        f"not compared: {left}"
    )
    return 1 if failed or gone or not pairs else CANNOT_RUN if left else 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _sides(text: str) -> list[Side]:
    try:
        return [side for side in map(Side, text.split(",")) if side is not Side.KAFKA]
    except ValueError as problem:
        names = ", ".join(side.value for side in Side if side is not Side.KAFKA)
        raise argparse.ArgumentTypeError(f"{problem}: choose from {names}") from problem


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.judge", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="only steps that have this in their name")
    parser.add_argument("--sides", type=_sides, default="lethe,agents", help="what is compared with Kafka's controller")
    parser.add_argument(
        "--again", action="store_true", help=f"take Kafka's answers from {KEPT}, of the last run without it"
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--record", action="store_true", help="write docs/judge.json and docs/judge.md")
    parser.add_argument("--keep", action="store_true", help="keep the files of the clusters")
    return parser


if __name__ == "__main__":
    sys.exit(main())
