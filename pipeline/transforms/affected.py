"""Find the topics that the lines of some days are about, and all lines about their deletions.

The name of a removed directory may contain a shortened topic name. Topics are therefore compared by the prefix that is
never cut: two long names with one prefix count as one topic, which costs time but no correctness.
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
    """The prefix of the name that a directory's name always contains."""
    return F.left(topic, F.lit(NEVER_CUT)).alias(STEM)


def touched(events: DataFrame) -> DataFrame:
    """(stem, broker): the topics and the brokers that these lines are about, each once; the other column is null."""
    states = (F.col("type") == FactType.TRANSITION.value) & F.col("data").contains("DELETION_")
    # Agents record their own events, controllers the events of brokers.
    is_of_broker = (F.col("type") == FactType.BROKER.value) & F.col("data").contains('"what"')
    is_known = F.col("type").isin(*(kind.value for kind in _DELETIONS))
    said = events.where(is_known | states | are_refused_deletions() | is_of_broker)
    broker = F.when(is_of_broker, F.substring_index("subject", "broker/", -1).try_cast("int")).alias("broker")
    return said.select(stem_of(_topic()), broker).where(F.col(STEM).isNotNull() | broker.isNotNull()).distinct()


def stems_of(topics: DataFrame) -> DataFrame:
    """(stem), of a frame with a column `topic`; some perhaps twice."""
    return topics.select(stem_of(F.col("topic")))


def lines_about(events: DataFrame, affected: DataFrame) -> DataFrame:
    """The lines about these topics, and those about brokers, which deletions may wait for."""
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
