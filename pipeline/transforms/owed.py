"""What brokers owe: bytes and debts by broker, on each day on which that changed.

The controller does not know how large the replicas of an absent broker are. A debt without a size in the journal has
that of its directories in the newest survey that saw them: before the debt was written, or since then as owed.

    day   line or survey                     broker 3: open   owed_bytes   unsized
    1     survey: orders-0 has 700 bytes
    2     debt of orders-0 written           1                700          0
    3     debt of new-0 written              2                700          1
    5     orders is paid                     1                0            1
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline import schemas_debts
from lethe.pipeline.transforms.contract import to_schema
from lethe.pipeline.transforms.journal_records import explode_partitions
from lethe.protocol.journal_debts import PAID, VOID, WRITTEN_OFF

_CLOSED: Final = {"paid": PAID, "void": VOID, "written_off": WRITTEN_OFF}
_DEBT: Final = ("broker", "topic", "id_key", "znode", "since")


def owed_by_broker(debts: DataFrame, directories: DataFrame) -> DataFrame:
    """Return OWED_BY_BROKER, from all DEBTS and the AGENT_INVENTORY of the surveys that may have seen theirs."""
    named = debts.withColumns(
        {"id_key": F.coalesce("topic_id", F.lit("")), "znode": F.coalesce("created_zxid", F.lit(-1))}
    )
    sized = named.join(_seen_sizes(named, directories), list(_DEBT), "left").withColumn(
        "size_bytes", F.coalesce("size_bytes", "seen_bytes")
    )
    changes = sized.select("*", F.explode(F.array(_change("since", 1), _change("closed_at", -1))).alias("change"))
    sign, began, ended = F.col("change.sign"), F.col("change.sign") > 0, F.col("change.sign") < 0
    by_day = (
        changes.where("change.day is not null")
        .groupBy("broker", F.col("change.day").alias("day"))
        .agg(
            F.count_if(began).alias("written"),
            *(F.count_if(ended & (F.col("how") == how)).alias(name) for name, how in _CLOSED.items()),
            F.sum(sign).alias("open"),
            F.sum(sign * F.col("replicas")).alias("open_replicas"),
            F.sum(sign * F.coalesce("size_bytes", F.lit(0))).alias("owed_bytes"),
            F.sum(F.when(F.col("size_bytes").isNull(), sign).otherwise(F.lit(0))).alias("unsized"),
        )
    )
    until_then = Window.partitionBy("broker").orderBy("day").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    sums = {name: F.sum(name).over(until_then) for name in ("open", "open_replicas", "owed_bytes", "unsized")}
    return to_schema(by_day.withColumns(sums), schemas_debts.OWED_BY_BROKER)


def _change(instant: str, sign: int) -> Column:
    # Clocks differ: a debt is never closed before it began.
    at = F.col(instant) if sign > 0 else F.when(F.col(instant).isNotNull(), F.greatest("since", instant))
    return F.struct(F.to_date(at).alias("day"), F.lit(sign).alias("sign"))


def _seen_sizes(debts: DataFrame, directories: DataFrame) -> DataFrame:
    """Return the bytes of the directories of each debt without a size, as `seen_bytes`."""
    unsized = debts.where("size_bytes is null").select(*_DEBT, F.col("partitions").alias("ranges"))
    seen = directories.where("kind = 'replica' and size_bytes is not null").select(
        "broker",
        "topic",
        "partition",
        F.col("topic_id").alias("seen_id"),
        "survey_id",
        "taken_at",
        F.col("size_bytes").alias("seen_bytes"),
        F.coalesce("is_owed", F.lit(False)).alias("is_owed"),
    )
    is_same = (F.col("id_key") == "") | F.col("seen_id").isNull() | (F.col("seen_id") == F.col("id_key"))
    each = (
        explode_partitions(unsized)
        .join(seen, ["broker", "topic", "partition"], "inner")
        .where(is_same & (F.col("is_owed") | (F.col("taken_at") <= F.col("since"))))
        .groupBy(*_DEBT, "taken_at", "survey_id", "partition")
        .agg(F.max("seen_bytes").alias("seen_bytes"))
    )
    by_survey = each.groupBy(*_DEBT, "taken_at", "survey_id").agg(F.sum("seen_bytes").alias("seen_bytes"))
    return by_survey.groupBy(*_DEBT).agg(F.max_by("seen_bytes", F.struct("taken_at", "survey_id")).alias("seen_bytes"))
