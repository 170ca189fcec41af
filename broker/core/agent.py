"""The broker agent's rules: one function, `step`. Everything else in this package serves it.

Driving contract, for the runtime and for a simulator alike:

* A run begins with `AgentState(Settings(...))` and the input `InventoryLoaded`. `naming_seed` differs from run to run.
* `step(state, input, now_ms)` changes `state` and returns the effects to perform, in order. It raises nothing on any
  request, whatever is in it. `now_ms` never goes back; it is used for timers only.
* Results come back as inputs: `PerformDisk` → `DiskPerformed`, `AskTopicIds` → `TopicIdsReceived`,
  `AskControllerEpoch` → `ControllerEpochReceived`, `RemoveDirectories` → `DirectoriesRemoved`, `ProposeIsr` →
  `IsrProposed`, `SetTimer` → `TimerFired`. Other inputs may come in between: a control request that arrives while
  another one waits for its result is kept and taken in its turn (Kafka: one lock per broker).
* At most one of `PerformDisk` and `AskTopicIds` is outstanding, besides at most one `AskControllerEpoch`, one
  `RemoveDirectories` and one `ProposeIsr`. The directories of a removal are never named by a `PerformDisk`, so the two
  may run at the same time.
* A disk operation is atomic; a crash may cut the list anywhere, and nothing after the cut happened. A crash loses the
  state and keeps the disk: the next run reads it and starts again. An unanswered request was perhaps carried out.
* For each `ControlReceived` exactly one `Reply` or `Refuse` with its token follows, then or later.
* After `Halt` the process ends; further inputs have no effect.

    input               what it means                                   file
    InventoryLoaded     the disk as found                               storage
    DebtsRead           deletions that were missed                      debts
    BrokerRegistered    a new broker epoch                              here
    ControlReceived     LeaderAndIsr, UpdateMetadata, StopReplica       epochs, then leader_and_isr, here, stop_replica
                                                                        (acknowledgement, where nothing is to be done)
    DiskPerformed       directories made, identified, filled, renamed   leader_and_isr, stop_replica, catch_up, debts
    TopicIdsReceived    what ZooKeeper says about topics                stop_replica
    ControllerEpochReceived  and about the controller epoch             epochs
    IsrProposed         what became of the ISRs that were asked for     isr
    TimerFired          something is due: removal, filling, a proposal  removal, catch_up, isr
    DirectoriesRemoved  bytes are gone, or not yet                      removal
    LogDirFailed        a log directory cannot be used any more         storage
"""

from __future__ import annotations

from typing import Final, assert_never

from lethe.broker.core import catch_up, debts, isr, leader_and_isr, roles, stop_replica
from lethe.broker.core.acknowledgement import acknowledge, refuse_replicas
from lethe.broker.core.effects import Effect, Record, Refuse, RemoveDirectories, Reply, SetTimer
from lethe.broker.core.epochs import (
    await_confirmation,
    check_epochs,
    is_probe,
    is_unconfirmed,
    known_epoch,
    on_controller_epoch_received,
    refusal,
)
from lethe.broker.core.inputs import (
    BrokerRegistered,
    ControllerEpochReceived,
    ControlReceived,
    DebtsRead,
    DirectoriesRemoved,
    DiskOutcome,
    DiskPerformed,
    Input,
    InventoryLoaded,
    IsrProposed,
    LogDirFailed,
    TimerFired,
    TopicIdAnswer,
    TopicIdsReceived,
)
from lethe.broker.core.records import record_answers, record_refusal, record_removals
from lethe.broker.core.stages import DebtStage, FillStage, LeaderAndIsrStage, StopReplicaStage
from lethe.broker.core.state import AgentState
from lethe.broker.core.storage import fail_log_dir, on_inventory_loaded
from lethe.protocol.journal import EventRecord, EventRecordType, JsonValue
from lethe.protocol.kafka.control import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    api_of,
)
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.vocabulary import BrokerEpoch

