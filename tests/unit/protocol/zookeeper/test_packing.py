"""Groups become multis, and multis' outcomes become groups' outcomes."""

import pytest

from lethe.protocol.zookeeper.operations import (
    Check,
    Create,
    Delete,
    MultiDone,
    MultiFailed,
    MultiUnknown,
    Operation,
    SetData,
    Stat,
    ZkError,
)
from lethe.protocol.zookeeper.packing import (
    FenceFailed,
    Group,
    GroupDone,
    GroupFailed,
    GroupOutcome,
    GroupUnknown,
    MultiPlan,
    PlannedMulti,
    operation_bytes,
)

FENCE = Check("/controller_epoch", 7)


def deletes(count: int, size: int = 1) -> list[Group]:
    return [tuple(Delete(f"/{n}/{i}") for i in range(size)) for n in range(count)]


def done(multi: PlannedMulti) -> MultiDone:
    return MultiDone(
        tuple(Stat(1, 1, n, 0) for n, _ in enumerate(multi.operations)), tuple(op.path for op in multi.operations), 5
    )


def drain(plan: MultiPlan) -> list[PlannedMulti]:
    found = []
    while multi := plan.next_multi():
        found.append(multi)
    return found


def test_every_multi_begins_with_the_fence_and_holds_whole_groups_in_order() -> None:
    groups = deletes(7, size=3)
    multis = drain(MultiPlan(groups, FENCE, max_operations=7))
    assert [m.groups for m in multis] == [(0, 1), (2, 3), (4, 5), (6,)]
    for multi in multis:
        assert multi.operations == (FENCE, *(op for n in multi.groups for op in groups[n]))


def test_without_a_fence_there_is_only_the_work() -> None:
    (multi,) = drain(MultiPlan(deletes(2), None))
    assert multi.operations == (Delete("/0/0"), Delete("/1/0"))


def test_done_groups_get_their_own_stats() -> None:
    plan = MultiPlan(deletes(2, size=2), FENCE)
    (multi,) = drain(plan)
    plan.settle(multi, done(multi))
    assert plan.outcomes == (
        GroupDone((Stat(1, 1, 1, 0), Stat(1, 1, 2, 0))),
        GroupDone((Stat(1, 1, 3, 0), Stat(1, 1, 4, 0))),
    )
    assert not plan.controller_moved


def test_groups_with_equal_stats_share_their_outcome() -> None:
    plan = MultiPlan(deletes(3, size=2), FENCE)
    (multi,) = drain(plan)
    stat = Stat(1, 1, 0, 0)
    plan.settle(multi, MultiDone((None, *(stat,) * 4, None, None), (), 5))
    assert plan.outcomes == (GroupDone((stat, stat)), GroupDone((stat, stat)), GroupDone((None, None)))
    assert plan.outcomes[0] is plan.outcomes[1]


def test_a_group_of_many_operations_has_a_multi_to_itself() -> None:
    plan = MultiPlan([*deletes(1), *deletes(1, size=9), *deletes(1)], FENCE, max_operations=4)
    assert [m.groups for m in drain(plan)] == [(0,), (1,), (2,)]


def test_multis_stay_below_the_size_limit() -> None:
    data = b"x" * 1000
    groups: list[Group] = [(SetData(f"/{n}", data, 0),) for n in range(20)]
    multis = drain(MultiPlan(groups, FENCE, max_bytes=5000))
    assert all(sum(map(operation_bytes, m.operations)) <= 5000 for m in multis)
    assert [len(m.groups) for m in multis] == [4, 4, 4, 4, 4]


@pytest.mark.parametrize("data_bytes", [0, 100, 1_000, 20_000])
def test_zookeeper_keeps_less_than_40_mb_of_full_multis(data_bytes: int) -> None:
    """It holds its last 500 transactions three times; small operations take up to 530 bytes (docs/decisions/0059)."""
    groups: list[Group] = [(Create(f"/{n}", b"x" * data_bytes),) for n in range(1_000)]
    for multi in drain(MultiPlan(groups, FENCE)):
        assert 500 * 3 * sum(map(operation_bytes, multi.operations)) < 40_000_000
        assert 500 * 530 * len(multi.operations) < 40_000_000


def test_a_group_that_no_request_can_hold_fails_alone() -> None:
    large: Group = (Create("/brokers/topics/t", b"x" * 1_000_001),)
    plan = MultiPlan([*deletes(1), large, *deletes(1)], FENCE)
    (refusal,) = plan.refusals
    assert refusal.startswith("group 1, which begins with Create /brokers/topics/t, takes 1,000,")
    (multi,) = drain(plan)
    assert multi.groups == (0, 2)
    plan.settle(multi, done(multi))
    assert [type(each) for each in plan.outcomes] == [GroupDone, GroupFailed, GroupDone]
    assert plan.outcomes[1] == GroupFailed(-1, ZkError.MARSHALLING)


def test_a_plan_of_too_large_groups_is_done_at_once() -> None:
    plan = MultiPlan([(Create("/t", b"x" * 1_000_001),)], FENCE)
    assert plan.is_done
    assert plan.outcomes == (GroupFailed(-1, ZkError.MARSHALLING),)


def test_a_group_without_operations_is_named() -> None:
    with pytest.raises(ValueError, match="group 0 has no operations"):
        MultiPlan([()], FENCE)


