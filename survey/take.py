"""Takes a survey: ZooKeeper first, then brokers and disks at once, then ZooKeeper's lists and the topics with findings
again.

A controller writes to ZooKeeper before it sends requests to brokers, so ZooKeeper is ahead of them. A new topic is in
no cache yet; a replica that has just moved still has its old directory. So findings that such a delay explains are
checked again after `SETTLE_S`, and those that have disappeared were in motion:

    first look                   second look      result
    broker 3 caches orders       still cached     finding CACHED_WITHOUT_TOPIC
    broker 3 caches orders       not cached       no finding; orders is in `in_motion`
"""

from __future__ import annotations

import asyncio
import os.path
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.findings import Reason
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData
from lethe.protocol.zookeeper.znodes import registered_at_ms
from lethe.survey.broker_settings import read_settings
from lethe.survey.brokers import MAX_AT_ONCE_BRIEFLY, AskAbout, QueryScope, ask_all, broker_asker
from lethe.survey.directories import is_owned_by, read_log_dir, with_answers
from lethe.survey.leftovers import leftovers
from lethe.survey.removal import Removal
from lethe.survey.views import BrokerAnswers, LogDirSource, LogDirView, Survey, TopicTree, ZooKeeperTree
from lethe.survey.zookeeper import TopicNames, read_tree

MAX_AT_ONCE: Final = 16
"""Directories that are read at the same time."""
SETTLE_S: Final = 2.0
"""Time in which healthy brokers execute their controller's requests."""
SETTINGS_TIMEOUT_MS: Final = 5_000
_TRANSIENT: Final = frozenset(
    {
        Reason.CACHED_WITHOUT_TOPIC,
        Reason.CACHED_OTHER_INCARNATION,
        Reason.IN_NO_CACHE,
        Reason.DIRECTORY_NOT_ASSIGNED,
        Reason.REPLICA_WITHOUT_DIRECTORY,
        Reason.INCOMPLETE_TOPIC,
    }
)
"""Findings that may only mean that a broker has not yet executed a request, or that a topic is being created."""


async def take_survey(
    session: ZooKeeperSession,
    reach: BrokerReach,
    *,
    log_dirs: Mapping[int, Sequence[Path]] | None = None,
    ask: AskAbout | None = None,
    read_local_disks: bool = False,
    with_times: bool = False,
    settle_s: float = SETTLE_S,
) -> Survey:
    """Return the three places as they are now; `ask` asks brokers in another way than `reach` alone.

    `log_dirs` are directories of this machine by owning broker, which may be down; all others are as their brokers
    describe them. `read_local_disks` also reads those that are provably on this machine. `with_times` also reads when
    topics and markers were created. Findings that may pass are checked again after `settle_s` seconds. What cannot be
    seen is part of the result. Raises SessionLost only.
    """
    began = time.monotonic()
    taken_at_ms = time.time_ns() // 1_000_000
    tree, before = await read_tree(session, with_times=with_times)
    reader = _PlaceReader(log_dirs or {}, ask or _asker(reach), read_local_disks)
    answers, views = await reader.read(tree)
    removals = await _removals(session, reach, tree, views)
    seen = Survey(taken_at_ms, 0, tree, answers, views, host=socket.gethostname(), removals=removals)
    moved = await _moved(session, seen, before)
    passed, again = await _disappeared(session, replace(seen, in_motion=tuple(moved)), reader, settle_s)
    return replace(
        seen,
        answers=tuple(_with_unseen(answer, again) for answer in answers),
        took_ms=int((time.monotonic() - began) * 1000),
        in_motion=tuple(sorted(moved | passed)),
    )


def _asker(reach: BrokerReach) -> AskAbout:
    return lambda scope: broker_asker(reach, topics=scope.topics)


@dataclass(frozen=True, slots=True)
class _PlaceReader:
    """How brokers and disks are read."""

    log_dirs: Mapping[int, Sequence[Path]]
    ask: AskAbout
    read_local_disks: bool

    async def read(
        self, tree: ZooKeeperTree, topics: Collection[str] | None = None
    ) -> tuple[tuple[BrokerAnswers, ...], tuple[LogDirView, ...]]:
        """Return the answers of the registered brokers, and all log directories; with `topics`, at least what belongs
        to these."""
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(ask_all(tree.brokers, self.ask(QueryScope(topics))), name="survey-brokers")
            read = tasks.create_task(_read_all(self.log_dirs, topics), name="survey-disks")
        answers = tuple(asked.result())
        views = _all_log_dirs(read.result(), answers)
        if self.read_local_disks:
            views = await asyncio.to_thread(_read_locally, views, tree.cluster_id, topics)
        return answers, views


