"""Requests about topics, and the trash: written exactly, and never read as more than they say."""

import uuid
from dataclasses import replace

import pytest

from lethe.protocol.kafka.group_offsets import CommittedOffset
from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper.znodes import (
    MalformedZnode,
    OfflineReplicas,
    RequestedAction,
    SavedPartition,
    TopicRequest,
    TrashEntry,
    TrashPhase,
    decode_offsets,
    decode_topic_request,
    decode_trash,
    encode_offsets,
    encode_topic_request,
    encode_trash,
)

UNDELETE = TopicRequest(RequestedAction.UNDELETE)


def test_request_and_its_refusal() -> None:
    assert encode_topic_request(UNDELETE) == b'{"version":1,"request":"undelete"}'
    refused = UNDELETE.refuse("it has gone")
    assert encode_topic_request(refused) == b'{"version":1,"request":"undelete","refused":"it has gone"}'
    for each in (UNDELETE, refused):
        assert decode_topic_request("orders", encode_topic_request(each)) == each


@pytest.mark.parametrize(
    "data, told",
    [
        (None, "it has no data"),
        (b"?", "not JSON"),
        (b'{"version":2,"request":"undelete"}', "version 2 is not known"),
        (b'{"version":1}', "'request' must be a string"),
        (b'{"version":1,"request":"destroy"}', "'request' must be undelete or purge, found the string 'destroy'"),
        (b'{"version":1,"request":"undelete","refused":1}', "'refused' must be a string"),
    ],
)
def test_what_is_no_request(data: bytes | None, told: str) -> None:
    with pytest.raises(MalformedZnode, match=told):
        decode_topic_request("orders", data)


ID = TopicId(uuid.UUID("12345678-1234-5678-1234-567812345678"))
ENTRY = TrashEntry(
    TrashPhase.TRASHED,
    ID,
    1_700_000_000_000,
    86_400_000,
    {"retention.ms": "7"},
    {0: SavedPartition((1, 2), 1, 4, (1, 2), 0, 9), 1: SavedPartition((2, 1), -1, 0, (2,), 1)},
    2,
)


def test_entry_of_the_trash() -> None:
    data = (
        b'{"version":1,"phase":"trashed","topic_id":"EjRWeBI0VngSNFZ4EjRWeA","since":"1700000000000",'
        b'"grace_ms":"86400000","config":{"retention.ms":"7"},"partitions":{'
        b'"0":{"replicas":[1,2],"leader":1,"epoch":4,"isr":[1,2],"version":9},'
        b'"1":{"replicas":[2,1],"leader":-1,"epoch":0,"isr":[2],"version":0,"recovery":1}},"offsets":2}'
    )
    assert encode_trash(ENTRY) == data
    assert decode_trash("orders", data) == ENTRY
    assert ENTRY.until_ms == 1_700_086_400_000


def test_order_about_absent_brokers_is_kept() -> None:
    owing = replace(ENTRY, offline_replicas=OfflineReplicas.OWE)
    assert decode_trash("orders", encode_trash(owing)) == owing
    with pytest.raises(MalformedZnode, match="'offline_replicas' must be wait or owe"):
        decode_trash("orders", encode_trash(owing).replace(b'"owe"', b'"pay"'))


def test_entry_before_it_is_in_the_trash() -> None:
    freezing = TrashEntry(TrashPhase.FREEZING, ID, 1, 2, None)
    assert decode_trash("orders", encode_trash(freezing)) == freezing


@pytest.mark.parametrize(
    "before, after, told",
    [
        (b'"version":1', b'"version":2', "version 2 is not known"),
        (b'"trashed"', b'"lost"', "'lost' is not a valid TrashPhase"),
        (b'"grace_ms":"86400000"', b'"grace_ms":"-1"', "'grace_ms' must not be negative"),
        (b'"epoch":4', b'"epoch":-4', "'epoch' must be between 0"),
        (b'"offsets":2', b'"offsets":"2"', "'offsets' must be a whole number"),
        (b'{"retention.ms":"7"}', b'{"retention.ms":7}', "must be a string"),
    ],
)
def test_entry_that_says_something_else(before: bytes, after: bytes, told: str) -> None:
    data = encode_trash(ENTRY)
    assert before in data
    with pytest.raises(MalformedZnode, match=told):
        decode_trash("orders", data.replace(before, after))


def test_trashed_entry_without_partitions_is_malformed() -> None:
    with pytest.raises(MalformedZnode, match="'partitions' names none"):
        decode_trash("orders", encode_trash(replace(ENTRY, partitions={})))


def test_offsets_are_spread_over_znodes_and_come_together_again() -> None:
    groups = {f"g{n}": {0: CommittedOffset(n, 3, "é"), 1: CommittedOffset(n + 1, -1, None)} for n in range(20)}
    parts = encode_offsets(groups, limit_bytes=300)
    assert len(parts) > 5
    assert all(len(part) < 400 for part in parts)
    found: dict[str, dict[int, CommittedOffset]] = {}
    for part in parts:
        for group, offsets in decode_offsets("/lethe/trash/orders/offsets-0", part).items():
            found.setdefault(group, {}).update(offsets)
    assert found == groups
    assert encode_offsets({}) == ()


@pytest.mark.parametrize("row", ["[1,2]", "[-1,0,null]", '["1",0,""]', '[1,0,""]x', "{}"])
def test_offsets_that_say_something_else(row: str) -> None:
    data = f'{{"version":1,"groups":{{"g":{{"0":{row}}}}}}}'
    with pytest.raises(MalformedZnode):
        decode_offsets("/lethe/trash/orders/offsets-0", data.encode())


def test_purge_names_its_incarnation() -> None:
    purge = TopicRequest(RequestedAction.PURGE, ID)
    assert decode_topic_request("orders", encode_topic_request(purge)) == purge
    with pytest.raises(MalformedZnode, match="a purge names no 'topic_id'"):
        decode_topic_request("orders", b'{"version":1,"request":"purge"}')
