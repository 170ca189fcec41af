"""The board's memory, fed with event records."""

import re
from importlib.resources import files
from typing import get_args

from lethe.controller.runtime.board.state import GOING_ON, MAX_DONE, MAX_HISTORY, BoardState, HistoryKind, Phase
from lethe.protocol.journal import EventRecord, EventRecordType, JsonValue
from lethe.protocol.journal_trash import GAVE_WAY, TRASHED
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from tests.fakes.one_controller import OneController


def phase(topic: str, what: str, **data: JsonValue) -> EventRecord:
    values: dict[str, JsonValue] = {"phase": what, "took_ms": 5, "partitions": 2, "replicas": 6, **data}
    return EventRecord(EventRecordType.DELETION_PHASE, f"topic/{topic}", values)


def election(what: str, **data: JsonValue) -> EventRecord:
    return EventRecord(EventRecordType.ELECTION, "controller/1001", {"what": what, "epoch": 7, **data})


def counts(board: BoardState) -> dict[str, int]:
    return {each.value: board.count(each) for each in Phase if board.count(each)}


def test_a_topic_goes_through_the_columns() -> None:
    board = BoardState(1001)
    seen = []
    for at_ms, what in enumerate(("held", "queued", "started", "acknowledged", "tombstoned", "removed", "done")):
        board.note(phase("orders", what), at_ms)
        seen.append(counts(board))
    assert [next(iter(each)) for each in seen] == [
        "held",
        "queued",
        "started",
        "acknowledged",
        "removing",
        "removing",
        "done",
    ]
    assert all(sum(each.values()) == 1 for each in seen)
    (done,) = board.column(Phase.DONE, 10)
    assert (done.topic, done.since_ms, done.phase_ms, done.partitions, done.replicas) == ("orders", 0, 6, 2, 6)


def test_the_cache_may_let_go_before_the_last_replica_does() -> None:
    board = BoardState(1001)
    for what in ("queued", "started", "tombstoned"):
        board.note(phase("orders", what), 1)
    assert counts(board) == {"started": 1}
    board.note(phase("orders", "acknowledged"), 2)
    assert counts(board) == {"removing": 1}


def test_columns_show_first_who_has_been_there_longest_and_the_latest_of_what_is_done() -> None:
    board = BoardState(1001)
    for number in range(5):
        board.note(phase(f"t{number}", "queued"), number)
    for number in (3, 1):
        board.note(phase(f"t{number}", "started"), 10)
    assert [each.topic for each in board.column(Phase.QUEUED, 2)] == ["t0", "t2"]
    assert board.names(Phase.STARTED) == ["t3", "t1"]
    for number in (0, 2):
        board.note(phase(f"t{number}", "done"), 20)
    assert board.names(Phase.DONE) == ["t2", "t0"]


def test_what_is_let_go_of_or_has_vanished_is_in_no_column() -> None:
    board = BoardState(1001)
    for topic in ("a", "b"):
        board.note(phase(topic, "held", held_by="PAUSED"), 1)
    board.note(phase("a", "let go"), 2)
    board.note(phase("b", "vanished"), 3)
    board.note(phase("never seen", "vanished"), 4)
    assert counts(board) == {}
    lines = [(line.kind, line.subject) for line in board.history]
    assert lines == [("held", "topic/b"), ("let go", "topic/a"), ("vanished", "topic/never seen")]


def test_rings_are_bounded_and_alike_lines_are_one() -> None:
    board = BoardState(1001)
    for number in range(MAX_DONE + 50):
        board.note(phase(f"t{number}", "done"), number)
    assert (board.count(Phase.DONE), len(board.names(Phase.DONE))) == (MAX_DONE + 50, MAX_DONE)
    (line,) = board.history
    assert (line.kind, line.count, line.subject) == ("deleted", MAX_DONE + 50, f"topic/t{MAX_DONE + 49}")
    for number in range(MAX_HISTORY + 20):
        board.note(EventRecord(EventRecordType.REFUSAL, "topic/x", {"what": "this", "why": f"reason {number}"}), number)
    assert len(board.history) == MAX_HISTORY
    assert board.history[-1].why == f"reason {MAX_HISTORY + 19}"


