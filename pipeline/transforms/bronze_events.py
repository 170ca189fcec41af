"""Lines of the journal: event records, and quarantined lines with the reason.

The result equals that of `protocol.journal.decode`, as columns. Nearly every line has the form of
`protocol.journal.encode`: one expression finds every attribute, and only its data is parsed as JSON. Every other line
is parsed as a whole, and its attributes are checked in the order of `decode`.

    line                                     result
    {"specversion":"1.0","id":...,"data":{}}  event record, by cutting
    the same with spaces or escapes           event record, by parsing
    {"specversion":"1.0","id":                quarantined: cut off

Both ways require strict JSON: UTF-8, one value and nothing after it, the last one of equal keys. Spark's parser ignores
text after a value. A line is therefore parsed as the first of two elements of an array, and the second, a hash of the
line that no line can contain, must be found again.

Quarantined although `decode` accepts them: values nested more than 997 deep; numbers of 300 digits or with three-digit
exponents; times that are ISO 8601 but not RFC 3339 (`20260102T03Z`); times with an offset on the first day of year 1 or
the last of 9999, whose UTC day a table may not have; lines with a text above 20,000,000 characters ("too long").
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline.patterns import ASCII, PLAIN
from lethe.pipeline.transforms.contract import Ingestion
from lethe.protocol.journal import SPEC_VERSION, TYPE_PREFIX, EventRecordType, LineFlaw

MAX_EXCERPT_CHARACTERS: Final = 80
MAX_QUARANTINED_CHARACTERS: Final = 10_000
LATE: Final = "later than the watermark"
"""Why the stream quarantines a valid line until the batch job ingests it."""
LOST: Final = "lost to rotation"
"""Why bytes that the stream had noticed are in no table."""
DAMAGED: Final = "a damaged file"
"""Why a compressed file was read only in part."""
TOO_LONG: Final = "too long"
"""Why a line that may be valid is in no table: Spark's parser refuses it for its length."""
UNDECIDED: Final = "undecided"
"""Why a staged line is neither kept nor quarantined: it must be parsed."""
PARSED_CHARACTERS: Final = 16_000_000
"""Characters of a line that is never refused for its length: one that cannot be parsed is no JSON. The parser takes no
string above 20,000,000 characters."""
RUN_INGESTS_IT: Final = ": `lethe pipeline run` ingests it"

_BLANK: Final = r"\A[ \t\n\r\x0B\x0C]*\z"
_OUTSIDE_CALENDAR: Final = r"0000|(?:0001-01-01|9999-12-31).*[+-]\d\d:\d\d\z"
_INSTANT: Final = rf"\A(?!{_OUTSIDE_CALENDAR})\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\z"
_HUGE_NUMBER: Final = r"[:,\[\s]-?(\d{300}|\d+(\.\d+)?[eE]\+?\d{3})"
_TYPES: Final = tuple(kind.value for kind in EventRecordType)
_NAMES: Final = ("id", "source", "type", "subject", "time")
_VALUE: Final = f"({PLAIN}+)"


def _line(kind: str, time: str, data: str) -> str:
    """Return a pattern for a line in the form of `encode`. The groups are `_PIECES`."""
    return (
        rf'(?s)\A\{{"specversion":"{re.escape(SPEC_VERSION)}","id":"{_VALUE}","source":"{_VALUE}","type":"{kind}",'
        rf'"subject":"{_VALUE}","time":"{time}","datacontenttype":"application/json","data":(\{{{data}*)\}}\z'
    )


_FORMED: Final = _line(_VALUE, _VALUE, ".")
"""Data stays as such a line has it."""
_WRITTEN_TIME: Final = r"((?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"
_WRITTEN: Final = _line(re.escape(TYPE_PREFIX) + _VALUE, _WRITTEN_TIME, ASCII)
"""The lines of this form that are found soonest: nearly all."""
_PIECES: Final = ("id", "source", "type", "subject", "time", "data")
_BETWEEN: Final = "\x01"


