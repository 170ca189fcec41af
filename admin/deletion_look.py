"""Looks at deletions: in ZooKeeper, in every broker's metadata cache and log directories.

`deletion_progress` says what a look means.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from lethe.adapters.debts import DebtsRead, OpenDebt, read_znodes
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.deletion_progress import (
    DeletionTarget,
    FailedLogDir,
    TopicDeletionProgress,
    UnseenPlace,
    UnseenZnode,
    failed_words,
)
from lethe.admin.topic_znodes import live_brokers
from lethe.admin.trash import read_trash
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, Exists, GetChildren, GetData, Present, ReadOutcome
from lethe.protocol.zookeeper.znodes import MalformedZnode, TrashEntry, TrashPhase, decode_topic
from lethe.survey.brokers import MAX_AT_ONCE_BRIEFLY, AskAbout, QueryScope, ask_all
from lethe.survey.views import BrokerAnswers, BrokerFailure, BrokerPlace, LogDirView
from lethe.survey.znodes import ZnodeUnreadable, children_of, data_of, stat_of
from lethe.survey.zookeeper import read_hosts


async def targets(session: ZooKeeperSession, names: Sequence[str]) -> list[DeletionTarget]:
    """Return the topics as they are now, in the order of the names. For an unreadable znode, `Exists` supplies the
    incarnation; raises ZnodeUnreadable where ZooKeeper refuses that too."""
    outcomes = await session.read(
        [read for name in names for read in (GetData(paths.topic(name)), Exists(paths.topic(name)))]
    )
    found = []
    for name, outcome, there in zip(names, outcomes[::2], outcomes[1::2], strict=True):
        if not isinstance(outcome, Data):
            if not isinstance(there, Present):
                # Newer ZooKeepers also refuse `Exists` for an unreadable znode.
                data_of(outcome, paths.topic(name))
            found.append(DeletionTarget(name, there.stat.czxid if isinstance(there, Present) else None, None, (), ()))
            continue
        try:
            znode = decode_topic(name, outcome.data)
        except MalformedZnode:  # it can be deleted anyway; which brokers have replicas is unknown
            found.append(DeletionTarget(name, outcome.stat.czxid, None, (), ()))
            continue
        brokers = {broker for assignment in znode.assignments.values() for broker in assignment.replicas}
        found.append(
            DeletionTarget(name, outcome.stat.czxid, znode.topic_id, tuple(sorted(brokers)), tuple(znode.assignments))
        )
    return await _with_possible_hosts(session, found)


async def _with_possible_hosts(session: ZooKeeperSession, found: list[DeletionTarget]) -> list[DeletionTarget]:
    """Add to the topics with unknown brokers those that other topics name: no other znode tells which brokers there
    are."""
    unclear = {target.name for target in found if not target.brokers}
    if not unclear:
        return found
    hosts: Sequence[int] = ()
    unread: tuple[UnseenZnode, ...] = ()
    (listed,) = await session.read([GetChildren(paths.BROKER_TOPICS)])
    try:
        names = children_of(listed, paths.BROKER_TOPICS) or ()
        hosts, problems = await read_hosts(session, [name for name in names if name not in unclear])
        unread = tuple(UnseenZnode(*problem) for problem in problems)
    except ZnodeUnreadable as unseen:
        unread = (UnseenZnode(unseen.path, unseen.reason),)
    return [
        replace(target, possible_hosts=tuple(hosts), unread_hosts=unread) if target.name in unclear else target
        for target in found
    ]


async def look(
    session: ZooKeeperSession, ask: AskAbout, wanted: Sequence[DeletionTarget]
) -> list[TopicDeletionProgress]:
    """Return what is left of each topic, in the order of `wanted`. Brokers are asked concurrently.

    Marks are read before topics. A controller removes the mark last, so "no mark, but a topic" never means a deletion
    that has just ended.
    """
    places = (paths.delete_topic, paths.topic)
    reads = [Exists(place(target.name)) for target in wanted for place in places]
    outcomes = await session.read(reads)
    trash = {view.name: view.entry for view in await read_trash(session, [target.name for target in wanted])}
    brokers, malformed = await live_brokers(session)
    answers = await ask_all(brokers, ask(scope_of(wanted)), at_once=MAX_AT_ONCE_BRIEFLY)
    told = BrokersSeen(answers, tuple(broker for each in malformed if (broker := _number(each.path)) is not None))
    debts = await _debts(session, told, wanted)
    progress = []
    for target, mark, topic in zip(wanted, outcomes[::2], outcomes[1::2], strict=True):
        unseen_znodes = [*target.unread_hosts]
        znode = _stat(topic, paths.topic(target.name), unseen_znodes)
        marker = _stat(mark, paths.delete_topic(target.name), unseen_znodes)
        czxid = None if znode is None else znode.stat.czxid
        is_recreated = czxid is not None and czxid != target.czxid
        progress.append(
            TopicDeletionProgress(
                target.name,
                is_marked=marker is not None,
                has_znode=czxid is not None and not is_recreated,
                cached_by=told.cached_by(target, is_recreated=is_recreated),
                stored_by=() if is_recreated else told.stored_by(target),
                unseen=tuple(
                    told.unseen(
                        target, is_recreated=is_recreated, why_absent=functools.partial(debts.why_absent, target)
                    )
                ),
                absent=told.absent(target),
                failed_log_dirs=told.failed_log_dirs(target),
                is_recreated=is_recreated,
                unseen_znodes=tuple(unseen_znodes),
                owed=debts.of(target),
                trashed_until_ms=_trashed_until_ms(target, trash.get(target.name)),
            )
        )
    return progress


def _trashed_until_ms(target: DeletionTarget, entry: TrashEntry | None) -> int | None:
    is_there = entry is not None and entry.phase is TrashPhase.TRASHED and entry.topic_id == target.topic_id
    return entry.until_ms if entry is not None and is_there else None


class _Debts(NamedTuple):
    """What absent brokers owe of the topics."""

    read: DebtsRead

    def of(self, target: DeletionTarget) -> tuple[OpenDebt, ...]:
        incarnation = (target.name, target.czxid)
        return tuple(debt for debt in self.read.debts if (debt.topic, debt.created_zxid) == incarnation)

    def why_absent(self, target: DeletionTarget, broker: int) -> str | None:
        """Return why the logs of this absent broker are unseen; None where it owes them."""
        if any(debt.broker == broker for debt in self.of(target)):
            return None
        path = paths.debt(broker, target.name, target.czxid or 0)
        unread = (f" and {path} cannot be read: {each.reason}" for each in self.read.unseen if each.path == path)
        return f"it is not registered{next(unread, '')}"


async def _debts(session: ZooKeeperSession, told: BrokersSeen, wanted: Sequence[DeletionTarget]) -> _Debts:
    return _Debts(
        await read_znodes(
            session,
            [
                (BrokerId(broker), f"{target.name}@{target.czxid}")
                for target in wanted
                if target.czxid is not None
                for broker in told.absent(target)
            ],
        )
    )


def _stat(outcome: ReadOutcome, path: str, unseen: list[UnseenZnode]) -> Present | None:
    """Return the answer to an Exists; a refusal is added to `unseen`."""
    try:
        return stat_of(outcome, path)
    except ZnodeUnreadable as unread:
        unseen.append(UnseenZnode(path, unread.reason))
        return None


def scope_of(wanted: Sequence[DeletionTarget]) -> QueryScope:
    """Return what brokers are asked about these topics."""
    names = frozenset(target.name for target in wanted)
    if all(target.partitions for target in wanted):
        return QueryScope(names, {target.name: target.partitions for target in wanted})
    return QueryScope(names)


def _number(path: str) -> int | None:
    return paths.broker_named(path.rpartition("/")[2])


class BrokersSeen:
    """The answers of all brokers in one look."""

    def __init__(self, answers: Sequence[BrokerAnswers], malformed: Sequence[int]) -> None:
        self._answers = answers
        self._malformed = malformed
        self._registered = {int(answer.broker) for answer in answers} | {*malformed}
        self._stored = {int(answer.broker): _stored(answer.log_dirs or ()) for answer in answers}

    def cached_by(self, target: DeletionTarget, *, is_recreated: bool) -> tuple[int, ...]:
        return tuple(int(answer.broker) for answer in self._answers if _caches(answer, target, is_recreated))

    def stored_by(self, target: DeletionTarget) -> tuple[int, ...]:
        return tuple(broker for broker, topics in self._stored.items() if target.name in topics)

    def absent(self, target: DeletionTarget) -> tuple[int, ...]:
        return self._absent(target.brokers)

    def _absent(self, brokers: Sequence[int]) -> tuple[int, ...]:
        return tuple(broker for broker in brokers if broker not in self._registered)

    def failed_log_dirs(self, target: DeletionTarget) -> tuple[FailedLogDir, ...]:
        return tuple(
            FailedLogDir(int(answer.broker), view.path)
            for answer in self._answers
            if answer.broker in target.brokers
            for view in answer.log_dirs or ()
            if view.has_failed
        )

    def unseen(
        self, target: DeletionTarget, *, is_recreated: bool, why_absent: Callable[[int], str | None]
    ) -> Iterator[UnseenPlace]:
        """Yield unseen places by broker. Logs of a recreated topic are not looked at. `why_absent` says why those of an
        absent broker are unseen; None where they need not be seen."""
        if not self._registered:
            yield UnseenPlace(None, BrokerPlace.CACHE, BrokerFailure.ABSENT, "no broker is registered")
            if not target.brokers and not is_recreated:
                yield UnseenPlace(None, BrokerPlace.LOGS, BrokerFailure.ABSENT, "no broker is registered")
        places = (BrokerPlace.CACHE,) if is_recreated else (BrokerPlace.CACHE, BrokerPlace.LOGS)
        for broker in self._malformed:
            for place in places:
                yield UnseenPlace(broker, place, BrokerFailure.UNASKED, "its registration cannot be understood")
        for answer in self._answers:
            for place in places:
                if (unseen := answer.unseen_at(place)) is not None:
                    yield UnseenPlace(int(answer.broker), place, unseen.failure, unseen.why)
            if not is_recreated and (not target.brokers or answer.broker in target.brokers):
                yield from _unseen_log_dirs(answer)
        if not is_recreated:
            # Without any registered broker they are among the "any broker" above.
            possible = self._absent(target.possible_hosts) if self._registered else ()
            for broker in (*self.absent(target), *possible):
                if (why := why_absent(broker)) is not None:
                    yield UnseenPlace(broker, BrokerPlace.LOGS, BrokerFailure.ABSENT, why)


def _unseen_log_dirs(answer: BrokerAnswers) -> Iterator[UnseenPlace]:
    for view in answer.log_dirs or ():
        if view.has_failed:
            yield UnseenPlace(int(answer.broker), BrokerPlace.LOGS, BrokerFailure.FAILED_DISK, failed_words(view.path))
        elif view.problem is not None:
            yield UnseenPlace(int(answer.broker), BrokerPlace.LOGS, BrokerFailure.ERROR, f"{view.path}: {view.problem}")


def _stored(log_dirs: Iterable[LogDirView]) -> frozenset[str]:
    return frozenset(
        directory.topic_partition.topic
        for view in log_dirs
        for directory in view.directories
        if directory.topic_partition is not None
    )


def _caches(answer: BrokerAnswers, target: DeletionTarget, is_recreated: bool) -> bool:
    cached = (answer.cache or {}).get(target.name)
    if cached is None:
        return False
    if cached.topic_id is None or target.topic_id is None:
        return not is_recreated
    return cached.topic_id == target.topic_id
