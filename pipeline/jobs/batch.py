"""A batch run over directories: ingest, quarantine, and recompute the tables of the affected days."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lethe.pipeline.io.journal import journal_files
from lethe.pipeline.io.known_inputs import (
    KnownFile,
    KnownInputs,
    KnownSurveys,
    read_known,
    still_there,
    survey_key,
    surveys_identity,
    write_known,
)
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.io.surveys import require_surveys
from lethe.pipeline.jobs.ingest import JournalIngest, ingest_journal
from lethe.pipeline.jobs.ingest_surveys import SurveyIngest, counts_of_known_surveys, ingest_surveys
from lethe.pipeline.jobs.records import judge_anew
from lethe.pipeline.jobs.refresh import refresh
from lethe.pipeline.jobs.refresh_audit import audit_changes, verdict
from lethe.pipeline.jobs.refresh_gold import apply_rule_changes
from lethe.pipeline.jobs.report import Changes, DayRange, IngestCounts, OnStage, RunReport, SurveyRefusal
from lethe.pipeline.jobs.rules import RuleChanges
from lethe.pipeline.tables import CONTROLLER_EVENTS, SURVEYS
from lethe.pipeline.transforms.contract import Ingestion


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
    """Ingest journals and surveys of these days, and recompute the tables that depend on what is new.

    `clock` returns the instant (with a zone) of the tables, read after the lock is acquired. `batch_id` is unique.
    `rule_changes` change the lake's rules for unused topics and stuck deletions. Waits at most `wait_s` seconds while
    another process writes to the lake. Raises InputNotFound, Locked, LakeUnusable, FileSystemError.
    """

    def begin(what: str) -> None:
        spark.sparkContext.setJobDescription(f"lethe: {what}")
        stage(what)

    # A named place that does not exist is reported before anything is written.
    journal_files(spark, journals)
    require_surveys(spark, surveys)
    with lake.writer(batch_id, wait_s, lambda who: stage(f"waiting: {who}")):
        now = clock()
        judge_anew(lake, begin)
        ingestion = Ingestion(batch_id, now)
        rules = apply_rule_changes(lake, rule_changes, now)
        owed, noted = set(lake.pending_days()), read_known(lake)
        known = noted or KnownInputs()
        read = _InputsRead()
        is_whole = days == DayRange()
        if journals:
            begin("reading the journal")
            files = journal_files(spark, journals)
            read.add_journal(ingest_journal(spark, lake, files, days, ingestion, known.files))
        lined = set(lake.pending_days())
        if surveys:
            begin("reading surveys")
            key, fingerprint = survey_key(surveys), surveys_identity(surveys) if is_whole else None
            if fingerprint is not None and key in known.surveys and known.surveys[key].fingerprint == fingerprint:
                read.add_known_surveys(known.surveys[key])
            else:
                read.add_surveys(key, fingerprint, ingest_surveys(spark, lake, surveys, days, ingestion))
        pending = set(lake.pending_days())
        changes = Changes(lined, read.surveyed, F.col("_batch_id") == batch_id)
        if owed or noted is None:
            known_days = {*lake.days(CONTROLLER_EVENTS), *lake.days(SURVEYS)} if is_whole else read.days
            every = pending | known_days if noted is None else pending
            changes = Changes(every, every)
        made = refresh(lake, changes, now, begin, rules)
        audited = audit_changes(lake, made.of_journal, changes.surveyed, begin)
        lake.remove_pending_days(pending)
        lake.vacuum()
        if is_whole or noted is not None:
            write_known(lake.files, read.noted(known, now))
        of_run = {*read.days, *made.days}
        violations = verdict(lake, {*of_run, *audited})
    return RunReport(
        batch_id,
        tuple(read.counts),
        tuple(read.refused),
        tuple(sorted(of_run)),
        made.rows,
        tuple(made.days),
        errors=violations.errors,
        warnings=violations.warnings,
        rules=rules,
    )


@dataclass(slots=True)
class _InputsRead:
    """What a run has read, or knows already."""

    counts: list[IngestCounts] = field(default_factory=list)
    refused: list[SurveyRefusal] = field(default_factory=list)
    days: set[datetime.date] = field(default_factory=set)
    files: dict[str, KnownFile] = field(default_factory=dict)
    surveys: dict[str, KnownSurveys | None] = field(default_factory=dict)
    """None: of these places not all surveys are ingested."""
    surveyed: list[datetime.date] = field(default_factory=list)
    """Days of new surveys."""

    def add_journal(self, found: JournalIngest) -> None:
        self.counts.append(found.counts)
        self.days.update(found.days)
        self.files |= found.known

    def add_surveys(self, key: str, fingerprint: str | None, found: SurveyIngest) -> None:
        self.counts += found.counts
        self.refused += found.refused
        self.days.update(found.days)
        self.surveyed += found.new_days
        self.surveys[key] = None
        if fingerprint is not None and not found.refused:
            whole = found.counts[0]
            known = KnownSurveys(fingerprint, whole.read, whole.new + whole.duplicate, tuple(map(str, found.days)))
            self.surveys[key] = known

    def add_known_surveys(self, known: KnownSurveys) -> None:
        self.counts += counts_of_known_surveys(known)
        self.days.update(map(datetime.date.fromisoformat, known.days))

    def noted(self, before: KnownInputs, now: datetime.datetime) -> KnownInputs:
        """Return what is known after the run."""
        surveys = {key: known for key, known in {**before.surveys, **self.surveys}.items() if known is not None}
        return KnownInputs(still_there({**before.files, **self.files}), surveys, now.isoformat())
