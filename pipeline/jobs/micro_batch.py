"""One micro-batch of the stream: the same as a run of the batch job, for fewer lines.

Theory of operation. Spark repeats a micro-batch that was interrupted, with the same lines. They change two tables:
first `quarantine`, where lines are quarantined, and then `controller_events`, even if no line is new. Each change names
its batch, so a repeated batch makes only what is missing. The lake stores which days the tables still lack:
these are recomputed as a whole. Otherwise only the topics of the batch's lines are recomputed.

The watermark is `delay` before the newest line in bronze, or before now where a line claims to be of the future, and is
kept with the batch, so that a repeated batch judges as it did before. Earlier lines are quarantined as late, because
duplicates are searched only in the days since. Memory holds nothing from one batch to the next except the listing of
kept surveys.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lethe.pipeline.io.known_inputs import forget
from lethe.pipeline.io.lake import Lake, LakeUnusable
from lethe.pipeline.io.stream_commits import StreamNotes
from lethe.pipeline.io.table_log import Batch
from lethe.pipeline.io.tailing import survey_fingerprint
from lethe.pipeline.jobs.ingest import add_new_records, count_by_day
from lethe.pipeline.jobs.ingest_surveys import SurveyIngest, ingest_surveys
from lethe.pipeline.jobs.records import judge_anew, stage_lines
from lethe.pipeline.jobs.refresh import refresh
from lethe.pipeline.jobs.refresh_gold import apply_rule_changes, read_newest_surveys, refresh_stuck
from lethe.pipeline.jobs.report import Changes, DayRange
from lethe.pipeline.jobs.rules import RuleChanges
from lethe.pipeline.tables import CONTROLLER_EVENTS, QUARANTINE
from lethe.pipeline.transforms import bronze_events
from lethe.pipeline.transforms.contract import MIN_INSTANT_MS, Ingestion
from lethe.pipeline.transforms.lasting import is_lasting
from lethe.protocol.lake_rules import LakeRules

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS = datetime.timedelta(milliseconds=1)
_VACUUM_EVERY: Final = 60
"""Batches and refreshes: half an hour of them, if they come as often as a stream makes them by default."""


class LineCounts(NamedTuple):
    """Counts of the lines of a batch: new + duplicate + late + bad = read; all 0 for a repeated batch."""

    read: int = 0
    new: int = 0
    duplicate: int = 0
    late: int = 0
    """Quarantined, because they are from before the watermark."""
    bad: int = 0
    lost: int = 0
    """Ranges of bytes that were gone before they were read."""
    lasting: int = 0
    """Lines that the table of tenures is made of."""


class BatchResult(NamedTuple):
    """A completed micro-batch. `watermark` is the one with which it began; None before the first record."""

    batch: int
    counts: LineCounts
    surveys: int
    """New surveys."""
    refused: int
    """Refused surveys."""
    watermark: datetime.datetime | None
    days: list[datetime.date]
    """Days whose tables were recomputed."""


@dataclass(slots=True)
class MicroBatchRunner:
    """Runs one micro-batch after the other. `surveys` are places on a local disk."""

    spark: SparkSession
    lake: Lake
    stream_id: str
    surveys: list[str]
    delay: datetime.timedelta
    now: Callable[[], datetime.datetime]
    rule_changes: RuleChanges = RuleChanges()  # noqa: RUF009 -- it cannot be changed
    """Applied with the first change; from then on the lake's stored rules apply, also when they change."""
    max_files_per_day: int = 200
    _surveyed: str = field(default="")
    _turns: int = field(default=0)

    def run(self, lines: DataFrame, batch: int) -> BatchResult:
        """Ingest (value, file, position, lost) and recompute tables. Raises Locked, LakeUnusable, FileSystemError."""
        name = f"stream-{self.stream_id[:8]}-{batch:09}"
        notes = StreamNotes(self.lake.files, self.stream_id)
        now = self.now()
        with self.lake.writer(name):
            if batch and not notes.has_batches():
                raise LakeUnusable(
                    f"the lake {self.lake.root} knows nothing of this stream, whose checkpoint has come to batch "
                    f"{batch}: "
                    "it is of another lake, or this one was made anew; remove the checkpoint to read everything again"
                )
            judge_anew(self.lake, lambda _: None)
            owed_before, rules = self.lake.pending_days(), self._rules(now)
            watermark = _instant_of_ms(notes.begin(batch, _watermark_ms(newest_line_time(self.lake), now, self.delay)))
            ingestion = Ingestion(name, now)
            counts = LineCounts()
            this = Batch(self.stream_id, batch)
            if not (self.lake.has_batch(CONTROLLER_EVENTS, this) or notes.is_taken(batch)):
                counts = self._ingest(lines, this, watermark, ingestion)
            lined = self.lake.pending_days() if counts.new else []
            surveys = self._ingest_surveys(ingestion)
            changes = Changes(
                lined,
                surveys.new_days,
                F.col("_batch_id") == name,
                lasting=bool(counts.lasting),
                is_later=False,
            )
            days = self._refresh(None if owed_before else changes, now, rules)
            notes.remove_before(batch)
            self._compact(days)
            self._vacuum()
        new, refused = (surveys.counts[0].new if surveys.counts else 0), len(surveys.refused)
        return BatchResult(batch, counts, new, refused, watermark, days)

    def refresh_time_dependent(self) -> None:
        """Recompute what changes without new lines: a dead controller writes none, and its deletions become stuck.
        Raises as `run`."""
        with self.lake.writer(f"stream-{self.stream_id[:8]}-time"):
            now = self.now()
            refresh_stuck(self.lake, read_newest_surveys(self.lake, now), now, self._rules(now))
            self._vacuum()

    def _vacuum(self) -> None:
        if self._turns % _VACUUM_EVERY == 0:
            self.lake.vacuum()
        self._turns += 1

    def _rules(self, now: datetime.datetime) -> LakeRules:
        rules = apply_rule_changes(self.lake, self.rule_changes, now)
        self.rule_changes = RuleChanges()
        return rules

    def _ingest(
        self, lines: DataFrame, batch: Batch, watermark: datetime.datetime | None, ingestion: Ingestion
    ) -> LineCounts:
        lake = self.lake
        staged = stage_lines(
            lake,
            bronze_events.lines_of_ranges(lines),
            ingestion,
            watermark=None if watermark is None else F.lit(watermark.isoformat()).cast("timestamp"),
        )
        lasting = staged.read().where(is_lasting()).count()
        aside = staged.quarantined_by("type")
        if aside:
            # A run counts a file's quarantined lines anew when it reads the file.
            forget(lake, files=True)
            had, more = lake.read(QUARANTINE), bronze_events.quarantine_rows(staged.quarantined())
            if lake.has_batch(QUARANTINE, batch):
                # Files may have been lost since.
                more = more.join(had, ["_source_file", "line_hash"], "left_anti")
            if more.limit(1).count():
                lake.replace_table(QUARANTINE, bronze_events.add_quarantine_rows(had, more), batch)
        added = add_new_records(lake, staged, count_by_day(staged.rows_by_file()), batch)
        late, lost = aside.pop(bronze_events.LATE, 0), aside.pop(bronze_events.LOST, 0)
        bad = sum(aside.values())
        return LineCounts(added.read + late + bad, added.new, added.duplicate, late, bad, lost, lasting)

    def _ingest_surveys(self, ingestion: Ingestion) -> SurveyIngest:
        """Read nothing if the listing is unchanged."""
        state = survey_fingerprint(self.surveys)
        if not self.surveys or state == self._surveyed:
            return SurveyIngest([], [], [], [])
        found = ingest_surveys(self.spark, self.lake, self.surveys, DayRange(), ingestion)
        self._surveyed = state
        return found

    def _refresh(self, changes: Changes | None, now: datetime.datetime, rules: LakeRules) -> list[datetime.date]:
        """Recompute tables; without `changes`, those of the pending days. Return the days that were recomputed."""
        owed = self.lake.pending_days()
        days: list[datetime.date] = []
        if changes is None or changes.lined or changes.surveyed:
            forget(self.lake, files=False)
            days = refresh(self.lake, changes or Changes(owed, owed), now, lambda _: None, rules).days
        self.lake.remove_pending_days(owed)
        return days

    def _compact(self, days: list[datetime.date]) -> None:
        """Merge the small files that batches add, so that reading a day stays quick."""
        for day in days:
            if self.lake.count_files(CONTROLLER_EVENTS, day) > self.max_files_per_day:
                # A session for small inputs balances no partitions.
                rows = self.lake.read(CONTROLLER_EVENTS, [day]).coalesce(1)
                self.lake.replace_partitions(CONTROLLER_EVENTS, rows, [day])


def newest_line_time(lake: Lake) -> datetime.datetime | None:
    """Return the time of the newest record in bronze, which is in its last day."""
    days = lake.days(CONTROLLER_EVENTS)
    if not days:
        return None
    newest_ms = F.max(F.unix_millis("time"))
    return _instant_of_ms(lake.read(CONTROLLER_EVENTS, days[-1:]).agg(newest_ms).collect()[0][0])


def _watermark_ms(
    newest_line: datetime.datetime | None, now: datetime.datetime, delay: datetime.timedelta
) -> int | None:
    # A line may claim to be of the year 1, before which there is no watermark.
    return None if newest_line is None else max((min(newest_line, now) - _EPOCH - delay) // _MS, MIN_INSTANT_MS)


def _instant_of_ms(ms: int | None) -> datetime.datetime | None:
    return None if ms is None else _EPOCH + ms * _MS
