"""Topics in the trash: a row for each stay, from the journal.

Rule. A stay begins with the controller's line. The next line of that name ends it: a name in the trash is reserved, so
a later deletion of the name shows that the topic has left, even if the line of its end is missing.

    s      line of orders                     stay
    0      in the trash                       1
    500    back from the trash                1: back
    900    in the trash                       2
    950    its time in the trash is over      2: expired, and deleted as any topic
    960    phase queued                       2 has ended already

A line says before that a topic gives way to a full disk; it ends the stay only together with the line after it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline import schemas_debts
from lethe.pipeline.transforms.contract import to_schema
from lethe.pipeline.transforms.journal_records import QUEUED, trash_records
from lethe.protocol.journal_trash import BACK, EXPIRED, GAVE_WAY, PURGED, RESTORED, TRASHED

_FOR_DISK: Final = "gave way"
_ENDED_AS: Final = {
    BACK: "back",
    RESTORED: "back",
    EXPIRED: "expired",
    PURGED: "purged",
    _FOR_DISK: _FOR_DISK,
}
DELETED: Final = "deleted"
"""It left the trash for its deletion; the line that says why is missing."""


def trash_stays(events: DataFrame) -> DataFrame:
    """Return TRASH, from CONTROLLER_EVENTS."""
    by_name = Window.partitionBy("topic").orderBy("at", "source", "seq", "id")
    is_for_disk = (F.lag("what").over(by_name) == GAVE_WAY) & F.col("what").isin(PURGED, QUEUED)
    lines = trash_records(events).withColumn("what", F.when(is_for_disk, _FOR_DISK).otherwise(F.col("what")))
    following = F.lead(F.struct("what", "at")).over(by_name)
    stays = lines.where(F.col("what") != GAVE_WAY).withColumn("next", following).where(F.col("what") == TRASHED)
    how = F.coalesce(*(F.when(F.col("next.what") == what, how) for what, how in _ENDED_AS.items()), F.lit(DELETED))
    return to_schema(
        stays.withColumns(
            {
                "topic_id": F.nullif("id_key", F.lit("")),
                "partitions": F.col("ranges"),
                "trashed_at": F.col("at"),
                "left_at": F.col("next.at"),
                "how": F.when(F.col("next").isNotNull(), how),
                "day": F.to_date("at"),
            }
        ),
        schemas_debts.TRASH,
    )
