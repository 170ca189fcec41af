"""Removes a deleted topic's znodes, as the last step of the deletion.

    topic                   multis
    ----------------------  -------------------------------------------------------------------------------
    fits into one multi     partitions, topic, configuration, marker: a crash leaves all of them or none
    too large for one       partitions in several multis, then one with topic, configuration and marker

A multi is bounded by operations and by bytes, since ZooKeeper keeps its last 500 in memory.

After a crash between these multis the topic's partitions have no state. Any controller, Kafka's too, can delete such a
topic. If ZooKeeper's znodes differ from memory (a half-deleted topic, a missing configuration), the tree is searched
and removed in the same way.

Removals are written in the background, in slices, `SLICES_AT_ONCE` at a time: leaders are elected and replicas are
stopped meanwhile. These rules follow, because the znodes of a topic under way (`Removals.under_way`) may exist, be
gone, or be those of a topic made again under its name:

    what happens meanwhile                   what follows
    ---------------------------------------  ------------------------------------------------------------------
    the topic would be continued             nothing: the outcome decides
    the list of topics does not have it      topics are listed again if the topic is left there for now
    its znode was modified                   it is read again if the topic is left there for now
    topics or markers have changed           they are listed after the next outcome, and again while a listed
                                             topic is under way
    its reassignment is requested            the request is kept, and read again after the next outcome
    control is to be given up                no further slice is written, and it is given up after the outcomes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from lethe.controller.core import debts, debts_written, missed, owed, relisting, trash
from lethe.controller.core.context import Context
from lethe.controller.core.creation import forget
from lethe.controller.core.deletion import phase, retry_later, tombstone_is_settled
from lethe.controller.core.deletion_memory import DeletionProblem, RetriedAction
from lethe.controller.core.mutation import count_retry, remove_topic, set_ineligible
from lethe.controller.core.slices import SLICES_AT_ONCE
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import GiveUp, ListTopics, ReadModifiedTopics
from lethe.controller.core.tasks_clients import AlterReassignments
from lethe.controller.core.tasks_debts import DebtParentsCreated, DebtsWritten, SettleForgets, WriteDebts
from lethe.controller.core.tasks_deletion import (
    ListDeletions,
    RemoveTopics,
    SearchTopicTrees,
    TopicsRemoved,
    TopicTree,
    TopicTreesSearched,
)
from lethe.controller.core.tasks_reassignment import ReadReassignments
from lethe.protocol.journal import EventRecordType, JsonValue
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Children,
    Delete,
    Exists,
    GetChildren,
    Operation,
    Present,
    Read,
    ReadOutcome,
    ZnodeError,
    read_error,
)
from lethe.protocol.zookeeper.packing import DEFAULT_MAX_BYTES, GroupFailed, GroupOutcome, group_bytes, operation_bytes

GROUPS_AT_ONCE: Final = 4
"""Size of a slice, in times of the largest number of operations of a group. Bytes bind a group earlier."""

# --- znodes from memory ---------------------------------------------------------------------------------------------


def remove(step: StepContext, task: RemoveTopics) -> None:
    """Remove all znodes of these topics, as soon as there is room."""
    removals = step.context.cluster.removals
    removals.waiting.update(dict.fromkeys(name for name in task.topics if name not in removals.under_way))
    _go_on(step)


def _go_on(step: StepContext) -> None:
    """Write the next slices; search the trees of topics that memory does not have whole."""
    cluster = step.context.cluster
    removals = cluster.removals
    if cluster.paused is not None or removals.then_resign is not None:
        # Every topic is continued when the pause ends.
        removals.waiting.clear()
    unclear: list[str] = []
    indebted: list[str] = []
    while removals.waiting and not indebted and len(cluster.background) < SLICES_AT_ONCE:
        chosen, not_whole, indebted = _next_slice(step)
        unclear += not_whole
        _write_removals(step, chosen, searched=False)
    _begin_search(step, unclear)
    if indebted:
        step.do(WriteDebts(tuple(indebted)))


class _TopicRemoval(NamedTuple):
    """The deletes of one topic: `inner` may be spread over several multis, `last` go together and last."""

    topic: str
    inner: list[Operation]
    last: tuple[Operation, ...]


def _next_slice(step: StepContext) -> tuple[list[_TopicRemoval], list[str], list[str]]:
    """Take waiting topics for one slice; second, those met on the way that memory does not have whole; third, those
    whose debts must be written first."""
    context = step.context
    cluster = context.cluster
    waiting = cluster.removals.waiting
    room = GROUPS_AT_ONCE * context.config.max_operations_per_group
    chosen: list[_TopicRemoval] = []
    unclear: list[str] = []
    indebted: list[str] = []
    while waiting and room > 0:
        name = next(iter(waiting))
        del waiting[name]
        if not cluster.is_queued(name) or not cluster.deletions[name].all_acknowledged:
            # A broker with a replica that was to be owed has returned.
            continue
        if debts := debts_written.missing(context, name, step.now_ms):
            indebted.append(name)
            room -= len(debts)
            continue
        if cluster.topics[name].numbers != cluster.topics[name].led:
            unclear.append(name)
            continue
        last = (Delete(paths.topic_partitions(name)), *(Delete(path) for path in _roots(name)))
        chosen.append(_TopicRemoval(name, list(_partition_deletes(context, name)), last))
        room -= len(chosen[-1].inner) + len(last)
    return chosen, unclear, indebted


def _write_removals(step: StepContext, chosen: list[_TopicRemoval], *, searched: bool) -> None:
    """Write these deletes, except those of topics whose tombstone is no longer settled: an answer or a timer continues
    such a topic.

    A removal may take several steps: a place in line, debts, a search, a second multi. A broker may have refused the
    tombstone since the first step; it is sent the tombstone again before the znodes go."""
    deletions, limit = step.context.cluster.deletions, step.context.config.max_operations_per_group
    left = {name: None for name, *_ in chosen if not tombstone_is_settled(step, name, deletions[name])}
    _catch_up(step, tuple(left))
    chosen = [removal for removal in chosen if removal.topic not in left]
    groups: list[tuple[Operation, ...]] = []
    parts: list[int] = []
    follows: list[tuple[Operation, ...]] = []
    for _, inner, last in chosen:
        whole = (*inner, *last)
        fits = not inner or (len(whole) <= limit and group_bytes(whole) <= DEFAULT_MAX_BYTES)
        mine = [whole] if fits else list(_chunks(inner, limit))
        groups.extend(mine)
        parts.append(len(mine))
        follows.append(() if fits else last)
    if groups:
        topics = tuple(removal.topic for removal in chosen)
        step.context.cluster.removals.under_way.update(dict.fromkeys(topics))
        step.write_in_background(groups, TopicsRemoved(topics, tuple(parts), tuple(follows), searched))


def _partition_deletes(context: Context, name: str) -> Iterator[Operation]:
    for number in context.cluster.topics[name].partitions:
        yield Delete(paths.partition_state(name, number))
        yield Delete(paths.topic_partition(name, number))


def _roots(name: str) -> tuple[str, str, str]:
    """Return the topic's root znodes in the order of removal: the topic first, its marker last."""
    return paths.topic(name), paths.config_topic(name), paths.delete_topic(name)


