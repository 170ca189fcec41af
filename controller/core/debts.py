"""Pays debts: a broker that has returned deletes what it still has of topics that are gone.

StopReplica names a topic and not its incarnation, so it is never sent from memory alone: it would delete a later topic
of the same name. Per debt and broker incarnation:

    step       request                                             answer for a partition        what follows
    ---------  --------------------------------------------------  ----------------------------  -------------------
    compare    LeaderAndIsr with the id of the deleted topic,      NONE                          delete
               without a leader, not new, this broker the only     INCONSISTENT_TOPIC_ID         void: its directory
               replica                                                                           is another topic's
                                                                   any other                     again, later
    delete     StopReplica with delete                             NONE                          paid
                                                                   any other                     compare again, later
    close      the debt's znode is removed, when every partition is paid or void

The compare names this broker as in sync, so that an agent answers INCONSISTENT_TOPIC_ID for another topic's directory,
as Kafka's brokers do, instead of quarantining it. The deletion has no leader epoch: -2 would refer an agent to the
latest tombstone of the name, which may be that of a later topic.

Until a partition is paid or void, the broker hears nothing of a later topic's partition of that number (`withheld` in
`debts_policy`); then it is announced as usual. A broker that registers again begins anew: no earlier answer counts.
Nothing is paid while deletions are paused, or while this controller is about to give control up, and nothing outside
its scope (`scope`).

An agent pays most of its debts itself before it registers, and removes their znodes. So when a broker registers, its
debts are listed before it is asked. A compare where nothing is left creates an empty directory, as in Kafka's brokers.
If this controller ended before it had that directory deleted, the directory would stay: no znode names it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lethe.controller.core import confirmations, debts_policy
from lethe.controller.core.context import Context
from lethe.controller.core.debt_memory import DebtKey, OpenDebt
from lethe.controller.core.debts_written import record
from lethe.controller.core.deletion_memory import DeletionProblem
from lethe.controller.core.effects import RetryDebts
from lethe.controller.core.events import LeaderAndIsrResponseReceived, StopReplicaResponseReceived
from lethe.controller.core.partition_sets import Bits, bits_of, numbers_in
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_debts import CloseDebts, DebtsClosed, DebtsLeftListed, PayDebts
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import partition_ranges
from lethe.protocol.journal_debts import PAID, VOID
from lethe.protocol.kafka.control import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaTopic,
)
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.partition_errors import PartitionErrors
from lethe.protocol.vocabulary import LEADER_NONE, NO_LEADER_EPOCH, BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Children, Delete, ReadOutcome, ZkError, error_words, read_error
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome

NOT_LISTED: Final = "the answer does not list the partition"
KEPT: Final = "its topic was not deleted after all"
ANOTHER_TOPIC: Final = "the broker has another topic of that name there"

# --- asking -------------------------------------------------------------------------------------------------------


def pay(step: StepContext, task: PayDebts) -> None:
    """Ask these brokers about their debts that are due, one debt of each name at a time, and close settled ones.

    Before the channels are open a request would be dropped, and its answer waited for: the takeover asks every broker.
    """
    if not step.context.cluster.channels_are_open:
        return
    for broker in task.brokers:
        if broker in step.context.cluster.brokers:
            _compare(step, broker)


def _compare(step: StepContext, broker: BrokerId) -> None:
    context = step.context
    topics: list[LeaderAndIsrTopic] = []
    asked: list[OpenDebt] = []
    settled: list[DebtKey] = []
    for name, by_zxid in context.cluster.debts.by_broker.get(broker, {}).items():
        if any(debt.request_id is not None for debt in by_zxid.values()):
            continue
        for created_zxid, debt in by_zxid.items():
            key = DebtKey(broker, name, created_zxid)
            if debt.retry_at_ms is not None and debt.retry_at_ms > step.now_ms:
                continue
            if not debt.left:
                settled.append(key)
            elif payable := debts_policy.payable(context, key, debt):
                topics.append(LeaderAndIsrTopic(name, debt.debt.topic_id, _rows(context, key, debt, payable)))
                asked.append(debt)
                break
    if settled:
        step.do(CloseDebts(tuple(settled)))
    if topics:
        request = LeaderAndIsrRequest(context.config.controller_id, context.cluster.epoch, tuple(topics), ())
        request_id = step.send(broker, request, confirms=False)
        for debt in asked:
            debt.request_id, debt.retry_at_ms = request_id, None


def _rows(context: Context, key: DebtKey, debt: OpenDebt, partitions: Bits) -> tuple[LeaderAndIsrPartition, ...]:
    epoch, broker = context.cluster.epoch, (int(key.broker),)
    # A broker that hosts the replica already takes up only a higher epoch. A later topic without ids begins above the
    # last one, so there it must not rise.
    tried = debt.problem.attempts if debt.problem and debts_policy.is_compared(context, key, debt) else 0
    leader_epoch = debt.debt.last_leader_epoch + tried
    return tuple(
        LeaderAndIsrPartition(number, epoch, LEADER_NONE, leader_epoch, broker, 0, broker)
        for number in numbers_in(partitions)
    )


def _delete(step: StepContext, broker: BrokerId, found: Mapping[DebtKey, Bits]) -> None:
    """Send StopReplica for the partitions whose compare was answered, unless a topic of that name has come since."""
    context = step.context
    topics: list[StopReplicaTopic] = []
    asked: list[OpenDebt] = []
    for key, partitions in found.items():
        debt = context.cluster.debts.get(key)
        payable = 0 if debt is None else partitions & debts_policy.payable(context, key, debt)
        if debt is not None and payable:
            rows = tuple(StopReplicaPartition(n, NO_LEADER_EPOCH, True) for n in numbers_in(payable))
            topics.append(StopReplicaTopic(key.topic, rows))
            asked.append(debt)
    if topics:
        request = StopReplicaRequest(context.config.controller_id, context.cluster.epoch, tuple(topics))
        request_id = step.send(broker, request)
        for debt in asked:
            debt.request_id = request_id


# --- answers ------------------------------------------------------------------------------------------------------


def compared(step: StepContext, event: LeaderAndIsrResponseReceived, request: LeaderAndIsrRequest) -> bool:
    """Go on with the debts that this answer is about; return False if it is about none."""
    asked = _asked(step.context, event.broker, event.request_id)
    if not asked:
        return False
    rows = confirmations.answered_topics(request, event.response) if event.response.error == ErrorCode.NONE else ()
    errors = _errors(rows)
    wanted = {topic.topic: bits_of(row.partition for row in topic.partitions) for topic in request.topics}
    found: dict[DebtKey, Bits] = {}
    settled: dict[DebtKey, Bits] = {}
    for key, debt in asked.items():
        debt.request_id = None
        partitions = wanted[key.topic]
        said = errors.get(key.topic, {})
        is_compared = debts_policy.is_compared(step.context, key, debt)
        fine = _with(said, partitions, _confirming(is_compared))
        void = _with(said, partitions, (ErrorCode.INCONSISTENT_TOPIC_ID,))
        debt.void |= void
        settled[key] = void
        if left := partitions & ~fine & ~void:
            _again(step, debt, _problem(event.response.error, said, left))
        if fine:
            found[key] = fine
    _delete(step, event.broker, found)
    _settle(step, event.broker, settled)
    return True


def _confirming(is_compared: bool) -> tuple[int, ...]:
    """Return the errors that say that the directory can be reached, and is not another topic's.

    STALE_CONTROLLER_EPOCH: it is hosted already. Where ids are compared, a higher epoch makes it NONE."""
    return (ErrorCode.NONE,) if is_compared else (ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH)


def deleted(step: StepContext, event: StopReplicaResponseReceived, request: StopReplicaRequest) -> bool:
    """Settle the debts that this answer is about; return False if it is about none."""
    asked = _asked(step.context, event.broker, event.request_id)
    if not asked:
        return False
    is_answered = event.response.error == ErrorCode.NONE
    errors = _errors((each.topic, each.errors) for each in event.response.topics) if is_answered else {}
    wanted = {topic.topic: bits_of(row.partition for row in topic.partitions) for topic in request.topics}
    settled: dict[DebtKey, Bits] = {}
    for key, debt in asked.items():
        debt.request_id = None
        said = errors.get(key.topic, {})
        fine = _with(said, wanted[key.topic], (ErrorCode.NONE,))
        debt.paid |= fine
        settled[key] = fine
        if left := wanted[key.topic] & ~fine:
            _again(step, debt, _problem(event.response.error, said, left))
    _settle(step, event.broker, settled)
    return True


def _asked(context: Context, broker: BrokerId, request_id: int) -> dict[DebtKey, OpenDebt]:
    by_topic = context.cluster.debts.by_broker.get(broker, {})
    return {
        DebtKey(broker, name, created_zxid): debt
        for name, by_zxid in by_topic.items()
        for created_zxid, debt in by_zxid.items()
        if debt.request_id == request_id
    }


def _errors(topics: Iterable[tuple[str | None, PartitionErrors]]) -> dict[str, dict[int, int]]:
    """Return the error of each partition, by topic; if it is listed more than once, the worse one."""
    found: dict[str, dict[int, int]] = {}
    for name, errors in topics:
        if name is not None:
            said = found.setdefault(name, {})
            for number, error in errors.rows:
                said[number] = error if said.get(number, ErrorCode.NONE) == ErrorCode.NONE else said[number]
    return found


def _with(said: Mapping[int, int], partitions: Bits, errors: tuple[int, ...]) -> Bits:
    return bits_of(number for number in numbers_in(partitions) if number in said and said[number] in errors)


def _problem(error: int, said: Mapping[int, int], left: Bits) -> str:
    if error != ErrorCode.NONE:
        return error_name(error)
    first = numbers_in(left)[0]
    return error_name(said[first]) if first in said else NOT_LISTED


def _again(step: StepContext, debt: OpenDebt, what: str) -> None:
    """Compare again, after a wait that doubles with each attempt."""
    config = step.context.config
    debt.problem = DeletionProblem.met(debt.problem, what, step.now_ms)
    wait_ms = BackOff(config.retry_min_ms, config.retry_max_ms).wait_ms(debt.problem.attempts)
    debt.retry_at_ms = step.now_ms + wait_ms
    _set_timer(step, debt.retry_at_ms)


def _set_timer(step: StepContext, at_ms: int) -> None:
    set_at_ms = step.context.timers.get(RetryDebts())
    if set_at_ms is None or at_ms < set_at_ms:
        step.set_timer(RetryDebts(), at_ms)


def retries_due(step: StepContext) -> None:
    """The timer fired: ask again about debts that are due, and set the timer for the others."""
    cluster = step.context.cluster
    waiting = [
        (key.broker, debt.retry_at_ms)
        for key, debt in cluster.debts.all()
        if debt.retry_at_ms is not None and key.broker in cluster.brokers
    ]
    later = [at_ms for _, at_ms in waiting if at_ms > step.now_ms]
    if later:
        _set_timer(step, min(later))
    due = dict.fromkeys(broker for broker, at_ms in waiting if at_ms <= step.now_ms)
    if due:
        step.do(PayDebts(tuple(due)))


# --- settled ------------------------------------------------------------------------------------------------------


def _settle(step: StepContext, broker: BrokerId, settled: Mapping[DebtKey, Bits]) -> None:
    """Announce what was withheld, close debts of which nothing is left, and ask about the next ones."""
    closed = tuple(key for key in settled if _is_settled(step.context, key))
    step.do(*((CloseDebts(closed),) if closed else ()), PayDebts((broker,)))
    _announce(step, broker, settled)


def _announce(step: StepContext, broker: BrokerId, settled: Mapping[DebtKey, Bits]) -> None:
    """Send the broker the replicas of later topics that were withheld for these partitions."""
    cluster = step.context.cluster
    batch = step.batch()
    for key, partitions in settled.items():
        topic = cluster.topics.get(key.topic)
        if topic is None or cluster.is_queued(key.topic) or key.created_zxid == topic.created_zxid:
            continue
        mine = topic.led & topic.assigned().get(key.broker, 0) & partitions
        replicas = cluster.online(key.topic, broker, mine & topic.in_states(broker, debts_policy.IN_SERVICE))
        batch.add_leader_and_isrs(key.topic, replicas, {broker: replicas}, is_new=False)
    step.flush(batch)


def close(step: StepContext, task: CloseDebts) -> None:
    """Remove the znodes of these debts, those that are settled and in the controller's scope."""
    scope = step.context.config.scope
    keys = tuple(key for key in task.debts if scope.settles(key.broker) and _is_settled(step.context, key))
    if keys:
        step.write([(Delete(key.path),) for key in keys], DebtsClosed(keys))


