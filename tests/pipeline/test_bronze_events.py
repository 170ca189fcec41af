"""Lines say in columns what `protocol.journal.decode` says they do."""

from __future__ import annotations

import datetime
import re
from typing import Any, Final

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lethe.pipeline.jobs.records import judged
from lethe.pipeline.schemas import CONTROLLER_EVENTS, QUARANTINE
from lethe.pipeline.transforms import bronze_events
from lethe.pipeline.transforms.contract import Ingestion
from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, LineFlaw, UnreadableLine, decode, encode

INGESTED_AT: Final = datetime.datetime(2026, 1, 3, tzinfo=datetime.UTC)
RFC_3339: Final = re.compile(
    r"(?!0000|(0001-01-01|9999-12-31).*[+-]\d\d:\d\d$)\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)",
    re.ASCII,
)


def parsed(spark: SparkSession, lines: list[bytes]) -> list[Any]:
    """What becomes of each line, in order."""
    frame = spark.createDataFrame(
        [(bytearray(line), f"{at:06}") for at, line in enumerate(lines)], "b binary, file string"
    )
    read = bronze_events.parse(frame.select(F.col("b").cast("string").alias("value"), "file"))
    rows = read.withColumn("time", F.unix_millis("time")).collect()
    by_line = {int(row.file): row for row in rows}
    return [by_line.get(at) for at in range(len(lines))]


def staged_rows(parsed: DataFrame) -> DataFrame:
    rows = judged(parsed, F.col("reason").isNull())
    return bronze_events.with_staging_columns(rows, Ingestion("run 1", INGESTED_AT))


def agrees(line: bytes, row: Any) -> bool:
    """Whether a row says what `decode` says; or quarantines what only `decode` takes, for one of the named reasons."""
    if not line.strip():
        return row is None
    said = decode(line)
    if isinstance(said, UnreadableLine):
        return row.reason == said.flaw.value and row.id is None and row.data is None
    if row.reason is not None:
        time = orjson.loads(line)["time"]
        offset = re.search(r"[+-](\d\d):\d\d$", time)
        return row.reason == LineFlaw.NOT_AN_EVENT.value and (
            RFC_3339.fullmatch(time) is None or (offset is not None and int(offset[1]) >= 18)
        )
    told = (row.source, row.id, row.type, row.subject, row.time)
    return told == (said.source, said.id, said.record.type.value, said.record.subject, said.time_ms) and (
        orjson.loads(row.data) == said.record.data
    )


def check(spark: SparkSession, lines: list[bytes]) -> None:
    rows = parsed(spark, lines)
    wrong = [(line, decode(line), row) for line, row in zip(lines, rows, strict=True) if not agrees(line, row)]
    assert not wrong, "\n".join(map(str, wrong))


GOOD: Final = encode(
    JournalEntry(
        "a-1", "/lethe/controller/1", 1767323045678, EventRecord(EventRecordType.EVENT, "controller/1", {"n": 1})
    )
)


def line(**attributes: object) -> bytes:
    """A line with other attributes; None leaves one out."""
    document = {**orjson.loads(GOOD), **attributes}
    return orjson.dumps({name: value for name, value in document.items() if value is not None})


def with_data(data: bytes) -> bytes:
    return GOOD.rstrip().removesuffix(b'{"n":1}}') + data + b"}"


