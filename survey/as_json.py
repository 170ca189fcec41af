"""A survey as JSON values for scripts. Topics and directories are counted, findings are listed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from lethe.protocol.findings import Place, Standing
from lethe.protocol.journal import JsonValue
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.survey.debts import debt_json
from lethe.survey.leftovers import Leftover
from lethe.survey.views import LogDirView, Survey, printable


def survey_to_json(survey: Survey, findings: Sequence[Leftover]) -> dict[str, JsonValue]:
    """Return the whole document: what was seen, what could not be seen, what is left over. null: it was not seen."""
    return {
        "taken_at_ms": survey.taken_at_ms,
        "took_ms": survey.took_ms,
        "complete": survey.is_complete,
        "clean": survey.is_complete and not findings,
        "zookeeper": _zookeeper(survey),
        "brokers": _brokers(survey),
        "log_dirs": _log_dirs(survey),
        "debts": [debt_json(debt) for debt in survey.zookeeper.debts],
        "problems": [problem._asdict() for problem in survey.problems],
        "in_motion": [*survey.in_motion],
        "counts": counts_to_json(findings),
        "findings": [leftover_to_json(finding) for finding in findings],
    }


def counts_to_json(findings: Sequence[Leftover]) -> dict[str, JsonValue]:
    """Return the number of findings by place and standing, zeros included."""
    counts = Counter((finding.place, finding.standing) for finding in findings)
    return {place.value: {standing.code: counts[place, standing] for standing in Standing} for place in Place}


def leftover_to_json(finding: Leftover) -> dict[str, JsonValue]:
    return {
        "place": finding.place.value,
        "standing": finding.standing.code,
        "within_delay": finding.within_delay,
        "reason": finding.reason.code,
        "meaning": finding.reason.value,
        "what": printable(finding.what),
        "topic": finding.topic,
        "broker": finding.broker,
        "partition": finding.partition,
        "size_bytes": finding.size_bytes,
        "detail": finding.detail or None,
    }


def _zookeeper(survey: Survey) -> dict[str, JsonValue]:
    tree = survey.zookeeper
    sees_partitions = tree.knows_topics and not tree.unseen_topics
    return {
        "cluster_id": tree.cluster_id,
        "controller": None if tree.controller is None else tree.controller.broker_id,
        "controller_epoch": tree.controller_epoch,
        "brokers": [broker.id for broker in tree.brokers],
        "topics": len(tree.topics) if tree.knows_topics else None,
        "partitions": tree.seen_partitions if sees_partitions else None,
        "marked": [*tree.marked] if tree.knows_markers else None,
    }


def _brokers(survey: Survey) -> list[JsonValue]:
    return [
        {
            "id": answer.broker,
            "cached_topics": None if answer.cache is None else len(answer.cache),
            "controller": answer.controller,
        }
        for answer in survey.answers
    ]


def _log_dirs(survey: Survey) -> list[JsonValue]:
    found: list[JsonValue] = []
    for view in survey.log_dirs:
        kinds = Counter(directory.kind for directory in view.directories)
        found.append(
            {
                "broker": view.broker,
                "path": printable(view.path),
                "source": view.source.value,
                "problem": None if view.problem is None else printable(view.problem),
                "size_bytes": sum(directory.size_bytes for directory in view.directories),
                "directories": {kind.value: kinds[kind] for kind in DirectoryKind},
                "unknown": [*itertools.islice(_unknown(view), 20)],
            }
        )
    return found


def _unknown(view: LogDirView) -> Iterator[str]:
    return (printable(directory.name) for directory in view.directories if directory.kind is DirectoryKind.UNKNOWN)