def _chunks(operations: list[Operation], limit: int) -> Iterator[tuple[Operation, ...]]:
    """Cut them by number and bytes. A single one may have more bytes: others choose the names of strange znodes."""
    chunk: list[Operation] = []
    room = DEFAULT_MAX_BYTES
    for operation in operations:
        takes = operation_bytes(operation)
        if chunk and (len(chunk) == limit or takes > room):
            yield tuple(chunk)
            chunk, room = [], DEFAULT_MAX_BYTES
        chunk.append(operation)
        room -= takes
    yield tuple(chunk)


def on_topics_removed(step: StepContext, task: TopicsRemoved, outcomes: Sequence[GroupOutcome]) -> None:
    """Finish topics whose groups all succeeded, write the last multi of large topics, and search where one failed."""
    cluster = step.context.cluster
    removals = cluster.removals
    for name in task.topics:
        del removals.under_way[name]
    if removals.then_resign is not None:
        # It waits again if what follows is written.
        step.do(GiveUp(removals.then_resign))
    relisting.after_outcome(step)
    if removals.reassignments_kept:
        removals.reassignments_kept = False
        step.context.tasks.append(ReadReassignments())
    step.context.tasks.extend(map(AlterReassignments, removals.alterations))
    removals.alterations.clear()
    at = 0
    unclear: list[str] = []
    following: list[_TopicRemoval] = []
    finished: list[str] = []
    for name, parts, last in zip(task.topics, task.parts, task.last, strict=True):
        mine = outcomes[at : at + parts]
        at += parts
        problem = next((outcome for outcome in mine if isinstance(outcome, GroupFailed)), None)
        if problem is not None and task.searched:
            _give_up_for_now(step, name, ZnodeError(problem.error))
        elif problem is not None:
            unclear.append(name)
        elif last:
            following.append(_TopicRemoval(name, [], last))
        else:
            _finish(step, name)
            finished.append(name)
    if not cluster.deletions:
        # They were queued above, and put lists off.
        relisting.after_outcome(step)
    _settle_forgets(step, finished)
    if cluster.paused is None:
        _begin_search(step, unclear)
        _write_removals(step, following, searched=task.searched)
    else:
        _catch_up(step, (*unclear, *(each.topic for each in following)))
    _go_on(step)


