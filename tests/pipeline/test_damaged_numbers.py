"""A line with a number that cannot be true spoils itself, and neither a sum nor a run over the journal."""

from __future__ import annotations

from typing import Final

import orjson
from pyspark.sql import SparkSession

from lethe.pipeline.schemas import AGENT_INVENTORY, ZNODE_SNAPSHOT
from lethe.pipeline.transforms import bronze_surveys
from lethe.pipeline.transforms.reclaim import daily_reclaim
from lethe.pipeline.transforms.tenures import controller_tenures
from lethe.protocol.journal import time_from_text
from lethe.protocol.survey_records import DIRECTORIES, ZNODES
from tests.pipeline.journals import START, Journal, events

HUGE: Final = 2**63 - 1
YEAR_1_MS: Final = time_from_text("0001-01-01T00:00:01Z") - START


def test_a_tenure_that_would_have_begun_before_all_time_begins_with_its_first_line(spark: SparkSession) -> None:
    journal = Journal()
    for epoch, at, loading_ms in ((1, 0, HUGE), (2, 1000, -HUGE), (3, 2000, 500), (4, YEAR_1_MS, 5000)):
        source = f"controller/{epoch}"
        journal.line(at, f"/lethe/{source}", "election", source, what="active", epoch=epoch, loading_ms=loading_ms)
    found = controller_tenures(events(spark, journal.lines)).selectExpr(
        "epoch", "unix_millis(elected_at) ms", "loading_ms"
    )
    assert sorted((row.epoch, row.ms - START, row.loading_ms) for row in found.collect()) == [
        (1, 0, None),
        (2, 1000, None),
        (3, 1500, 500),
        (4, YEAR_1_MS, 5000),
    ]


def test_bytes_that_no_disk_has_are_not_added_up(spark: SparkSession) -> None:
    journal = Journal()
    for size_bytes in (9 * 10**18, 9 * 10**18, -1, 700):
        said = {"log_dir": "/d", "topic": "t", "partitions": "0", "files": HUGE, "error": None}
        journal.line(0, "/lethe/broker/1", "bytes-freed", "broker/1", directories=1, size_bytes=size_bytes, **said)
    (row,) = daily_reclaim(events(spark, journal.lines)).collect()
    assert (row.size_bytes, row.files, row.directories) == (700, 0, 4)


def test_a_row_of_a_survey_with_a_size_that_no_directory_has_is_set_aside(spark: SparkSession) -> None:
    of = {"survey_id": "s", "taken_at": "2026-01-02T00:00:00.000Z", "kind": "log-dir", "broker": 1, "log_dir": "/d"}
    lines = [orjson.dumps({**of, "size_bytes": size}).decode() for size in (2**50, 0, None, 9 * 10**18, -10)]
    frame = spark.createDataFrame([(line, "f") for line in lines], "value string, file string")
    parsed = bronze_surveys.parse(frame, DIRECTORIES, AGENT_INVENTORY)
    details = {row.value: row.detail for row in parsed.select("value", "detail").collect()}
    wrong = "'size_bytes' is not what any directory has"
    assert [details[line] for line in lines] == [None, None, None, wrong, wrong]


PARTITION: Final = {"kind": "partition", "topic": "t", "partition": 0, "replicas": [1, 2], "isr": [], "leader": -1}
REASSIGNMENT: Final = {"kind": "reassignment", "topic": "t", "partition": 0}
NO_BROKERS: Final = "'{}' is not a list of different brokers"


def test_a_row_of_a_survey_with_a_value_that_nothing_has_is_set_aside(spark: SparkSession) -> None:
    cases: list[tuple[dict[str, object], str | None]] = [
        (PARTITION, None),
        ({**PARTITION, "replicas": [1, 1]}, NO_BROKERS.format("replicas")),
        ({**PARTITION, "adding": [-1]}, NO_BROKERS.format("adding")),
        ({**PARTITION, "isr": [None]}, NO_BROKERS.format("isr")),
        ({**PARTITION, "partition": -1}, "'partition' is not the number of a partition"),
        # As the znode has it, whatever somebody wrote there.
        ({**REASSIGNMENT, "replicas": [1, 1, -1]}, None),
        ({**REASSIGNMENT, "replicas": [None]}, NO_BROKERS.format("replicas")),
        ({"kind": "broker", "broker": 0}, None),
        ({"kind": "broker", "broker": -1}, "'broker' is not the number of a broker"),
        ({"kind": "nonsense"}, "'kind' is not a kind of row that znodes.jsonl has"),
        ({"kind": None}, "'kind' is missing"),
    ]
    of = {"survey_id": "s", "taken_at": "2026-01-02T00:00:00.000Z"}
    lines = [orjson.dumps({**of, **row}).decode() for row, _ in cases]
    frame = spark.createDataFrame([(line, "f") for line in lines], "value string, file string")
    parsed = bronze_surveys.parse(frame, ZNODES, ZNODE_SNAPSHOT)
    details = {row.value: row.detail for row in parsed.select("value", "detail").collect()}
    assert [details[line] for line in lines] == [detail for _, detail in cases]
