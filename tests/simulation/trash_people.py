"""People who delete topics with a grace period, want them back, or use the names meanwhile."""

from __future__ import annotations

import uuid
from random import Random
from typing import TYPE_CHECKING

from lethe.admin.topic_plans import TopicPlan, creation_operations
from lethe.protocol.topic_globs import PROTECTED_TOPICS
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, BrokerId, ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from lethe.protocol.zookeeper.znodes import ConfigChange, DeletionOrders, RequestedAction, TopicRequest, TrashPhase
from tests.simulation import trash, trash_beliefs
from tests.simulation.ledger import Incarnation, Ledger
from tests.simulation.settings import DELETION

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess
    from tests.simulation.cluster import Cluster

P_REGRETS = 0.7
REGRETS_MS = (0, 300, 1_000, 4_000)
LOOK_EVERY_MS, LOOKS = 200, 40
GRACES_MS = (300, 3_000, 15_000, 15_000, 120_000)
SETTINGS: tuple[dict[str, str], ...] = (
    {"retention.ms": "6000", "cleanup.policy": "compact"},
    {"retention.bytes": "1"},
    {},
)
OTHERS_SETTINGS: tuple[dict[str, str] | None, ...] = (None, {}, {"retention.ms": "1000", "cleanup.policy": "delete"})
P_SECOND_THOUGHTS = 0.25
SECOND_LOOK_MS, SECOND_LOOKS = 2, 150
P_REMOVES_SETTINGS = 0.4


