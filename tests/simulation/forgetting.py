"""Brokers that are given up for good: who asks for that, and what must be true of it.

People give up brokers that are down, sometimes the wrong one, and sometimes one that returns all the same. A topic has
*lost* a broker if a request that named it was in force while the topic was marked, or owed by it: what that broker has
of the topic may stay where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from lethe.controller.core.context import Context
from lethe.controller.core.debt_memory import DebtKey
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, Operation, SetData
from lethe.protocol.zookeeper.znodes import ForgetRequest
from tests.simulation import debts
from tests.simulation.ensemble import Writer
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

P_FORGET: Final = 0.4
DEEDS: Final = {"forget": 5, "withdraw": 1}
GARBAGE: Final = b"{"


def drawn(seed: int) -> dict[str, int]:
    """The deeds. A chance of its own, in runs with debts."""
    is_chosen = Random(f"forget {seed}").random() < P_FORGET
    return DEEDS if is_chosen and debts.drawn(seed)[1] else {}


class ForgetBook:
    """Which requests are in force, kept by looking at each write."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.in_force: dict[BrokerId, None] = {}

    def book(self, operation: Operation) -> None:
        """Take note of one operation, after the ledger has."""
        broker = _requested(operation.path)
        if broker is not None:
            self.in_force.pop(broker, None)
            if isinstance(operation, Create | SetData) and _is_in_force(broker, operation.data):
                self.in_force[broker] = None
        for broker in self.in_force:
            self._lose(broker)

    def _lose(self, broker: BrokerId) -> None:
        ledger = self._cluster.ledger
        for name in ledger.marked:
            if name in ledger.living:
                ledger.living[name].lost[broker] = None
        for key, _ in debts.written(self._cluster):
            if key.broker == broker and (owed := ledger.by_zxid.get((key.created_zxid, key.topic))) is not None:
                owed.lost[broker] = None


def _requested(path: str) -> BrokerId | None:
    name = paths.child_of(paths.forgets(), path)
    return None if name is None else paths.broker_named(name)


def _is_in_force(broker: BrokerId, data: bytes | None) -> bool:
    try:
        return znodes.decode_forget_request(broker, data).refused is None
    except znodes.MalformedZnode:
        return False


# --- rules --------------------------------------------------------------------------------------------------------


def writes_are_allowed(cluster: Cluster, writer: Writer, operations: Sequence[Operation]) -> None:
    """A debt goes when nothing is left of it, or its broker is given up and not registered; a request goes after the
    debts of its broker. Judged before the write is booked."""
    for operation in operations if writer.is_controller else ():
        if not isinstance(operation, Delete):
            continue
        for key, debt in debts.written(cluster):
            if key.path == operation.path and (left := list(_left(cluster, key.broker, key, debt.partitions))):
                raise Violation("forget", f"{writer.name} removes the debt {key.path}, and {left} are there")
            if key.broker == _requested(operation.path):
                raise Violation("forget", f"{writer.name} has forgotten broker {key.broker}, which owes {debt}")


def _left(cluster: Cluster, broker: BrokerId, key: DebtKey, partitions: Sequence[int]) -> Iterator[str]:
    """Directories with bytes of what was owed, under the names of replicas."""
    incarnation = cluster.ledger.by_zxid.get((key.created_zxid, key.topic))
    if incarnation is None or incarnation.topic_id is None or incarnation.removed_by is None:
        return
    if broker in incarnation.lost and broker not in cluster.registered():
        return
    for log_dir, name, directory in cluster.agents[broker].disk.directories():
        is_its_own = directory.bytes_of == incarnation.topic_id and name == str(directory.topic_partition)
        if is_its_own and directory.topic_partition.partition in partitions:
            yield f"{log_dir}/{name}"


def differences(cluster: Cluster, context: Context) -> Iterator[str]:
    """An idle controller has given up whom it was asked to, and has refused the others."""
    if context.cluster.forgotten.keys() != cluster.forgetting.in_force.keys():
        yield f"has given up {list(context.cluster.forgotten)}, asked for is {list(cluster.forgetting.in_force)}"


def all_is_answered(cluster: Cluster) -> None:
    """In the end every request was carried out or refused."""
    for broker in cluster.forgetting.in_force:
        raise Violation("forget", f"broker {broker} is neither forgotten nor the request refused")


# --- people -------------------------------------------------------------------------------------------------------


class Undertakers:
    """People who give brokers up; each method is one deed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random = Random(f"undertakers {cluster.world.seed}")

    def forget(self) -> None:
        """Give a broker up: mostly one that is down. A request that waits for its answer is joined."""
        agents = list(self._cluster.agents.values())
        down = [agent for agent in agents if not agent.alive]
        broker = self._random.choice(down if down and self._random.random() < 0.8 else agents).id
        model, path = self._cluster.ensemble.model, paths.forget(broker)
        for parent in (paths.LETHE, paths.forgets()):
            if model.node(parent) is None:
                self._cluster.ensemble.operate(Create(parent, None))
        node = model.node(path)
        if broker not in self._cluster.forgetting.in_force:
            data = GARBAGE if self._random.random() < 0.05 else znodes.encode_forget_request(ForgetRequest())
            replaced = () if node is None else (Delete(path),)
            self._cluster.ensemble.operate(*replaced, Create(path, data))

    def withdraw(self) -> None:
        """Take back a request that was not answered yet."""
        if self._cluster.forgetting.in_force:
            broker = self._random.choice(list(self._cluster.forgetting.in_force))
            self._cluster.ensemble.operate(Delete(paths.forget(broker)))
