"""The books of armed watches."""

from lethe.adapters.zookeeper.watches import ArmedWatches, WatchChunk, WatchRequest
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Exists,
    GetChildren,
    GetData,
    Present,
    Read,
    ReadFailed,
    ReadOutcome,
    Stat,
    WatchFired,
    WatchKind,
    ZkError,
)

STAT = Stat(1, 1, 0, 0)
MISSING = ReadFailed(ZkError.NO_NODE)


def armed(*answers: tuple[Read, ReadOutcome]) -> ArmedWatches:
    watches = ArmedWatches()
    for read, outcome in answers:
        watches.read_sent(read)
        watches.read_answered(read, outcome)
        watches.read_over(read)
    return watches


def all_kinds() -> ArmedWatches:
    return armed(
        (GetData("/data", True), Data(None, STAT)),
        (Exists("/there", True), Present(STAT)),
        (Exists("/missing", True), MISSING),
        (GetChildren("/parent", True), Children(())),
        (GetData("/no", True), MISSING),
        (GetChildren("/no", True), MISSING),
        (Exists("/denied", True), ReadFailed(ZkError.NO_AUTH)),
    )


def test_each_answer_arms_what_the_server_arms() -> None:
    assert list(all_kinds().chunks("/k")) == [WatchChunk(("/k/data", "/k/there"), ("/k/missing",), ("/k/parent",))]
    assert len(all_kinds()) == 4
    assert list(ArmedWatches().chunks("")) == []


def test_a_watch_goes_off_once() -> None:
    watches = all_kinds()
    for kind, path in (
        (WatchKind.DATA_CHANGED, "/data"),
        (WatchKind.DELETED, "/there"),
        (WatchKind.CREATED, "/missing"),
        (WatchKind.CHILDREN_CHANGED, "/parent"),
    ):
        assert watches.went_off(WatchFired(kind, path))
        assert not watches.went_off(WatchFired(kind, path))
    assert len(watches) == 0


def test_one_deletion_is_one_event_for_all_watches_of_the_znode() -> None:
    watches = armed((GetData("/a", True), Data(None, STAT)), (GetChildren("/a", True), Children(())))
    assert watches.went_off(WatchFired(WatchKind.DELETED, "/a"))
    assert not watches.went_off(WatchFired(WatchKind.DELETED, "/a"))


def test_an_event_of_another_kind_leaves_a_watch_armed() -> None:
    watches = armed((GetChildren("/a", True), Children(())))
    assert not watches.went_off(WatchFired(WatchKind.DATA_CHANGED, "/a"))
    assert len(watches) == 1


def test_an_event_may_overtake_the_answer_that_arms_it() -> None:
    watches = ArmedWatches()
    read = GetData("/a", True)
    watches.read_sent(read)
    watches.read_sent(read)
    assert watches.went_off(WatchFired(WatchKind.DATA_CHANGED, "/a"))
    watches.read_over(read)
    assert watches.went_off(WatchFired(WatchKind.DATA_CHANGED, "/a"))
    watches.read_over(read)
    assert not watches.went_off(WatchFired(WatchKind.DATA_CHANGED, "/a"))


def changed(path: str) -> WatchFired:
    return WatchFired(WatchKind.DATA_CHANGED, path)


def test_many_are_armed_but_for_what_went_off_before_the_answer() -> None:
    watches, arming = ArmedWatches(), WatchRequest(["/a", "/b", "/c"])
    watches.arming_sent(arming)
    assert not watches.went_off(WatchFired(WatchKind.CHILDREN_CHANGED, "/a"))
    assert watches.went_off(changed("/b"))
    assert not watches.went_off(changed("/b")), "told once"
    assert not watches.went_off(changed("/z"))
    assert len(watches) == 0
    watches.arming_over(arming, armed=True)
    watches.arming_over(arming, armed=False)
    assert list(watches.chunks("")) == [WatchChunk(("/a", "/c"), (), ())]
    assert watches.went_off(changed("/a"))
    assert not watches.went_off(changed("/a"))


def test_nothing_is_armed_by_a_request_that_failed_or_was_lost() -> None:
    watches, arming = ArmedWatches(), WatchRequest(["/a"])
    watches.arming_sent(arming)
    watches.arming_over(arming, armed=False)
    watches.arming_over(arming, armed=True)
    assert len(watches) == 0
    assert not watches.went_off(changed("/a"))


def test_of_two_requests_under_way_the_first_has_let_it_go_off() -> None:
    """The second is carried out after the first was answered, so that its watch is armed."""
    watches, first, second = ArmedWatches(), WatchRequest(["/a"]), WatchRequest(["/a", "/b"])
    watches.arming_sent(first)
    watches.arming_sent(second)
    assert watches.went_off(changed("/a"))
    assert not watches.went_off(changed("/a"))
    watches.arming_over(first, armed=True)
    assert len(watches) == 0
    watches.arming_over(second, armed=True)
    assert list(watches.chunks("")) == [WatchChunk(("/a", "/b"), (), ())]


def test_what_is_armed_already_may_go_off_under_way_and_is_struck_out() -> None:
    watches, arming = armed((GetData("/a", True), Data(None, STAT))), WatchRequest(["/a"])
    watches.arming_sent(arming)
    assert watches.went_off(WatchFired(WatchKind.DELETED, "/a"))
    watches.arming_over(arming, armed=True)
    assert len(watches) == 0


def test_chunks_hold_each_watch_once_and_stay_small() -> None:
    names = [f"/{n}-{'x' * 500}" for n in range(1000)]
    watches = armed(
        *((GetData(name, True), Data(None, STAT)) for name in names),
        *((Exists(name + "e", True), MISSING) for name in names),
        *((GetChildren(name, True), Children(())) for name in names),
    )
    chunks = list(watches.chunks(""))
    assert [name for chunk in chunks for name in chunk.data] == names
    assert [name for chunk in chunks for name in chunk.exist] == [name + "e" for name in names]
    assert [name for chunk in chunks for name in chunk.children] == names
    assert all(sum(len(name) + 4 for part in chunk for name in part) <= 128 * 1024 for chunk in chunks)