def parse(lines: DataFrame) -> DataFrame:
    """From (value: text, file: text), one row per line, to (value, file, source, id, time, type, subject, data, reason,
    detail). `reason` and `detail` are null for an event record, and the attributes are null for any other line. Empty
    lines are left out."""
    # Java's text of invalid UTF-8 is valid, and another one.
    is_formed = (F.col("pieces") != F.col("value")) & F.is_valid_utf8("value")
    fast = _cut(lines, _FORMED, is_formed).select("value", "file", _record_of_pieces().alias("fact"))
    whole = F.when(F.col("fact").isNull(), _strict_json(F.col("value")))
    read = fast.select("value", "file", "fact", whole.alias("document"))
    judged = read.select("value", "file", "fact", F.when(F.col("fact").isNull(), _checked_document()).alias("verdict"))
    fact = F.coalesce("fact", "verdict.fact")
    flaw = F.col("fact").isNull() & F.col("verdict.fact").isNull()
    return judged.select(
        "value",
        "file",
        *(fact.getField(name).alias(name) for name in ("source", "id", "time", "type", "subject", "data")),
        F.when(flaw, F.coalesce("verdict.reason", F.lit(LineFlaw.NOT_AN_EVENT.value))).alias("reason"),
        F.when(flaw, F.col("verdict.detail")).alias("detail"),
    )


def parse_written(lines: DataFrame) -> DataFrame:
    """From (value, file, ...) to the same with id, source, type, subject, time and data, which are null for every line
    that is not _WRITTEN. Neither the type nor the data is checked. Empty lines are left out."""
    # The pieces begin with the id. One that begins so is left to the parser.
    is_written = F.col("value").startswith("{") & ~F.col("pieces").startswith("{")
    texts = _texts()
    return (
        _cut(lines, _WRITTEN, is_written)
        .withColumns({**texts, "time": texts["time"].try_cast("timestamp")})
        .drop("pieces")
    )


def with_staging_columns(parsed: DataFrame, ingestion: Ingestion) -> DataFrame:
    """Parsed lines with `said` and `flaws` as rows with the columns of CONTROLLER_EVENTS and `kept`, so that one pass
    over the journal writes both kinds: a quarantined line is in `data`, its reason in `type`, the detail in `subject`.
    `kept` is null for UNDECIDED lines."""
    is_fact = F.col("reason").isNull()
    return parsed.select(
        *(F.when(is_fact, F.col(name)).alias(name) for name in ("source", "id", "time", "said", "flaws")),
        F.when(is_fact, F.col("type")).otherwise(F.col("reason")).alias("type"),
        F.when(is_fact, F.col("subject")).otherwise(F.col("detail")).alias("subject"),
        F.when(is_fact, F.col("data")).otherwise(F.col("value")).alias("data"),
        F.col("file").alias("_source_file"),
        *ingestion.columns(),
        F.when(is_fact, F.to_date("time")).alias("day"),
        F.when(is_fact | (F.col("reason") != UNDECIDED), is_fact).alias("kept"),
    )


def quarantine_late(parsed: DataFrame, watermark: Column) -> DataFrame:
    """Return parsed lines, with event records before the watermark (an instant) quarantined too."""
    is_late = F.col("reason").isNull() & (F.col("time") < watermark)
    detail = F.concat(_second("time"), F.lit(" is before the watermark "), _second(watermark), F.lit(RUN_INGESTS_IT))
    return parsed.withColumns(
        {
            "reason": F.when(is_late, F.lit(LATE)).otherwise(F.col("reason")),
            "detail": F.when(is_late, detail).otherwise(F.col("detail")),
        }
    )


def lines_of_ranges(ranges: DataFrame) -> DataFrame:
    """Return (value: text, file, lost) of (value: bytes, file, position, lost). A row without a value reports `lost`
    bytes of its file from `position` on."""
    gone = F.format_string("bytes %d to %d", F.col("position"), F.col("position") + F.col("lost"))
    text = F.when(F.col("value").isNull(), gone).otherwise(F.col("value").cast("string"))
    return ranges.select(text.alias("value"), "file", "lost")


def quarantine_lost(parsed: DataFrame) -> DataFrame:
    """Return parsed lines with `lost`, quarantined where bytes were lost."""
    is_lost = F.col("lost") > 0
    return parsed.withColumns(
        {
            "reason": F.when(is_lost, F.lit(LOST)).otherwise(F.col("reason")),
            "detail": F.when(is_lost, F.lit("they were removed before they were read")).otherwise(F.col("detail")),
        }
    )


