"""What Lethe relies on ZooKeeper for, shown of the model and of a real server alike."""

import pytest

from lethe.adapters.zookeeper.interface import SessionLost, WriteRefused
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
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
from lethe.protocol.zookeeper.packing import FenceFailed, GroupDone, GroupFailed, MultiPlan
from tests.contract.conftest import Client, Clients, Interrupted

CREATED, DELETED = WatchKind.CREATED, WatchKind.DELETED
CHANGED, CHILDREN = WatchKind.DATA_CHANGED, WatchKind.CHILDREN_CHANGED


async def done(client: Client, *operations: Operation) -> MultiDone:
    outcome = await client.session.multi(operations)
    assert isinstance(outcome, MultiDone)
    return outcome


async def stat(client: Client, path: str) -> Stat:
    (found,) = await client.session.read([Exists(path)])
    assert isinstance(found, Present)
    return found.stat


# --- writes -------------------------------------------------------------------------------------------------------


async def test_a_znode_has_versions_and_the_zxids_of_its_creation_and_last_change(clients: Clients) -> None:
    async with clients() as client:
        created = await done(client, Create("/a", b"1"))
        changed = await done(client, SetData("/a", b"2", 0))
        await done(client, Create("/a/x", None), Create("/a/y", None))
        assert created.stats == (Stat(created.zxid, created.zxid, 0, 0, 0),)
        assert changed.stats == (Stat(created.zxid, changed.zxid, 1, 0, 0),)
        assert changed.zxid > created.zxid
        assert await stat(client, "/a") == Stat(created.zxid, changed.zxid, 1, 0, 2)


async def test_operations_of_a_multi_see_each_other_and_share_a_zxid(clients: Clients) -> None:
    async with clients() as client:
        outcome = await done(
            client,
            Create("/a", b"1"),
            SetData("/a", b"2", 0),
            Check("/a", 1),
            Create("/a/x", None),
            Delete("/a/x", 0),
            Delete("/a"),
        )
        zxid = outcome.zxid
        new, changed = Stat(zxid, zxid, 0, 0, 0), Stat(zxid, zxid, 1, 0, 0)
        assert outcome.stats == (new, changed, None, new, None, None)
        assert outcome.paths == ("/a", "/a", "/a", "/a/x", "/a/x", "/a")


@pytest.mark.parametrize(
    "operation, error",
    [
        (Create("/a", None), ZkError.NODE_EXISTS),
        (Create("/b/c", None), ZkError.NO_NODE),
        (Create("/e/c", None), ZkError.NO_CHILDREN_FOR_EPHEMERALS),
        (Create("/a//c", None), ZkError.NO_NODE),
        (Create("/a/../c", None), ZkError.NO_NODE),
        (Create("/a/.", None), ZkError.BAD_ARGUMENTS),
        (Create("/a/", None), ZkError.BAD_ARGUMENTS),
        (SetData("/b", None, ANY_VERSION), ZkError.NO_NODE),
        (SetData("/a", None, 1), ZkError.BAD_VERSION),
        (Delete("/b"), ZkError.NO_NODE),
        (Delete("/a", 7), ZkError.BAD_VERSION),
        (Delete("/a"), ZkError.NOT_EMPTY),
        (Check("/b", 0), ZkError.NO_NODE),
        (Check("/b", ANY_VERSION), ZkError.NO_NODE),
        (Check("/a", 1), ZkError.BAD_VERSION),
    ],
)
async def test_a_failed_operation_is_named_and_undoes_the_others(
    clients: Clients, operation: Operation, error: ZkError
) -> None:
    async with clients() as client:
        await done(client, Create("/a", b"1"), Create("/a/x", None), Create("/e", None, ephemeral=True))
        before = await client.session.read([GetData("/a"), GetChildren("/"), GetChildren("/a")])
        around = (Create("/new", None), SetData("/a", b"2", 0), SetData("/a", b"3", 1))
        assert await client.session.multi((*around[:1], operation, *around[1:])) == MultiFailed(1, error)
        assert await client.session.multi((operation,)) == MultiFailed(0, error)
        assert await client.session.read([GetData("/a"), GetChildren("/"), GetChildren("/a")]) == before