class TrashPeople:
    """What they do; each method is one deed, which may turn out to be impossible."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._ensemble = cluster.ensemble
        self._ledger = cluster.ledger
        self._random = Random(f"trash people {cluster.world.seed}")
        self._deeds = cluster.mix.theme_weights
        self._second_thoughts = Random(f"second thoughts {cluster.world.seed}")
        self._settings = Random(f"settings of squatters {cluster.world.seed}")

    def schedule(self) -> None:
        """Where there are consumer groups, a broker soon creates the topic that they need."""
        if "commit" in self._cluster.mix.theme_weights:
            self._world.after(self._random.randint(0, 1_500), self._create_group_metadata)

    def _create_group_metadata(self) -> None:
        replicas = tuple(self._brokers() for _ in range(self._random.randint(1, 3)))
        plan = TopicPlan(GROUP_METADATA_TOPIC, self._topic_id(), replicas, {})
        self._ensemble.operate(*creation_operations(plan, config_exists=False))

    # --- into the trash --------------------------------------------------------------------------------------------

    def mark_for_trash(self) -> None:
        """Have a topic deleted with a grace period; it may have settings of its own."""
        names = [name for name in self._ledger.living if may_be_deleted(self._ledger, name)]
        if not names:
            return
        name = self._random.choice(names)
        path = paths.config_topic(name)
        if name not in self._ledger.trash.entries and self._ensemble.model.node(path) is not None:
            data = znodes.encode_config(self._random.choice(SETTINGS))
            change = znodes.encode_config_change(ConfigChange(f"topics/{name}"))
            self._ensemble.operate(SetData(path, data, ANY_VERSION), _announced(change))
        orders = DeletionOrders(grace_ms=self._random.choice(GRACES_MS))
        self._ensemble.operate(Create(paths.delete_topic(name), znodes.encode_deletion_marker(orders)))
        if self._random.random() < P_REGRETS:
            soon_ms = self._cluster.mix.trash_freeze_ms + self._random.choice(REGRETS_MS)
            self._world.after(soon_ms, lambda: self._regret(name, LOOKS))
        if self._second_thoughts.random() < P_SECOND_THOUGHTS:
            living, before_ms = self._ledger.living[name], self._cluster.mix.trash_freeze_ms
            self._world.after(self._second_thoughts.randint(1, before_ms), lambda: self._change_mind(living))

    def mark_at_once(self) -> None:
        """Have a topic deleted without the trash, whatever the controllers' rules are."""
        names = [name for name in self._ledger.living if may_be_deleted(self._ledger, name)]
        if names:
            orders = znodes.encode_deletion_marker(DeletionOrders(grace_ms=0))
            self._ensemble.operate(Create(paths.delete_topic(self._random.choice(names)), orders))

    def _regret(self, name: str, looks: int) -> None:
        """Mostly when the topic is in the trash, sometimes on its way there."""
        entry = self._ledger.trash.entries.get(name)
        if not self._cluster.mix.theme_weights or not looks:
            return
        if entry is not None and (entry.phase is not TrashPhase.FREEZING or self._random.random() < 0.05):
            self._request(name, TopicRequest(RequestedAction.UNDELETE))
            if self._random.random() < 0.3:
                self._cluster.groups.join()
        elif entry is not None or name in self._ledger.marked:
            self._world.after(LOOK_EVERY_MS, lambda: self._regret(name, looks - 1))

    # --- out of it -------------------------------------------------------------------------------------------------

    def undelete(self) -> None:
        """Want a topic back that is in the trash or on its way, or that is marked."""
        names = [*self._ledger.trash.entries] if self._random.random() < 0.6 else [*self._ledger.marked]
        if names:
            self._request(self._random.choice(names), TopicRequest(RequestedAction.UNDELETE))

    def purge(self) -> None:
        """Have a topic of the trash deleted now; sometimes an earlier one of its name is meant."""
        kept = list(self._ledger.trash.kept.values())
        if not kept:
            return
        incarnation = self._random.choice(kept)
        others = [each for each in self._ledger.all if each.name == incarnation.name and each is not incarnation]
        earlier = [each.topic_id for each in others if each.topic_id is not None]
        topic_id = self._random.choice(earlier) if earlier and self._random.random() < 0.5 else incarnation.topic_id
        self._request(incarnation.name, TopicRequest(RequestedAction.PURGE, topic_id))

    def _request(self, name: str, request: TopicRequest) -> None:
        """In place of one that was refused; another one waits for its answer."""
        before = self._ledger.trash.requests.get(name)
        if before is not None and before.refused is None:
            return
        model, path = self._ensemble.model, paths.request(name)
        for parent in (paths.LETHE, paths.requests()):
            if model.node(parent) is None:
                self._ensemble.operate(Create(parent, None))
        replaced = () if before is None else (Delete(path),)
        self._ensemble.operate(*replaced, Create(path, znodes.encode_topic_request(request)))

    def _change_mind(self, incarnation: Incarnation) -> None:
        """Have the topic stay before it is in the trash, and mark it again."""
        name = incarnation.name
        if self._ledger.living.get(name) is incarnation and self._ledger.marks(incarnation):
            self._request(name, TopicRequest(RequestedAction.UNDELETE))
            self._mark_again(incarnation, SECOND_LOOKS)

    def _mark_again(self, incarnation: Incarnation, looks: int) -> None:
        """Mark the topic with another grace period as soon as the controller has removed its marker."""
        name = incarnation.name
        if not looks or self._ledger.living.get(name) is not incarnation or not self._cluster.mix.theme_weights:
            return
        if name in self._ledger.marked:
            self._world.after(SECOND_LOOK_MS, lambda: self._mark_again(incarnation, looks - 1))
        else:
            orders = DeletionOrders(grace_ms=self._second_thoughts.choice(GRACES_MS))
            self._ensemble.operate(Create(paths.delete_topic(name), znodes.encode_deletion_marker(orders)))

    def tidy(self) -> None:
        """Remove the requests that were refused."""
        for name in [name for name, request in self._ledger.trash.requests.items() if request.refused is not None]:
            self._ensemble.operate(Delete(paths.request(name)))

    def lose(self) -> None:
        """Somebody removes a broker's directories of a topic in the trash; other replicas in sync are there."""
        found = [
            (agent, incarnation)
            for incarnation in self._ledger.trash.kept.values()
            for agent in self._cluster.agents.values()
            if agent.alive and self._is_spare(agent, incarnation)
        ]
        if not found:
            return
        agent, incarnation = self._random.choice(found)
        self._world.note(agent.name, f"loses its directories of {incarnation.name}")
        agent.crash(session_expires_after_ms=0)
        for names in agent.disk.log_dirs.values():
            for name in [name for name, each in names.items() if each.topic_partition.topic == incarnation.name]:
                del names[name]
        self._cluster.restart_later(agent)
        self._world.after(self._random.randint(500, 6_000), lambda: self._regret(incarnation.name, 1))

    def _is_spare(self, agent: AgentProcess, incarnation: Incarnation) -> bool:
        """Every partition that it has is on the disk of another broker that was in sync."""
        saved = self._ledger.trash.entries[incarnation.name].partitions
        mine = [number for number, each in saved.items() if agent.id in each.replicas]
        others = {each.id: each for each in self._cluster.agents.values() if each is not agent}
        return bool(mine) and all(
            any(
                broker in others and trash.is_on(others[BrokerId(broker)].disk, incarnation, number)
                for broker in saved[number].isr
            )
            for number in mine
        )

    # --- names -----------------------------------------------------------------------------------------------------

    def squat(self) -> None:
        """A client that is not Lethe's creates another topic under a reserved name, and removes it some time after."""
        names = [name for name in self._ledger.trash.kept if name not in self._ledger.living]
        if not names:
            return
        name = self._random.choice(names)
        topic = znodes.TopicZnode({0: ReplicaAssignment(self._brokers())}, self._topic_id())
        if self._ensemble.operate(Create(paths.topic(name), znodes.encode_topic(topic))):
            self._replace_settings(name)
            squatter = self._ledger.living[name]
            self._world.after(self._random.randint(100, 6_000), lambda: self._evict(squatter))

    def _replace_settings(self, name: str) -> None:
        """Kafka's tools write a new topic's settings in place of those that are there, and do not announce them."""
        path, config = paths.config_topic(name), self._settings.choice(OTHERS_SETTINGS)
        if config is not None:
            is_there, data = self._ensemble.model.node(path) is not None, znodes.encode_config(config)
            self._ensemble.operate(SetData(path, data, ANY_VERSION) if is_there else Create(path, data))

    def _evict(self, squatter: Incarnation) -> None:
        name = squatter.name
        if self._ledger.living.get(name) is squatter and self._ledger.trash.reserves(squatter):
            marker = paths.delete_topic(name)
            marked = (Delete(marker),) if self._ensemble.model.node(marker) is not None else ()
            self._ensemble.operate(*marked, Delete(paths.topic(name)))
            config = paths.config_topic(name)
            if self._settings.random() < P_REMOVES_SETTINGS and self._ensemble.model.node(config) is not None:
                self._ensemble.operate(Delete(config))

    # --- the end ---------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """No other topics under reserved names, nothing that cannot go into the trash, no members in groups, and some
        topics are wanted back."""
        for incarnation in list(self._ledger.living.values()):
            self._evict(incarnation)
            self._spare(incarnation)
        self._cluster.groups.with_members.clear()
        if "mark_for_trash" in self._deeds:
            self._allow_deletions()
        self.tidy()
        for name, entry in self._ledger.trash.entries.items():
            if entry.phase is TrashPhase.TRASHED and self._random.random() < 0.5:
                self._request(name, TopicRequest(RequestedAction.UNDELETE))

    def _spare(self, incarnation: Incarnation) -> None:
        """A topic without one of its states cannot go into the trash: somebody reads that, and removes the marker."""
        is_marked = incarnation.name in self._ledger.marked
        if is_marked and incarnation.maimed and trash_beliefs.is_reason(self._cluster, incarnation):
            self._ensemble.operate(Delete(paths.delete_topic(incarnation.name)))

    def _allow_deletions(self) -> None:
        """No topic is protected, and no configuration says that topics may not be deleted."""
        brokers = paths.parent_of(paths.config_broker_default())
        for name in self._ensemble.model.children(brokers):
            path = f"{brokers}/{name}"
            node = self._ensemble.model.node(path)
            config = znodes.decode_config(path, None if node is None else node.data)
            left = {key: value for key, value in config.items() if key not in (DELETION, PROTECTED_TOPICS)}
            change = znodes.encode_config_change(ConfigChange(f"brokers/{name}"))
            operations = (SetData(path, znodes.encode_config(left), ANY_VERSION), _announced(change))
            self._ensemble.operate(*operations)

    def _topic_id(self) -> TopicId:
        return TopicId(uuid.UUID(bytes=self._random.randbytes(16), version=4))

    def _brokers(self) -> tuple[int, ...]:
        return tuple(self._random.sample([int(broker) for broker in self._cluster.agents], self._random.randint(1, 3)))


def may_be_deleted(ledger: Ledger, name: str) -> bool:
    """A topic that people have deleted with a grace period, or by a plan: one that is whole."""
    incarnation = ledger.living[name]
    is_whole = incarnation.readable and not incarnation.maimed
    return is_whole and name not in ledger.marked and name != GROUP_METADATA_TOPIC


def _announced(change: bytes) -> Create:
    return Create(paths.config_change(), change, sequential=True)
