"""The input of rules, the form of their findings, and shared readers of the journal's lines.

A rule is a function from `Evidence` and `SharedFrames` to a frame of subject, time, detail and event_ids. `rules` adds
the rule's name, its severity and the day. The findings of a day must not depend on the other days of the same run. A
rule therefore reads only: event records and surveys of a day and of the day before; elections and gaps, which are few,
of all days; whole tables.

A record's id is the start of its process in hexadecimal and a number that rises by one per record. Source and start
identify one run of one process. Its memory, such as the states of replicas, has no meaning in another run.
"""

from __future__ import annotations

import datetime
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline.transforms.journal_records import topic_of_subject
from lethe.pipeline.transforms.lasting import is_of_types, is_unhosted
from lethe.protocol.clocks import CLOCK_SKEW_MS
from lethe.protocol.journal import EventRecordType

RARE_TYPES: Final = (
    EventRecordType.ELECTION,
    EventRecordType.GAP,
    EventRecordType.REFUSAL,
    EventRecordType.SET_ASIDE,
    EventRecordType.ZNODE_WRITE,
)
"""Records of these types are few in any journal: rules read them from a frame of their own."""
_GAP: Final = "first string, last string"
MAX_RECORD_NUMBER: Final = 2**53
CLOCK_SKEW_S: Final = CLOCK_SKEW_MS // 1000
"""Maximum difference of two machines' clocks, or step back of one, before a rule reports a wrong order."""
LOST_SLACK: Final = 1_100
"""Maximum number of lines after a gap that a journal writes before the line that reports it."""


class Evidence(NamedTuple):
    """The tables, with the columns of `pipeline.schemas`."""

    controller_events: DataFrame
    """Of the audited days, and of the day before each."""
    deletion_spans: DataFrame
    recent_deletions: DataFrame
    """Those that were marked, or had a record about a phase, on the same days as `controller_events`, and others."""
    lasting_deletions: DataFrame
    """LASTING_DELETIONS: the open ones, however old, are among them."""
    agent_inventory: DataFrame
    """Of the same days as `controller_events`."""
    topic_ids: DataFrame
    debts: DataFrame
    distant_records: DataFrame | None = None
    """Records of other days: elections and gaps, and those about replicas that no broker holds."""
    unread_days: tuple[tuple[datetime.date, datetime.date], ...] = ()
    """First and last day of each period without records between days with records."""
    since: datetime.date | None = None
    """The first day of `controller_events`, if there are deletions of earlier days."""


class SharedFrames(NamedTuple):
    """Small frames of the large journal that several rules share, read once."""

    rare: DataFrame
    """Records of RARE_TYPES, those about replicas that no broker holds, and the first record of each run: `source, run,
    seq, id, time, type, subject, said`, and `data` of RARE_TYPES alone; elections and gaps of all days."""
    freed: DataFrame
    """Freed bytes that differ from what surveys saw: see `surveys`."""


def run() -> Column:
    """Return the run of the record's writer: its start, in hexadecimal milliseconds."""
    return F.substring_index("id", "-", 1)


def number() -> Column:
    """Return the record's number within its run; null if the id has another form or an impossible number."""
    found = F.substring_index("id", "-", -1).try_cast("bigint")
    return F.when(found <= MAX_RECORD_NUMBER, found)


def record_name(source: str = "source", id_: str = "id") -> Column:
    """Return the name of a record in a violation."""
    return F.concat_ws(" ", F.col(source), F.col(id_))


def topic_violation(time: str | Column, detail: Column, *lines: str) -> tuple[Column, ...]:
    """Return subject, time, detail, event_ids of what is wrong with the row's topic; `lines` are columns with names of
    records."""
    at = F.col(time) if isinstance(time, str) else time
    ids = F.array_distinct(F.array_compact(F.array(*lines).cast("array<string>")))
    return F.format_string("topic/%s", "topic").alias("subject"), at.alias("time"), *_described(detail, ids)


def violation(detail: Column, *lines: Column) -> tuple[Column, ...]:
    """Return the same of the row's subject and time."""
    return F.col("subject"), F.col("time"), *_described(detail, F.array(*lines))