def _is_settled(context: Context, key: DebtKey) -> bool:
    debt = context.cluster.debts.get(key)
    return debt is not None and not debt.left


def on_closed(step: StepContext, task: DebtsClosed, outcomes: Iterable[GroupOutcome]) -> None:
    """Record what became of these debts, and forget them. A znode that cannot be removed is tried again."""
    debts = step.context.cluster.debts
    for key, outcome in zip(task.debts, outcomes, strict=True):
        debt = debts.get(key)
        if debt is None:
            continue
        if isinstance(outcome, GroupFailed) and outcome.error is not ZkError.NO_NODE:
            step.refuse(f"topic/{key.topic}", f"removing {key.path}", error_words(outcome.error))
            _again(step, debt, outcome.error.name)
            continue
        debts.drop(key)
        if debt.paid:
            debts.paid_count += 1
            record(step, key, debt.debt, PAID, partitions=partition_ranges(tuple(numbers_in(debt.paid))))
        if debt.void:
            void = partition_ranges(tuple(numbers_in(debt.void)))
            why = KEPT if debts_policy.lives(step.context, key, debt) else ANOTHER_TOPIC
            record(step, key, debt.debt, VOID, partitions=void, why=why)
    step.do(PayDebts(tuple(dict.fromkeys(key.broker for key in task.debts))))


