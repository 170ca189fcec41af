"""What bears on days after its own: few event records, deletions and topic ids of any lake, however old it is."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline.outcomes import OPEN
from lethe.pipeline.transforms.journal_records import is_tenure_record
from lethe.protocol.journal import EventRecordType

READ_BY_AUDITS: Final = (EventRecordType.ELECTION, EventRecordType.GAP)
"""Of these types the audit of a day reads those of all days."""
_OF_TYPES: Final = (*READ_BY_AUDITS, EventRecordType.BROKER)


def is_lasting() -> Column:
    """Return whether a row of CONTROLLER_EVENTS is one of LASTING_EVENTS; never null. Deletions wait for brokers, whose
    reasons may be days old; the next election ends a tenure, and a gap explains what lacks."""
    return is_of_types(_OF_TYPES) | is_tenure_record() | is_unhosted()


def is_lasting_deletion() -> Column:
    """Return whether a row of DELETION_SPANS is one of LASTING_DELETIONS; never null. An open deletion may be stuck on
    any later day; a record about a broker may give the waits for it another reason."""
    return (F.col("outcome") == OPEN) | (F.size("waited_for") > 0)


def first_topic_ids(rows: DataFrame) -> DataFrame:
    """Return TOPIC_IDS, from ZNODE_SNAPSHOT or from rows of TOPIC_IDS; of rows that name both."""
    named = rows.where("topic is not null and topic_id is not null")
    of_topics = named.where("kind = 'topic'") if "kind" in rows.columns else named
    return of_topics.groupBy("topic_id", "topic").agg(F.min("taken_at").alias("taken_at"))


def is_unhosted() -> Column:
    """Return whether a record is about replicas that no broker holds; never null."""
    return (F.col("type") == EventRecordType.ACK.value) & F.col("said.why").isNotNull()


def is_of_types(types: tuple[EventRecordType, ...]) -> Column:
    """Return whether a record is of one of these types."""
    return F.col("type").isin(*(kind.value for kind in types))
