"""Segments for an empty replica: files in Kafka's layout that occupy their bytes and hold no records."""

from __future__ import annotations

from collections.abc import Sequence

from lethe.broker.core.inputs import DiskOutcome
from lethe.broker.runtime.disk import Disk, Refused
from lethe.broker.runtime.inventory import count_stored, read_topic_id
from lethe.protocol.counting import counted
from lethe.protocol.kafka.disk_formats import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    encode_leader_epochs,
    segment_name,
)
from lethe.protocol.vocabulary import TopicId


def require_empty(disk: Disk, fd: int, name: str, topic_id: TopicId | None) -> None:
    """Check that the directory belongs to that incarnation and is empty. Raises Refused, OSError."""
    if not disk.exists(fd, name):
        raise Refused(f"{name} was to be filled, but another process has removed it")
    found, readable = read_topic_id(fd, name, disk)
    if not readable or found != topic_id:
        raise Refused(f"{name} is not the incarnation that it was: it says {found}, known was {topic_id}")
    with disk.directory(fd, name) as inside:
        stored = count_stored(disk.entries(inside))
    if stored:
        raise Refused(f"{name} was to be filled, but it holds {counted(stored, 'file')} already")


def require_nothing_stored(disk: Disk, fd: int, name: str) -> None:
    """Check that a new replica can take over the directory. Raises Refused, OSError."""
    disk.require_directory(fd, name)
    with disk.directory(fd, name) as inside:
        stored = count_stored(disk.entries(inside))
    if stored:
        raise Refused(f"{name} exists already and holds {counted(stored, 'file')}")


def fill_with_segments(disk: Disk, inside: int, segments: Sequence[int], made: list[str]) -> DiskOutcome:
    """Make segments of these sizes in the replica's directory; without sizes create nothing. `made` gets
    each name before its file is created. Raises OSError."""
    if not segments:
        return DiskOutcome()
    epochs = encode_leader_epochs([(0, 0)])
    made.append(LEADER_EPOCH_CHECKPOINT)
    disk.write(inside, LEADER_EPOCH_CHECKPOINT, epochs)
    size_bytes = len(epochs)
    for index, segment_bytes in enumerate(segments):
        for suffix in SEGMENT_SUFFIXES:
            allocated = segment_bytes if suffix == LOG_SUFFIX else 0
            made.append(segment_name(index, suffix))
            disk.allocate(inside, made[-1], allocated)
            size_bytes += allocated
    return DiskOutcome(size_bytes=size_bytes, files=len(made), segment_bytes=sum(segments))
