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
    advertising,
    brokers,
    caches,
    config_description,
    config_requests,
    configuration,
    continuations,
    creation,
    debts,
    debts_written,
    epoch_raise,
    eviction,
    expansion,
    failover,
    first_leaders,
    foreign_isr_members,
    forgetting,
    holding,
    isr,
    leader_changes,
    marks,
    mutation_quotas,
    named_incarnation,
    notifications,
    orders,
    partition_creation_requests,
    pausing,
    preferred,
    preflight,
    producer_ids,
    reassignment,
    reassignment_api,
    reassignment_end,
    reassignment_requests,
    removal,
    requests,
    resigning,
    takeover,
    tasks_advertising,
    tasks_clients,
    tasks_debts,
    tasks_deletion,
    tasks_partitions,
    tasks_power,
    tasks_reassignment,
    tasks_requests,
    tasks_settings,
    tasks_trash,
    term,
    topic_creation_requests,
    topic_deletion_requests,
    trash,
    trash_after,
    trash_end,
    trash_in,
    trash_out,
    trash_settings,
    trash_takeover,
    undeleting,
    unreadable,
    user_requests,
)
from lethe.controller.core.events import ProbesCompleted, Result, ZnodesRead, ZnodesWritten
from lethe.controller.core.step_context import StepContext
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ReadOutcome, ZkError, error_words, read_error
from lethe.protocol.zookeeper.packing import GroupOutcome, GroupUnknown


def route(step: StepContext, event: Result) -> None:
    """Pass on the awaited result, or that of a write in the background. Any other result belongs to an earlier session
    or term and is dropped."""
    context = step.context
    if isinstance(event, ZnodesWritten) and event.id in context.cluster.background:
        _ended_in_background(step, event)
        return
    awaited = next((each for each in context.awaited if each.effect_id == event.id), None)
    if awaited is None:
        return
    context.awaited = tuple(each for each in context.awaited if each is not awaited)
    match awaited, event:
        case continuations.AwaitedRead(then=then), ZnodesRead(outcomes=read):
            _read(step, then, read)
        case continuations.AwaitedWrite(), ZnodesWritten(controller_moved=True):
            resigning.control_lost(step)
        case continuations.AwaitedWrite(then=then), ZnodesWritten(outcomes=written):
            _written(step, then, written)
        case continuations.AwaitedProbes(then=then), ProbesCompleted(outcomes=answers):
            preflight.probed(step, then, answers)
        case _:
            raise RuntimeError(f"{type(event).__name__} came as the result of {awaited}")


def _ended_in_background(step: StepContext, event: ZnodesWritten) -> None:
    context = step.context
    if context.awaiting_result:
        raise RuntimeError(f"a write in the background ended while {context.awaited} was outstanding")
    then = context.cluster.background.pop(event.id)
    if event.controller_moved:
        resigning.control_lost(step)
    else:
        _written(step, then, event.outcomes)


_INDISPENSABLE: Final[Mapping[type[continuations.ReadContinuation], str]] = MappingProxyType(
    {
        continuations.ElectionLookedUp: "/controller, /controller_epoch or /migration",
        continuations.BrokersListed: paths.broker_ids(),
        tasks_power.RegistrationsListed: paths.broker_ids(),
        continuations.TopicsListed: paths.broker_topics(),
        tasks_deletion.DeletionsListed: paths.delete_topics(),
    }
)
"""Reads that must succeed, and what they read: an error does not mean that a list is empty."""


def _unreadable(outcomes: Sequence[ReadOutcome]) -> ZkError | None:
    return next((error for error in map(read_error, outcomes) if error is not None), None)