async def test_the_first_of_several_failures_is_named(clients: Clients) -> None:
    async with clients() as client:
        await done(client, Create("/epoch", b"1"))
        stale = (Check("/epoch", 9), Delete("/missing"))
        assert await client.session.multi(stale) == MultiFailed(0, ZkError.BAD_VERSION)
        assert await client.session.multi(stale[::-1]) == MultiFailed(0, ZkError.NO_NODE)


async def test_any_version_is_accepted_as_such(clients: Clients) -> None:
    async with clients() as client:
        await done(client, Create("/a", None), SetData("/a", b"1", -1), Check("/a", -1), SetData("/a", None, -1))
        assert (await stat(client, "/a")).version == 2
        await done(client, Delete("/a", -1))


async def test_null_and_empty_data_are_different(clients: Clients) -> None:
    async with clients() as client:
        await done(client, Create("/null", None), Create("/empty", b""), Create("/set", b"1"), SetData("/set", None, 0))
        found = await client.session.read([GetData(path) for path in ("/null", "/empty", "/set")])
        assert [outcome.data for outcome in found if isinstance(outcome, Data)] == [None, b"", None]


async def test_sequence_numbers_count_the_creations_under_a_parent(clients: Clients) -> None:
    async with clients() as client:
        await done(client, Create("/q", None))
        first = await done(client, Create("/q/n_", None, sequential=True))
        await done(client, Create("/q/other", None), Delete("/q/other"))
        assert await client.session.multi((Create("/q/n_", None, sequential=True), Delete("/missing"))) == MultiFailed(
            1, ZkError.NO_NODE
        )
        both = await done(client, Create("/q/n_", None, sequential=True), Create("/q/m_", None, False, True))
        assert first.paths + both.paths == ("/q/n_0000000000", "/q/n_0000000002", "/q/m_0000000003")
        (children,) = await client.session.read([GetChildren("/q")])
        assert children == Children(("m_0000000003", "n_0000000000", "n_0000000002"))


async def test_an_empty_multi_does_nothing(clients: Clients) -> None:
    async with clients() as client:
        outcome = await client.session.multi(())
        assert isinstance(outcome, MultiDone)
        assert (outcome.stats, outcome.paths) == ((), ())


async def test_paths_beyond_ascii_work(clients: Clients) -> None:
    async with clients() as client:
        await done(client, Create("/grün", b"1"), Create("/grün/日本", b"2"))
        assert await client.session.read([GetChildren("/"), GetChildren("/grün")]) == [
            Children(("grün",)),
            Children(("日本",)),
        ]


# --- ephemeral znodes and sessions --------------------------------------------------------------------------------


async def test_ephemeral_znodes_belong_to_their_session_and_go_with_it(clients: Clients) -> None:
    async with clients() as other:
        async with clients() as owner:
            outcome = await done(owner, Create("/e", b"1", ephemeral=True), Create("/p", None))
            assert outcome.stats[0] is not None
            assert outcome.stats[0].ephemeral_owner == owner.session.session_id != other.session.session_id
            await other.session.read([Exists("/e", watch=True), GetChildren("/", watch=True)])
        assert await other.take_fired() == [WatchFired(DELETED, "/e"), WatchFired(CHILDREN, "/")]
        assert (await stat(other, "/p")).ephemeral_owner == 0


async def test_anybody_may_delete_an_ephemeral_znode(clients: Clients) -> None:
    async with clients() as owner, clients() as other:
        await done(owner, Create("/e", b"1", ephemeral=True))
        await done(other, Delete("/e"), Create("/e", b"2", ephemeral=True))
        assert (await stat(owner, "/e")).ephemeral_owner == other.session.session_id
        await owner.session.close()
        assert (await stat(other, "/e")).ephemeral_owner == other.session.session_id


