"""Whatever fails and in whatever order replies come, the plan applies each good group once and no bad one."""

from hypothesis import given
from hypothesis import strategies as st

from lethe.protocol.zookeeper.operations import (
    Check,
    Delete,
    MultiDone,
    MultiFailed,
    MultiOutcome,
    MultiUnknown,
    Operation,
    Stat,
    ZkError,
)
from lethe.protocol.zookeeper.packing import (
    FenceFailed,
    Group,
    GroupDone,
    GroupFailed,
    GroupUnknown,
    MultiPlan,
    PlannedMulti,
    operation_bytes,
)

FENCE = Check("/controller_epoch", 1)
LIMIT_BYTES = 700


@given(
    st.lists(st.integers(1, 6), max_size=40),
    st.data(),
    st.sets(st.integers(0, 39)),
    st.integers(1, 12),
    st.booleans(),
)
def test_each_group_ends_as_it_deserves(
    sizes: list[int], data: st.DataObject, stale: set[int], max_operations: int, fence_breaks: bool
) -> None:
    groups: list[Group] = [tuple(Delete(f"/{n}/{i}") for i in range(size)) for n, size in enumerate(sizes)]
    plan = MultiPlan(groups, FENCE, max_operations=max_operations, max_bytes=LIMIT_BYTES)
    in_flight: list[PlannedMulti] = []
    applied: list[int] = []
    lost: list[int] = []
    fence_valid = True
    while not plan.is_done:
        if len(in_flight) < 4 and (multi := plan.next_multi()):
            assert multi.operations[0] == FENCE
            assert list(multi.groups) == sorted(multi.groups)
            assert sum(map(operation_bytes, multi.operations)) <= LIMIT_BYTES
            in_flight.append(multi)
            continue
        multi = in_flight.pop(data.draw(st.integers(0, len(in_flight) - 1)))
        fence_valid = fence_valid and not (fence_breaks and data.draw(st.booleans()))
        plan.settle(multi, _answer(multi, groups, stale, fence_valid, data.draw(st.integers(0, 9)), applied, lost))

    assert len(applied) == len(set(applied))
    for number, outcome in enumerate(plan.outcomes):
        match outcome:
            case GroupDone(stats):
                assert number in applied
                assert stats == tuple(map(stat_of, groups[number]))
            case GroupFailed(index, error):
                assert (index, error) == (len(groups[number]) - 1, ZkError.BAD_VERSION)
                assert number in stale
                assert number not in applied
            case GroupUnknown():
                assert number in lost
            case FenceFailed():
                assert plan.controller_moved
                assert number not in applied
    if not plan.controller_moved:
        assert set(applied) | set(lost) | stale >= set(range(len(groups)))


def _answer(
    multi: PlannedMulti,
    groups: list[Group],
    stale: set[int],
    fence_valid: bool,
    luck: int,
    applied: list[int],
    lost: list[int],
) -> MultiOutcome:
    """ZooKeeper's answer: the last operation of a stale group fails; with bad luck the reply is lost."""
    if luck == 0:
        lost.extend(multi.groups)
        return MultiUnknown("lost")
    if not fence_valid:
        return MultiFailed(0, ZkError.BAD_VERSION)
    at = 1
    for number in multi.groups:
        at += len(groups[number])
        if number in stale:
            return MultiFailed(at - 1, ZkError.BAD_VERSION)
    applied.extend(multi.groups)
    return MultiDone(tuple(map(stat_of, multi.operations)), tuple(op.path for op in multi.operations))


def stat_of(operation: Operation) -> Stat | None:
    """A Stat by which the operation is known again, for some of them."""
    number = sum(operation.path.encode()) % 3
    return Stat(1, 2, number, 0) if number else None
