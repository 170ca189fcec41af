"""The facts that an agent records, built in one place so that journal, log and metrics name things alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from broker.core.effects import Effect, Record
from broker.core.state import AgentState
from protocol.journal import Fact, FactType, partition_ranges
from protocol.kafka.control import ControlRequest, StopReplicaRequest, TopicError
from protocol.kafka.errors import error_name
from protocol.vocabulary import TopicPartition

MAX_TEXT: Final = 300
"""A name from the wire may be anything; more of it than this is not repeated."""


def count_errors(errors: Iterable[int]) -> dict[str, int]:
    """How often each error is among the answers, by name, in order of first appearance."""
    return {error_name(error): count for error, count in Counter(errors).items()}


def record_answers(state: AgentState, api: str, request: ControlRequest, answers: Mapping[str, int]) -> Record:
    """One fact for a request that was carried out, its answers counted by error."""
    return Record(
        Fact(
            FactType.REQUEST,
            f"broker/{state.settings.broker_id}",
            {
                "api": api,
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
