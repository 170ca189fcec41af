"""Find the topics of some days' event records, and all records about their deletions.

The name of a removed directory may contain a shortened topic name. Topics are therefore compared by the prefix that is
never cut. Two long names with one prefix count as one topic, which costs time but no correctness.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline.transforms.journal_records import is_refused_deletion, is_trash_record, topic_of_subject
from lethe.pipeline.transforms.lasting import is_of_types
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.directory_names import NEVER_CUT

STEM: Final = "stem"
_DELETIONS: Final = (
    EventRecordType.DELETION_PHASE,
    EventRecordType.ACK,
    EventRecordType.BYTES_FREED,
    EventRecordType.DEBT,
)


def stem_of(topic: Column) -> Column:
    """Return the prefix of the name that a directory's name always contains."""
    return F.left(topic, F.lit(NEVER_CUT)).alias(STEM)


def affected_subjects(events: DataFrame) -> DataFrame:
    """Return (stem, broker, is_debt, is_trash): the topics and brokers of these records, each once; the other column is
    null. `is_debt`, `is_trash`: whether some are about debts, or about the trash."""
    states = (F.col("type") == EventRecordType.TRANSITION.value) & F.col("said.after").startswith("DELETION_")
    # Agents record their own events, controllers the events of brokers.
    is_of_broker = (F.col("type") == EventRecordType.BROKER.value) & F.col("said.what").isNotNull()
    said = events.where(is_of_types(_DELETIONS) | states | is_refused_deletion() | is_of_broker | is_trash_record())
    broker = F.when(is_of_broker, F.substring_index("subject", "broker/", -1).try_cast("int")).alias("broker")
    is_debt = (F.col("type") == EventRecordType.DEBT.value).alias("is_debt")
    subjects = said.select(stem_of(_topic()), broker, is_debt, is_trash_record().alias("is_trash"))
    return subjects.where("stem is not null or broker is not null").distinct()


def topic_stems(topics: DataFrame) -> DataFrame:
    """Return (stem) of a frame with a column `topic`; duplicates are possible."""
    return topics.select(stem_of(F.col("topic")))


def records_about(events: DataFrame, affected: DataFrame) -> DataFrame:
    """Return the records about these topics, and those about brokers, which deletions may wait for."""
    kinds = (*_DELETIONS, EventRecordType.TRANSITION, EventRecordType.BROKER)
    is_about = is_of_types(kinds) | is_refused_deletion() | is_trash_record()
    about = events.where(is_about).withColumn(STEM, stem_of(_topic()))
    of_brokers = about.where(F.col("type") == EventRecordType.BROKER.value)
    return about.join(affected, STEM, "left_semi").unionByName(of_brokers).drop(STEM)


def rows_about(table: DataFrame, affected: DataFrame) -> DataFrame:
    """Return the rows about these topics, of a table with a column `topic`."""
    return table.withColumn(STEM, stem_of(F.col("topic"))).join(affected, STEM, "left_semi").drop(STEM)


def other_rows(table: DataFrame, affected: DataFrame) -> DataFrame:
    """Return the rows that are not about these topics."""
    return table.withColumn(STEM, stem_of(F.col("topic"))).join(affected, STEM, "left_anti").drop(STEM)


def _topic() -> Column:
    freed = F.when(F.col("type") == EventRecordType.BYTES_FREED.value, F.col("said.topic"))
    return F.coalesce(freed, topic_of_subject())
