"""The results of a run as a JSON document, and medians of them."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from benchmarks.against_kafka.contestants import KAFKA, LETHE
from benchmarks.against_kafka.measure import TurnResult
from benchmarks.documents import Document
from benchmarks.provenance import DOCS, MEASURED, Origin

JSON_NAME: Final = "benchmarks.json"
JSON: Final = DOCS / JSON_NAME
READS_OF_A_P99: Final = 100
"""Fewer reads have no p99: it would be their greatest."""


def document(turns: Sequence[TurnResult], measured: Origin) -> Document:
    """Return all measurements of one run, each turn with its origin."""
    return {"turns": [asdict(turn) | {MEASURED: measured} for turn in turns]}


def merged(earlier: Document | None, found: Document, *, adds: bool = False) -> Document:
    """Return the turns found now, and the earlier ones of other workloads; `adds`: those of the same workloads too."""
    if earlier is None:
        return found
    again = set() if adds else {turn["workload"] for turn in found["turns"]}
    kept = [turn for turn in earlier["turns"] if turn["workload"] not in again]
    return earlier | found | {"turns": [*kept, *found["turns"]]}


# --- medians ------------------------------------------------------------------------------------------------------


class Waits(NamedTuple):
    """A bystander's latencies in one phase, in milliseconds, over its rounds."""

    median_ms: float
    """Median of the rounds' medians."""
    p99_ms: float | None
    """Median of the rounds' p99; None if a round has fewer than `READS_OF_A_P99` reads."""
    greatest_ms: float
    """The greatest of all rounds."""
    reads: int
    """Reads of the round with the fewest."""


class PhaseMedians(NamedTuple):
    """One phase of one workload and one controller: medians over its rounds."""

    seconds: float
    fastest: float
    slowest: float
    rounds: int
    zookeeper_requests: float
    bytes_per_partition: float
    control_bytes: float
    control_requests: float
    cpu_s: float
    zookeeper_mb: float | None
    """What ZooKeeper holds after the phase; None if no round has seen it."""
    bystander: Waits | None
    """What a bystander waited; None if no round has measured it."""


def workloads(found: Document) -> list[str]:
    """Return the workloads in the order in which they ran."""
    return list(dict.fromkeys(turn["workload"] for turn in found["turns"]))


def phases(found: Document, workload: str) -> list[str]:
    """Return the phases of that workload, in order."""
    named = (phase["phase"] for turn in found["turns"] if turn["workload"] == workload for phase in turn["phases"])
    return list(dict.fromkeys(named))


def row(found: Document, workload: str, phase: str, contestant: str) -> PhaseMedians | None:
    """Return the medians; None if that was not measured."""
    each = [
        measured
        for turn in found["turns"]
        if (turn["workload"], turn["contestant"]) == (workload, contestant)
        for measured in turn["phases"]
        if measured["phase"] == phase
    ]
    if not each:
        return None
    seconds = [measured["seconds"] for measured in each]
    heaps = [heap for measured in each if (heap := measured.get("zookeeper_mb")) is not None]
    seen = [found for measured in each if (found := measured.get("bystander")) is not None]
    return PhaseMedians(
        statistics.median(seconds),
        min(seconds),
        max(seconds),
        len(each),
        statistics.median(measured["zookeeper_requests"] for measured in each),
        statistics.median(measured["control_bytes"] / measured["partitions"] for measured in each),
        statistics.median(measured["control_bytes"] for measured in each),
        statistics.median(measured["control_requests"] for measured in each),
        statistics.median(measured["cpu_s"] for measured in each),
        statistics.median(heaps) if heaps else None,
        _waits(seen) if seen else None,
    )


def _waits(seen: Sequence[dict[str, float]]) -> Waits:
    middle, p99 = (statistics.median(found[name] for found in seen) for name in ("median_ms", "p99_ms"))
    reads = min(int(found["reads"]) for found in seen)
    greatest = max(found["worst_ms"] for found in seen)
    return Waits(middle, p99 if reads >= READS_OF_A_P99 else None, greatest, reads)


def ratio(found: Document, workload: str, phase: str) -> float | None:
    """Return Kafka's median time divided by Lethe's."""
    kafka, lethe = (row(found, workload, phase, name) for name in (KAFKA, LETHE))
    return None if kafka is None or lethe is None else kafka.seconds / lethe.seconds


def extra_heap_mb(found: Document, workload: str, phase: str) -> float | None:
    """Return ZooKeeper's heap after Lethe's phase less that after Kafka's, of the medians; None without one of them."""
    kafka, lethe = (row(found, workload, phase, name) for name in (KAFKA, LETHE))
    if kafka is None or lethe is None or kafka.zookeeper_mb is None or lethe.zookeeper_mb is None:
        return None
    return lethe.zookeeper_mb - kafka.zookeeper_mb


def peak_mb(found: Document, workload: str, contestant: str) -> float | None:
    """Return the peak memory over all rounds."""
    peaks = [
        turn["peak_mb"] for turn in found["turns"] if (turn["workload"], turn["contestant"]) == (workload, contestant)
    ]
    return max(peaks, default=None)


def rounds(found: Document, workload: str) -> dict[str, int]:
    """Return how many rounds of that workload each controller has."""
    return dict(Counter(turn["contestant"] for turn in found["turns"] if turn["workload"] == workload))


def origins(turns: Iterable[dict[str, Any]]) -> list[tuple[Origin, str]]:
    """Return where the turns come from: for each run and workload its origin, and a name with the number of turns."""
    found: dict[str, tuple[Origin, str, int]] = {}
    for turn in turns:
        key = json.dumps([turn[MEASURED], turn["workload"]], sort_keys=True)
        _, _, count = found.get(key, (None, None, 0))
        found[key] = turn[MEASURED], turn["workload"], count + 1
    return [
        (origin, f"{workload} ({count} turn{'s' if count > 1 else ''})") for origin, workload, count in found.values()
    ]


def loads(found: Document) -> tuple[float, float]:
    """Return the least and the greatest load average at the end of a phase, including the run's own processes."""
    each = [phase["load"] for turn in found["turns"] for phase in turn["phases"]]
    return min(each), max(each)
