"""Which marked topics are kept, as far as is known: their records matter as those of other topics.

A marked topic may stay in service for good: it is to go into the trash and does not fit, or its marker is not
understood.

    the first that applies                                    the topic is
    --------------------------------------------------------  ---------------------------------------------
    its marker says that its deletion has begun               ENDING
    deletions are paused                                      KEPT
    Kafka's controller is active                              ENDING: it knows neither orders nor the trash
    Lethe's controller answers that it holds the topic        KEPT
    Lethe's controller answers that it deletes the topic      ENDING
    its marker orders a grace period, is not understood, or   KEPT
      names another topic; or the trash has it as freezing
    anything else                                             UNKNOWN

An ordinary marker tells nothing: the controller's properties file may have rules for it, which ZooKeeper does not show.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controller_identity import ControllerIdentity
from lethe.admin.deletion_requests import deletions_paused
from lethe.admin.trash import TrashView
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, Exists, GetData, Present
from lethe.protocol.zookeeper.znodes import DeletionOrders, TrashPhase, decode_deletion_marker
from lethe.survey.evidence import ControllerReport, ReportedTopic

HELD: Final = "held"
"""The phase of a topic, in the answer of Lethe's controller, that is in service."""
AskController = Callable[[ZooKeeperSession], Awaitable[ControllerReport]]
"""Asks Lethe's controller about all marked topics."""


class MarkedFate(enum.Enum):
    """What becomes of a marked topic."""

    ENDING = "ending"
    """It is deleted, and nothing brings it back."""
    KEPT = "kept"
    """It is in service."""
    UNKNOWN = "unknown"


class _Marked(NamedTuple):
    """What ZooKeeper has of a marked topic; `orders` is None where its marker could not be read."""

    orders: DeletionOrders | None
    czxid: int | None
    is_freezing: bool

    @property
    def has_begun(self) -> bool:
        return self.orders is not None and self.czxid is not None and self.orders.begun == self.czxid

    @property
    def keeps(self) -> bool:
        """The marker, or the trash, says that the topic is not simply deleted."""
        orders = self.orders
        if orders is None:
            return self.is_freezing
        names_another = orders.topic_czxid not in (None, self.czxid)
        return self.is_freezing or bool(orders.grace_ms) or orders.problem is not None or names_another


async def fates_of(
    session: ZooKeeperSession,
    names: Sequence[str],
    acting: ControllerIdentity,
    trash: Sequence[TrashView],
    ask: AskController | None,
) -> dict[str, MarkedFate]:
    """Return what becomes of each of these marked topics. `ask`: None asks no controller."""
    if not names:
        return {}
    is_paused = await deletions_paused(session) is not None
    freezing = {view.name for view in trash if view.entry is not None and view.entry.phase is TrashPhase.FREEZING}
    outcomes = await session.read(
        [r for name in names for r in (GetData(paths.delete_topic(name)), Exists(paths.topic(name)))]
    )
    found = {
        name: _Marked(
            decode_deletion_marker(marker.data) if isinstance(marker, Data) else None,
            topic.stat.czxid if isinstance(topic, Present) else None,
            name in freezing,
        )
        for name, marker, topic in zip(names, outcomes[::2], outcomes[1::2], strict=True)
    }
    told: Mapping[str, ReportedTopic] = {}
    if ask is not None and acting.is_lethe and not is_paused and not all(each.has_begun for each in found.values()):
        told = (await ask(session)).topics
    return {name: _fate(each, acting, told.get(name), is_paused=is_paused) for name, each in found.items()}


def _fate(
    marked: _Marked, acting: ControllerIdentity, reported: ReportedTopic | None, *, is_paused: bool
) -> MarkedFate:
    if marked.has_begun:
        return MarkedFate.ENDING
    if is_paused:
        return MarkedFate.KEPT
    if acting.is_kafka:
        return MarkedFate.ENDING
    if reported is not None and reported.phase is not None:
        return MarkedFate.KEPT if reported.phase == HELD else MarkedFate.ENDING
    return MarkedFate.KEPT if marked.keeps else MarkedFate.UNKNOWN
