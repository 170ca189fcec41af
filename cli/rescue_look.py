"""What is stuck and why, looked at from outside before control is taken and once more before it is handed back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from adapters.broker_settings import DELETE_TOPIC_ENABLE, BrokerSettings, ask_settings
from adapters.topic_admin import ActiveController, NoCluster, active_controller, list_topics
from adapters.zookeeper.interface import ZooKeeperSession
from protocol.vocabulary import BrokerId, TopicPartition
from survey.evidence import Evidence, Setting, Told
from survey.examine import asker, examine
from survey.explain import Explanation, explain_all
from survey.views import Failure


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
    listed = await list_topics(session)
    evidence = await examine(session, topics, asker(timeout_ms), told=told)
    tree = evidence.survey.zookeeper
    if not tree.brokers and not listed.names:
        raise NoCluster("ZooKeeper knows neither brokers nor topics here: is the chroot the one of zookeeper.connect?")
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(ask_settings(b, timeout_ms), name=f"settings-{b.id}") for b in tree.brokers]
    settings = tuple(each.result() for each in asked)
    there = frozenset(listed.names)
    zombies = tuple(sorted(partition for partition in tree.reassigning if partition.topic not in there))
    seen = Look(evidence, (), await active_controller(session), settings, zombies)
    seen = replace(seen, evidence=_with_switch(seen))
    return replace(seen, found=explain_all(seen.evidence))


def _with_switch(seen: Look) -> Evidence:
    """With the brokers' own word on `delete.topic.enable`, where nothing in ZooKeeper comes before it and no Lethe
    controller has told."""
    evidence, disabled = seen.evidence, seen.disabled_on
    if not disabled or evidence.holds.delete_topic_enable is not None or evidence.told.is_known:
        return evidence
    where = f"{DELETE_TOPIC_ENABLE} of broker{'s' if len(disabled) > 1 else ''} {', '.join(map(str, disabled))}"
    return replace(evidence, holds=replace(evidence.holds, delete_topic_enable=Setting(False, where)))