def _catch_up(step: StepContext, names: Sequence[str]) -> None:
    """Read what was modified of these topics, which are left for now, while they were under way; list the topics again
    if one of them was missing."""
    removals = step.context.cluster.removals
    again = tuple(name for name in names if name in removals.modified)
    for name in again:
        del removals.modified[name]
    if again:
        step.do(ReadModifiedTopics(again))
    if not removals.missing.keys().isdisjoint(names):
        # One list is enough for all of them, and finds again what is missing then.
        removals.missing = {}
        step.do(ListTopics())


def _finish(step: StepContext, name: str) -> None:
    """Record the end of the deletion and drop the topic from memory. Silent brokers owe the tombstone's answer."""
    deletion = step.context.cluster.deletions[name]
    owing = owed.note(step, name)
    shown: dict[str, JsonValue] = {"owed_by": ",".join(map(str, owing))} if owing else {}
    created_zxid = step.context.cluster.topics[name].created_zxid
    debtors = [key.broker for key, _ in step.context.cluster.debts.of_topic(name) if key.created_zxid == created_zxid]
    shown |= {"debts_of": ",".join(map(str, debtors))} if debtors else {}
    phase(step, name, "removed", since_ms=deletion.acknowledged_at_ms or deletion.queued_at_ms, **shown)
    phase(step, name, "done", since_ms=deletion.queued_at_ms, **shown)
    remove_topic(step.context.cluster, name)
    step.context.cluster.removals.end(name)
    missed.note_removed(step.context, name)
    debts.look_again(step, name)
    trash.vanished(step, (name,))


def _settle_forgets(step: StepContext, finished: Sequence[str]) -> None:
    """Settle with brokers that are given up, once for all topics that are removed together."""
    if finished and step.context.cluster.forgotten:
        step.do(SettleForgets())


# --- debts ----------------------------------------------------------------------------------------------------------


def write_debts(step: StepContext, task: WriteDebts) -> None:
    """Write what absent brokers still have of these topics; then remove the topics."""
    debts_written.write(step, task.topics)


def on_debt_parents_created(step: StepContext, task: DebtParentsCreated, outcomes: Sequence[GroupOutcome]) -> None:
    """Give topics up for now whose debts cannot be written; the debts of the others are written next."""
    refused = debts_written.on_parents_created(step, task, outcomes)
    for name, problem in refused.items():
        _give_up_for_now(step, name, problem)
    if all(name in refused for name in task.topics):
        # Nothing is written, whose outcome would go on with the topics that wait behind these.
        _go_on(step)


