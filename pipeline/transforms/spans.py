"""One row for each deletion of a topic: its phases, holds, waits and freed bytes.

    heads = span_heads(events)
    replicas = replica_deletions(events, heads)
    spans = deletion_spans(events, heads, replicas)

`replicas` may be the rows of the table, read back: they are the expensive part, and this computation scans them again.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline import schemas
from lethe.pipeline.outcomes import DONE, OPEN
from lethe.pipeline.transforms.attribution import attribute_freed_records
from lethe.pipeline.transforms.contract import ms_between, to_schema
from lethe.pipeline.transforms.journal_records import freed_records
from lethe.pipeline.transforms.span_heads import KEY
from lethe.pipeline.transforms.waits import covered_ms, waits
from lethe.protocol.journal_debts import WRITTEN_OFF

WAITS: Final = schemas.DELETION_SPANS["waited_for"].dataType
_OWED: Final = {
    "owed": "bigint",
    "paid": "bigint",
    "closed_at": "timestamp",
    "is_owing": "boolean",
    "is_written_off": "boolean",
}
_FREED: Final = {"freed_directories": "directories", "freed_bytes": "size_bytes", "freed_files": "files"}


def deletion_spans(
    events: DataFrame, heads: DataFrame, replicas: DataFrame, debts: DataFrame | None = None
) -> DataFrame:
    """Return DELETION_SPANS, from CONTROLLER_EVENTS, `span_heads`, REPLICA_DELETIONS and DEBTS of the same events.
    `debts`: None if there are none."""
    rows = (
        heads.join(_of_brokers(_waits(replicas, events, debts), events, heads), list(KEY), "left")
        .withColumns(
            {
                "topic_id": F.nullif("id_key", F.lit("")),
                "acked_replicas": F.coalesce("acked", F.lit(0)),
                "waited_for": F.coalesce("waited_for", F.array().cast(WAITS.simpleString())),
                "owed_by": F.coalesce("owed_by", F.array().cast("array<int>")),
                **{name: F.coalesce(name, F.lit(0)) for name in (*_FREED, "owed_replicas", "paid")},
            }
        )
        .withColumn("held", F.transform("holds", lambda hold: _held(hold, F.col("ended_at"))))
        .withColumn("bytes_gone_at", _bytes_gone_at())
    )
    return to_schema(
        rows.withColumns(
            {
                "phase": F.when(F.col("outcome") == OPEN, F.col("last_phase")).otherwise(F.col("outcome")),
                "settled_at": F.when(~F.col("is_owing"), F.col("closed_at")),
                "held_ms": covered_ms(F.col("held")),
                "waited_ms": covered_ms(F.col("waited_for")),
                "deleted_ms": ms_between(F.col("marked_at"), F.col("done_at")),
                "reclaimed_ms": ms_between(F.col("marked_at"), F.col("bytes_gone_at")),
            }
        ),
        schemas.DELETION_SPANS,
    )


def _waits(replicas: DataFrame, events: DataFrame, debts: DataFrame | None) -> DataFrame:
    """Return what became of each broker's replicas: `waits`, with what it owed and paid."""
    waited = waits(replicas, events).withColumn("id_key", F.coalesce("topic_id", F.lit("")))
    if debts is None:
        return waited.withColumns({name: F.lit(None).cast(kind) for name, kind in _OWED.items()})
    of_broker = (
        debts.where("span is not null")
        .withColumn("id_key", F.coalesce("topic_id", F.lit("")))
        .groupBy(*KEY, "broker")
        .agg(
            F.sum("replicas").alias("owed"),
            F.sum("paid_replicas").alias("paid"),
            F.max("closed_at").alias("closed_at"),
            F.bool_or(F.col("how").isNull()).alias("is_owing"),
            F.bool_or(F.coalesce(F.col("how") == WRITTEN_OFF, F.lit(False))).alias("is_written_off"),
        )
    )
    return waited.join(of_broker, [*KEY, "broker"], "full")


def _of_brokers(waited: DataFrame, events: DataFrame, heads: DataFrame) -> DataFrame:
    """Return acknowledgements, waits and freed bytes of each span's brokers. `remaining`: the number of brokers that
    removed fewer directories than they acknowledged or paid. After a failover they may remove more, because the
    replicas were announced to them again."""
    promised = F.coalesce("acked", F.lit(0)) + F.coalesce("paid", F.lit(0))
    return (
        waited.join(_freed(events, heads), [*KEY, "broker"], "full")
        .groupBy(*KEY)
        .agg(
            F.sum("acked").alias("acked"),
            F.min("first_ack_at").alias("first_ack_at"),
            F.max("last_ack_at").alias("last_ack_at"),
            F.sort_array(F.collect_list("wait")).alias("waited_for"),
            *(F.sum(name).alias(name) for name in _FREED),
            F.max("last_freed_at").alias("last_freed_at"),
            F.count_if(promised > F.coalesce("freed_directories", F.lit(0))).alias("remaining"),
            F.sort_array(F.collect_list(F.when(F.col("owed").isNotNull(), F.col("broker")))).alias("owed_by"),
            F.sum("owed").cast("int").alias("owed_replicas"),
            F.sum("paid").alias("paid"),
            F.max("closed_at").alias("closed_at"),
            F.bool_or("is_owing").alias("is_owing"),
            F.bool_or("is_written_off").alias("is_written_off"),
        )
    )


def _freed(events: DataFrame, heads: DataFrame) -> DataFrame:
    removed = freed_records(events).where(F.col("error").isNull())
    of = F.col("of")
    key = (*(of[name].alias(name) for name in KEY), F.col("broker"))
    return (
        attribute_freed_records(removed, heads)
        .groupBy(*key)
        .agg(*(F.sum(said).alias(name) for name, said in _FREED.items()), F.max("at").alias("last_freed_at"))
    )


def _bytes_gone_at() -> Column:
    """Return the time of the last removal; null until the topic is deleted and every broker has removed as many
    directories as it acknowledged, or paid for since. What is owed, or was written off, is not reclaimed."""
    all_gone = (F.col("acked_replicas") + F.col("paid") > 0) & (F.col("remaining") == 0)
    is_left = F.coalesce("is_owing", F.lit(False)) | F.coalesce("is_written_off", F.lit(False))
    return F.when((F.col("outcome") == DONE) & all_gone & ~is_left, F.greatest("last_freed_at", "closed_at"))


def _held(hold: Column, ended_at: Column) -> Column:
    """Return a HELD, which lasts until the next record of the span; another controller may repeat the same reason."""
    until = F.coalesce(hold["next_at"], F.when(ended_at.isNotNull(), F.greatest(hold["at"], ended_at)))
    return F.struct(
        hold["held_by"].alias("held_by"),
        hold["at"].alias("since"),
        until.alias("until"),
        ms_between(hold["at"], until).alias("ms"),
    )
