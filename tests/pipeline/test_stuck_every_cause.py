"""Every cause that a controller tells appears in `stuck_now`, as far as its journal tells it apart from others."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import SparkSession

from lethe.pipeline.transforms.replicas import replica_deletions
from lethe.pipeline.transforms.span_heads import span_heads
from lethe.pipeline.transforms.spans import deletion_spans
from lethe.pipeline.transforms.tenures import controller_tenures
from lethe.protocol.cause_groups import FROM_CONTROLLER, NOT_WAITED_FOR
from lethe.protocol.causes import CauseKind, sentence
from lethe.protocol.zookeeper import paths
from tests.pipeline.journals import START, Journal, events, rows_of, stuck_table

NOW: Final = datetime.datetime.fromtimestamp((START + 3_600_000) / 1000, datetime.UTC)
Write = Callable[[Journal, str, int], None]
"""Writes the history of a topic whose cause is about that broker."""


def held(code: str | None) -> Write:
    return lambda journal, topic, _: journal.phase(0, topic, "held", "id", held_by=code)


def begun(journal: Journal, topic: str, _: int) -> None:
    journal.phases(0, topic, ("queued", "started"), "id")


def asked(journal: Journal, topic: str, broker: int) -> None:
    begun(journal, topic, broker)
    journal.moved(1500, topic, broker, "DELETION_STARTED")


def answered(error: str) -> Write:
    def write(journal: Journal, topic: str, broker: int) -> None:
        begun(journal, topic, broker)
        journal.answered(1500, topic, broker, error)

    return write


def lost(what: str) -> Write:
    def write(journal: Journal, topic: str, broker: int) -> None:
        begun(journal, topic, broker)
        journal.broker(500, broker, what)
        journal.moved(1500, topic, broker, "DELETION_INELIGIBLE")

    return write


def reached(*phases: str) -> Write:
    return lambda journal, topic, _: journal.phases(0, topic, ("queued", "started", *phases), "id")


HISTORIES: Mapping[CauseKind, tuple[Write, CauseKind, str | None]] = {
    **{kind: (held(kind.held_code), kind, None) for kind in FROM_CONTROLLER if kind.held_code is not None},
    CauseKind.HALF_DELETED: (begun, CauseKind.NOT_RECORDED, None),
    CauseKind.BROKER_TO_RETURN: (lost("failed"), CauseKind.BROKER_TO_RETURN, None),
    # It has that the broker has failed, and nothing of its registration.
    CauseKind.REGISTRATION_UNREADABLE: (lost("failed"), CauseKind.BROKER_TO_RETURN, None),
    # It does not have what the deletion was ordered to do about absent brokers.
    CauseKind.CANNOT_BE_OWED: (lost("failed"), CauseKind.BROKER_TO_RETURN, None),
    CauseKind.LOG_DIRECTORY: (lost("log directory failed"), CauseKind.LOG_DIRECTORY, None),
    CauseKind.BROKER_ERROR: (answered("KAFKA_STORAGE_ERROR"), CauseKind.BROKER_ERROR, "KAFKA_STORAGE_ERROR"),
    # The journal has the error that was answered, and not what the controller made of it.
    CauseKind.BROKER_REFUSES_EPOCH: (
        answered("STALE_CONTROLLER_EPOCH"),
        CauseKind.BROKER_ERROR,
        "STALE_CONTROLLER_EPOCH",
    ),
    CauseKind.BROKER_REFUSES_CONTROLLER: (
        answered("CLUSTER_AUTHORIZATION_FAILED"),
        CauseKind.BROKER_ERROR,
        "CLUSTER_AUTHORIZATION_FAILED",
    ),
    # It has requests and answers, and nothing of listeners, of logins and of brokers that are about to go.
    CauseKind.BROKER_NOT_SPOKEN: (asked, CauseKind.ANSWER, None),
    CauseKind.BROKER_NO_ACCESS: (asked, CauseKind.ANSWER, None),
    CauseKind.BROKER_TO_FINISH_SHUTDOWN: (asked, CauseKind.ANSWER, None),
    CauseKind.ANSWER: (asked, CauseKind.ANSWER, None),
    CauseKind.OTHER_REPLICAS: (asked, CauseKind.ANSWER, None),
    CauseKind.TURN: (begun, CauseKind.NOT_RECORDED, None),
    CauseKind.TOMBSTONE_ANSWER: (reached("acknowledged"), CauseKind.TOMBSTONE_OF_SOME_BROKER, None),
    CauseKind.ZNODES: (reached("tombstoned", "acknowledged"), CauseKind.ZNODES, None),
}
"""To what `stuck_now` says of a topic with that history, and the error in it."""


def test_every_cause_is_told(spark: SparkSession) -> None:
    assert set(HISTORIES) == {kind for kind in FROM_CONTROLLER if kind not in NOT_WAITED_FOR}
    journal = Journal()
    wanted = {}
    for broker, (kind, (write, shown, detail)) in enumerate(HISTORIES.items(), 30):
        topic = kind.code
        write(journal, topic, broker)
        path = paths.topic(topic) if kind is CauseKind.READABLE_ZNODE else None
        wanted[topic] = [sentence(shown, topic, broker=broker, path=path, detail=detail)]
    bronze = events(spark, journal.lines)
    heads = span_heads(bronze)
    replicas = replica_deletions(bronze, heads)
    tenures = controller_tenures(bronze)
    rows = rows_of(stuck_table(deletion_spans(bronze, heads, replicas), replicas, tenures, now=NOW))
    assert {row["topic"]: row["reasons"] for row in rows} == wanted
    assert all(row["remedy"] for row in rows)
