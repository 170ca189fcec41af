"""Writes debts before the znodes of their topics go, and reads them at the takeover.

    step                                    after a crash behind it
    --------------------------------------  -----------------------------------------------------------------
    `/lethe/debts/<broker>` is created      nothing is owed
    the topic's debts are written           the topic exists, so its debts wait (`debts`); its deletion goes on
    the topic's znodes go (`removal`)       the debts are paid when their brokers return

The debts come first for every topic, so that a large one, which is removed in several multis, needs no rule of its own:
its leader epochs go with its first multi. If a broker returns between these steps, it is asked to delete as usual, and
its debt is found paid later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lethe.controller.core import debts_policy
from lethe.controller.core.context import Context
from lethe.controller.core.debt_memory import DebtKey, UnreadableDebt
from lethe.controller.core.partition_sets import numbers_in
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_debts import (
    DebtorsListed,
    DebtParentsCreated,
    DebtsLeftListed,
    DebtsListed,
    DebtsRead,
    DebtsWritten,
    ReadDebts,
)
from lethe.controller.core.transitions import ReplicaState
from lethe.protocol.journal import EventRecordType, partition_ranges
from lethe.protocol.journal_debts import WRITTEN
from lethe.protocol.vocabulary import BrokerId, topic_id_to_text
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Children,
    Create,
    Data,
    GetChildren,
    GetData,
    Operation,
    ReadOutcome,
    SetData,
    ZkError,
    ZnodeError,
    error_words,
    failure_words,
    is_absent,
    read_error,
)
from lethe.protocol.zookeeper.packing import GroupFailed, GroupOutcome
from lethe.protocol.zookeeper.znodes import Debt

_OWED = (ReplicaState.DELETION_OWED,)

# --- writing ------------------------------------------------------------------------------------------------------


def missing(context: Context, name: str, now_ms: int) -> tuple[tuple[DebtKey, Debt], ...]:
    """Return the debts that must be written before the znodes of this topic may go."""
    return tuple((key, debt) for key, debt in _wanted(context, name, now_ms) if not _is_written(context, key, debt))


def _wanted(context: Context, name: str, now_ms: int) -> Iterator[tuple[DebtKey, Debt]]:
    topic = context.cluster.topics[name]
    if debts_policy.obstacle(context, name) is not None:
        # Then its broker is given up, and nothing is owed that a later topic could not be told from.
        return
    epoch = debts_policy.last_leader_epoch(context, name)
    for broker in topic.assigned():
        if bits := topic.in_states(broker, _OWED):
            # An unknown epoch matters only where ids are not compared, and then nothing is owed.
            debt = Debt(topic.id, tuple(numbers_in(bits)), epoch or 0, now_ms)
            yield DebtKey(broker, name, topic.created_zxid), debt


def _is_written(context: Context, key: DebtKey, debt: Debt) -> bool:
    known = context.cluster.debts.get(key)
    if known is None or known.is_kept:
        # The znode of a debt that was void before the topic was marked again is about to go.
        return False
    return (known.debt.topic_id, known.debt.partitions) == (debt.topic_id, debt.partitions)


def write(step: StepContext, names: Iterable[str]) -> None:
    """Write the missing debts of these topics, and their parents first; then their removal goes on."""
    context = step.context
    debts = tuple(each for name in names for each in missing(context, name, step.now_ms))
    unknown = tuple(dict.fromkeys(key.broker for key, _ in debts if key.broker not in context.cluster.debts.parents))
    if unknown:
        parents = (paths.lethe(), paths.debts(), *map(paths.debts_of, unknown))
        topics = tuple(dict.fromkeys(key.topic for key, _ in debts))
        step.write([(Create(path, None),) for path in parents], DebtParentsCreated(unknown, topics))
    elif debts:
        step.write([(_operation(context, key, debt),) for key, debt in debts], DebtsWritten(debts))


def _operation(context: Context, key: DebtKey, debt: Debt) -> Operation:
    exists = context.cluster.debts.get(key) is not None or key.path in context.cluster.debts.unreadable
    data = znodes.encode_debt(debt)
    return SetData(key.path, data, ANY_VERSION) if exists else Create(key.path, data)


def on_parents_created(
    step: StepContext, task: DebtParentsCreated, outcomes: Sequence[GroupOutcome]
) -> dict[str, ZnodeError]:
    """Store which parents exist, and write the debts; return the topics whose debts have no parent, with the error."""
    known = step.context.cluster.debts.parents
    errors: dict[BrokerId, ZnodeError] = {}
    for broker, outcome in zip(task.brokers, outcomes[-len(task.brokers) :], strict=True):
        if isinstance(outcome, GroupFailed) and outcome.error is not ZkError.NODE_EXISTS:
            errors[broker] = ZnodeError(outcome.error, paths.debts_of(broker))
        else:
            known[broker] = None
    refused: dict[str, ZnodeError] = {}
    for name in task.topics:
        for key, _ in missing(step.context, name, step.now_ms):
            if key.broker in errors:
                refused[name] = errors[key.broker]
    write(step, (name for name in task.topics if name not in refused))
    return refused


def on_written(step: StepContext, task: DebtsWritten, outcomes: Sequence[GroupOutcome]) -> dict[str, ZnodeError]:
    """Store the debts that were written; return the topics of the others with the error."""
    debts = step.context.cluster.debts
    refused: dict[str, ZnodeError] = {}
    for (key, debt), outcome in zip(task.debts, outcomes, strict=True):
        if isinstance(outcome, GroupFailed):
            refused[key.topic] = ZnodeError(outcome.error, key.path)
            _note_surprise(step, key, outcome.error)
            continue
        debts.unreadable.pop(key.path, None)
        debts.add(key, debt)
        record(step, key, debt, WRITTEN)
    return refused


def _note_surprise(step: StepContext, key: DebtKey, error: ZkError) -> None:
    """Correct what memory has of a znode that another process has created or removed."""
    if error is ZkError.NODE_EXISTS:
        step.context.tasks.append(ReadDebts())
    elif error is ZkError.NO_NODE and step.context.cluster.debts.drop(key) is None:
        step.context.cluster.debts.parents.pop(key.broker, None)


def record(step: StepContext, key: DebtKey, debt: Debt, what: str, **more: str) -> None:
    """Record what became of a debt."""
    step.record(
        EventRecordType.DEBT,
        f"topic/{key.topic}",
        what=what,
        broker=key.broker,
        topic_id=None if debt.topic_id is None else topic_id_to_text(debt.topic_id),
        created_zxid=key.created_zxid,
        owed_since_ms=debt.since_ms,
        **({} if debt.size_bytes is None else {"size_bytes": debt.size_bytes}),
        **({"partitions": partition_ranges(debt.partitions)} | more),
    )


# --- reading ------------------------------------------------------------------------------------------------------


def read(step: StepContext, task: ReadDebts) -> None:
    """List the brokers that owe something; or what of the known debts of these brokers is left."""
    if task.brokers is None:
        step.read((GetChildren(paths.debts()),), DebtorsListed())
    else:
        step.read((GetChildren(paths.debts_of(broker)) for broker in task.brokers), DebtsLeftListed(task.brokers))


def on_debtors_listed(step: StepContext, outcomes: Sequence[ReadOutcome]) -> None:
    """List what each of them owes."""
    debts = step.context.cluster.debts
    debts.unreadable.clear()
    if (error := read_error(outcomes[0])) is not None:
        _set_aside(step, UnreadableDebt(None, paths.debts(), f"reading it failed with {error_words(error)}", None))
    names = outcomes[0].names if isinstance(outcomes[0], Children) else ()
    brokers = tuple(sorted(broker for broker in map(paths.broker_named, names) if broker is not None))
    debts.parents = dict.fromkeys(brokers)
    if brokers:
        step.read((GetChildren(paths.debts_of(broker)) for broker in brokers), DebtsListed(brokers))


def on_debts_listed(step: StepContext, task: DebtsListed, outcomes: Sequence[ReadOutcome]) -> None:
    """Read these debts."""
    children: list[tuple[BrokerId, str]] = []
    for broker, outcome in zip(task.brokers, outcomes, strict=True):
        if (error := read_error(outcome)) is not None:
            path = paths.debts_of(broker)
            _set_aside(step, UnreadableDebt(broker, path, f"reading it failed with {error_words(error)}", None))
        children += ((broker, name) for name in (outcome.names if isinstance(outcome, Children) else ()))
    if children:
        reads = (GetData(f"{paths.debts_of(broker)}/{child}") for broker, child in children)
        step.read(reads, DebtsRead(tuple(children)))
    else:
        _replace(step, {})


def on_debts_read(step: StepContext, task: DebtsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Store the debts, and set those aside that cannot be understood."""
    found: dict[DebtKey, Debt] = {}
    for (broker, child), outcome in zip(task.children, outcomes, strict=True):
        path = f"{paths.debts_of(broker)}/{child}"
        named = paths.debt_named(child)
        if isinstance(outcome, Data):
            try:
                debt = znodes.decode_debt(broker, child, outcome.data)
            except znodes.MalformedZnode as malformed:
                _set_aside(step, UnreadableDebt(broker, path, malformed.reason, named[0] if named else None))
            else:
                assert named is not None
                found[DebtKey(broker, *named)] = debt
        elif not is_absent(outcome):
            reason = f"reading it failed with {failure_words(outcome)}"
            _set_aside(step, UnreadableDebt(broker, path, reason, named[0] if named else None))
    _replace(step, found)


def _replace(step: StepContext, found: dict[DebtKey, Debt]) -> None:
    debts = step.context.cluster.debts
    for key in [key for key, _ in debts.all() if key not in found]:
        debts.drop(key)
    for key, debt in found.items():
        known = debts.get(key)
        if known is None or known.debt != debt:
            debts.add(key, debt)


def _set_aside(step: StepContext, unreadable: UnreadableDebt) -> None:
    step.context.cluster.debts.unreadable[unreadable.path] = unreadable
    if unreadable.broker is None:
        step.refuse("cluster", f"reading {unreadable.path}", unreadable.reason)
    else:
        subject = f"broker/{unreadable.broker}"
        step.record(EventRecordType.SET_ASIDE, subject, path=unreadable.path, reason=unreadable.reason)
