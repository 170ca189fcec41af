"""Looks at the cluster for `lethe doctor`: the survey, the explanation of marked topics, and what neither reads.

A controller takes requests, notifications and markers without topic away within moments. So these count only if they
are the same at the end of the look as at its beginning, at least `SETTLE_S` earlier.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.doctor_znodes import OtherZnodes, PendingZnode, read_others, read_pending
from lethe.admin.rescue_snapshot import (
    ASKING_ID,
    ElectionRate,
    RescueSnapshot,
    elections_between,
    epoch_now,
    with_broker_settings,
)
from lethe.admin.topic_znodes import require_cluster
from lethe.protocol.vocabulary import Broker, BrokerId, ControllerEpoch
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, Exists, GetData
from lethe.survey.broker_settings import BrokerSettings, EpochAnswer, ask_about_epoch, read_settings
from lethe.survey.brokers import MAX_AT_ONCE_BRIEFLY, AskAbout, ask_all, broker_asker
from lethe.survey.evidence import ControllerReport, Evidence
from lethe.survey.examine import gather_evidence
from lethe.survey.take import SETTLE_S, take_survey
from lethe.survey.views import Survey, ZooKeeperTree
from lethe.survey.zookeeper import read_tree

REQUEST_TIMEOUT_MS: Final = 30_000
"""An answer about all topics of a large cluster takes seconds."""


@dataclass(frozen=True, slots=True)
class BrokerQuestions:
    """How brokers are asked. Their failures never raise."""

    reach: BrokerReach
    places: AskAbout
    settings: Callable[[Broker], Awaitable[BrokerSettings]]
    epoch: Callable[[Broker, BrokerId, ControllerEpoch], Awaitable[EpochAnswer]]
    """Whether the broker accepts this epoch, of this controller: agents obey an epoch only from its own."""


def questions(reach: BrokerReach, timeout_ms: int) -> BrokerQuestions:
    """Return questions to real brokers, which connect within `timeout_ms`."""
    return BrokerQuestions(
        reach,
        lambda scope: broker_asker(
            reach,
            connect_timeout_ms=timeout_ms,
            request_timeout_ms=max(timeout_ms, REQUEST_TIMEOUT_MS),
            topics=scope.topics,
        ),
        lambda broker: read_settings(broker, reach, timeout_ms, ASKING_ID),
        lambda broker, controller, epoch: ask_about_epoch(broker, reach, timeout_ms, controller, epoch),
    )


@dataclass(frozen=True, slots=True)
class DoctorView:
    """One look at the cluster."""

    survey: Survey
    again: ZooKeeperTree
    """Suspected topics, read a second time."""
    evidence: Evidence
    """About the marked topics."""
    others: OtherZnodes = field(default_factory=OtherZnodes)
    standing: frozenset[PendingZnode] = frozenset()
    """Requests, notifications and markers that were the same throughout the look."""
    epochs: tuple[EpochAnswer, ...] = ()
    election_rate: ElectionRate = field(default_factory=lambda: ElectionRate(0, 0))
    settings: tuple[BrokerSettings, ...] = ()
    """Of the registered brokers."""
    malformed: frozenset[str] = frozenset()
    """Problems of ZooKeeper that are content which cannot be understood, by path; the others could not be seen."""

    def stood(self, path: str) -> bool:
        """Return True if the znode, or its absence, was the same throughout the look."""
        return any(each.path == path for each in self.standing)


async def examine(
    session: ZooKeeperSession,
    ask: BrokerQuestions,
    suspects: Callable[[ZooKeeperTree], Collection[str]],
    *,
    log_dirs: Mapping[int, Sequence[Path]] | None = None,
    reported: ControllerReport | None = None,
    settle_s: float = SETTLE_S,
) -> DoctorView:
    """Return what was seen. `suspects` are the topics that are read twice. Raises NoCluster where there is no cluster,
    and SessionLost."""
    (ids,) = await session.read([Exists(paths.BROKER_IDS)])
    require_cluster(ids)
    began_s, first, before = time.monotonic(), await read_pending(session), await epoch_now(session)
    survey = await take_survey(
        session, ask.reach, log_dirs=log_dirs, ask=ask.places, read_local_disks=True, settle_s=settle_s
    )
    tree = survey.zookeeper
    evidence = await gather_evidence(session, None, ask.places, reported=reported, log_dirs=log_dirs)
    settings = tuple(await ask_all(tree.brokers, ask.settings, at_once=MAX_AT_ONCE_BRIEFLY))
    others = await read_others(session, tuple(tree.topics), tree.marked)
    epochs = await _epochs(session, ask, tree)
    await asyncio.sleep(max(0.0, settle_s - (time.monotonic() - began_s)))
    again, _ = await read_tree(session, suspects(tree))
    standing = first & await read_pending(session)
    elections = elections_between(before, await epoch_now(session))
    rate = ElectionRate(elections, int((time.monotonic() - began_s) * 1000))
    evidence = with_broker_settings(RescueSnapshot(evidence, (), None, settings, (), rate))
    malformed = await _malformed(session, tree, others)
    return DoctorView(survey, again, evidence, others, standing, epochs, rate, settings, malformed)


async def _epochs(session: ZooKeeperSession, ask: BrokerQuestions, tree: ZooKeeperTree) -> tuple[EpochAnswer, ...]:
    """Return whether brokers accept the epoch of ZooKeeper; none are asked where that is not known. Where the epoch
    changes meanwhile, no answer counts."""
    epoch = await epoch_now(session)
    if not epoch:
        return ()
    controller = ASKING_ID if tree.controller is None else tree.controller.broker_id
    answers = await ask_all(
        tree.brokers, lambda broker: ask.epoch(broker, controller, ControllerEpoch(epoch)), at_once=MAX_AT_ONCE_BRIEFLY
    )
    if await epoch_now(session) == epoch:
        return tuple(answers)
    return tuple(each._replace(error=None, problem="control changed hands meanwhile") for each in answers)


async def _malformed(session: ZooKeeperSession, tree: ZooKeeperTree, others: OtherZnodes) -> frozenset[str]:
    """Return the problems whose znode can be read: its content is what cannot be understood."""
    suspected = list(dict.fromkeys(each.where for each in (*tree.problems, *others.problems)))
    outcomes = await session.read(list(map(GetData, suspected))) if suspected else ()
    return frozenset(path for path, found in zip(suspected, outcomes, strict=True) if isinstance(found, Data))
