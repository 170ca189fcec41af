"""Looks at what is stuck and why, from outside: before control is taken, and before it is handed back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from lethe.adapters.kafka.missing_rights import GRANT_COMMANDS, answer_words
from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.broker_loads import look_at_brokers
from lethe.admin.debt_forecast import forecast
from lethe.admin.forgetting import SHOWN, demand_absent, plan_of
from lethe.admin.marked_topics import MarkedFate
from lethe.admin.rescue_ghosts import MUTE, CacheReport, compare
from lethe.admin.rescue_plan import is_to_be_deleted, is_without_trace
from lethe.admin.topic_znodes import ActiveController, NoCluster, active_controller, list_topics
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted, listed
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.znodes import MalformedZnode, decode_controller_epoch
from lethe.survey.broker_settings import BrokerSettings, read_settings
from lethe.survey.brokers import MAX_AT_ONCE_BRIEFLY, ask_all
from lethe.survey.causes import ObservedCause, protection_cause
from lethe.survey.evidence import ControllerReport, DeletionHolds, Evidence, ProtectedTopics
from lethe.survey.examine import evidence_asker, gather_evidence, read_holds
from lethe.survey.explain import Explanation, explain_all
from lethe.survey.similar import similar_names
from lethe.survey.views import BrokerResponse
from lethe.survey.znodes import ZnodeUnreadable, read_data

ASKING_ID: Final = BrokerId(1000)
"""Controller id for the question whether brokers would obey; nothing is controlled with it."""
MANY_TURNS: Final = 3
"""So many elections within seconds are no coincidence."""


class ElectionRate(NamedTuple):
    """Number of elections, and in how long a time. `elections` is None where `/controller_epoch` is unseen."""

    elections: int | None
    within_ms: int

    @property
    def are_too_many(self) -> bool:
        """True if controllers fail one after the other soon after their election."""
        return self.elections is not None and self.elections >= MANY_TURNS

    def __str__(self) -> str:
        if self.elections is None:
            return f"unknown, because {paths.CONTROLLER_EPOCH} cannot be read or understood"
        return f"{counted(self.elections, 'time')} in {self.within_ms / 1000:.1f} s"


@dataclass(frozen=True, slots=True)
class RescueSnapshot:
    """One look at the cluster."""

    evidence: Evidence
    found: tuple[Explanation, ...]
    """Explanations of the topics in question, in order; of all marked topics where none was named."""
    holder: ActiveController | None
    settings: tuple[BrokerSettings, ...]
    """Settings of the registered brokers."""
    zombies: tuple[TopicPartition, ...]
    """Partitions in `/admin/reassign_partitions` whose topic does not exist."""
    election_rate: ElectionRate
    caches: CacheReport = field(default_factory=CacheReport)
    """Caches of the registered brokers, where they were compared."""
    similar: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Similar names, for topics in question without a trace."""
    will_owe: tuple[str, ...] = ()
    """With --owe: what absent brokers will owe, as texts."""
    will_lose: tuple[str, ...] = ()
    """With --forget: what giving the broker up means, as texts."""
    named_by: tuple[str, ...] = ()
    """The same: marked topics with replicas on it."""

    @property
    def disabled_on(self) -> tuple[BrokerId, ...]:
        """Brokers that would drop deletion markers as the controller."""
        return tuple(each.broker for each in self.settings if each.deletes_topics is False)

    @property
    def disabled_in_zookeeper(self) -> str | None:
        """The znode that disables deletion dynamically, which the rescue obeys."""
        setting = self.evidence.holds.delete_topic_enable
        return setting.path if setting is not None and not setting.value else None

    @property
    def is_paused(self) -> bool:
        """True if deletions are paused, which Kafka's controllers ignore."""
        return self.evidence.holds.paused is not None

    @property
    def unreadable(self) -> ObservedCause | None:
        """The cause for which a controller that takes over would delete nothing: the configuration is unreadable."""
        causes = (cause for each in self.found for cause in each.causes)
        return next((cause for cause in causes if cause.kind is CauseKind.CONFIGURATION_UNREAD), None)

    @property
    def beyond_command(self) -> tuple[str, ...]:
        """Registered brokers that the rescue's controller could not command, and why, as texts. Silent brokers are left
        out: they may be the reason for the rescue."""
        closed = tuple(f"broker {each.broker}: {each.refusal}" for each in self.settings if each.refusal is not None)
        refusing = tuple(
            f"broker {each.broker}: {answer_words(each.command_error, each.principal, GRANT_COMMANDS)}"
            + (f" (its authorizer is {each.authorizer})" if each.authorizer else "")
            for each in self.settings
            if each.command_error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
        return closed + refusing

    @property
    def holder_is_lethe(self) -> bool:
        return self.holder is not None and self.holder.znode.admin is not None

    @property
    def holder_response(self) -> BrokerResponse:
        """Whether the active controller answers as a broker."""
        if self.holder is None:
            return BrokerResponse(None, "there is none")
        return self.evidence.survey.response_of(self.holder.znode.broker_id)

    @property
    def known_ids(self) -> frozenset[int]:
        """All broker ids that are registered, hold control, or have a replica of a topic in question."""
        tree = self.evidence.survey.zookeeper
        ids = {int(broker.id) for broker in tree.brokers}
        if self.holder is not None:
            ids.add(int(self.holder.znode.broker_id))
        for topic in tree.topics.values():
            for assignment in (topic.assignments or {}).values():
                ids.update(map(int, assignment.replicas))
        return frozenset(ids)


async def look(
    session: ZooKeeperSession,
    reach: BrokerReach,
    topics: Sequence[str] | None,
    timeout_ms: int,
    reported: ControllerReport | None = None,
) -> RescueSnapshot:
    """Return the state of these topics, or (None) of all marked ones. Raises NoCluster and SessionLost."""
    began_s, epoch = time.monotonic(), await epoch_now(session)
    listed = await list_topics(session)
    evidence = await gather_evidence(session, topics, evidence_asker(reach, timeout_ms), reported=reported)
    tree = evidence.survey.zookeeper
    if not tree.brokers and not listed.names:
        raise NoCluster("ZooKeeper has neither brokers nor topics here: is the chroot the one of zookeeper.connect?")
    settings = await ask_all(
        tree.brokers, lambda broker: read_settings(broker, reach, timeout_ms, ASKING_ID), at_once=MAX_AT_ONCE_BRIEFLY
    )
    there = frozenset(listed.names)
    zombies = tuple(sorted(partition for partition in tree.reassigning if partition.topic not in there))
    elections = elections_between(epoch, await epoch_now(session))
    election_rate = ElectionRate(elections, int((time.monotonic() - began_s) * 1000))
    seen = RescueSnapshot(evidence, (), await active_controller(session), tuple(settings), zombies, election_rate)
    seen = replace(seen, evidence=with_broker_settings(seen))
    return replace(seen, found=explain_all(seen.evidence))


async def with_caches(
    session: ZooKeeperSession, reach: BrokerReach, seen: RescueSnapshot, topics: Collection[str], timeout_ms: int
) -> RescueSnapshot:
    """Add the metadata caches; with `topics`, only the part about these. Raises SessionLost."""
    found = await compare(session, reach, [a for a in seen.evidence.survey.answers if a.failure in MUTE], timeout_ms)
    return replace(seen, caches=found.of(topics) if topics else found)


async def with_configuration(session: ZooKeeperSession, seen: RescueSnapshot, guest: BrokerId) -> RescueSnapshot:
    """Add, to each topic that is to be deleted, the cause that a controller with the id `guest` protects it, or cannot
    read its configuration, if it is so. Kafka's controller does not read that znode. Raises SessionLost."""
    holds = await read_holds(session, guest)
    found = (_with_cause(each, _cause(holds, each.topic)) if is_to_be_deleted(each) else each for each in seen.found)
    return replace(seen, found=tuple(found))


def _cause(holds: DeletionHolds, topic: str) -> ObservedCause | None:
    if (unreadable := holds.unreadable) is not None:
        return ObservedCause(CauseKind.CONFIGURATION_UNREAD, path=unreadable.path, detail=unreadable.why)
    return protection_cause(topic, holds.protected or ProtectedTopics(()))


def _with_cause(found: Explanation, cause: ObservedCause | None) -> Explanation:
    if cause is None:
        return found
    return replace(found, causes=(cause, *(each for each in found.causes if each.kind is not cause.kind)))


async def with_owing(
    session: ZooKeeperSession, reach: BrokerReach, seen: RescueSnapshot, timeout_ms: int
) -> RescueSnapshot:
    """Take from the topics the cause that an absent broker is waited for, and add what it will owe. Raises
    SessionLost."""
    wanted = [each.topic for each in seen.found if is_to_be_deleted(each)]
    expected = await forecast(session, wanted, evidence_asker(reach, timeout_ms)) if wanted else None
    found = (
        replace(each, causes=tuple(cause for cause in each.causes if cause.kind is not CauseKind.BROKER_TO_RETURN))
        for each in seen.found
    )
    return replace(seen, found=tuple(found), will_owe=() if expected is None else expected.lines())


async def with_forgetting(session: ZooKeeperSession, seen: RescueSnapshot, broker: int) -> RescueSnapshot:
    """Add what giving the broker up means, and take the cause that it is waited for from the topics. Raises Refusal
    where it is registered, or nothing names it."""
    loads = await look_at_brokers(session, ask=None)
    demand_absent(loads, broker)
    found = (
        replace(
            each,
            causes=tuple(
                cause
                for cause in each.causes
                if not (cause.kind is CauseKind.BROKER_TO_RETURN and cause.broker == broker)
            ),
        )
        for each in seen.found
    )
    # A rescue has no rules that keep topics: it is told which ones to delete.
    rescued = {each.topic for each in seen.found if is_to_be_deleted(each)}
    ending = {
        name: MarkedFate.ENDING if fate is MarkedFate.UNKNOWN and name in rescued else fate
        for name, fate in loads.fates.items()
    }
    plan = plan_of(replace(loads, fates=ending), broker)
    named_by = plan.marked
    plan = replace(
        plan,
        marked=tuple(name for name in plan.marked if name in rescued),
        held=tuple(name for name in plan.held if name in rescued),
    )
    alone = [name for name in named_by if name not in rescued]
    lines = [f"Left alone, though they wait for broker {broker} too: {listed(alone, SHOWN)}."] if alone else []
    return replace(seen, found=tuple(found), will_lose=(*plan.lines(), *lines), named_by=named_by)


async def with_similar(
    session: ZooKeeperSession, reach: BrokerReach, seen: RescueSnapshot, timeout_ms: int
) -> RescueSnapshot:
    """Add similar names for topics without a trace. Raises SessionLost."""
    survey, ask = seen.evidence.survey, evidence_asker(reach, timeout_ms)
    missing = [each.topic for each in seen.found if is_without_trace(each)]
    return replace(seen, similar={name: await similar_names(session, name, survey, ask) for name in missing})


async def turns_within(session: ZooKeeperSession, limit_ms: int) -> ElectionRate:
    """Count the elections until `limit_ms` has passed or there are too many."""
    began_s, before = time.monotonic(), await epoch_now(session)
    while True:
        elapsed_ms = int((time.monotonic() - began_s) * 1000)
        election_rate = ElectionRate(elections_between(before, await epoch_now(session)), elapsed_ms)
        if elapsed_ms >= limit_ms or election_rate.are_too_many:
            return election_rate
        await asyncio.sleep(0.1)


async def epoch_now(session: ZooKeeperSession) -> int | None:
    """Return the controller epoch, which every election raises; 0 where none was held yet, None where it is unseen."""
    try:
        data = await read_data(session, paths.CONTROLLER_EPOCH)
        return 0 if data is None else int(decode_controller_epoch(data.data))
    except (MalformedZnode, ZnodeUnreadable):
        return None


def elections_between(before: int | None, after: int | None) -> int | None:
    """Return the number of elections between two epochs; None where one of them is unseen."""
    return None if before is None or after is None else max(0, after - before)


def with_broker_settings(seen: RescueSnapshot) -> Evidence:
    """Add the brokers' own `delete.topic.enable`, unless ZooKeeper overrides it or a Lethe controller has answered."""
    evidence, disabled = seen.evidence, seen.disabled_on
    if not disabled or evidence.holds.delete_topic_enable is not None or evidence.reported.is_known:
        return evidence
    return replace(evidence, holds=replace(evidence.holds, disabled_on=disabled))
