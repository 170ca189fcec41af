"""An agent's disk: what outlives its process.

Each directory knows what a real one would (the id in its `partition.metadata`) and what a real one would not: whose
bytes it truly holds. A log directory that is broken fails every operation in it and keeps what it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lethe.broker.core.effects import (
    AssignTopicId,
    CreateReplica,
    DirectoryRef,
    DiskOperation,
    FillReplica,
    QuarantineDirectory,
    RenameForDeletion,
)
from lethe.broker.core.inputs import (
    DiskOutcome,
    FoundDirectory,
    FoundLogDir,
    FoundReplica,
    InventoryLoaded,
    RemovalOutcome,
)
from lethe.protocol.kafka.directory_names import DirectoryKind, ParsedName, parse_directory_name
from lethe.protocol.vocabulary import TopicId, TopicPartition

SEGMENT_BYTES = 4096


@dataclass(slots=True, eq=False)
class Directory:
    """A replica's directory, whatever it is called."""

    topic_partition: TopicPartition
    topic_id: TopicId | None
    bytes_of: TopicId | None
    """Whose bytes it holds; None for a directory that nobody ever identified."""
    size_bytes: int = SEGMENT_BYTES
    files: int = 4
    foreign: bool = False
    """It was put here by hand."""


class LogDir(dict[str, Directory]):
    """The directories of one log directory by name, found by whose bytes they hold as well."""

    def __init__(self) -> None:
        super().__init__()
        self._of: dict[TopicId | None, dict[str, None]] = {}

    def of(self, topic_id: TopicId) -> Iterable[str]:
        """Return the names of the directories with bytes of this topic."""
        return self._of.get(topic_id, ())

    def __setitem__(self, name: str, directory: Directory) -> None:
        self.pop(name, None)
        super().__setitem__(name, directory)
        self._of.setdefault(directory.bytes_of, {})[name] = None

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove and return a directory."""
        if name in self:
            names = self._of[self[name].bytes_of]
            del names[name]
            if not names:
                del self._of[self[name].bytes_of]
        return super().pop(name, *default)


@dataclass(slots=True)
class Disk:
    """The log directories of one broker, with their directories by name."""

    log_dirs: dict[str, LogDir]
    broken: dict[str, str] = field(default_factory=dict)
    refused_something: bool = False
    """An operation failed that left its log directory usable; as with Kafka, only a restart helps."""

    def inventory(self) -> InventoryLoaded:
        """What an agent finds at its start."""
        return InventoryLoaded(tuple(self._found(log_dir) for log_dir in self.log_dirs))

    def perform(self, operation: DiskOperation, *, refuse: bool = False) -> DiskOutcome:
        """One operation: done at once and as a whole, or not at all."""
        if error := self.broken.get(operation.log_dir):
            return DiskOutcome(error, log_dir_failed=True)
        if refuse:
            self.refused_something = True
            return DiskOutcome("Permission denied")
        directories = self.log_dirs[operation.log_dir]
        name = str(operation.topic_partition)
        there = directories.get(name)
        match operation:
            case CreateReplica(_, topic_partition, topic_id):
                if there is not None and there.files:
                    return DiskOutcome("the directory is there already")
                directories[name] = Directory(topic_partition, topic_id, topic_id, size_bytes=0, files=0)
            case FillReplica(_, _, topic_id):
                if there is None or there.topic_id != topic_id or there.files:
                    return DiskOutcome("there is no such directory, or it has another id, or it holds something")
                there.size_bytes, there.files = SEGMENT_BYTES, 4
                return DiskOutcome(size_bytes=there.size_bytes, files=there.files)
            case AssignTopicId(_, _, topic_id):
                if there is None or there.topic_id is not None:
                    return DiskOutcome("there is no such directory, or it has an id")
                there.topic_id = topic_id
            case RenameForDeletion(_, _, topic_id, new_name):
                if there is None or there.topic_id != topic_id:
                    return DiskOutcome("there is no such directory, or it has another id")
                directories[new_name] = directories.pop(name)
            case QuarantineDirectory(_, _, new_name):
                if there is None:
                    return DiskOutcome("there is no such directory")
                directories[new_name] = directories.pop(name)
        return DiskOutcome()

    def remove(self, ref: DirectoryRef) -> RemovalOutcome:
        """Remove a directory with all it holds."""
        if error := self.broken.get(ref.log_dir):
            return RemovalOutcome(error, log_dir_failed=True)
        gone = self.log_dirs[ref.log_dir].pop(ref.name, None)
        return RemovalOutcome(None) if gone is None else RemovalOutcome(None, gone.size_bytes, gone.files)

    def repair(self) -> None:
        """Log directories work again. Where a replica lies in one that failed and, under the same topic id, in another
        one too, the repairer moves the former away, as the agent and Kafka ask for: nobody else can decide that. So
        does who has restored a backup beside a replica, or who finds several of them."""
        for log_dir in self.broken:
            for name, each in list(self.log_dirs[log_dir].items()):
                elsewhere = (names.get(name) for other, names in self.log_dirs.items() if other != log_dir)
                if any(there is not None and there.topic_id == each.topic_id is not None for there in elsewhere):
                    del self.log_dirs[log_dir][name]
        for topic_partition in {each.topic_partition: None for _, _, each in self.directories()}:
            name = str(topic_partition)
            holders = [names for names in self.log_dirs.values() if name in names]
            for names in sorted(holders, key=lambda names: not names[name].foreign)[: len(holders) - 1]:
                if names[name].foreign:
                    del names[name]
        self.broken.clear()
        self.refused_something = False

    def directories(self) -> list[tuple[str, str, Directory]]:
        """All of them: log directory, name, directory."""
        return [(log_dir, name, each) for log_dir, names in self.log_dirs.items() for name, each in names.items()]

    def replica(self, topic_partition: TopicPartition) -> Directory | None:
        """The directory under the replica's own name, in the first log directory that has one."""
        name = str(topic_partition)
        return next((names[name] for names in self.log_dirs.values() if name in names), None)

    def _found(self, log_dir: str) -> FoundLogDir:
        if error := self.broken.get(log_dir):
            return FoundLogDir(log_dir, error)
        replicas: list[FoundReplica] = []
        deleted: list[FoundDirectory] = []
        stray: list[FoundDirectory] = []
        unknown: list[FoundDirectory] = []
        lists = {DirectoryKind.DELETED: deleted, DirectoryKind.STRAY: stray}
        for name, each in sorted(self.log_dirs[log_dir].items()):
            parsed = kind_of(name)
            if parsed.kind is DirectoryKind.REPLICA and parsed.topic_partition is not None:
                replicas.append(FoundReplica(parsed.topic_partition, each.topic_id, True, each.size_bytes, each.files))
            else:
                lists.get(parsed.kind, unknown).append(FoundDirectory(name, each.size_bytes, each.files, each.topic_id))
        return FoundLogDir(log_dir, None, tuple(replicas), tuple(deleted), tuple(stray), tuple(unknown))


@lru_cache(maxsize=10_000)
def kind_of(name: str) -> ParsedName:
    """What a directory of that name is."""
    return parse_directory_name(name)