def on_left_listed(step: StepContext, task: DebtsLeftListed, outcomes: Sequence[ReadOutcome]) -> None:
    """Record as paid, and forget, the debts whose znodes are gone: their brokers removed them. After an error all
    debts of the broker are kept."""
    debts = step.context.cluster.debts
    for broker, outcome in zip(task.brokers, outcomes, strict=True):
        if (error := read_error(outcome)) is not None:
            step.refuse(f"broker/{broker}", f"reading {paths.debts_of(broker)}", error_words(error))
            continue
        if not isinstance(outcome, Children):
            debts.parents.pop(broker, None)
        left = {paths.debt_named(name) for name in outcome.names} if isinstance(outcome, Children) else set()
        known = debts.by_broker.get(broker, {})
        for name, created_zxid in [(name, created_zxid) for name, by_zxid in known.items() for created_zxid in by_zxid]:
            key = DebtKey(broker, name, created_zxid)
            if (name, created_zxid) not in left and (debt := debts.drop(key)) is not None:
                debts.paid_count += 1
                record(step, key, debt.debt, PAID)


def void_kept(step: StepContext, names: Iterable[str] | None = None) -> None:
    """Close the debts of topics that live and are not marked: a deletion was called off after its debts were written.

    Look at the topics of `names`, such as those whose markers were removed; at the takeover at all (None)."""
    context = step.context
    cluster = context.cluster
    if not cluster.debts.by_broker:
        return
    some = None if names is None else (each for name in names for each in cluster.debts.of_topic(name))
    kept: list[DebtKey] = []
    for key, debt in cluster.debts.all() if some is None else some:
        is_marked = key.topic in cluster.deletions or key.topic in cluster.marks
        if not is_marked and debts_policy.lives(context, key, debt):
            debt.keep()
            kept.append(key)
    if kept:
        step.do(CloseDebts(tuple(kept)))


