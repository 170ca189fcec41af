"""A run over what lies in directories: read, sort out, make the tables of the days concerned anew."""

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
    """Takes in journals and surveys of these days and makes the tables anew that depend on them.

    `clock` tells the moment (with a zone) that the tables speak of, and is asked when nobody is waited for any more;
    `batch_id` tells the run from all others; `wishes` say which topics count as unused, and when a deletion is stuck,
    where that is not to be as the lake remembers it. Where another process writes to the lake, it is waited for so
    long. Raises NothingToRead, Locked, LakeUnusable, FileTrouble.
    """
    taken: list[Taken] = []
    refused: list[Refused] = []
    concerned: set[datetime.date] = set()
    # A place that was named and is not there is told before anything is written.
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
