"""What absent brokers had of deleted topics: a row for each debt, from the journal.

Rule. Broker, topic, id and the czxid of the topic's znode name a debt. Its first closing counts; a debt that is written
after it is the next one. While none is there, the debt is a promise: the broker deletes the replicas when it returns.

    s     writer       line                        debt of broker 3
    10    1001         written, partitions 0-1     1: open since 10 s
    12    1001         written, partitions 0-2     1: more is owed
    90    broker 3     paid                        1: closed, paid
    91    1002         paid                        1: not twice, as only one controller says so
    300   1002         written                     2: the deletion had been called off, and was ordered again

A controller writes `paid` and `void` at once where only a part was paid: the debt counts as paid.
A debt belongs to the deletion that was going on when it was written.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.pipeline import schemas_debts
from lethe.pipeline.transforms.attribution import attribute_replica_records
from lethe.pipeline.transforms.contract import to_schema
from lethe.pipeline.transforms.journal_records import count_of, debt_records
from lethe.protocol.journal_debts import PAID, WRITTEN

_NAME: Final = ("topic", "id_key", "broker", "znode")
_DEBT: Final = (*_NAME, "number")
_ORDER: Final = ("at", "source", "seq", "id")


def debts(events: DataFrame, heads: DataFrame) -> DataFrame:
    """Return DEBTS, from CONTROLLER_EVENTS and `span_heads` of the same events."""
    rows = debt_records(events).transform(_with_numbers).transform(_aggregate)
    of = F.col("of")
    spans = attribute_replica_records(rows.select(*_DEBT, F.col("since").alias("at")), heads)
    spans = spans.select(*_DEBT, of["span"].alias("span"), of["day"].alias("day_of_span"))
    return to_schema(
        rows.join(spans, list(_DEBT), "left").withColumns(
            {
                "topic_id": F.nullif("id_key", F.lit("")),
                "day": F.coalesce("day_of_span", F.to_date("since")),
                "replicas": count_of("partitions"),
                "paid_replicas": F.when(F.col("how") == PAID, count_of("closed.ranges")).otherwise(F.lit(0)),
            }
        ),
        schemas_debts.DEBTS,
    )


def _with_numbers(lines: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*_NAME).orderBy(*_ORDER)
    begins = (F.col("what") == WRITTEN) & (F.lag("what").over(in_order) != WRITTEN)
    until_here = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return lines.withColumn("begins", F.coalesce(begins, F.lit(False)).cast("int")).withColumn(
        "number", F.sum("begins").over(until_here)
    )


def _aggregate(lines: DataFrame) -> DataFrame:
    is_written = F.col("what") == WRITTEN
    is_closed = ~is_written
    order = F.struct(*_ORDER)
    closing = F.struct("at", "source", F.col("what") != PAID, "seq", "id")
    line = F.concat_ws(" ", "source", "id").alias("line")
    said = F.struct("what", "at", "source", "ranges", "since", "size_bytes", "why", line)
    of_controller = F.when(is_closed & F.col("source").startswith("/lethe/controller/"), F.struct("at", "source"))
    grouped = lines.groupBy(*_DEBT).agg(
        F.max_by(said, F.when(is_written, order)).alias("written"),
        F.min_by(said, F.when(is_closed, closing)).alias("closed"),
        F.sort_array(F.collect_set(of_controller)).alias("closings"),
        F.max("created_zxid").alias("created_zxid"),
    )
    closed = F.col("closed")
    return grouped.withColumns(
        {
            "partitions": _either("ranges"),
            "since": _either("since"),
            "size_bytes": _either("size_bytes"),
            "closed_at": closed["at"],
            "how": closed["what"],
            "closed_by": closed["source"],
            "why": closed["why"],
            "written_line": F.col("written")["line"],
            "closed_line": closed["line"],
            "closed_again_at": F.when(F.size("closings") > 1, F.element_at("closings", -1)["at"]),
        }
    )


def _either(name: str) -> Column:
    """As it was last written, or else as it was closed."""
    return F.coalesce(F.col("written")[name], F.col("closed")[name])
