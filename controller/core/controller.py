"""Routes events, timers and tasks to the modules that handle them; `results` routes results. Decides nothing.

`step` is the core's interface. It handles one event, runs tasks until a read, write or probe is outstanding or the
agenda is empty, and returns the effects. The caller passes the result of that read, write or probe as the next event.
Only `SessionLost` may come before it.

    step(BrokersChanged)    runs ListBrokers                                      effects: ..., ReadZnodes(id=7)
    step(ZnodesRead(id=7))  handles the result, runs tasks to the next read       effects: ..., ReadZnodes(id=8)
"""

from __future__ import annotations

from typing import assert_never

from lethe.controller.core import (
    agenda,
    agenda_deletion,
    agenda_partitions,
    agenda_power,
    agenda_reassignment,
    agenda_requests,
    agenda_residence,
    answers,
    brokers,
    caches,
    configuration,
    controlled_shutdown,
    creation,
    deletion,
    events,
    eviction,
    expansion,
    failover,
    isr,
    leadership,
    leadership_first,
    leaving,
    log_dirs,
    marks,
    notifications,
    owed,
    partition_machine,
    pausing,
    power,
    preferred,
    preflight,
    producer_ids,
    reassignment,
    reassignment_end,
    reassignment_requests,
    removal,
    replica_machine,
    requests,
    residence,
    resigning,
    results,
    strangers,
    tenure,
    unreadable,
)
from lethe.controller.core.context import Context
from lethe.controller.core.effects import (
    CheckPower,
    CompareCaches,
    Effect,
    EndTombstoneWaits,
    LeaveAnyway,
    RebalanceLeaders,
    RetryDeletions,
    RetryOwedTombstones,
    RetryReassignments,
    StandAgain,
    Timer,
)
from lethe.controller.core.events import Event, External, ProbesAnswered, ZnodesRead, ZnodesWritten
from lethe.controller.core.turn import Turn


def step(context: Context, event: Event, now_ms: int) -> list[Effect]:
    """Handle the event; return the effects in order. An exception is a bug in the core: call `after_fault` then."""
    turn = Turn(context, now_ms)
    match event:
        case ZnodesRead() | ZnodesWritten() | ProbesAnswered():
            results.route(turn, event)
        case _:
            if context.awaiting_result and not isinstance(event, events.SessionLost):
                raise RuntimeError(f"{type(event).__name__} came while {context.awaited} was outstanding")
            _external(turn, event)
    while context.agenda and not context.awaiting_result:
        _run(turn, context.agenda.popleft())
    return turn.effects


def after_fault(context: Context, reason: str, now_ms: int) -> list[Effect]:
    """Return the effects after a step has raised: resign, renew the session, stand for election later."""
    turn = Turn(context, now_ms)
    resigning.step_back(turn, reason)
    return turn.effects


