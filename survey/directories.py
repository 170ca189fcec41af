"""Log directories of this machine, read without changing anything; only `partition.metadata` and `meta.properties` are
opened.

Links are counted as files and never followed. Kafka follows them, so one in the place of a replica's directory or of a
segment is a problem: what it leads to was not seen. What vanishes while it is read was on its way out, which is no
problem; what cannot be read is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from lethe.adapters.properties import decode_text, parse_properties
from lethe.protocol.kafka.directory_names import NEVER_CUT, DirectoryKind, parse_directory_name
from lethe.protocol.kafka.disk_formats import (
    LOG_SUFFIX,
    META_PROPERTIES,
    PARTITION_METADATA,
    MetaProperties,
    decode_meta_properties,
    decode_partition_metadata,
)
from lethe.protocol.vocabulary import BrokerId, TopicId
from lethe.survey.views import Directory, LogDirView, Source

_LINK: Final = "it is a symbolic link, which is not followed"
_METADATA_LIMIT_BYTES: Final = 4096


class Owner(NamedTuple):
    """What a log directory says of whose it is."""

    broker: BrokerId
    cluster_id: str | None


def read_log_dir(broker: BrokerId, path: Path, topics: Collection[str] | None = None) -> LogDirView:
    """Everything that is directly in it, by name; with `topics` only what is, or may be, of one of these. Blocking;
    never raises for what it finds."""
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries if _may_be_of_kafka(entry))
            if topics is not None:
                names = [name for name in names if is_about(name, topics)]
    except OSError as error:
        return LogDirView(broker, str(path), Source.LOCAL, problem=error.strerror or str(error))
    found, problems = [], []
    for name in names:
        try:
            directory = _read_directory(path, name)
        except FileNotFoundError:
            continue  # removed since it was listed
        except OSError as error:
            kind, topic_partition = parse_directory_name(name)
            directory = Directory(name, kind, topic_partition, problem=error.strerror or str(error))
        found.append(directory)
        if directory.problem is not None:
            problems.append(f"{name}: {directory.problem}")
    return LogDirView(broker, str(path), Source.LOCAL, tuple(found), "; ".join(problems[:3]) or None)


def _may_be_of_kafka(entry: os.DirEntry[str]) -> bool:
    """A directory, or a link that Kafka would take for one of its own if it leads to one."""
    if entry.is_symlink():
        return parse_directory_name(entry.name).topic_partition is not None
    return entry.is_dir(follow_symlinks=False)


def is_about(name: str, topics: Collection[str]) -> bool:
    """Whether a directory of that name is of one of the topics, or may be: of a name that has been cut to fit a file
    system, only the start is known."""
    kind, topic_partition = parse_directory_name(name)
    if topic_partition is None:
        return False
    found = topic_partition.topic
    if found in topics or kind is DirectoryKind.REPLICA:
        return found in topics
    return any(may_be_cut(found, topic) for topic in topics)


def may_be_cut(found: str, topic: str) -> bool:
    """Whether a directory's name, cut to fit a file system, may have begun as that topic's."""
    return len(found) > NEVER_CUT and topic.startswith(found)


def is_owned_by(path: Path, broker: BrokerId, cluster_id: str | None) -> bool:
    """True where the directory is on this machine and its `meta.properties` names this broker of this cluster: then the
    path that the broker told is this directory, and not one of the same name elsewhere. Blocking; never raises."""
    try:
        meta = _meta_properties(path)
    except (OSError, ValueError):
        return False
    return cluster_id is not None and (meta.broker_id, meta.cluster_id) == (broker, cluster_id)


class UnknownOwner(ValueError):
    """It cannot be told whose a log directory is; the message says why, and what helps."""


def owner_of(path: Path) -> Owner:
    """Whose log directory of this machine it is, by its `meta.properties`. Blocking. Raises UnknownOwner."""
    if not path.is_dir():
        what = "is no directory" if path.exists() else "is not there"
        raise UnknownOwner(f"the log directory {path} {what}")
    remedy = f"name the owner, as BROKER={path}"
    try:
        meta = _meta_properties(path)
    except FileNotFoundError:
        raise UnknownOwner(f"{path} has no {META_PROPERTIES} that says which broker's it is; {remedy}") from None
    except OSError as error:
        raise UnknownOwner(f"{path}/{META_PROPERTIES} cannot be read: {error.strerror or error}; {remedy}") from error
    except ValueError as error:
        raise UnknownOwner(f"{path}/{META_PROPERTIES} cannot be understood: {error}; {remedy}") from error
    if meta.broker_id is None:
        raise UnknownOwner(f"{path}/{META_PROPERTIES} names no broker.id; {remedy}")
    return Owner(BrokerId(meta.broker_id), meta.cluster_id)


def _meta_properties(path: Path) -> MetaProperties:
    """Raises OSError, and ValueError for what cannot be understood."""
    with open(path / META_PROPERTIES, "rb") as file:
        found, _ = parse_properties(decode_text(file.read(_METADATA_LIMIT_BYTES)), META_PROPERTIES)
    return decode_meta_properties({name: setting.value for name, setting in found.items()})


def _read_directory(log_dir: Path, name: str) -> Directory:
    kind, topic_partition = parse_directory_name(name)
    itself = os.lstat(log_dir / name)
    if stat.S_ISLNK(itself.st_mode):
        return Directory(name, kind, topic_partition, problem=_LINK)
    size_bytes, files, newest_ns = 0, 0, itself.st_mtime_ns
    segment_bytes, newest_segment_ns, has_links = 0, None, False
    for file, is_segment in _files(log_dir / name):
        size_bytes += file.st_size
        files += 1
        newest_ns = max(newest_ns, file.st_mtime_ns)
        if is_segment and stat.S_ISLNK(file.st_mode):
            has_links = True
        elif is_segment:
            segment_bytes += file.st_size
            newest_segment_ns = max(newest_segment_ns or 0, file.st_mtime_ns)
    topic_id, problem = _topic_id(log_dir / name / PARTITION_METADATA)
    if problem is None and has_links:
        problem = f"a segment of it: {_LINK}"
    return Directory(
        name,
        kind,
        topic_partition,
        size_bytes,
        topic_id,
        files,
        newest_ns // 1_000_000,
        problem,
        segment_bytes,
        None if newest_segment_ns is None else newest_segment_ns // 1_000_000,
        itself.st_ctime_ns // 1_000_000,
    )


def _files(directory: Path, depth: int = 0) -> Iterator[tuple[os.stat_result, bool]]:
    """All files at any depth, links included; and whether each is a segment, or a link in the place of one, which lies
    in the directory itself."""
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    yield from _files(Path(entry.path), depth + 1)
                else:
                    is_file = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
                    yield status, depth == 0 and entry.name.endswith(LOG_SUFFIX) and is_file
            except FileNotFoundError:
                continue  # removed since it was listed


def _topic_id(path: Path) -> tuple[TopicId | None, str | None]:
    """What the file says, and what is wrong with it. A replica of a cluster without topic ids has none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, None
    try:
        data = os.read(descriptor, _METADATA_LIMIT_BYTES)
    finally:
        os.close(descriptor)
    try:
        return decode_partition_metadata(data), None
    except ValueError as error:
        return None, f"{PARTITION_METADATA}: {error}"
