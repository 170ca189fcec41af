"""The audit of some days: its findings replace those of an earlier audit.

Auditing a day again finds the same, whichever other days are audited with it: of the journal and of surveys, rules look
at the day and at the day before; at elections and gaps, which are few, of all days; and at the table of deletions, most
rules only at those that were marked, or had a record, on these days. Lines that come late may mend or break the day
after theirs, which is audited again with it. They may mend or break later days as well: a deletion is judged on the day
on which it ended, or on which the next controller knew nothing of it, which may be long after the line; elections and
gaps say something of all that comes after them. An audit of a day therefore includes the days on which deletions that
were marked on it ended or were missed, and later days with a finding that needs more than one line.

Surveys are read by few rules. Where no line is new, these alone are applied, and what others have found stays.

The lake notes which state of a day was audited (`pipeline.io.audit_notes`). A day needs an audit if a table that the
rules read has another state: the stream writes such tables and audits nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from pyspark.sql import functions as F

from lethe.pipeline import tables
from lethe.pipeline.io.lake import DAY, Lake
from lethe.pipeline.jobs.refresh_lasting import read_lasting_deletions, read_topic_ids
from lethe.pipeline.jobs.report import OnStage
from lethe.pipeline.literals import day_value, day_values
from lethe.pipeline.outcomes import OPEN
from lethe.pipeline.quality.evidence import Evidence, skew
from lethe.pipeline.quality.rules import OF_SURVEYS, RULES, AuditResult, Rule, audit, count_violations, shared_frames
from lethe.pipeline.transforms.lasting import READ_BY_AUDITS, is_of_types, is_unhosted

_DAY: Final = datetime.timedelta(days=1)


def audit_changes(
    lake: Lake, of_journal: Collection[datetime.date], surveyed: Collection[datetime.date], stage: OnStage
) -> list[datetime.date]:
    """Audit the days that these lines and surveys are about, and those that were written to since their last audit.
    Where surveys alone are new, apply the rules on surveys. Return the audited days. Inside `lake.writer`."""
    of_lines = {*of_journal, *lake.unaudited_days(tables.AUDITED_OF_JOURNAL)}
    days = {*of_lines, *surveyed, *lake.unaudited_days()}
    if not days:
        return []
    stage("auditing")
    is_whole = of_lines or not days.issubset(lake.audited())
    return refresh_audit(lake, days, RULES if is_whole else OF_SURVEYS)


def refresh_audit(lake: Lake, days: Collection[datetime.date], rules: Sequence[Rule] = RULES) -> list[datetime.date]:
    """Recompute the violations of these rules on these days and on dependent days. Return all of them. Inside
    `lake.writer`."""
    had = lake.days(tables.CONTROLLER_EVENTS)
    all_days = {*had, *lake.days(tables.AGENT_INVENTORY)}
    days = {*days, *dependent_days(lake, days, rules)}
    concerned = sorted({*days, *(day for day in all_days if day > datetime.date.min and day - _DAY in days)})
    near = sorted({*concerned, *(day - _DAY for day in concerned if day > datetime.date.min)})
    far = [day for day in had if day not in near]
    since = near[0] if near and any(day < near[0] for day in lake.days(tables.DELETION_SPANS)) else None
    is_far = F.col(DAY).isin(day_values(far)) & (is_of_types(READ_BY_AUDITS) | is_unhosted())
    evidence = Evidence(
        lake.read(tables.CONTROLLER_EVENTS, near),
        lake.read(tables.DELETION_SPANS),
        lake.read(tables.DELETION_SPANS, _days_of_deletions_since(lake, since) if since else None),
        read_lasting_deletions(lake),
        lake.read(tables.AGENT_INVENTORY, near),
        read_topic_ids(lake),
        lake.read(tables.DEBTS),
        lake.read(tables.LASTING_EVENTS).where(is_far) if far else None,
        _unread_days(had),
        since,
    )
    others = lake.read(tables.VIOLATIONS, concerned).where(~F.col("rule").isin(*(rule.name for rule in rules)))
    with shared_frames(evidence) as shared:
        found = audit(evidence, shared, rules).where(F.col("day").isin(day_values(concerned)))
        made = found if rules is RULES else found.unionByName(others)
        lake.replace_partitions(tables.VIOLATIONS, made, concerned)
        lake.note_audited(concerned)
    return concerned


def verdict(lake: Lake, days: Collection[datetime.date]) -> AuditResult:
    """Return what the audit has found of these days, and of the days after them."""
    return count_violations(lake.read(tables.VIOLATIONS, with_next_days(days))) if days else AuditResult(0, 0)


def with_next_days(days: Collection[datetime.date]) -> list[datetime.date]:
    """Return these days and those after them, whose findings depend on them too."""
    return sorted({*days, *(day + _DAY for day in days if day < datetime.date.max)})


def dependent_days(lake: Lake, days: Collection[datetime.date], rules: Sequence[Rule] = RULES) -> set[datetime.date]:
    """Days whose findings by these rules may have changed with the lines and surveys of these days, or with the
    deletions that were marked on them; without neighbouring days."""
    looked_at = sorted({*lake.audited(), *lake.days(tables.VIOLATIONS)})
    later = [day for day in looked_at if day > min(days) and day not in days]
    found: set[datetime.date] = set()
    if later:
        of_several_lines = (rule.name for rule in rules if not rule.on_lines)
        rows = lake.read(tables.VIOLATIONS, later).where(F.col("rule").isin(*of_several_lines))
        found |= {row[DAY] for row in rows.select(DAY).distinct().collect()}
    if rules is RULES and lake.days(tables.DELETION_SPANS):
        # A damaged line may have any day.
        found |= _end_days(lake, days) & {*lake.days(tables.CONTROLLER_EVENTS), *later}
    return found


def _end_days(lake: Lake, days: Collection[datetime.date]) -> set[datetime.date]:
    """When deletions that were marked on these days ended, and when a controller took over that may not know of the
    unfinished ones."""
    spans = lake.read(tables.DELETION_SPANS, days)
    ends = spans.select(F.explode(F.array("done_at", "last_at")).alias("at"))
    taken_over = lake.read(tables.CONTROLLER_TENURES).select("active_at")
    missed = (
        spans.where(F.col("outcome") == OPEN)
        .select("last_at")
        .distinct()
        .join(F.broadcast(taken_over), F.col("active_at") > F.col("last_at") + skew(), "inner")
        .groupBy("last_at")
        .agg(F.min("active_at").alias("at"))
        .select("at")
    )
    every = ends.unionByName(missed).select(F.to_date("at").alias("day"))
    return {row["day"] for row in every.distinct().collect() if row["day"] is not None}


def _days_of_deletions_since(lake: Lake, since: datetime.date) -> list[datetime.date]:
    """The days of deletions that were marked, or had a record about a phase, since that day. By Parquet's statistics a
    scan passes over most of the others."""
    begin, marked = day_value(since).cast("timestamp"), lake.days(tables.DELETION_SPANS)
    earlier = lake.read(tables.DELETION_SPANS, [day for day in marked if day < since])
    went_on = earlier.where((F.col("last_at") >= begin) | (F.col("marked_at") >= begin)).select(DAY).distinct()
    return [*(row[DAY] for row in went_on.collect()), *(day for day in marked if day >= since)]


def _unread_days(had: Sequence[datetime.date]) -> tuple[tuple[datetime.date, datetime.date], ...]:
    """Evidence.unread."""
    return tuple((a + _DAY, b - _DAY) for a, b in pairwise(sorted(had)) if b - a > _DAY)