def _external(turn: Turn, event: External) -> None:  # noqa: C901 - as flat as `_run`
    match event:
        case events.SessionEstablished(session_id=session_id, entropy=entropy):
            tenure.session_established(turn, session_id, entropy)
        case events.SessionLost(reason=reason):
            resigning.session_lost(turn, reason)
        case events.ControllerChanged() | events.ControllerDeleted():
            if turn.context.session_id:
                turn.do(agenda.Stand())
        case events.TimerFired(timer=timer):
            _timer(turn, timer)
        case events.BrokerRequested():
            requests.received(turn, event)
        case events.ResignationRequested(reason=reason, for_good=True, patience_ms=patience_ms):
            resigning.retire(turn, reason, patience_ms)
        case events.BrokersChanged() if turn.context.preflights_failed and turn.context.session_id:
            # The preflight failed on the brokers that were registered then: try it again.
            turn.do(agenda.Stand())
        case _ if not turn.context.is_leading:
            pass
        case events.BrokersChanged():
            turn.do(agenda.ListBrokers())
        case events.BrokerModified(broker=broker):
            turn.do(agenda.ReadBroker(broker))
        case events.TopicsChanged():
            turn.do(agenda.ListTopics())
        case events.TopicsModified(topics=topics):
            expansion.topics_modified(turn, topics)
        case events.TopicDeletionsRequested():
            turn.do(agenda_deletion.ListDeletions())
        case events.IsrChangesNotified():
            turn.do(agenda_requests.ReadNotifications(agenda_requests.Notification.ISR_CHANGE))
        case events.LogDirEventsNotified():
            turn.do(agenda_requests.ReadNotifications(agenda_requests.Notification.LOG_DIR_EVENT))
        case events.ConfigurationChanged():
            turn.do(agenda_requests.ReadNotifications(agenda_requests.Notification.CONFIG_CHANGE))
        case events.PreferredElectionsRequested():
            turn.do(agenda_requests.ReadPreferredElections())
        case events.DeletionsPauseChanged():
            turn.do(agenda_deletion.ReadPause())
        case events.ReassignmentsRequested():
            turn.do(agenda_reassignment.ReadReassignments())
        case (
            events.LeaderAndIsrAnswered()
            | events.UpdateMetadataAnswered()
            | events.StopReplicaAnswered()
            | events.LogDirsDescribed()
        ):
            answers.received(turn, event)
        case events.CacheRead():
            caches.was_read(turn, event)
        case events.ResignationRequested(reason=reason):
            turn.do(agenda.GiveUp(reason))
        case _:
            assert_never(event)


def _timer(turn: Turn, timer: Timer) -> None:
    due_ms = turn.context.timers.get(timer)
    if due_ms is None or due_ms > turn.now_ms:
        return
    del turn.context.timers[timer]
    match timer:
        case StandAgain():
            tenure.stand_again(turn)
        case RetryDeletions():
            deletion.retries_due(turn)
        case EndTombstoneWaits():
            deletion.end_tombstone_waits(turn)
        case RetryOwedTombstones():
            owed.retries_due(turn)
        case LeaveAnyway():
            leaving.time_is_over(turn)
        case RetryReassignments():
            reassignment.retries_due(turn)
        case RebalanceLeaders():
            preferred.rebalance(turn)
        case CompareCaches():
            caches.look(turn)
        case CheckPower():
            power.check(turn)
        case _:
            assert_never(timer)


