"""The log directories: the one file in which the agent creates, renames or removes anything on disk.

How nothing outside a log directory can be touched:

* Every call goes through a directory's open descriptor (`dir_fd`) and a single name, which
  `protocol.kafka.directory_names` has recognised before: so it has no slash and is no `.` or `..`.
* Below a log directory no link is ever followed (O_NOFOLLOW, lstat); an operation on a link instead of a directory
  is refused. Only the path of the log directory itself may contain links, because the operator chose it.
* Each round first checks that the path still leads to the opened directory.

What survives a crash: an operation is one mkdir or one rename. A topic id is on disk before the first byte of a
segment is written; a rename is on disk before it is acknowledged. Large rounds are synced with one `syncfs` per
directory, small ones file by file.

An OSError takes its log directory offline, as in Kafka, with three exceptions: errors about one entry (of an unexpected
type), about this process (out of descriptors), or about a full disk. Without space one operation fails and the rest
continues, because deletions free the disk (docs/decisions/0048-a-full-disk.md).

Everything here blocks. It runs on two worker threads: one for removals, one for the rest.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from lethe.broker.core.effects import (
    AssignTopicId,
    CreateReplica,
    DirectoryRef,
    DiskOperation,
    FillReplica,
    QuarantineDirectory,
    RenameForDeletion,
)
from lethe.broker.core.inputs import DiskOutcome, FoundLogDir
from lethe.broker.runtime.checkpoints import Checkpoints
from lethe.broker.runtime.disk import OF_A_FULL_DISK, Disk, Refused, explain
from lethe.broker.runtime.filling import fill_with_segments, require_empty, require_nothing_stored
from lethe.broker.runtime.inventory import read_inventory, read_topic_id
from lethe.broker.runtime.ownership import CannotStart, Ownership, claim, identify, require_cluster
from lethe.protocol.kafka.directory_names import DirectoryKind, directory_name, parse_directory_name
from lethe.protocol.kafka.disk_formats import (
    CLEAN_SHUTDOWN_MARKER,
    PARTITION_METADATA,
    RECORDS_PER_SEGMENT,
    TEMPORARY_SUFFIX,
    encode_partition_metadata,
    segment_sizes,
)
from lethe.protocol.vocabulary import TopicId

logger = logging.getLogger(__name__)

OF_THIS_PROCESS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})
SMALL_ROUND: Final = 16
"""Maximum number of new replicas per log directory that are synced file by file."""
MAX_DEPTH: Final = 8


class Space(NamedTuple):
    total_bytes: int
    usable_bytes: int


class Removed(NamedTuple):
    """Progress of the removal of one directory."""

    files: int
    size_bytes: int
    finished: bool
    error: str | None = None
    log_dir_failed: bool = False


class _OpenDir:
    """A log directory that works."""

    def __init__(self, path: Path, ownership: Ownership) -> None:
        self.path = path
        self.ownership = ownership
        self.checkpoints = Checkpoints(path)

    @property
    def fd(self) -> int:
        return self.ownership.fd


class LogDirs:
    """All log directories of one agent. `open`, `load`, then the rest, then `close`."""

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        broker_id: int,
        fill_bytes: int,
        fill_segment_bytes: int,
        disk: Disk | None = None,
    ) -> None:
        self._paths = tuple(paths)
        self._broker_id = broker_id
        self._segments = segment_sizes(fill_bytes, fill_segment_bytes)
        self._disk = disk or Disk()
        self._open: dict[str, _OpenDir] = {}
        self._failed: dict[str, str] = {}
        self._lost: list[_OpenDir] = []

    # --- start and stop -------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Create missing directories and claim all of them. One that cannot be used counts as failed from the start.

        Raises CannotStart if another process holds one of them, or if one belongs to another broker.
        """
        for path in self._paths:
            try:
                self._disk.make_directories(path)
                self._open[str(path)] = _OpenDir(path, claim(path, self._disk, self._broker_id))
            except OSError as error:
                self._failed[str(path)] = explain(error)
            except CannotStart:
                self.close()
                raise

    def load(self, cluster_id: str) -> tuple[FoundLogDir, ...]:
        """Check that the directories are this cluster's, mark unmarked ones, and read what is in them.

        Raises CannotStart if one belongs to another cluster. Then no directory is marked, because a mark would bind it
        to the wrong cluster.
        """
        for claimed in self._open.values():
            require_cluster(claimed.ownership, cluster_id)
        found: list[FoundLogDir] = []
        for path in self._paths:
            name = str(path)
            if (opened := self._open.get(name)) is None:
                found.append(FoundLogDir(name, self._failed[name]))
                continue
            try:
                identify(opened.ownership, self._disk, self._broker_id, cluster_id)
                self._disk.unlink(opened.fd, CLEAN_SHUTDOWN_MARKER, missing_ok=True)
                opened.checkpoints = Checkpoints.read(path, opened.fd, self._disk)
                found.append(read_inventory(name, opened.fd, self._disk))
            except OSError as error:
                self._fail(name, explain(error))
                found.append(FoundLogDir(name, self._failed[name]))
        return tuple(found)

    def close(self) -> None:
        """Write outstanding checkpoints and release the directories."""
        self.write_checkpoints()
        for opened in (*self._open.values(), *self._lost):
            opened.ownership.release()
        self._open.clear()
        self._lost.clear()

    @property
    def failed(self) -> dict[str, str]:
        """Log directory → why it cannot be used."""
        return dict(self._failed)

    # --- rounds of operations -------------------------------------------------------------------------------------

    def perform(self, operations: Sequence[DiskOperation]) -> tuple[DiskOutcome, ...]:
        """Perform the operations in order, one outcome each; the guarantees are at the top of the module."""
        outcomes: list[DiskOutcome] = [DiskOutcome()] * len(operations)
        by_log_dir: dict[str, list[int]] = {}
        for index, operation in enumerate(operations):
            by_log_dir.setdefault(operation.log_dir, []).append(index)
        for log_dir, indexes in by_log_dir.items():
            done = self._perform_in(log_dir, [operations[index] for index in indexes])
            for index, outcome in zip(indexes, done, strict=True):
                outcomes[index] = outcome
        return tuple(outcomes)

    def _perform_in(self, log_dir: str, operations: Sequence[DiskOperation]) -> list[DiskOutcome]:
        opened = self._open.get(log_dir)
        if opened is None:
            reason = self._failed.get(log_dir, "it is none of the agent's log directories")
            return [DiskOutcome(reason, log_dir in self._failed)] * len(operations)
        outcomes: list[DiskOutcome] = [DiskOutcome()] * len(operations)
        try:
            self._disk.verify(opened.fd, opened.path)
            for index, operation in enumerate(operations):
                try:
                    self._prepare(opened.fd, operation)
                except Refused as refused:
                    outcomes[index] = DiskOutcome(str(refused))
                except OSError as error:
                    if error.errno not in OF_A_FULL_DISK:
                        raise
                    outcomes[index] = DiskOutcome(explain(error))
            done = [op for op, outcome in zip(operations, outcomes, strict=True) if outcome.error is None]
            self._sync_round(opened, done)
            for index, operation in enumerate(operations):
                if outcomes[index].error is None:
                    outcomes[index] = self._complete(opened, operation)
            done = [op for op, outcome in zip(operations, outcomes, strict=True) if outcome.error is None]
            self._update_checkpoints(opened, done)
        except Refused as refused:
            return [DiskOutcome(str(refused))] * len(operations)
        except OSError as error:
            if error.errno in OF_THIS_PROCESS:
                return [DiskOutcome(explain(error))] * len(operations)
            self._fail(log_dir, explain(error))
            return [DiskOutcome(explain(error), log_dir_failed=True)] * len(operations)
        return outcomes

    def _prepare(self, fd: int, operation: DiskOperation) -> None:
        """The part of an operation that comes before the round is synced."""
        name = directory_name(operation.topic_partition)
        match operation:
            case CreateReplica(topic_id=topic_id):
                self._make_replica(fd, name, topic_id)
            case FillReplica(topic_id=topic_id):
                require_empty(self._disk, fd, name, topic_id)
            case AssignTopicId(topic_id=topic_id):
                found, readable = read_topic_id(fd, name, self._disk)
                if found is not None or not readable:
                    raise Refused(f"{name} has a partition.metadata already")
                self._write_topic_id(fd, name, topic_id)
            case RenameForDeletion(topic_id=topic_id, new_name=new_name):
                _demand(new_name, DirectoryKind.DELETED)
                if not self._disk.exists(fd, name):
                    logger.warning("%s was to be deleted, but another process has removed it already", name)
                    return
                found, readable = read_topic_id(fd, name, self._disk)
                if not readable or found != topic_id:
                    raise Refused(f"{name} is not the incarnation that it was: it says {found}, known was {topic_id}")
                self._disk.rename(fd, name, new_name)
            case QuarantineDirectory(new_name=new_name):
                _demand(new_name, DirectoryKind.STRAY)
                self._disk.require_directory(fd, name)
                self._disk.rename(fd, name, new_name)

    def _make_replica(self, fd: int, name: str, topic_id: TopicId | None) -> None:
        """Make the directory, or take over an empty one; on a full disk a new one is removed again."""
        is_new = True
        try:
            self._disk.mkdir(fd, name)
        except FileExistsError:
            require_nothing_stored(self._disk, fd, name)
            is_new = False
        if topic_id is None:
            return
        try:
            self._write_topic_id(fd, name, topic_id)
        except OSError as error:
            if error.errno in OF_A_FULL_DISK and is_new:
                self._disk.rmdir(fd, name)
            raise

    def _write_topic_id(self, fd: int, name: str, topic_id: TopicId) -> None:
        temporary = PARTITION_METADATA + TEMPORARY_SUFFIX
        with self._disk.directory(fd, name) as inside:
            self._disk.write_whole(inside, PARTITION_METADATA, temporary, encode_partition_metadata(topic_id))

    def _fill(self, fd: int, name: str) -> DiskOutcome:
        """Fill an empty replica; on a full disk empty it again."""
        made: list[str] = []
        with self._disk.directory(fd, name) as inside:
            try:
                return fill_with_segments(self._disk, inside, self._segments, made)
            except OSError as error:
                if error.errno not in OF_A_FULL_DISK:
                    raise
                for each in made:
                    self._disk.unlink(inside, each, missing_ok=True)
                return DiskOutcome(explain(error))

    def _sync_round(self, opened: _OpenDir, done: Sequence[DiskOperation]) -> None:
        """Sync everything that the answers acknowledge."""
        identified = [op for op in done if isinstance(op, CreateReplica | AssignTopicId) and op.topic_id is not None]
        if len(identified) > SMALL_ROUND:
            self._disk.sync_file_system(opened.fd)
            return
        for operation in identified:
            with self._disk.directory(opened.fd, directory_name(operation.topic_partition)) as inside:
                self._disk.sync_file(inside, PARTITION_METADATA)
                self._disk.sync_directory(inside)
        if not all(isinstance(op, FillReplica) for op in done):
            self._disk.sync_directory(opened.fd)

    def _complete(self, opened: _OpenDir, operation: DiskOperation) -> DiskOutcome:
        """The part after the sync: write segments, which are ballast and not synced."""
        match operation:
            case CreateReplica(topic_id=topic_id) | AssignTopicId(topic_id=topic_id):
                return DiskOutcome(size_bytes=0 if topic_id is None else len(encode_partition_metadata(topic_id)))
            case FillReplica(topic_partition=topic_partition):
                return self._fill(opened.fd, directory_name(topic_partition))
            case _:
                return DiskOutcome()

    def _update_checkpoints(self, opened: _OpenDir, done: Sequence[DiskOperation]) -> None:
        """Update the checkpoint files: removed replicas at once, new ones with the next tick."""
        gone = [op.topic_partition for op in done if isinstance(op, RenameForDeletion | QuarantineDirectory)]
        opened.checkpoints.drop(gone)
        end_offset = len(self._segments) * RECORDS_PER_SEGMENT
        for operation in done:
            if isinstance(operation, CreateReplica | FillReplica):
                filled = isinstance(operation, FillReplica)
                opened.checkpoints.put(operation.topic_partition, end_offset if filled else 0)
        if opened.checkpoints.owes_at_once:
            opened.checkpoints.write(opened.fd, self._disk, only_at_once=True)

    # --- periodic work ---------------------------------------------------------------------------------------------

    def write_checkpoints(self) -> dict[str, str]:
        """Write the checkpoint files that have changed, and check that the directories still exist. Return the missing
        ones: log directory → why."""
        lost: dict[str, str] = {}
        for log_dir, opened in list(self._open.items()):
            try:
                self._disk.verify(opened.fd, opened.path)
                opened.checkpoints.write(opened.fd, self._disk)
            except OSError as error:
                if error.errno not in OF_THIS_PROCESS:
                    lost[log_dir] = explain(error)
                    self._fail(log_dir, lost[log_dir])
        return lost

    def space(self) -> dict[str, Space]:
        """Size and free space of each working directory's file system."""
        found: dict[str, Space] = {}
        for log_dir, opened in list(self._open.items()):
            try:
                volume = os.fstatvfs(opened.fd)
            except OSError:
                continue
            found[log_dir] = Space(volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize)
        return found

    def _fail(self, log_dir: str, reason: str) -> None:
        """Take the directory out of use. Its lock is kept, because its content still belongs to this broker."""
        self._failed.setdefault(log_dir, reason)
        opened = self._open.pop(log_dir, None)
        if opened is not None:
            self._lost.append(opened)

    # --- removal --------------------------------------------------------------------------------------------------

    def remove(self, directory: DirectoryRef, max_files: int) -> Removed:
        """Remove up to `max_files` entries of a directory that was renamed for deletion, then the directory itself.

        A missing directory counts as finished. Only names that end in `-delete` are accepted.
        """
        opened = self._open.get(directory.log_dir)
        if opened is None:
            reason = self._failed.get(directory.log_dir, "it is none of the agent's log directories")
            return Removed(0, 0, False, reason, directory.log_dir in self._failed)
        counted = [0, 0]
        finished, error, failed = False, None, False
        try:
            _demand(directory.name, DirectoryKind.DELETED)
            self._disk.verify(opened.fd, opened.path)
            if self._disk.exists(opened.fd, directory.name):
                finished = self._empty(opened.fd, directory.name, max_files, counted, 0)
                if finished:
                    self._disk.rmdir(opened.fd, directory.name)
            else:
                finished = True
        except Refused as refused:
            error = str(refused)
        except OSError as raised:
            error, failed = explain(raised), raised.errno in (errno.EIO, errno.EROFS, errno.ENODEV)
            if failed:
                self._fail(directory.log_dir, error)
        return Removed(counted[0], counted[1], finished, error, failed)

    def _empty(self, parent: int, name: str, max_files: int, counted: list[int], depth: int) -> bool:
        """Remove the content. Return False if the allowance was used up before the end. Links are unlinked, never
        followed; a directory on another file system, or nested too deeply, is refused."""
        with self._disk.directory(parent, name) as inside:
            if os.fstat(inside).st_dev != os.fstat(parent).st_dev:
                raise Refused(f"{name} is a mount point, which is not removed")
            for entry in self._disk.entries(inside):
                if counted[0] >= max_files:
                    return False
                if stat.S_ISDIR(entry.mode):
                    if depth >= MAX_DEPTH:
                        raise Refused(f"{name} is nested more than {MAX_DEPTH} directories deep")
                    if not self._empty(inside, entry.name, max_files, counted, depth + 1):
                        return False
                    self._disk.rmdir(inside, entry.name)
                else:
                    self._disk.unlink(inside, entry.name, missing_ok=True)
                    counted[1] += entry.size_bytes if entry.links == 1 and stat.S_ISREG(entry.mode) else 0
                counted[0] += 1
        return True


def _demand(name: str, kind: DirectoryKind) -> None:
    if parse_directory_name(name).kind is not kind:
        raise Refused(f"{name!r} is not the name of a directory that is {kind.value}")
