"""Requests packed by hand are those that aiozk packs, and no answer makes a parser fail in an unexpected way."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from aiozk.protocol.acl import UNRESTRICTED_ACCESS
from aiozk.protocol.check import CheckVersionRequest
from aiozk.protocol.create import Create2Request
from aiozk.protocol.delete import DeleteRequest
from aiozk.protocol.transaction import TransactionRequest
from aiozk.protocol.watches import SetWatchesRequest
from hypothesis import given
from hypothesis import strategies as st

from lethe.adapters.zookeeper import wire, wire_multi
from lethe.protocol.zookeeper.operations import (
    Acl,
    Check,
    Children,
    Create,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MultiDone,
    MultiFailed,
    Operation,
    Present,
    Read,
    ReadFailed,
    SetData,
    Stat,
    WatchFired,
    WatchKind,
    ZkError,
)

DONE = struct.pack("!i?i", -1, True, -1)
STAT = Stat(czxid=1 << 40, mzxid=(1 << 40) + 1, version=3, ephemeral_owner=1 << 60, num_children=2)
STAT_BYTES = struct.pack("!qqqqiiiqiiq", STAT.czxid, STAT.mzxid, 8, 9, 3, 4, 5, STAT.ephemeral_owner, 6, 2, 7)

PATHS = st.text("abä/", min_size=1, max_size=12).map(lambda text: "/" + text)
DATA = st.none() | st.binary(max_size=20)
VERSIONS = st.integers(-1, 2**31 - 1)
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, PATHS, DATA, st.booleans(), st.booleans()),
    st.builds(SetData, PATHS, DATA, VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)


def by_aiozk(chroot: str, operations: list[Operation]) -> bytes:
    from aiozk.protocol.data import SetDataRequest

    transaction: Any = TransactionRequest()
    for operation in operations:
        path = chroot + operation.path
        request: Any
        match operation:
            case Create(_, data, ephemeral, sequential):
                request = Create2Request(path=path, data=data, acl=[UNRESTRICTED_ACCESS])
                request.set_flags(ephemeral=ephemeral, sequential=sequential)
            case SetData(_, data, version):
                request = SetDataRequest(path=path, data=data, version=version)
            case Delete(_, version):
                request = DeleteRequest(path=path, version=version)
            case Check(_, version):
                request = CheckVersionRequest(path=path, version=version)
        transaction.add(request)
    return bytes(transaction.serialize())


@given(st.lists(OPERATIONS, max_size=6), st.sampled_from(["", "/kafka"]))
def test_a_multi_is_packed_as_aiozk_does(operations: list[Operation], chroot: str) -> None:
    assert wire_multi.pack_multi(chroot, operations, set_acl=False).payload == by_aiozk(chroot, operations)


def test_the_root_under_a_chroot_is_the_chroot() -> None:
    assert wire.pack_read("/kafka", GetData("/")).payload == wire.pack_read("", GetData("/kafka")).payload
    assert wire.pack_read("", GetData("/")).payload[-3:] == b"\x01/\x00"


def test_access_lists_differ_with_the_setting_only() -> None:
    def packed(acl: Acl, set_acl: bool) -> bytes:
        return wire_multi.pack_multi("", [Create("/a", None, acl=acl)], set_acl=set_acl).payload

    assert len({packed(acl, False) for acl in Acl}) == 1
    assert len({packed(acl, True) for acl in Acl}) == 3
    assert packed(Acl.OPEN, True) == packed(Acl.OPEN, False)


def result(kind: int, body: bytes = b"") -> bytes:
    return struct.pack("!i?i", kind, False, 0) + body


def text(value: str) -> bytes:
    return struct.pack("!i", len(value.encode())) + value.encode()


def test_a_good_answer_to_a_multi() -> None:
    operations: list[Operation] = [
        Create("/n_", None, sequential=True),
        SetData("/a", b"", 2),
        Check("/b", 1),
        Delete("/c"),
    ]
    body = result(15, text("/kafka/n_0000000007") + STAT_BYTES) + result(5, STAT_BYTES) + result(13) + result(2) + DONE
    parse = wire_multi.pack_multi("/kafka", operations, set_acl=False).parse
    assert parse(body, 99) == MultiDone((STAT, STAT, None, None), ("/n_0000000007", "/a", "/b", "/c"), 99)


def test_an_older_server_answers_a_create_without_a_stat() -> None:
    operations: list[Operation] = [Create("/n_", None, sequential=True), Create("/a", None), SetData("/a", b"", 0)]
    body = result(1, text("/kafka/n_0000000007")) + result(1, text("/kafka/a")) + result(5, STAT_BYTES) + DONE
    parse = wire_multi.pack_multi("/kafka", operations, set_acl=False).parse
    assert parse(body, 99) == MultiDone((None, None, STAT), ("/n_0000000007", "/a", "/a"), 99)
    with pytest.raises(ValueError, match="is of type 1"):
        parse(result(1, text("/n_0000000007")) + result(1, text("/a")) + result(1, text("/a")) + DONE, 99)


def failures(*codes: int) -> bytes:
    return b"".join(struct.pack("!i?ii", -1, False, code, code) for code in codes) + DONE


def test_znodes_that_one_multi_created_share_their_stat_and_keep_the_operations_paths() -> None:
    other = STAT._replace(version=4)
    other_bytes = struct.pack("!qqqqiiiqiiq", other.czxid, other.mzxid, 8, 9, 4, 4, 5, other.ephemeral_owner, 6, 2, 7)
    operations: list[Operation] = [Create(f"/{name}", None) for name in "abc"]
    body = b"".join(
        result(15, text(f"/{name}") + stat)
        for name, stat in zip("abc", (STAT_BYTES, other_bytes, STAT_BYTES), strict=True)
    )
    answer = wire_multi.pack_multi("", operations, set_acl=False).parse(body + DONE, 1)
    assert answer == MultiDone((STAT, other, STAT), ("/a", "/b", "/c"), 1)
    assert answer.stats[0] is answer.stats[2]
    assert all(path is operation.path for path, operation in zip(answer.paths, operations, strict=True))


def test_a_bad_answer_to_a_multi_names_the_first_failure() -> None:
    parse = wire_multi.pack_multi("", [Delete("/a"), Delete("/b"), Delete("/c")], set_acl=False).parse
    assert parse(failures(0, -101, -2), 1) == MultiFailed(1, ZkError.NO_NODE)
    assert parse(failures(-4242, -2, -2), 1) == MultiFailed(0, ZkError.OTHER)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        DONE,
        result(2) + DONE,
        result(2) + result(2),
        result(2) + result(13) + DONE,
        result(2) + result(2) + result(2) + DONE,
        result(2) + result(2) + DONE + b"x",
        failures(0, 0),
        failures(-101),
        failures(-101, -2)[:-1],
        failures(-101, -2) + b"x",
    ],
)
def test_an_answer_to_another_multi_is_refused(body: bytes) -> None:
    with pytest.raises((struct.error, *wire.UNPARSABLE)):
        wire_multi.pack_multi("", [Delete("/a"), Delete("/b")], set_acl=False).parse(body, 1)


def data(value: bytes | None) -> bytes:
    return struct.pack("!i", -1 if value is None else len(value)) + (value or b"") + STAT_BYTES


def names(*values: str) -> bytes:
    return struct.pack("!i", len(values)) + b"".join(map(text, values))


READS: list[Read] = [GetData("/a"), GetData("/b"), GetChildren("/c"), GetData("/d"), GetData("/e")]


def test_a_good_answer_to_a_bulk_read() -> None:
    error = struct.pack("!i?ii", -1, False, -101, -101)
    body = (
        result(4, data(b"x")) + result(4, data(None)) + result(8, names("b", "a")) + error + result(4, data(b"")) + DONE
    )
    assert wire.pack_multi_read("", READS).parse(body, 1) == [
        Data(b"x", STAT),
        Data(None, STAT),
        Children(("a", "b")),
        ReadFailed(ZkError.NO_NODE),
        Data(b"", STAT),
    ]


def test_exists_among_bulk_reads_is_a_read_of_the_data() -> None:
    reads: list[Read] = [Exists("/a"), Exists("/b"), GetData("/c")]
    error = struct.pack("!i?ii", -1, False, -101, -101)
    body = result(4, data(b"four")) + error + result(4, data(b"x")) + DONE
    bulk = wire.pack_multi_read("", reads)
    assert bulk.payload == wire.pack_multi_read("", [GetData(read.path) for read in reads]).payload
    assert bulk.parse(body, 1) == [
        wire.ExistsOutcome(Present(STAT, 8, 9), 4),
        ReadFailed(ZkError.NO_NODE),
        Data(b"x", STAT),
    ]


def test_good_answers_to_single_reads() -> None:
    assert wire.pack_read("", GetData("/a")).parse(data(b"x"), 1) == Data(b"x", STAT)
    assert wire.pack_read("", GetData("/a")).parse(data(None), 1) == Data(None, STAT)
    assert wire.pack_read("", GetChildren("/a")).parse(names("ä", "a"), 1) == Children(("a", "ä"))
    assert wire.pack_read("", Exists("/a")).parse(STAT_BYTES, 1) == Present(STAT, 8, 9)


def test_watch_events_are_understood() -> None:
    def event(kind: int, path: bytes) -> bytes:
        return struct.pack("!iii", kind, 3, len(path)) + path

    assert wire.parse_watch_event(event(3, b"/k/a"), "/k") == WatchFired(WatchKind.DATA_CHANGED, "/a")
    assert wire.parse_watch_event(event(4, b"/k"), "/k") == WatchFired(WatchKind.CHILDREN_CHANGED, "/")
    assert wire.parse_watch_event(event(-1, b""), "/k") is None
    with pytest.raises(ValueError, match="outside"):
        wire.parse_watch_event(event(3, b"/other"), "/k")
    with pytest.raises(ValueError, match="a text of -1 bytes"):
        wire.parse_watch_event(struct.pack("!iii", 3, 3, -1), "/k")


@given(*[st.lists(PATHS, max_size=4)] * 3, st.integers(0, 2**62))
def test_watches_are_packed_as_aiozk_does(data: list[str], exist: list[str], children: list[str], zxid: int) -> None:
    request: Any = SetWatchesRequest(relative_zxid=zxid, data_watches=data, exist_watches=exist, child_watches=children)
    packed = wire.pack_set_watches(zxid, data, exist, children)
    assert packed.payload == bytes(request.serialize())
    assert packed.parse(b"", 1) is None


def test_the_answer_to_a_connect_request() -> None:
    def granted(timeout: int, session: int, password: bytes) -> bytes:
        return struct.pack("!iiqi", 0, timeout, session, len(password)) + password + b"\0"

    assert wire.parse_connect(granted(4000, 7, b"p" * 16)) == wire.SessionGrant(7, b"p" * 16, 4000)
    assert wire.parse_connect(granted(0, 0, bytes(16))).session_id == 0
    with pytest.raises(ValueError, match="timeout 0"):
        wire.parse_connect(granted(0, 7, b"p" * 16))
    assert wire.error_of(-103) is ZkError.BAD_VERSION
    assert wire.error_of(-1) is ZkError.OTHER


GOOD = [
    (
        wire_multi.pack_multi("", [Delete("/a"), SetData("/a", None, 1)], set_acl=False),
        result(2) + result(5, STAT_BYTES) + DONE,
    ),
    (wire_multi.pack_multi("", [Create("/a", None)], set_acl=False), result(15, text("/a") + STAT_BYTES) + DONE),
    (wire_multi.pack_multi("", [Delete("/a"), Delete("/b")], set_acl=False), failures(0, -101)),
    (wire.pack_multi_read("", READS[:3]), result(4, data(b"x")) * 2 + result(8, names("a")) + DONE),
    (wire.pack_multi_read("", [Exists("/a"), Exists("/b")]), result(4, data(b"x")) * 2 + DONE),
    (wire.pack_read("", GetData("/a")), data(b"abc")),
    (wire.pack_read("", GetChildren("/a")), names("a", "b")),
    (wire.pack_read("", Exists("/a")), STAT_BYTES),
]


@given(st.sampled_from(GOOD), st.integers(0, 200), st.binary(min_size=1, max_size=8), st.integers(0, 200))
def test_a_damaged_answer_is_an_answer_or_unparsable(
    good: tuple[wire.Request, bytes], at: int, damage: bytes, cut: int
) -> None:
    request, body = good
    damaged = (body[:at] + damage + body[at + len(damage) :])[: max(cut, 1)] if cut % 2 else body[:at] + damage
    try:
        request.parse(damaged, 1)
    except (struct.error, *wire.UNPARSABLE):
        return
