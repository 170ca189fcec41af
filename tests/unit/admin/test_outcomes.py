"""What tools say became of their writes."""

import pytest

from lethe.admin.outcomes import CONFLICTS, Outcome, demand_done, exit_of, given_up, is_conflict, outcome_of
from lethe.admin.refusal import Exit, Refusal
from lethe.protocol.zookeeper.operations import MultiDone, MultiFailed, MultiOutcome, MultiUnknown, ZkError, error_words

ACT, DONE = "create topic orders", "topic orders was created"


def test_only_what_others_wrote_meanwhile_is_tried_again() -> None:
    assert {error for error in ZkError if is_conflict(MultiFailed(0, error))} == set(CONFLICTS)
    assert not is_conflict(MultiDone((), ()))
    assert not is_conflict(MultiUnknown("the connection was lost"))


@pytest.mark.parametrize(
    "answer, outcome",
    [
        (MultiDone((), ()), Outcome("orders", was_done=True)),
        (
            MultiFailed(1, ZkError.OTHER),
            Outcome("orders", "ZooKeeper refused to create topic orders: OTHER", was_done=False),
        ),
        (
            MultiFailed(1, ZkError.NO_AUTH),
            Outcome(
                "orders",
                f"ZooKeeper refused to create topic orders: {error_words(ZkError.NO_AUTH)}",
                was_done=False,
            ),
        ),
        (
            MultiUnknown("the connection was lost"),
            Outcome("orders", "whether topic orders was created is unknown: the connection was lost", is_unknown=True),
        ),
    ],
)
def test_each_answer_in_words(answer: MultiOutcome, outcome: Outcome) -> None:
    assert outcome_of("orders", answer, act=ACT, done=DONE, was_done=True) == outcome


def test_what_was_given_up_is_named() -> None:
    assert given_up("orders", "topic orders").problem == "topic orders was changed by others again and again"


def test_exit_codes_of_several_outcomes() -> None:
    done, failed, unknown = Outcome("a"), Outcome("b", "refused"), Outcome("c", "the reply was lost", is_unknown=True)
    assert [exit_of(each) for each in ([], [done], [done, failed], [failed, unknown])] == [
        Exit.OK,
        Exit.OK,
        Exit.NO,
        Exit.UNREACHABLE,
    ]
    demand_done(done)
    with pytest.raises(Refusal, match="lost") as refusal:
        demand_done(unknown)
    assert refusal.value.exit is Exit.UNREACHABLE
