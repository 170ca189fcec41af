"""The gold tables: those by days for the days that were rewritten, the others from everything."""

from __future__ import annotations

import datetime
from collections.abc import Collection

from lethe.pipeline import tables
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs.report import OnStage, RefreshScope
from lethe.pipeline.jobs.rules import GoldRules, RuleChanges, are_applied, note_applied, store_changes
from lethe.pipeline.transforms.candidates import stale_topic_candidates
from lethe.pipeline.transforms.reclaim import daily_reclaim
from lethe.pipeline.transforms.slo import deletion_slo
from lethe.pipeline.transforms.slow_brokers import slow_brokers
from lethe.pipeline.transforms.stuck import SurveyTables, stuck_now
from lethe.pipeline.transforms.tenures import controller_tenures


def refresh_gold(
    lake: Lake,
    days: Collection[datetime.date],
    written: Collection[datetime.date],
    now: datetime.datetime,
    stage: OnStage,
    rules: GoldRules,
    only: RefreshScope | None = None,
) -> dict[str, int]:
    """Recompute the gold tables except those of single surveys. Return the row counts of tables without days, by name.

    `days` are those whose lines or surveys were read, `written` those of recomputed deletions too.
    With `only`, what does not depend on these lines and surveys stays as it is.
    """
    only = only or RefreshScope()
    if lake.days(tables.CONTROLLER_EVENTS):
        stage("making daily_reclaim and controller_tenures")
        lake.replace_partitions(tables.DAILY_RECLAIM, daily_reclaim(lake.read(tables.CONTROLLER_EVENTS, days)), days)
        if only.tenures:
            lake.replace_table(tables.CONTROLLER_TENURES, controller_tenures(lake.read(tables.CONTROLLER_EVENTS)))
    if lake.days(tables.DELETION_SPANS):
        stage("making deletion_slo and slow_brokers")
        lake.replace_partitions(tables.DELETION_SLO, deletion_slo(lake.read(tables.DELETION_SPANS, written)), written)
        lake.replace_partitions(
            tables.SLOW_BROKERS, slow_brokers(lake.read(tables.REPLICA_DELETIONS, written)), written
        )
    stage("making stuck_now")
    refresh_stuck(lake, now, rules)
    made = [tables.STUCK_NOW]
    if lake.days(tables.SURVEYS) and (only.surveyed is None or only.surveyed):
        stage("making stale_topic_candidates")
        refresh_candidates(lake, now, rules)
        made.append(tables.STALE_TOPIC_CANDIDATES)
    return {table.name: lake.read(table).count() for table in made}


def apply_rule_changes(lake: Lake, rule_changes: RuleChanges, now: datetime.datetime) -> GoldRules:
    """Store and return the rules in force. If the table of unused topics follows other rules, recompute it at once,
    because it may list protected topics. Inside `lake.writer`, before anything is ingested. Raises as `store_changes`.
    """
    rules = store_changes(lake.files, rule_changes)
    # An interrupted run leaves inputs that do not match; they are recomputed together with this table.
    if lake.has(tables.STALE_TOPIC_CANDIDATES) and not lake.pending_days() and not are_applied(lake.files):
        refresh_candidates(lake, now, rules)
    return rules


def refresh_candidates(lake: Lake, now: datetime.datetime, rules: GoldRules) -> None:
    """Recompute the table of unused topics by the rules in force."""
    candidates = stale_topic_candidates(
        lake.read(tables.SURVEYS),
        lake.read(tables.ZNODE_SNAPSHOT),
        lake.read(tables.DIRECTORIES),
        lake.read(tables.LEFTOVERS),
        now=now,
        rule=rules.stale,
    )
    lake.replace_table(tables.STALE_TOPIC_CANDIDATES, candidates)
    note_applied(lake.files)


def refresh_stuck(lake: Lake, now: datetime.datetime, rules: GoldRules) -> None:
    """Recompute `stuck_now`, the one table that changes with time alone."""
    surveyed = SurveyTables(lake.read(tables.SURVEYS), lake.read(tables.ZNODE_SNAPSHOT), lake.read(tables.LEFTOVERS))
    stuck = stuck_now(
        lake.read(tables.DELETION_SPANS),
        lake.read(tables.REPLICA_DELETIONS),
        lake.read(tables.CONTROLLER_TENURES),
        now=now,
        threshold_ms=rules.stuck_after_ms,
        surveyed=surveyed if lake.days(tables.SURVEYS) else None,
    )
    lake.replace_table(tables.STUCK_NOW, stuck)
