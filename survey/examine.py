"""Gathers evidence about a few topics, or about all marked ones, without reading the others.

It reads ZooKeeper's lists, then the topics' trees, then brokers and this machine's disks at once, each with a time
limit. No znode tells which brokers had the replicas of a deleted topic. So the other topics' assignments are read as
well: they name unregistered brokers, which may still have replicas. Each of these topics that cannot be read is a
problem, so the evidence is incomplete. The caller asks the controller and passes its
answer (`reported`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.deletion_grace import DELETION_GRACE, parse_grace
from lethe.protocol.kafka.config_values import parse_boolean
from lethe.protocol.topic_globs import PROTECTED_TOPICS, parse_globs
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, Exists, GetData, Present, ReadOutcome
from lethe.protocol.zookeeper.znodes import (
    MalformedZnode,
    decode_config,
    decode_deletion_marker,
    decode_deletions_paused,
)
from lethe.survey.brokers import MAX_AT_ONCE_BRIEFLY, AskAbout, QueryScope, ask_all, broker_asker
from lethe.survey.directories import is_owned_by, read_log_dir, with_answers
from lethe.survey.evidence import (
    ControllerReport,
    DeletionHolds,
    DynamicSetting,
    Evidence,
    ProtectedTopics,
    UnreadableSetting,
)
from lethe.survey.views import LogDirSource, LogDirView, Survey, ZooKeeperTree
from lethe.survey.znodes import ZnodeUnreadable, data_of
from lethe.survey.zookeeper import read_hosts, read_names, read_tree

DELETE_TOPIC_ENABLE: Final = "delete.topic.enable"
REMOTE_STORAGE_ENABLE: Final = "remote.storage.enable"


def evidence_asker(reach: BrokerReach, timeout_ms: int) -> AskAbout:
    """Return a function that asks each broker for at most about twice `timeout_ms`."""
    return lambda scope: broker_asker(
        reach, connect_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms, topics=scope.topics
    )


async def gather_evidence(
    session: ZooKeeperSession,
    topics: Sequence[str] | None,
    ask: AskAbout,
    *,
    reported: ControllerReport | None = None,
    log_dirs: Mapping[int, Sequence[Path]] | None = None,
) -> Evidence:
    """Return the evidence about these topics; None means all marked ones. `log_dirs` are directories of this machine by
    owning broker, which may be down; those of live brokers are found. Raises SessionLost only."""
    began = time.monotonic()
    taken_at_ms = time.time_ns() // 1_000_000
    if topics is None:
        topics = (await read_names(session)).marked
    wanted = frozenset(topics)
    tree, before = await read_tree(session, wanted)
    all_marked = frozenset(tree.marked)
    if any(name not in tree.topics and name not in all_marked for name in topics):
        others = [name for name in before.topics if name not in wanted]
        hosts, unread = await read_hosts(session, others)
        tree = replace(tree, other_hosts=hosts, problems=(*tree.problems, *unread))
    marked = tuple(name for name in topics if name in all_marked)
    marked_since, changed_at = await _times(session, marked, tree)
    ordered = await _ordered(session, marked, tree)
    tiered = await _tiered(session, marked)
    holds = await read_holds(session, None if tree.controller is None else tree.controller.broker_id)
    answers = tuple(await ask_all(tree.brokers, ask(QueryScope(wanted)), at_once=MAX_AT_ONCE_BRIEFLY))
    told_dirs = [view for each in answers for view in each.log_dirs or ()]
    views = await asyncio.to_thread(_disks, told_dirs, log_dirs or {}, tree.cluster_id, wanted)
    moved = ((await read_names(session)).moved_since(before)) & wanted
    survey = Survey(taken_at_ms, int((time.monotonic() - began) * 1000), tree, answers, views, tuple(sorted(moved)))
    report = reported or ControllerReport(problem="it was not asked")
    return Evidence(survey, tuple(topics), marked_since, changed_at, holds, report, ordered, tiered)


async def _times(
    session: ZooKeeperSession, marked: Sequence[str], tree: ZooKeeperTree
) -> tuple[dict[str, int], dict[str, int]]:
    """Return when each marker was created, and when each topic's znode was last written."""
    names = tuple(tree.topics)
    outcomes = await session.read(
        [*(Exists(paths.delete_topic(name)) for name in marked), *(Exists(paths.topic(name)) for name in names)]
    )
    since = {
        name: found.created_at_ms
        for name, found in zip(marked, outcomes, strict=False)
        if isinstance(found, Present) and found.created_at_ms
    }
    changed = {
        name: found.modified_at_ms
        for name, found in zip(names, outcomes[len(marked) :], strict=True)
        if isinstance(found, Present) and found.modified_at_ms
    }
    return since, changed


async def _ordered(session: ZooKeeperSession, marked: Sequence[str], tree: ZooKeeperTree) -> frozenset[str]:
    """Return the marked topics with an unreadable znode whose marker orders their deletion anyway."""
    unclear = [name for name in marked if name in tree.topics and tree.topics[name].assignments is None]
    outcomes = await session.read([GetData(paths.delete_topic(name)) for name in unclear]) if unclear else ()
    return frozenset(
        name
        for name, found in zip(unclear, outcomes, strict=True)
        if isinstance(found, Data) and decode_deletion_marker(found.data).unreadable
    )


