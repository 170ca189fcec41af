"""The gold tables: those by days for the days that were rewritten, the others from everything."""

from __future__ import annotations

import datetime
from collections.abc import Collection

from pyspark.sql import Observation
from pyspark.sql import functions as F

from lethe.pipeline import tables
from lethe.pipeline.io.frames import empty, frame_of_arrow
from lethe.pipeline.io.lake import Lake
from lethe.pipeline.jobs.refresh_lasting import read_lasting_deletions
from lethe.pipeline.jobs.report import Changes, OnStage
from lethe.pipeline.jobs.rules import RuleChanges, are_applied, note_applied, store_changes
from lethe.pipeline.outcomes import OPEN
from lethe.pipeline.transforms.candidates import compared_since, stale_topic_candidates
from lethe.pipeline.transforms.newest_survey import NewestSurveys, newest_surveys
from lethe.pipeline.transforms.reclaim import daily_reclaim
from lethe.pipeline.transforms.slo import deletion_slo
from lethe.pipeline.transforms.slow_brokers import slow_brokers
from lethe.pipeline.transforms.stuck import Surveyed, waiting_deletions
from lethe.pipeline.transforms.stuck_now import stuck_now
from lethe.pipeline.transforms.tenures import controller_tenures
from lethe.protocol.lake_rules import LakeRules


def refresh_gold(
    lake: Lake,
    changes: Changes,
    written: Collection[datetime.date],
    now: datetime.datetime,
    stage: OnStage,
    rules: LakeRules,
) -> dict[str, int]:
    """Recompute the gold tables that depend on these changes, except those of single surveys. `written` are the days
    with new lines or recomputed deletions. Return the row counts of tables that depend on time, by name."""
    days = changes.lined
    if days and lake.days(tables.CONTROLLER_EVENTS):
        stage("making daily_reclaim and controller_tenures")
        lake.replace_partitions(tables.DAILY_RECLAIM, daily_reclaim(lake.read(tables.CONTROLLER_EVENTS, days)), days)
        if changes.lasting:
            lake.replace_table(tables.CONTROLLER_TENURES, controller_tenures(lake.read(tables.LASTING_EVENTS)))
    if written and lake.days(tables.DELETION_SPANS):
        stage("making deletion_slo and slow_brokers")
        lake.replace_partitions(tables.DELETION_SLO, deletion_slo(lake.read(tables.DELETION_SPANS, written)), written)
        lake.replace_partitions(
            tables.SLOW_BROKERS, slow_brokers(lake.read(tables.REPLICA_DELETIONS, written)), written
        )
    stage("making stuck_now")
    newest = read_newest_surveys(lake, now)
    rows = {tables.STUCK_NOW.name: refresh_stuck(lake, newest, now, rules)}
    if lake.days(tables.SURVEYS) and (changes.surveyed or changes.is_later):
        stage("making stale_topic_candidates")
        rows[tables.STALE_TOPIC_CANDIDATES.name] = _refresh_candidates(lake, newest, now, rules)
    return rows


def apply_rule_changes(lake: Lake, rule_changes: RuleChanges, now: datetime.datetime) -> LakeRules:
    """Store and return the rules in force. If the table of unused topics follows other rules, recompute it at once,
    because it may list protected topics. Inside `lake.writer`, before anything is ingested. Raises as `store_changes`.
    """
    rules = store_changes(lake.files, rule_changes)
    # An interrupted run leaves inputs that do not match; they are recomputed together with this table.
    if lake.has(tables.STALE_TOPIC_CANDIDATES) and not lake.pending_days() and not are_applied(lake.files):
        _refresh_candidates(lake, read_newest_surveys(lake, now), now, rules)
    return rules


def read_newest_surveys(lake: Lake, now: datetime.datetime) -> NewestSurveys:
    """Return the newest surveys of the lake, from its last day if that has both."""
    days = lake.days(tables.SURVEYS)
    if not days:
        return NewestSurveys(None, None)
    found = newest_surveys(lake.read(tables.SURVEYS, days[-1:]), now)
    return found if found.complete else newest_surveys(lake.read(tables.SURVEYS), now)


def _refresh_candidates(lake: Lake, newest: NewestSurveys, now: datetime.datetime, rules: LakeRules) -> int:
    """Recompute the table of unused topics by the rules in force. Return the number of its rows."""
    table, of, since = tables.STALE_TOPIC_CANDIDATES, newest.complete, compared_since(rules, now)
    days = [day for day in lake.days(tables.SURVEYS) if of and (day >= since or day == of.day)]
    surveys = lake.read(tables.SURVEYS, days)
    candidates = empty(surveys.sparkSession, table.schema)
    if of is not None:
        znodes, found = (lake.read(each, [of.day]) for each in (tables.ZNODE_SNAPSHOT, tables.LEFTOVERS))
        directories = lake.read(tables.AGENT_INVENTORY, days)
        candidates = stale_topic_candidates(of, znodes, found, surveys, directories, now=now, rules=rules)
    counted = Observation()
    lake.replace_table(table, candidates.observe(counted, F.count(F.lit(1)).alias("rows")))
    note_applied(lake.files)
    return int(counted.get["rows"])


def refresh_stuck(lake: Lake, newest: NewestSurveys, now: datetime.datetime, rules: LakeRules) -> int:
    """Recompute `waiting_deletions`, and from it `stuck_now`, which changes with every moment. Return its number of
    rows."""
    still_open = read_lasting_deletions(lake).where(F.col("outcome") == OPEN)
    days = [row["day"] for row in still_open.select("day").distinct().collect()]
    surveyed = None
    if of := newest.any:
        surveyed = Surveyed(of, lake.read(tables.ZNODE_SNAPSHOT, [of.day]), lake.read(tables.LEFTOVERS, [of.day]))
    # Few deletions are open on a day: the replicas of the others are dropped before they are grouped.
    replicas = lake.read(tables.REPLICA_DELETIONS, days).join(still_open.select("topic"), "topic", "left_semi")
    found = waiting_deletions(still_open, replicas, lake.read(tables.CONTROLLER_TENURES), surveyed=surveyed)
    waiting = found.toArrow()
    stuck = stuck_now(waiting, now=now, threshold_ms=rules.stuck_after_ms)
    for table, rows in ((tables.WAITING_DELETIONS, waiting), (tables.STUCK_NOW, stuck)):
        lake.replace_table(table, frame_of_arrow(found.sparkSession, table.schema, rows))
    return int(stuck.num_rows)
