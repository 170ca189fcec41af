"""What rules look at, what they find, and what all of them need to read the journal's lines.

A rule is a function from `Evidence` and `Digest` to a frame with the columns of FOUND; `rules` adds its name, its
severity and the day. The evidence may be of some days only: a rule that compares a line with the one before it begins
anew where the evidence begins, so whoever wants the violations of one day hands in the day before as well.

A line's id is the start of its process in hexadecimal and a number that rises by one per line. Source and start name
one run of one process: what it keeps in memory, such as the states of replicas, has no meaning in another run.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from protocol.journal import FactType

FOUND: Final = ("subject", "time", "detail", "event_ids")
RARE: Final = (
    FactType.ELECTION,
    FactType.GAP,
    FactType.REFUSAL,
    FactType.SET_ASIDE,
    FactType.ZNODE_WRITE,
)
"""Lines of these types are few, however large the journal: rules read them from a frame of their own."""
_UNASKED: Final = StructType(
    [
        StructField("topic_id", StringType()),
        StructField("broker", IntegerType()),
        StructField("partitions", StringType()),
        StructField("why", StringType()),
    ]
)
MOST_LINES: Final = 2**53
CLOCK_SKEW_S: Final = 5
"""By so much the clocks of two machines may disagree, or be set back, before a rule takes it for a wrong order."""
LOST_SLACK: Final = 1_100
"""A journal writes up to so many lines before the one that tells of a gap, though they come after what is missing."""


class Evidence(NamedTuple):
    """The tables, whole or of some days; columns as `pipeline.schemas` has them."""

    controller_events: DataFrame
    deletion_spans: DataFrame
    agent_inventory: DataFrame
    znode_snapshot: DataFrame


class Digest(NamedTuple):
    """What several rules need of the journal, read once: the journal is large and these are small."""

    rare: DataFrame
    """Lines of the types in RARE, those about replicas that nobody holds, and the first line of each run:
    `source, run, seq, id, time, type, subject, data`."""
    deleted: DataFrame
    """What is said of the deletion of each topic and id: `topic, topic_id, first_at, first_line, dones, done, last`;
    `done` and `last` are (time, source, run, seq, phase, line) of the first that says done, and of the last line."""
    freed: DataFrame
    """Where freed bytes are not what surveys saw: see `surveys`."""


def run() -> Column:
    """Which run of the process wrote the line: its start, in hexadecimal milliseconds."""
    return F.substring_index("id", "-", 1)


def number() -> Column:
    """The line's number within its run; null where the id is of another form, or no run can have come so far."""
    found = F.substring_index("id", "-", -1).try_cast("bigint")
    return F.when(found <= MOST_LINES, found)


def line_name(source: str = "source", id_: str = "id") -> Column:
    """How a violation names a line."""
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


def unasked(rare: DataFrame) -> DataFrame:
    """What controllers say of replicas that nobody holds, which therefore nobody was asked to delete:
    `source, run, seq, topic, topic_id, broker, partitions`."""
    said = rare_facts(rare, FactType.ACK, _UNASKED).where(F.col("why").isNotNull())
    return said.select("source", "run", "seq", topic().alias("topic"), "topic_id", "broker", "partitions")


def rare_lines(events: DataFrame) -> DataFrame:
    """The frame `Digest.rare`."""
    is_rare = F.col("type").isin(*(kind.value for kind in RARE)) | F.col("id").endswith("-1")
    is_unasked = (F.col("type") == FactType.ACK.value) & F.col("data").contains('"why"')
    return events.where(is_rare | is_unasked).select(
        "source", run().alias("run"), number().alias("seq"), "id", "time", "type", "subject", "data"
    )


def topic() -> Column:
    """The topic that a line is about, of a subject like `topic/orders`."""
    return F.when(F.col("subject").startswith("topic/"), F.expr("substring(subject, 7)"))


def skew() -> Column:
    """The time by which clocks may disagree."""
    return F.expr(f"INTERVAL {CLOCK_SKEW_S} SECONDS")
