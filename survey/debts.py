"""What brokers owe, added up: the words for debts in all commands.

A debt is no leftover: the broker deletes these replicas when it returns. Its size is the one that was known when the
debt was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lethe.adapters.debts import OpenDebt
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue, partition_ranges, time_to_text
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import BrokerId, TopicId, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.survey.views import NOT_SEEN, Directory, Problem, ZooKeeperTree


@dataclass(frozen=True, slots=True)
class BrokerDebts:
    """All debts of one broker, by name and age."""

    broker: int
    debts: tuple[OpenDebt, ...]

    @property
    def partitions(self) -> int:
        return sum(len(each.debt.partitions) for each in self.debts)

    @property
    def since_ms(self) -> int:
        """When the oldest one was written."""
        return min(each.debt.since_ms for each in self.debts)

    @property
    def known_bytes(self) -> int | None:
        """Bytes of the debts whose size is known; None where none is."""
        sizes = [each.debt.size_bytes for each in self.debts if each.debt.size_bytes is not None]
        return sum(sizes) if sizes else None

    @property
    def is_sized(self) -> bool:
        """True if the size of every debt is known."""
        return all(each.debt.size_bytes is not None for each in self.debts)

    @property
    def text(self) -> str:
        """`4 partitions of 2 deleted topics, 1,234 bytes, since 2026-01-02T03:04:05.678Z`."""
        partitions, topics = counted(self.partitions, "partition"), counted(len(self.debts), "deleted topic")
        return f"{partitions} of {topics}, {self.size_text}, since {time_to_text(self.since_ms)}"

    @property
    def size_text(self) -> str:
        if self.known_bytes is None:
            return "of unknown size"
        return f"{'' if self.is_sized else 'at least '}{counted(self.known_bytes, 'byte')}"


def by_broker(debts: Iterable[OpenDebt]) -> tuple[BrokerDebts, ...]:
    """Return the debts of each broker that has any, by id."""
    found: dict[int, list[OpenDebt]] = {}
    for each in sorted(debts, key=lambda each: (each.broker, each.topic, each.created_zxid)):
        found.setdefault(each.broker, []).append(each)
    return tuple(BrokerDebts(broker, tuple(owed)) for broker, owed in found.items())


def is_disk_of_debtor(problem: Problem, debts: Iterable[OpenDebt]) -> bool:
    """Return True if the problem is that the disks of an absent broker were not seen, and one of these debts is its."""
    return any(problem == Problem(f"broker {each.broker}", NOT_SEEN) for each in debts)


class OwedDirectories:
    """The directories that debts of a survey cover.

    the directory's id     the debt's id   a topic of the name exists   owed
    ---------------------  --------------  ---------------------------  ----
    A                      A               with the id A                no: its deletion was called off, or goes on
    A                      A               no, or another one           yes
    A                      B, none         any                          no
    none, or not told      any             no                           yes
    none, or not told      any             yes                          no: it may be the new topic's
    """

    def __init__(self, tree: ZooKeeperTree) -> None:
        self._topics = tree.topics
        self._knows_topics = tree.knows_topics
        self._debts: dict[tuple[BrokerId, str], list[OpenDebt]] = {}
        for each in tree.debts:
            self._debts.setdefault((each.broker, each.topic), []).append(each)

    def debt_of(self, broker: BrokerId, directory: Directory) -> OpenDebt | None:
        """Return the debt of the broker that covers this directory; None where none does."""
        if directory.kind is not DirectoryKind.REPLICA or directory.topic_partition is None:
            return None
        topic, partition = directory.topic_partition
        for each in self._debts.get((broker, topic), ()):
            if partition in each.debt.partitions and self._is_same(topic, directory.topic_id, each.debt.topic_id):
                return each
        return None

    def _is_same(self, topic: str, found: TopicId | None, owed: TopicId | None) -> bool:
        if found is None:
            return self._knows_topics and topic not in self._topics
        living = self._topics.get(topic)
        return found == owed and (living is None or living.topic_id != owed)


def settling_text(broker: int, *, is_registered: bool | None, is_lethe: bool | None) -> str:
    """Return what becomes of the broker's debts. `is_lethe`: a controller of Lethe's is active; None: unseen.

    Kafka's controllers do nothing about debts, also where the broker is registered."""
    ask = f"lethe brokers settle {broker} has them deleted"
    match is_registered, is_lethe:
        case None, _:
            return "whether it is registered is not known"
        case True, True:
            return "it is registered, and Lethe's controller settles them unless deletions are paused"
        case True, False:
            return f"it is registered, and no controller of Lethe's is seen that settles them: {ask}"
        case False, True:
            return "they are deleted when it is back"
        case False, False:
            return f"Kafka's controllers leave them when it is back: then {ask}"
        case _:
            known = "it is registered" if is_registered else "it is not registered"
            return f"{known}, and whether a controller of Lethe's is active is not known"


def debts_lines(tree: ZooKeeperTree) -> list[str]:
    """Return a line for each broker that owes something."""
    registered = {broker.id for broker in tree.brokers}
    is_lethe = None
    if tree.could_read(paths.CONTROLLER):
        is_lethe = tree.controller is not None and tree.controller.admin is not None
    lines = []
    for owing in by_broker(tree.debts):
        is_there = True if owing.broker in registered else False if tree.knows_brokers else None
        then = settling_text(owing.broker, is_registered=is_there, is_lethe=is_lethe)
        lines.append(f"broker {owing.broker} owes {owing.text}; {then}")
    return lines


def debt_json(each: OpenDebt) -> dict[str, JsonValue]:
    """Return one debt as data."""
    debt = each.debt
    return {
        "broker": each.broker,
        "topic": each.topic,
        "topic_id": None if debt.topic_id is None else topic_id_to_text(debt.topic_id),
        "partitions": partition_ranges(debt.partitions),
        "since_ms": debt.since_ms,
        "size_bytes": debt.size_bytes,
        "path": each.path,
    }
