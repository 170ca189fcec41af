"""Streams for tests: journals that grow and are rotated, and ends in the middle.

    python -m tests.pipeline.streams LAKE JOURNAL DIES_AT

follows the journal until nothing is left, and kills its process group at the DIES_AT-th change of the file system; at
the end of the first micro-batch, before Spark has noted it, for -1; never for -2.
"""

from __future__ import annotations

import datetime
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from lethe.pipeline import session
from lethe.pipeline.io.files import FileSystem
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs.stream import BatchProgress, Stream, StreamOptions
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.tables import CONTROLLER_EVENTS
from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, JsonValue, decode, encode, time_from_text
from lethe.protocol.lake import IDENTITY
from tests.pipeline.conftest import SETTINGS

NOW: Final = datetime.datetime(2026, 1, 9, tzinfo=datetime.UTC)
START: Final = time_from_text("2026-01-05T23:00:00Z")
AT_THE_END: Final = -1
NEVER: Final = -2
PHASES: Final = ("queued", "started", "tombstoned", "done")


class Killed(Exception):
    """The process would be gone now."""


def killed() -> None:
    raise Killed


class Dying(FileSystem):
    """Ends at the n-th rename."""

    def __init__(self, spark: SparkSession, root: str, dies_at: int, end: Callable[[], None]) -> None:
        super().__init__(spark, root)
        self.left = dies_at
        self.end = end

    def rename(self, source: str, target: str) -> None:
        if self.left == 0:
            self.end()
        self.left -= 1
        super().rename(source, target)


def follow(
    spark: SparkSession,
    lake: Path,
    journal: Path,
    dies_at: int = NEVER,
    end: Callable[[], None] = killed,
    surveys: tuple[str, ...] = (),
    delay: datetime.timedelta = datetime.timedelta(days=7),
    max_files_per_day: int = 200,
    on_wait: Callable[[str], None] = lambda _: None,
) -> list[BatchProgress]:
    """Takes in what is there; what was told of each micro-batch."""
    told: list[BatchProgress] = []

    def tell(progress: BatchProgress) -> None:
        told.append(progress)
        if dies_at == AT_THE_END:
            end()

    files = Dying(spark, str(lake), dies_at, end)
    plan = StreamOptions((str(journal),), surveys, delay=delay, max_files_per_day=max_files_per_day)
    Stream(spark, Lake(spark, str(lake), files), plan, lambda: NOW, tell, on_wait).run()
    return told


class Growing:
    """Journals of a controller and a broker: `grow` appends, `rotate` removes files of which all is in bronze. All that
    was ever written stands in `archive`."""

    def __init__(self, root: Path) -> None:
        self.journal = root / "journal"
        self.archive = root / "archive"
        self.journal.mkdir()
        self.archive.mkdir()
        self._round = 0
        self._lines = 0

    def grow(self) -> None:
        """Goes on in the last files, with the rest of the line that was cut off there, and begins new ones."""
        self._round += 1
        number = self._round
        for name in ("controller-1", "broker-2"):
            if number > 1:
                self._append(f"{name}-{number - 1:08}.jsonl", self._some(name, number) + b"no journal line\n")
            self._append(f"{name}-{number:08}.jsonl", self._some(name, number) + self._cut_off())

    def rotate(self, lake: Path) -> list[str]:
        """The names of the files that were removed."""
        batches = LakeReader(str(lake)).batches(CONTROLLER_EVENTS, ["id"]) if (lake / IDENTITY).exists() else ()
        taken = {name for batch in batches for name in batch["id"].to_pylist()}
        removed = []
        for path in sorted(self.journal.iterdir()):
            entries = [decode(line) for line in path.read_bytes().splitlines()]
            is_closed = f"-{self._round:08}." not in path.name
            if is_closed and all(one.id in taken for one in entries if isinstance(one, JournalEntry)):
                path.unlink()
                removed.append(path.name)
        return removed

    def end_lines(self) -> None:
        """The lines that were cut off last get no more: the batch job sets them aside, the stream would wait."""
        for name in sorted(path.name for path in self.archive.iterdir()):
            if not (self.archive / name).read_bytes().endswith(b"\n"):
                self._append(name, b"\n")

    def restore(self) -> None:
        """All files as if nothing had ever been removed."""
        for path in self.archive.iterdir():
            (self.journal / path.name).write_bytes(path.read_bytes())

    def _append(self, name: str, content: bytes) -> None:
        for place in (self.journal, self.archive):
            with (place / name).open("ab") as file:
                file.write(content)

    def _some(self, name: str, number: int) -> bytes:
        """Two topics' phases, one that goes on in the next round, and one of the lines twice."""
        lines = []
        for topic, phase in ((f"t-{number}", 0), (f"t-{number}", 1), (f"t-{number - 1}", 3)):
            data: dict[str, JsonValue] = {"phase": PHASES[phase], "took_ms": 1, "topic_id": f"id-{topic}"}
            fact = EventRecord(
                EventRecordType.DELETION_PHASE, f"topic/{topic}", {**data, "partitions": 1, "replicas": 2}
            )
            lines.append(self._line("/lethe/controller/1", fact))
        moved: dict[str, JsonValue] = {"machine": "replica", "broker": 2, "partitions": "0", "before": "OFFLINE"}
        asked: dict[str, JsonValue] = {"broker": 2, "broker_epoch": 7, "request_id": 1, "partitions": "0"}
        for kind, data in (
            (EventRecordType.TRANSITION, {**moved, "after": "DELETION_STARTED"}),
            (EventRecordType.ACK, {**asked, "result": "NONE"}),
        ):
            fact = EventRecord(kind, f"topic/t-{number}", {**data, "topic_id": f"id-t-{number}"})
            lines.append(self._line("/lethe/controller/1", fact))
        elected: dict[str, JsonValue] = {"what": "elected", "epoch": number, "taken_from": None}
        lines.append(self._line("/lethe/controller/1", EventRecord(EventRecordType.ELECTION, "controller/1", elected)))
        freed: dict[str, JsonValue] = {"log_dir": "/d", "topic": f"t-{number - 1}", "partitions": "0", "directories": 1}
        sizes: dict[str, JsonValue] = {"size_bytes": 10, "files": 3, "error": None}
        fact = EventRecord(
            EventRecordType.BYTES_FREED, "broker/2", {**freed, **sizes, "topic_id": f"id-t-{number - 1}"}
        )
        lines.append(self._line(f"/lethe/{name.replace('-', '/')}", fact))
        return b"".join([*lines, lines[-1]])

    def _line(self, source: str, fact: EventRecord) -> bytes:
        self._lines += 1
        return encode(JournalEntry(f"a-{self._lines}", source, START + 400_000 * self._lines, fact))

    def _cut_off(self) -> bytes:
        return b'{"specversion":"1.0","id":"'


def main(lake: Path, journal: Path, dies_at: int) -> None:
    conf = {**SETTINGS, "spark.driver.memory": "600m"}
    spark = session.build_session("local[2]", conf, log=lake.with_name("spark.log"))
    follow(spark, lake, journal, dies_at, lambda: os.killpg(0, signal.SIGKILL))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
