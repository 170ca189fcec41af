"""Routes events and tasks to the modules that handle them; `results` routes results, `timers` timers. Decides nothing.

`step` is the core's interface. It handles one event, runs tasks until a read, write or probe is outstanding or the task
stack is empty, and returns the effects. The caller passes the results of these reads, writes and probes as the next
events. Only `SessionLost` may come before them.

    step(BrokersChanged)    runs ListBrokers                                      effects: ..., ReadZnodes(id=7)
    step(ZnodesRead(id=7))  handles the result, runs tasks to the next read       effects: ..., ReadZnodes(id=8)
"""

from __future__ import annotations

from typing import assert_never

from lethe.controller.core import (
    advertising,
    answers,
    brokers,
    caches,
    client_tasks,
    client_waits,
    configuration,
    controlled_shutdown,
    creation,
    debts,
    debts_written,
    deletion,
    events,
    eviction,
    expansion,
    failover,
    first_leaders,
    foreign_isr_members,
    forgetting,
    holding,
    isr,
    leader_changes,
    leaving,
    log_dirs,
    marks,
    named_incarnation,
    notifications,
    orders,
    partition_machine,
    pausing,
    preferred,
    preflight,
    producer_ids,
    reassignment,
    reassignment_end,
    reassignment_requests,
    removal,
    replica_machine,
    requests,
    resigning,
    results,
    slices,
    tasks,
    tasks_advertising,
    tasks_debts,
    tasks_deletion,
    tasks_partitions,
    tasks_power,
    tasks_reassignment,
    tasks_requests,
    tasks_trash,
    term,
    timers,
    trash_after,
    trash_end,
    trash_in,
    trash_out,
    trash_takeover,
    undeleting,
    unreadable,
)
from lethe.controller.core.context import Context
from lethe.controller.core.effects import Effect
from lethe.controller.core.events import Event, External, ProbesCompleted, ZnodesRead, ZnodesWritten
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_clients import ClientTask


def step(context: Context, event: Event, now_ms: int) -> list[Effect]:
    """Handle the event; return the effects in order. An exception is a bug in the core: call `after_fault` then."""
    step = StepContext(context, now_ms)
    match event:
        case ZnodesRead() | ZnodesWritten() | ProbesCompleted():
            results.route(step, event)
        case _:
            if context.awaiting_result and not isinstance(event, events.SessionLost):
                raise RuntimeError(f"{type(event).__name__} came while {context.awaited} was outstanding")
            _external(step, event)
    while context.tasks and slices.may_run(context, context.tasks[0]):
        _run(step, context.tasks.popleft())
    if not context.tasks and not context.awaiting_result:
        client_waits.look(step)
    return step.effects


def after_fault(context: Context, reason: str, now_ms: int) -> list[Effect]:
    """Return the effects after a step has raised: resign, renew the session, stand for election later."""
    step = StepContext(context, now_ms)
    resigning.step_back(step, reason)
    return step.effects


