"""Clients that alter settings of topics, at a controller: set, delete, append, subtract, or replace all of them.

They ask as `clients` says. At the same moment somebody may change a setting with another tool. Which writes their
requests explain is said in `config_book`, and what they are told is judged in `client_answers`.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from lethe.protocol.kafka.admin_configs import (
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterableResource,
    AlterConfigsRequest,
    AlterOperation,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.config_writes import config_operations
from tests.simulation.clients import OWN_NAMES, Correspondence
from tests.simulation.config_book import LISTS, decoded

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

P_ALTERERS: Final = 0.15
DEEDS: Final = {"ask_to_alter": 24}
VALUES: Final = {
    "retention.ms": ("6000", "-1", "7000"),
    "retention.bytes": ("1", "-1"),
    "cleanup.policy": ("compact", "delete"),
    "flush.ms": ("1", "2"),
    "leader.replication.throttled.replicas": ("0:1", "1:2"),
}
BY_HAND: Final = "flush.messages"


def drawn(seed: int) -> dict[str, int]:
    """What they do in this run; most runs have none. A chance of its own."""
    return dict(DEEDS) if Random(f"altered by clients settings {seed}").random() < P_ALTERERS else {}


class Alterers:
    """What they ask for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random = Random(f"alterations {cluster.world.seed}")
        self._correspondence = Correspondence(cluster, self._random)
        self._names = [f"t{number}" for number in range(cluster.mix.names + OWN_NAMES)]

    def ask_to_alter(self) -> None:
        """Alter the settings of one topic or two: mostly such that live."""
        names = list(dict.fromkeys(self._name() for _ in range(self._random.choice((1, 1, 2)))))
        if self._random.random() < 0.3:
            mix = self._cluster.mix
            soon_ms = self._random.randint(0, mix.network_ms[1] + 2 * mix.zookeeper_ms[1] + 2)
            self._cluster.world.after(soon_ms, lambda: self._change_by_hand(names[0]))
        is_replaced, validate_only = self._random.random() < 0.25, self._random.random() < 0.1
        change = self._set if is_replaced else self._change
        resources = tuple(
            AlterableResource(TOPIC_RESOURCE, name, tuple(map(change, self._random.sample(list(VALUES), count))))
            for name in names
            for count in (self._random.randint(0 if is_replaced else 1, 3),)
        )
        kind = AlterConfigsRequest if is_replaced else IncrementalAlterConfigsRequest
        self._correspondence.send(kind(resources, validate_only))

    def _name(self) -> str:
        living = [name for name, each in self._cluster.ledger.living.items() if each.readable]
        return self._random.choice(living if living and self._random.random() < 0.9 else self._names)

    def _set(self, key: str) -> AlterableConfig:
        return AlterableConfig(key, self._random.choice(VALUES[key]))

    def _change(self, key: str) -> AlterableConfig:
        operations = list(AlterOperation) if key in LISTS else [AlterOperation.SET, AlterOperation.DELETE]
        operation = self._random.choice(operations)
        value = None if operation is AlterOperation.DELETE else self._random.choice(VALUES[key])
        return AlterableConfig(key, value, operation)

    def _change_by_hand(self, name: str) -> None:
        """Somebody else gives the topic a setting of another kind, which nobody but such people changes."""
        path = paths.config_topic(name)
        node = self._cluster.ensemble.model.node(path)
        config = None if node is None else decoded(path, node.data)
        if node is not None and config is not None and self._cluster.mix.theme_weights:
            changed = {**config, BY_HAND: str(self._random.randint(1, 1_000))}
            self._cluster.ensemble.operate(*config_operations(path, changed, node.version))
