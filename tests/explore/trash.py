"""What must hold of the trash in every state: the rules of `tests.simulation.trash`, restated for the small world.

rule     in this world
-------  --------------------------------------------------------------------------------------------------------
grace    a topic whose marker orders a grace period leaves service only into the trash
in       it goes in from phase FREEZING, with a marker that orders a grace period, in the same multi: its id, in-sync
         replicas, and the settings that it had before retention was switched off
apart    no topic is in the trash and has its znodes
back     it comes back only as itself: by a request, under the same id, from a later leader epoch, and each in-sync
         replica has all its records
settled  the entry goes only when the topic has its settings again, or is gone
due      it leaves the trash for its deletion only after its grace period, or by a request for this id
hidden   while it is in the trash and the active controller has nothing left to do, no live broker shows or serves it
kept     no broker deletes records of a topic that is in the trash, or whose marker orders a grace period (S2)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from lethe.protocol.vocabulary import LeaderAndIsr, TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.znodes import RequestedAction, SavedPartition, TopicRequest, TrashEntry, TrashPhase
from tests.explore.kafka_broker import KafkaBroker
from tests.fakes.zookeeper_model import ZooKeeperModel

SETTINGS: Final[Mapping[str, str]] = {"retention.ms": "600000"}
"""Those of each topic in a world with a trash."""
GRACE_MS: Final = 60_000
_KEPT: Final = (TrashPhase.FREEZING, TrashPhase.TRASHED)


class TrashView(NamedTuple):
    """What ZooKeeper has of the topic besides its znode and its marker."""

    entry: TrashEntry | None = None
    has_grace: bool = False
    """Its marker orders a grace period."""
    request: TopicRequest | None = None
    """The request that is not answered yet."""
    state: LeaderAndIsr | None = None
    settings: Mapping[str, str] | None = None

    @property
    def phase(self) -> TrashPhase | None:
        return None if self.entry is None else self.entry.phase

    @property
    def keeps(self) -> bool:
        """Whether nobody has asked yet that the topic's records go."""
        return self.has_grace or self.phase in _KEPT


class Standing(NamedTuple):
    """The topic's znodes before or after a write."""

    topic_id: TopicId | None
    has_topic: bool
    is_marked: bool
    trash: TrashView


def view_of(model: ZooKeeperModel, topic: str) -> TrashView:
    """Return what ZooKeeper has."""
    entry, marker = model.node(paths.trashed(topic)), model.node(paths.delete_topic(topic))
    request, state = model.node(paths.request(topic)), model.node(paths.partition_state(topic, 0))
    config = model.node(paths.config_topic(topic))
    asked = None if request is None else znodes.decode_topic_request(topic, request.data)
    orders = None if marker is None else znodes.decode_deletion_marker(marker.data)
    return TrashView(
        None if entry is None else znodes.decode_trash(topic, entry.data),
        bool(orders is not None and orders.grace_ms),
        None if asked is None or asked.refused is not None else asked,
        None if state is None else znodes.decode_state(topic, 0, state.data, state.version),
        None if config is None else znodes.decode_config(paths.config_topic(topic), config.data),
    )


def goes_in(before: Standing, after: Standing) -> bool:
    """Return whether a write moves the topic into the trash: its znode goes, its records stay."""
    return after.trash.phase is TrashPhase.TRASHED and before.trash.phase is not TrashPhase.TRASHED


def problem_of(brokers: Iterable[KafkaBroker], before: Standing, after: Standing, *, is_over: bool) -> str | None:
    """Judge a write of a controller. `is_over`: the grace period is over."""
    was, now = before.trash, after.trash
    if now.phase is TrashPhase.TRASHED and after.has_topic and _id_of(now) == after.topic_id:
        return "apart: the topic is in the trash, and has its znodes"
    if goes_in(before, after):
        return _in_problem(before, after)
    if was.has_grace and before.has_topic and not after.has_topic:
        return "grace: the topic leaves service although its marker orders a grace period, and it is not in the trash"
    if was.phase is TrashPhase.TRASHED and now.phase is not TrashPhase.TRASHED:
        return _due_problem(before, after, is_over) if now.entry is None else _back_problem(brokers, before, after)
    if was.entry is not None and now.entry is None and after.has_topic and now.settings != SETTINGS:
        return f"settled: the entry goes while the topic has the settings {dict(now.settings or {})}"
    return None


def _in_problem(before: Standing, after: Standing) -> str | None:
    was, entry = before.trash, after.trash.entry
    assert entry is not None
    saved = entry.partitions.get(0)
    if not was.has_grace:
        return "in: the topic goes into the trash, and no marker orders a grace period"
    if was.phase is not TrashPhase.FREEZING or after.is_marked or entry.topic_id != before.topic_id:
        return "in: the topic goes into the trash without having been frozen, with its marker, or under another id"
    if saved is None or was.state is None or saved != SavedPartition.of(saved.replicas, was.state):
        return f"in: the entry has {saved}, the topic had {was.state}"
    if entry.config != SETTINGS or (after.trash.settings or {}).get("retention.ms") != "-1":
        return f"in: the entry has the settings {entry.config}, the topic {after.trash.settings}"
    return None


def _due_problem(before: Standing, after: Standing, is_over: bool) -> str | None:
    topic_id, request = _id_of(before.trash), before.trash.request
    by_request = request is not None and (request.action, request.topic_id) == (RequestedAction.PURGE, topic_id)
    if not is_over and not by_request:
        return "due: the topic leaves the trash for its deletion, for which it is not due, and which nobody requested"
    if after.topic_id != topic_id or not after.is_marked or after.trash.has_grace:
        return "due: the topic leaves the trash without a marker, or under another id"
    return None


def _back_problem(brokers: Iterable[KafkaBroker], before: Standing, after: Standing) -> str | None:
    was, now = before.trash, after.trash
    topic_id, request, state = _id_of(was), was.request, now.state
    if request is None or request.action is not RequestedAction.UNDELETE:
        return "back: the topic comes back, and nobody requested it"
    if not (topic_id == _id_of(now) == after.topic_id) or after.is_marked or state is None:
        return "back: the topic comes back under another id, with a marker, or without a state"
    if was.entry is None or state.leader_epoch <= was.entry.partitions[0].leader_epoch:
        return "back: the topic comes back under a leader epoch that it had before"
    if state.partition_epoch < was.entry.partitions[0].version:
        return "back: the topic's state begins at a version below what its brokers have seen"
    for broker in brokers:
        if broker.id in state.isr and (broker.log_of != topic_id or not broker.has_records):
            return f"back: the topic comes back, and broker {broker.id}, which has lost its records, is in sync"
    return None


def hidden_problem(brokers: Iterable[KafkaBroker], topic_id: TopicId) -> str | None:
    """Judge brokers while a topic is in the trash, and the active controller has nothing left to do."""
    for broker in brokers:
        serves = broker.hosted is not None and not broker.hosted.is_stopped and broker.hosted.topic_id == topic_id
        if broker.is_up and (serves or broker.shown == topic_id):
            return (
                f"hidden: the topic is in the trash, and broker {broker.id} still {'serves' if serves else 'shows'} it"
            )
    return None


def _id_of(view: TrashView) -> TopicId | None:
    return None if view.entry is None else view.entry.topic_id