def add_quarantine_rows(aside: DataFrame, more: DataFrame) -> DataFrame:
    """Return rows of QUARANTINE with further ones, of lines that were not read before."""
    return (
        aside.unionByName(more)
        .groupBy("_source_file", "line_hash")
        .agg(
            F.min("line").alias("line"),
            F.min("reason").alias("reason"),
            F.min("detail").alias("detail"),
            F.sum("copies").alias("copies"),
        )
    )


def late_day(detail: Column) -> Column:
    """The day of a line that was quarantined as late, from `detail`."""
    return F.to_date(F.substring(detail, 1, 10))


def _second(time: Column | str) -> Column:
    return F.date_format(time, "yyyy-MM-dd'T'HH:mm:ss'Z'")


def quarantine_rows(staged: DataFrame) -> DataFrame:
    """Return rows of QUARANTINE from staged rows."""
    names = {"_source_file": "file", "data": "value", "type": "reason", "subject": "detail"}
    return counted_copies(staged.where("not kept").select(*(F.col(name).alias(to) for name, to in names.items())))


def counted_copies(lines: DataFrame) -> DataFrame:
    """Return rows of QUARANTINE from (value, file, reason, detail): one for all copies of a line in a file."""
    value = F.col("value")
    first_characters = F.substring(F.make_valid_utf8(value), 1, MAX_QUARANTINED_CHARACTERS)
    return lines.groupBy(
        F.col("file").alias("_source_file"), F.sha2(F.encode(value, "utf-8"), 256).alias("line_hash")
    ).agg(
        # A late line is valid and may exist nowhere else: it is kept whole.
        F.min(F.when(F.col("reason") == LATE, value).otherwise(first_characters)).alias("line"),
        F.min("reason").alias("reason"),
        F.min("detail").alias("detail"),
        F.count(F.lit(1)).alias("copies"),
    )


# --- lines as they are written ------------------------------------------------------------------------------------


def _cut(lines: DataFrame, form: str, has_form: Column) -> DataFrame:
    """Return the lines that are not empty, with `pieces`, which is null for a line without this form. `has_form` tells
    so from `value` and from `pieces`, which then is the text that replaces the line, or the line itself."""
    value = F.col("value")
    groups = _BETWEEN.join(f"${number + 1}" for number in range(len(_PIECES)))
    found = lines.where(value.startswith("{") | ~value.rlike(_BLANK))
    cut = found.withColumn("pieces", F.regexp_replace(value, F.lit(form), F.lit(groups)))
    return cut.withColumn("pieces", F.when(has_form, F.split("pieces", _BETWEEN, len(_PIECES))))


def _texts() -> dict[str, Column]:
    return {name: F.col("pieces")[place] for place, name in enumerate(_PIECES)}


def _record_of_pieces() -> Column:
    """Return the event record of a line with exactly the usual form, else null."""
    texts = _texts()
    found = {**texts, "type": _kind(texts["type"]), "time": _instant(texts["time"])}
    is_fact = found["type"].isin(*_TYPES) & found["time"].isNotNull() & _strict_json(found["data"]).isNotNull()
    return F.when(is_fact, _record(found))


# --- all other lines ----------------------------------------------------------------------------------------------


def _strict_json(value: Column) -> Column:
    """Return a variant of two elements, the first being the JSON value of the text; null if the text is invalid."""
    mark = F.xxhash64(value)
    wrapped = F.try_parse_json(F.concat(F.lit("["), value, F.lit(","), mark.cast("string"), F.lit("]")))
    fits = F.is_valid_utf8(value) & ~value.rlike(_HUGE_NUMBER)
    second = F.try_variant_get(wrapped, "$[1]", "bigint") == mark
    only_two = F.try_variant_get(wrapped, "$[2]", "variant").isNull()
    return F.when(fits & second & only_two, wrapped)


