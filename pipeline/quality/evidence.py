"""The input of rules, the form of their findings, and shared readers of the journal's lines.

A rule is a function from `Evidence` and `Digest` to a frame of subject, time, detail and event_ids; `rules` adds its
name, its severity and the day. The findings of a day must not depend on the other days of the same run. So a rule uses
only one of these: on the lines and surveys of a day and of the day before it; on elections and gaps, which are few and
read from all days; on whole tables.

A line's id is the start of its process in hexadecimal and a number that rises by one per line. Source and start
identify one run of one process: its memory, such as the states of replicas, has no meaning in another run.
"""

from __future__ import annotations

import datetime
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from lethe.protocol.clocks import CLOCK_SKEW_MS
from lethe.protocol.journal import FactType

RARE: Final = (
    FactType.ELECTION,
    FactType.GAP,
    FactType.REFUSAL,
    FactType.SET_ASIDE,
    FactType.ZNODE_WRITE,
)
"""Lines of these types are few in any journal: rules read them from a frame of their own."""
LASTING: Final = (FactType.ELECTION, FactType.GAP)
"""Lines of these types affect later days too."""
_GAP: Final = StructType([StructField("first", StringType()), StructField("last", StringType())])
_UNASKED: Final = StructType(
    [
        StructField("topic_id", StringType()),
        StructField("broker", IntegerType()),
        StructField("partitions", StringType()),
        StructField("why", StringType()),
    ]
)
MOST_LINES: Final = 2**53
CLOCK_SKEW_S: Final = CLOCK_SKEW_MS // 1000
"""Maximum difference of two machines' clocks, or step back of one, before a rule reports a wrong order."""
LOST_SLACK: Final = 1_100
"""Maximum number of lines after a gap that a journal writes before the line that reports it."""


class Evidence(NamedTuple):
    """The tables, with the columns of `pipeline.schemas`."""

    controller_events: DataFrame
    """Of the days that are audited, and of the day before each."""
    deletion_spans: DataFrame
    agent_inventory: DataFrame
    """Of the same days as `controller_events`."""
    znode_snapshot: DataFrame
    elsewhere: DataFrame | None = None
    """Of CONTROLLER_EVENTS' other days all lines of the types in LASTING, and those about replicas that nobody holds
    of the days on which a deletion that is looked at went on."""
    unread: tuple[tuple[datetime.date, datetime.date], ...] = ()
    """The first and the last day of each time of which there is no line, though there are earlier and later ones."""


class Digest(NamedTuple):
    """Small frames of the large journal that several rules share, read once."""

    rare: DataFrame
    """Lines of the types in RARE, those about replicas that nobody holds, and the first line of each run:
    `source, run, seq, id, time, type, subject, data`; of types in LASTING those of all days."""
    freed: DataFrame
    """Freed bytes that differ from what surveys saw: see `surveys`."""


def run() -> Column:
    """The run of the process that wrote the line: its start, in hexadecimal milliseconds."""
    return F.substring_index("id", "-", 1)


def number() -> Column:
    """The line's number within its run; null if the id has another form or the number is impossibly large."""
    found = F.substring_index("id", "-", -1).try_cast("bigint")
    return F.when(found <= MOST_LINES, found)


def line_name(source: str = "source", id_: str = "id") -> Column:
    """The name of a line in a violation."""
    return F.concat_ws(" ", F.col(source), F.col(id_))


def facts(events: DataFrame, kind: FactType, data: StructType, writer: str = "controller") -> DataFrame:
    """The lines of one type by one kind of writer: `source, run, seq, id, time, subject` and the data's fields."""
    of_kind = (F.col("type") == kind.value) & F.col("source").startswith(f"/lethe/{writer}/")
    parsed = F.from_json("data", data)
    return (
        events.where(of_kind)
        .select("source", run().alias("run"), number().alias("seq"), "id", "time", "subject", parsed.alias("data"))
        .select("source", "run", "seq", "id", "time", "subject", "data.*")
    )


def rare_facts(rare: DataFrame, kind: FactType, data: StructType) -> DataFrame:
    """As `facts`, of a type in RARE."""
    return (
        rare.where(F.col("type") == kind.value)
        .withColumn("data", F.from_json("data", data))
        .select("source", "run", "seq", "id", "time", "subject", "data.*")
    )


def gaps(rare: DataFrame) -> DataFrame:
    """Facts that the journal reports as not written: `gap_source, gap_run, gap_seq, lost_from, lost_until`.
    `gap_seq` is null where the line is not numbered among those of its run: it tells of lines that did not come through
    a Kafka topic."""
    return rare_facts(rare, FactType.GAP, _GAP).select(
        F.col("source").alias("gap_source"),
        F.col("run").alias("gap_run"),
        F.col("seq").alias("gap_seq"),
        F.try_to_timestamp("first").alias("lost_from"),
        F.try_to_timestamp("last").alias("lost_until"),
    )


def tells_of(first: Column, last: Column, since: Column, until: Column) -> Column:
    """Whether a row of `gaps` may explain the missing lines from the number `first` to `last` of `source` and `run`,
    between a line of `since` and one of `until`."""
    by_number = (F.col("gap_seq") >= first) & (F.col("gap_seq") <= last + LOST_SLACK)
    by_time = F.col("gap_seq").isNull() & (F.col("lost_from") <= until) & (F.col("lost_until") >= since)
    same_run = (F.col("source") == F.col("gap_source")) & (F.col("run") == F.col("gap_run"))
    return same_run & (by_number | by_time)


def unasked(rare: DataFrame) -> DataFrame:
    """Replicas that, by controllers' lines, no broker holds, so that no broker was asked to delete them:
    `source, run, seq, time, topic, topic_id, broker, partitions`."""
    said = rare_facts(rare, FactType.ACK, _UNASKED).where(F.col("why").isNotNull())
    return said.select("source", "run", "seq", "time", topic().alias("topic"), "topic_id", "broker", "partitions")


def rare_lines(evidence: Evidence) -> DataFrame:
    """The frame `Digest.rare`."""
    is_rare = F.col("type").isin(*(kind.value for kind in RARE)) | F.col("id").endswith("-1")
    lines = evidence.controller_events.where(is_rare | is_unasked())
    if evidence.elsewhere is not None:
        lines = lines.unionByName(evidence.elsewhere)
    return lines.select("source", run().alias("run"), number().alias("seq"), "id", "time", "type", "subject", "data")


def is_lasting() -> Column:
    """Whether a line affects later days too."""
    return F.col("type").isin(*(kind.value for kind in LASTING))


def is_unasked() -> Column:
    """Whether a line is about replicas that no broker holds."""
    return (F.col("type") == FactType.ACK.value) & F.col("data").contains('"why"')


def is_next_day(day: Column, before: Column) -> Column:
    """Whether the second day is the same or the one before: only such are compared. Null where one is null."""
    return F.datediff(day, before) <= 1


def topic() -> Column:
    """The topic that a line is about, of a subject like `topic/orders`."""
    return F.when(F.col("subject").startswith("topic/"), F.expr("substring(subject, 7)"))


def skew() -> Column:
    """CLOCK_SKEW_S as an interval."""
    return F.expr(f"INTERVAL {CLOCK_SKEW_S} SECONDS")