async def _tiered(session: ZooKeeperSession, marked: Sequence[str]) -> dict[str, bool | None]:
    """Return whether each marked topic may have segments in remote storage; None if its configuration does not tell."""
    outcomes = await session.read([GetData(paths.config_topic(name)) for name in marked]) if marked else ()
    return {name: _is_tiered(paths.config_topic(name), found) for name, found in zip(marked, outcomes, strict=True)}


def _is_tiered(path: str, outcome: ReadOutcome) -> bool | None:
    try:
        data = data_of(outcome, path)
        return data is not None and parse_boolean(decode_config(path, data.data).get(REMOTE_STORAGE_ENABLE, "false"))
    except (MalformedZnode, ZnodeUnreadable):
        return None


async def read_holds(session: ZooKeeperSession, controller: int | None) -> DeletionHolds:
    """Return the pause, `delete.topic.enable` and the protected topics as the controller applies them: its own dynamic
    configuration comes first."""
    configured = [paths.config_broker_default()]
    if controller is not None:
        configured.insert(0, paths.config_broker(controller))
    paused, exists, *configs = await session.read(
        [
            GetData(paths.deletions_paused()),
            Exists(paths.deletions_paused()),
            *(GetData(path) for path in configured),
        ]
    )
    pause = None
    if isinstance(paused, Data):
        pause = decode_deletions_paused(paused.data)
        if pause.since_ms is None and isinstance(exists, Present) and exists.modified_at_ms:
            pause = type(pause)(exists.modified_at_ms, pause.reason)
    merged: dict[str, DynamicText] = {}
    # A controller applies neither znode where one of them is unreadable. The first one takes precedence.
    for path, found in reversed([*zip(configured, configs, strict=True)]):
        settings = _settings(path, found)
        if isinstance(settings, UnreadableSetting):
            return DeletionHolds(pause, unreadable=settings)
        merged |= settings
    enabled, protected = _enabled(merged.get(DELETE_TOPIC_ENABLE)), _protected(merged.get(PROTECTED_TOPICS))
    for setting in (enabled, protected, _grace_problem(merged.get(DELETION_GRACE))):
        if isinstance(setting, UnreadableSetting):
            return DeletionHolds(pause, unreadable=setting)
    assert not isinstance(enabled, UnreadableSetting)
    assert not isinstance(protected, UnreadableSetting)
    return DeletionHolds(pause, enabled, protected=protected)


class DynamicText(NamedTuple):
    """The text of a dynamic setting, and its znode."""

    text: str
    path: str


def _settings(path: str, outcome: ReadOutcome) -> dict[str, DynamicText] | UnreadableSetting:
    """Return the settings of the znode."""
    try:
        data = data_of(outcome, path)
        config = {} if data is None else decode_config(path, data.data)
    except (MalformedZnode, ZnodeUnreadable) as unread:
        return UnreadableSetting(path, unread.reason)
    return {name: DynamicText(text, path) for name, text in config.items()}


def _enabled(found: DynamicText | None) -> DynamicSetting | UnreadableSetting | None:
    if found is None:
        return None
    value = parse_boolean(found.text)
    if value is None:
        return UnreadableSetting(found.path, f"{DELETE_TOPIC_ENABLE}: {found.text[:60]!r} is neither true nor false")
    return DynamicSetting(value, found.path)


def _protected(found: DynamicText | None) -> ProtectedTopics | UnreadableSetting | None:
    if found is None:
        return None
    patterns = parse_globs(found.text)
    if isinstance(patterns, str):
        return UnreadableSetting(found.path, f"{PROTECTED_TOPICS}: {patterns[:60]!r} matches no topic")
    return ProtectedTopics(patterns, found.path)


def _grace_problem(found: DynamicText | None) -> UnreadableSetting | None:
    rules = () if found is None else parse_grace(found.text)
    if found is None or not isinstance(rules, str):
        return None
    return UnreadableSetting(found.path, f"{DELETION_GRACE}: {rules[:60]!r} is not a pattern and a duration")


def _disks(
    told: Sequence[LogDirView],
    given: Mapping[int, Sequence[Path]],
    cluster_id: str | None,
    wanted: Collection[str],
) -> tuple[LogDirView, ...]:
    """Return the log directories as the brokers described them. Those in `given`, and those that are provably of this
    machine, are read locally instead. A failed directory stays failed, even if it can be read."""
    seen = {(BrokerId(broker), str(path)): None for broker, listed in given.items() for path in listed}
    views = []
    for view in with_answers([read_log_dir(broker, Path(path), wanted) for broker, path in seen], told):
        path = Path(view.path)
        if view.source is LogDirSource.BROKER and view.problem is None and is_owned_by(path, view.broker, cluster_id):
            local = read_log_dir(view.broker, path, wanted)
            views.append(view if local.problem else local)
        else:
            views.append(view)
    return tuple(sorted(views, key=lambda view: (view.broker, view.path)))
