"""What brokers would owe if topics were deleted now without waiting for those that are not registered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.broker_loads import unreadable_registrations
from lethe.admin.partition_views import PartitionViews, view_partitions
from lethe.protocol.counting import counted
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import TopicPartition
from lethe.survey.brokers import AskAbout, QueryScope, ask_all


@dataclass(frozen=True, slots=True)
class ExpectedDebt:
    """What one broker would owe."""

    broker: int
    partitions: tuple[TopicPartition, ...]
    sizes: Mapping[TopicPartition, int]
    """Bytes of those of which another replica was seen."""

    @property
    def text(self) -> str:
        """`broker 3, which is not registered, will owe 4 partitions of 2 topics (about 1,234 bytes, …)`."""
        topics = counted(len({partition.topic for partition in self.partitions}), "topic")
        owed = f"broker {self.broker}, which is not registered, will owe {counted(len(self.partitions), 'partition')}"
        return f"{owed} of {topics} ({self._size_text})"

    @property
    def _size_text(self) -> str:
        if not self.sizes:
            return "no other replica was seen, so their size is unknown"
        unknown = len(self.partitions) - len(self.sizes)
        more = f"; the size of {unknown} is unknown" if unknown else ""
        return f"about {counted(sum(self.sizes.values()), 'byte')}, as their other replicas{more}"


@dataclass(frozen=True, slots=True)
class DebtForecast:
    """Expected debts by broker. `unseen` are topics whose replicas are not known, with the reason."""

    debts: tuple[ExpectedDebt, ...]
    unseen: Mapping[str, str]

    def lines(self) -> tuple[str, ...]:
        """Return what to tell before the topics are marked."""
        unseen = tuple(f"which brokers have topic {name} is not known: {why}" for name, why in self.unseen.items())
        if self.debts or unseen:
            return (*(debt.text for debt in self.debts), *unseen)
        return ("every broker with a replica is registered: nothing will be owed, unless one fails meanwhile",)


async def forecast(session: ZooKeeperSession, names: Collection[str], ask: AskAbout | None) -> DebtForecast:
    """Return what would be owed of these topics; sizes only with `ask`. Raises NoCluster."""
    views = await view_partitions(session, names)
    registered = {*views.brokers, *unreadable_registrations(views)}
    absent: dict[int, list[TopicPartition]] = {}
    for partition, assignment in views.assignments.items():
        for broker in assignment.replicas:
            if broker not in registered:
                absent.setdefault(int(broker), []).append(partition)
    wanted = {partition for partitions in absent.values() for partition in partitions}
    sizes = await _sizes(views, wanted, ask) if ask is not None and wanted else {}
    return DebtForecast(
        tuple(
            ExpectedDebt(broker, tuple(partitions), {each: sizes[each] for each in partitions if each in sizes})
            for broker, partitions in sorted(absent.items())
        ),
        {name: why for name, why in views.problems.items() if name in names},
    )


async def _sizes(views: PartitionViews, wanted: Collection[TopicPartition], ask: AskAbout) -> dict[TopicPartition, int]:
    """Return the bytes of the largest replica that a registered broker reports."""
    partitions: dict[str, list[int]] = {}
    for topic, partition in sorted(wanted):
        partitions.setdefault(topic, []).append(partition)
    about = ask(QueryScope(frozenset(partitions), partitions))
    sizes: dict[TopicPartition, int] = {}
    for answers in await ask_all(list(views.brokers.values()), about):
        for view in answers.log_dirs or ():
            for directory in view.directories:
                replica = directory.topic_partition
                if replica in wanted and replica is not None and directory.kind is DirectoryKind.REPLICA:
                    sizes[replica] = max(sizes.get(replica, 0), directory.size_bytes)
    return sizes
