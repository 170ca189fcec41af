"""Kafka's election cases, and the shrinking of ISRs."""

from __future__ import annotations

import pytest

from lethe.controller.core import election
from lethe.protocol.vocabulary import ControllerEpoch, LeaderAndIsr, RecoveryState, ReplicaAssignment

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


# --- reassignment -------------------------------------------------------------------------------------------------


def reassign(
    replicas: tuple[int, ...], isr: tuple[int, ...], live: tuple[int, ...], *, removing: tuple[int, ...] = ()
) -> election.Elected | election.NoLeader:
    assignment = ReplicaAssignment(replicas, (), removing)
    return election.reassign(assignment, LeaderAndIsr(9, 3, isr, BEFORE, 9), lambda broker: broker in live, EPOCH)


def test_reassign_election_takes_the_first_live_member_of_the_isr_and_leaves_the_isr() -> None:
    assert reassign((2, 4), (2, 4), (4,)) == election.Elected(LeaderAndIsr(4, 4, (2, 4), EPOCH, 9))


def test_reassign_election_with_no_live_member_of_the_isr_has_no_leader() -> None:
    assert reassign((2, 4), (2,), ()) == election.NoLeader(unclean_would_help=False)


def test_reassign_election_with_an_empty_isr_has_no_leader() -> None:
    assert reassign((2, 4), (), (2,)) == election.NoLeader(unclean_would_help=False)


def test_reassign_election_looks_at_the_target_replicas_only() -> None:
    result = reassign((2, 4, 6), (2, 4, 6), (2, 4, 6), removing=(2,))
    assert result == election.Elected(LeaderAndIsr(4, 4, (2, 4, 6), EPOCH, 9))


# --- the preferred replica ----------------------------------------------------------------------------------------


def preferred(
    replicas: tuple[int, ...], isr: tuple[int, ...], live: tuple[int, ...]
) -> election.Elected | election.NoLeader:
    current = LeaderAndIsr(4, 3, isr, BEFORE, 9, RecoveryState.RECOVERING)
    return election.preferred(ReplicaAssignment(replicas), current, lambda broker: broker in live, EPOCH)


def test_preferred_replica_election_takes_the_head_of_the_assignment_and_leaves_isr_and_recovery() -> None:
    result = preferred((2, 4), (4, 2), (2, 4))
    assert result == election.Elected(LeaderAndIsr(2, 4, (4, 2), EPOCH, 9, RecoveryState.RECOVERING))


def test_preferred_replica_in_the_isr_but_not_live_does_not_lead() -> None:
    assert preferred((2, 4), (2,), ()) == election.NoLeader(unclean_would_help=False)


def test_preferred_replica_not_in_the_isr_but_live_does_not_lead() -> None:
    assert preferred((2, 4), (4,), (2, 4)) == election.NoLeader(unclean_would_help=False)


def test_preferred_replica_neither_in_the_isr_nor_live_does_not_lead() -> None:
    assert preferred((2, 4), (), ()) == election.NoLeader(unclean_would_help=False)


# --- controlled shutdown ------------------------------------------------------------------------------------------


def controlled_shutdown(
    isr: tuple[int, ...], leaving: tuple[int, ...], live: tuple[int, ...] = (2, 4)
) -> election.Elected | election.NoLeader:
    return election.controlled_shutdown(
        ReplicaAssignment((2, 4)),
        LeaderAndIsr(2, 3, isr, BEFORE, 9),
        lambda broker: broker in live,
        lambda broker: broker in leaving,
        EPOCH,
    )


def test_controlled_shutdown_election_takes_one_that_stays_and_the_isr_loses_the_leaving() -> None:
    assert controlled_shutdown((2, 4), (2,)) == election.Elected(LeaderAndIsr(4, 4, (4,), EPOCH, 9))


def test_controlled_shutdown_of_the_last_isr_member_elects_nobody() -> None:
    assert controlled_shutdown((2,), (2,)) == election.NoLeader(unclean_would_help=False)


def test_controlled_shutdown_of_the_whole_isr_at_the_same_time_elects_nobody() -> None:
    assert controlled_shutdown((2, 4), (2, 4)) == election.NoLeader(unclean_would_help=False)


def test_controlled_shutdown_keeps_members_of_the_isr_that_are_dead_but_did_not_ask_to_leave() -> None:
    result = controlled_shutdown((2, 4, 6), (2,))
    assert result == election.Elected(LeaderAndIsr(4, 4, (4, 6), EPOCH, 9))


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
