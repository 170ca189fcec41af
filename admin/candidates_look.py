"""Reads the current state of candidates, from ZooKeeper and from every broker with a replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.topic_plans import TopicDescription
from lethe.protocol.counting import counted
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import Broker, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Exists
from lethe.survey.brokers import ask_all, broker_asker
from lethe.survey.views import BrokerAnswers, BrokerPlace
from lethe.survey.znodes import ZnodeUnreadable, stat_of


@dataclass(frozen=True, slots=True)
class CurrentTopic:
    """An existing topic. `segment_bytes` is None where the size of a replica is unknown; `unseen` says why."""

    description: TopicDescription
    czxid: int
    created_at_ms: int | None
    segment_bytes: int | None
    unseen: str = ""


class CurrentTopics(NamedTuple):
    """One look at the candidates: the existing ones, those whose existence is unseen with the reason, and the live
    brokers. Candidates in neither mapping do not exist."""

    topics: dict[str, CurrentTopic]
    unseen: dict[str, str]
    brokers: tuple[Broker, ...]


async def look_now(session: ZooKeeperSession, reach: BrokerReach, names: Sequence[str]) -> CurrentTopics:
    """Look at these topics. Each broker is asked once."""
    there = await topic_znodes.list_topics(session)
    stats = await session.read([Exists(paths.topic(name)) for name in names])
    znodes, unread = {}, {}
    for name, outcome in zip(names, stats, strict=True):
        try:
            if (there_now := stat_of(outcome, paths.topic(name))) is not None:
                znodes[name] = there_now
        except ZnodeUnreadable as error:
            unread[name] = str(error)
    described = await topic_znodes.describe(session, [*znodes], there.marked)
    brokers, _ = await topic_znodes.live_brokers(session)
    asked = await ask_all(brokers, broker_asker(reach, topics=frozenset(names)))
    answers = {int(answer.broker): answer for answer in asked}
    found = {}
    for topic in described:
        size, unseen = _size(topic, answers)
        stat = znodes[topic.name]
        found[topic.name] = CurrentTopic(topic, stat.stat.czxid, stat.created_at_ms or None, size, unseen)
    return CurrentTopics(found, unread, brokers)


def _size(topic: TopicDescription, answers: Mapping[int, BrokerAnswers]) -> tuple[int | None, str]:
    """Return the bytes of all replicas; each has to be reported exactly once, by its assigned broker."""
    told: dict[tuple[int, TopicPartition], list[int]] = {}
    for broker, answer in answers.items():
        for log_dir in answer.log_dirs or ():
            for directory in log_dir.directories:
                if directory.topic_partition is None or directory.topic_partition.topic != topic.name:
                    continue
                if directory.kind is not DirectoryKind.REPLICA:
                    return None, f"broker {broker} moves {directory.topic_partition} to another log directory"
                told.setdefault((broker, directory.topic_partition), []).append(directory.size_bytes)
    total = 0
    for description in topic.partitions:
        where = TopicPartition(topic.name, description.partition)
        for broker in description.assignment.replicas:
            sizes = told.pop((broker, where), [])
            if len(sizes) != 1:
                return None, _why(answers, broker, where, len(sizes))
            total += sizes[0]
    for broker, where in told:
        return None, f"broker {broker} has {where}, which is not assigned to it"
    return total, ""


def _why(answers: Mapping[int, BrokerAnswers], broker: int, where: TopicPartition, times: int) -> str:
    if broker not in answers:
        return f"broker {broker} is not registered, and no other broker has the size of its replica of {where}"
    if (unseen := answers[broker].unseen_at(BrokerPlace.LOGS)) is not None:
        return f"broker {broker} did not tell its log directories: {unseen.why}"
    return (
        f"broker {broker} has {where} {counted(times, 'time')}" if times else f"broker {broker} has no log of {where}"
    )
