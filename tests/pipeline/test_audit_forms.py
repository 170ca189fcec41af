"""The condition on columns means what the journal's schema means, for facts of every form, whole and spoilt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from lethe.pipeline.quality.forms import MAX_USUAL_BYTES, has_valid_form
from lethe.pipeline.quality.ranges import are_valid
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.journal_forms import KeyKind
from lethe.protocol.journal_schema import SCHEMAS, schema_problems

GOOD: Final[dict[KeyKind, Any]] = {
    KeyKind.TEXT: 'what "happened": -7',
    KeyKind.COUNT: 7,
    KeyKind.ID: -1,
    KeyKind.NUMBER: 0.25,
    KeyKind.BOOLEAN: False,
    KeyKind.RANGES: "0-3,7",
    KeyKind.REPLICAS: {"1-3": "0-3,7", "5": "0"},
    KeyKind.COUNTS: {"NONE": 3, "failed: NO_NODE": 0},
    KeyKind.TEXTS: ["a", "b"],
    KeyKind.TIME: "2026-01-02T03:04:05.678Z",
    KeyKind.TEXT_OR_NULL: None,
}
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, 1, -1, -2, 1.5, -0.5, 10**25, "", "text", "0", "0-3,7", "3,", "1-x", "7-3", "-1"),
    *("2026-01-02T03:04:05Z", "2026-01-02", [], ["a"], [1], {}, {"a": 1}, {"a": -1}, {"a": "1"}, {"a": 1.5}),
    *({"a": {"b": 1}}, {"a": None}, {"1": "0", "2-": "1"}, {"1": "0", "2": 0}, {"1": "", "": "0"}, {"-1": "0"}),
)
SUBJECTS: Final = (
    *("topic/a", "broker/1", "controller/1001", "partition/a-0", "client/User:a", "cluster"),
    *("topic/", "broker/x", "client/", ""),
)


class Case(NamedTuple):
    kind: EventRecordType
    subject: str
    data: dict[str, Any]


def cases() -> Iterator[Case]:
    for kind, schema in SCHEMAS.items():
        for form in schema.forms:
            good = {key.name: GOOD[key.kind] for key in form.keys}
            subject = next(each for each in SUBJECTS if not schema_problems(EventRecord(kind, each, good)))
            yield from (Case(kind, each, good) for each in SUBJECTS)
            yield Case(kind, subject, {**good, "unknown": {"deep": [-1]}, "also `odd`": -2, "a line\nbreak": 0})
            for key in form.keys:
                without = {name: value for name, value in good.items() if name != key.name}
                yield Case(kind, subject, without)
                yield from (Case(kind, subject, {**without, key.name: value}) for value in VALUES)


def test_a_fact_fits_where_the_schema_says_so(spark: SparkSession) -> None:
    every = list(cases())
    rows = [(number, case.kind.value, case.subject, json.dumps(case.data)) for number, case in enumerate(every)]
    frame = spark.createDataFrame(rows, "number int, type string, subject string, data string")
    for number, has_form in frame.select("number", has_valid_form()).collect():
        case = every[number]
        assert has_form == (not schema_problems(EventRecord(*case))), case


def test_lists_of_any_length_are_judged(spark: SparkSession) -> None:
    even = ",".join(str(2 * number) for number in range(20_000))
    by_broker = {str(broker): "0" for broker in range(20_000)}
    write = {"groups": 1, "operations": {"x": 1}, "first_path": "/", "fenced": True, "took_ms": 1}
    moved = {"machine": "replica", "topic_id": None, "before": "a", "after": "b"}
    usual = json.dumps({**write, "outcomes": {}}, separators=(",", ":")).replace("{}", "{%s}")
    every = [
        ("transition", "topic/a", json.dumps({**moved, "partitions": even})),
        ("transition", "topic/a", json.dumps({**moved, "replicas": by_broker})),
        ("znode-write", "controller/1", json.dumps({**write, "outcomes": dict.fromkeys(by_broker, 1)})),
        ("znode-write", "controller/1", usual % ",".join(['"":0'] * ((MAX_USUAL_BYTES - len(usual)) // 5))),
        ("znode-write", "controller/1", usual[:-1] % '"":0' + ',"took_ms":1' * 300 + "}"),
    ]
    frame = spark.createDataFrame(every, "type string, subject string, data string")
    assert [row[0] for row in frame.select(has_valid_form()).collect()] == [True] * len(every)
    ranges = spark.createDataFrame([(even,), (f"{even},",)], "ranges string")
    assert [row[0] for row in ranges.select(are_valid("ranges", 2**31 - 1)).collect()] == [True, False]


def test_what_is_no_object_or_of_no_type_fits_nothing(spark: SparkSession) -> None:
    rows = [("election", "controller/1", text) for text in ("", "{", "[]", "7", "null", None)]
    usual = '{"what":"active","epoch":1}'
    rows += [("election", "controller/1", usual.replace("}", end)) for end in (",}", ",,}", "")]
    rows.append(("novelty", "controller/1", "{}"))
    frame = spark.createDataFrame(rows, "type string, subject string, data string")
    assert {row[0] for row in frame.select(has_valid_form()).collect()} == {False}
