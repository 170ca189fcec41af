"""Small tables of what bears on later days, so that a run does not look for it in all days.

Each is a table without days: its rows of other days or topics stay, and those of new lines and surveys are replaced. A
lake that an earlier release made has none: it is read from the days until the first change makes it.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lethe.pipeline import tables
from lethe.pipeline.io.lake import DAY, Lake
from lethe.pipeline.literals import day_values
from lethe.pipeline.transforms.affected import other_rows
from lethe.pipeline.transforms.lasting import first_topic_ids, is_lasting, is_lasting_deletion


def refresh_lasting(lake: Lake, days: Collection[datetime.date]) -> None:
    """Copy the records of these days that bear on later ones."""
    others = lake.read(tables.LASTING_EVENTS).where(~F.col(DAY).isin(day_values(days)))
    found = lake.read(tables.CONTROLLER_EVENTS, days).where(is_lasting())
    lake.replace_table(tables.LASTING_EVENTS, others.unionByName(found))


def refresh_lasting_deletions(lake: Lake, spans: DataFrame, affected: DataFrame) -> None:
    """Replace the rows of these topics (stem) by what bears on later days of `spans`, which are to replace theirs in
    DELETION_SPANS."""
    others = other_rows(read_lasting_deletions(lake), affected)
    lake.replace_table(tables.LASTING_DELETIONS, others.unionByName(spans.where(is_lasting_deletion())))


def read_lasting_deletions(lake: Lake) -> DataFrame:
    """Return LASTING_DELETIONS."""
    if lake.has(tables.LASTING_DELETIONS):
        return lake.read(tables.LASTING_DELETIONS)
    return lake.read(tables.DELETION_SPANS).where(is_lasting_deletion())


def refresh_topic_ids(lake: Lake, days: Collection[datetime.date]) -> None:
    """Add what the surveys of these days have seen."""
    seen = read_topic_ids(lake).unionByName(first_topic_ids(lake.read(tables.ZNODE_SNAPSHOT, days)))
    lake.replace_table(tables.TOPIC_IDS, first_topic_ids(seen))


def read_topic_ids(lake: Lake) -> DataFrame:
    """Return TOPIC_IDS."""
    if lake.has(tables.TOPIC_IDS):
        return lake.read(tables.TOPIC_IDS)
    return first_topic_ids(lake.read(tables.ZNODE_SNAPSHOT))
