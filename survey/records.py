"""A survey as the rows of its files (`protocol.survey_records`), made one by one as they are written. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lethe.protocol.journal import JsonValue, time_to_text
from lethe.protocol.survey_records import DIRECTORIES, LEFTOVERS, METADATA, VERSION, ZNODES, SurveyFile, survey_id
from lethe.protocol.vocabulary import TopicId, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.survey.debts import OwedDirectories
from lethe.survey.leftovers import leftovers
from lethe.survey.views import Directory, LogDirView, Survey, TopicTree, ZooKeeperTree, printable

Row = dict[str, JsonValue]

_LAST_INSTANT_MS: Final = 253_402_300_799_999
"""The end of the year 9999. A file can have a later time, the text format cannot."""


def manifest(survey: Survey, rows: dict[str, int], checksums: dict[str, int]) -> Row:
    """Return the object of `survey.json`; `rows` and `checksums` are by file."""
    return {
        "version": VERSION,
        **_base(survey),
        "took_ms": survey.took_ms,
        "cluster_id": survey.zookeeper.cluster_id,
        "complete": survey.is_complete,
        "in_motion": [*survey.in_motion],
        "problems": [problem._asdict() for problem in survey.problems],
        "rows": {**rows},
        "checksums": {**checksums},
    }


def rows_of(file: SurveyFile, survey: Survey) -> Iterator[Row]:
    """Yield the rows of a file, each with all columns. Raises KeyError for a file without rows."""
    makers = {
        ZNODES.name: _znodes,
        METADATA.name: _metadata,
        DIRECTORIES.name: _directories,
        LEFTOVERS.name: _leftovers,
    }
    empty: Row = {**dict.fromkeys(file.column_names), **_base(survey)}
    for row in makers[file.name](survey):
        yield empty | row


def _base(survey: Survey) -> Row:
    return {"survey_id": survey_id(survey.taken_at_ms, survey.host), "taken_at": time_to_text(survey.taken_at_ms)}


# --- ZooKeeper ----------------------------------------------------------------------------------------------------


def _znodes(survey: Survey) -> Iterator[Row]:
    tree = survey.zookeeper
    for topic in tree.topics.values():
        yield from _topic(topic)
    for name in tree.marked:
        created_at = _instant(tree.marked_at_ms.get(name))
        yield {"kind": "marker", "path": paths.delete_topic(name), "topic": name, "created_at": created_at}
    for name in tree.configured:
        if tree.is_in_trash(name):
            continue
        yield {"kind": "config", "path": paths.config_topic(name), "topic": name}
    for (name, number), wanted in tree.reassigning.items():
        yield {
            "kind": "reassignment",
            "path": paths.REASSIGN_PARTITIONS,
            "topic": name,
            "partition": number,
            "replicas": [*wanted],
        }
    for broker in tree.brokers:
        path = paths.broker_id(broker.id)
        yield {"kind": "broker", "path": path, "broker": broker.id, "broker_epoch": broker.epoch}
    yield from _controller(tree)


def _controller(tree: ZooKeeperTree) -> Iterator[Row]:
    if tree.controller is not None or tree.controller_epoch is not None:
        yield {
            "kind": "controller",
            "path": paths.CONTROLLER,
            "broker": None if tree.controller is None else tree.controller.broker_id,
            "controller_epoch": tree.controller_epoch,
        }


def _topic(topic: TopicTree) -> Iterator[Row]:
    topic_id = _id(topic.topic_id)
    yield {
        "kind": "topic",
        "path": paths.topic(topic.name),
        "topic": topic.name,
        "topic_id": topic_id,
        "has_znode": topic.partition_znodes is not None,
        "is_readable": topic.assignments is not None,
        "created_at": _instant(topic.created_at_ms),
    }
    assignments = topic.assignments or {}
    for number in sorted({*assignments, *(topic.partition_znodes or ()), *topic.states}):
        assignment, state = assignments.get(number), topic.states.get(number)
        row: Row = {
            "kind": "partition",
            "path": paths.topic_partition(topic.name, number),
            "topic": topic.name,
            "topic_id": topic_id,
            "partition": number,
            "has_znode": None if topic.partition_znodes is None else number in topic.partition_znodes,
            "has_state_znode": number in topic.states,
        }
        if assignment is not None:
            row["replicas"] = [*assignment.replicas]
            row["adding"], row["removing"] = [*assignment.adding], [*assignment.removing]
        if state is not None:
            row["leader"], row["leader_epoch"], row["isr"] = state.leader, state.leader_epoch, [*state.isr]
        yield row


# --- brokers ------------------------------------------------------------------------------------------------------


def _metadata(survey: Survey) -> Iterator[Row]:
    for answer in survey.answers:
        yield {
            "kind": "broker",
            "broker": answer.broker,
            "answered": answer.cache is not None,
            "told_log_dirs": answer.log_dirs is not None,
            "failure": None if answer.failure is None else answer.failure.name.lower(),
            "controller": answer.controller,
        }
        for name, cached in (answer.cache or {}).items():
            yield {
                "kind": "topic",
                "broker": answer.broker,
                "topic": name,
                "topic_id": _id(cached.topic_id),
                "partitions": [*cached.partitions],
            }


# --- disks --------------------------------------------------------------------------------------------------------


def _directories(survey: Survey) -> Iterator[Row]:
    owed = OwedDirectories(survey.zookeeper)
    for view in survey.log_dirs:
        where: Row = {"broker": view.broker, "log_dir": printable(view.path), "source": view.source.value}
        yield where | _log_dir(view)
        for directory in view.directories:
            is_kept = survey.zookeeper.may_be_kept(directory)
            is_owed = not is_kept and owed.debt_of(view.broker, directory) is not None
            yield where | _directory(directory) | {"is_owed": is_owed, "is_kept": is_kept}


def _log_dir(view: LogDirView) -> Row:
    problem = None if view.problem is None else printable(view.problem)
    return {"kind": "log-dir", "has_failed": view.has_failed, "problem": problem}


def _directory(directory: Directory) -> Row:
    partition = directory.topic_partition
    return {
        "kind": directory.kind.value,
        "directory": printable(directory.name),
        "topic": None if partition is None else partition.topic,
        "partition": None if partition is None else partition.partition,
        "topic_id": _id(directory.topic_id),
        "size_bytes": directory.size_bytes,
        "segment_bytes": directory.segment_bytes,
        "files": directory.files,
        "newest_write": _instant(directory.newest_mtime_ms),
        "newest_segment_write": _instant(directory.newest_segment_mtime_ms),
        "problem": None if directory.problem is None else printable(directory.problem),
    }


# --- findings -----------------------------------------------------------------------------------------------------


def _leftovers(survey: Survey) -> Iterator[Row]:
    for found in leftovers(survey):
        yield {
            "place": found.place.value,
            "standing": found.standing.code,
            "reason": found.reason.code,
            "what": printable(found.what),
            "topic": found.topic,
            "broker": found.broker,
            "partition": found.partition,
            "size_bytes": found.size_bytes,
            "detail": found.detail or None,
        }


# --- words --------------------------------------------------------------------------------------------------------


def _id(topic_id: TopicId | None) -> str | None:
    return None if topic_id is None else topic_id_to_text(topic_id)


def _instant(time_ms: int | None) -> str | None:
    return None if time_ms is None or not 0 <= time_ms <= _LAST_INSTANT_MS else time_to_text(time_ms)