def _described(detail: Column, event_ids: Column) -> tuple[Column, Column]:
    return detail.alias("detail"), event_ids.alias("event_ids")


def agents_records(events: DataFrame, kind: EventRecordType, data: str) -> DataFrame:
    """Return agents' records of one type: `source, run, seq, id, time, subject` and the data's fields, of which `data`
    has names and types as SQL writes them."""
    of_agents = events.where((F.col("type") == kind.value) & F.col("source").startswith("/lethe/broker/"))
    return _with_data(of_agents.withColumns({"run": run(), "seq": number()}), data)


def rare_records_of_type(rare: DataFrame, kind: EventRecordType, data: str) -> DataFrame:
    """Return records as `agents_records` does, of a type in RARE_TYPES."""
    return _with_data(rare.where(F.col("type") == kind.value), data)


def _with_data(records: DataFrame, data: str) -> DataFrame:
    parsed = records.withColumn("data", F.from_json("data", data))
    return parsed.select("source", "run", "seq", "id", "time", "subject", "data.*")


def elections(rare: DataFrame) -> DataFrame:
    """Return records about elections: `source, run, seq, id, time, subject, what, epoch`."""
    found = rare.where(F.col("type") == EventRecordType.ELECTION.value)
    return found.select("source", "run", "seq", "id", "time", "subject", "said.what", "said.epoch")


def gaps(rare: DataFrame) -> DataFrame:
    """Return records of losses: `gap_source, gap_run, gap_seq, lost_from, lost_until`. `gap_seq` is null for a loss on
    the way through a Kafka topic alone, which is not numbered in its run."""
    return rare_records_of_type(rare, EventRecordType.GAP, _GAP).select(
        F.col("source").alias("gap_source"),
        F.col("run").alias("gap_run"),
        F.col("seq").alias("gap_seq"),
        F.try_to_timestamp("first").alias("lost_from"),
        F.try_to_timestamp("last").alias("lost_until"),
    )


def explains_missing(first: Column, last: Column, since: Column, until: Column) -> Column:
    """Return whether a row of `gaps` may explain the missing numbers `first` to `last` of `source` and `run`, between a
    record of `since` and one of `until`."""
    by_number = (F.col("gap_seq") >= first) & (F.col("gap_seq") <= last + LOST_SLACK)
    by_time = F.col("gap_seq").isNull() & (F.col("lost_from") <= until) & (F.col("lost_until") >= since)
    same_run = (F.col("source") == F.col("gap_source")) & (F.col("run") == F.col("gap_run"))
    return same_run & (by_number | by_time)


def unhosted_replicas(rare: DataFrame) -> DataFrame:
    """Return replicas that no broker holds, by controllers' records, so that no broker was asked to delete them:
    `source, run, seq, time, topic, topic_id, broker, partitions`."""
    said = (F.col(f"said.{name}") for name in ("topic_id", "broker", "partitions"))
    return rare.where(is_unhosted()).select("source", "run", "seq", "time", topic_of_subject().alias("topic"), *said)


def rare_records(evidence: Evidence) -> DataFrame:
    """Return the frame `SharedFrames.rare`."""
    lines = evidence.controller_events
    is_rare = is_of_types(RARE_TYPES)
    # Apart, so that only of the rare ones the data is read.
    others = lines.where(~is_rare & (F.col("id").endswith("-1") | is_unhosted()))
    found = lines.where(is_rare).unionByName(others.withColumn("data", F.lit(None).cast("string")))
    if evidence.distant_records is not None:
        found = found.unionByName(evidence.distant_records)
    return found.select(
        "source", run().alias("run"), number().alias("seq"), "id", "time", "type", "subject", "said", "data"
    )


def is_next_day(day: Column, before: Column) -> Column:
    """Return whether the second day is the same or the one before: only such are compared. Null if one is null."""
    return F.datediff(day, before) <= 1


def skew() -> Column:
    """Return CLOCK_SKEW_S as an interval."""
    return F.expr(f"INTERVAL {CLOCK_SKEW_S} SECONDS")