async def test_a_closed_session_takes_no_requests(clients: Clients) -> None:
    async with clients() as client:
        assert (client.session.connected, client.session.in_touch) == (True, True)
        await client.session.close()
        assert client.session.lost.is_set()
        assert (client.session.connected, client.session.lost_reason) == (False, "closed")
        assert (client.session.connected, client.session.in_touch) == (False, False)
        requests = (
            client.session.read([Exists("/")]),
            client.session.read([]),
            client.session.multi((Create("/a", None),)),
            client.session.multis([(Create("/a", None),)]),
            client.session.write(MultiPlan([(Create("/a", None),)], None)),
            client.session.ensure_path("/a"),
        )
        for request in requests:
            with pytest.raises(SessionLost, match="closed"):
                await request
        await client.session.close()


# --- reads --------------------------------------------------------------------------------------------------------


async def test_reads_are_answered_in_their_order(clients: Clients) -> None:
    async with clients() as client:
        await done(client, Create("/a", b"1"), Create("/a/y", b"y"), Create("/a/x", b"x"))
        a, x = await stat(client, "/a"), await stat(client, "/a/x")
        missing = ReadFailed(ZkError.NO_NODE)
        reads: list[Read] = [
            GetData("/a/x"),
            Exists("/a"),
            GetChildren("/a"),
            GetData("/none"),
            Exists("/none"),
            GetChildren("/none"),
            GetData("/a", watch=True),
            GetChildren("/a/x", watch=True),
        ]
        expected = [
            Data(b"x", x),
            Present(a),
            Children(("x", "y")),
            missing,
            missing,
            missing,
            Data(b"1", a),
            Children(()),
        ]
        found = await client.session.read(reads)
        assert [Present(each.stat) if isinstance(each, Present) else each for each in found] == expected
        assert await client.session.read([]) == []


async def test_many_reads_are_answered(clients: Clients) -> None:
    async with clients() as client:
        await done(client, *(Create(f"/{n}", b"%d" % n) for n in range(1500)))
        found = await client.session.read([GetData(f"/{n}") for n in range(1500)])
        assert [outcome.data for outcome in found if isinstance(outcome, Data)] == [b"%d" % n for n in range(1500)]


# --- watches ------------------------------------------------------------------------------------------------------


async def test_watches_go_off_once_in_the_session_that_set_them(clients: Clients) -> None:
    async with clients() as watcher, clients() as other:
        await done(other, Create("/a", None), Create("/b", None))
        await watcher.session.read(
            [GetData("/a", watch=True), GetChildren("/b", watch=True), Exists("/new", watch=True)]
        )
        await done(other, SetData("/a", b"1", 0), Create("/b/x", None), Create("/new", None))
        assert await watcher.take_fired() == [
            WatchFired(CHANGED, "/a"),
            WatchFired(CHILDREN, "/b"),
            WatchFired(CREATED, "/new"),
        ]
        await done(other, SetData("/a", b"2", 1), Create("/b/y", None), Delete("/new"))
        assert await watcher.take_fired() == []
        assert await other.take_fired() == []


async def test_a_data_watch_does_not_see_children_nor_a_child_watch_data(clients: Clients) -> None:
    async with clients() as client:
        await done(client, Create("/a", None), Create("/b", None), Create("/b/x", None))
        await client.session.read([Exists("/a", watch=True), GetChildren("/b", watch=True)])
        await done(client, Create("/a/x", None), SetData("/b", b"1", 0), SetData("/b/x", b"1", 0))
        assert await client.take_fired() == []
        await done(client, SetData("/a", None, -1), Delete("/b/x"))
        assert await client.take_fired() == [WatchFired(CHANGED, "/a"), WatchFired(CHILDREN, "/b")]


async def test_a_deletion_is_told_once_however_it_is_watched(clients: Clients) -> None:
    async with clients() as client:
        await done(client, Create("/a", None))
        await client.session.read(
            [GetData("/a", True), GetChildren("/a", True), Exists("/a", True), GetData("/a", True)]
        )
        await done(client, Delete("/a"))
        assert await client.take_fired() == [WatchFired(DELETED, "/a")]


