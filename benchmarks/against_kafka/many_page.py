"""The section of docs/benchmarks.md about Lethe's controller with many agents as processes."""

from __future__ import annotations

from typing import Final

from benchmarks.against_kafka import results
from benchmarks.against_kafka.contestants import LETHE
from benchmarks.against_kafka.results import Document
from benchmarks.provenance import Origin, told

JSON_NAME: Final = "benchmarks-agents.json"
METHOD: Final = """\
As above, with agents as processes on the machine of the controller, which they keep busy: times are upper bounds. With
several rounds, figures are medians. Heap is in MB, latency in ms. A broker fails by SIGKILL; the time counts from the
end of its session. `make bench BENCH="--workloads fifty,fifty-directories --runs 1"`."""
_COLUMNS: Final = (
    *("rounds", "seconds", "processor", "ZooKeeper requests", "requests to agents", "MB", "ZooKeeper's heap"),
    "bystander's median/p99/greatest (reads)",
)
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


def _peaks(found: Document) -> str:
    return "; ".join(
        f"{workload}: {results.peak_mb(found, workload, LETHE) or 0:,.0f} MB" for workload in results.workloads(found)
    )
