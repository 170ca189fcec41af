"""Routes the result of a read, write or probe to the module that handles it.

Three rules for results are applied here:

    result                                              what happens
    --------------------------------------------------  ------------------------------------
    a write whose fence failed                          the controller resigns
    a write with an unknown outcome                     the controller ends its session (*)
    a failed read of `_INDISPENSABLE`, except NO_NODE   the controller ends its session

(*) The module of an election or takeover handles an unknown outcome itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, assert_never

from lethe.controller.core import (
    agenda_deletion,
    agenda_partitions,
    agenda_power,
    agenda_reassignment,
    agenda_requests,
    agenda_residence,
    brokers,
    caches,
    configuration,
    continuations,
    creation,
    epoch_raise,
    eviction,
    expansion,
    failover,
    isr,
    leadership,
    leadership_first,
    marks,
    notifications,
    pausing,
    preferred,
    preflight,
    producer_ids,
    reassignment,
    reassignment_end,
    reassignment_requests,
    removal,
    requests,
    residence,
    resigning,
    strangers,
    takeover,
    tenure,
    unreadable,
)
from lethe.controller.core.events import ProbesAnswered, Result, ZnodesRead, ZnodesWritten
from lethe.controller.core.turn import Turn
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ReadFailed, ReadOutcome, ZkError
from lethe.protocol.zookeeper.packing import GroupOutcome, GroupUnknown


def route(turn: Turn, event: Result) -> None:
    """Pass on the awaited result. Any other result belongs to an earlier session or tenure and is dropped."""
    awaited = turn.context.awaited
    if awaited is None or awaited.effect_id != event.id:
        return
    turn.context.awaited = None
    match awaited, event:
        case continuations.AwaitedRead(then=then), ZnodesRead(outcomes=read):
            _read(turn, then, read)
        case continuations.AwaitedWrite(), ZnodesWritten(controller_moved=True):
            resigning.control_lost(turn)
        case continuations.AwaitedWrite(then=then), ZnodesWritten(outcomes=written):
            _written(turn, then, written)
        case continuations.AwaitedProbes(then=then), ProbesAnswered(outcomes=answers):
            preflight.probed(turn, then, answers)
        case _:
            raise RuntimeError(f"{type(event).__name__} came as the result of {awaited}")


_INDISPENSABLE: Final[Mapping[type[continuations.ReadContinuation], str]] = MappingProxyType(
    {
        continuations.ElectionLookedUp: "/controller, /controller_epoch or /migration",
        continuations.BrokersListed: paths.broker_ids(),
        agenda_power.RegistrationsListed: paths.broker_ids(),
        continuations.TopicsListed: paths.broker_topics(),
        agenda_deletion.DeletionsListed: paths.delete_topics(),
    }
)
"""Reads that must succeed, and what they read: an error does not mean that a list is empty."""


def _unreadable(outcomes: Sequence[ReadOutcome]) -> ZkError | None:
    """Return the first error other than NO_NODE."""
    errors = (outcome.error for outcome in outcomes if isinstance(outcome, ReadFailed))
    return next((error for error in errors if error is not ZkError.NO_NODE), None)


def _read(  # noqa: C901 - as flat as `_run`
    turn: Turn, then: continuations.ReadContinuation, outcomes: tuple[ReadOutcome, ...]
) -> None:
    if (what := _INDISPENSABLE.get(type(then))) is not None and (error := _unreadable(outcomes)) is not None:
        resigning.step_back(turn, f"reading {what} failed with {error.name}; may the controller's credentials read it?")
        return
    match then:
        case continuations.ElectionLookedUp():
            tenure.looked_up(turn, outcomes)
        case agenda_power.RegistrationsListed():
            preflight.listed(turn, then, outcomes)
        case agenda_power.RegistrationsRead():
            preflight.were_read(turn, then, outcomes)
        case continuations.NotificationsListed():
            failover.notifications_listed(turn, outcomes)
        case continuations.StatesRead():
            failover.states_read(turn, then, outcomes)
        case continuations.ReplicasAnnounced():
            failover.replicas_announced(turn)
        case agenda_requests.ConfigurationRead():
            configuration.was_read(turn, then, outcomes)
        case agenda_requests.NotificationsFound():
            notifications.found(turn, then, outcomes)
        case agenda_requests.NotificationsRead():
            notifications.were_read(turn, then, outcomes)
        case agenda_requests.PreferredElectionsRead():
            preferred.was_read(turn, outcomes)
        case continuations.BrokersListed():
            brokers.listed(turn, then, outcomes)
        case continuations.BrokersRead():
            brokers.read(turn, then, outcomes)
        case continuations.BrokerRead():
            brokers.modified(turn, then, outcomes)
        case continuations.TopicsListed():
            creation.listed(turn, then, outcomes)
        case continuations.TopicsRead():
            creation.topics_read(turn, then, outcomes)
        case continuations.ModifiedTopicsRead():
            expansion.modified(turn, then, outcomes)
        case agenda_partitions.UncleanConfigsRead():
            leadership.configs_read(turn, then, outcomes)
        case continuations.StatesReread():
            leadership.reread(turn, then, outcomes)
        case agenda_requests.StatesRefreshed():
            isr.refreshed(turn, then, outcomes)
        case agenda_residence.ResidentsListed():
            residence.residents_listed(turn, outcomes)
        case agenda_residence.RegistrationRead():
            residence.registration_read(turn, outcomes)
        case agenda_requests.GhostsChecked():
            caches.checked(turn, then, outcomes)
        case agenda_requests.ProducerIdsRead():
            producer_ids.was_read(turn, then, outcomes)
        case agenda_reassignment.ReassignmentsRead():
            reassignment_requests.was_read(turn, then, outcomes)
        case agenda_deletion.DeletionsListed():
            marks.listed(turn, then, outcomes)
        case agenda_deletion.MarkersDated():
            marks.dated(turn, then, outcomes)
        case agenda_deletion.PauseRead():
            pausing.pause_read(turn, then, outcomes)
        case agenda_deletion.BegunRead():
            pausing.begun_read(turn, then, outcomes)
        case agenda_deletion.MarkersRead():
            unreadable.markers_read(turn, then, outcomes)
        case agenda_deletion.UnreadableRead():
            unreadable.found(turn, then, outcomes)
        case agenda_deletion.UnreadableStatesRead():
            unreadable.states_read(turn, then, outcomes)
        case agenda_deletion.TopicTreesSearched():
            removal.searched(turn, then, outcomes)
        case _:
            assert_never(then)


def _written(  # noqa: C901 - as flat as `_run`
    turn: Turn, then: continuations.WriteContinuation, outcomes: tuple[GroupOutcome, ...]
) -> None:
    unknown = next((outcome for outcome in outcomes if isinstance(outcome, GroupUnknown)), None)
    match then:
        case continuations.ElectionWritten():
            tenure.election_written(turn, then, outcomes[0])
        case continuations.ControllerTaken():
            takeover.taken(turn, then, outcomes[0])
        case _ if unknown is not None:
            resigning.step_back(turn, f"the outcome of a write is not known: {unknown.reason}")
        case continuations.EpochNodeCreated():
            tenure.epoch_node_created(turn, outcomes[0])
        case agenda_power.EpochRaised():
            epoch_raise.raised(turn, then, outcomes[0])
        case continuations.GivenUp():
            resigning.given_up(turn, then, outcomes[0])
        case agenda_requests.NotificationsDeleted():
            pass
        case agenda_requests.StrangersDropped():
            strangers.dropped(turn, then, outcomes)
        case agenda_requests.PreferredElectionsRemoved():
            preferred.removed(turn, outcomes[0])
        case continuations.TopicIdsWritten():
            creation.ids_written(turn, then, outcomes)
        case continuations.TopicsRestored():
            expansion.restored(turn, then, outcomes)
        case agenda_partitions.LeadershipPathsCreated():
            leadership_first.paths_created(turn, then)
        case agenda_partitions.LeadershipInitialized():
            leadership_first.initialized(turn, then, outcomes)
        case agenda_partitions.LeadersElected():
            leadership.elected(turn, then, outcomes)
        case agenda_partitions.IsrShrunk():
            leadership.isr_shrunk(turn, then, outcomes)
        case agenda_requests.IsrsAltered():
            isr.altered(turn, then, outcomes)
        case agenda_residence.ResidentNoted():
            residence.resident_noted(turn, outcomes)
        case agenda_residence.ReplicasEvicted():
            eviction.evicted(turn, then, outcomes)
        case agenda_residence.RegistrationWritten():
            residence.registration_written(turn, then, outcomes[0])
        case agenda_residence.RegistrationRemoved():
            pass
        case agenda_requests.ControlProven():
            requests.proven(turn, then, outcomes[0])
        case agenda_requests.ProducerIdsWritten():
            producer_ids.were_written(turn, then, outcomes[0])
        case agenda_reassignment.ReassignmentsTrimmed():
            reassignment_requests.trimmed(turn, outcomes[0])
        case agenda_reassignment.ReassignmentsStarted():
            reassignment.started(turn, then, outcomes)
        case agenda_reassignment.ReassignmentsAnnounced():
            reassignment.announced(turn, then, outcomes)
        case agenda_reassignment.TargetsLed():
            reassignment_end.led(turn, then, outcomes)
        case agenda_reassignment.ReassignmentsFinished():
            reassignment_end.finished(turn, then, outcomes)
        case agenda_reassignment.ReassignmentsEnded():
            reassignment_end.cancelled(turn, then, outcomes)
        case agenda_deletion.BegunNoted():
            pausing.begun_noted(turn, then, outcomes)
        case agenda_deletion.MarkersRemoved():
            marks.markers_removed(turn, then, outcomes)
        case agenda_deletion.TopicsRemoved():
            removal.removed(turn, then, outcomes)
        case _:
            assert_never(then)