MAX_WAITING_REQUESTS: Final = 1024
"""Control requests that wait for the one in progress. A controller has one in flight, so this many mean a flood."""


def step(state: AgentState, happened: Input, now_ms: int) -> tuple[Effect, ...]:
    """Apply one input to `state`. Return the effects to perform, in order."""
    if state.halted:
        return ()
    effects = _react(state, happened, now_ms)
    while state.stage is None and state.waiting and not state.halted:
        effects += _take(state, state.waiting.popleft())
    if not state.halted:
        effects += _start_due_work(state, now_ms)
    return tuple(effects)


def _react(state: AgentState, happened: Input, now_ms: int) -> list[Effect]:
    match happened:
        case InventoryLoaded():
            return on_inventory_loaded(state, happened, now_ms) + refuse_replicas(state)
        case DebtsRead():
            return debts.on_debts_read(state, happened)
        case BrokerRegistered(broker_epoch):
            state.broker_epoch = broker_epoch
            data: dict[str, JsonValue] = {"happened": "registered", "broker_epoch": int(broker_epoch)}
            return [Record(EventRecord(EventRecordType.BROKER, f"broker/{state.settings.broker_id}", data))]
        case ControlReceived():
            return _queue(state, happened)
        case DiskPerformed(outcomes):
            return _disk_performed(state, outcomes, now_ms)
        case ControllerEpochReceived():
            return on_controller_epoch_received(state, happened)
        case TopicIdsReceived(answers):
            return _topic_ids_received(state, answers)
        case DirectoriesRemoved():
            return _directories_removed(state, happened, now_ms)
        case IsrProposed(outcomes):
            return isr.on_isr_proposed(state, outcomes, now_ms)
        case TimerFired():
            state.timer_ms = None
            return []
        case LogDirFailed(log_dir, error):
            return fail_log_dir(state, log_dir, error)
        case _:
            assert_never(happened)


# --- control requests ---------------------------------------------------------------------------------------------


def _queue(state: AgentState, received: ControlReceived) -> list[Effect]:
    if len(state.waiting) >= MAX_WAITING_REQUESTS:
        return [Refuse(received.token, f"{MAX_WAITING_REQUESTS} control requests are waiting already")]
    state.waiting.append(received)
    return []


def _take(state: AgentState, received: ControlReceived) -> list[Effect]:
    request = received.addressed.request
    if is_unconfirmed(state, received.addressed):
        return await_confirmation(state, received)
    error = check_epochs(state, received.addressed)
    if error is not ErrorCode.NONE:
        api = api_of(request).name
        ours = state.broker_epoch if error is ErrorCode.STALE_BROKER_EPOCH else known_epoch(state)
        theirs = received.addressed.broker_epoch if error is ErrorCode.STALE_BROKER_EPOCH else request.controller_epoch
        if is_probe(received.addressed):
            return [Reply(received.token, refusal(request, error))]
        details = {"controller": int(request.controller_id), "epoch": int(theirs), "known_epoch": int(ours)}
        return [Reply(received.token, refusal(request, error)), record_refusal(state, api, error.name, details)]
    if state.settings.acknowledge_only:
        return acknowledge(state, received)
    match request:
        case LeaderAndIsrRequest():
            return leader_and_isr.begin(state, received.token, request)
        case StopReplicaRequest():
            return stop_replica.begin(state, received.token, request, received.addressed.broker_epoch)
        case UpdateMetadataRequest():
            return _update_metadata(state, received, request)


