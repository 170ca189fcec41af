"""The controller's memory of debts: what absent brokers still have of topics whose znodes are gone, or go next.

A *debt* is one znode `/lethe/debts/<broker>/<topic>@<czxid>`: the replicas of one incarnation of a topic on one broker.
Memory has all of them, by broker, name and czxid: they are read at the takeover, and changed by this controller's own
writes. A znode that cannot be understood is set aside: it is shown, and never paid.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lethe.controller.core.deletion_memory import DeletionProblem
from lethe.controller.core.partition_sets import Bits, bits_of
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.znodes import Debt


class _Every:
    def __contains__(self, broker: object) -> bool:
        return True


_EVERY: Final = _Every()


class DebtKey(NamedTuple):
    """Names one debt."""

    broker: BrokerId
    topic: str
    created_zxid: int

    @property
    def path(self) -> str:
        return paths.debt(*self)


@dataclass(slots=True)
class OpenDebt:
    """A debt whose znode exists, and what the broker's present incarnation has answered about it."""

    debt: Debt
    request_id: int | None = None
    """The outstanding request about it."""
    paid: Bits = 0
    """Partitions that the broker has deleted."""
    void: Bits = 0
    """Partitions of which the broker has nothing of that incarnation."""
    problem: DeletionProblem | None = None
    """The latest error that the broker or ZooKeeper answered, if any."""
    retry_at_ms: int | None = None
    """When it is tried again after that error."""
    is_kept: bool = False
    """Its topic lives and was not marked: it is void, whatever incarnation of the broker there is."""

    @property
    def settled(self) -> Bits:
        """Partitions of which the broker has nothing left to delete."""
        return self.paid | self.void

    @property
    def left(self) -> Bits:
        """Partitions that are neither paid nor void."""
        return bits_of(self.debt.partitions) & ~self.settled

    def begin_anew(self) -> None:
        """Forget what an earlier incarnation of the broker has answered."""
        self.request_id = self.retry_at_ms = self.problem = None
        self.paid = self.void = 0
        if self.is_kept:
            self.keep()

    def keep(self) -> None:
        """The topic lives and is not marked: nothing of it is to be deleted."""
        self.is_kept = True
        self.void |= self.left


class UnreadableDebt(NamedTuple):
    """A child of `/lethe/debts/<broker>` that cannot be understood or read."""

    broker: BrokerId | None
    """None: no debt of any broker could be read."""
    path: str
    reason: str
    topic: str | None
    """None: its name does not say which one."""


@dataclass(slots=True)
class Debts:
    """All debts; `debts_written` and `debts` change it."""

    by_broker: dict[BrokerId, dict[str, dict[int, OpenDebt]]] = field(default_factory=dict)
    """By broker, topic name and czxid of the topic's znode; without empty dictionaries."""
    parents: dict[BrokerId, None] = field(default_factory=dict)
    """Brokers whose znode below `/lethe/debts` exists."""
    unreadable: dict[str, UnreadableDebt] = field(default_factory=dict)
    """By path."""
    paid_count: int = 0
    """Debts that were paid in this term."""

    @property
    def debtors(self) -> Container[BrokerId]:
        """Brokers of which something may be withheld."""
        return self.by_broker if not self.unreadable else _EVERY

    def add(self, key: DebtKey, debt: Debt) -> None:
        """Store a debt whose znode was written or read."""
        by_topic = self.by_broker.setdefault(key.broker, {})
        by_topic.setdefault(key.topic, {})[key.created_zxid] = OpenDebt(debt)

    def drop(self, key: DebtKey) -> OpenDebt | None:
        """Forget a debt whose znode is gone; None if there was none."""
        by_topic = self.by_broker.get(key.broker, {})
        found = by_topic.get(key.topic, {}).pop(key.created_zxid, None)
        if not by_topic.get(key.topic, True):
            del by_topic[key.topic]
        if not by_topic:
            self.by_broker.pop(key.broker, None)
        return found

    def get(self, key: DebtKey) -> OpenDebt | None:
        return self.by_broker.get(key.broker, {}).get(key.topic, {}).get(key.created_zxid)

    def forget_incarnation(self, broker: BrokerId) -> None:
        """The broker has left or registered again: no answer of it counts any more."""
        for by_zxid in self.by_broker.get(broker, {}).values():
            for debt in by_zxid.values():
                debt.begin_anew()

    def all(self) -> Iterator[tuple[DebtKey, OpenDebt]]:
        """Yield every debt, brokers and names in the order in which they were stored."""
        for broker, by_topic in self.by_broker.items():
            for topic, by_zxid in by_topic.items():
                for created_zxid, debt in by_zxid.items():
                    yield DebtKey(broker, topic, created_zxid), debt

    def of_topic(self, topic: str) -> Iterator[tuple[DebtKey, OpenDebt]]:
        """Yield the debts of all incarnations of this name."""
        for broker in self.by_broker:
            yield from self.of_broker(broker, topic)

    def of_broker(self, broker: BrokerId, topic: str) -> Iterator[tuple[DebtKey, OpenDebt]]:
        """Yield the broker's debts of all incarnations of this name."""
        for created_zxid, debt in self.by_broker.get(broker, {}).get(topic, {}).items():
            yield DebtKey(broker, topic, created_zxid), debt

    def last_leader_epoch(self, topic: str, created_zxid: int | None = None) -> int | None:
        """Return the highest leader epoch in the debts of this name, or of one incarnation; None without debts."""
        found = (
            each.debt.last_leader_epoch
            for key, each in self.of_topic(topic)
            if created_zxid in (None, key.created_zxid)
        )
        return max(found, default=None)
