"""Rows of kept surveys: JSON objects with the columns of their tables, or quarantined with the reason.

`protocol.survey_records` defines the columns and their values. A row with a value of another kind is quarantined as a
whole, because half a row would report that something is absent. So is a row without its key, and one with an impossible
value, such as a size or a broker below 0. Unknown columns are ignored. Two rows with one key contradict each other:
both are quarantined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from lethe.pipeline.transforms.bronze_events import counted_copies
from lethe.pipeline.transforms.contract import Ingestion, to_schema
from lethe.pipeline.transforms.said import MAX_BYTES
from lethe.protocol.findings import Reason
from lethe.protocol.survey_records import DIRECTORIES, KINDS, LEFTOVERS, METADATA, ZNODES, ColumnKind, SurveyFile

_SIZES: Final = ("size_bytes", "segment_bytes", "files")
"""These are summed: an impossible value must neither overflow a sum nor reduce it."""
_NUMBERED: Final = ("broker", "partition")
_REPLICAS: Final = ("replicas", "adding", "removing", "isr")
"""Of a partition: different brokers. A reassignment is kept as it was written, valid or not."""
_CORRUPT: Final = "_corrupt"
_INSTANT: Final = r"\A(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\z"
_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
REASON: Final = "not a row of a survey"
_OF_A_TOPIC: Final = ("replica", "future", "deleted", "stray")
_REQUIRED: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    ZNODES.name: {
        "kind": (),
        "topic": ("topic", "partition", "marker", "config", "reassignment"),
        "partition": ("partition", "reassignment"),
        "broker": ("broker",),
    },
    METADATA.name: {"kind": (), "broker": (), "topic": ("topic",)},
    DIRECTORIES.name: {
        "kind": (),
        "broker": (),
        "log_dir": (),
        "directory": (*_OF_A_TOPIC, "unknown"),
        "topic": _OF_A_TOPIC,
        "partition": _OF_A_TOPIC,
    },
    LEFTOVERS.name: dict.fromkeys(("place", "standing", "reason", "what", "topic"), ()),
}
"""By file: the columns of a row's key, and the kinds of rows that have them; empty: all."""


def parse(lines: DataFrame, file: SurveyFile, table: StructType) -> DataFrame:
    """From (value, file) to (value, file, row, detail): a struct of the file's columns, or the problem of the line.
    Empty lines are left out. `table` is the schema of the bronze table that the file goes to."""
    read = F.from_json("value", _json_schema(file, table), _OPTIONS)
    rows = lines.where(F.trim("value") != "").select("value", "file", read.alias("read"))
    return rows.select("value", "file", F.col("read").alias("row"), _problem(file).alias("detail"))


def rows(parsed: DataFrame, file: SurveyFile, table: StructType, ingestion: Ingestion) -> DataFrame:
    """The rows of the bronze table among parsed lines."""
    good = parsed.where(F.col("detail").isNull()).select(
        *(_value(kind.name, kind.kind) for kind in file.columns),
        F.col("file").alias("_source_file"),
        *ingestion.columns(),
    )
    return to_schema(good.withColumn("day", F.to_date("taken_at")), table)


def mark_duplicates(parsed: DataFrame, key: Sequence[str]) -> DataFrame:
    """Parsed lines; those that share their `key` with another line of their file have a problem too."""
    # As text: a null is a value of its own in it.
    of_row = F.to_json(F.struct(*(F.col("row")[name].alias(name) for name in key)))
    named = parsed.withColumn("key", F.when(F.col("detail").isNull(), of_row))
    doubled = (
        named.where(F.col("key").isNotNull())
        .groupBy("file", "key")
        .agg(F.count(F.lit(1)).alias("lines"))
        .where(F.col("lines") > 1)
    )
    wrong = F.format_string(f"%d rows have the same {', '.join(key[:-1])} and {key[-1]}", "lines")
    return named.join(doubled, ["file", "key"], "left").select(
        "value", "file", "row", F.coalesce("detail", F.when(F.col("lines").isNotNull(), wrong)).alias("detail")
    )


def quarantine_rows(parsed: DataFrame, reason: str = REASON) -> DataFrame:
    """The rows of QUARANTINE among parsed lines."""
    return counted_copies(parsed.where(F.col("detail").isNotNull()).withColumn("reason", F.lit(reason)))


def _json_schema(file: SurveyFile, table: StructType) -> StructType:
    """The columns with their JSON types: instants are texts."""
    fields = [
        StructField(column.name, StringType() if column.kind is ColumnKind.INSTANT else table[column.name].dataType)
        for column in file.columns
    ]
    whole = [StructField(field.name, _with_nulls(field)) for field in fields]
    return StructType([*whole, StructField(_CORRUPT, StringType())])


def _with_nulls(field: StructField) -> ArrayType | StringType:
    kind = field.dataType
    return ArrayType(kind.elementType, containsNull=True) if isinstance(kind, ArrayType) else kind  # type: ignore[return-value]


def _problem(file: SurveyFile) -> Column:
    """The problem of a line; null if there is none."""
    row = F.col("read")
    # As the znode has it, whatever was written there.
    is_reassignment = (
        row["reason"] == Reason.REASSIGNMENT_WITHOUT_TOPIC.code if file is LEFTOVERS else row["kind"] == "reassignment"
    )
    problem = F.lit(None).cast("string")
    for column in file.columns:
        value = row[column.name]
        wrong: Column | None = None
        form = column.kind.value
        if column.kind is ColumnKind.INSTANT:
            wrong = value.isNotNull() & (~value.rlike(_INSTANT) | value.try_cast("timestamp").isNull())
        elif column.name in _SIZES:
            wrong, form = ~value.between(0, MAX_BYTES), "what any directory has"
        elif column.name in _NUMBERED:
            wrong, form = (value < 0) & ~is_reassignment, f"the number of a {column.name}"
        elif column.name in _REPLICAS:
            is_impossible = F.exists(value, lambda one: one < 0) | (F.size(F.array_distinct(value)) < F.size(value))
            wrong = F.exists(value, lambda one: one.isNull()) | (~is_reassignment & is_impossible)
            form = "a list of different brokers"
        elif column.name == "kind":
            wrong, form = ~value.isin(*KINDS[file.name]), f"a kind of row that {file.name} has"
        elif column.kind in (ColumnKind.NUMBERS, ColumnKind.TEXTS):
            wrong = F.exists(value, lambda one: one.isNull())
        if wrong is not None:
            problem = F.when(wrong, F.lit(f"{column.name!r} is not {form}")).otherwise(problem)
    for name, kinds in _REQUIRED[file.name].items():
        is_missing = row[name].isNull() & (row["kind"].isin(*kinds) if kinds else F.lit(True))
        problem = F.when(is_missing, F.lit(f"{name!r} is missing")).otherwise(problem)
    # A row stands alone: without these two it would be of no survey.
    for name in ("survey_id", "taken_at"):
        problem = F.when(row[name].isNull(), F.lit(f"{name!r} is missing")).otherwise(problem)
    broken = row.isNull() | row[_CORRUPT].isNotNull() | ~F.is_valid_utf8("value")
    return F.when(broken, F.lit(f"no JSON object with values as columns of {file.name} have them")).otherwise(problem)


def _value(name: str, kind: ColumnKind) -> Column:
    value = F.col("row")[name]
    return (value.try_cast("timestamp") if kind is ColumnKind.INSTANT else value).alias(name)