def _update_metadata(state: AgentState, received: ControlReceived, request: UpdateMetadataRequest) -> list[Effect]:
    _reset_cache(state, received.addressed.broker_epoch)
    for topic in request.topics:
        if topic.topic_id is not None:
            state.incarnations[topic.topic] = topic.topic_id
        if topic.is_tombstone:
            epoch = received.addressed.broker_epoch
            state.note_tombstone(topic.topic, topic.topic_id, epoch, request.controller_epoch)
    live_before = frozenset(state.cache.brokers)
    removed = state.cache.apply(request)
    roles.on_metadata_updated(state, request, live_before)
    for topic_name in removed:
        state.forget_incarnation_if_gone(topic_name)
    for topic in request.topics:
        state.forget_incarnation_if_gone(topic.topic)
    partitions = sum(len(topic.partitions) for topic in request.topics)
    answered = record_answers(state, request, {error_name(ErrorCode.NONE): partitions})
    return [Reply(received.token, UpdateMetadataResponse(ErrorCode.NONE)), answered]


def _reset_cache(state: AgentState, broker_epoch: BrokerEpoch) -> None:
    """Empty the cache at the first UpdateMetadata for a new registration.

    No controller reported the topics that were deleted while this broker was unregistered. A controller sends a new
    registration the whole cluster. Until then the old cache is served, as by Kafka's brokers.
    """
    if broker_epoch <= state.cache_epoch:
        return
    state.cache_epoch = broker_epoch
    for topic in state.cache.forget_topics():
        state.forget_incarnation_if_gone(topic)


# --- results ------------------------------------------------------------------------------------------------------


def _disk_performed(state: AgentState, outcomes: tuple[DiskOutcome, ...], now_ms: int) -> list[Effect]:
    stage, state.stage = state.stage, None
    match stage:
        case LeaderAndIsrStage():
            return leader_and_isr.resume(state, stage, outcomes)
        case StopReplicaStage():
            return stop_replica.resume_after_disk(state, stage, outcomes, now_ms)
        case DebtStage():
            return debts.resume(state, stage, outcomes, now_ms)
        case FillStage():
            return catch_up.filled(state, stage, outcomes)
        case None:
            raise TypeError("operations on disk were performed though nothing waits for them")


def _topic_ids_received(state: AgentState, answers: tuple[TopicIdAnswer, ...]) -> list[Effect]:
    stage, state.stage = state.stage, None
    if not isinstance(stage, StopReplicaStage):
        raise TypeError("topic ids were answered though no StopReplica waits for them")
    return stop_replica.resume_with_topic_ids(state, stage, answers)


# --- what has its time --------------------------------------------------------------------------------------------


def _directories_removed(state: AgentState, happened: DirectoriesRemoved, now_ms: int) -> list[Effect]:
    effects: list[Effect] = []
    directories, topic_ids = state.removal.in_flight, state.removal.in_flight_ids
    state.removal.finish_round(happened.outcomes, now_ms)
    effects += record_removals(state, directories, topic_ids, happened.outcomes)
    for directory, outcome in zip(directories, happened.outcomes, strict=True):
        if outcome.error is not None and outcome.log_dir_failed:
            effects += fail_log_dir(state, directory.log_dir, outcome.error)
    return effects


def _start_due_work(state: AgentState, now_ms: int) -> list[Effect]:
    """Start the work that is due, and set the timer for the next due time."""
    effects: list[Effect] = []
    if directories := state.removal.start_round(now_ms):
        effects.append(RemoveDirectories(directories))
    for queue in (state.fills, state.proposals):
        queue.end_step(now_ms + state.settings.catch_up_delay_ms)
    if state.stage is None:
        effects += catch_up.fill(state, now_ms)
    effects += isr.propose(state, now_ms)
    next_ms = _next_due_ms(state)
    if next_ms is not None and next_ms != state.timer_ms:
        state.timer_ms = next_ms
        effects.append(SetTimer(next_ms))
    return effects


def _next_due_ms(state: AgentState) -> int | None:
    """The next due time; None while a result is outstanding, because its arrival is the next occasion."""
    dues_ms = (
        state.removal.next_due_ms(),
        None if state.stage is not None else state.fills.next_due_ms(),
        None if state.proposed else state.proposals.next_due_ms(),
    )
    return min((due_ms for due_ms in dues_ms if due_ms is not None), default=None)
