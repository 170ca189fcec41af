"""Requests to give up brokers that never return.

A request is a znode `/lethe/forget/<broker>`, and it is in force while it exists:

    of the broker                             what becomes of it
    ----------------------------------------  -----------------------------------------------------------------------
    its debts                                 written off at the end, in a write that proves that it is not registered
    replicas of queued topics                 are not waited for, and owed until the topic is removed
    replicas of living topics                 stay as they are

The debts are written off when no queued topic names the broker any more, and the request goes right after them: one
that is refused or withdrawn before has written nothing off. A controller that takes over meanwhile goes on. The request
is refused, in its own data, for a broker that is registered, also for one that registers while it is in force. Then,
and when it is withdrawn, deletions that have not ended wait for the broker again. One that is outside the controller's
scope (`scope`) stays as it is, unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lethe.controller.core.context import Context
from lethe.controller.core.debt_memory import DebtKey
from lethe.controller.core.debts_written import record
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import ListBrokers
from lethe.controller.core.tasks_debts import (
    DebtsWrittenOff,
    ForgetsAnswered,
    ForgetsListed,
    ForgetsRead,
    ReadForgets,
    SettleForgets,
)
from lethe.controller.core.tasks_deletion import ResumeDeletions
from lethe.controller.core.without_answer import GIVEN_UP
from lethe.protocol.journal_debts import WRITTEN_OFF
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Operation,
    ReadOutcome,
    SetData,
    ZkError,
    absence_check,
    error_words,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome

FORGETTING: Final = "forgetting the broker"
"""The refused action in the event record. Old journals contain it: never change it."""
_CHANGED: Final = (ZkError.BAD_VERSION, ZkError.NO_NODE)


def read(step: StepContext) -> None:
    """List the requests, and watch for more."""
    path = paths.forgets()
    step.read((Exists(path, watch=True), GetChildren(path, watch=True)), ForgetsListed())


def on_listed(step: StepContext, outcomes: Sequence[ReadOutcome]) -> None:
    """Read the requests in this controller's scope; those that are gone are not in force any more."""
    listed, scope = outcomes[1], step.context.config.scope
    names = listed.names if isinstance(listed, Children) else ()
    named = map(paths.broker_named, names)
    brokers = tuple(broker for broker in named if broker is not None and scope.forgets(broker))
    forgotten = step.context.cluster.forgotten
    withdrawn = [broker for broker in forgotten if broker not in brokers]
    for broker in withdrawn:
        del forgotten[broker]
    if withdrawn:
        step.do(ResumeDeletions(tuple(_queued_with(step.context, withdrawn))))
    if brokers:
        step.read((GetData(paths.forget(broker)) for broker in brokers), ForgetsRead(brokers))


