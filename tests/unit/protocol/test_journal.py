import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.protocol.journal import (
    EventRecord,
    EventRecordType,
    JournalEntry,
    LineFlaw,
    UnencodableRecord,
    UnreadableLine,
    decode,
    decode_lines,
    encode,
    partition_ranges,
    partitions_in,
    replica_ranges,
    time_from_text,
    time_to_text,
)
from lethe.protocol.vocabulary import BrokerId

ENTRY = JournalEntry(
    "1f-1",
    "/lethe/controller/1001",
    1_767_323_045_678,
    EventRecord(EventRecordType.ELECTION, "controller/1001", {"epoch": 7}),
)


def test_a_line_is_a_cloud_event() -> None:
    line = encode(ENTRY)
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "specversion": "1.0",
        "id": "1f-1",
        "source": "/lethe/controller/1001",
        "type": "lethe.election",
        "subject": "controller/1001",
        "time": "2026-01-02T03:04:05.678Z",
        "datacontenttype": "application/json",
        "data": {"epoch": 7},
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(EventRecordType),
    st.text(min_size=1),
    st.dictionaries(st.text(), json_values, max_size=4),
    st.integers(0, 253_402_300_799_999),
)
def test_what_is_written_is_read(kind: EventRecordType, subject: str, data: dict[str, object], time_ms: int) -> None:
    entry = JournalEntry("a-1", "/lethe/broker/1", time_ms, EventRecord(kind, subject, data))  # type: ignore[arg-type]
    line = encode(entry)
    assert line.count(b"\n") == 1
    assert decode(line) == entry


@given(st.binary())
def test_reading_never_raises(line: bytes) -> None:
    assert isinstance(decode(line), JournalEntry | UnreadableLine)


def test_every_cut_is_told() -> None:
    line = encode(ENTRY).rstrip(b"\n")
    for length in range(1, len(line)):
        found = decode(line[:length])
        assert isinstance(found, UnreadableLine)
        assert found.flaw in (LineFlaw.CUT_OFF, LineFlaw.NOT_JSON)
        if not line[:length].endswith(b"}"):
            assert found.flaw is LineFlaw.CUT_OFF


@pytest.mark.parametrize(
    "change, flaw, words",
    [
        ({"specversion": "0.3"}, LineFlaw.NOT_AN_EVENT, "0.3"),
        ({"id": 5}, LineFlaw.NOT_AN_EVENT, "'id'"),
        ({"subject": ""}, LineFlaw.NOT_AN_EVENT, "'subject'"),
        ({"time": "yesterday"}, LineFlaw.NOT_AN_EVENT, "yesterday"),
        ({"time": "2026-01-02T03:04:05"}, LineFlaw.NOT_AN_EVENT, "no time zone"),
        ({"data": [1]}, LineFlaw.NOT_AN_EVENT, "list"),
        ({"type": "lethe.later"}, LineFlaw.UNKNOWN_TYPE, "lethe.later"),
    ],
)
def test_why_a_line_cannot_be_used(change: dict[str, object], flaw: LineFlaw, words: str) -> None:
    found = decode(json.dumps(json.loads(encode(ENTRY)) | change).encode())
    assert isinstance(found, UnreadableLine)
    assert found.flaw is flaw
    assert words in found.detail


def test_unknown_attributes_are_passed_over() -> None:
    document = json.loads(encode(ENTRY)) | {"traceparent": "00-1"}
    assert decode(json.dumps(document).encode()) == ENTRY


def test_what_is_no_json_is_not_written() -> None:
    with pytest.raises(UnencodableRecord, match="'topic/a'"):
        encode(ENTRY._replace(record=EventRecord(EventRecordType.EVENT, "topic/a", {"what": UUID})))  # type: ignore[dict-item]
    with pytest.raises(UnencodableRecord, match="needs an id"):
        encode(ENTRY._replace(record=EventRecord(EventRecordType.EVENT, "")))


def test_empty_lines_are_passed_over() -> None:
    lines = [encode(ENTRY), b"\n", b'{"specversion', encode(ENTRY)]
    kinds = [type(found).__name__ for found in decode_lines(lines)]
    assert kinds == ["JournalEntry", "UnreadableLine", "JournalEntry"]


@given(st.integers(0, 253_402_300_799_999))
def test_times_keep_their_milliseconds(time_ms: int) -> None:
    assert time_from_text(time_to_text(time_ms)) == time_ms


@given(st.frozensets(st.integers(0, 60)))
def test_ranges_name_each_partition_once(partitions: frozenset[int]) -> None:
    assert partitions_in(partition_ranges(partitions)) == tuple(sorted(partitions))


def test_ranges_are_short() -> None:
    assert partition_ranges([3, 0, 1, 2, 7, 7]) == "0-3,7"
    assert partition_ranges(range(100_000)) == "0-99999"
    for bad in ("a", "1-", "-1", "1,,2"):
        with pytest.raises(ValueError, match="no range"):
            partitions_in(bad)


def test_brokers_with_the_same_partitions_share_an_entry() -> None:
    on = dict.fromkeys(map(BrokerId, (1, 2, 3, 7)), "0-2")
    assert replica_ranges({**on, BrokerId(5): "3"}) == {"1-3,7": "0-2", "5": "3"}
    assert replica_ranges({}) == {}