def _run(turn: Turn, task: agenda.Task) -> None:  # noqa: C901 - a table of all tasks is meant to be long and flat
    match task:
        case agenda.Stand():
            tenure.stand(turn)
        case agenda.GiveUp():
            resigning.give_up(turn, task)
        case agenda_power.Preflight():
            preflight.begin(turn, task)
        case agenda_power.ElectSelf():
            tenure.elect_self(turn, task)
        case agenda_power.TakeControl():
            tenure.take_control(turn, task)
        case agenda.LeaveIfSettled():
            leaving.look(turn)
        case agenda.ListNotifications():
            failover.list_notifications(turn)
        case agenda.ReadStates():
            failover.read_states(turn)
        case agenda.TakeOver():
            failover.take_over(turn)
        case agenda.StartPartitions():
            failover.start_partitions(turn)
        case agenda.BecomeActive():
            failover.become_active(turn)
        case agenda_requests.ReadConfiguration():
            configuration.read(turn, task)
        case agenda_requests.ReadNotifications():
            notifications.find(turn, task)
        case agenda_requests.DeleteNotifications():
            notifications.delete(turn, task)
        case agenda_requests.CheckLogDirs():
            log_dirs.check(turn, task)
        case agenda_requests.ReadPreferredElections():
            preferred.read(turn)
        case agenda_requests.RemovePreferredElections():
            preferred.remove(turn, task)
        case agenda.ListBrokers():
            brokers.list_brokers(turn, task)
        case agenda.ReadBroker():
            brokers.read_broker(turn, task)
        case agenda.BrokersFailed():
            brokers.failed(turn, task)
        case agenda.BrokersStarted():
            brokers.started(turn, task)
        case agenda.TakeReplicasOffline():
            brokers.take_replicas_offline(turn, task)
        case agenda.AnnounceBrokersUnlessElected():
            brokers.announce_unless_elected(turn, task)
        case agenda.ListTopics():
            creation.list_topics(turn, task)
        case agenda.ReadTopics():
            creation.read_topics(turn, task)
        case agenda.CreateTopics():
            creation.create(turn, task)
        case agenda.ReadModifiedTopics():
            expansion.read_modified(turn, task)
        case agenda_partitions.MovePartitions():
            partition_machine.move(turn, task)
        case agenda_partitions.BringOnline():
            partition_machine.bring_online(turn, task)
        case agenda_partitions.InitializeLeadership():
            leadership_first.initialize(turn, task)
        case agenda_partitions.ElectLeaders():
            leadership.elect(turn, task)
        case agenda_partitions.MoveReplicas():
            replica_machine.move(turn, task)
        case agenda_partitions.ShrinkIsr():
            leadership.shrink(turn, task)
        case agenda_requests.ControlShutdown():
            controlled_shutdown.begin(turn, task)
        case agenda_requests.StopFollowers():
            controlled_shutdown.stop_followers(turn, task)
        case agenda_requests.AlterPartitions():
            isr.alter(turn, task)
        case agenda_requests.RefreshStates():
            isr.refresh(turn, task)
        case agenda_requests.AllocateProducerIds():
            producer_ids.begin(turn, task)
        case agenda_requests.AnswerAsController():
            requests.prove(turn, task)
        case agenda_requests.DropStrangers():
            strangers.drop(turn, task)
        case agenda_residence.ListResidents():
            residence.list_residents(turn)
        case agenda_residence.EvictReplicas():
            eviction.evict(turn, task)
        case agenda_residence.ServePartitions():
            creation.into_service(turn, task.partitions)
        case agenda_residence.Register():
            residence.register(turn)
        case agenda_residence.Unregister():
            residence.unregister(turn)
        case agenda_requests.AnswerControlledShutdown():
            controlled_shutdown.answer(turn, task)
        case agenda_reassignment.ReadReassignments():
            reassignment_requests.read(turn, task)
        case agenda_reassignment.TrimReassignments():
            reassignment_requests.trim(turn)
        case agenda_reassignment.StartReassignments():
            reassignment.start(turn, task)
        case agenda_reassignment.ProgressReassignments():
            reassignment.progress(turn, task)
        case agenda_reassignment.AnnounceReassignments():
            reassignment.announce(turn, task)
        case agenda_reassignment.LeadTargets():
            reassignment_end.lead(turn, task)
        case agenda_reassignment.RetireReplicas():
            reassignment_end.retire(turn, task)
        case agenda_reassignment.FinishReassignments():
            reassignment_end.finish(turn, task)
        case agenda_reassignment.EndReassignments():
            reassignment_end.cancel(turn, task)
        case agenda_deletion.ListDeletions():
            marks.list_deletions(turn, task)
        case agenda_deletion.ReadPause():
            pausing.read_pause(turn, task)
        case agenda_deletion.ReadBegun():
            pausing.read_begun(turn, task)
        case agenda_deletion.QueueDeletions():
            marks.queue(turn, task)
        case agenda_deletion.ReadMarkers():
            unreadable.read_markers(turn, task)
        case agenda_deletion.ReadUnreadable():
            unreadable.read(turn, task)
        case agenda_deletion.SettleUnknownMarkers():
            marks.settle_unknown(turn, task)
        case agenda_deletion.ResumeDeletions():
            deletion.resume(turn, task)
        case agenda_deletion.FailReplicaDeletions():
            deletion.fail(turn, task)
        case agenda_deletion.RemoveTopics():
            removal.remove(turn, task)
        case agenda_deletion.SearchTopicTrees():
            removal.search(turn, task)
        case _:
            assert_never(task)
