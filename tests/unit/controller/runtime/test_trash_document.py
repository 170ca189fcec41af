"""The trash in `/state`, on the board and in the metrics, from a controller that keeps one."""

from __future__ import annotations

import json
from typing import Any

from lethe.controller.core.gauges import gauges
from lethe.controller.core.trash_view import TrashSummary
from lethe.controller.runtime.trash_document import trash_document, trash_summary
from lethe.protocol.kafka.group_offsets import CommittedOffset
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, ZkError
from lethe.protocol.zookeeper.znodes import TrashPhase
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, with_topic
from tests.scenarios.test_pause import pause
from tests.scenarios.test_trash import DAY_MS, FREEZE_MS, mark, trashed
from tests.scenarios.test_trash_disks import MINUTE_MS, SIZE, TOTAL, Disks, trash, wait
from tests.scenarios.test_undelete_marked import request


def document(world: OneController) -> Any:
    return json.loads(json.dumps(trash_document(world.context)))


def test_what_is_in_the_trash_with_its_bytes_and_what_gives_way() -> None:
    disks = Disks()
    world = trash(disks, a=(1, 2), b=(1, 2))
    since_ms = {name: found.entry.since_ms for name, found in world.context.cluster.trash.topics.items()}
    shown = document(world)
    (first, second) = shown["topics"]
    assert (first["topic"], first["phase"], first["partitions"]) == ("a", "trashed", 1)
    assert (first["size_bytes"], first["unseen_brokers"], first["last_error"]) == (2 * SIZE, [], None)
    assert second["next_step_ms"] == since_ms["b"] + DAY_MS
    assert (shown["full_disks"], shown["unseen_disks"], shown["gives_way_next"]) == ([], [], None)
    assert gauges(world.context).trash == TrashSummary({TrashPhase.TRASHED: 2}, 4 * SIZE, since_ms["a"] + DAY_MS)
    disks.usable[1] = 50
    wait(world, MINUTE_MS)
    shown = document(world)
    assert [each["topic"] for each in shown["topics"]] == ["b"]
    (full,) = shown["full_disks"]
    assert (full["broker"], full["path"], full["usable_bytes"], full["total_bytes"]) == (1, "/d", 50, TOTAL)
    assert (shown["gives_way_next"], shown["giving_way"]["topic"], shown["giving_way"]["path"]) == ("b", "a", "/d")
    assert gauges(world.context).trash.full_disks == 1


def test_bytes_that_no_broker_has_told_are_unknown() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    for broker in (1, 2):
        world.silent[broker] = None
    trashed(world)
    (row,) = document(world)["topics"]
    assert (row["size_bytes"], row["unseen_brokers"]) == (None, [1, 2])


def test_pause_with_its_reason() -> None:
    world = trashed()
    assert document(world)["paused"] is None
    pause(world)
    assert document(world)["paused"] == "a disk is being replaced"


def test_what_is_waited_for_on_the_way_in_and_out() -> None:
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (1,))
    with_topic(world, "orders", (1, 2))
    world.groups.commit("readers", "orders", 0, 42)
    world.groups.problem = "broker 1 does not answer"
    mark(world, "orders")
    world.advance(FREEZE_MS)
    (row,) = document(world)["topics"]
    assert (row["phase"], row["last_error"]) == ("freezing", "offsets of consumer groups: broker 1 does not answer")
    world.groups.problem = None
    world.advance(FREEZE_MS)
    world.groups.with_members["readers"] = None
    request(world, "orders")
    (row,) = document(world)["topics"]
    assert row["phase"] == "offsets"
    assert list(row["groups_left"]) == ["readers"]
    assert world.groups.committed.get("orders", {}).get("readers") != {0: CommittedOffset(42)}


def test_entry_that_cannot_be_understood_is_no_empty_trash() -> None:
    world = cluster()
    world.crash()
    world.write(Create(paths.LETHE, None), Create(paths.trash(), None), Create(paths.trashed("orders"), b"?"))
    world.elect()
    found = trash_summary(world.context)
    assert isinstance(found, dict)
    assert (found["unreadable_count"], found["unseen"], found["counts"]) == (1, None, dict.fromkeys(TrashPhase, 0))
    assert [each["topic"] for each in document(world)["unreadable"]] == ["orders"]
    shown = gauges(world.context)
    assert (shown.unreadable_trash, shown.trash_unseen) == (1, 0)


def test_trash_that_cannot_be_listed_is_no_empty_trash() -> None:
    world = cluster()
    world.crash()
    world.refusals[paths.trash()] = ZkError.NO_AUTH
    world.elect()
    found = trash_summary(world.context)
    assert isinstance(found, dict)
    assert found["unseen"] == document(world)["unseen"] == f"reading /lethe/trash failed with {NO_AUTH}"
    shown = gauges(world.context)
    assert (shown.unreadable_trash, shown.trash_unseen) == (0, 1)


def test_empty_trash() -> None:
    world = cluster()
    assert trash_summary(world.context) is None
    assert document(world)["topics"] == []