def _read(  # noqa: C901 - as flat as `_run`
    step: StepContext, then: continuations.ReadContinuation, outcomes: tuple[ReadOutcome, ...]
) -> None:
    if (what := _INDISPENSABLE.get(type(then))) is not None and (error := _unreadable(outcomes)) is not None:
        resigning.step_back(step, f"reading {what} failed with {error_words(error)}")
        return
    match then:
        case continuations.ElectionLookedUp():
            term.on_election_looked_up(step, outcomes)
        case tasks_power.RegistrationsListed():
            preflight.on_registrations_listed(step, then, outcomes)
        case tasks_power.RegistrationsRead():
            preflight.on_registrations_read(step, then, outcomes)
        case continuations.NotificationsListed():
            failover.on_notifications_listed(step, outcomes)
        case continuations.StatesRead():
            failover.on_states_read(step, then, outcomes)
        case continuations.ReplicasAnnounced():
            failover.on_replicas_announced(step)
        case tasks_requests.ConfigurationRead():
            configuration.on_configuration_read(step, then, outcomes)
        case tasks_requests.NotificationsFound():
            notifications.on_notifications_found(step, then, outcomes)
        case tasks_requests.NotificationsRead():
            notifications.on_notifications_read(step, then, outcomes)
        case tasks_requests.PreferredElectionsRead():
            preferred.on_preferred_elections_read(step, outcomes)
        case continuations.BrokersListed():
            brokers.on_brokers_listed(step, then, outcomes)
        case continuations.BrokersRead():
            brokers.on_brokers_read(step, then, outcomes)
        case continuations.BrokerRead():
            brokers.on_broker_read(step, then, outcomes)
        case continuations.TopicsListed():
            creation.on_topics_listed(step, then, outcomes)
        case continuations.TopicsRead():
            creation.on_topics_read(step, then, outcomes)
        case continuations.ModifiedTopicsRead():
            expansion.on_modified_topics_read(step, then, outcomes)
        case tasks_partitions.UncleanConfigsRead():
            leader_changes.on_unclean_configs_read(step, then, outcomes)
        case continuations.StatesReread():
            leader_changes.on_states_reread(step, then, outcomes)
        case tasks_requests.StatesRefreshed():
            isr.on_states_refreshed(step, then, outcomes)
        case tasks_advertising.AdvertisedControllersListed():
            advertising.on_advertised_controllers_listed(step, outcomes)
        case tasks_advertising.RegistrationRead():
            advertising.on_registration_read(step, outcomes)
        case tasks_requests.GhostsChecked():
            caches.on_ghosts_checked(step, then, outcomes)
        case tasks_requests.ProducerIdsRead():
            producer_ids.on_producer_ids_read(step, then, outcomes)
        case tasks_reassignment.ReassignmentsRead():
            reassignment_requests.on_reassignments_read(step, then, outcomes)
        case tasks_clients.MutationQuotaRead():
            mutation_quotas.on_quota_read(step, then, outcomes)
        case tasks_clients.NewTopicsLookedUp():
            topic_creation_requests.on_new_topics_looked_up(step, then, outcomes)
        case tasks_settings.ConfigsToAlterRead():
            config_requests.on_configs_to_alter_read(step, then, outcomes)
        case tasks_settings.ConfigsToDescribeRead():
            config_description.on_configs_to_describe_read(step, then, outcomes)
        case tasks_settings.UsersToAlterRead():
            user_requests.on_users_to_alter_read(step, then, outcomes)
        case tasks_settings.UsersListed():
            user_requests.on_users_listed(step, then, outcomes)
        case tasks_settings.UsersToDescribeRead():
            user_requests.on_users_to_describe_read(step, then, outcomes)
        case tasks_clients.SupersededRead():
            reassignment_api.on_superseded_read(step, then, outcomes)
        case tasks_deletion.DeletionsListed():
            marks.on_deletions_listed(step, then, outcomes)
        case tasks_deletion.MarkersDated():
            marks.on_markers_dated(step, then, outcomes)
        case tasks_debts.OrdersRead():
            orders.on_orders_read(step, then, outcomes)
        case tasks_debts.DebtorsListed():
            debts_written.on_debtors_listed(step, outcomes)
        case tasks_debts.DebtsListed():
            debts_written.on_debts_listed(step, then, outcomes)
        case tasks_debts.DebtsLeftListed():
            debts.on_left_listed(step, then, outcomes)
        case tasks_debts.ForgetsListed():
            forgetting.on_listed(step, outcomes)
        case tasks_debts.ForgetsRead():
            forgetting.on_read(step, then, outcomes)
        case tasks_debts.DebtsRead():
            debts_written.on_debts_read(step, then, outcomes)
        case tasks_deletion.PauseRead():
            pausing.on_pause_read(step, then, outcomes)
        case tasks_deletion.NoteBegun():
            pausing.on_markers_read_before_noting(step, then, outcomes)
        case tasks_deletion.BegunRead():
            pausing.on_begun_read(step, then, outcomes)
        case tasks_deletion.ProtectedRead():
            holding.on_protected_read(step, then, outcomes)
        case tasks_deletion.IncarnationsRead():
            named_incarnation.on_incarnations_read(step, then, outcomes)
        case tasks_deletion.MarkersRead():
            unreadable.on_markers_read(step, then, outcomes)
        case tasks_deletion.UnreadableRead():
            unreadable.on_unreadable_read(step, then, outcomes)
        case tasks_deletion.UnreadableStatesRead():
            unreadable.on_unreadable_states_read(step, then, outcomes)
        case tasks_deletion.TopicTreesSearched():
            removal.on_topic_trees_searched(step, then, outcomes)
        case tasks_trash.TopicRequestsListed():
            undeleting.on_requests_listed(step, outcomes)
        case tasks_trash.TopicRequestsRead():
            undeleting.on_requests_read(step, then, outcomes)
        case tasks_trash.TrashListed():
            trash_takeover.on_trash_listed(step, outcomes)
        case tasks_trash.TrashRead():
            trash_takeover.on_trash_read(step, then, outcomes)
        case tasks_trash.SettingsToFreezeRead():
            trash_in.on_settings_to_freeze_read(step, then, outcomes)
        case tasks_trash.ReturnChecked():
            trash_out.on_return_checked(step, then, outcomes)
        case tasks_trash.SavedOffsetsRead():
            trash_after.on_saved_offsets_read(step, then, outcomes)
        case tasks_trash.SettingsToRestoreRead():
            trash_after.on_settings_to_restore_read(step, then, outcomes)
        case tasks_trash.PurgedSettingsRead():
            trash_end.on_settings_read(step, then, outcomes)
        case _:
            assert_never(then)


