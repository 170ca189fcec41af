"""Progress of deletions as seen from outside: in ZooKeeper, every broker's metadata cache, every broker's logs.

Only the incarnation that was to be deleted counts. A newer topic of the same name has another czxid and topic id.
Brokers do not report topic ids of logs, so with a new incarnation the logs say nothing about the old one and are
ignored.

What could not be seen is part of the progress (`unseen`): brokers that are unregistered, silent, refuse or answer with
an error, and failed log directories. `unseen_znodes` are the mark or znode whose existence ZooKeeper does not tell. A
topic with something unseen is not done, even if nothing of it was seen.

    mark    znode    caches, logs           result
    yes     yes      any                    is_left
    no      yes      any                    is_given_up: the controller dropped the mark
    unseen  yes      any                    is_left
    no      unseen   clean, all seen        is_blind
    no      no       broker 3 caches it     is_left
    no      no       clean, all seen        is_done
    no      no       clean, 3 refuses       is_blind: waiting does not help
    no      no       clean, 3 is silent     none of these: 3 may answer later
    no      no       clean, absent 3 owes   is_done, with the debt
    no      no       in the trash           is_trashed: kept on purpose

"Stored" ends when the directory is renamed. So a done topic is *deleted*; its bytes may not be *reclaimed* yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.adapters.debts import DebtsRead, OpenDebt, read_znodes
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.topic_znodes import live_brokers
from lethe.admin.trash import read_trash
from lethe.protocol.vocabulary import BrokerId, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, Exists, GetData, Present, ReadOutcome
from lethe.protocol.zookeeper.znodes import MalformedZnode, TrashEntry, TrashPhase, decode_topic
from lethe.survey.brokers import MAX_AT_ONCE_BRIEFLY, AskAbout, QueryScope, ask_all
from lethe.survey.views import BrokerAnswers, BrokerFailure, BrokerPlace, LogDirView
from lethe.survey.znodes import ZnodeUnreadable, data_of, stat_of

MARK_DROPPED: Final = (
    "the controller dropped the mark: `lethe explain` says why (protected, or delete.topic.enable=false)"
)


@dataclass(frozen=True, slots=True)
class DeletionTarget:
    """A topic whose deletion is watched. `czxid` identifies its incarnation; None where only a mark was left."""

    name: str
    czxid: int | None
    topic_id: TopicId | None
    brokers: tuple[int, ...]
    """Those with a replica, sorted."""
    partitions: tuple[int, ...]


class UnseenPlace(NamedTuple):
    """A cache, or log directories, in which the topic may be left."""

    broker: int | None
    """None: all brokers."""
    place: BrokerPlace
    failure: BrokerFailure
    why: str

    @property
    def lasts(self) -> bool:
        """True where waiting does not help."""
        return self.failure.lasts


class UnseenZnode(NamedTuple):
    """A znode whose existence ZooKeeper does not tell. Waiting does not help."""

    path: str
    why: str


class FailedLogDir(NamedTuple):
    """A log directory that its broker has taken offline."""

    broker: int
    path: str


@dataclass(frozen=True, slots=True)
class TopicDeletionProgress:
    """What is left of one topic."""

    name: str
    is_marked: bool
    has_znode: bool
    cached_by: tuple[int, ...] = ()
    stored_by: tuple[int, ...] = ()
    unseen: tuple[UnseenPlace, ...] = ()
    absent: tuple[int, ...] = ()
    """Brokers with replicas that are not registered: the controller waits for them."""
    failed_log_dirs: tuple[FailedLogDir, ...] = ()
    """Those of brokers with replicas. Brokers do not say whether a replica of the topic is in them."""
    is_recreated: bool = False
    """A new topic has the name. Brokers do not distinguish its logs from those of the old one."""
    unseen_znodes: tuple[UnseenZnode, ...] = ()
    owed: tuple[OpenDebt, ...] = ()
    """What absent brokers still have: promised to be deleted when they return, and so neither left nor unseen."""
    trashed_until_ms: int | None = None
    """Until when the topic stays in the trash; None: it is not there."""

    @property
    def is_trashed(self) -> bool:
        """True if the topic is out of service and kept in the trash."""
        return self.trashed_until_ms is not None and not self.is_marked and not self.has_znode

    @property
    def is_left(self) -> bool:
        """True if something of the topic was seen."""
        return self.is_marked or self.has_znode or bool(self.cached_by) or bool(self.stored_by)

    @property
    def is_done(self) -> bool:
        """True if everything was seen and nothing of the topic is left, but for what is owed."""
        return not self.is_left and not self.unseen and not self.unseen_znodes

    @property
    def is_blind(self) -> bool:
        """True if nothing of the topic was seen, and all unseen places and znodes will stay unseen."""
        return not self.is_left and not self.is_done and all(each.lasts for each in self.unseen)

    @property
    def is_given_up(self) -> bool:
        """True if the mark is gone and the topic is not: a controller with delete.topic.enable=false drops marks."""
        return self.has_znode and not self.is_marked and not self.unseen_znodes

    @property
    def silent(self) -> tuple[int, ...]:
        """Brokers that did not answer, so neither their caches nor their logs were seen."""
        failures = (BrokerFailure.SILENT, BrokerFailure.UNREACHABLE)
        silent = (each.broker for each in self.unseen if each.failure in failures)
        return tuple(dict.fromkeys(broker for broker in silent if broker is not None))

    @property
    def is_settled(self) -> bool:
        """True where another look is useless."""
        return self.is_done or self.is_given_up or self.is_blind or self.is_trashed

    def is_unseen_at(self, place: BrokerPlace) -> bool:
        """True if that place of some broker was not seen."""
        return any(each.place is place for each in self.unseen)

    @property
    def waits(self) -> tuple[str, ...]:
        """What the deletion waits for, as texts; empty where it is done."""
        parts = []
        if self.has_znode:
            parts += [f"broker {broker} to come back" for broker in self.absent]
            parts += [
                f"broker {failed.broker} whose log directory {failed.path} has failed (if a replica lies there, "
                "repair it and restart the broker)"
                for failed in self.failed_log_dirs
            ]
        if not parts and (self.has_znode or self.is_marked):
            parts.append("the controller")
        parts += [f"the metadata cache of broker {broker}" for broker in self.cached_by]
        parts += [f"the logs of broker {broker}" for broker in self.stored_by]
        parts += [f"a look at {each.path} ({each.why})" for each in self.unseen_znodes]
        return (*parts, *self._unseen_waits())

    @property
    def waits_for(self) -> str:
        """`waits`, joined."""
        return ", ".join(self.waits)

    def _unseen_waits(self) -> Iterator[str]:
        """Yield what has to be seen first, without what `waits` names already."""
        places: dict[tuple[int | None, str], list[str]] = {}
        for each in self.unseen:
            is_named = self.has_znode and (each.broker in self.absent or _is_failed_dir(self.failed_log_dirs, each))
            if not is_named:
                places.setdefault((each.broker, each.why), []).append(each.place.value)
        for (broker, why), named in places.items():
            whose = "any broker" if broker is None else f"broker {broker}"
            yield f"a look at the {' and '.join(named)} of {whose} ({why})"


def _is_failed_dir(failed: Iterable[FailedLogDir], unseen: UnseenPlace) -> bool:
    return any((each.broker, _failed_words(each.path)) == (unseen.broker, unseen.why) for each in failed)


def _failed_words(path: str) -> str:
    return f"log directory {path} has failed"


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
    return found


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
    answers = await ask_all(brokers, ask(_scope(wanted)), at_once=MAX_AT_ONCE_BRIEFLY)
    told = _Answers(answers, tuple(broker for each in malformed if (broker := _number(each.path)) is not None))
    debts = await _debts(session, told, wanted)
    progress = []
    for target, mark, topic in zip(wanted, outcomes[::2], outcomes[1::2], strict=True):
        unseen_znodes: list[UnseenZnode] = []
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
                unseen=tuple(told.unseen(target, is_recreated=is_recreated, debts=debts)),
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

    def why_absent(self, broker: int, target: DeletionTarget) -> str | None:
        """Return why the logs of this absent broker are unseen; None where it owes them."""
        if any(debt.broker == broker for debt in self.of(target)):
            return None
        path = paths.debt(broker, target.name, target.czxid or 0)
        unread = (f" and {path} cannot be read: {each.reason}" for each in self.read.unseen if each.path == path)
        return f"it is not registered{next(unread, '')}"


async def _debts(session: ZooKeeperSession, told: _Answers, wanted: Sequence[DeletionTarget]) -> _Debts:
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


def _scope(wanted: Sequence[DeletionTarget]) -> QueryScope:
    names = frozenset(target.name for target in wanted)
    if all(target.partitions for target in wanted):
        return QueryScope(names, {target.name: target.partitions for target in wanted})
    return QueryScope(names)


def _number(path: str) -> int | None:
    return paths.broker_named(path.rpartition("/")[2])


class _Answers:
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
        return tuple(broker for broker in target.brokers if broker not in self._registered)

    def failed_log_dirs(self, target: DeletionTarget) -> tuple[FailedLogDir, ...]:
        return tuple(
            FailedLogDir(int(answer.broker), view.path)
            for answer in self._answers
            if answer.broker in target.brokers
            for view in answer.log_dirs or ()
            if view.has_failed
        )

    def unseen(self, target: DeletionTarget, *, is_recreated: bool, debts: _Debts) -> Iterator[UnseenPlace]:
        """Yield unseen places by broker. Logs of a recreated topic are not looked at."""
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
            for broker in self.absent(target):
                if (why := debts.why_absent(broker, target)) is not None:
                    yield UnseenPlace(broker, BrokerPlace.LOGS, BrokerFailure.ABSENT, why)


def _unseen_log_dirs(answer: BrokerAnswers) -> Iterator[UnseenPlace]:
    for view in answer.log_dirs or ():
        if view.has_failed:
            yield UnseenPlace(int(answer.broker), BrokerPlace.LOGS, BrokerFailure.FAILED_DISK, _failed_words(view.path))
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
