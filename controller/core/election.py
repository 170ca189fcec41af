"""Chooses a partition's leader from assignment, ISR and live replicas, like Kafka.

Candidates are tried in assignment order, and the new ISR keeps the order of the old one.

    assignment [1, 2, 3], ISR [1, 3], broker 1 down    `offline`: leader 3, ISR [3]
    assignment [1, 2, 3], ISR [1], broker 1 down       `offline`: NoLeader, or unclean: leader 2, ISR [2]
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from lethe.protocol.vocabulary import (
    INITIAL_LEADER_EPOCH,
    LEADER_NONE,
    ControllerEpoch,
    LeaderAndIsr,
    RecoveryState,
    ReplicaAssignment,
)

IsOnline = Callable[[int], bool]


class Strategy(enum.Enum):
    """Why a leader is elected. It decides the candidates, the new ISR and the receivers of LeaderAndIsr."""

    OFFLINE = "offline"
    """The leader is offline."""
    UNCLEAN = "unclean"
    """As OFFLINE, and a client requested a leader from outside the ISR where no member of it is live."""
    REASSIGN = "reassign"
    """The leader is not among the target replicas of a reassignment, or is not live."""
    PREFERRED = "preferred"
    """The first replica of the assignment should lead."""
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    """The leader's broker requested a controlled shutdown."""


@dataclass(frozen=True, slots=True)
class Elected:
    """The leadership to write. `unclean`: the leader is from outside the ISR and may lack records."""

    leader_and_isr: LeaderAndIsr
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class NoLeader:
    """No replica can lead. `unclean_would_help`: a live replica outside the ISR exists."""

    unclean_would_help: bool


def initial(
    assignment: ReplicaAssignment, is_online: IsOnline, controller_epoch: ControllerEpoch
) -> LeaderAndIsr | None:
    """Return the first leadership of a new partition: the first live replica leads, and the ISR is all live ones."""
    live = tuple(r for r in assignment.replicas if is_online(r))
    if not live:
        return None
    return LeaderAndIsr(live[0], INITIAL_LEADER_EPOCH, live, controller_epoch)


def offline(
    assignment: ReplicaAssignment,
    current: LeaderAndIsr,
    is_online: IsOnline,
    controller_epoch: ControllerEpoch,
    *,
    unclean_allowed: bool,
    recovery_supported: bool,
) -> Elected | NoLeader:
    """Elect a leader after the former one went offline: from the ISR, or from outside it if that is allowed."""
    live = [r for r in assignment.replicas if is_online(r)]
    in_sync = next((r for r in live if r in current.isr), None)
    if in_sync is not None:
        isr = tuple(r for r in current.isr if is_online(r))
        return Elected(_raised(current, in_sync, isr, controller_epoch, current.recovery_state))
    if not live:
        return NoLeader(unclean_would_help=False)
    if not unclean_allowed:
        return NoLeader(unclean_would_help=True)
    recovery = RecoveryState.RECOVERING if recovery_supported else current.recovery_state
    return Elected(_raised(current, live[0], (live[0],), controller_epoch, recovery), unclean=True)


def reassign(
    assignment: ReplicaAssignment, current: LeaderAndIsr, is_online: IsOnline, controller_epoch: ControllerEpoch
) -> Elected | NoLeader:
    """Elect the first target replica that is live and in the ISR; the ISR stays the same."""
    leader = next((r for r in assignment.target if is_online(r) and r in current.isr), None)
    return _with_the_same_isr(current, leader, controller_epoch)


def preferred(
    assignment: ReplicaAssignment, current: LeaderAndIsr, is_online: IsOnline, controller_epoch: ControllerEpoch
) -> Elected | NoLeader:
    """Elect the first replica of the assignment, if it is live and in the ISR; the ISR stays the same."""
    leader = next((r for r in assignment.replicas[:1] if is_online(r) and r in current.isr), None)
    return _with_the_same_isr(current, leader, controller_epoch)


def controlled_shutdown(
    assignment: ReplicaAssignment,
    current: LeaderAndIsr,
    is_online: IsOnline,
    is_shutting_down: IsOnline,
    controller_epoch: ControllerEpoch,
) -> Elected | NoLeader:
    """Elect the first live replica in the ISR that is not shutting down; brokers shutting down leave the ISR.

    The result of `is_online` for a broker that is shutting down does not matter.
    """
    leader = next(
        (r for r in assignment.replicas if is_online(r) and r in current.isr and not is_shutting_down(r)), None
    )
    if leader is None:
        return NoLeader(unclean_would_help=False)
    isr = tuple(r for r in current.isr if not is_shutting_down(r))
    return Elected(_raised(current, leader, isr, controller_epoch, current.recovery_state))


def _with_the_same_isr(
    current: LeaderAndIsr, leader: int | None, controller_epoch: ControllerEpoch
) -> Elected | NoLeader:
    if leader is None:
        return NoLeader(unclean_would_help=False)
    return Elected(_raised(current, leader, current.isr, controller_epoch, current.recovery_state))


def without_foreign_isr_members(
    assignment: ReplicaAssignment, current: LeaderAndIsr, hosts_nothing: Collection[int] = ()
) -> LeaderAndIsr:
    """Return the leadership with assigned replicas only, in the ISR and as leader; unchanged if none is in the ISR.

    `hosts_nothing`: advertised controllers, which are no replicas although brokers have assigned some to them."""
    replicas = assignment.replicas
    if hosts_nothing:
        replicas = tuple(broker for broker in replicas if broker not in hosts_nothing)
    for broker in current.isr:
        if broker not in replicas:
            break
    else:
        return current
    isr = tuple(broker for broker in current.isr if broker in replicas)
    if not isr:
        return current
    return current._replace(isr=isr, leader=current.leader if current.leader in isr else LEADER_NONE)


def as_assigned(assignment: ReplicaAssignment, gone: Iterable[int]) -> tuple[int, ...]:
    """Return the brokers in the order of the assignment: where all go, the last one stays in the ISR."""
    rank = {broker: at for at, broker in enumerate(assignment.replicas)}
    return tuple(sorted(gone, key=lambda broker: rank.get(broker, len(rank))))


def shrunk(current: LeaderAndIsr, gone: tuple[int, ...], controller_epoch: ControllerEpoch) -> LeaderAndIsr | None:
    """Return the leadership after these replicas went offline, one after the other; None if nothing changes.

    The last member stays in the ISR: only it is known to have every committed record.
    """
    leader, isr = current.leader, current.isr
    for replica in gone:
        if replica not in isr:
            continue
        if leader == replica:
            leader = LEADER_NONE
        if len(isr) > 1:
            isr = tuple(r for r in isr if r != replica)
    if leader == current.leader and isr == current.isr:
        return None
    return _raised(current, leader, isr, controller_epoch, current.recovery_state)


def raised(current: LeaderAndIsr, controller_epoch: ControllerEpoch) -> LeaderAndIsr:
    """Return the same leadership under the next leader epoch."""
    return current._replace(leader_epoch=current.leader_epoch + 1, controller_epoch=controller_epoch)


def _raised(
    current: LeaderAndIsr, leader: int, isr: tuple[int, ...], controller_epoch: ControllerEpoch, recovery: int
) -> LeaderAndIsr:
    return LeaderAndIsr(leader, current.leader_epoch + 1, isr, controller_epoch, current.partition_epoch, recovery)
