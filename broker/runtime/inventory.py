"""Read the content of a log directory. Changes nothing, follows no link."""

from __future__ import annotations

import logging
import stat
from typing import Final

from lethe.broker.core.inputs import FoundDirectory, FoundLogDir, FoundReplica
from lethe.broker.runtime.disk import Disk, Entry, Refused
from lethe.protocol.kafka.directory_names import DirectoryKind, parse_directory_name
from lethe.protocol.kafka.disk_formats import (
    LOG_SUFFIX,
    PARTITION_METADATA,
    TEMPORARY_SUFFIX,
    decode_partition_metadata,
)
from lethe.protocol.vocabulary import TopicId, TopicPartition

logger = logging.getLogger(__name__)

_MAX_METADATA_BYTES: Final = 4096


def read_inventory(log_dir: str, fd: int, disk: Disk) -> FoundLogDir:
    """Return every directory in the log directory, and every other entry with a replica's name. Raises OSError."""
    replicas: list[FoundReplica] = []
    deleted: list[FoundDirectory] = []
    stray: list[FoundDirectory] = []
    unknown: list[FoundDirectory] = []
    lists = {DirectoryKind.DELETED: deleted, DirectoryKind.STRAY: stray}
    for entry in disk.entries(fd):
        parsed = parse_directory_name(entry.name)
        if not stat.S_ISDIR(entry.mode):
            if parsed.kind not in (DirectoryKind.UNKNOWN, DirectoryKind.FUTURE):
                logger.warning("%s/%s has a replica's name but is no directory; it is left alone", log_dir, entry.name)
                unknown.append(FoundDirectory(entry.name, 0, 1))
            continue
        with disk.directory(fd, entry.name) as inside:
            content = disk.entries(inside)
        size_bytes = sum(e.size_bytes for e in content if stat.S_ISREG(e.mode))
        if parsed.kind is DirectoryKind.REPLICA and parsed.topic_partition is not None:
            replicas.append(_replica(fd, parsed.topic_partition, content, size_bytes, disk))
        else:
            topic_id = _id_of_deleted(fd, entry.name, content, disk) if parsed.kind is DirectoryKind.DELETED else None
            lists.get(parsed.kind, unknown).append(FoundDirectory(entry.name, size_bytes, len(content), topic_id))
    return FoundLogDir(log_dir, None, tuple(replicas), tuple(deleted), tuple(stray), tuple(unknown))


def read_topic_id(fd: int, name: str, disk: Disk) -> tuple[TopicId | None, bool]:
    """Return the id in a replica's `partition.metadata`, None without such a file; and whether it could be read.

    An unreadable file in an otherwise empty directory counts as none: its write was cut off, and nothing was ever
    stored under that id. Raises OSError, and Refused where the replica is no directory.
    """
    with disk.directory(fd, name) as inside:
        try:
            return decode_partition_metadata(disk.read(inside, PARTITION_METADATA, _MAX_METADATA_BYTES)), True
        except FileNotFoundError:
            return None, True
        except (ValueError, Refused) as error:
            if count_stored(disk.entries(inside)) == 0:
                return None, True
            logger.warning("%s/%s cannot be understood: %s", name, PARTITION_METADATA, error)
            return None, False


def _id_of_deleted(fd: int, name: str, content: list[Entry], disk: Disk) -> TopicId | None:
    """The topic id of a directory that waits for its removal; for the record only, so failures are ignored."""
    if all(entry.name != PARTITION_METADATA for entry in content):
        return None
    try:
        return read_topic_id(fd, name, disk)[0]
    except (OSError, Refused):
        return None


def count_stored(content: list[Entry]) -> int:
    """The number of entries of a replica besides its identity."""
    return sum(entry.name not in (PARTITION_METADATA, PARTITION_METADATA + TEMPORARY_SUFFIX) for entry in content)


def _replica(
    fd: int, topic_partition: TopicPartition, content: list[Entry], size_bytes: int, disk: Disk
) -> FoundReplica:
    topic_id, readable = read_topic_id(fd, str(topic_partition), disk)
    segment_bytes = sum(e.size_bytes for e in content if stat.S_ISREG(e.mode) and e.name.endswith(LOG_SUFFIX))
    return FoundReplica(topic_partition, topic_id, readable, size_bytes, count_stored(content), segment_bytes)
