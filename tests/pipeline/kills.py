"""Writers of a lake that are killed at random moments: `make pipeline-kills` (KILLS=40, SEED=1).

A journal grows, day by day, and a survey arrives. Whenever it has grown, two writers start at once, each a `lethe
pipeline run` or a `lethe pipeline stream --once`, and one or both are killed with their JVM (SIGKILL) at a moment that
the seed chooses. At the end of each day a run is left alone. At last every table must have the rows of an undisturbed
run over the whole journal. The exit code is 1 if one differs, if a writer ended otherwise than writers may, or if too
many ended before they were to be killed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.pipeline.journal import DAY_MS, FIRST_DAY_MS, write_journal
from benchmarks.pipeline.survey import write_survey
from benchmarks.rounds import Progress
from lethe.cluster.process import die_with_parent
from lethe.pipeline import tables
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.tables import DELETION_SPANS, QUARANTINE, Table

DAYS: Final = 5
LINES_PER_DAY: Final = 3_000
DIRECTORIES: Final = 2_000
SURVEY_DAY: Final = 2
PARTS_PER_KILL: Final = 3
"""In how many parts lines arrive for each writer that is to be killed: some end before their moment."""
LIMIT_S: Final = 600
"""For a writer that is left alone."""
DONE: Final = (0, 1)
"""Exit codes of a writer that has done its work; 1: the audit found what was planted."""
BUSY: Final = 5
"""Its exit code where another writer came first."""
_OF_THE_RUN: Final = {"_ingested_at", "_batch_id", "_source_file"}
"""Columns that say which run has read a row, and from which of two files with the same line."""


class Failed(Exception):
    """The lake or a writer is not as it must be; the message says how."""


class Source(NamedTuple):
    """What arrives, and where the writers look."""

    files: Path
    journal: Path
    surveys: Path

    def arrive(self, day: int, part: int = 0, parts: int = 1) -> None:
        """Let this part of that day's lines, and the survey of that day, come to where writers look."""
        for file in sorted((self.files / "journal").iterdir()):
            if int(file.stem.rpartition("-")[2]) // 100 == day:
                lines = file.read_bytes().splitlines(keepends=True)
                with (self.journal / file.name).open("ab") as grown:
                    grown.writelines(lines[len(lines) * part // parts : len(lines) * (part + 1) // parts])
        if day == SURVEY_DAY and part == 0:
            for kept in (self.files / "surveys").iterdir():
                shutil.copytree(kept, self.surveys / kept.name)


class Writer:
    """A process group that writes to the lake."""

    def __init__(self, kind: str, lake: Path, source: Source, output: Path) -> None:
        self.kind = kind
        self._output = output
        once = ["--once"] if kind == "stream" else ["--as-of", "2026-06-01T00:00:00Z"]
        command = [sys.executable, "-m", "lethe", "pipeline", kind, *once, "--master", "local[2]", "--lake", str(lake)]
        places = ["--journal", str(source.journal), "--surveys", str(source.surveys)]
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                die_with_parent([*command, *places]), stdout=file, stderr=file, start_new_session=True
            )

    def kill(self) -> bool:
        """Kill the group; return whether it was still alive. Raises Failed."""
        if self._process.poll() is not None:
            self._judge(is_alone=False)
            return False
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        return True

    def finish(self, *, is_alone: bool) -> None:
        """Wait for its end; one that is alone has to have done its work. Raises Failed."""
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{self.kind} did not end within {LIMIT_S} s") from error
        self._judge(is_alone=is_alone)

    def stop(self) -> None:
        """Kill the group, whatever it has come to."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _judge(self, *, is_alone: bool) -> None:
        if self._process.returncode not in (DONE if is_alone else (*DONE, BUSY)):
            said = self._output.read_text(errors="replace")[-2000:]
            raise Failed(f"{self.kind} ended with {self._process.returncode}, and said at last:\n{said}")


class Kills:
    """One lake whose writers are killed."""

    def __init__(self, work: Path, seed: int) -> None:
        self._work = work
        self._random = random.Random(seed)
        self.tell = Progress().tell
        self.killed = 0
        self._alive: list[Writer] = []

    def undisturbed(self, source: Source) -> tuple[Path, float]:
        """Return a lake of the whole journal, and how long its run took."""
        for day in range(DAYS):
            source.arrive(day)
        lake = self._work / "undisturbed"
        return lake, self._alone(lake, source)

    def disturbed(self, source: Source, kills: int, lasts_s: float) -> Path:
        """Return a lake that got the same, while its writers were killed so often in all. Raises Failed."""
        lake = self._work / "disturbed"
        parts = PARTS_PER_KILL * (kills // DAYS + 1)
        for day in range(DAYS):
            for part in range(parts):
                source.arrive(day, part, parts)
                if self.killed < kills * (day + 1) // DAYS:
                    self._pair(lake, source, lasts_s)
            lasts_s = self._alone(lake, source)
            self.tell(
                f"day {day + 1} of {DAYS}: {self.killed} of {kills} killed, and a run to its end in {lasts_s:.1f} s"
            )
        if self.killed < kills:
            raise Failed(f"only {self.killed} of {kills} writers lived until they were to be killed")
        return lake

    def _alone(self, lake: Path, source: Source) -> float:
        """Let a run do its work; return how long it took."""
        began_s = time.monotonic()
        self._start("run", lake, source).finish(is_alone=True)
        return time.monotonic() - began_s

    def _pair(self, lake: Path, source: Source, lasts_s: float) -> None:
        pair = [self._start(self._random.choice(("run", "stream")), lake, source) for _ in range(2)]
        self._random.shuffle(pair)
        is_both = self._random.random() < 0.5
        for writer in pair if is_both else pair[:1]:
            # A moment is what is tried here, not an event to wait for.
            time.sleep(self._random.uniform(0.3, lasts_s))
            self.killed += writer.kill()
        if not is_both:
            pair[1].finish(is_alone=False)

    def _start(self, kind: str, lake: Path, source: Source) -> Writer:
        self._alive = [one for one in self._alive if one._process.poll() is None]
        self._alive.append(Writer(kind, lake, source, self._work / "output"))
        return self._alive[-1]

    def stop(self) -> None:
        """Leave no writer behind."""
        for writer in self._alive:
            writer.stop()


def differences(lake: Path, expected: Path) -> list[str]:
    """Return a sentence for each table with other rows. Raises Failed where nothing is expected, so that nothing was
    compared."""
    if not _rows(expected, DELETION_SPANS):
        raise Failed(f"the undisturbed lake has no rows in {DELETION_SPANS.name}")
    found = []
    for table in tables.TABLES.values():
        ours, theirs = _rows(lake, table), _rows(expected, table)
        if ours != theirs:
            only, missing = set(ours) - set(theirs), set(theirs) - set(ours)
            example = next(iter([*sorted(only), *sorted(missing)]), "the same rows in other numbers")
            found.append(f"{table.name}: {len(only)} further, {len(missing)} missing, such as {example[:400]}")
    return found


def _rows(lake: Path, table: Table) -> list[str]:
    reader = LakeReader(str(lake))
    if not reader.has(table):
        return []
    left_out = _OF_THE_RUN - ({"_source_file"} if table is QUARANTINE else set())
    names = [name for name in table.schema.names if name not in left_out]
    return sorted(str(row) for batch in reader.batches(table, names) for row in batch.to_pylist())


def generate(work: Path, seed: int) -> Path:
    """Write the journal of all days, and a survey."""
    files = work / "files"
    write_journal(files / "journal", DAYS * LINES_PER_DAY, lines_per_day=LINES_PER_DAY, seed=seed, processes=1)
    (files / "surveys").mkdir()
    taken_at_ms = FIRST_DAY_MS + SURVEY_DAY * DAY_MS + DAY_MS // 2
    write_survey(files / "surveys", DIRECTORIES, taken_at_ms=taken_at_ms, seed=seed, processes=1)
    return files


def _source(files: Path, place: Path) -> Source:
    source = Source(files, place / "journal", place / "surveys")
    for directory in source[1:]:
        directory.mkdir(parents=True)
    return source


@contextlib.contextmanager
def _kills(work: Path, seed: int) -> Iterator[Kills]:
    kills = Kills(work, seed)
    try:
        yield kills
    finally:
        kills.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return 0 if every table is that of an undisturbed run."""
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline.kills", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="lethe-kills-") as place, _kills(Path(place), given.seed) as kills:
        work = Path(place)
        files = generate(work, given.seed)
        try:
            # Both look at the same paths, which stand in the tables.
            expected, lasts_s = kills.undisturbed(_source(files, work / "source"))
            shutil.rmtree(work / "source")
            kills.tell(f"an undisturbed run takes {lasts_s:.1f} s")
            lake = kills.disturbed(_source(files, work / "source"), given.kills, lasts_s)
            found = differences(lake, expected)
        except Failed as failed:
            kills.tell(f"seed {given.seed}, after {kills.killed} kills: {failed}")
            return 1
        for line in found:
            kills.tell(f"seed {given.seed}: {line}")
        kills.tell(f"{kills.killed} writers killed; {len(found)} of {len(tables.TABLES)} tables differ")
        return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