# --- other topics of the name -------------------------------------------------------------------------------------


def look_again(step: StepContext, name: str) -> None:
    """The topic of this name is gone, or can be understood now: debts that have waited for that are due."""
    brokers = dict.fromkeys(key.broker for key, _ in step.context.cluster.debts.of_topic(name))
    if brokers:
        step.do(PayDebts(tuple(brokers)))


def note_hosted(step: StepContext, event: LeaderAndIsrResponseReceived, request: LeaderAndIsrRequest) -> None:
    """A later topic, which begins above the epochs of the debt, has taken the place of replicas without an id: void."""
    cluster = step.context.cluster
    by_topic = cluster.debts.by_broker.get(event.broker)
    if by_topic is None:
        return
    adopted: dict[DebtKey, OpenDebt] = {}
    for name in (topic.topic for topic in request.topics if topic.topic in by_topic):
        topic = cluster.topics.get(name)
        for key, debt in cluster.debts.of_broker(event.broker, name):
            if topic is None or topic.created_zxid == key.created_zxid:
                continue
            if debts_policy.is_compared(step.context, key, debt):
                continue
            hosted = topic.announced(event.broker, lambda it: it.confirmed and it.broker_epoch == event.broker_epoch)
            if void := hosted & debt.left:
                debt.void |= void
                adopted[key] = debt
    settled = tuple(key for key, debt in adopted.items() if not debt.left)
    if settled:
        step.do(CloseDebts(settled))
