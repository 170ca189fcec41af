"""Topics that wait for the same are one row."""

from __future__ import annotations

from lethe.controller.runtime.board.document import Row
from lethe.controller.runtime.board.groups import Groups
from lethe.controller.runtime.board.state import Phase
from lethe.protocol.causes import CauseKind


def add(groups: Groups, kind: CauseKind, broker: int | None = None, note: str = "why", since_ms: int = 5) -> int:
    row: Row = {"cause": kind.name, "broker": broker, "note": note, "waits": True, "since_ms": since_ms, "replicas": 4}
    return groups.add(row)[1]


def test_topics_of_one_cause_and_broker_are_one_row() -> None:
    groups = Groups(Phase.STARTED)
    assert [add(groups, CauseKind.BROKER_TO_RETURN, 3, since_ms=since_ms) for since_ms in (9, 7, 8)] == [1, 2, 3]
    assert groups.rows(at_least=False) == {
        "started BROKER_TO_RETURN 3": {
            "phase": "started",
            "cause": "BROKER_TO_RETURN",
            "broker": 3,
            "note": "waits for broker 3, which is not registered in ZooKeeper",
            "waits": True,
            "topics": 3,
            "replicas": 12,
            "since_ms": 7,
            "at_least": False,
        }
    }


def test_another_broker_or_cause_is_another_group_and_two_topics_are_none() -> None:
    groups = Groups(Phase.STARTED)
    for broker in (3, 3, 4, 4):
        add(groups, CauseKind.BROKER_TO_RETURN, broker)
        add(groups, CauseKind.LOG_DIRECTORY, broker)
    assert groups.rows(at_least=False) == {}
    add(groups, CauseKind.LOG_DIRECTORY, 4)
    assert list(groups.rows(at_least=False)) == ["started LOG_DIRECTORY 4"]


def test_a_group_says_nothing_that_is_true_of_one_topic_only() -> None:
    groups = Groups(Phase.HELD)
    for error in ("not JSON: a", "not JSON: b", "no version"):
        add(groups, CauseKind.READABLE_ZNODE, note=error)
    (row,) = groups.rows(at_least=True).values()
    assert row["note"] == "out of service, waits for its znode to be readable"
    assert (row["broker"], row["at_least"]) == (None, True)


def test_a_topic_that_nothing_is_in_the_way_of_is_in_no_group() -> None:
    groups = Groups(Phase.STARTED)
    row: Row = {"cause": "ANSWER", "broker": 3, "note": None, "waits": False, "since_ms": 1, "replicas": 1}
    assert groups.add(row) == (None, 0)
