"""Metadata caches that show what is not there, and how controllers read caches.

Brokers of Kafka keep a topic in their cache whose tombstone never came to them: a controller of Kafka's lost the
connection, and another one followed that knows nothing of the topic. Here such a controller has been at work for a
moment: the cache has what it said, and whoever had control has lost it.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from lethe.controller.core.cluster_state import NO_TERM
from lethe.controller.core.effects import ReadCache
from lethe.controller.core.events import CacheRead
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.control import UpdateMetadataPartition, UpdateMetadataRequest, UpdateMetadataTopic
from lethe.protocol.vocabulary import NO_BROKER, BrokerId, TopicId

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess

P_GHOSTS = 0.4
NEVER_THERE = "ghost"
FIRST_FOREIGN = 40
"""No topic here has so many partitions."""


class Ghosts:
    """Plants ghosts in some runs, at times of their own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        # A chance of its own, so that the other seeds run as they did before there was such a thing.
        self._random = Random(f"ghosts {cluster.world.seed}")

    def schedule(self) -> None:
        """Decide when it is to happen, if at all."""
        if self._random.random() < P_GHOSTS:
            for _ in range(self._random.randint(1, 3)):
                at_ms = self._random.randint(self._cluster.mix.chaos_ms // 4, self._cluster.mix.chaos_ms)
                self._world.after(at_ms, self._plant)

    def _plant(self) -> None:
        agents = [agent for agent in self._cluster.agents.values() if self._cluster.was_told(agent)]
        if not agents:
            return
        victim = self._random.choice(agents)
        name, topic_id, numbers = self._chosen()
        self._world.note(victim.name, f"is left with a ghost of {name}: {numbers}")
        self.tell(victim, name, topic_id, numbers)
        if topic_id is not None:
            # The controller that removed the topic has had this broker drop it, and may tell it of the next topic of
            # the name in the same term: it cannot see the ghost.
            self._cluster.ledger.by_id[topic_id].removed_in = None
        for controller in self._cluster.controllers:
            if controller.context.holds_controller:
                self._cluster.restart_later(controller)

    def _chosen(self) -> tuple[str, TopicId | None, list[int]]:
        """A topic that is no more, one that never was, or partitions that a living one has not."""
        ledger = self._cluster.ledger
        count = self._random.randint(1, 3)
        living = [each for each in ledger.living.values() if each.readable and not each.asked and each.states]
        gone = [each for each in ledger.all if each.removed_by is not None and each.name not in ledger.living]
        kind = self._random.randint(0, 2)
        if kind == 0 and living:
            chosen = self._random.choice(living)
            return chosen.name, chosen.topic_id, list(range(FIRST_FOREIGN, FIRST_FOREIGN + count))
        if kind == 1 and gone:
            chosen = self._random.choice(gone)
            return chosen.name, chosen.topic_id, list(range(count))
        return NEVER_THERE, None, list(range(count))

    def tell(self, victim: AgentProcess, name: str, topic_id: TopicId | None, numbers: list[int]) -> None:
        """Have the cache show these partitions, as told by a controller whose term is none of this run."""
        cache, me = victim.state.cache, (int(victim.id),)
        rows = tuple(UpdateMetadataPartition(n, 1, int(victim.id), 0, me, 0, me) for n in numbers)
        cache.apply(
            UpdateMetadataRequest(
                NO_BROKER if cache.controller_id is None else BrokerId(cache.controller_id),
                NO_TERM,
                (UpdateMetadataTopic(name, topic_id, rows),),
                tuple(cache.brokers.values()),
            )
        )


class CacheReading:
    """One `ReadCache` on its way, over a connection of its own: it may fail, or be answered late."""

    def __init__(self, cluster: Cluster, owner: ControllerProcess, effect: ReadCache, run: int) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._owner = owner
        self._effect = effect
        self._run = run
        self._is_over = False

    def start(self) -> None:
        """Ask; whatever happens, one answer follows."""
        mix, world = self._cluster.mix, self._world
        world.after(mix.request_timeout_ms, lambda: self._end(None, "no answer in time"))
        if not world.chance(mix.p_request_lost):
            world.after(world.between(*mix.network_ms), self._arrive)

    def _arrive(self) -> None:
        effect, mix = self._effect, self._cluster.mix
        agent = self._cluster.agents.get(effect.broker)
        if agent is None or not agent.is_listening or self._cluster.link(self._owner.id, effect.broker).is_cut:
            self._end(None, "cannot connect")
            return
        cache = agent.state.cache
        shown = {
            name: CachedTopic(cache.topic_ids.get(name), tuple(sorted(rows)))
            for name, rows in cache.topics.items()
            if effect.topics is None or name in effect.topics
        }
        if not self._world.chance(mix.p_answer_lost):
            self._world.after(self._world.between(*mix.network_ms), lambda: self._end(shown, None))

    def _end(self, shown: dict[str, CachedTopic] | None, problem: str | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._owner.hear(CacheRead(self._effect.id, self._effect.broker, shown, problem), self._run)