async def _removals(
    session: ZooKeeperSession, reach: BrokerReach, tree: ZooKeeperTree, views: Sequence[LogDirView]
) -> dict[BrokerId, Removal]:
    """Return when the registered brokers remove renamed directories. Only brokers that have some are asked."""
    having = {view.broker for view in views for each in view.directories if each.kind is DirectoryKind.DELETED}
    brokers = [broker for broker in tree.brokers if broker.id in having]
    asked = await ask_all(
        brokers, lambda broker: read_settings(broker, reach, SETTINGS_TIMEOUT_MS), at_once=MAX_AT_ONCE_BRIEFLY
    )
    found = await session.read([GetData(paths.broker_id(broker.id)) for broker in brokers]) if brokers else ()
    return {
        broker.id: Removal(settings.delete_delay_ms, registered_at_ms(read.data) if isinstance(read, Data) else None)
        for broker, settings, read in zip(brokers, asked, found, strict=True)
    }


async def _disappeared(
    session: ZooKeeperSession, seen: Survey, reader: _PlaceReader, settle_s: float
) -> tuple[set[str], tuple[BrokerAnswers, ...]]:
    """Return the topics with a finding that a second look does not confirm, and the brokers' answers to that look."""
    found = _transient_findings(seen)
    topics = {topic for _, topic, *_ in found}
    if not topics:
        return set(), ()
    await asyncio.sleep(settle_s)
    tree, _ = await read_tree(session, topics)
    answers, views = await reader.read(tree, topics)
    again = replace(seen, zookeeper=tree, answers=answers, log_dirs=views)
    return {topic for _, topic, *_ in found - _transient_findings(again)}, answers


def _with_unseen(answer: BrokerAnswers, again: Sequence[BrokerAnswers]) -> BrokerAnswers:
    """Add what only the second look could not see, since that may be why a finding disappeared."""
    more = [each for other in again if other.broker == answer.broker for each in other.unseen]
    return replace(answer, unseen=tuple(dict.fromkeys((*answer.unseen, *more)))) if more else answer


def _transient_findings(seen: Survey) -> set[tuple[Reason, str, str, BrokerId | None]]:
    """Return the findings that may pass: reason, topic, what, broker."""
    return {(one.reason, one.topic, one.what, one.broker) for one in leftovers(seen) if one.reason in _TRANSIENT}


async def _moved(session: ZooKeeperSession, seen: Survey, before: TopicNames) -> set[str]:
    """Return the topics that were created, deleted or marked since reading began. Among those with findings, add the
    ones that changed after ZooKeeper was read, such as by a moved replica or an added partition."""
    tree = seen.zookeeper
    suspected = {found.topic for found in leftovers(seen)} & tree.topics.keys()
    again, after = await read_tree(session, suspected)
    changed = {name for name in suspected if _shape(again.topics.get(name)) != _shape(tree.topics[name])}
    planned = {partition.topic for partition in again.reassigning.keys() ^ tree.reassigning.keys()}
    return after.moved_since(before) | set(before.topics).difference(tree.topics) | changed | planned


def _shape(topic: TopicTree | None) -> object:
    """Return what findings depend on; leaders, which change all the time, are left out."""
    if topic is None:
        return None
    states = {number: state is not None for number, state in topic.states.items()}
    return topic.topic_id, topic.assignments, topic.partition_znodes, states


async def _read_all(log_dirs: Mapping[int, Sequence[Path]], topics: Collection[str] | None) -> list[LogDirView]:
    limit = asyncio.Semaphore(MAX_AT_ONCE)

    async def read(broker: int, path: Path) -> LogDirView:
        async with limit:
            return await asyncio.to_thread(read_log_dir, BrokerId(broker), path, topics)

    async with asyncio.TaskGroup() as tasks:
        readings = [
            tasks.create_task(read(broker, path), name=f"survey-disk-{broker}")
            for broker, listed in sorted(log_dirs.items())
            for path in listed
        ]
    return [reading.result() for reading in readings]


def _all_log_dirs(local: Sequence[LogDirView], answers: Sequence[BrokerAnswers]) -> tuple[LogDirView, ...]:
    """Return the local log directories with the brokers' answers about them, and the brokers' descriptions of the
    others."""
    told = [view for answer in answers for view in answer.log_dirs or ()]
    return tuple(sorted(with_answers(local, told), key=lambda view: (view.broker, view.path)))


def _read_locally(
    views: Sequence[LogDirView], cluster_id: str | None, topics: Collection[str] | None
) -> tuple[LogDirView, ...]:
    """Return the views, with log directories of this machine read locally: brokers describe neither quarantined nor
    renamed directories. The broker's description stays for a failed directory, and for one that this user cannot
    read."""
    seen = []
    named = {(view.broker, os.path.realpath(view.path)) for view in views if view.source is LogDirSource.LOCAL}
    for view in views:
        path = Path(view.path)
        if view.source is LogDirSource.BROKER and view.problem is None and is_owned_by(path, view.broker, cluster_id):
            if (view.broker, os.path.realpath(path)) in named:
                continue  # it was named under another path, and is seen already
            local = read_log_dir(view.broker, path, topics)
            view = view if local.problem else local
        seen.append(view)
    return tuple(seen)
