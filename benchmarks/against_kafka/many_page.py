"""The section of docs/benchmarks.md about Lethe's controller with many agents as processes."""

from __future__ import annotations

from typing import Final

from benchmarks.against_kafka import results
from benchmarks.against_kafka.contestants import LETHE
from benchmarks.against_kafka.plan import MANY_BROKERS, TARGET_P99_MS, Phase, wanted_p99
from benchmarks.documents import Document
from benchmarks.provenance import Origin, told

JSON_NAME: Final = "benchmarks-agents.json"
METHOD: Final = """\
As above, with agents as processes on the machine of the controller, which they keep busy: times are upper bounds. With
several rounds, figures are medians, but the most memory and the greatest latency; one round has no spread. "MB to
agents" are the bytes of control requests that all agents received together. Heap is in MB, latency in ms. Kafka's
controller was not measured with these agents, so the extra heap has no verdict here. A broker fails by SIGKILL; the
time counts from the end of its session.
`make bench BENCH="--workloads fifty,fifty-directories --runs 1"`."""
_COLUMNS: Final = (
    *("rounds", "seconds", "processor", "ZooKeeper requests", "requests to agents", "MB to agents", "ZooKeeper's heap"),
    "bystander's median/p99/greatest (reads)",
)
LARGE_OF_MANY: Final = MANY_BROKERS["fifty"].name
_NOT_RUN: Final = ("Kafka", "Java")
"""Not shown among the versions: Lethe's controller runs alone."""


def page(found: Document) -> str:
    """Return the section as Markdown."""
    least, greatest = results.loads(found)
    return "\n".join(
        [
            "## Lethe's controller with many agents",
            "",
            *told(map(_without_kafka, results.origins(found["turns"])), "processor", "memory", "disk"),
            "",
            f"Load average at the ends of phases: {least:.1f} to {greatest:.1f}, all that the machine did included.",
            "",
            *_table(found),
            "",
            f"Most memory of the controller: {_peaks(found)}.",
            "",
            *_wanted(found),
            METHOD,
            "",
        ]
    )


def _without_kafka(named: tuple[Origin, str]) -> tuple[Origin, str]:
    origin, name = named
    versions = {of: version for of, version in origin["versions"].items() if of not in _NOT_RUN}
    return origin | {"versions": versions}, name


def _table(found: Document) -> list[str]:
    lines = [f"|||{'|'.join(_COLUMNS)}|", "|---|---|" + "---:|" * len(_COLUMNS)]
    for workload in results.workloads(found):
        for phase in results.phases(found, workload):
            row = results.row(found, workload, phase, LETHE)
            if row is not None:
                lines.append(f"|{workload}|{phase}|{'|'.join(_cells(row))}|")
    return lines


def _cells(row: results.PhaseMedians) -> list[str]:
    return [
        f"{row.rounds}",
        f"{row.seconds:.2f}",
        f"{row.cpu_s:.2f}",
        f"{row.zookeeper_requests:,.0f}",
        f"{row.control_requests:,.0f}",
        f"{row.control_bytes / 1e6:,.0f}",
        "–" if row.zookeeper_mb is None else f"+{row.zookeeper_mb:,.0f}",
        "–" if row.bystander is None else _waits(row.bystander),
    ]


def _waits(found: results.Waits) -> str:
    p99 = "–" if found.p99_ms is None else f"{found.p99_ms:,.0f}"
    return f"{found.median_ms:,.0f}/{p99}/{found.greatest_ms:,.0f} ({found.reads:,})"


def _wanted(found: Document) -> list[str]:
    """Return the verdict on a bystander's p99 in the large deletion, and which phases it does not judge."""
    if LARGE_OF_MANY not in results.workloads(found):
        return []
    phases = results.phases(found, LARGE_OF_MANY)
    by_phase = {phase: _p99(results.row(found, LARGE_OF_MANY, phase, LETHE)) for phase in phases}
    of_deletion = by_phase.get(Phase.DELETION)
    measured = "" if of_deletion is None else f" ({of_deletion:,.0f} ms)"
    over = [
        f"{phase} ({p99:,.0f} ms)"
        for phase, p99 in by_phase.items()
        if phase != Phase.DELETION and p99 is not None and p99 >= TARGET_P99_MS
    ]
    beyond = f" It is wanted of the deletion alone; not below it: {', '.join(over)}." if over else ""
    said = f"{wanted_p99(of_deletion)}{measured}"
    return [f"Wanted of a bystander in the deletion of {LARGE_OF_MANY}: {said}.{beyond}", ""]


def _p99(row: results.PhaseMedians | None) -> float | None:
    return None if row is None or row.bystander is None else row.bystander.p99_ms


def _peaks(found: Document) -> str:
    return "; ".join(
        f"{workload}: {results.peak_mb(found, workload, LETHE) or 0:,.0f} MB" for workload in results.workloads(found)
    )
