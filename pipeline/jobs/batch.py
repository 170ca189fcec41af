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
from lethe.pipeline.jobs.refresh_audit import refresh_audit, unaudited_days
from lethe.pipeline.jobs.refresh_gold import apply_rule_changes
from lethe.pipeline.jobs.report import DayRange, IngestCounts, OnStage, RunReport, SurveyRefusal
from lethe.pipeline.jobs.rules import RuleChanges


def run(
    spark: SparkSession,
    lake: Lake,
    journals: Sequence[str],
    surveys: Sequence[str],
    days: DayRange,
    clock: Callable[[], datetime.datetime],
    *,
    batch_id: str,
    stage: OnStage = lambda _: None,
    rule_changes: RuleChanges = RuleChanges(),  # noqa: B008 -- it cannot be changed
    wait_s: float = 0.0,
) -> RunReport:
    """Ingest journals and surveys of these days, and recompute the tables that depend on them.

    `clock` returns the instant (with a zone) of the tables, read after the lock is acquired. `batch_id` is unique.
    `rule_changes` change the lake's rules for unused topics and stuck deletions. Waits at most `wait_s` seconds while
    another process writes to the lake. Raises InputNotFound, Locked, LakeUnusable, FileSystemError.
    """
    taken: list[IngestCounts] = []
    refused: list[SurveyRefusal] = []
    concerned: set[datetime.date] = set()
    # A named place that does not exist is reported before anything is written.
    journal_files(spark, journals)
    require_surveys(spark, surveys)
    with lake.writer(batch_id, wait_s, lambda who: stage(f"waiting: {who}")):
        now = clock()
        ingested_at = F.lit(now.astimezone(datetime.UTC).isoformat()).cast("timestamp")
        rules = apply_rule_changes(lake, rule_changes, now)
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
        owed = lake.pending_days()
        made = refresh(lake, concerned | set(owed), now, stage, rules)
        stage("auditing")
        violations = refresh_audit(lake, {*made.days, *unaudited_days(lake)})
        lake.remove_pending_days(owed)
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
