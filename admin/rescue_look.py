"""What is stuck and why, looked at from outside before control is taken and once more before it is handed back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.rescue_ghosts import MUTE, Caches, compare
from lethe.admin.rescue_plan import is_to_be_deleted, is_without_trace
from lethe.admin.topic_znodes import ActiveController, NoCluster, active_controller, list_topics
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted, plural
from lethe.protocol.vocabulary import BrokerId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData
from lethe.protocol.zookeeper.znodes import MalformedZnode, decode_controller_epoch
from lethe.survey.broker_settings import BrokerSettings, ask_settings
from lethe.survey.brokers import MAX_AT_ONCE_BRIEFLY, ask_all
from lethe.survey.causes import Cause
from lethe.survey.evidence import Evidence, Setting, Told
from lethe.survey.examine import asker, examine, read_holds
from lethe.survey.explain import Explanation, explain_all
from lethe.survey.similar import similar_names
from lethe.survey.views import Failure

FIRST_ID: Final = BrokerId(1000)
"""Under which brokers are asked whether they would obey; nothing is controlled under it."""
MANY_TURNS: Final = 3
"""So many elections within seconds are no coincidence."""


class Turns(NamedTuple):
    """How often control changed hands, in how long a time."""

    elections: int
    within_ms: int

    @property
    def are_too_many(self) -> bool:
        """Controllers fall over what they find, one after the other: every one of them begins and none goes on."""
        return self.elections >= MANY_TURNS

    def __str__(self) -> str:
        return f"{counted(self.elections, 'time')} in {self.within_ms / 1000:.1f} s"


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the cluster."""

    evidence: Evidence
    found: tuple[Explanation, ...]
    """Of the topics that were asked about, in their order; of all marked ones where none was named."""
    holder: ActiveController | None
    settings: tuple[BrokerSettings, ...]
    """Of the registered brokers."""
    zombies: tuple[TopicPartition, ...]
    """What `/admin/reassign_partitions` names although there is no such topic."""
    turns: Turns
    caches: Caches = field(default_factory=Caches)
    """Of the registered brokers, where they were looked at."""
    similar: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of the topics that were asked about and of which there is no trace: names that may have been meant."""

    @property
    def disabled_on(self) -> tuple[BrokerId, ...]:
        """Brokers whose controller would drop deletion markers."""
        return tuple(each.broker for each in self.settings if each.deletes_topics is False)

    @property
    def disabled_in_zookeeper(self) -> str | None:
        """The znode with which deletion was switched off at run time, which this rescue obeys."""
        setting = self.evidence.holds.delete_topic_enable
        return setting.path if setting is not None and not setting.value and setting.path.startswith("/") else None

    @property
    def is_paused(self) -> bool:
        """Deletions are paused, for Lethe's controllers; Kafka's take no notice of that."""
        return self.evidence.holds.paused is not None

    @property
    def unreadable(self) -> Cause | None:
        """Why a controller that takes over could not tell whether topics may be deleted, and would delete none."""
        causes = (cause for each in self.found for cause in each.causes)
        return next((cause for cause in causes if cause.kind is CauseKind.CONFIGURATION_UNREAD), None)

    @property
    def beyond_command(self) -> tuple[str, ...]:
        """Registered brokers that a controller of this rescue could not command, and why, in words. A broker that does
        not answer is not among them: it may be what the rescue is for."""
        spoken = {broker.id for broker in self.evidence.survey.zookeeper.brokers if broker.plaintext_endpoint}
        mute = tuple(
            f"broker {each.broker} has no PLAINTEXT listener" for each in self.settings if each.broker not in spoken
        )
        refusing = tuple(
            f"broker {each.broker} refuses a controller's requests (CLUSTER_AUTHORIZATION_FAILED"
            + (f"; its authorizer is {each.authorizer}" if each.authorizer else "")
            + ")"
            for each in self.settings
            if each.refuses_commands
        )
        return mute + refusing

    @property
    def holder_is_lethe(self) -> bool:
        return self.holder is not None and self.holder.znode.admin is not None

    @property
    def holder_is_silent(self) -> bool:
        """The broker that controls the cluster does not answer."""
        return self.holder is not None and any(
            answer.broker == self.holder.znode.broker_id and answer.failure in (Failure.SILENT, Failure.UNREACHABLE)
            for answer in self.evidence.survey.answers
        )

    @property
    def known_ids(self) -> frozenset[int]:
        """Every broker id that is registered, holds control, or has a replica of what was looked at."""
        tree = self.evidence.survey.zookeeper
        ids = {int(broker.id) for broker in tree.brokers}
        if self.holder is not None:
            ids.add(int(self.holder.znode.broker_id))
        for topic in tree.topics.values():
            for assignment in (topic.assignments or {}).values():
                ids.update(map(int, assignment.replicas))
        return frozenset(ids)


async def look(
    session: ZooKeeperSession, topics: Sequence[str] | None, timeout_ms: int, told: Told | None = None
) -> Look:
    """What there is of these topics, or (None) of all marked ones. Raises NoCluster and SessionLost."""
    began_s, epoch = time.monotonic(), await _epoch(session)
    listed = await list_topics(session)
    evidence = await examine(session, topics, asker(timeout_ms), told=told)
    tree = evidence.survey.zookeeper
    if not tree.brokers and not listed.names:
        raise NoCluster("ZooKeeper knows neither brokers nor topics here: is the chroot the one of zookeeper.connect?")
    settings = await ask_all(
        tree.brokers, lambda broker: ask_settings(broker, timeout_ms, FIRST_ID), at_once=MAX_AT_ONCE_BRIEFLY
    )
    there = frozenset(listed.names)
    zombies = tuple(sorted(partition for partition in tree.reassigning if partition.topic not in there))
    turns = Turns(max(0, await _epoch(session) - epoch), int((time.monotonic() - began_s) * 1000))
    seen = Look(evidence, (), await active_controller(session), tuple(settings), zombies, turns)
    seen = replace(seen, evidence=_with_switch(seen))
    return replace(seen, found=explain_all(seen.evidence))


async def with_caches(session: ZooKeeperSession, seen: Look, topics: Collection[str], timeout_ms: int) -> Look:
    """The same look, and all metadata caches; with topics, what of them concerns these. Raises SessionLost."""
    found = await compare(session, [a for a in seen.evidence.survey.answers if a.failure in MUTE], timeout_ms)
    return replace(seen, caches=found.of(topics) if topics else found)


async def with_configuration(session: ZooKeeperSession, seen: Look, guest: BrokerId) -> Look:
    """The same look, and for each topic that is to be deleted the znode in which a controller with the id `guest`
    cannot read whether topics may be deleted, if there is one. Kafka's controller does not look there. Raises
    SessionLost."""
    unreadable = (await read_holds(session, guest)).unreadable
    if unreadable is None:
        return seen
    cause = Cause(CauseKind.CONFIGURATION_UNREAD, path=unreadable.path, detail=unreadable.why)
    found = (
        replace(each, causes=(cause, *(c for c in each.causes if c.kind is not cause.kind)))
        if is_to_be_deleted(each)
        else each
        for each in seen.found
    )
    return replace(seen, found=tuple(found))


async def with_similar(session: ZooKeeperSession, seen: Look, timeout_ms: int) -> Look:
    """The same look, and what may have been meant by names of which there is no trace. Raises SessionLost."""
    survey, ask = seen.evidence.survey, asker(timeout_ms)
    missing = [each.topic for each in seen.found if is_without_trace(each)]
    return replace(seen, similar={name: await similar_names(session, name, survey, ask) for name in missing})


async def turns_within(session: ZooKeeperSession, limit_ms: int) -> Turns:
    """How often control changes hands in the time to come; it is not waited longer than needed to see that."""
    began_s, before = time.monotonic(), await _epoch(session)
    while True:
        elapsed_ms = int((time.monotonic() - began_s) * 1000)
        turns = Turns(max(0, await _epoch(session) - before), elapsed_ms)
        if elapsed_ms >= limit_ms or turns.are_too_many:
            return turns
        await asyncio.sleep(0.1)


async def _epoch(session: ZooKeeperSession) -> int:
    """Every election raises it; 0 where nothing is known of it."""
    (found,) = await session.read([GetData(paths.CONTROLLER_EPOCH)])
    try:
        return int(decode_controller_epoch(found.data)) if isinstance(found, Data) else 0
    except MalformedZnode:
        return 0


def _with_switch(seen: Look) -> Evidence:
    """With the brokers' own word on `delete.topic.enable`, where nothing in ZooKeeper comes before it and no Lethe
    controller has told."""
    evidence, disabled = seen.evidence, seen.disabled_on
    if not disabled or evidence.holds.delete_topic_enable is not None or evidence.told.is_known:
        return evidence
    where = f"the configuration of {plural(len(disabled), 'broker')} {', '.join(map(str, disabled))}"
    return replace(evidence, holds=replace(evidence.holds, delete_topic_enable=Setting(False, where)))
