"""The last act of a deletion: markers read, znodes removed, markers removed.

A topic's znodes go in one multi, the marker last in it, so that a crash leaves either all or none. A topic too large
for one multi loses its partitions first and everything else in a second one: what remains in between is a topic whose
partitions have no state, which any controller, Kafka's too, can finish deleting. Where the znodes are not what memory
believes (a half-deleted topic, a config that is missing), the real tree is searched and removed the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.core.agenda import (
    ListDeletions,
    ListTopics,
    RemoveTopics,
    ResumeDeletions,
    SearchTopicTree,
    SettleUnknownMarkers,
)
from controller.core.context import Context, Problem
from controller.core.continuations import (
    DeletionsListed,
    MarkersRemoved,
    TopicsRemoved,
    TopicTreeRemoved,
    TopicTreeSearched,
)
from controller.core.deletion import phase, retry_later
from controller.core.mutation import queue_deletion, remove_topic
from controller.core.turn import Turn
from protocol.journal import FactType
from protocol.zookeeper import paths
from protocol.zookeeper.operations import Children, Delete, GetChildren, Operation, ReadFailed, ReadOutcome, ZkError
from protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

# --- markers ------------------------------------------------------------------------------------------------------


def list_deletions(turn: Turn, task: ListDeletions) -> None:
    """Read which topics are marked, and be told when that changes."""
    turn.read((GetChildren(paths.delete_topics(), watch=True),), DeletionsListed(task.loading))


def listed(turn: Turn, task: DeletionsListed, outcomes: Sequence[ReadOutcome]) -> None:
    """Queue the topics we know; look again for those we do not; with deletion disabled, remove every marker."""
    context = turn.context
    marked = outcomes[0].names if isinstance(outcomes[0], Children) else ()
    if not marked:
        return
    if not context.config.delete_topic_enable:
        for name in marked:
            turn.refuse(f"topic/{name}", "deleting the topic", "delete.topic.enable is false")
        _remove_markers(turn, marked, with_config=False)
        return
    known = tuple(name for name in marked if name in context.topics)
    for name in known:
        if not context.is_queued(name):
            queue_deletion(context, name, turn.now_ms)
            phase(turn, name, "queued", since_ms=turn.now_ms)
    unknown = tuple(n for n in marked if n not in context.topics and n not in context.set_aside_topics)
    settling = (ListTopics(), SettleUnknownMarkers(unknown, task.loading)) if unknown else ()
    if task.loading:
        # After the takeover: by then the topics have been read later than these markers were.
        context.agenda.extend(settling)
    else:
        turn.do(ResumeDeletions(known), *settling)


def settle_unknown(turn: Turn, task: SettleUnknownMarkers) -> None:
    """A marker of a topic that does not exist goes; one whose topic has appeared meanwhile is taken up."""
    context = turn.context
    ghosts = tuple(n for n in task.topics if n not in context.topics and n not in context.set_aside_topics)
    for name in ghosts:
        turn.refuse(f"topic/{name}", "deleting the topic", "there is no such topic; its marker is removed")
    if ghosts:
        _remove_markers(turn, ghosts, with_config=task.with_config)
    if any(name in context.topics and not context.is_queued(name) for name in task.topics):
        turn.do(ListDeletions())


def _remove_markers(turn: Turn, names: Sequence[str], *, with_config: bool) -> None:
    groups: list[tuple[Operation, ...]] = []
    for name in names:
        config: tuple[Operation, ...] = (Delete(paths.config_topic(name)),) if with_config else ()
        groups.append((*config, Delete(paths.delete_topic(name))))
    turn.write(groups, MarkersRemoved(tuple(names), with_config))


def markers_removed(turn: Turn, task: MarkersRemoved, outcomes: Sequence[GroupOutcome]) -> None:
    """Where there was no configuration beside the marker, remove the marker alone."""
    alone = []
    for name, outcome in zip(task.topics, outcomes, strict=True):
        if not isinstance(outcome, GroupFailed):
            continue
        if task.with_config and outcome == GroupFailed(0, ZkError.NO_NODE):
            alone.append(name)
        elif outcome.error is not ZkError.NO_NODE:
            turn.refuse(f"topic/{name}", "removing its deletion marker", outcome.error.name)
    if alone:
        _remove_markers(turn, alone, with_config=False)


# --- znodes, as memory believes them to be --------------------------------------------------------------------------


def remove(turn: Turn, task: RemoveTopics) -> None:
    """All znodes of these topics, in as few multis as they fit into."""
    context = turn.context
    limit = context.config.max_operations_per_group
    names: list[str] = []
    groups: list[tuple[Operation, ...]] = []
    parts: list[int] = []
    last: list[tuple[Operation, ...]] = []
    for name in task.topics:
        if any(partition.leadership is None for _, partition in context.partitions_of(name)):
            turn.do(SearchTopicTree(name, (), _roots(name)))
            continue
        partitions = list(_partition_deletes(context, name))
        rest = (Delete(paths.topic_partitions(name)), *(Delete(path) for path in _roots(name)))
        names.append(name)
        if len(partitions) + len(rest) <= limit:
            groups.append((*partitions, *rest))
            parts.append(1)
            last.append(())
        else:
            chunks = list(_chunks(partitions, limit))
            groups.extend(chunks)
            parts.append(len(chunks))
            last.append(rest)
    if groups:
        turn.write(groups, TopicsRemoved(tuple(names), tuple(parts), tuple(last)))


def _partition_deletes(context: Context, name: str) -> Iterator[Operation]:
    for number in context.topics[name].partitions:
        yield Delete(paths.partition_state(name, number))
        yield Delete(paths.topic_partition(name, number))


def _roots(name: str) -> tuple[str, str, str]:
    """In the order in which they go: the topic first, its marker last."""
    return paths.topic(name), paths.config_topic(name), paths.delete_topic(name)


def _chunks(operations: list[Operation], limit: int) -> Iterator[tuple[Operation, ...]]:
    for start in range(0, len(operations), limit):
        yield tuple(operations[start : start + limit])


def removed(turn: Turn, task: TopicsRemoved, outcomes: Sequence[GroupOutcome]) -> None:
    """Done where everything went; a second multi for large topics; a search where something was not as believed."""
    at = 0
    names: list[str] = []
    groups: list[tuple[Operation, ...]] = []
    for name, parts, last in zip(task.topics, task.parts, task.last, strict=True):
        mine = outcomes[at : at + parts]
        at += parts
        if not all(isinstance(outcome, GroupDone) for outcome in mine):
            turn.do(SearchTopicTree(name, (), _roots(name)))
        elif last:
            names.append(name)
            groups.append(last)
        else:
            _finish(turn, name)
    if groups:
        turn.write(groups, TopicsRemoved(tuple(names), (1,) * len(names), ((),) * len(names)))


def _finish(turn: Turn, name: str) -> None:
    """Nothing of the topic is left in ZooKeeper: the deletion is done."""
    deletion = turn.context.deletions[name]
    phase(turn, name, "removed", since_ms=deletion.acknowledged_at_ms or deletion.queued_at_ms)
    phase(turn, name, "done", since_ms=deletion.queued_at_ms)
    remove_topic(turn.context, name)


# --- znodes, as they really are -----------------------------------------------------------------------------------


def search(turn: Turn, task: SearchTopicTree) -> None:
    """Read the next level of the topic's tree."""
    turn.read((GetChildren(path) for path in task.level), TopicTreeSearched(task.topic, task.found, task.level))


