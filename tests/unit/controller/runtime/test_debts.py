"""Debts in `/state` and in the metrics, from a controller that owes."""

from __future__ import annotations

import json
from typing import Any

from lethe.controller.core.gauges import OpenDebts, gauges
from lethe.controller.runtime.debts import debts_document, debts_summary
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ZkError
from tests.fakes.one_controller import OneController
from tests.scenarios.test_debts_paid import answering, back, owing


def document(world: OneController) -> Any:
    return json.loads(json.dumps(debts_document(world.context)))


def test_an_open_debt_is_shown_with_what_is_known_of_it() -> None:
    world = owing()
    shown = document(world)
    assert (shown["open"], shown["unreadable"], shown["forgotten_brokers"]) == (1, [], [])
    (row,) = shown["debts"]
    assert (row["broker"], row["topic"], row["partitions"], row["is_asked"]) == (3, "orders", "0", False)
    assert (row["since_ms"], row["size_bytes"], row["last_error"]) == (world.now_ms, None, None)
    assert gauges(world.context).debts == {BrokerId(3): OpenDebts(1, None, world.now_ms)}


def test_a_debt_that_is_tried_again_says_why_and_when() -> None:
    world = owing()
    world.answer = answering(ErrorCode.KAFKA_STORAGE_ERROR, to_compare=True)
    back(world)
    (row,) = document(world)["debts"]
    assert (row["last_error"], row["attempts"]) == ("KAFKA_STORAGE_ERROR", 1)
    assert row["next_try_ms"] > world.now_ms


def test_nothing_is_shown_when_it_is_paid() -> None:
    world = owing()
    back(world)
    assert document(world) == {"open": 0, "debts": [], "unreadable": [], "forgotten_brokers": []}
    assert gauges(world.context).debts == {}
    assert debts_summary(world.context) is None


def test_debts_that_cannot_be_read_are_counted() -> None:
    world = owing()
    since_ms = world.now_ms
    world.crash()
    world.refusals[paths.debts_of(3)] = ZkError.NO_AUTH
    world.elect()
    nothing_known = {"open": 0, "brokers": [], "size_bytes": 0, "since_ms": None, "unreadable_count": 1}
    assert debts_summary(world.context) == nothing_known
    assert [each["path"] for each in document(world)["unreadable"]] == [paths.debts_of(3)]
    shown = gauges(world.context)
    assert (shown.debts, shown.unreadable_debts) == ({}, 1)
    world.crash()
    world.refusals.clear()
    world.elect()
    known = {"open": 1, "brokers": [3], "size_bytes": 0, "since_ms": since_ms, "unreadable_count": 0}
    assert debts_summary(world.context) == known
    assert gauges(world.context).unreadable_debts == 0
