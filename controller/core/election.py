"""Who leads a partition: pure choices over assignment, ISR and live replicas, as Kafka makes them.

Candidates are always scanned in assignment order, and the new ISR keeps the old one's order.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
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
    """Why a leader is elected, which decides who may lead, what becomes of the ISR and who is told."""

    OFFLINE = "offline"
    """The leader cannot lead any more, or there never was one."""
    REASSIGN = "reassign"
    """The leader is not among the target replicas of a reassignment, or is not live."""
    PREFERRED = "preferred"
    """The first replica of the assignment is to lead."""
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    """The leader's broker asked to be relieved before it stops."""


@dataclass(frozen=True, slots=True)
class Elected:
    """The leadership to write; `unclean` where the leader comes from outside the ISR and may lack records."""

    leadership: LeaderAndIsr
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class NoLeader:
    """Nobody can lead. `unclean_would_help`: a live replica outside the ISR is there."""

    unclean_would_help: bool


def initial(
    assignment: ReplicaAssignment, is_online: IsOnline, controller_epoch: ControllerEpoch
) -> LeaderAndIsr | None:
    """The first leadership of a new partition: the first live replica leads, all live replicas are in sync."""
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
    """A leader for a partition whose leader cannot lead: from the ISR, or from outside it where that is allowed."""
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
    """The first target replica that is live and in sync; the ISR stays as it is."""
    leader = next((r for r in assignment.target if is_online(r) and r in current.isr), None)
    return _with_the_same_isr(current, leader, controller_epoch)


def preferred(
    assignment: ReplicaAssignment, current: LeaderAndIsr, is_online: IsOnline, controller_epoch: ControllerEpoch
) -> Elected | NoLeader:
    """The first replica of the assignment, where it is live and in sync, or nobody; the ISR stays as it is."""
    leader = next((r for r in assignment.replicas[:1] if is_online(r) and r in current.isr), None)
    return _with_the_same_isr(current, leader, controller_epoch)


def controlled_shutdown(
    assignment: ReplicaAssignment,
    current: LeaderAndIsr,
    is_online: IsOnline,
    is_shutting_down: IsOnline,
    controller_epoch: ControllerEpoch,
) -> Elected | NoLeader:
    """The first replica that is in sync, live and not leaving; all brokers that are leaving leave the ISR too.

    `is_online` says of a broker that is shutting down what it likes: such a broker is no candidate.
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


def without_strangers(assignment: ReplicaAssignment, current: LeaderAndIsr) -> LeaderAndIsr:
    """The same leadership with only assigned replicas, in sync and as leader; unchanged where none is in sync."""
    replicas = assignment.replicas
    for broker in current.isr:
        if broker not in replicas:
            break
    else:
        return current
    isr = tuple(broker for broker in current.isr if broker in replicas)
    if not isr:
        return current
    return current._replace(isr=isr, leader=current.leader if current.leader in isr else LEADER_NONE)


def shrunk(current: LeaderAndIsr, gone: tuple[int, ...], controller_epoch: ControllerEpoch) -> LeaderAndIsr | None:
    """The leadership when these replicas went offline, one after the other; None where nothing changes.

    The last member stays in the ISR: it alone is known to have every committed record.
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
    """The same leadership under the next leader epoch."""
    return current._replace(leader_epoch=current.leader_epoch + 1, controller_epoch=controller_epoch)


def _raised(
    current: LeaderAndIsr, leader: int, isr: tuple[int, ...], controller_epoch: ControllerEpoch, recovery: int
) -> LeaderAndIsr:
    return LeaderAndIsr(leader, current.leader_epoch + 1, isr, controller_epoch, current.partition_epoch, recovery)
