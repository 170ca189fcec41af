"""Topics that come and go: created, marked for deletion, made again under the same name, expanded, reassigned.

Some are created or deleted many at once, so that one creation or removal takes several slices.

Agents and Kafka brokers have topics of their own, because an agent serves no fetches. What became of a write whose
answer was lost is not asked: the checker reads it in ZooKeeper's transactions.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession, ZooKeeperUnavailable
from lethe.admin.partition_requests import request_reassignment
from lethe.admin.topic_alteration import CurrentTopicZnodes, TopicChange, change_topics, read_topics
from lethe.admin.topic_changes import expansion_problem
from lethe.admin.topic_plans import TopicPlan
from lethe.admin.topic_znodes import ListedTopics, create_topics, list_topics, mark_for_deletion
from lethe.protocol.vocabulary import TopicId, TopicPartition
from tests.chaos.cluster import AGENT_IDS, KAFKA_IDS, ChaosCluster

AGENT_NAMES: Final = tuple(f"a-{number:02}" for number in range(24))
KAFKA_NAMES: Final = tuple(f"k-{number:02}" for number in range(5))
LEDGER: Final = "ledger"
"""Lives all the time, on the Kafka brokers: its records are compared at the end."""
LEDGER_CONFIG: Final = {"retention.ms": "-1"}
"""A Kafka broker that ends in the middle of a log's recovery takes its newest record for one of 1970 at the next start,
and deletes it by time."""
LEDGER_REPLICAS: Final = ((KAFKA_IDS[0], KAFKA_IDS[1]), (KAFKA_IDS[1], KAFKA_IDS[0]), (KAFKA_IDS[0], KAFKA_IDS[1]))
MOST_PARTITIONS: Final = 6
PAUSE_S: Final = (0.1, 0.7)
BURSTS: Final = (1, 1, 1, 1, 2, 4, 8)
"""Acts without a pause in between."""
MANY: Final = 8
"""Topics that are created, or deleted, at once."""
P_MANY: Final = 0.12
_ACTS: Final = {"delete": 5, "expand": 3, "reassign": 4}
"""Weights of what is done to a topic that exists."""


@dataclass(slots=True)
class Workload:
    """Acts until it is cancelled; at most one topic per name exists. `asked` counts what was asked for."""

    cluster: ChaosCluster
    seed: int
    note: Callable[[str], None] = lambda text: None
    asked: Counter[str] = field(default_factory=Counter)
    listed: ListedTopics = field(default_factory=lambda: ListedTopics((), ()))

    async def prepare(self) -> None:
        """Create the topic of the records."""
        async with self.cluster.local.session() as session:
            await create_topics(session, [TopicPlan(LEDGER, TopicId(uuid.uuid4()), LEDGER_REPLICAS, LEDGER_CONFIG)])

    async def run(self) -> None:
        """Act again and again, in a new session whenever one is lost."""
        source = random.Random(f"workload {self.seed}")
        while True:
            try:
                async with self.cluster.local.session() as session:
                    while not session.lost.is_set():
                        await asyncio.sleep(source.uniform(*PAUSE_S))
                        for _ in range(source.choice(BURSTS)):
                            await self._act(session, source)
            except (SessionLost, ZooKeeperUnavailable, ValueError) as problem:
                self.note(f"workload: {problem}")

    async def _act(self, session: ZooKeeperSession, source: random.Random) -> None:
        self.listed = await list_topics(session)
        if source.random() < P_MANY:
            await self._create_or_delete_many(session, source)
            return
        names, brokers = (AGENT_NAMES, AGENT_IDS) if source.random() < 0.85 else (KAFKA_NAMES, KAFKA_IDS)
        name, act = source.choice(names), source.choices(list(_ACTS), list(_ACTS.values()))[0]
        if name in self.listed.marked:
            return
        match act if name in self.listed.names else "create":
            case "create":
                await self._create(session, [name], brokers, source)
            case "delete":
                await self._delete(session, [name])
            case "expand":
                await self._expand(session, name, brokers, source)
            case _:
                await self._reassign(session, name, brokers, source)

    async def _create_or_delete_many(self, session: ZooKeeperSession, source: random.Random) -> None:
        """Of the agents' topics, so that a deletion leaves most of them."""
        names = [name for name in AGENT_NAMES if name not in self.listed.marked]
        existing = [name for name in names if name in self.listed.names]
        missing = [name for name in names if name not in self.listed.names]
        if len(existing) > len(missing):
            await self._delete(session, source.sample(existing, min(MANY, len(existing))))
        elif missing:
            await self._create(session, source.sample(missing, min(MANY, len(missing))), AGENT_IDS, source)

    async def _create(
        self, session: ZooKeeperSession, names: Sequence[str], brokers: Sequence[int], source: random.Random
    ) -> None:
        plans = [TopicPlan(name, TopicId(uuid.uuid4()), _assignment(brokers, source)) for name in names]
        outcomes = await create_topics(session, plans)
        self.asked["create"] += sum(each.problem is None for each in outcomes)

    async def _delete(self, session: ZooKeeperSession, names: Sequence[str]) -> None:
        outcomes = await mark_for_deletion(session, names)
        self.asked["delete"] += sum(each.problem is None for each in outcomes)

    async def _expand(
        self, session: ZooKeeperSession, name: str, brokers: Sequence[int], source: random.Random
    ) -> None:
        (now,) = await read_topics(session, [name])
        count = len(now.znode.assignments)
        wanted = min(count + source.randint(1, 2), MOST_PARTITIONS)
        drawn = [tuple(source.sample(brokers, len(brokers))) for _ in range(wanted)]

        def plan(current: CurrentTopicZnodes) -> TopicChange:
            problem = expansion_problem(name, current.znode, wanted)
            if problem is not None:
                raise ValueError(problem)
            factor = len(current.znode.assignments[0].replicas)
            return TopicChange(current, {n: drawn[n][:factor] for n in range(len(current.znode.assignments), wanted)})

        try:
            change = plan(now)
        except ValueError:
            return
        changed, _ = await change_topics(session, [change], plan)
        self.asked["expand"] += len(changed)

    async def _reassign(
        self, session: ZooKeeperSession, name: str, brokers: Sequence[int], source: random.Random
    ) -> None:
        (now,) = await read_topics(session, [name])
        targets = {
            TopicPartition(name, number): tuple(source.sample(brokers, len(assignment.replicas)))
            for number, assignment in now.znode.assignments.items()
            if source.random() < 0.6 and not assignment.is_being_reassigned
        }
        if targets:
            outcome = await request_reassignment(session, targets, may_merge=True)
            self.asked["reassign"] += len(targets) if outcome.problem is None else 0


def _assignment(brokers: Sequence[int], source: random.Random) -> tuple[tuple[int, ...], ...]:
    factor = source.randint(1, min(3, len(brokers)))
    return tuple(tuple(source.sample(brokers, factor)) for _ in range(source.randint(1, 4)))
