"""A survey as the rows that are kept of it, by bronze table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipeline import schemas
from protocol.vocabulary import TopicId, topic_id_to_text
from protocol.zookeeper import paths
from survey.views import DirectoryKind, Survey, TopicTree

Row = dict[str, Any]
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def frame(spark: SparkSession, schema: StructType, rows: list[Row]) -> DataFrame:
    """The rows; what a row does not name is null."""
    return spark.createDataFrame([tuple(row.get(name) for name in schema.fieldNames()) for row in rows], schema)


class Rows:
    """Rows of many surveys, by table."""

    def __init__(self) -> None:
        self.surveys: list[Row] = []
        self.znodes: list[Row] = []
        self.metadata: list[Row] = []
        self.inventory: list[Row] = []

    def add(self, survey_id: str, survey: Survey) -> None:
        head = {"survey_id": survey_id, "taken_at": instant(survey.taken_at_ms), "day": _day(survey.taken_at_ms)}
        self.surveys.append(
            {
                **head,
                "took_ms": survey.took_ms,
                "cluster_id": survey.zookeeper.cluster_id,
                "complete": survey.is_complete,
                "in_motion": [*survey.in_motion],
                "problems": [tuple(problem) for problem in survey.problems],
            }
        )
        self.znodes += ({**head, **row} for row in _znodes(survey))
        self.metadata += ({**head, **row} for row in _metadata(survey))
        self.inventory += ({**head, **row} for row in _inventory(survey))

    def frames(self, spark: SparkSession) -> tuple[DataFrame, DataFrame, DataFrame, DataFrame]:
        """SURVEYS, ZNODE_SNAPSHOT, BROKER_METADATA, AGENT_INVENTORY."""
        return (
            frame(spark, schemas.SURVEYS, self.surveys),
            frame(spark, schemas.ZNODE_SNAPSHOT, self.znodes),
            frame(spark, schemas.BROKER_METADATA, self.metadata),
            frame(spark, schemas.AGENT_INVENTORY, self.inventory),
        )


def _day(ms: int) -> date:
    return instant(ms).date()


def _text(topic_id: TopicId | None) -> str | None:
    return None if topic_id is None else topic_id_to_text(topic_id)


def _znodes(survey: Survey) -> Iterator[Row]:
    tree = survey.zookeeper
    for topic in tree.topics.values():
        yield {
            "kind": "topic",
            "path": paths.topic(topic.name),
            "topic": topic.name,
            "topic_id": _text(topic.topic_id),
            "is_readable": topic.assignments is not None,
            "has_znode": topic.partition_znodes is not None,
            "created_at": instant(0),
        }
        yield from _partitions(topic)
    for name in tree.marked:
        yield {"kind": "marker", "path": paths.delete_topic(name), "topic": name}
    for name in tree.configured:
        yield {"kind": "config", "path": paths.config_topic(name), "topic": name}
    for (name, number), replicas in tree.reassigning.items():
        place = {"kind": "reassignment", "path": paths.REASSIGN_PARTITIONS, "topic": name, "partition": number}
        yield {**place, "replicas": [*replicas]}
    for broker in tree.brokers:
        yield {"kind": "broker", "path": paths.broker_id(broker.id), "broker": broker.id, "broker_epoch": broker.epoch}


def _partitions(topic: TopicTree) -> Iterator[Row]:
    below = topic.partition_znodes
    for number in sorted({*(topic.assignments or ()), *(below or ()), *topic.states}):
        assignment, state = (topic.assignments or {}).get(number), topic.states.get(number)
        yield {
            "kind": "partition",
            "path": paths.topic_partition(topic.name, number),
            "topic": topic.name,
            "partition": number,
            "replicas": None if assignment is None else [*assignment.replicas],
            "adding": None if assignment is None else [*assignment.adding],
            "removing": None if assignment is None else [*assignment.removing],
            "leader": None if state is None else state.leader,
            "isr": None if state is None else [*state.isr],
            "has_znode": None if below is None else number in below,
            "has_state_znode": number in topic.states,
        }


def _metadata(survey: Survey) -> Iterator[Row]:
    for answer in survey.answers:
        yield {
            "kind": "broker",
            "broker": answer.broker,
            "answered": answer.cache is not None,
            "told_log_dirs": answer.log_dirs is not None,
            "controller": answer.controller,
        }
        for name, cached in (answer.cache or {}).items():
            partitions = [*cached.partitions]
            yield {
                "kind": "topic",
                "broker": answer.broker,
                "topic": name,
                "topic_id": _text(cached.topic_id),
                "partitions": partitions,
            }


def _inventory(survey: Survey) -> Iterator[Row]:
    for view in survey.log_dirs:
        place = {"broker": view.broker, "log_dir": view.path, "source": view.source.value}
        yield {**place, "kind": "log-dir", "has_failed": view.has_failed, "problem": view.problem}
        for found in view.directories:
            topic, partition = found.topic_partition or (None, None)
            assert (topic is None) == (found.kind is DirectoryKind.UNKNOWN)
            yield {
                **place,
                "kind": found.kind.value,
                "directory": found.name,
                "topic": topic,
                "partition": partition,
                "topic_id": _text(found.topic_id),
                "size_bytes": found.size_bytes,
                "files": found.files,
                "problem": found.problem,
            }
