"""Which topics the lines of some days are about, and all lines that say something of their deletions.

The name of a removed directory may hold a topic's name cut off, so topics are told apart here by as much of the name as
is never cut: two long names that begin alike count as one, which costs work and no correctness.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline.transforms.journal_lines import are_refused_deletions
from lethe.protocol.journal import FactType
from lethe.protocol.kafka.directory_names import NEVER_CUT

STEM: Final = "stem"
_DELETIONS: Final = (FactType.DELETION_PHASE, FactType.ACK, FactType.BYTES_FREED)
_TOPIC: Final = "topic/"


def stem_of(topic: Column) -> Column:
    """As much of the name as stands in a directory's name whatever follows it."""
    return F.left(topic, F.lit(NEVER_CUT)).alias(STEM)


def touched(events: DataFrame) -> DataFrame:
    """(stem, broker): the topics of whose deletions these lines say something, and the brokers of which they do, each
    once; the other column is null."""
    states = (F.col("type") == FactType.TRANSITION.value) & F.col("data").contains("DELETION_")
    # Agents say of themselves what happened, controllers what became of brokers.
    is_of_broker = (F.col("type") == FactType.BROKER.value) & F.col("data").contains('"what"')
    is_known = F.col("type").isin(*(kind.value for kind in _DELETIONS))
    said = events.where(is_known | states | are_refused_deletions() | is_of_broker)
    broker = F.when(is_of_broker, F.substring_index("subject", "broker/", -1).try_cast("int")).alias("broker")
    return said.select(stem_of(_topic()), broker).where(F.col(STEM).isNotNull() | broker.isNotNull()).distinct()


def stems_of(topics: DataFrame) -> DataFrame:
    """(stem), of a frame with a column `topic`; some perhaps twice."""
    return topics.select(stem_of(F.col("topic")))


def lines_about(events: DataFrame, affected: DataFrame) -> DataFrame:
    """The lines about these topics, and those about brokers, of which deletions may have to wait."""
    kinds = (*_DELETIONS, FactType.TRANSITION, FactType.BROKER)
    is_about = F.col("type").isin(*(kind.value for kind in kinds)) | are_refused_deletions()
    about = events.where(is_about).withColumn(STEM, stem_of(_topic()))
    of_brokers = about.where(F.col("type") == FactType.BROKER.value)
    return about.join(affected, STEM, "left_semi").unionByName(of_brokers).drop(STEM)


def rows_of(table: DataFrame, affected: DataFrame) -> DataFrame:
    """The rows of a table with a column `topic` that are about these topics."""
    return table.withColumn(STEM, stem_of(F.col("topic"))).join(affected, STEM, "left_semi").drop(STEM)


def rows_of_others(table: DataFrame, affected: DataFrame) -> DataFrame:
    """All its other rows."""
    return table.withColumn(STEM, stem_of(F.col("topic"))).join(affected, STEM, "left_anti").drop(STEM)


def _topic() -> Column:
    named = F.when(F.col("subject").startswith(_TOPIC), F.substr("subject", F.lit(len(_TOPIC) + 1)))
    freed = F.when(F.col("type") == FactType.BYTES_FREED.value, F.get_json_object("data", "$.topic"))
    return F.coalesce(freed, named)
