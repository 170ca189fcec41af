"""Recompute silver and gold tables from bronze, for some days.

Theory of operation. Every derived row is a function of bronze rows, so recomputing it gives the same row. From the
journal come the topics of the days' lines, and those that waited for a broker whose lines now give another reason.
Their whole history is read, from the day on which the first of their spans began, and gives their new spans. In the
days of these spans, as they were and as they are now, the rows of other topics stay and theirs are replaced. A deletion
that ended today thus rewrites the day on which it was marked, and no other. Rows of a survey depend on that survey
alone. Records that bear on later days, as those of brokers for which a deletion waits, are first copied to a table of
their own: so no run looks for them in all days.

Gold tables are made again for the days that were rewritten, from whole days; the small ones that have no days, from
everything. Each table changes whole or not at all. If a run dies between two tables, the lake has a note of the days,
and the next run recomputes them.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline import tables
from lethe.pipeline.io.lake import DAY, Lake, gathered
from lethe.pipeline.io.staged_rows import StagedRows
from lethe.pipeline.jobs.refresh_gold import refresh_gold
from lethe.pipeline.jobs.refresh_lasting import (
    read_lasting_deletions,
    refresh_lasting,
    refresh_lasting_deletions,
    refresh_topic_ids,
)
from lethe.pipeline.jobs.report import Changes, OnStage
from lethe.pipeline.literals import day_value
from lethe.pipeline.tables import Table
from lethe.pipeline.transforms.affected import (
    STEM,
    affected_subjects,
    other_rows,
    records_about,
    rows_about,
    topic_stems,
)
from lethe.pipeline.transforms.debts import debts
from lethe.pipeline.transforms.leftover_by_broker import leftover_by_broker
from lethe.pipeline.transforms.owed import owed_by_broker
from lethe.pipeline.transforms.replicas import replica_deletions
from lethe.pipeline.transforms.span_heads import span_heads
from lethe.pipeline.transforms.spans import deletion_spans
from lethe.pipeline.transforms.trash import trash_stays
from lethe.pipeline.transforms.waits import changed_reasons
from lethe.protocol.journal import EventRecordType
from lethe.protocol.lake_rules import LakeRules

SIZES_BEFORE: Final = datetime.timedelta(days=7)
"""How old a survey may be, when the first debt is written, to tell how large the replicas are."""
_MADE: Final = (tables.DELETION_SPANS, tables.DEBTS, tables.TRASH)


class RefreshResult(NamedTuple):
    """The days whose tables were recomputed."""

    days: list[datetime.date]
    of_journal: list[datetime.date]
    """Those whose tables of the journal were."""
    rows: dict[str, int]
    """Of tables that depend on time, by name."""


def refresh(lake: Lake, changes: Changes, now: datetime.datetime, stage: OnStage, rules: LakeRules) -> RefreshResult:
    """Recompute the tables that depend on these changes. Inside `lake.writer`."""
    written = set(changes.lined)
    lake.fit_shuffles({*changes.lined, *changes.surveyed})
    if changes.lined:
        if changes.lasting:
            refresh_lasting(lake, changes.lined)
        written |= refresh_deletions(lake, sorted(changes.lined), stage, changes.lines)
    refresh_surveys(lake, changes.surveyed, stage)
    rows = refresh_gold(lake, changes, sorted(written), now, stage, rules)
    return RefreshResult(sorted({*written, *changes.surveyed}), sorted(written), rows)


# --- deletions ----------------------------------------------------------------------------------------------------


def refresh_deletions(
    lake: Lake, days: Sequence[datetime.date], stage: OnStage, changed: Column | None = None
) -> set[datetime.date]:
    """Recompute the silver tables of deletions for the days' lines, or for those that `changed`. Return the rewritten
    days."""
    stage("finding the deletions that changed")
    events = lake.read(tables.CONTROLLER_EVENTS, days)
    said = affected_subjects(events if changed is None else events.where(changed)).persist()
    topics = said.where("broker is null").select(STEM)
    try:
        has_topic = F.col(STEM).isNotNull().alias("has_topic")
        told = said.select("broker", "is_debt", "is_trash", has_topic).distinct().collect()
        brokers = [row["broker"] for row in told if row["broker"] is not None]
        is_any, is_debt, is_trash = (any(row[name] for row in told) for name in ("has_topic", "is_debt", "is_trash"))
        if brokers and (waiting := _topics_with_changed_waits(lake, brokers)) is not None:
            topics = topics.unionByName(topic_stems(waiting)).distinct().persist()
            # As a whole: it is computed from a table that is about to be replaced.
            is_any = topics.count() > 0
        if not is_any:
            return set()
        # Replicas have the days of their spans, unless a run died between the two tables.
        searched = [*_MADE, tables.REPLICA_DELETIONS] if changed is None else _MADE
        had = _days_with_rows(lake, searched, topics)
        had |= {tables.DEBTS: had.get(tables.DEBTS, set())} if is_debt else {}
        had |= {tables.TRASH: had.get(tables.TRASH, set())} if is_trash else {}
        return _recompute_deletions(lake, days, topics, had, stage)
    finally:
        topics.unpersist()
        said.unpersist()


def _topics_with_changed_waits(lake: Lake, brokers: Collection[int]) -> DataFrame | None:
    """Topics whose table has another reason for a wait for these brokers than the journal has now; None if none ever
    waited."""
    waits = read_lasting_deletions(lake).where(F.exists("waited_for", lambda wait: wait["broker"].isin(*brokers)))
    if not waits.limit(1).count():
        return None
    return changed_reasons(waits, lake.read(tables.LASTING_EVENTS), brokers)


def _recompute_deletions(
    lake: Lake,
    days: Sequence[datetime.date],
    affected: DataFrame,
    had: dict[Table, set[datetime.date]],
    stage: OnStage,
) -> set[datetime.date]:
    known = {day for days in had.values() for day in days}
    events = _history(lake, min(known | set(days)), affected)
    heads = span_heads(events).persist()
    try:
        made: dict[Table, StagedRows] = {}
        # Most clusters have neither.
        if tables.DEBTS in had:
            stage("making debts")
            made[tables.DEBTS] = lake.stage(tables.DEBTS, gathered(debts(events, heads)))
        if tables.TRASH in had:
            stage("making trash")
            made[tables.TRASH] = lake.stage(tables.TRASH, gathered(trash_stays(events)))
        stage("making replica_deletions")
        replicas = made[tables.REPLICA_DELETIONS] = lake.stage(
            tables.REPLICA_DELETIONS, gathered(replica_deletions(events, heads))
        )
        stage("making deletion_spans")
        owed = made[tables.DEBTS].read() if tables.DEBTS in made else None
        made[tables.DELETION_SPANS] = lake.stage(
            tables.DELETION_SPANS, gathered(deletion_spans(events, heads, replicas.read(), owed))
        )
        refresh_lasting_deletions(lake, made[tables.DELETION_SPANS].read(), affected)
        written = [_replace_rows(lake, table, rows, affected, had.get(table, set())) for table, rows in made.items()]
        if tables.DEBTS in made:
            refresh_owed(lake)
        return set().union(*written)
    finally:
        heads.unpersist()


def _days_with_rows(lake: Lake, searched: Sequence[Table], affected: DataFrame) -> dict[Table, set[datetime.date]]:
    """The days for which the tables have rows of these topics, by table; those of spans for replicas too."""
    whole = [
        lake.read(table).select("topic", "day", F.lit(table.name).alias("table"))
        for table in searched
        if lake.has(table)
    ]
    found: dict[Table, set[datetime.date]] = {}
    if whole:
        rows = rows_about(reduce(DataFrame.union, whole), affected).select("table", "day").distinct()
        for row in rows.collect():
            found.setdefault(tables.TABLES[row["table"]], set()).add(row["day"])
    of_spans = found.get(tables.DELETION_SPANS, set())
    return found | {tables.REPLICA_DELETIONS: of_spans | found.get(tables.REPLICA_DELETIONS, set())}


def _history(lake: Lake, first: datetime.date, affected: DataFrame) -> DataFrame:
    """All lines about these topics from that day on, on or before which their first span began; of brokers, all."""
    had = lake.days(tables.CONTROLLER_EVENTS)
    since = records_about(lake.read(tables.CONTROLLER_EVENTS, [day for day in had if day >= first]), affected)
    before = lake.read(tables.LASTING_EVENTS).where(F.col(DAY) < day_value(first))
    return since.unionByName(before.where(F.col("type") == EventRecordType.BROKER.value))


def refresh_owed(lake: Lake) -> None:
    """Recompute what brokers owe, from all debts and from the surveys that may have seen their directories."""
    owing = lake.read(tables.DEBTS)
    first = owing.agg(F.to_date(F.min("since"))).collect()[0][0]
    days = [day for day in lake.days(tables.AGENT_INVENTORY) if first is not None and first - day <= SIZES_BEFORE]
    lake.replace_table(tables.OWED_BY_BROKER, owed_by_broker(owing, lake.read(tables.AGENT_INVENTORY, days)))


def _replace_rows(
    lake: Lake, table: Table, staged: StagedRows, affected: DataFrame, known: set[datetime.date]
) -> set[datetime.date]:
    """Replace the table's rows of these topics, which are of the `known` days, by the staged rows. Return the rewritten
    days."""
    written = known | set(staged.days())
    if written.isdisjoint(lake.days(table)):
        staged.commit()
        return written
    others = other_rows(lake.read(table, written), affected)
    lake.replace_partitions(table, others.unionByName(staged.read()), written)
    staged.discard()
    return written


# --- surveys ------------------------------------------------------------------------------------------------------


def refresh_surveys(lake: Lake, days: Collection[datetime.date], stage: OnStage) -> None:
    """Recompute the rows of the surveys of these days."""
    surveyed = sorted(set(days) & set(lake.days(tables.SURVEYS)))
    if not surveyed:
        return
    stage("making topic_ids and leftover_by_broker")
    refresh_topic_ids(lake, surveyed)
    lake.replace_partitions(
        tables.LEFTOVER_BY_BROKER, leftover_by_broker(lake.read(tables.LEFTOVERS, surveyed)), surveyed
    )
    if lake.has(tables.DEBTS):
        refresh_owed(lake)