def _checked_document() -> Column:
    """Return a struct of the event record, or of reason and detail, for a line parsed as `document`."""
    document, value = F.col("document"), F.col("value")
    texts = {name: F.try_variant_get(document, f"$[0].{name}", "string") for name in ("specversion", *_NAMES)}
    time, kind = _instant(texts["time"]), _kind(texts["type"])
    data = F.try_variant_get(document, "$[0].data", "variant")
    shape = _shape(document, "$[0]")
    data_shape = F.coalesce(_shape(document, "$[0].data"), F.lit("OBJECT<>"))
    wrong_text = F.lit(None).cast("string")
    for name in reversed(_NAMES):
        wrong = (_shape(document, f"$[0].{name}") != "STRING") | texts[name].isNull() | (texts[name] == "")
        wrong_text = F.when(wrong, F.lit(name)).otherwise(wrong_text)
    version = _shape(document, "$[0].specversion").eqNullSafe("STRING") & (texts["specversion"] == SPEC_VERSION)
    no_event = F.lit(LineFlaw.NOT_AN_EVENT.value)
    found = {**texts, "type": kind, "time": time, "data": F.coalesce(F.to_json(data), F.lit("{}"))}
    return (
        F.when(document.isNull(), _rejected(_syntax_flaw(value), _syntax_detail(value)))
        .when(
            ~shape.startswith("OBJECT"), _rejected(no_event, F.concat(F.lit("JSON, and no object: "), _excerpt(value)))
        )
        .when(~F.coalesce(version, F.lit(False)), _rejected(no_event, F.lit(f"specversion is not '{SPEC_VERSION}'")))
        .when(wrong_text.isNotNull(), _rejected(no_event, F.concat(F.lit("no text as attribute "), wrong_text)))
        .when(time.isNull(), _rejected(no_event, F.concat(F.lit("no RFC 3339 time: "), _excerpt(texts["time"]))))
        .when(~data_shape.startswith("OBJECT"), _rejected(no_event, F.lit("data is no object")))
        .when(~kind.isin(*_TYPES), _rejected(F.lit(LineFlaw.UNKNOWN_TYPE.value), _excerpt(texts["type"])))
        .otherwise(_parse_result(_record(found), None, None))
    )


def _shape(document: Column, path: str) -> Column:
    """STRING, OBJECT<...>, ...; null where there is nothing."""
    return F.schema_of_variant(F.try_variant_get(document, path, "variant"))


def _syntax_flaw(value: Column) -> Column:
    """Return whether an unparsable line was cut off or is no JSON, by its first and last characters. Of a long one that
    has both, nothing is known."""
    begun = value.rlike(r"\A[ \t\n\r\x0B\x0C]*\{")
    ended = value.rlike(r"\}[ \t\n\r\x0B\x0C]*\z")
    return (
        F.when(begun & ~ended, F.lit(LineFlaw.CUT_OFF.value))
        .when(begun & (F.length(value) > PARSED_CHARACTERS), F.lit(TOO_LONG))
        .otherwise(F.lit(LineFlaw.NOT_JSON.value))
    )


def _syntax_detail(value: Column) -> Column:
    length = F.format_number(F.length(value), 0)
    limit = f" characters, and not every line above {PARSED_CHARACTERS:,} can be parsed: it begins with "
    too_long = F.concat(length, F.lit(limit), _excerpt(value))
    is_too_long = _syntax_flaw(value) == F.lit(TOO_LONG)
    return F.when(is_too_long, too_long).otherwise(F.concat(F.lit("no JSON in "), _excerpt(value)))


def _rejected(reason: Column, detail: Column) -> Column:
    return _parse_result(None, reason, detail)


def _parse_result(fact: Column | None, reason: Column | None, detail: Column | None) -> Column:
    shape = "struct<source:string,id:string,time:timestamp,type:string,subject:string,data:string>"
    return F.struct(
        (F.lit(None).cast(shape) if fact is None else fact.cast(shape)).alias("fact"),
        (F.lit(None).cast("string") if reason is None else reason).alias("reason"),
        (F.lit(None).cast("string") if detail is None else detail).alias("detail"),
    )


# --- both ---------------------------------------------------------------------------------------------------------


def _record(attributes: dict[str, Column]) -> Column:
    names = ("source", "id", "time", "type", "subject", "data")
    return F.struct(*(attributes[name].alias(name) for name in names))


def _kind(text: Column) -> Column:
    return F.when(text.startswith(TYPE_PREFIX), F.substr(text, F.lit(len(TYPE_PREFIX) + 1))).otherwise(text)


def _instant(text: Column) -> Column:
    """Return the time in milliseconds, rounded down; null if it is invalid."""
    return F.when(text.rlike(_INSTANT), F.timestamp_millis(F.unix_millis(text.try_cast("timestamp"))))


def _excerpt(text: Column) -> Column:
    return F.substring(F.make_valid_utf8(text), 1, MAX_EXCERPT_CHARACTERS)
