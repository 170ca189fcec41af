"""The worked examples of `span_heads` and `waits`, computed from journals with these event records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pyspark.sql import SparkSession

from lethe.pipeline.transforms import span_heads, waits
from lethe.pipeline.transforms.journal_records import phase_records
from lethe.pipeline.transforms.replicas import replica_deletions
from lethe.protocol.journal import time_to_text
from tests.pipeline.journals import START, Journal, events, rows_of

STATES: Final = {"ineligible": "DELETION_INELIGIBLE", "asked": "DELETION_STARTED"}


def table(doc: str | None, header: str) -> Iterator[list[str]]:
    """Yield the cells of the rows below the header, which two spaces or more separate."""
    _, _, body = (doc or "").partition(header)
    for line in body.splitlines()[1:]:
        if line and not line.startswith("    "):
            return
        if line.strip():
            yield re.split(r"\s{2,}", line.strip())


def test_every_record_of_the_example_belongs_to_the_span_that_it_names(spark: SparkSession) -> None:
    journal, wanted, outcomes = Journal(), [], {}
    for second, writer, phase, topic_id, span, *why in table(span_heads.__doc__, "    s    writer  phase"):
        wanted.append((at(int(second)), phase, *span.split()))
        if why != ["a name has one topic, so C is gone too"]:
            journal.phase(int(second) * 1000, "orders", phase, None if topic_id == "-" else topic_id, by=int(writer))
    records = phase_records(events(spark, journal.lines))
    spans = records.transform(span_heads._with_inferred_ids).transform(span_heads._with_span_numbers)
    found = [(row["at"], row["phase"], row["id_key"] or "-", str(row["span"])) for row in rows_of(spans)]
    assert sorted(found) == sorted(wanted)
    for said in re.findall(r"([ABC-] \d) ([a-z ]+)[,.]", (span_heads.__doc__ or "").partition("Outcomes: ")[2]):
        outcomes[said[0]] = said[1]
    heads = rows_of(span_heads.span_heads(events(spark, journal.lines)))
    assert {f"{row['id_key'] or '-'} {row['span']}": row["outcome"] for row in heads} == outcomes


def test_every_wait_of_the_example_has_the_reason_that_it_names(spark: SparkSession) -> None:
    journal, wanted = Journal(), {}
    journal.phases(0, "orders", ("queued", "started"))
    for broker, history, replicas, wait, reason, *_ in table(waits.__doc__, "    broker  history"):
        for said in history.split(", ") if history != "none" else ():
            second, what = said.split(maxsplit=1)
            journal.broker(
                int(second) * 1000, int(broker), "log directory failed" if what == "directory failed" else what
            )
        for said in replicas.split(", "):
            second, what = said.split()
            if what in STATES:
                journal.moved(int(second) * 1000, "orders", int(broker), STATES[what])
            else:
                journal.answered(int(second) * 1000, "orders", int(broker), "NONE" if what == "acked" else what)
        until = None if wait == "lasts" else at(int(wait.partition("-")[2]))
        wanted[int(broker)] = (until, reason)
    journal.lines.sort(key=lambda line: line.time_ms)
    made = events(spark, journal.lines)
    found = rows_of(waits.waits(replica_deletions(made, span_heads.span_heads(made)), made))
    assert {row["broker"]: (row["wait"].get("until"), row["wait"]["reason"]) for row in found} == wanted


def at(second: int) -> str:
    return time_to_text(START + 1000 * second)
