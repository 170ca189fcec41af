"""The checkpoint files of one log directory: read once, kept in memory, written when they have changed.

Entries of a deleted replica leave the recovery point, log start and cleaner files with the round that deleted it, the
high watermark file with its next tick, all as in Kafka. An unreadable file is left unchanged and reported.

On a full disk the files stay unchanged, and the next round or tick writes them: the deletion that frees space does not
wait for them. A stale entry is harmless: its replica does not exist any more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from lethe.broker.runtime.disk import OF_A_FULL_DISK, Disk, Refused
from lethe.protocol.kafka.disk_formats import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TEMPORARY_SUFFIX,
    decode_checkpoint,
    encode_checkpoint,
)
from lethe.protocol.vocabulary import TopicPartition

logger = logging.getLogger(__name__)

_AT_ONCE: Final = (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT)
_FILES: Final = (*_AT_ONCE, HIGH_WATERMARK_CHECKPOINT)
_MAX_BYTES: Final = 256 * 1024 * 1024


class Checkpoints:
    """The offsets of one log directory."""

    def __init__(self, place: Path) -> None:
        """`place` is the log directory, for messages."""
        self._place = place
        self._offsets: dict[str, dict[TopicPartition, int]] = {name: {} for name in _FILES}
        self._changed: dict[str, None] = {}
        self._at_once = False
        self._full = False
        """Whether the last write found no space."""

    @classmethod
    def read(cls, place: Path, fd: int, disk: Disk) -> Checkpoints:
        """Read the directory's files. Raises OSError."""
        made = cls(place)
        for name in _FILES:
            try:
                made._offsets[name] = decode_checkpoint(disk.read(fd, name, _MAX_BYTES))
            except FileNotFoundError:
                continue
            except (ValueError, Refused) as error:
                logger.warning("%s is left as it is, because it cannot be understood: %s", name, error)
                del made._offsets[name]
        return made

    @property
    def owes_at_once(self) -> bool:
        """Whether entries of deleted replicas are still in the files."""
        return self._at_once

    def put(self, topic_partition: TopicPartition, end_offset: int) -> None:
        """Add a new replica with its end offset; written with the next tick."""
        for name in (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
            if name in self._offsets:
                self._offsets[name][topic_partition] = end_offset
                self._changed[name] = None

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Drop the entries of removed replicas."""
        for topic_partition in topic_partitions:
            for name, offsets in self._offsets.items():
                if offsets.pop(topic_partition, None) is not None:
                    self._changed[name] = None
                    self._at_once = self._at_once or name in _AT_ONCE

    def write(self, fd: int, disk: Disk, *, only_at_once: bool = False) -> None:
        """Write the files that have changed, each durably; on a full disk they are owed. Raises OSError for any other
        failure."""
        for name in list(self._changed):
            if only_at_once and name not in _AT_ONCE:
                continue
            try:
                disk.replace(fd, name, name + TEMPORARY_SUFFIX, encode_checkpoint(self._offsets[name].items()))
            except OSError as error:
                if error.errno not in OF_A_FULL_DISK:
                    raise
                self._note_full(True)
                return
            del self._changed[name]
        self._at_once = False
        self._note_full(False)

    def _note_full(self, full: bool) -> None:
        if full and not self._full:
            logger.warning(
                "%s: the disk is full, so the checkpoint files are not written. Deletions continue and free space; "
                "the files are written as soon as there is space. Delete topics, or enlarge the disk",
                self._place,
            )
        elif self._full and not full:
            logger.info("%s: there is space again, the checkpoint files are written", self._place)
        self._full = full
