"""People at the cluster: they create topics, have them deleted, use names again, and sometimes do what they should not.

Names come from a small pool, so that a name is used again as soon as it is free. After a topic was removed by hand its
directories stay where they are, as with Kafka; its name is used again when the controller has noticed that it is gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from lethe.admin.topic_plans import TopicPlan, creation_operations, deletion_operation
from lethe.controller.core.context import Role
from lethe.controller.core.events import ResignationRequested
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, ZERO_TOPIC_ID, LeaderAndIsr, TopicId, is_usable_topic_id
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, Operation, SetData
from tests.simulation import trash_beliefs
from tests.simulation.alterers import Alterers
from tests.simulation.clients import Clients
from tests.simulation.debts import Creditors
from tests.simulation.forgetting import Undertakers
from tests.simulation.ledger import Incarnation
from tests.simulation.movers import Movers
from tests.simulation.plans import Planners
from tests.simulation.switches import Switches
from tests.simulation.trash_people import TrashPeople

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

GARBAGE = (b"{", b"", b'{"version":9,"partitions":{"0":"one"}}', b'["a","list"]', b"\xff\xfe")


class Operators:
    """What they do; each method is one deed, which may turn out to be impossible."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._ensemble = cluster.ensemble
        self._ledger = cluster.ledger
        self._movers = Movers(cluster)
        self._switches = Switches(cluster)
        self._creditors = Creditors(cluster)
        self._undertakers = Undertakers(cluster)
        self._trash = TrashPeople(cluster)
        self._planners = Planners(cluster)
        self._clients = Clients(cluster, self._create_if_free)
        self._alterers = Alterers(cluster)
        self._names = [f"t{number}" for number in range(cluster.mix.names)]
        # A chance of its own, so that the other seeds run as they did before there was such a thing.
        self._placing = Random(f"placing {cluster.world.seed}")
        self._zeroing = Random(f"zeroing {cluster.world.seed}")
        self._spoilt: dict[str, None] = {}
        self.removed_by_hand: dict[str, None] = {}
        """Names whose tombstones nobody has promised."""

    def act(self, deed: str) -> None:
        """Do it."""
        crowd = (
            self._movers,
            self._switches,
            self._creditors,
            self._undertakers,
            self._trash,
            self._planners,
            self._clients,
            self._alterers,
            self._cluster.groups,
        )
        doer = next(doer for doer in (self, *crowd) if hasattr(doer, deed))
        getattr(doer, deed)()

    # --- topics ----------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Create a topic under a free name."""
        name = self._pick([name for name in self._names if self._is_free(name)])
        if name is not None:
            self._create(name)

    def _create_if_free(self, name: str) -> None:
        if self._is_free(name) and self._cluster.mix.operator_weights:
            self._create(name)

    def create_on(self, brokers: Sequence[int]) -> None:
        """Create a topic under a free name, with one replica of each partition, on these brokers."""
        name = self._pick([name for name in self._names if self._is_free(name)])
        if name is not None:
            replicas = tuple((brokers[number % len(brokers)],) for number in range(self._world.between(1, 3)))
            config_exists = self._ensemble.model.node(paths.config_topic(name)) is not None
            plan = TopicPlan(name, self._topic_id(), replicas, {})
            self._spoilt.pop(name, None)
            self._do(*creation_operations(plan, config_exists=config_exists))

    def create_and_mark(self) -> None:
        """Create a topic and have it deleted before anybody has seen it."""
        name = self._pick([name for name in self._names if self._is_free(name)])
        if name is not None:
            self._create(name)
            self._do(deletion_operation(name))

    def mark(self) -> None:
        """Have a topic deleted."""
        name = self._pick([name for name in self._ledger.living if name not in self._ledger.marked])
        if name is not None:
            self._do(deletion_operation(name))

    def delete_behind_back(self) -> None:
        """Have a topic deleted while a broker that has no replica of it is registered nowhere, and serves on."""
        agents = [agent for agent in self._cluster.agents.values() if agent.alive and agent.client is not None]
        if not agents:
            return
        agent = agents[self._world.between(0, len(agents) - 1)]
        living = self._ledger.living
        name = self._pick([n for n, each in living.items() if each.readable and agent.id not in each.brokers])
        if name is not None and agent.client is not None:
            agent.client.lose(self._world.between(1_000, 6_000))
            if name not in self._ledger.marked:
                self._do(deletion_operation(name))

    def mark_unknown(self) -> None:
        """Mark a name that no topic has."""
        name = self._pick([name for name in self._names if self._is_free(name)])
        if name is not None:
            self._do(deletion_operation(name))

    def unmark(self) -> None:
        """Take a marker away by hand."""
        name = self._pick(list(self._ledger.marked))
        if name is not None:
            self._do(Delete(paths.delete_topic(name)))

    def remove_by_hand(self) -> None:
        """Remove a topic's znodes by hand, marker and all."""
        living = self._ledger.living
        name = self._pick([n for n in living if not self._is_spoilt(n) and n != GROUP_METADATA_TOPIC])
        if name is not None:
            self.removed_by_hand[name] = None
            roots = (paths.topic(name), paths.config_topic(name), paths.delete_topic(name))
            self._do(*(Delete(path) for root in roots for path in self._tree(root)))

    def remove_state_by_hand(self) -> None:
        """Remove a state znode of a topic that is marked, as a crash in the middle of its removal does."""
        found = [
            (name, partition)
            for name in self._ledger.marked
            if self._cluster.mix.delete_topic_enable and name in self._ledger.living and self._is_deleted_for_good(name)
            for partition in self._ledger.living[name].states
        ]
        if found:
            name, partition = found[self._world.between(0, len(found) - 1)]
            self._do(Delete(paths.partition_state(name, partition)))

    def _is_deleted_for_good(self, name: str) -> bool:
        """A topic goes into the trash, and comes out of it, in one write: no crash leaves half of it."""
        is_ordered = trash_beliefs.is_reason(self._cluster, self._ledger.living[name])
        return name != GROUP_METADATA_TOPIC and not is_ordered

    def write_garbage(self) -> None:
        """Create a topic znode that nobody can understand."""
        name = self._pick([name for name in self._names if self._is_free(name)])
        if name is not None:
            self._spoilt[name] = None
            self._do(Create(paths.topic(name), GARBAGE[self._world.between(0, len(GARBAGE) - 1)]))

    def mend_garbage(self) -> None:
        """Write what that topic should have been."""
        name = self._pick([name for name in self._spoilt if self._is_spoilt(name)])
        if name is not None:
            self._mend(name)

    def begin(self) -> None:
        """What somebody does once, at the beginning."""
        self._trash.schedule()

    def mend_all(self, *, paused: bool) -> None:
        """Leave nothing that cannot be understood, and deletions paused or not."""
        if paused:
            self._switches.pause()
        else:
            self._switches.resume()
        self._switches.mend_configuration()
        self._trash.heal()
        for name in list(self._spoilt):
            if self._is_spoilt(name):
                self._mend(name)

    def expand_isr(self) -> None:
        """A partition's leader takes its followers back into the ISR and writes that itself, as old brokers do."""
        found = [
            (incarnation, partition, state)
            for incarnation in self._ledger.living.values()
            for partition, state in incarnation.states.items()
            if state.leader >= 0 and len(state.isr) < len(incarnation.replicas(partition))
        ]
        if found:
            self._expand(*found[self._world.between(0, len(found) - 1)])

    # --- the controller --------------------------------------------------------------------------------------------

    def delete_controller(self) -> None:
        """The old trick to move the controller."""
        self._do(Delete(paths.CONTROLLER))

    def touch_epoch(self) -> None:
        """Write the epoch again, which changes the version that every write is fenced on."""
        node = self._ensemble.model.node(paths.CONTROLLER_EPOCH)
        if node is not None:
            self._do(SetData(paths.CONTROLLER_EPOCH, node.data, ANY_VERSION))

    def resign(self) -> None:
        """Ask whoever leads to let another one lead."""
        for controller in self._cluster.controllers:
            if controller.context.is_leading:
                controller.post(ResignationRequested("an operator asked for it"))

    # --- parts -----------------------------------------------------------------------------------------------------

    def _is_free(self, name: str) -> bool:
        if name in self._ledger.living or name in self._ledger.marked or name in self._ledger.trash.entries:
            return False
        contexts = [controller.context for controller in self._cluster.controllers]
        noticed = any(c.role is Role.ACTIVE for c in contexts) and not any(name in c.cluster.topics for c in contexts)
        return noticed or name not in self.removed_by_hand

    def _is_spoilt(self, name: str) -> bool:
        """Its znode has garbage still; another topic of that name may have been created since."""
        living = self._ledger.living.get(name)
        return name in self._spoilt and living is not None and not living.readable

    def _pick(self, names: list[str]) -> str | None:
        return names[self._world.between(0, len(names) - 1)] if names else None

    def _do(self, *operations: Operation) -> None:
        self._ensemble.operate(*operations)

    def _create(self, name: str) -> None:
        self._spoilt.pop(name, None)
        config_exists = self._ensemble.model.node(paths.config_topic(name)) is not None
        plan = TopicPlan(name, self._topic_id(), self._assignment(), {})
        self._do(*creation_operations(plan, config_exists=config_exists))

    def _mend(self, name: str) -> None:
        del self._spoilt[name]
        config = () if self._ensemble.model.node(paths.config_topic(name)) else creation_config(name)
        *_, topic = creation_operations(TopicPlan(name, self._topic_id(), self._assignment(), {}), config_exists=True)
        assert isinstance(topic, Create)
        self._do(*config, SetData(topic.path, topic.data, ANY_VERSION))

    def _topic_id(self) -> TopicId | None:
        """Old tools leave it to the controller; some tools write the zero id, which is none."""
        if self._world.chance(0.3):
            return ZERO_TOPIC_ID if self._zeroing.random() < 0.3 else None
        while True:
            candidate = uuid.UUID(bytes=self._world.random.randbytes(16), version=4)
            if is_usable_topic_id(candidate):
                return TopicId(candidate)

    def _assignment(self) -> tuple[tuple[int, ...], ...]:
        brokers = [int(broker) for broker in self._cluster.agents]
        factor = self._world.between(1, 3)
        chosen = [self._world.random.sample(brokers, factor) for _ in range(self._world.between(1, 3))]
        if self._cluster.mix.advertised:
            for replicas in chosen:
                self._place_on_controller(replicas)
        return tuple(tuple(replicas) for replicas in chosen)

    def _place_on_controller(self, replicas: list[int]) -> None:
        """As brokers do that take controllers for brokers."""
        if self._placing.random() < 0.4:
            known = self._ensemble.model.children(paths.CONTROLLERS)
            if known:
                replicas[self._placing.randrange(len(replicas))] = int(self._placing.choice(known))

    def _expand(self, incarnation: Incarnation, partition: int, state: LeaderAndIsr) -> None:
        registered = self._cluster.registered()
        alive = tuple(b for b in incarnation.replicas(partition) if b in registered or b in state.isr)
        if state.leader in registered and len(alive) > len(state.isr):
            path = paths.partition_state(incarnation.name, partition)
            self._do(SetData(path, znodes.encode_state(state._replace(isr=alive)), state.partition_epoch))

    def _tree(self, root: str) -> list[str]:
        """The znodes from there on, deepest first."""
        model = self._ensemble.model
        if model.node(root) is None:
            return []
        below = [path for name in model.children(root) for path in self._tree(f"{root}/{name}")]
        return [*below, root]


def creation_config(name: str) -> tuple[Operation, ...]:
    """The configuration that a topic is created with."""
    return (Create(paths.config_topic(name), znodes.encode_config({})),)
