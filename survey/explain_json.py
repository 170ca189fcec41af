"""Explanations as JSON values for scripts. docs/explain.md describes the format, which has a version."""

from __future__ import annotations

from collections.abc import Sequence

from lethe.protocol.journal import JsonValue
from lethe.survey.causes import ObservedCause, sentence, unblock
from lethe.survey.debts import debt_json
from lethe.survey.evidence import Evidence
from lethe.survey.explain import Explanation
from lethe.survey.replicas import Replica

VERSION = 1


def explanations_to_json(evidence: Evidence, found: Sequence[Explanation], *, replicas: bool) -> dict[str, JsonValue]:
    """Return the whole document. `complete`: all that was examined could be seen. Without `replicas`, replicas are only
    counted."""
    survey, reported = evidence.survey, evidence.reported
    controller = survey.zookeeper.controller
    return {
        "version": VERSION,
        "at_ms": survey.taken_at_ms,
        "took_ms": survey.took_ms,
        "complete": survey.is_complete,
        "controller": {
            "id": None if controller is None else controller.broker_id,
            "epoch": survey.zookeeper.controller_epoch,
            "told": reported.is_known,
            "problem": reported.problem,
        },
        "owed": [
            {
                "broker": owing.broker,
                "topic_count": owing.topic_count,
                "topics": [*owing.topics],
                "since_ms": owing.since_ms,
                "last_error": owing.last_error,
            }
            for owing in reported.owed or ()
        ],
        "debts": [debt_json(debt) for debt in survey.zookeeper.debts],
        "topics": [_topic(each, survey.taken_at_ms, replicas=replicas) for each in found],
        "problems": [problem._asdict() for problem in survey.problems],
    }


def _topic(each: Explanation, now_ms: int, *, replicas: bool) -> JsonValue:
    return {
        "topic": each.topic,
        "verdict": each.verdict.name.lower(),
        "marked_since_ms": each.marked_since_ms,
        "phase": each.phase,
        "remote_storage": each.is_tiered,
        "causes": [cause_to_json(cause, each.topic, now_ms) for cause in each.causes],
        "replica_count": len(each.replicas),
        "replicas_done": sum(replica.is_done for replica in each.replicas),
        "replicas": [_replica(replica, each.topic) for replica in each.replicas] if replicas else [],
    }


def cause_to_json(cause: ObservedCause, topic: str, now_ms: int) -> dict[str, JsonValue]:
    return {
        "cause": cause.kind.code,
        "sentence": sentence(cause, topic, now_ms),
        "unblock": unblock(cause, topic),
        "broker": cause.broker,
        "partitions": [*cause.partitions],
        "path": cause.path,
        "since_ms": cause.since_ms,
        "attempts": cause.attempts,
        "detail": cause.detail,
    }


def _replica(replica: Replica, topic: str) -> JsonValue:
    cause = replica.cause
    return {
        "partition": replica.partition,
        "broker": replica.broker,
        "state": replica.state,
        "seen": replica.seen.name.lower(),
        "waiting_for": None if cause is None else cause.kind.code,
        "since_ms": None if cause is None else cause.since_ms,
        "attempts": 0 if cause is None else cause.attempts,
        "last_error": replica.last_error,
        "next_try_ms": replica.next_try_ms,
        "unblock": None if cause is None else unblock(cause, topic),
    }
