"""What counts as work in slices and in parts, and what only looks like it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lethe.protocol.journal import EventRecord, EventRecordType, JournalEntry, JsonValue, encode
from tests.chaos.exercised import CREATIONS, PARTS, REMOVALS, TAKEOVERS, in_journals, spread_removals
from tests.chaos.txn_log import Deleted, Transaction

Line = tuple[int, EventRecord]
ORDERS, STATE = "/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state"


def elected(what: str = "elected") -> Line:
    return 0, EventRecord(EventRecordType.ELECTION, "controller/1001", {"what": what, "epoch": 1})


def asked(broker: int, api: str = "LEADER_AND_ISR") -> Line:
    return 0, EventRecord(EventRecordType.REQUEST, f"broker/{broker}", {"api": api})


def handled(event: str = "TopicsChanged") -> Line:
    return 0, EventRecord(EventRecordType.EVENT, "controller/1001", {"event": event, "outcome": "handled"})


def wrote(path: str, operation: str, ended_ms: int = 0, took_ms: float = 1.0) -> Line:
    data: dict[str, JsonValue] = {"first_path": path, "operations": {operation: 2}, "took_ms": took_ms}
    return ended_ms, EventRecord(EventRecordType.ZNODE_WRITE, "controller/1001", data)


PARENT = wrote(f"{ORDERS}/partitions", "Create")


@pytest.mark.parametrize(
    "lines,expected",
    [
        ([elected(), asked(1), asked(2), asked(1), elected("active")], {TAKEOVERS: 1}),
        ([elected(), asked(1), asked(2), asked(1, "UPDATE_METADATA"), elected("active")], {}),
        ([elected(), asked(1), wrote(STATE, "SetData"), asked(1), elected("active")], {}),
        ([PARENT, PARENT, handled()], {CREATIONS: 1}),
        ([PARENT, handled(), PARENT, handled()], {}),
        ([wrote(STATE, "Delete", 10, 5.0), wrote(STATE, "Delete", 14, 6.0)], {REMOVALS: 1}),
        ([wrote(STATE, "Delete", 10, 5.0), wrote(STATE, "Delete", 20, 6.0)], {}),
        ([handled("PartAnswered"), handled("UpdateMetadataResponseReceived")], {PARTS: 1}),
    ],
)
def test_what_a_journal_shows(lines: Sequence[Line], expected: dict[str, int], tmp_path: Path) -> None:
    written = [encode(JournalEntry(str(n), "/lethe", at, record)) for n, (at, record) in enumerate(lines)]
    (tmp_path / "controller-00000001.jsonl").write_bytes(b"".join(written) + b'{"cut off')
    assert +in_journals([tmp_path]) == expected


def gone(zxid: int, *paths: str) -> Transaction:
    return Transaction(zxid, zxid, 1, tuple(map(Deleted, paths)))


def test_a_topic_that_goes_after_its_states_is_removed_in_several_multis() -> None:
    assert spread_removals([gone(1, STATE), gone(2, ORDERS)]) == 1
    assert spread_removals([gone(1, STATE, ORDERS), gone(2, ORDERS)]) == 0
