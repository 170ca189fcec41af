"""What the data of an event record says, as typed columns: JSON is parsed once, when a record enters the lake.

A key that is missing or of another type gives null, never an error, and a transform that needs it drops the record. The
same holds for an impossible number, so no damaged record overflows sums and times.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, NumericType, StringType, StructField, StructType

from lethe.pipeline.schemas import SAID
from lethe.protocol.journal import EventRecordType

MAX_BYTES: Final = 2**50
"""Maximum of one line about removed bytes; the same for files and directories."""
MAX_DURATION_MS: Final = 100 * 366 * 86_400_000
_BOUNDED: Final = {
    **dict.fromkeys(("size_bytes", "directories", "files"), MAX_BYTES),
    **dict.fromkeys(("marked_at_ms", "owed_since_ms", "until_ms", "tenure_ms", "loading_ms"), MAX_DURATION_MS),
}
_COUNTS: Final = {"partition_count": "partitions", "replica_count": "replicas"}
_PARSED: Final = "_parsed"
_NUMBERS: Final = StructType(
    [
        # Of a key that comes twice, Spark takes the last value that fits.
        StructField(field.name, LongType() if isinstance(field.dataType, NumericType) else StringType())
        for field in SAID.fields
        if field.name not in _COUNTS
    ]
)
_TEXTS: Final = StructType([StructField(name, StringType()) for name in _NUMBERS.names])


def with_said(records: DataFrame, is_record: Column, *, are_usual: bool = False) -> DataFrame:
    """Return the rows with `said` (`schemas.SAID`), from `type` and `data`; null where `is_record` is not true.
    `are_usual`: their numbers are no texts, which is cheaper."""
    data = F.from_json("data", _NUMBERS if are_usual else _TEXTS)
    said = F.struct(*(_value(field.name, field.dataType).alias(field.name) for field in SAID.fields))
    parsed = records.withColumn(_PARSED, F.when(is_record, data))
    return parsed.withColumn("said", F.when(F.col(_PARSED).isNotNull(), said)).drop(_PARSED)


def _value(name: str, kind: DataType) -> Column:
    found = F.col(f"{_PARSED}.{_COUNTS.get(name, name)}")
    if isinstance(kind, ArrayType):
        has_ranges = F.col("type").isin(EventRecordType.TRANSITION.value, EventRecordType.ACK.value)
        # No map: it cannot be compared or hashed.
        on_brokers = F.map_entries(F.from_json(found, MapType(StringType(), StringType())))
        return F.when(has_ranges, on_brokers.cast(kind))
    if name in _COUNTS:
        return F.when(F.col("type") == EventRecordType.DELETION_PHASE.value, found.try_cast(kind))
    if isinstance(kind, LongType) and name in _BOUNDED:
        number = found.try_cast(kind)
        return F.when(number.between(0, _BOUNDED[name]), number)
    return found if isinstance(kind, StringType) else found.try_cast(kind)