async def test_a_missing_znode_is_watched_by_exists_only(clients: Clients) -> None:
    async with clients() as client:
        await client.session.read([GetData("/a", True), GetChildren("/a", True), Exists("/b", True)])
        await done(client, Create("/a", None), Create("/b", None))
        assert await client.take_fired() == [WatchFired(CREATED, "/b")]


async def test_a_failed_multi_sets_no_watch_off(clients: Clients) -> None:
    async with clients() as client:
        await done(client, Create("/a", None))
        await client.session.read([GetData("/a", True), Exists("/b", True)])
        await client.session.multi((SetData("/a", None, 0), Create("/b", None), Delete("/missing")))
        assert await client.take_fired() == []
        await done(client, SetData("/a", None, 0))
        assert await client.take_fired() == [WatchFired(CHANGED, "/a")]


async def test_watches_of_one_multi_go_off_in_the_order_of_its_operations(clients: Clients) -> None:
    async with clients() as client:
        await done(client, Create("/a", None), Create("/b", None))
        await client.session.read(
            [GetChildren("/", True), GetData("/a", True), GetData("/b", True), Exists("/c", True)]
        )
        await done(client, SetData("/b", None, 0), Create("/c", None), Delete("/a"), SetData("/c", None, 0))
        assert await client.take_fired() == [
            WatchFired(CHANGED, "/b"),
            WatchFired(CREATED, "/c"),
            WatchFired(CHILDREN, "/"),
            WatchFired(DELETED, "/a"),
        ]


# --- many watches at once -----------------------------------------------------------------------------------------

MANY = [f"/many{n:02}" for n in range(20)]
WATCHED: list[Read] = [GetData(path, watch=True) for path in MANY]


async def test_many_data_watches_go_off_once_each(clients: Clients) -> None:
    async with clients() as watcher, clients() as other:
        await done(other, *(Create(path, b"1") for path in MANY))
        found = await watcher.session.read(WATCHED)
        assert [outcome.data for outcome in found if isinstance(outcome, Data)] == [b"1"] * 20
        assert await watcher.take_fired() == []
        await done(other, SetData(MANY[3], b"2", 0), Delete(MANY[5]), Create(MANY[7] + "/x", None))
        assert await watcher.take_fired() == [WatchFired(CHANGED, MANY[3]), WatchFired(DELETED, MANY[5])]
        await done(other, *(SetData(path, b"3", -1) for path in MANY if path != MANY[5]), Create(MANY[5], None))
        left = [path for path in MANY if path not in (MANY[3], MANY[5])]
        assert await watcher.take_fired() == [WatchFired(CHANGED, path) for path in left]
        await done(other, *(Delete(path) for path in MANY if path != MANY[7]))
        assert await watcher.take_fired() == []


async def test_what_is_missing_among_many_is_not_watched(clients: Clients) -> None:
    async with clients() as client:
        await done(client, *(Create(path, b"1") for path in MANY[:-2]))
        mixed: list[Read] = [*WATCHED, Exists(MANY[-1], watch=True), GetChildren("/", watch=True), GetData(MANY[0])]
        found = await client.session.read(mixed)
        assert found[18:21] == [ReadFailed(ZkError.NO_NODE)] * 3
        await done(client, Create(MANY[-2], None), Create(MANY[-1], None))
        assert await client.take_fired() == [WatchFired(CHILDREN, "/"), WatchFired(CREATED, MANY[-1])]