def on_debts_written(step: StepContext, task: DebtsWritten, outcomes: Sequence[GroupOutcome]) -> None:
    """Remove the topics whose debts are written, before all others that wait; give the others up for now."""
    removals = step.context.cluster.removals
    refused = debts_written.on_written(step, task, outcomes)
    for name, problem in refused.items():
        _give_up_for_now(step, name, problem)
    ready = dict.fromkeys(key.topic for key, _ in task.debts if key.topic not in refused)
    removals.waiting = ready | removals.waiting
    _go_on(step)


# --- znodes from ZooKeeper ----------------------------------------------------------------------------------------


def _begin_search(step: StepContext, names: Sequence[str]) -> None:
    if names:
        step.do(SearchTopicTrees(tuple(TopicTree(name, (), _roots(name)) for name in names)))


def search(step: StepContext, task: SearchTopicTrees) -> None:
    """Read the next level of all these topics' trees, and first of all whether they are still the same topics."""
    step.read((read for tree in task.trees for read in _reads(tree)), TopicTreesSearched(task.trees))


def _reads(tree: TopicTree) -> tuple[Read, ...]:
    identity = (Exists(paths.topic(tree.topic)),) if tree.level == _roots(tree.topic) else ()
    return (*identity, *(GetChildren(path) for path in tree.level))


def on_topic_trees_searched(step: StepContext, task: TopicTreesSearched, outcomes: Sequence[ReadOutcome]) -> None:
    """Search the next level; after the last one, remove the znodes that were found, deepest first.

    A topic that was removed and made again by hand is another one, and stays."""
    at = 0
    trees: list[TopicTree] = []
    replaced: list[str] = []
    for tree in task.trees:
        count = len(_reads(tree))
        mine = outcomes[at : at + count]
        at += count
        grown = _grown(tree, mine, step.context.cluster.topics[tree.topic].created_zxid)
        if grown is None:
            replaced.append(tree.topic)
        elif isinstance(grown, ZnodeError):
            _give_up_for_now(step, tree.topic, grown)
        else:
            trees.append(grown)
    for name in replaced:
        step.context.cluster.removals.end(name)
    if replaced:
        forget(step, replaced)
        step.do(ListTopics(), ListDeletions())
    if any(tree.level for tree in trees):
        step.do(SearchTopicTrees(tuple(trees)))
        return
    chosen: list[_TopicRemoval] = []
    finished: list[str] = []
    for tree in trees:
        roots = _roots(tree.topic)
        inner: list[Operation] = [Delete(path) for path in reversed(tree.found) if path not in roots]
        last: tuple[Operation, ...] = tuple(Delete(path) for path in roots if path in tree.found)
        if last:
            chosen.append(_TopicRemoval(tree.topic, inner, last))
        else:
            _finish(step, tree.topic)
            finished.append(tree.topic)
    _settle_forgets(step, finished)
    _write_removals(step, chosen, searched=True)


def _grown(tree: TopicTree, outcomes: Sequence[ReadOutcome], created_zxid: int) -> TopicTree | ZnodeError | None:
    """Return the tree with one more level, the error that prevented reading it, or None for that of another topic."""
    found = list(tree.found)
    below: list[str] = []
    for (path, *_), outcome in zip(_reads(tree), outcomes, strict=True):
        if isinstance(outcome, Present):
            if outcome.stat.czxid != created_zxid:
                return None
        elif isinstance(outcome, Children):
            found.append(path)
            below.extend(f"{path}/{name}" for name in outcome.names)
        elif (error := read_error(outcome)) is not None:
            return ZnodeError(error, path)
    return TopicTree(tree.topic, tuple(found), tuple(below))


def _give_up_for_now(step: StepContext, name: str, why: ZnodeError) -> None:
    deletion = step.context.cluster.deletions[name]
    deletion.znode_problem = problem = DeletionProblem.met(deletion.znode_problem, why.words, step.now_ms)
    step.record(EventRecordType.REFUSAL, f"topic/{name}", what="removing its znodes", why=why.words)
    set_ineligible(step.context.cluster, deletion, True)
    count_retry(step.context, RetriedAction.ZNODES, why.error.name)
    retry_later(step, name, problem.attempts)
    _catch_up(step, (name,))
