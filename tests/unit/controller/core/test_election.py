"""Kafka's offline election cases, and the shrinking of ISRs."""

from __future__ import annotations

import pytest

from controller.core import election
from protocol.vocabulary import ControllerEpoch, LeaderAndIsr, RecoveryState, ReplicaAssignment

EPOCH = ControllerEpoch(7)
BEFORE = ControllerEpoch(6)


def offline(
    replicas: tuple[int, ...], isr: tuple[int, ...], live: tuple[int, ...], *, unclean: bool, recovery: bool = True
) -> election.Elected | election.NoLeader:
    return election.offline(
        ReplicaAssignment(replicas),
        LeaderAndIsr(-1, 3, isr, BEFORE, 9),
        lambda broker: broker in live,
        EPOCH,
        unclean_allowed=unclean,
        recovery_supported=recovery,
    )


def test_offline_election_takes_the_first_live_member_of_the_isr() -> None:
    result = offline((2, 4), (2, 4), (4,), unclean=False)
    assert result == election.Elected(LeaderAndIsr(4, 4, (4,), EPOCH, 9), unclean=False)


def test_offline_election_with_the_last_isr_member_dead_and_unclean_disabled_has_no_leader() -> None:
    assert offline((2, 4), (2,), (4,), unclean=False) == election.NoLeader(unclean_would_help=True)


def test_offline_election_with_the_last_isr_member_dead_and_unclean_enabled_takes_a_live_one() -> None:
    result = offline((2, 4), (2,), (4,), unclean=True)
    assert result == election.Elected(LeaderAndIsr(4, 4, (4,), EPOCH, 9, RecoveryState.RECOVERING), unclean=True)


def test_unclean_election_without_recovery_support_keeps_the_state_as_it_was() -> None:
    result = offline((2, 4), (2,), (4,), unclean=True, recovery=False)
    assert result == election.Elected(LeaderAndIsr(4, 4, (4,), EPOCH, 9, RecoveryState.RECOVERED), unclean=True)


def test_unclean_is_no_matter_while_a_member_of_the_isr_lives() -> None:
    result = offline((2, 4, 6), (6,), (2, 6), unclean=True)
    assert result == election.Elected(LeaderAndIsr(6, 4, (6,), EPOCH, 9), unclean=False)


@pytest.mark.parametrize("unclean", [True, False])
def test_with_nobody_live_there_is_no_leader_and_unclean_would_not_help(unclean: bool) -> None:
    assert offline((2, 4), (2, 4), (), unclean=unclean) == election.NoLeader(unclean_would_help=False)


def test_candidates_are_scanned_in_assignment_order_and_the_isr_keeps_its_own() -> None:
    result = offline((1, 2, 3), (3, 2), (2, 3), unclean=False)
    assert result == election.Elected(LeaderAndIsr(2, 4, (3, 2), EPOCH, 9))


def test_live_member_of_the_isr_that_is_not_assigned_cannot_lead() -> None:
    assert offline((2, 4), (5,), (5,), unclean=False) == election.NoLeader(unclean_would_help=False)


# --- the first leadership -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("live, leader", [((1, 2, 3), 1), ((3, 2), 2), ((3,), 3)])
def test_first_leader_is_the_first_live_replica_and_all_live_ones_are_in_sync(
    live: tuple[int, ...], leader: int
) -> None:
    first = election.initial(ReplicaAssignment((1, 2, 3)), lambda b: b in live, EPOCH)
    assert first == LeaderAndIsr(leader, 0, tuple(sorted(live)), EPOCH, 0)


def test_no_first_leader_without_live_replicas() -> None:
    assert election.initial(ReplicaAssignment((1, 2)), lambda b: False, EPOCH) is None


# --- the ISR without what went offline ----------------------------------------------------------------------------

STATE = LeaderAndIsr(1, 3, (1, 2, 3), BEFORE, 9, RecoveryState.RECOVERING)


@pytest.mark.parametrize(
    "gone, leader, isr",
    [
        ((3,), 1, (1, 2)),
        ((1,), -1, (2, 3)),
        ((1, 2), -1, (3,)),
        ((1, 2, 3), -1, (3,)),
        ((2, 3, 1), -1, (1,)),
        ((3, 9), 1, (1, 2)),
    ],
)
def test_shrunk_isr(gone: tuple[int, ...], leader: int, isr: tuple[int, ...]) -> None:
    assert election.shrunk(STATE, gone, EPOCH) == LeaderAndIsr(leader, 4, isr, EPOCH, 9, RecoveryState.RECOVERING)


@pytest.mark.parametrize("gone", [(), (9,), (8, 9)])
def test_isr_without_the_replica_stays_as_it_is(gone: tuple[int, ...]) -> None:
    assert election.shrunk(STATE, gone, EPOCH) is None


def test_last_member_that_leads_no_more_stays_and_nothing_is_written_twice() -> None:
    leaderless = LeaderAndIsr(-1, 5, (2,), EPOCH, 9)
    assert election.shrunk(leaderless, (2,), EPOCH) is None
