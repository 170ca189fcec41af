"""Trouble with power: brokers that have seen a higher controller epoch, and a controller that no broker may obey.

Both are drawn from a chance of their own, so that the other seeds run as they did before there was such a thing.

* All agents that are up have seen a higher controller epoch than ZooKeeper says, as after a restored backup. Where most
  registered brokers refuse, the controller heals that by itself; where fewer do, a person restarts them, as the
  controller advises.
* The authorizer of all brokers refuses one controller, from the beginning or from some moment on, for good. Another
  controller has to lead.
"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

from lethe.broker.core.epochs import refusal
from lethe.broker.core.replica import Replica
from lethe.protocol.kafka.control import Addressed
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, Delete
from lethe.protocol.zookeeper.znodes import decode_controller_epoch
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess, Answer
    from tests.simulation.cluster import Cluster

P_EPOCH_SEEN = 0.2
P_REFUSED = 0.2
PATIENCE_MS = 60_000
REGISTERED_LONG_MS = 8_000
"""Longer than any session lasts without its controller: a look before the election saw this registration."""


class Authority:
    """Whom brokers obey."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self.refused: BrokerId | None = None
        """The controller that brokers refuse."""
        self._from_the_beginning = False
        self.has_seen_higher_epoch = False
        """Some brokers may refuse their controller until somebody restarts them."""

    def plan(self) -> None:
        """Draw what is to come."""
        random, chaos_ms = Random(f"authority {self._world.seed}"), self._cluster.mix.chaos_ms
        if random.random() < P_EPOCH_SEEN:
            by = random.choice((1, 2, 10, 1_000, 2_000_000))
            self._world.after(random.randint(chaos_ms // 4, chaos_ms - 1), lambda: self._see_higher_epoch(by))
        if random.random() < P_REFUSED:
            victim = random.choice(self._cluster.controllers).id
            self._from_the_beginning = random.random() < 0.6
            at_ms = 0 if self._from_the_beginning else random.randint(0, chaos_ms - 1)
            self._world.after(at_ms, lambda: self._refuse(victim))

    def _see_higher_epoch(self, by: int) -> None:
        self._world.note("world", f"brokers have seen a controller epoch that is higher by {by}")
        self.has_seen_higher_epoch = True
        for agent in self._cluster.agents.values():
            agent.state.controller_epoch = ControllerEpoch(agent.state.controller_epoch + by)

    def _refuse(self, victim: BrokerId) -> None:
        self._world.note("world", f"the brokers' authorizer refuses controller {victim}")
        self.refused = victim

    # --- what brokers answer ---------------------------------------------------------------------------------------

    def deliver(self, controller: BrokerId, agent: AgentProcess, addressed: Addressed, answer: Answer) -> None:
        """Give the request to the agent, or the authorizer's refusal to whoever asked."""
        if controller == self.refused:
            answer(refusal(addressed.request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        else:
            agent.receive(addressed, answer)

    # --- people ----------------------------------------------------------------------------------------------------

    def advise(self) -> None:
        """Somebody looks after some time, and does what the controller advises: until then deletions are tried again
        and again."""
        self._world.after(PATIENCE_MS, lambda: void(self.restart_few_that_refuse()))

    def restart_few_that_refuse(self) -> bool:
        """Restart the brokers that refuse the epoch in ZooKeeper, if they are half of the registered ones at most."""
        found = self._cluster.ensemble.look(paths.controller_epoch())
        epoch = decode_controller_epoch(found.data) if isinstance(found, Data) else 0
        registered = self._cluster.registered()
        agents = [self._cluster.agents[broker] for broker in registered]
        refusing = [agent for agent in agents if agent.state.controller_epoch > epoch]
        if not refusing or 2 * len(refusing) > len(registered):
            return False
        for agent in refusing:
            self._world.note(agent.name, "is restarted, since it refuses the controller's epoch")
            self._cluster.restart_later(agent, after_ms=1)
        return True

    def move_from_removed_states(self) -> None:
        """Have another controller take over where a state that somebody has removed by hand keeps a topic out of the
        trash: the next one begins such a partition anew. Then restart the brokers that refuse the new state."""
        ledger = self._cluster.ledger
        for name in ledger.marked:
            living = ledger.living.get(name)
            if living is not None and any(partition not in living.states for partition in living.maimed):
                self._cluster.ensemble.operate(Delete(paths.CONTROLLER))
                self._world.after(PATIENCE_MS, self.restart_those_of_removed_states)
                return

    def restart_those_of_removed_states(self) -> None:
        """Restart the brokers that host a partition under a later leader epoch than its state znode says, or under the
        same one with other replicas: somebody has removed the state by hand, its deletion was called off, and the next
        controller has begun again with epoch 0. Such a broker refuses the new state, and asks for ISR members in vain
        every few seconds, as Kafka's brokers do. Where nobody has removed a state, no broker is restarted."""
        for agent in self._cluster.agents.values():
            if agent.alive and any(self._is_ahead(*hosted) for hosted in agent.state.replicas.items()):
                self._world.note(agent.name, "is restarted, since it refuses a state that was made anew")
                self._cluster.restart_later(agent, after_ms=1)

    def _is_ahead(self, topic_partition: TopicPartition, replica: Replica) -> bool:
        incarnation = self._cluster.ledger.living.get(topic_partition.topic)
        if incarnation is None or topic_partition.partition not in incarnation.maimed:
            return False
        state = incarnation.states.get(topic_partition.partition)
        if state is None or replica.topic_id != incarnation.topic_id:
            return False
        has_other_replicas = replica.assignment != incarnation.replicas(topic_partition.partition)
        return replica.leader_epoch > state.leader_epoch or (
            replica.leader_epoch == state.leader_epoch and has_other_replicas
        )

    # --- judging ---------------------------------------------------------------------------------------------------

    def election_is_allowed(self, controller: str) -> None:
        """Nobody takes control whom brokers have refused since the beginning, with brokers registered for long."""
        if not self._from_the_beginning or self.refused is None or controller != f"controller {self.refused}":
            return
        for broker in self._cluster.registered():
            node = self._cluster.ensemble.model.node(paths.broker_id(broker))
            since_ms = (
                self._world.now_ms
                if node is None
                else int(json.loads(node.data or b"{}").get("timestamp", self._world.now_ms))
            )
            if self._world.now_ms - since_ms >= REGISTERED_LONG_MS:
                raise Violation("power", f"{controller} takes control, and broker {broker} has refused it all the time")


def void(_: object) -> None:
    """For what is done for its effect."""
