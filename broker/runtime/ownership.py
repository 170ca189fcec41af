"""Ownership of a log directory: the lock against a second process, and `meta.properties`.

Kafka locks `.lock` with a POSIX record lock, which does not keep out a second opener in the same process; a BSD lock
does. Both are taken, so that neither a Kafka broker nor another agent can share a directory.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lethe.adapters.properties import decode_text, parse_properties
from lethe.broker.runtime.disk import Disk, Refused
from lethe.protocol.kafka.disk_formats import (
    LOCK_FILE,
    META_PROPERTIES,
    TEMPORARY_SUFFIX,
    MetaProperties,
    decode_meta_properties,
    encode_meta_properties,
)

_MAX_META_BYTES: Final = 64 * 1024


class CannotStart(Exception):
    """The agent cannot start; the message names the cause and the remedy."""


@dataclass(slots=True)
class Ownership:
    """A claimed log directory."""

    path: Path
    fd: int
    lock_fd: int
    meta: MetaProperties | None

    def release(self) -> None:
        """Release the lock and the descriptors."""
        os.close(self.lock_fd)
        os.close(self.fd)


def claim(path: Path, disk: Disk, broker_id: int) -> Ownership:
    """Open and lock the directory, and check that it belongs to this broker. Raises CannotStart, or OSError for an
    unusable directory."""
    fd = disk.open_directory(path)
    try:
        lock_fd = disk.open_lock(fd, LOCK_FILE)
        try:
            _lock(lock_fd, path)
            return Ownership(path, fd, lock_fd, _read_meta(path, fd, disk, broker_id))
        except BaseException:
            os.close(lock_fd)
            raise
    except BaseException:
        os.close(fd)
        raise


def require_cluster(ownership: Ownership, cluster_id: str) -> None:
    """Check that the directory belongs to this cluster or is unmarked. Raises CannotStart."""
    meta = ownership.meta
    where = ownership.path / META_PROPERTIES
    if meta is not None and meta.cluster_id not in (None, cluster_id):
        raise CannotStart(
            f"{where} says that the directory belongs to cluster {meta.cluster_id}, but ZooKeeper says that this is "
            f"cluster {cluster_id}; connect to the right ZooKeeper (zookeeper.connect), or use other log.dirs"
        )


def identify(ownership: Ownership, disk: Disk, broker_id: int, cluster_id: str) -> None:
    """Mark an unmarked directory as this broker's, after `require_cluster`. Raises OSError."""
    meta = ownership.meta
    wanted = MetaProperties(broker_id, cluster_id, () if meta is None else meta.others)
    if meta != wanted:
        temporary = META_PROPERTIES + TEMPORARY_SUFFIX
        disk.replace(ownership.fd, META_PROPERTIES, temporary, encode_meta_properties(wanted))
        ownership.meta = wanted


def _lock(lock_fd: int, path: Path) -> None:
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        raise CannotStart(
            f"another process is using the log directory {path} (it holds {path / LOCK_FILE}); "
            "stop it, or give this agent log.dirs of its own"
        ) from error


def _read_meta(path: Path, fd: int, disk: Disk, broker_id: int) -> MetaProperties | None:
    where = path / META_PROPERTIES
    try:
        text = decode_text(disk.read(fd, META_PROPERTIES, _MAX_META_BYTES))
    except FileNotFoundError:
        return None
    except Refused as refused:
        raise CannotStart(f"{where}: {refused}; move it away and look at what is in the directory") from refused
    found, _ = parse_properties(text, str(where))
    try:
        meta = decode_meta_properties({name: setting.value for name, setting in found.items()})
    except ValueError as error:
        raise CannotStart(f"{where} cannot be used: {error}; use other log.dirs, or repair the file") from error
    if meta.broker_id not in (None, broker_id):
        raise CannotStart(
            f"{where} says that the directory belongs to broker {meta.broker_id}, but the configuration says "
            f"broker.id={broker_id}; set broker.id={meta.broker_id}, or use other log.dirs"
        )
    return meta
