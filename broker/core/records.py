"""The facts that an agent records, built in one place so that journal, log and metrics name things alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from broker.core.effects import DirectoryRef, Effect, Record
from broker.core.inputs import RemovalOutcome
from broker.core.naming import parse_directory_name
from broker.core.state import AgentState
from protocol.journal import Fact, FactType, partition_ranges
from protocol.kafka.control import ControlRequest, StopReplicaRequest, TopicError, api_of
from protocol.kafka.errors import error_name
from protocol.vocabulary import TopicPartition

MAX_TEXT: Final = 300
"""A name from the wire may be anything; more of it than this is not repeated."""


def count_errors(errors: Iterable[int]) -> dict[str, int]:
    """How often each error is among the answers, by name, in order of first appearance."""
    return {error_name(error): count for error, count in Counter(errors).items()}


def record_answers(state: AgentState, request: ControlRequest, answers: Mapping[str, int]) -> Record:
    """One fact for a request that was carried out, its answers counted by error."""
    return Record(
        Fact(
            FactType.REQUEST,
            f"broker/{state.settings.broker_id}",
            {
                "api": api_of(request).name,
                "controller": request.controller_id,
                "controller_epoch": request.controller_epoch,
                "topics": len(request.topics),
                "partitions": sum(answers.values()),
                "answers": dict(answers),
            },
        )
    )


def record_problem(state: AgentState, api: str, topic_partition: TopicPartition, problem: str) -> Record:
    """A partition of a request could not be served, for a reason that is worth a line of its own."""
    return Record(
        Fact(
            FactType.REFUSAL,
            f"broker/{state.settings.broker_id}",
            {
                "what": api,
                "why": problem,
                "topic": topic_partition.topic[:MAX_TEXT],
                "partition": topic_partition.partition,
            },
        )
    )


def record_refusal(state: AgentState, api: str, why: str, data: Mapping[str, int]) -> Record:
    """A whole request was refused."""
    return Record(Fact(FactType.REFUSAL, f"broker/{state.settings.broker_id}", {"what": api, "why": why, **data}))


def record_deletions(state: AgentState, request: StopReplicaRequest, answers: Iterable[TopicError]) -> list[Effect]:
    """What was acknowledged, one fact per topic and error, partitions in ranges."""
    deleted = {
        TopicPartition(topic.topic, partition.partition)
        for topic in request.topics
        for partition in topic.partitions
        if partition.delete
    }
    grouped: dict[tuple[str, int], list[int]] = {}
    for topic, partition, error in answers:
        if TopicPartition(topic, partition) in deleted:
            grouped.setdefault((topic, error), []).append(partition)
    return [
        Record(
            Fact(
                FactType.ACK,
                f"topic/{topic[:MAX_TEXT]}",
                {
                    "broker": state.settings.broker_id,
                    "controller_epoch": request.controller_epoch,
                    "delete": True,
                    "partitions": partition_ranges(partitions),
                    "error": error_name(error),
                },
            )
        )
        for (topic, error), partitions in grouped.items()
    ]


def record_removals(
    state: AgentState, directories: Iterable[DirectoryRef], outcomes: Iterable[RemovalOutcome]
) -> list[Effect]:
    """What a round of removals freed and what it could not, one fact per log directory, topic and error."""
    grouped: dict[tuple[str, str, str | None], list[tuple[int, RemovalOutcome]]] = {}
    for directory, outcome in zip(directories, outcomes, strict=True):
        parsed = parse_directory_name(directory.name).topic_partition
        topic, partition = parsed if parsed is not None else (directory.name, 0)
        grouped.setdefault((directory.log_dir, topic, outcome.error), []).append((partition, outcome))
    return [
        Record(
            Fact(
                FactType.BYTES_FREED,
                f"broker/{state.settings.broker_id}",
                {
                    "log_dir": log_dir,
                    "topic": topic,
                    "partitions": partition_ranges(partition for partition, _ in removed),
                    "directories": len(removed),
                    "size_bytes": sum(outcome.size_bytes for _, outcome in removed),
                    "files": sum(outcome.files for _, outcome in removed),
                    "error": error,
                },
            )
        )
        for (log_dir, topic, error), removed in grouped.items()
    ]
