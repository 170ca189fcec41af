"""A replica's directory: made, and given its topic id. Like `filling`, only `broker.runtime.log_dirs` calls it."""

from __future__ import annotations

from broker.core.formats import PARTITION_METADATA, TEMPORARY_SUFFIX, encode_partition_metadata
from broker.runtime.disk import OF_A_FULL_DISK, Disk, Refused
from broker.runtime.inventory import count_stored
from protocol.vocabulary import TopicId


def make_replica(disk: Disk, fd: int, name: str, topic_id: TopicId | None) -> None:
    """Make the directory, or take over an empty one, and write the id where there is one; nothing is synced.

    Raises Refused where something is stored there, and OSError. Where the disk is full, a new directory is removed
    again.
    """
    try:
        disk.mkdir(fd, name)
    except FileExistsError:
        _demand_nothing_stored(disk, fd, name)
        if topic_id is not None:
            write_topic_id(disk, fd, name, topic_id)
        return
    try:
        if topic_id is not None:
            write_topic_id(disk, fd, name, topic_id)
    except OSError as error:
        if error.errno in OF_A_FULL_DISK:
            disk.rmdir(fd, name)
        raise


def write_topic_id(disk: Disk, fd: int, name: str, topic_id: TopicId) -> None:
    """Write `partition.metadata` in one step. Raises OSError; a full disk leaves no temporary file."""
    temporary = PARTITION_METADATA + TEMPORARY_SUFFIX
    with disk.directory(fd, name) as inside:
        try:
            disk.write(inside, temporary, encode_partition_metadata(topic_id))
            disk.rename(inside, temporary, PARTITION_METADATA)
        except OSError as error:
            if error.errno in OF_A_FULL_DISK:
                disk.unlink(inside, temporary, missing_ok=True)
            raise


def _demand_nothing_stored(disk: Disk, fd: int, name: str) -> None:
    disk.demand_directory(fd, name)
    with disk.directory(fd, name) as inside:
        stored = count_stored(disk.entries(inside))
    if stored:
        raise Refused(f"{name} exists already and holds {stored} files")