def _written(  # noqa: C901 - as flat as `_run`
    step: StepContext, then: continuations.WriteContinuation, outcomes: tuple[GroupOutcome, ...]
) -> None:
    unknown = next((outcome for outcome in outcomes if isinstance(outcome, GroupUnknown)), None)
    match then:
        case continuations.ElectionWritten():
            term.on_election_written(step, then, outcomes[0])
        case continuations.ControllerTaken():
            takeover.on_controller_taken(step, then, outcomes[0])
        case _ if unknown is not None:
            resigning.step_back(step, f"the outcome of a write is not known: {unknown.reason}")
        case continuations.EpochNodeCreated():
            term.on_epoch_node_created(step, outcomes[0])
        case tasks_power.EpochRaised():
            epoch_raise.on_epoch_raised(step, then, outcomes[0])
        case continuations.GivenUp():
            resigning.on_given_up(step, then, outcomes[0])
        case tasks_requests.NotificationsDeleted():
            pass
        case tasks_requests.ForeignIsrMembersRemoved():
            foreign_isr_members.on_foreign_isr_members_removed(step, then, outcomes)
        case tasks_requests.PreferredElectionsRemoved():
            preferred.on_preferred_elections_removed(step, outcomes[0])
        case continuations.TopicIdsWritten():
            creation.on_topic_ids_written(step, then, outcomes)
        case continuations.TopicsRestored():
            expansion.on_topics_restored(step, then, outcomes)
        case tasks_partitions.LeaderAndIsrPathsCreated():
            first_leaders.on_leader_and_isr_paths_created(step, then)
        case tasks_partitions.LeaderAndIsrInitialized():
            first_leaders.on_leader_and_isr_initialized(step, then, outcomes)
        case tasks_partitions.LeadersElected():
            leader_changes.on_leaders_elected(step, then, outcomes)
        case tasks_partitions.IsrShrunk():
            leader_changes.on_isr_shrunk(step, then, outcomes)
        case tasks_requests.IsrsAltered():
            isr.on_isrs_altered(step, then, outcomes)
        case tasks_advertising.OwnIdStored():
            advertising.on_own_id_stored(step, outcomes)
        case tasks_advertising.ReplicasEvicted():
            eviction.on_replicas_evicted(step, then, outcomes)
        case tasks_advertising.RegistrationWritten():
            advertising.on_registration_written(step, then, outcomes[0])
        case tasks_advertising.RegistrationRemoved():
            pass
        case tasks_requests.ControlProven():
            requests.on_control_proven(step, then, outcomes[0])
        case tasks_requests.ProducerIdsWritten():
            producer_ids.on_producer_ids_written(step, then, outcomes[0])
        case tasks_reassignment.ReassignmentsTrimmed():
            reassignment_requests.on_reassignments_trimmed(step, outcomes[0])
        case tasks_reassignment.ReassignmentsStarted():
            reassignment.on_reassignments_started(step, then, outcomes)
        case tasks_reassignment.ReassignmentsAnnounced():
            reassignment.on_reassignments_announced(step, then, outcomes)
        case tasks_reassignment.TargetsLed():
            reassignment_end.on_targets_led(step, then, outcomes)
        case tasks_reassignment.ReassignmentsFinished():
            reassignment_end.on_reassignments_finished(step, then, outcomes)
        case tasks_reassignment.ReassignmentsEnded():
            reassignment_end.on_reassignments_ended(step, then, outcomes)
        case tasks_clients.NewTopicsWritten():
            topic_creation_requests.on_new_topics_written(step, then, outcomes)
        case tasks_clients.RequestedMarkersWritten():
            topic_deletion_requests.on_requested_markers_written(step, then, outcomes)
        case tasks_clients.PartitionsAdded():
            partition_creation_requests.on_partitions_added(step, then, outcomes)
        case tasks_settings.RequestedConfigsWritten():
            config_requests.on_requested_configs_written(step, then, outcomes)
        case tasks_settings.RequestedUsersWritten():
            user_requests.on_requested_users_written(step, then, outcomes)
        case tasks_clients.SupersededRemoved():
            reassignment_api.on_superseded_removed(step, then, outcomes[0])
        case tasks_deletion.BegunNoted():
            pausing.on_begun_noted(step, then, outcomes)
        case tasks_deletion.MarkersRemoved():
            holding.on_markers_removed(step, then, outcomes)
        case tasks_debts.DebtParentsCreated():
            removal.on_debt_parents_created(step, then, outcomes)
        case tasks_debts.DebtsWrittenOff():
            forgetting.on_written_off(step, then, outcomes)
        case tasks_debts.ForgetsAnswered():
            forgetting.on_answered(step, then, outcomes)
        case tasks_debts.DebtsClosed():
            debts.on_closed(step, then, outcomes)
        case tasks_debts.DebtsWritten():
            removal.on_debts_written(step, then, outcomes)
        case tasks_deletion.TopicsRemoved():
            removal.on_topics_removed(step, then, outcomes)
        case tasks_trash.TopicRequestsAnswered():
            undeleting.on_requests_answered(step, then, outcomes)
        case tasks_trash.TrashWritten():
            trash.on_trash_written(step, then, outcomes)
        case tasks_trash.TopicsTrashed():
            trash_in.on_topics_trashed(step, then, outcomes)
        case tasks_trash.SettingsFrozenAgain():
            trash_settings.on_frozen_again(step, then, outcomes)
        case tasks_trash.TopicsBroughtBack():
            trash_out.on_topics_brought_back(step, then, outcomes)
        case tasks_trash.TopicsPurged():
            trash_end.on_topics_purged(step, then, outcomes)
        case _:
            assert_never(then)