def test_a_stale_group_is_set_apart_and_the_rest_goes_again() -> None:
    plan = MultiPlan(deletes(4, size=2), FENCE)
    (multi,) = drain(plan)
    plan.settle(multi, MultiFailed(4, ZkError.BAD_VERSION))
    again = drain(plan)
    assert [m.groups for m in again] == [(0, 2), (3,)]
    for each in again:
        plan.settle(each, done(each))
    assert [type(o) for o in plan.outcomes] == [GroupDone, GroupFailed, GroupDone, GroupDone]
    assert plan.outcomes[1] == GroupFailed(1, ZkError.BAD_VERSION)


def test_the_rest_goes_before_what_has_not_been_sent() -> None:
    plan = MultiPlan(deletes(4), FENCE, max_operations=2)
    first = plan.next_multi()
    assert first is not None
    plan.settle(first, MultiFailed(1, ZkError.NO_NODE))
    assert [m.groups for m in drain(plan)] == [(1,), (2, 3)]


def test_a_failed_fence_ends_everything_that_has_not_been_sent() -> None:
    plan = MultiPlan(deletes(4), FENCE, max_operations=1)
    first, second = plan.next_multi(), plan.next_multi()
    assert first is not None
    assert second is not None
    plan.settle(first, MultiFailed(0, ZkError.BAD_VERSION))
    assert plan.controller_moved
    assert plan.next_multi() is None
    assert not plan.is_done
    plan.settle(second, MultiFailed(1, ZkError.NO_NODE))
    fenced = FenceFailed(ZkError.BAD_VERSION)
    assert plan.outcomes == (fenced, GroupFailed(0, ZkError.NO_NODE), fenced, fenced)


def test_after_the_fence_failed_nothing_is_planned_again() -> None:
    plan = MultiPlan(deletes(4), FENCE, max_operations=2)
    first, second = drain(plan)
    plan.settle(first, MultiFailed(0, ZkError.BAD_VERSION))
    plan.settle(second, MultiFailed(1, ZkError.NO_NODE))
    fenced = FenceFailed(ZkError.BAD_VERSION)
    assert plan.outcomes == (fenced, fenced, GroupFailed(0, ZkError.NO_NODE), fenced)


def test_without_a_fence_the_first_operation_may_fail_as_any_other() -> None:
    plan = MultiPlan(deletes(2), None)
    (multi,) = drain(plan)
    plan.settle(multi, MultiFailed(0, ZkError.NO_NODE))
    (rest,) = drain(plan)
    plan.settle(rest, done(rest))
    assert plan.outcomes[0] == GroupFailed(0, ZkError.NO_NODE)
    assert not plan.controller_moved


def test_a_lost_reply_leaves_its_groups_unknown_and_is_not_sent_again() -> None:
    plan = MultiPlan(deletes(3), FENCE, max_operations=2)
    first, second = drain(plan)
    plan.settle(first, MultiUnknown("connection lost"))
    plan.settle(second, done(second))
    unknown = GroupUnknown("connection lost")
    assert plan.outcomes[:2] == (unknown, unknown)
    assert isinstance(plan.outcomes[2], GroupDone)
    assert plan.next_multi() is None


def test_a_request_that_failed_as_a_whole_fails_all_its_groups() -> None:
    plan = MultiPlan(deletes(2), FENCE)
    (multi,) = drain(plan)
    plan.settle(multi, MultiFailed(-1, ZkError.MARSHALLING))
    assert plan.outcomes == (GroupFailed(-1, ZkError.MARSHALLING),) * 2
    assert not plan.controller_moved


def test_an_abandoned_plan_ends_when_what_was_sent_has_settled() -> None:
    plan = MultiPlan(deletes(3), FENCE, max_operations=1)
    first = plan.next_multi()
    assert first is not None
    plan.abandon("session lost")
    assert not plan.is_done
    plan.settle(first, done(first))
    assert [type(o) for o in plan.outcomes] == [GroupDone, GroupUnknown, GroupUnknown]


def test_misuse_is_refused() -> None:
    plan = MultiPlan(deletes(1), FENCE)
    with pytest.raises(ValueError, match="1 of 1 group has no outcome"):
        _ = plan.outcomes
    (multi,) = drain(plan)
    with pytest.raises(ValueError, match="cannot have failed"):
        plan.settle(multi, MultiFailed(2, ZkError.NO_NODE))
    with pytest.raises(ValueError, match="not in flight"):
        plan.settle(multi, done(multi))
    assert MultiPlan([], FENCE).is_done


def test_many_stale_groups_are_found_in_few_rounds() -> None:
    """500 groups, every tenth stale: halving finds them in parallel, so the rounds grow with the logarithm."""
    plan = MultiPlan(deletes(500), FENCE)
    rounds = 0
    while not plan.is_done:
        rounds += 1
        for multi in drain(plan):
            plan.settle(multi, _answer(multi))
    assert rounds <= 12
    assert [isinstance(o, GroupFailed) for o in plan.outcomes] == [n % 10 == 9 for n in range(500)]


def _answer(multi: PlannedMulti) -> MultiDone | MultiFailed:
    def stale(operation: Operation) -> bool:
        return operation.path.split("/")[1].endswith("9")

    bad = next((i for i, op in enumerate(multi.operations) if stale(op)), None)
    return done(multi) if bad is None else MultiFailed(bad, ZkError.BAD_VERSION)


def test_outcomes_are_plain_values() -> None:
    outcome: GroupOutcome = GroupFailed(0, ZkError.NO_NODE)
    assert outcome == GroupFailed(0, ZkError.NO_NODE)
    assert operation_bytes(Delete("/ä")) == operation_bytes(Delete("/ab"))
