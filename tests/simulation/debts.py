"""Debts: what brokers still have of topics that are gone, as ZooKeeper says, and what must be true of it.

In some runs controllers owe by default, in the same runs people order it in markers, and brokers stay away for long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from lethe.controller.core import debts_policy
from lethe.controller.core.context import Context
from lethe.controller.core.debt_memory import DebtKey
from lethe.controller.core.effects import Send
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Operation, SetData
from lethe.protocol.zookeeper.znodes import Debt, DeletionOrders, OfflineReplicas
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.ledger import Incarnation

P_DEBTS = 0.35
P_AGENTS_PAY = 0.3
DEEDS = {"mark_and_order": 6, "order": 4, "stay_away": 6}


def drawn(seed: int) -> tuple[OfflineReplicas, dict[str, int]]:
    """What controllers do by default, and the deeds. A chance of its own: other seeds have none of it."""
    random = Random(f"debts {seed}")
    if random.random() >= P_DEBTS:
        return OfflineReplicas.WAIT, {}
    return random.choice((OfflineReplicas.OWE, OfflineReplicas.OWE, OfflineReplicas.WAIT)), DEEDS


def agents_pay(seed: int) -> bool:
    """Agents delete what they owe before they register. A chance of its own, in runs with debts."""
    return bool(drawn(seed)[1]) and Random(f"agents pay {seed}").random() < P_AGENTS_PAY


# --- what is written ----------------------------------------------------------------------------------------------


def written(cluster: Cluster) -> Iterator[tuple[DebtKey, Debt]]:
    """All debts in ZooKeeper."""
    model = cluster.ensemble.model
    for broker in model.children(paths.DEBTS) if model.node(paths.DEBTS) is not None else ():
        for child in model.children(paths.debts_of(int(broker))):
            node, named = model.node(f"{paths.debts_of(int(broker))}/{child}"), paths.debt_named(child)
            assert node is not None
            assert named is not None
            yield DebtKey(BrokerId(int(broker)), *named), znodes.decode_debt(int(broker), child, node.data)


def is_owed(cluster: Cluster, broker: BrokerId, incarnation: Incarnation, partition: int) -> bool:
    """A debt of this broker names the replica."""
    return any(
        key.broker == broker
        and partition in debt.partitions
        and cluster.ledger.by_zxid.get((key.created_zxid, key.topic)) is incarnation
        for key, debt in written(cluster)
    )


# --- rules --------------------------------------------------------------------------------------------------------


def first_epochs_are_above(cluster: Cluster, operation: Operation) -> None:
    """A partition never begins at an epoch that a broker may still have of an earlier topic of that name."""
    state_of = paths.state_of(operation.path)
    if state_of is None or not isinstance(operation, Create):
        return
    state = znodes.decode_state(*state_of, operation.data, 0)
    ledger = cluster.ledger
    # What comes back from the trash gets its znode in the same multi as its states.
    incarnation = ledger.living.get(state_of.topic) or ledger.trash.kept.get(state_of.topic)
    for key, debt in written(cluster):
        is_earlier = ledger.by_zxid.get((key.created_zxid, key.topic)) is not incarnation
        if key.topic == state_of.topic and is_earlier and state and state.leader_epoch <= debt.last_leader_epoch:
            raise Violation(
                "debts", f"{state_of} begins at epoch {state.leader_epoch}, and broker {key.broker} owes {debt}"
            )


def problems_with_write(context: Context, operations: Sequence[Operation]) -> Iterator[str]:
    """Nobody who is registered owes anything."""
    for operation in operations:
        if isinstance(operation, Create) and operation.path.count("/") == 4 and operation.path.startswith(paths.DEBTS):
            broker = BrokerId(int(operation.path.split("/")[3]))
            if broker in context.cluster.brokers:
                yield f"writes {operation.path}, and broker {broker} is registered"


def problems_with_request(context: Context, send: Send) -> Iterator[str]:
    """What lives is never asked to go by a debt."""
    for key, debt in context.cluster.debts.all():
        topic = context.cluster.topics.get(key.topic)
        is_the_same = topic is not None and (
            topic.created_zxid == key.created_zxid or (topic.id is not None and topic.id == debt.debt.topic_id)
        )
        if debt.request_id == send.request_id and is_the_same:
            yield f"asks broker {key.broker} about what it owes of {key.topic}, which is there"


def differences(cluster: Cluster, context: Context) -> Iterator[str]:
    """An idle controller knows all debts, and has asked about those that can be paid. What a broker has paid that has
    not registered since, it may know still."""
    there = dict(written(cluster))
    known = {
        key: each.debt
        for key, each in context.cluster.debts.all()
        if key in there or _is_registered(cluster, context, key.broker)
    }
    if known != there:
        yield f"knows the debts {known}, ZooKeeper has {there}"
    for key, debt in context.cluster.debts.all():
        same_name = context.cluster.debts.by_broker[key.broker][key.topic].values()
        is_due = debt.retry_at_ms is None and all(other.request_id is None for other in same_name)
        if is_due and debts_policy.payable(context, key, debt):
            yield f"has not asked broker {key.broker} about what it owes of {key.topic}"


def _is_registered(cluster: Cluster, context: Context, broker: BrokerId) -> bool:
    """The controller knows the registration of this run of the broker."""
    known = context.cluster.brokers.get(broker)
    return known is not None and known.epoch == cluster.agents[broker].promise.broker_epoch


def all_are_settled(cluster: Cluster) -> None:
    """With every broker back, nothing is owed."""
    for key, debt in written(cluster):
        raise Violation("debts", f"broker {key.broker} still owes {debt} of {key.topic}")


def is_ordered(cluster: Cluster, name: str) -> bool:
    """The topic's deletion does not wait for absent brokers."""
    node = cluster.ensemble.model.node(paths.delete_topic(name))
    orders = znodes.decode_deletion_marker(None if node is None else node.data)
    return (orders.offline_replicas or cluster.mix.offline_replicas) is OfflineReplicas.OWE


# --- people -------------------------------------------------------------------------------------------------------


class Creditors:
    """People who have topics deleted without absent brokers; each method is one deed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random = Random(f"creditors {cluster.world.seed}")

    def mark_and_order(self) -> None:
        """Have a topic deleted, and say in the marker what is done about absent brokers."""
        ledger = self._cluster.ledger
        names = [name for name in ledger.living if name not in ledger.marked]
        if names:
            orders = DeletionOrders(offline_replicas=self._choice())
            path = paths.delete_topic(self._random.choice(names))
            self._cluster.ensemble.operate(Create(path, znodes.encode_deletion_marker(orders)))

    def order(self) -> None:
        """Change the order of a marker that is there; the rest of it stays, as with `lethe topics delete --owe`."""
        names = list(self._cluster.ledger.marked)
        if names:
            path = paths.delete_topic(self._random.choice(names))
            node = self._cluster.ensemble.model.node(path)
            orders = znodes.decode_deletion_marker(None if node is None else node.data)
            changed = replace(orders, offline_replicas=self._choice())
            self._cluster.ensemble.operate(SetData(path, znodes.encode_deletion_marker(changed), ANY_VERSION))

    def stay_away(self) -> None:
        """A broker dies, and is started again after a long while."""
        agents = [agent for agent in self._cluster.agents.values() if agent.alive]
        if len(agents) > 1:
            self._cluster.restart_later(self._random.choice(agents), self._random.randint(4_000, 20_000))

    def _choice(self) -> OfflineReplicas | None:
        return self._random.choice((OfflineReplicas.OWE, OfflineReplicas.OWE, OfflineReplicas.WAIT, None))