def searched(turn: Turn, task: TopicTreeSearched, outcomes: Sequence[ReadOutcome]) -> None:
    """Go one level down, or remove what was found, deepest first."""
    found = list(task.found)
    below: list[str] = []
    for path, outcome in zip(task.level, outcomes, strict=True):
        if isinstance(outcome, Children):
            found.append(path)
            below.extend(f"{path}/{name}" for name in outcome.names)
        elif isinstance(outcome, ReadFailed) and outcome.error is not ZkError.NO_NODE:
            _give_up_for_now(turn, task.topic, f"{outcome.error.name} at {path}")
            return
    if below:
        turn.do(SearchTopicTree(task.topic, tuple(found), tuple(below)))
        return
    roots = _roots(task.topic)
    inner: list[Operation] = [Delete(path) for path in reversed(found) if path not in roots]
    last: tuple[Operation, ...] = tuple(Delete(path) for path in roots if path in found)
    if not last:
        _finish(turn, task.topic)
        return
    limit = turn.context.config.max_operations_per_group
    if len(inner) + len(last) <= limit:
        turn.write([(*inner, *last)], TopicTreeRemoved(task.topic, ()))
    else:
        turn.write(list(_chunks(inner, limit)), TopicTreeRemoved(task.topic, last))


def tree_removed(turn: Turn, task: TopicTreeRemoved, outcomes: Sequence[GroupOutcome]) -> None:
    """What is still to follow, or done; where the tree changed under our hands, try again later."""
    problem = next((outcome for outcome in outcomes if isinstance(outcome, GroupFailed)), None)
    if problem is not None:
        _give_up_for_now(turn, task.topic, problem.error.name)
    elif task.last:
        turn.write([task.last], TopicTreeRemoved(task.topic, ()))
    else:
        _finish(turn, task.topic)


def _give_up_for_now(turn: Turn, name: str, what: str) -> None:
    deletion = turn.context.deletions[name]
    known = deletion.znode_problem
    attempts = known.attempts + 1 if known else 1
    deletion.znode_problem = Problem(what, known.since_ms if known else turn.now_ms, attempts)
    turn.record(FactType.REFUSAL, f"topic/{name}", what="removing its znodes", why=what)
    deletion.ineligible = True
    retry_later(turn, name, attempts)
