"""Routing: which file answers which event, task and result. Nothing is decided here.

`step` is the whole of the core's interface: it takes one event, works the agenda off until a read or write is
outstanding or nothing is left, and returns what is to be done. The caller feeds the result of that read or write as
the next event; `SessionLost` alone may overtake it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, assert_never

from controller.core import (
    agenda,
    agenda_requests,
    answers,
    brokers,
    configuration,
    continuations,
    controlled_shutdown,
    creation,
    deletion,
    events,
    expansion,
    failover,
    isr,
    leadership,
    leadership_first,
    log_dirs,
    marks,
    notifications,
    partition_machine,
    preferred,
    reassignment,
    reassignment_end,
    reassignment_requests,
    removal,
    replica_machine,
    requests,
    tenure,
    unreadable,
)
from controller.core.context import Context
from controller.core.effects import (
    Effect,
    RebalanceLeaders,
    RetryDeletions,
    RetryReassignments,
    StandAgain,
    Timer,
)
from controller.core.events import Event, External, Result, ZnodesRead, ZnodesWritten
from controller.core.turn import Turn
from protocol.zookeeper import paths
from protocol.zookeeper.operations import ReadFailed, ZkError
from protocol.zookeeper.packing import GroupUnknown


def step(context: Context, event: Event, now_ms: int) -> list[Effect]:
    """What is to be done about the event, in order. Raises only where the core itself is wrong: see `after_fault`."""
    turn = Turn(context, now_ms)
    match event:
        case ZnodesRead() | ZnodesWritten():
            _result(turn, event)
        case events.SessionLost(reason=reason):
            tenure.session_lost(turn, reason)
        case _:
            if context.awaiting_result:
                raise RuntimeError(f"{type(event).__name__} came while {context.awaited} was outstanding")
            _external(turn, event)
    while context.agenda and not context.awaiting_result:
        _run(turn, context.agenda.popleft())
    return turn.effects


def after_fault(context: Context, reason: str, now_ms: int) -> list[Effect]:
    """What is to be done when a step has raised: resign, give the session up, stand again later."""
    turn = Turn(context, now_ms)
    tenure.step_back(turn, reason)
    return turn.effects


def _external(turn: Turn, event: External) -> None:  # noqa: C901 - as flat as `_run`
    match event:
        case events.SessionEstablished(session_id=session_id, entropy=entropy):
            tenure.session_established(turn, session_id, entropy)
        case events.SessionLost(reason=reason):
            tenure.session_lost(turn, reason)
        case events.ControllerChanged() | events.ControllerDeleted():
            if turn.context.session_id:
                turn.do(agenda.Stand())
        case events.TimerFired(timer=timer):
            _timer(turn, timer)
        case events.BrokerRequested():
            requests.received(turn, event)
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
            turn.do(agenda.ListDeletions())
        case events.IsrChangesNotified():
            turn.do(agenda_requests.ReadNotifications(agenda_requests.Notification.ISR_CHANGE))
        case events.LogDirEventsNotified():
            turn.do(agenda_requests.ReadNotifications(agenda_requests.Notification.LOG_DIR_EVENT))
        case events.ConfigurationChanged():
            turn.do(agenda_requests.ReadNotifications(agenda_requests.Notification.CONFIG_CHANGE))
        case events.PreferredElectionsRequested():
            turn.do(agenda_requests.ReadPreferredElections())
        case events.DeletionsPauseChanged():
            turn.do(agenda.ReadPause())
        case events.ReassignmentsRequested():
            turn.do(agenda.ReadReassignments())
        case events.LeaderAndIsrAnswered() | events.UpdateMetadataAnswered() | events.StopReplicaAnswered():
            answers.received(turn, event)
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
        case RetryReassignments():
            reassignment.retries_due(turn)
        case RebalanceLeaders():
            preferred.rebalance(turn)
        case _:
            assert_never(timer)


def _run(turn: Turn, task: agenda.Task) -> None:  # noqa: C901 - a table of all tasks is meant to be long and flat
    match task:
        case agenda.Stand():
            tenure.stand(turn)
        case agenda.GiveUp():
            tenure.give_up(turn, task)
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
        case agenda.MovePartitions():
            partition_machine.move(turn, task)
        case agenda.BringOnline():
            partition_machine.bring_online(turn, task)
        case agenda.InitializeLeadership():
            leadership_first.initialize(turn, task)
        case agenda.ElectLeaders():
            leadership.elect(turn, task)
        case agenda.MoveReplicas():
            replica_machine.move(turn, task)
        case agenda.ShrinkIsr():
            leadership.shrink(turn, task)
        case agenda_requests.ControlShutdown():
            controlled_shutdown.begin(turn, task)
        case agenda_requests.StopFollowers():
            controlled_shutdown.stop_followers(turn, task)
        case agenda_requests.AlterPartitions():
            isr.alter(turn, task)
        case agenda_requests.RefreshStates():
            isr.refresh(turn, task)
        case agenda_requests.AnswerControlledShutdown():
            controlled_shutdown.answer(turn, task)
        case agenda.ReadReassignments():
            reassignment_requests.read(turn)
        case agenda.TrimReassignments():
            reassignment_requests.trim(turn)
        case agenda.StartReassignments():
            reassignment.start(turn, task)
        case agenda.ProgressReassignments():
            reassignment.progress(turn, task)
        case agenda.AnnounceReassignments():
            reassignment.announce(turn, task)
        case agenda.LeadTargets():
            reassignment_end.lead(turn, task)
        case agenda.RetireReplicas():
            reassignment_end.retire(turn, task)
        case agenda.FinishReassignments():
            reassignment_end.finish(turn, task)
        case agenda.EndReassignments():
            reassignment_end.cancel(turn, task)
        case agenda.ListDeletions():
            marks.list_deletions(turn, task)
        case agenda.ReadPause():
            marks.read_pause(turn, task)
        case agenda.QueueDeletions():
            marks.queue(turn, task)
        case agenda.ReadMarkers():
            unreadable.read_markers(turn, task)
        case agenda.ReadUnreadable():
            unreadable.read(turn, task)
        case agenda.SettleUnknownMarkers():
            marks.settle_unknown(turn, task)
        case agenda.ResumeDeletions():
            deletion.resume(turn, task)
        case agenda.FailReplicaDeletions():
            deletion.fail(turn, task)
        case agenda.RemoveTopics():
            removal.remove(turn, task)
        case agenda.SearchTopicTrees():
            removal.search(turn, task)
        case _:
            assert_never(task)


def _result(turn: Turn, event: Result) -> None:
    """A result that nobody waits for belongs to a session or tenure that is over."""
    awaited = turn.context.awaited
    if awaited is None or awaited.effect_id != event.id:
        return
    turn.context.awaited = None
    match event:
        case ZnodesRead() if type(awaited.then) in _INDISPENSABLE and (error := _unreadable(event)) is not None:
            what = _INDISPENSABLE[type(awaited.then)]
            tenure.step_back(
                turn, f"reading {what} failed with {error.name}; may the controller's credentials read it?"
            )
        case ZnodesRead():
            _read(turn, awaited.then, event)
        case ZnodesWritten(controller_moved=True):
            tenure.control_lost(turn)
        case ZnodesWritten():
            _written(turn, awaited.then, event)


_INDISPENSABLE: Final[Mapping[type, str]] = MappingProxyType(
    {
        continuations.ElectionLookedUp: "/controller, /controller_epoch or /migration",
        continuations.BrokersListed: paths.broker_ids(),
        continuations.TopicsListed: paths.broker_topics(),
        continuations.DeletionsListed: paths.delete_topics(),
    }
)
"""Reads without which nothing can be decided: an error is not the same as "there is nobody" or "there is none"."""


def _unreadable(event: ZnodesRead) -> ZkError | None:
    """The first error that does not just say that a znode is not there."""
    errors = (outcome.error for outcome in event.outcomes if isinstance(outcome, ReadFailed))
    return next((error for error in errors if error is not ZkError.NO_NODE), None)


def _read(turn: Turn, then: continuations.Continuation, event: ZnodesRead) -> None:  # noqa: C901 - as flat as `_run`
    outcomes = event.outcomes
    match then:
        case continuations.ElectionLookedUp():
            tenure.looked_up(turn, outcomes)
        case continuations.NotificationsListed():
            failover.notifications_listed(turn, outcomes)
        case continuations.StatesRead():
            failover.states_read(turn, then, outcomes)
        case continuations.ConfigurationRead():
            configuration.was_read(turn, then, outcomes)
        case continuations.NotificationsFound():
            notifications.found(turn, then, outcomes)
        case continuations.NotificationsRead():
            notifications.were_read(turn, then, outcomes)
        case continuations.PreferredElectionsRead():
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
        case continuations.UncleanConfigsRead():
            leadership.configs_read(turn, then, outcomes)
        case continuations.StatesReread():
            leadership.reread(turn, then, outcomes)
        case continuations.StatesRefreshed():
            isr.refreshed(turn, then, outcomes)
        case continuations.ReassignmentsRead():
            reassignment_requests.was_read(turn, then, outcomes)
        case continuations.DeletionsListed():
            marks.listed(turn, then, outcomes)
        case continuations.PauseRead():
            marks.pause_read(turn, then, outcomes)
        case continuations.MarkersRead():
            unreadable.markers_read(turn, then, outcomes)
        case continuations.UnreadableRead():
            unreadable.found(turn, then, outcomes)
        case continuations.UnreadableStatesRead():
            unreadable.states_read(turn, then, outcomes)
        case continuations.TopicTreesSearched():
            removal.searched(turn, then, outcomes)
        case _:
            raise RuntimeError(f"{then} waits for a write, and a read came back")


def _written(turn: Turn, then: continuations.Continuation, event: ZnodesWritten) -> None:  # noqa: C901 - as flat as `_run`
    outcomes = event.outcomes
    if isinstance(then, continuations.ElectionWritten):
        tenure.election_written(turn, then, outcomes[0])
        return
    unknown = next((outcome for outcome in outcomes if isinstance(outcome, GroupUnknown)), None)
    if unknown is not None:
        tenure.step_back(turn, f"the outcome of a write is not known: {unknown.reason}")
        return
    match then:
        case continuations.EpochNodeCreated():
            tenure.epoch_node_created(turn, outcomes[0])
        case continuations.GivenUp():
            tenure.given_up(turn, then)
        case continuations.NotificationsDeleted():
            pass
        case continuations.PreferredElectionsRemoved():
            preferred.removed(turn, outcomes[0])
        case continuations.TopicIdsWritten():
            creation.ids_written(turn, then, outcomes)
        case continuations.TopicsRestored():
            expansion.restored(turn, then, outcomes)
        case continuations.LeadershipPathsCreated():
            leadership_first.paths_created(turn, then)
        case continuations.LeadershipInitialized():
            leadership_first.initialized(turn, then, outcomes)
        case continuations.LeadersElected():
            leadership.elected(turn, then, outcomes)
        case continuations.IsrShrunk():
            leadership.isr_shrunk(turn, then, outcomes)
        case continuations.IsrsAltered():
            isr.altered(turn, then, outcomes)
        case continuations.ReassignmentsTrimmed():
            reassignment_requests.trimmed(turn, outcomes[0])
        case continuations.ReassignmentsStarted():
            reassignment.started(turn, then, outcomes)
        case continuations.ReassignmentsAnnounced():
            reassignment.announced(turn, then, outcomes)
        case continuations.TargetsLed():
            reassignment_end.led(turn, then, outcomes)
        case continuations.ReassignmentsFinished():
            reassignment_end.finished(turn, then, outcomes)
        case continuations.ReassignmentsEnded():
            reassignment_end.cancelled(turn, then, outcomes)
        case continuations.MarkersRemoved():
            marks.markers_removed(turn, then, outcomes)
        case continuations.TopicsRemoved():
            removal.removed(turn, then, outcomes)
        case _:
            raise RuntimeError(f"{then} waits for a read, and a write came back")