def _external(step: StepContext, event: External) -> None:  # noqa: C901 - as flat as `_run`
    match event:
        case events.SessionEstablished(session_id=session_id, entropy=entropy):
            term.session_established(step, session_id, entropy)
        case events.SessionLost(reason=reason):
            resigning.session_lost(step, reason)
        case events.ControllerChanged() | events.ControllerDeleted():
            if step.context.session_id:
                step.do(tasks.StandForElection())
        case events.TimerFired(timer=timer):
            timers.fired(step, timer)
        case events.BrokerRequested() | events.ClientRequested():
            requests.received(step, event)
        case events.ResignationRequested(reason=reason, for_good=True, patience_ms=patience_ms):
            resigning.retire(step, reason, patience_ms)
        case events.BrokersChanged() if step.context.preflights_failed and step.context.session_id:
            # The preflight failed on the brokers that were registered then: try it again.
            step.do(tasks.StandForElection())
        case _ if not step.context.is_leading:
            pass
        case events.BrokersChanged():
            step.do(tasks.ListBrokers())
        case events.BrokerModified(broker=broker):
            step.do(tasks.ReadBroker(broker))
        case events.TopicsChanged():
            creation.topics_changed(step)
        case events.TopicsModified(topics=topics):
            expansion.topics_modified(step, topics)
        case events.ForgetsRequested():
            step.do(tasks_debts.ReadForgets())
        case events.DeletionMarkerModified():
            orders.modified(step, event)
        case events.TopicDeletionsRequested():
            marks.deletions_requested(step)
        case events.IsrChangesNotified():
            step.do(tasks_requests.ReadNotifications(tasks_requests.Notification.ISR_CHANGE))
        case events.LogDirEventsNotified():
            step.do(tasks_requests.ReadNotifications(tasks_requests.Notification.LOG_DIR_EVENT))
        case events.ConfigurationChanged():
            step.do(tasks_requests.ReadNotifications(tasks_requests.Notification.CONFIG_CHANGE))
        case events.PreferredElectionsRequested():
            step.do(tasks_requests.ReadPreferredElections())
        case events.DeletionsPauseChanged():
            step.do(tasks_deletion.ReadPause())
        case events.TopicRequestsChanged():
            step.do(tasks_trash.ReadTopicRequests())
        case events.ReassignmentsRequested():
            step.do(tasks_reassignment.ReadReassignments())
        case (
            events.LeaderAndIsrResponseReceived()
            | events.UpdateMetadataResponseReceived()
            | events.StopReplicaResponseReceived()
            | events.LogDirsDescribed()
        ):
            answers.received(step, event)
        case events.PartAnswered():
            answers.part_received(step, event)
        case events.CacheRead():
            caches.was_read(step, event)
        case events.OffsetsRead():
            trash_in.on_offsets_read(step, event)
        case events.OffsetsCommitted():
            trash_after.on_offsets_committed(step, event)
        case events.ResignationRequested(reason=reason):
            step.do(tasks.GiveUp(reason))
        case _:
            assert_never(event)


