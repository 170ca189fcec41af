"""Reads log directories of this machine, without changes. Only `partition.metadata` and `meta.properties` are opened.

Symbolic links are counted as files and never followed. Kafka follows them, so a link in the place of a replica's
directory or of a segment is a problem: its target was not seen. An entry that disappears during the read is no problem;
an unreadable one is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
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
from lethe.survey.views import Directory, LogDirSource, LogDirView

_LINK: Final = "it is a symbolic link, which is not followed"
_METADATA_LIMIT_BYTES: Final = 4096


class LogDirOwner(NamedTuple):
    """Owner of a log directory, from its `meta.properties`."""

    broker: BrokerId
    cluster_id: str | None


def read_log_dir(broker: BrokerId, path: Path, topics: Collection[str] | None = None) -> LogDirView:
    """Return all entries of the log directory, by name; with `topics`, only those that may be of these topics.
    Blocking. No content makes it raise."""
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries if _may_be_of_kafka(entry))
            if topics is not None:
                names = [name for name in names if may_belong_to(name, topics)]
    except OSError as error:
        return LogDirView(broker, str(path), LogDirSource.LOCAL, problem=error.strerror or str(error))
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
    return LogDirView(broker, str(path), LogDirSource.LOCAL, tuple(found), "; ".join(problems[:3]) or None)


def _may_be_of_kafka(entry: os.DirEntry[str]) -> bool:
    """Return True for a directory, and for a link with a name that Kafka gives to directories."""
    if entry.is_symlink():
        return parse_directory_name(entry.name).topic_partition is not None
    return entry.is_dir(follow_symlinks=False)


def may_belong_to(name: str, topics: Collection[str]) -> bool:
    """Return True if a directory of that name is, or may be, of one of the topics. A name that was cut to fit a file
    system has only the start of the topic's name."""
    kind, topic_partition = parse_directory_name(name)
    if topic_partition is None:
        return False
    found = topic_partition.topic
    if found in topics or kind is DirectoryKind.REPLICA:
        return found in topics
    return any(may_be_cut(found, topic) for topic in topics)


def may_be_cut(found: str, topic: str) -> bool:
    """Return True if `found` may be the start of that topic's name, cut to fit a file system."""
    return len(found) > NEVER_CUT and topic.startswith(found)


def cut_names(topic: str) -> tuple[str, ...]:
    """Return every name that `may_be_cut` from the topic's, other than the topic's own."""
    return tuple(topic[:length] for length in range(NEVER_CUT + 1, len(topic)))


def is_owned_by(path: Path, broker: BrokerId, cluster_id: str | None) -> bool:
    """Return True if `meta.properties` of this directory names this broker of this cluster. Then the broker's path is
    this directory, and not one of the same name on another machine. Blocking; never raises."""
    try:
        meta = _meta_properties(path)
    except (OSError, ValueError):
        return False
    return cluster_id is not None and (meta.broker_id, meta.cluster_id) == (broker, cluster_id)


def with_answers(local: Sequence[LogDirView], told: Sequence[LogDirView]) -> list[LogDirView]:
    """Return the local views with the brokers' answers about the same directories, then the other answers.

    read locally             the broker answers       result
    3 replicas               the same 3 replicas      the local view
    3 replicas               KAFKA_STORAGE_ERROR      the local view, failed
    Permission denied        3 replicas               the 3 replicas, and the local problem
    """
    answers = {(view.broker, view.path): view for view in told}
    mine = {(view.broker, view.path) for view in local}
    merged = [_with_answer(view, answers.get((view.broker, view.path))) for view in local]
    return [*merged, *(view for view in told if (view.broker, view.path) not in mine)]


def _with_answer(mine: LogDirView, told: LogDirView | None) -> LogDirView:
    if told is None:
        return mine
    if told.has_failed:
        return replace(mine, problem=told.problem, has_failed=True)
    return replace(mine, directories=told.directories) if mine.problem and not mine.directories else mine


class UnknownOwner(ValueError):
    """The owner of a log directory is unknown; the message says why, and what helps."""


def owner_of(path: Path) -> LogDirOwner:
    """Return the owner of a log directory of this machine, from its `meta.properties`. Blocking. Raises
    UnknownOwner."""
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
    return LogDirOwner(BrokerId(meta.broker_id), meta.cluster_id)


def _meta_properties(path: Path) -> MetaProperties:
    """Raises OSError, and ValueError for malformed content."""
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
    """Yield all files at any depth, links included. The flag is True for a segment of the directory itself, or a link
    in its place."""
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
    """Return the topic id in the file, and what is wrong with the file. Clusters without topic ids have no such
    file."""
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