DATA: Final = [
    *(b"{}", b"[]", b"null", b"1", b'"x"', b'"{}"', b"{ }", b'{"a":1,"a":2}', b'{"a":1}}', b'{"a":1}x', b'{"a":1},7]'),
    *(b'{"a":1}],7]', b'{"a":1},"b":2', b'{"a":1},"id":"b"', b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":1e999}'),
    *(b'{"a":01}', b'{"a":.5}', b'{"a":1.0,"b":-0.0,"c":1e5}', b'{"a":123456789012345678901234567890}'),
    *(b'{"a":18446744073709551616}', b'{"a":"\\ud800"}', b'{"a":"\\ud83d\\ude00"}', b'{"a":"\\u0000"}', b'{"a":"\\x"}'),
    *(b'{"a":"\t"}', b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\xc3\xa4"}', b"{'a':1}", b"{a:1}", b'{"a":1,}'),
    *(b'{"a":1/**/}', b'{"a":tru}', b'{"a":[1,{"b":null}]}', b'{"a":12345678901234567.123456789}', b'{"a":0.1}', b'{"'),
    *(b'{"a":1}\t', b'{"a":1}\x0c', b'{"a":1}\xc2\xa0', b'{"a":"x1e999 999999"}', b"{}\n{}", b"{}\r", b'{"":{"":""}}'),
]
TIMES: Final = [
    *("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.6789Z", "2026-01-02T03:04:05.123456789Z", "2026-01-02 03:04:05Z"),
    *(
        "2026-01-02T03:04:05.678+02:00",
        "2026-01-02T03:04:05.678-00:00",
        "2026-01-02T03:04:05+17:59",
        "1969-12-31T23:59:59.9999Z",
    ),
    *(
        "2026-01-02T03:04:05+23:59",
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05",
        "2026-01-02",
        "2026-02-30T00:00:00Z",
    ),
    *(
        "2026-01-02T24:00:00Z",
        "2026-01-02T23:59:60Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999Z",
    ),
    *(
        "20260102T030405Z",
        "2026-W01-1T00:00:00Z",
        "2026-01-02T03:04Z",
        "2026-01-02T03:04:05,5Z",
        "2026-01-02T03:04:05z",
    ),
    *(
        "2026-01-02T03:04:05+02:00:30",
        "2026-01-02T03:04:05 +02:00",
        " 2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05Z ",
        "x",
    ),
    *("2026-01-02T03:04:05Z[UTC]", "10000-01-01T00:00:00Z", "\u0662026-01-02T03:04:05Z", "2026-01-02T03:04:05.Z"),
]
ODD: Final = [
    *(
        b"",
        b" ",
        b"\t\r",
        b"\x1c",
        b"\xc2\xa0",
        b"{",
        b"{}",
        b" {",
        b"null",
        b"1",
        b"[]",
        b'"x"',
        b"{} {}",
        b"nonsense",
        b"\xff",
    ),
    *(
        b"\xef\xbb\xbf" + GOOD,
        GOOD,
        GOOD.rstrip(),
        b" " + GOOD,
        GOOD.rstrip() + b" \r",
        GOOD * 2,
        GOOD.rstrip() + b",7]",
    ),
    *(GOOD[:cut] for cut in range(0, len(GOOD), 9)),
    *(with_data(data) for data in DATA),
    *(line(time=time) for time in TIMES),
    *(
        line(**{name: value})
        for name in ("id", "source", "type", "subject", "time", "specversion", "data")
        for value in (None, "", 1, 1.0, True, [], {}, ["a"], {"a": 1}, 'ä"\\\n', "1.0")
    ),
    *(
        line(type=kind)
        for kind in ("election", "lethe.election", "lethe.lethe.election", "lethe.", "LETHE.election", "lethe.event ")
    ),
    *(
        GOOD.replace(b'"data"', b'"d\\u0061ta"'),
        GOOD.replace(b'"a-1"', b'"a\\u002d1"'),
        GOOD.replace(b'"a-1"', b"null"),
    ),
    *(
        GOOD.replace(b'"id":', b'"id":"first","id":'),
        GOOD.replace(b",", b" , "),
        line(more={"x": [1]}, datacontenttype=7),
    ),
    *(b"[" * depth + b"]" * depth for depth in (3, 900, 2000)),
]


def test_odd_lines_are_judged_as_decode_judges_them(spark: SparkSession) -> None:
    check(spark, ODD)


MUTATED = st.tuples(
    st.sampled_from([GOOD.rstrip(), line(data={"a": ["x", None, 1.5, {"b": "ä\n"}]}), line(id='q"'), with_data(b"{}")]),
    st.lists(
        st.tuples(
            st.integers(0, 260),
            st.integers(0, 4),
            st.sampled_from([*b'{}[]",:\\ \n\r\t0179-+.eEZTnulltrufas/x\x00\x1f\x7f\x80\xc3\xa4\xed\xff']),
        ),
        max_size=4,
    ),
)


@st.composite
def lines_of_all_kinds(draw: st.DrawFn) -> bytes:
    if draw(st.integers(0, 4)) == 0:
        return draw(st.binary(max_size=60)).replace(b"\n", b"")
    whole, edits = draw(MUTATED)
    text = bytearray(whole)
    for at, removed, letter in edits:
        place = at % (len(text) + 1)
        text[place : place + removed] = bytes([letter])
    return bytes(text)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(lines=st.lists(lines_of_all_kinds(), min_size=60, max_size=150))
def test_any_line_is_judged_as_decode_judges_it(spark: SparkSession, lines: list[bytes]) -> None:
    check(spark, lines)


def test_times_that_are_of_no_day_in_utc_are_set_aside(spark: SparkSession) -> None:
    first = ["0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-01:00"]
    inside = ["0001-01-01T00:00:00Z", "0001-01-02T00:00:00+17:59", "9999-12-30T23:59:59-17:59"]
    rows = parsed(spark, [line(time=time) for time in (*first, *inside)])
    assert [row.reason for row in rows] == [LineFlaw.NOT_AN_EVENT.value] * 2 + [None] * 3


def test_facts_and_lines_set_aside_have_the_columns_of_their_tables(spark: SparkSession) -> None:
    rows = [
        (GOOD.decode().rstrip(), "file:/a"),
        ("{x", "file:/a"),
        ("{x", "file:/a"),
        ("{x", "file:/b"),
        ("", "file:/b"),
    ]
    read = bronze_events.parse(spark.createDataFrame(rows, "value string, file string"))
    staged = staged_rows(read)
    facts = staged.where("kept").drop("kept")
    assert set(facts.schema.names) == set(CONTROLLER_EVENTS.names)
    (fact,) = facts.collect()
    assert (fact.id, fact.type, fact.data, fact.day) == ("a-1", "event", '{"n":1}', datetime.date(2026, 1, 2))
    assert (fact._source_file, fact._batch_id) == ("file:/a", "run 1")
    # Spark gives instants in the machine's time, and does not say so.
    assert fact._ingested_at.astimezone(datetime.UTC) == INGESTED_AT
    aside = bronze_events.quarantine_rows(staged)
    assert aside.schema.names == QUARANTINE.names
    found = sorted((row._source_file, row.line, row.reason, row.copies) for row in aside.collect())
    assert found == [("file:/a", "{x", "cut off", 2), ("file:/b", "{x", "cut off", 1)]


@pytest.mark.parametrize("line_of", [b"\xff" * 10, b"x" * 20_000])
def test_what_is_kept_of_a_line_can_be_shown(spark: SparkSession, line_of: bytes) -> None:
    frame = spark.createDataFrame([(bytearray(line_of), "f")], "b binary, file string")
    read = bronze_events.parse(frame.select(F.col("b").cast("string").alias("value"), "file"))
    staged = staged_rows(read)
    (row,) = bronze_events.quarantine_rows(staged).collect()
    assert len(row.line) == min(len(line_of), 10_000)
    assert row.reason == "not JSON"


LONG: Final = 20_000_100
"""Characters of a string that Spark's parser refuses."""


@pytest.mark.parametrize(
    "end, reason",
    [('"}}', "too long"), ('"}', "too long"), ("", "cut off")],
    ids=["valid", "invalid", "cut off"],
)
def test_of_a_long_line_it_is_not_said_that_it_is_no_json(spark: SparkSession, end: str, reason: str) -> None:
    entry = JournalEntry("a-1", "/lethe/controller/1", 0, EventRecord(EventRecordType.BROKER, "broker/1", {}))
    begin, _, _ = encode(entry).decode().partition('"data":')
    line = f'{begin}"data":{{"x":"{"a" * LONG}{end}'
    read = bronze_events.parse(spark.createDataFrame([(line, "f")], "value string, file string"))
    (row,) = read.select("reason", "detail", "id").collect()
    assert (row.reason, row.id) == (reason, None)
    assert len(row.detail) < 300
    assert (f"{len(begin) + LONG + len(end) + 13:,} characters" in row.detail) == (reason == "too long")


def test_a_short_line_that_cannot_be_parsed_is_no_json(spark: SparkSession) -> None:
    (row,) = parsed(spark, [b'{"specversion":}'])
    assert row.reason == "not JSON"