def _run(step: StepContext, task: tasks.Task) -> None:  # noqa: C901 - a table of all tasks is meant to be long and flat
    if isinstance(task, ClientTask):
        client_tasks.run(step, task)
        return
    match task:
        case tasks.StandForElection():
            term.stand(step)
        case tasks.GiveUp():
            resigning.give_up(step, task)
        case tasks_power.Preflight():
            preflight.begin(step, task)
        case tasks_power.ElectSelf():
            term.elect_self(step, task)
        case tasks_power.TakeControl():
            term.take_control(step, task)
        case tasks.ResignIfSettled():
            leaving.look(step)
        case tasks.ListNotifications():
            failover.list_notifications(step)
        case tasks.ReadStates():
            failover.read_states(step, task)
        case tasks.TakeOver():
            failover.take_over(step)
        case tasks.AnnounceTopics():
            failover.announce_topics(step, task)
        case tasks.ServeAnnounced():
            creation.serve(step, task)
        case tasks.StartReplicas():
            failover.start_replicas(step)
        case tasks.StartPartitions():
            failover.start_partitions(step)
        case tasks.BecomeActive():
            failover.become_active(step)
        case tasks_requests.ReadConfiguration():
            configuration.read(step, task)
        case tasks_requests.ReadNotifications():
            notifications.find(step, task)
        case tasks_requests.DeleteNotifications():
            notifications.delete(step, task)
        case tasks_requests.CheckLogDirs():
            log_dirs.check(step, task)
        case tasks_requests.ReadPreferredElections():
            preferred.read(step)
        case tasks_requests.RemovePreferredElections():
            preferred.remove(step, task)
        case tasks.ListBrokers():
            brokers.list_brokers(step, task)
        case tasks.ReadBroker():
            brokers.read_broker(step, task)
        case tasks.BrokersFailed():
            brokers.failed(step, task)
        case tasks.BrokersStarted():
            brokers.started(step, task)
        case tasks.TakeReplicasOffline():
            brokers.take_replicas_offline(step, task)
        case tasks.AnnounceBrokersUnlessElected():
            brokers.announce_unless_elected(step, task)
        case tasks.ListTopics():
            creation.list_topics(step, task)
        case tasks.ReadTopics():
            creation.read_topics(step, task)
        case tasks.CreateTopics():
            creation.create(step, task)
        case tasks.ReadModifiedTopics():
            expansion.read_modified(step, task)
        case tasks_partitions.MovePartitions():
            partition_machine.move(step, task)
        case tasks_partitions.BringOnline():
            partition_machine.bring_online(step, task)
        case tasks_partitions.InitializeLeaderAndIsr():
            first_leaders.initialize(step, task)
        case tasks_partitions.CompletePartitions():
            first_leaders.complete(step, task)
        case tasks_partitions.ElectLeaders():
            leader_changes.elect(step, task)
        case tasks_partitions.MoveReplicas():
            replica_machine.move(step, task)
        case tasks_partitions.ShrinkIsr():
            leader_changes.shrink(step, task)
        case tasks_requests.ControlShutdown():
            controlled_shutdown.begin(step, task)
        case tasks_requests.StopFollowers():
            controlled_shutdown.stop_followers(step, task)
        case tasks_requests.AlterPartitions():
            isr.alter(step, task)
        case tasks_requests.RefreshStates():
            isr.refresh(step, task)
        case tasks_requests.AllocateProducerIds():
            producer_ids.begin(step, task)
        case tasks_requests.AnswerAsController():
            requests.prove(step, task)
        case tasks_requests.RemoveForeignIsrMembers():
            foreign_isr_members.drop(step, task)
        case tasks_advertising.ListAdvertisedControllers():
            advertising.list_advertised_controllers(step)
        case tasks_advertising.EvictReplicas():
            eviction.evict(step, task)
        case tasks_advertising.ServePartitions():
            creation.on_new_partition_creation(step, task.partitions)
        case tasks_advertising.Register():
            advertising.register(step)
        case tasks_advertising.Unregister():
            advertising.unregister(step)
        case tasks_requests.AnswerControlledShutdown():
            controlled_shutdown.answer(step, task)
        case tasks_reassignment.ReadReassignments():
            reassignment_requests.read(step, task)
        case tasks_reassignment.TrimReassignments():
            reassignment_requests.trim(step)
        case tasks_reassignment.StartReassignments():
            reassignment.start(step, task)
        case tasks_reassignment.ProgressReassignments():
            reassignment.progress(step, task)
        case tasks_reassignment.AnnounceReassignments():
            reassignment.announce(step, task)
        case tasks_reassignment.LeadTargets():
            reassignment_end.lead(step, task)
        case tasks_reassignment.RetireReplicas():
            reassignment_end.retire(step, task)
        case tasks_reassignment.FinishReassignments():
            reassignment_end.finish(step, task)
        case tasks_reassignment.EndReassignments():
            reassignment_end.cancel(step, task)
        case tasks_deletion.ListDeletions():
            marks.list_deletions(step, task)
        case tasks_deletion.ReadPause():
            pausing.read_pause(step, task)
        case tasks_deletion.ReadBegun():
            pausing.read_begun(step, task)
        case tasks_deletion.QueueDeletions():
            marks.queue(step, task)
        case tasks_deletion.ReadProtected():
            holding.read_protected(step, task)
        case tasks_deletion.CompareIncarnations():
            named_incarnation.compare(step, task)
        case tasks_deletion.ReadMarkers():
            unreadable.read_markers(step, task)
        case tasks_deletion.ReadUnreadable():
            unreadable.read(step, task)
        case tasks_deletion.SettleUnknownMarkers():
            holding.settle_unknown(step, task)
        case tasks_deletion.ResumeDeletions():
            deletion.resume(step, task)
        case tasks_deletion.FailReplicaDeletions():
            deletion.fail(step, task)
        case tasks_debts.ReadDebts():
            debts_written.read(step, task)
        case tasks_debts.ReadForgets():
            forgetting.read(step)
        case tasks_debts.SettleForgets():
            forgetting.settle(step)
        case tasks_debts.PayDebts():
            debts.pay(step, task)
        case tasks_debts.CloseDebts():
            debts.close(step, task)
        case tasks_debts.WriteDebts():
            removal.write_debts(step, task)
        case tasks_debts.WatchOrders():
            orders.watch(step, task)
        case tasks_deletion.RemoveTopics():
            removal.remove(step, task)
        case tasks_deletion.SearchTopicTrees():
            removal.search(step, task)
        case tasks_trash.ReadTopicRequests():
            undeleting.read_requests(step)
        case tasks_trash.ReadTrash():
            trash_takeover.read(step)
        case tasks_trash.ResumeTrash():
            trash_takeover.resume(step)
        case tasks_trash.FreezeTopics():
            trash_in.freeze(step, task)
        case tasks_trash.AnnounceRestored():
            trash_out.announce(step, task)
        case tasks_trash.RestoreOffsets():
            trash_after.restore_offsets(step, task)
        case tasks_trash.RestoreSettings():
            trash_after.restore_settings(step, task)
        case tasks_trash.LoadPurged():
            trash_end.load(step, task)
        case tasks_trash.QueuePurged():
            trash_end.queue(step, task)
        case _:
            assert_never(task)
