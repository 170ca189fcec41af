"""The gold tables: those by days for the days that were rewritten, the others from everything."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from typing import NamedTuple

from pyspark.sql import functions as F

from lethe.pipeline import tables
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs.report import OnStage, RefreshScope
from lethe.pipeline.jobs.rules import RuleChanges, are_applied, note_applied, store_changes
from lethe.pipeline.outcomes import OPEN
from lethe.pipeline.transforms.candidates import stale_topic_candidates
from lethe.pipeline.transforms.reclaim import daily_reclaim
from lethe.pipeline.transforms.slo import deletion_slo
from lethe.pipeline.transforms.slow_brokers import slow_brokers
from lethe.pipeline.transforms.stuck import SurveyTables, is_stuck, stuck_now
from lethe.pipeline.transforms.tenures import controller_tenures
from lethe.protocol.lake_rules import LakeRules


class StuckResult(NamedTuple):
    """`is_at_rest`: `stuck_now` stays empty, however much time passes, until there are new lines or surveys."""

    rows: int
    is_at_rest: bool


class GoldResult(NamedTuple):
    """`rows`: the row counts of tables without days, by name. `is_at_rest` as in StuckResult."""

    rows: dict[str, int]
    is_at_rest: bool


def refresh_gold(
    lake: Lake,
    days: Collection[datetime.date],
    written: Collection[datetime.date],
    now: datetime.datetime,
    stage: OnStage,
    rules: LakeRules,
    only: RefreshScope | None = None,
) -> GoldResult:
    """Recompute the gold tables except those of single surveys.

    `days` are those whose lines or surveys were read, `written` those of recomputed deletions too.
    With `only`, what does not depend on these lines and surveys stays as it is.
    """
    only = only or RefreshScope()
    if days and lake.days(tables.CONTROLLER_EVENTS):
        stage("making daily_reclaim and controller_tenures")
        lake.replace_partitions(tables.DAILY_RECLAIM, daily_reclaim(lake.read(tables.CONTROLLER_EVENTS, days)), days)
        if only.lasting:
            lake.replace_table(tables.CONTROLLER_TENURES, controller_tenures(lake.read(tables.LASTING_EVENTS)))
    if written and lake.days(tables.DELETION_SPANS):
        stage("making deletion_slo and slow_brokers")
        lake.replace_partitions(tables.DELETION_SLO, deletion_slo(lake.read(tables.DELETION_SPANS, written)), written)
        lake.replace_partitions(
            tables.SLOW_BROKERS, slow_brokers(lake.read(tables.REPLICA_DELETIONS, written)), written
        )
    stage("making stuck_now")
    stuck = refresh_stuck(lake, now, rules)
    rows = {tables.STUCK_NOW.name: stuck.rows}
    if lake.days(tables.SURVEYS) and (only.surveyed is None or only.surveyed):
        stage("making stale_topic_candidates")
        refresh_candidates(lake, now, rules)
        rows[tables.STALE_TOPIC_CANDIDATES.name] = lake.read(tables.STALE_TOPIC_CANDIDATES).count()
    return GoldResult(rows, stuck.is_at_rest)


def apply_rule_changes(lake: Lake, rule_changes: RuleChanges, now: datetime.datetime) -> LakeRules:
    """Store and return the rules in force. If the table of unused topics follows other rules, recompute it at once,
    because it may list protected topics. Inside `lake.writer`, before anything is ingested. Raises as `store_changes`.
    """
    rules = store_changes(lake.files, rule_changes)
    # An interrupted run leaves inputs that do not match; they are recomputed together with this table.
    if lake.has(tables.STALE_TOPIC_CANDIDATES) and not lake.pending_days() and not are_applied(lake.files):
        refresh_candidates(lake, now, rules)
    return rules


def refresh_candidates(lake: Lake, now: datetime.datetime, rules: LakeRules) -> None:
    """Recompute the table of unused topics by the rules in force."""
    candidates = stale_topic_candidates(
        lake.read(tables.SURVEYS),
        lake.read(tables.ZNODE_SNAPSHOT),
        lake.read(tables.DIRECTORIES),
        lake.read(tables.LEFTOVERS),
        now=now,
        rules=rules,
    )
    lake.replace_table(tables.STALE_TOPIC_CANDIDATES, candidates)
    note_applied(lake.files)


def refresh_stuck(lake: Lake, now: datetime.datetime, rules: LakeRules) -> StuckResult:
    """Recompute `stuck_now`, the one table that changes with every moment."""
    still_open = lake.read(tables.DELETION_SPANS).where(F.col("outcome") == OPEN)
    days = [row["day"] for row in still_open.select("day").distinct().collect()]
    surveyed = SurveyTables(lake.read(tables.SURVEYS), lake.read(tables.ZNODE_SNAPSHOT), lake.read(tables.LEFTOVERS))
    # Few deletions are open on a day: the replicas of the others are dropped before they are grouped.
    replicas = lake.read(tables.REPLICA_DELETIONS, days).join(still_open.select("topic"), "topic", "left_semi")
    waiting = stuck_now(
        still_open,
        replicas,
        lake.read(tables.CONTROLLER_TENURES),
        now=now,
        threshold_ms=None,
        surveyed=surveyed if lake.days(tables.SURVEYS) else None,
    ).persist()
    try:
        is_now = is_stuck(rules.stuck_after_ms)
        count = waiting.agg(F.count(F.lit(1)).alias("all"), F.count_if(is_now).alias("stuck")).collect()[0]
        lake.replace_table(tables.STUCK_NOW, waiting.where(is_now))
    finally:
        waiting.unpersist()
    return StuckResult(int(count["stuck"]), is_at_rest=not count["all"])