async def test_what_changes_between_reading_and_arming_goes_off_at_once(
    clients: Clients, interrupted: Interrupted
) -> None:
    async with clients() as other:
        await done(other, *(Create(path, b"1") for path in MANY[:-1]))

        async def meanwhile() -> None:
            await done(other, SetData(MANY[2], b"2", 0), Delete(MANY[4]), Delete(MANY[6]), Create(MANY[6], b"again"))
            await done(other, Create(MANY[8] + "/x", None), Create(MANY[-1], None))
            assert interrupted.fired == []

        found = await interrupted.read(WATCHED, meanwhile)
        assert [outcome.data for outcome in found if isinstance(outcome, Data)] == [b"1"] * 19
        assert found[-1] == ReadFailed(ZkError.NO_NODE)
        told = [WatchFired(CHANGED, MANY[2]), WatchFired(DELETED, MANY[4]), WatchFired(CHANGED, MANY[6])]
        assert interrupted.fired == told, "told before the read has ended"
        interrupted.fired.clear()
        await done(other, *(SetData(path, None, -1) for path in MANY if path != MANY[4]), Create(MANY[4], None))
        left = [path for path in MANY[:-1] if path not in (MANY[2], MANY[4], MANY[6])]
        assert await interrupted.take_fired() == [WatchFired(CHANGED, path) for path in left]


async def test_watches_of_many_and_of_one_are_the_same_watches(clients: Clients) -> None:
    async with clients() as client:
        await done(client, *(Create(path, b"1") for path in MANY))
        await client.session.read(WATCHED)
        await client.session.read([GetData(MANY[0], True), GetChildren(MANY[1], True), Exists(MANY[2], True)])
        await client.session.read(WATCHED)
        await done(client, *(Delete(path) for path in MANY))
        assert await client.take_fired() == [WatchFired(DELETED, path) for path in MANY]


# --- plans and helpers --------------------------------------------------------------------------------------------


async def test_multis_are_applied_in_order_each_on_its_own(clients: Clients) -> None:
    async with clients() as client:
        outcomes = await client.session.multis(
            [[Create("/a", None)], [Create("/a", None)], [SetData("/a", b"1", 0)], [Delete("/a", 1)]]
        )
        assert [type(outcome) for outcome in outcomes] == [MultiDone, MultiFailed, MultiDone, MultiDone]
        assert outcomes[1] == MultiFailed(0, ZkError.NODE_EXISTS)


async def test_a_plan_sets_stale_groups_apart(clients: Clients) -> None:
    async with clients() as client:
        await done(client, Create("/epoch", b"1"), *(Create(f"/{n}", None) for n in range(40)))
        await done(client, SetData("/7", None, 0), SetData("/23", None, 0))
        groups = [(Check(f"/{n}", 0), Delete(f"/{n}", 0)) for n in range(40)]
        outcomes = await client.session.write(MultiPlan(groups, Check("/epoch", 0), max_operations=20))
        failed = GroupFailed(0, ZkError.BAD_VERSION)
        assert [outcome for outcome in outcomes if not isinstance(outcome, GroupDone)] == [failed, failed]
        (left,) = await client.session.read([GetChildren("/")])
        assert left == Children(("23", "7", "epoch"))


async def test_a_plan_whose_fence_has_moved_changes_nothing(clients: Clients) -> None:
    async with clients() as client:
        await done(client, Create("/epoch", b"1"), Create("/a", None), SetData("/epoch", b"2", 0))
        plan = MultiPlan([(Delete("/a"),), (Create("/b", None),)], Check("/epoch", 0), max_operations=1)
        fenced = FenceFailed(ZkError.BAD_VERSION)
        assert await client.session.write(plan) == (fenced, fenced)
        assert plan.controller_moved
        assert (await client.session.read([GetChildren("/")])) == [Children(("a", "epoch"))]


async def test_paths_are_ensured(clients: Clients) -> None:
    async with clients() as client:
        await client.session.ensure_path("/a/b/c/d")
        await client.session.ensure_path("/a/b/c/d")
        await client.session.ensure_path("/a/x")
        await done(client, Create("/e", None, ephemeral=True))
        with pytest.raises(WriteRefused, match="/e/x"):
            await client.session.ensure_path("/e/x")
        assert await client.session.read([GetChildren("/a")]) == [Children(("b", "x"))]
