"""One micro-batch of the stream: the same as a run of the batch job, for fewer lines.

Theory of operation. Spark repeats a micro-batch that was interrupted, with the same lines. All results of its lines
(new rows, quarantined lines, the note that it was done) enter the lake in one change. A repeated batch finds either
nothing or the note, and then skips the lines. The lake stores which days the tables still lack: these are recomputed as
a whole. Otherwise only the topics of the batch's lines are recomputed.

The watermark is `delay` before the newest line in bronze, or before now where a line claims to be of the future, and is
kept with the batch, so that a repeated batch judges as it did before. Earlier lines are quarantined as late, because
duplicates are searched only in the days since. Memory holds nothing from one batch to the next except the listing of
kept surveys.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lethe.pipeline.io.following import survey_state
from lethe.pipeline.io.lake import Lake, LakeUnusable, StagedRows
from lethe.pipeline.io.stream_notes import StreamNotes
from lethe.pipeline.jobs.ingest import add_new
from lethe.pipeline.jobs.ingest_surveys import ingest_surveys
from lethe.pipeline.jobs.refresh import refresh
from lethe.pipeline.jobs.refresh_gold import keep_rules, refresh_stuck
from lethe.pipeline.jobs.report import DayRange, Only
from lethe.pipeline.jobs.rules import Rules, Wishes
from lethe.pipeline.tables import CONTROLLER_EVENTS, QUARANTINE, SURVEYS
from lethe.pipeline.transforms import bronze_events
from lethe.pipeline.transforms.contract import FIRST_MS
from lethe.pipeline.transforms.journal_lines import are_of_tenures

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS = datetime.timedelta(milliseconds=1)


class Counts(NamedTuple):
    """Counts of the lines of a batch: new + duplicate + late + bad = read; all 0 for a repeated batch."""

    read: int = 0
    new: int = 0
    duplicate: int = 0
    late: int = 0
    """Quarantined, because they are from before the watermark."""
    bad: int = 0
    lost: int = 0
    """Ranges of bytes that were gone before they were read."""
    of_tenures: int = 0
    """Lines that the table of tenures is made of."""


class Done(NamedTuple):
    """A micro-batch that is done. `watermark` is that with which it began; None before the first line."""

    batch: int
    counts: Counts
    surveys: int
    """New ones."""
    refused: int
    """Surveys that were left out."""
    watermark: datetime.datetime | None
    days: list[datetime.date]
    """Those whose tables were made anew."""


@dataclass(slots=True)
class MicroBatches:
    """Does one micro-batch after the other. `surveys` are places on a local disk."""

    spark: SparkSession
    lake: Lake
    stream_id: str
    surveys: list[str]
    delay: datetime.timedelta
    now: Callable[[], datetime.datetime]
    wishes: Wishes = Wishes()  # noqa: RUF009 -- it cannot be changed
    """Applied once, with the first change; from then on the lake's rules hold, also when they change."""
    most_files: int = 200
    _surveyed: str = field(default="")

    def do(self, lines: DataFrame, batch: int) -> Done:
        """Ingest (value, file, position, lost) and recompute tables. Raises Locked, LakeUnusable, FileTrouble."""
        name = f"stream-{self.stream_id[:8]}-{batch:09}"
        notes = StreamNotes(self.lake.files, self.stream_id)
        now = self.now()
        with self.lake.writer(name):
            if batch and not notes.is_known():
                raise LakeUnusable(
                    f"the lake {self.lake.root} knows nothing of this stream, whose checkpoint has come to batch "
                    f"{batch}: "
                    "it is of another lake, or this one was made anew; remove the checkpoint to read everything again"
                )
            owed_before, rules = self.lake.owed(), self._rules(now)
            watermark = _moment(notes.begin(batch, _ms(newest(self.lake), now, self.delay)))
            ingested_at = F.lit(now.astimezone(datetime.UTC).isoformat()).cast("timestamp")
            counts = Counts()
            if not notes.is_taken(batch):
                counts = self._ingest(lines, notes.taken(batch), watermark, ingested_at, name)
            surveys, refused = self._ingest_surveys(ingested_at, name)
            days = self._refresh(bool(owed_before), counts, surveys, now, name, rules)
            notes.forget_before(batch)
            self._compact(days)
        return Done(batch, counts, surveys, refused, watermark, days)

    def pass_time(self) -> None:
        """Recompute what changes without new lines: a dead controller writes none, and its deletions become stuck.
        Raises as `do`."""
        with self.lake.writer(f"stream-{self.stream_id[:8]}-time"):
            now = self.now()
            refresh_stuck(self.lake, now, self._rules(now))

    def _rules(self, now: datetime.datetime) -> Rules:
        rules = keep_rules(self.lake, self.wishes, now)
        self.wishes = Wishes()
        return rules

    def _ingest(
        self,
        lines: DataFrame,
        note: str,
        watermark: datetime.datetime | None,
        ingested_at: Column,
        name: str,
    ) -> Counts:
        lake = self.lake
        parsed = bronze_events.of_ranges(lines)
        if watermark is not None:
            parsed = bronze_events.late(parsed, F.lit(watermark.isoformat()).cast("timestamp"))
        staged = lake.staged(CONTROLLER_EVENTS, bronze_events.to_stage(parsed, ingested_at=ingested_at, batch_id=name))
        lake.owe(staged.days())
        aside = _by_type(staged.aside()) if staged.has_aside() else {}
        of_tenures = staged.read().where(are_of_tenures()).count()

        def together(kept: StagedRows) -> None:
            if aside:
                more = bronze_events.quarantine_rows(staged.aside())
                kept.with_whole(QUARANTINE, bronze_events.with_more(lake.read(QUARANTINE), more))
            kept.with_note(note)

        facts, new, _ = add_new(lake, staged, lake.days(CONTROLLER_EVENTS), together)
        late, lost = aside.pop(bronze_events.LATE, 0), aside.pop(bronze_events.LOST, 0)
        bad = sum(aside.values())
        return Counts(facts + late + bad, new, facts - new, late, bad, lost, of_tenures)

    def _ingest_surveys(self, ingested_at: Column, name: str) -> tuple[int, int]:
        """Return the numbers of new and refused surveys; read nothing if the listing is unchanged."""
        state = survey_state(self.surveys)
        if not self.surveys or state == self._surveyed:
            return 0, 0
        taken, refused, _ = ingest_surveys(
            self.spark, self.lake, self.surveys, DayRange(), ingested_at=ingested_at, batch_id=name
        )
        self._surveyed = state
        return taken[0].new, len(refused)

    def _refresh(
        self,
        was_interrupted: bool,
        counts: Counts,
        surveys: int,
        now: datetime.datetime,
        name: str,
        rules: Rules,
    ) -> list[datetime.date]:
        lake = self.lake
        owed = lake.owed()
        days: list[datetime.date] = []
        if was_interrupted:
            days = refresh(lake, owed, now, _quietly, rules).days
        elif counts.new or surveys:
            of_batch = F.col("_batch_id") == name
            surveyed = lake.read(SURVEYS, owed).where(of_batch).select("day").distinct().collect() if surveys else []
            only = Only(of_batch, [row["day"] for row in surveyed], bool(counts.of_tenures))
            days = refresh(lake, owed, now, _quietly, rules, only).days
        lake.settle(owed)
        return days

    def _compact(self, days: list[datetime.date]) -> None:
        """Merge the small files that batches add, so that reading a day stays quick."""
        for day in days:
            if self.lake.files_of(CONTROLLER_EVENTS, day) > self.most_files:
                self.lake.replace_partitions(CONTROLLER_EVENTS, self.lake.read(CONTROLLER_EVENTS, [day]), [day])


def _by_type(staged: DataFrame) -> dict[str, int]:
    """How many rows there are of each type."""
    return {row["type"]: int(row["count"]) for row in staged.groupBy("type").count().collect()}


def newest(lake: Lake) -> datetime.datetime | None:
    """The time of the newest line in bronze, from its last day alone."""
    days = lake.days(CONTROLLER_EVENTS)
    if not days:
        return None
    newest_ms = F.max(F.unix_millis("time"))
    return _moment(lake.read(CONTROLLER_EVENTS, days[-1:]).agg(newest_ms).collect()[0][0])


def _ms(newest_line: datetime.datetime | None, now: datetime.datetime, delay: datetime.timedelta) -> int | None:
    # A line may claim to be of the year 1, before which there is no watermark.
    return None if newest_line is None else max((min(newest_line, now) - _EPOCH - delay) // _MS, FIRST_MS)


def _moment(ms: int | None) -> datetime.datetime | None:
    return None if ms is None else _EPOCH + ms * _MS


def _quietly(_: str) -> None:
    """Ignore the stages of a micro-batch."""
