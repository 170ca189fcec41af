"""Silver `directories`: every directory of every survey once.

A log directory may be told of twice: read on its broker's host, and by its broker. What was read is preferred, and for
the log directory as a whole: it has topic ids, times, and what was set aside or waits for its removal, none of which a
broker tells; and a directory that the two do not agree on came or went between them.

Which source is preferred is found out by counting, a few rows per log directory, so that the directories themselves,
millions of them, are not moved between Spark's tasks. That no two rows have the same key is bronze's promise.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lethe.pipeline import schemas
from lethe.pipeline.transforms.contract import to_schema

LOCAL = "local"
"""`source` of what was read from a file system."""
LOG_DIR = "log-dir"
"""`kind` of the row that a log directory itself has."""

_LOG_DIR_KEY = ("survey_id", "broker", "log_dir")


def directories(inventory: DataFrame) -> DataFrame:
    """DIRECTORIES from AGENT_INVENTORY: one row per survey, broker, log directory and directory in it, and one with
    `kind` log-dir for each log directory."""
    is_local = F.col("source") == F.lit(LOCAL)
    preferred = inventory.groupBy(*_LOG_DIR_KEY).agg(F.bool_or(is_local).alias("was_read"))
    return (
        inventory.join(F.broadcast(preferred), [*_LOG_DIR_KEY], "inner")
        .filter(is_local == F.col("was_read"))
        .transform(to_schema, schemas.DIRECTORIES)
    )
