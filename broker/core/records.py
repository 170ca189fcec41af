"""The event records that an agent records, built in one place, so that journal, log and metrics use the same names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from lethe.broker.core.effects import DirectoryRef, Effect, Record
from lethe.broker.core.inputs import FoundDebt, RemovalOutcome
from lethe.broker.core.state import AgentState
from lethe.protocol.journal import EventRecord, EventRecordType, JsonValue, partition_ranges
from lethe.protocol.journal_debts import PAID
from lethe.protocol.kafka.control import ControlRequest, StopReplicaRequest, TopicError, api_of
from lethe.protocol.kafka.directory_names import parse_directory_name
from lethe.protocol.kafka.errors import error_name
from lethe.protocol.vocabulary import TopicId, TopicPartition, topic_id_to_text

MAX_TEXT: Final = 300
"""Characters of a name from the wire that are repeated; such a name may have any length."""


def id_text(topic_id: TopicId | None) -> str | None:
    """Return a topic id as text for an event record."""
    return None if topic_id is None else topic_id_to_text(topic_id)


def count_errors(errors: Iterable[int]) -> dict[str, int]:
    """How often each error is among the answers, by name, in order of first appearance."""
    return {error_name(error): count for error, count in Counter(errors).items()}


def record_answers(state: AgentState, request: ControlRequest, answers: Mapping[str, int]) -> Record:
    """One event record for a performed request, its answers counted by error."""
    return Record(
        EventRecord(
            EventRecordType.REQUEST,
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
    """One event record for a partition that could not be served, with the reason."""
    return Record(
        EventRecord(
            EventRecordType.REFUSAL,
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
    """One event record for a refused request."""
    return Record(
        EventRecord(EventRecordType.REFUSAL, f"broker/{state.settings.broker_id}", {"what": api, "why": why, **data})
    )


def record_paid(state: AgentState, found: FoundDebt) -> Record:
    """The event record of a debt of which nothing is left here, as a controller writes it."""
    size: dict[str, JsonValue] = {} if found.size_bytes is None else {"size_bytes": found.size_bytes}
    return Record(
        EventRecord(
            EventRecordType.DEBT,
            f"topic/{found.topic}",
            {
                "what": PAID,
                "broker": state.settings.broker_id,
                "topic_id": id_text(found.topic_id),
                "created_zxid": found.created_zxid,
                "partitions": partition_ranges(found.partitions),
                "owed_since_ms": found.since_ms,
                **size,
            },
        )
    )


def record_debts(state: AgentState, debts: int, settled: int, directories: int) -> Record:
    """One event record for what was owed at the start; the controller settles the rest."""
    return Record(
        EventRecord(
            EventRecordType.BROKER,
            f"broker/{state.settings.broker_id}",
            {"happened": "debts read", "debts": debts, "settled": settled, "renamed": directories},
        )
    )


def record_deletions(
    state: AgentState,
    request: StopReplicaRequest,
    answers: Iterable[TopicError],
    meant: Mapping[TopicPartition, TopicId | None],
    deleted: Mapping[TopicPartition, TopicId | None],
) -> list[Effect]:
    """The acknowledged deletions, one event record per topic, incarnation and error, partitions in ranges.

    `deleted` are the partitions that had a directory, which is renamed now, with its id; of all others the id is that
    of the incarnation that was meant."""
    asked = {
        TopicPartition(topic.topic, partition.partition)
        for topic in request.topics
        for partition in topic.partitions
        if partition.delete
    }
    grouped: dict[tuple[str, TopicId | None, int], list[int]] = {}
    for topic, partition, error in answers:
        topic_partition = TopicPartition(topic, partition)
        if topic_partition in asked:
            topic_id = deleted.get(topic_partition) or meant.get(topic_partition)
            grouped.setdefault((topic, topic_id, error), []).append(partition)
    return [
        Record(
            EventRecord(
                EventRecordType.ACK,
                f"topic/{topic[:MAX_TEXT]}",
                {
                    "topic_id": id_text(topic_id),
                    "broker": state.settings.broker_id,
                    "controller_epoch": request.controller_epoch,
                    "delete": True,
                    "partitions": partition_ranges(partitions),
                    "error": error_name(error),
                },
            )
        )
        for (topic, topic_id, error), partitions in grouped.items()
    ]


def record_removals(
    state: AgentState,
    directories: Iterable[DirectoryRef],
    topic_ids: Iterable[TopicId | None],
    outcomes: Iterable[RemovalOutcome],
) -> list[Effect]:
    """The results of a round of removals, one event record per log directory, topic, incarnation and
    error."""
    grouped: dict[tuple[str, str, TopicId | None, str | None], list[tuple[int, RemovalOutcome]]] = {}
    for directory, topic_id, outcome in zip(directories, topic_ids, outcomes, strict=True):
        parsed = parse_directory_name(directory.name).topic_partition
        topic, partition = parsed if parsed is not None else (directory.name, 0)
        grouped.setdefault((directory.log_dir, topic, topic_id, outcome.error), []).append((partition, outcome))
    return [
        Record(
            EventRecord(
                EventRecordType.BYTES_FREED,
                f"broker/{state.settings.broker_id}",
                {
                    "log_dir": log_dir,
                    "topic": topic,
                    "topic_id": id_text(topic_id),
                    "partitions": partition_ranges(partition for partition, _ in removed),
                    "directories": len(removed),
                    "size_bytes": sum(outcome.size_bytes for _, outcome in removed),
                    "files": sum(outcome.files for _, outcome in removed),
                    "error": error,
                },
            )
        )
        for (log_dir, topic, topic_id, error), removed in grouped.items()
    ]
