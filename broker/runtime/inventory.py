"""Reading what is in a log directory. Changes nothing, follows no link."""

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
    """Everything in the log directory that is a directory, or has a name that only one should have. Raises OSError."""
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
    """The id in a replica's `partition.metadata`, None where there is no such file; and whether it could be read.

    An unreadable file counts as none where the directory holds nothing else: the writing of it was cut off, and under
    that id nothing was ever stored. Raises OSError, and Refused where the replica is no directory.
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
    """Whose bytes a directory holds that waits for its removal: for the record alone, so that no failure counts."""
    if all(entry.name != PARTITION_METADATA for entry in content):
        return None
    try:
        return read_topic_id(fd, name, disk)[0]
    except (OSError, Refused):
        return None


def count_stored(content: list[Entry]) -> int:
    """How many of a replica's entries are more than its identity."""
    return sum(entry.name not in (PARTITION_METADATA, PARTITION_METADATA + TEMPORARY_SUFFIX) for entry in content)


def _replica(
    fd: int, topic_partition: TopicPartition, content: list[Entry], size_bytes: int, disk: Disk
) -> FoundReplica:
    topic_id, readable = read_topic_id(fd, str(topic_partition), disk)
    segment_bytes = sum(e.size_bytes for e in content if stat.S_ISREG(e.mode) and e.name.endswith(LOG_SUFFIX))
    return FoundReplica(topic_partition, topic_id, readable, size_bytes, count_stored(content), segment_bytes)
