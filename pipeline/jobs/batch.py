"""A batch run over directories: ingest, quarantine, and recompute the tables of the affected days."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lethe.pipeline.io.journal import journal_files
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.io.surveys import require_surveys
from lethe.pipeline.jobs.ingest import ingest_journal
from lethe.pipeline.jobs.ingest_surveys import ingest_surveys
from lethe.pipeline.jobs.refresh import refresh
from lethe.pipeline.jobs.refresh_audit import refresh_audit, unaudited
from lethe.pipeline.jobs.refresh_gold import keep_rules
from lethe.pipeline.jobs.report import DayRange, Refused, RunReport, Stage, Taken
from lethe.pipeline.jobs.rules import Wishes


def run(
    spark: SparkSession,
    lake: Lake,
    journals: Sequence[str],
    surveys: Sequence[str],
    days: DayRange,
    clock: Callable[[], datetime.datetime],
    *,
    batch_id: str,
    stage: Stage = lambda _: None,
    wishes: Wishes = Wishes(),  # noqa: B008 -- it cannot be changed
    wait_s: float = 0.0,
) -> RunReport:
    """Ingest journals and surveys of these days, and recompute the tables that depend on them.

    `clock` returns the instant (with a zone) of the tables, read after the lock is held; `batch_id` is unique; `wishes`
    change the lake's rules for unused topics and stuck deletions. Waits up to the limit while another process writes to
    the lake. Raises NothingToRead, Locked, LakeUnusable, FileTrouble.
    """
    taken: list[Taken] = []
    refused: list[Refused] = []
    concerned: set[datetime.date] = set()
    # A named place that does not exist is reported before anything is written.
    journal_files(spark, journals)
    require_surveys(spark, surveys)
    with lake.writer(batch_id, wait_s, lambda who: stage(f"waiting: {who}")):
        now = clock()
        ingested_at = F.lit(now.astimezone(datetime.UTC).isoformat()).cast("timestamp")
        rules = keep_rules(lake, wishes, now)
        if journals:
            stage("reading the journal")
            files = journal_files(spark, journals)
            counts, found = ingest_journal(spark, lake, files, days, ingested_at=ingested_at, batch_id=batch_id)
            taken.append(counts)
            concerned.update(found)
        if surveys:
            stage("reading surveys")
            all_counts, refused, found = ingest_surveys(
                spark, lake, surveys, days, ingested_at=ingested_at, batch_id=batch_id
            )
            taken += all_counts
            concerned.update(found)
        owed = lake.owed()
        made = refresh(lake, concerned | set(owed), now, stage, rules)
        stage("auditing")
        violations = refresh_audit(lake, {*made.days, *unaudited(lake)})
        lake.settle(owed)
    return RunReport(
        batch_id,
        tuple(taken),
        tuple(refused),
        tuple(made.days),
        made.rows,
        errors=violations.errors,
        warnings=violations.warnings,
        rules=rules,
    )