def on_read(step: StepContext, task: ForgetsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Refuse what cannot be done; carry the others out."""
    context = step.context
    cluster = context.cluster
    groups: list[tuple[Operation, ...]] = []
    refused: list[BrokerId] = []
    begun: list[BrokerId] = []
    for broker, outcome in zip(task.brokers, outcomes, strict=True):
        if not isinstance(outcome, Data):
            continue
        try:
            request = znodes.decode_forget_request(broker, outcome.data)
        except znodes.MalformedZnode as malformed:
            step.refuse(f"broker/{broker}", FORGETTING, str(malformed))
            continue
        if request.refused is not None:
            continue
        if (why := _problem(context, broker)) is not None:
            cluster.forgotten.pop(broker, None)
            step.refuse(f"broker/{broker}", FORGETTING, why)
            data = znodes.encode_forget_request(znodes.ForgetRequest(refused=why))
            groups.append((SetData(paths.forget(broker), data, outcome.stat.version),))
            refused.append(broker)
        else:
            cluster.forgotten[broker] = outcome.stat.version
            begun.append(broker)
    if begun:
        step.do(ResumeDeletions(tuple(_queued_with(context, begun)), unblock=True), SettleForgets())
    if groups:
        step.write(groups, ForgetsAnswered(tuple(refused)))


def _problem(context: Context, broker: BrokerId) -> str | None:
    cluster = context.cluster
    if broker in cluster.brokers or broker in cluster.quarantined_brokers:
        return "it is registered in ZooKeeper"
    if broker in cluster.advertised_controllers:
        return "this is the id of a controller"
    return None


def _queued_with(context: Context, brokers: Sequence[BrokerId]) -> Iterator[str]:
    """Yield the queued topics that have replicas on one of these brokers."""
    topics = context.cluster.topics
    for name in context.cluster.deletions:
        if name in topics and not topics[name].assigned().keys().isdisjoint(brokers):
            yield name


def settle(step: StepContext) -> None:
    """Write off the debts of brokers that no queued topic names any more; then remove the requests about them."""
    context = step.context
    cluster = context.cluster
    done = tuple(broker for broker in cluster.forgotten if not any(_queued_with(context, (broker,))))
    debts = tuple(_to_write_off(context, done))
    aside = {
        each.path: each.broker
        for each in cluster.debts.unreadable.values()
        # Where the list of a broker's debts is what cannot be read, nothing is known to remove.
        if each.broker is not None and each.broker in done and each.path != paths.debts_of(each.broker)
    }
    if debts or aside:
        removed = (*((key.path, key.broker) for key in debts), *aside.items())
        groups = [(*absence_check(paths.broker_id(broker)), Delete(path)) for path, broker in removed]
        step.write(groups, DebtsWrittenOff(debts, tuple(aside)))
        return
    if done:
        removals = [(Delete(paths.forget(broker), cluster.forgotten[broker]),) for broker in done]
        step.write(removals, ForgetsAnswered(done))


def _to_write_off(context: Context, brokers: Sequence[BrokerId]) -> Iterator[DebtKey]:
    """Yield the debts of these brokers that are not needed any more."""
    for broker in brokers:
        for topic, by_zxid in context.cluster.debts.by_broker.get(broker, {}).items():
            keys = (DebtKey(broker, topic, created_zxid) for created_zxid in by_zxid)
            yield from (key for key in keys if not _is_queued(context, key))


def _is_queued(context: Context, key: DebtKey) -> bool:
    """Return True if the debt's topic is still to be removed: until then its debt is needed."""
    topic = context.cluster.topics.get(key.topic)
    return topic is not None and topic.created_zxid == key.created_zxid and context.cluster.is_queued(key.topic)


def on_written_off(step: StepContext, task: DebtsWrittenOff, outcomes: Sequence[GroupOutcome]) -> None:
    """Record the debts that are written off, and go on; one that cannot be removed stays. If its broker has registered,
    look again at the request."""
    unreadable = step.context.cluster.debts.unreadable
    removed: list[DebtKey | str] = [*task.debts, *task.unreadable]
    failed = is_registered = False
    for debt, outcome in zip(removed, outcomes, strict=True):
        if isinstance(outcome, GroupFailed) and outcome.error is ZkError.NODE_EXISTS:
            failed = is_registered = True
        elif isinstance(outcome, GroupFailed) and outcome.error is not ZkError.NO_NODE:
            failed = True
            _refuse_removal(step, debt, outcome.error)
        elif isinstance(debt, str):
            unreadable.pop(debt, None)
        else:
            _write_off(step, debt)
    if is_registered:
        step.do(ListBrokers(), ReadForgets())
    if not failed:
        step.do(SettleForgets())


def _refuse_removal(step: StepContext, debt: DebtKey | str, error: ZkError) -> None:
    if isinstance(debt, str):
        aside = step.context.cluster.debts.unreadable.get(debt)
        broker, path = None if aside is None else aside.broker, debt
    else:
        broker, path = debt.broker, debt.path
    subject = "cluster" if broker is None else f"broker/{broker}"
    step.refuse(subject, f"{FORGETTING}: removing {path}", error_words(error))


def _write_off(step: StepContext, key: DebtKey) -> None:
    debt = step.context.cluster.debts.drop(key)
    if debt is not None:
        record(step, key, debt.debt, WRITTEN_OFF, why=GIVEN_UP)


def on_answered(step: StepContext, task: ForgetsAnswered, outcomes: Sequence[GroupOutcome]) -> None:
    """Read again the requests that have changed meanwhile."""
    forgotten = step.context.cluster.forgotten
    for broker, outcome in zip(task.brokers, outcomes, strict=True):
        if isinstance(outcome, GroupFailed) and outcome.error in _CHANGED:
            step.do(ReadForgets())
        elif isinstance(outcome, GroupFailed):
            step.refuse(f"broker/{broker}", f"{FORGETTING}: answering the request", error_words(outcome.error))
        else:
            forgotten.pop(broker, None)