def test_long_texts_are_cut_and_odd_facts_do_no_harm() -> None:
    board = BoardState(1001)
    board.note(EventRecord(EventRecordType.REFUSAL, "x" * 5000, {"what": "w" * 5000, "why": None}), 1)
    board.note(EventRecord(EventRecordType.DELETION_PHASE, "topic/odd", {"phase": ["a"], "replicas": "many"}), 1)
    board.note(EventRecord(EventRecordType.DELETION_PHASE, "topic/odd", {"phase": "queued", "replicas": "many"}), 1)
    board.note(EventRecord(EventRecordType.ELECTION, "controller/1001", {"what": 3, "epoch": "x"}), 1)
    assert all(len(each) <= 300 for line in board.history for each in (line.subject, line.what))
    assert board.column(Phase.QUEUED, 1)[0].replicas == 0


def test_tenures_of_ours_and_of_others() -> None:
    board = BoardState(1001)
    board.note_active(1002, 5)
    board.note(election("elected"), 10)
    board.note(election("active"), 12)
    board.note(phase("orders", "queued"), 13)
    board.note(phase("bills", "done"), 14)
    board.note(election("resigned", reason="asked to"), 20)
    board.note_active(-1, 21)
    board.note_active(1002, 25)
    found = [(t.controller, t.epoch, t.since_ms, t.active_ms, t.until_ms, t.reason) for t in board.terms]
    assert found == [
        (1002, None, 5, None, 10, None),
        (1001, 7, 10, 12, 20, "asked to"),
        (1002, None, 25, None, None, None),
    ]
    assert counts(board) == {"done": 1}
    board.note(election("elected"), 30)
    assert counts(board) == {}
    assert board.column(Phase.DONE, 10) == [], "a count of those of this tenure, over those of this tenure"


def test_the_columns_agree_with_a_core_at_work() -> None:
    world = OneController()
    for broker in (1, 2):
        world.start_broker(broker)
    world.elect()
    for number in range(6):
        world.create_topic(f"t{number}", (1, 2 if number % 2 else 3))
    world.run()
    for number in range(6):
        world.mark(f"t{number}")
    world.run()
    board = BoardState(1000)
    for record in world.records:
        board.note(record, world.now_ms)
    going = {name for each in GOING_ON for name in board.names(each)}
    assert going == set(world.context.cluster.deletions) == {"t0", "t2", "t4"}
    assert counts(board) == {"started": 3, "done": 3}
    assert world.context.cluster.waiting_replicas == {3: 3}


def test_the_columns_forget_whatever_somebody_else_removed() -> None:
    """However many there are: nobody looks them up one by one."""
    world, board = OneController(), BoardState(1000)
    world.start_broker(1)
    world.elect()
    names = [f"t{number:03}" for number in range(100)]
    for name in names:
        world.create_topic(name, (1, 3))
    world.create_topic("held", (1,))
    world.run()
    for name in names:
        world.mark(name)
    world.run()
    world.write(Create(paths.lethe(), None), Create(paths.deletions_paused(), b""))
    world.mark("held")
    world.run()
    world.advance(10)
    for name in ("t070", "t099", "held"):
        topic = paths.topic(name)
        world.write(*(Delete(f"{topic}{rest}") for rest in ("/partitions/0/state", "/partitions/0", "/partitions", "")))
    world.run()
    world.advance(10)
    for record in world.records:
        board.note(record, world.now_ms)
    assert counts(board) == {"started": 98}
    assert len(world.context.cluster.deletions) == 98
    assert not {"t070", "t099", "held"} & set(board.names(Phase.STARTED))
    assert ("vanished", 3) in [(line.kind, line.count) for line in board.history]


def test_the_page_colours_only_kinds_of_history_that_there_are() -> None:
    """parts.js makes the class from the kind; a class of another name would colour nothing."""
    style = (files("lethe.controller.runtime.board") / "page.css").read_text()
    coloured = set(re.findall(r"\.kind-([a-z-]+)", style))
    assert {"quarantined", "deleted"} <= coloured <= {re.sub("[^a-z]", "-", kind) for kind in get_args(HistoryKind)}


def test_trash_and_debts_are_lines_of_history() -> None:
    board = BoardState(1001)
    board.note(EventRecord(EventRecordType.EVENT, "topic/orders", {"what": TRASHED}), 1)
    board.note(EventRecord(EventRecordType.EVENT, "topic/orders", {"what": GAVE_WAY, "broker": 1, "path": "/d"}), 2)
    board.note(EventRecord(EventRecordType.DEBT, "topic/bills", {"what": "paid", "broker": 3}), 3)
    assert [(line.kind, line.subject, line.what, line.why) for line in board.history] == [
        ("trash", "topic/orders", TRASHED, None),
        ("trash", "topic/orders", GAVE_WAY, "broker 1, /d"),
        ("debt", "topic/bills", "debt of broker 3: paid", None),
    ]
