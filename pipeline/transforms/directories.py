"""Silver `directories`: every directory of every survey once.

A log directory may have two sources: its broker's host and its broker. The host is preferred, for the log directory as
a whole: it has topic ids, times, and directories that are quarantined or wait for removal, which a broker does not
report. A directory in only one source was made or removed between the two reads.

A count of a few rows per log directory selects the source, so that millions of directories are not shuffled. Keys are
unique in bronze.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lethe.pipeline import schemas
from lethe.pipeline.transforms.contract import to_schema

LOCAL = "local"
"""`source` of rows that were read from a file system."""

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
