"""What the contract suite cannot show of the model: it is a value, a failed multi leaves no trace, digests agree."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.protocol.zookeeper.operations import (
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
    ReadFailed,
    SetData,
    WatchFired,
    WatchKind,
    ZkError,
)
from tests.fakes.zookeeper_model import ArmedWatches, DeadSession, Fired, ZooKeeperModel

NAMES = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/z"])
VERSIONS = st.sampled_from([-1, 0, 1])
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, NAMES, st.sampled_from([None, b"", b"1"]), st.booleans(), st.booleans()),
    st.builds(SetData, NAMES, st.sampled_from([None, b"2"]), VERSIONS),
    st.builds(Delete, NAMES, VERSIONS),
    st.builds(Check, NAMES, VERSIONS),
)
MULTIS = st.lists(st.lists(OPERATIONS, min_size=1, max_size=5), max_size=12)


@given(MULTIS, st.lists(NAMES, max_size=3))
def test_a_failed_multi_changes_nothing_and_fires_nothing(multis: list[list[Operation]], watched: list[str]) -> None:
    model = ZooKeeperModel()
    session = model.open_session()
    for multi in multis:
        for path in watched:
            model.read(session, Exists(path, watch=True))
        before = model.copy()
        outcome = model.multi(session, multi)
        if isinstance(outcome, MultiFailed):
            before.zxid = model.zxid
            assert model.digest() == before.digest()
            assert model.take_fired() == []
        else:
            assert before.zxid + 1 == model.zxid
            model.take_fired()


@given(MULTIS)
def test_a_copy_goes_its_own_way(multis: list[list[Operation]]) -> None:
    model = ZooKeeperModel()
    session = model.open_session()
    for multi in multis[:6]:
        model.multi(session, multi)
    twin, digest = model.copy(), model.digest()
    assert twin.digest() == digest
    for multi in multis[6:]:
        twin.multi(session, multi)
    twin.close_session(session)
    assert model.digest() == digest


def test_the_digest_depends_on_neither_hash_seed_nor_process() -> None:
    program = (
        "from tests.fakes.zookeeper_model import ZooKeeperModel as M\n"
        "from lethe.protocol.zookeeper.operations import *\n"
        "m = M(); s = m.open_session()\n"
        "for n in range(50): m.multi(s, [Create(f'/{n}', b'x', n % 2 == 0)]); m.read(s, Exists(f'/{n}', True))\n"
        "m.multi(s, [Delete('/3'), SetData('/5', None, 0)]); print(m.digest())"
    )
    root = Path(__file__).parents[3]
    digests = {
        subprocess.run(
            [sys.executable, "-c", program], cwd=root, env={"PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_a_dead_session_is_not_served() -> None:
    model = ZooKeeperModel()
    session, other = model.open_session(), model.open_session()
    model.multi(session, [Create("/e", None, ephemeral=True), Create("/p", None)])
    model.read(other, GetData("/e", watch=True))
    model.read(session, GetData("/p", watch=True))
    model.close_session(session)
    assert model.take_fired() == [Fired(other, WatchFired(WatchKind.DELETED, "/e"))]
    assert (model.is_alive(session), model.sessions, model.paths()) == (False, (other,), ("/", "/p"))
    model.multi(other, [SetData("/p", None, -1)])
    assert model.take_fired() == []
    with pytest.raises(DeadSession):
        model.read(session, GetData("/p"))
    with pytest.raises(DeadSession):
        model.multi(session, [])


def test_watches_are_forgotten_and_set_again() -> None:
    model = ZooKeeperModel()
    session = model.open_session()
    assert isinstance(model.multi(session, [Create(path, None) for path in ("/a", "/b", "/c")]), MultiDone)
    for read in (GetData("/a", True), GetData("/b", True), Exists("/d", True), Exists("/e", True)):
        model.read(session, read)
    model.read(session, GetChildren("/c", True))
    assert model.armed(session) == ArmedWatches(("/a", "/b", "/d", "/e"), ("/c",))
    seen = model.zxid
    model.forget_watches(session)
    model.multi(session, [SetData("/a", b"1", 0), Create("/d", None), Create("/c/x", None)])
    assert model.take_fired() == []
    model.set_watches(session, seen, ["/a", "/b", "/gone"], ["/d", "/e"], ["/c", "/lost"])
    assert [(f.watch.kind, f.watch.path) for f in model.take_fired()] == [
        (WatchKind.DATA_CHANGED, "/a"),
        (WatchKind.DELETED, "/gone"),
        (WatchKind.CREATED, "/d"),
        (WatchKind.CHILDREN_CHANGED, "/c"),
        (WatchKind.DELETED, "/lost"),
    ]
    assert model.armed(session) == ArmedWatches(("/b", "/e"), ())


def test_the_tree_can_be_looked_at_without_a_session() -> None:
    model = ZooKeeperModel()
    session = model.open_session()
    model.multi(session, [Create("/a", b"1"), Create("/a/x", None), Create("/a/b", None)])
    node = model.node("/a")
    assert node is not None
    assert (node.data, node.version, model.node("/z")) == (b"1", 0, None)
    assert model.children("/a") == ("b", "x")
    assert model.read(session, GetChildren("/a")) == Children(("b", "x"))
    assert isinstance(model.read(session, GetData("/a")), Data)
    assert model.read(session, GetData("/z")) == ReadFailed(ZkError.NO_NODE)
