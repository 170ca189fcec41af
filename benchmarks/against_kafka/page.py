"""The section of docs/benchmarks.md about both controllers, from their results and the texts beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.against_kafka import results
from benchmarks.against_kafka.contestants import CONTESTANTS, KAFKA, KAFKA_HEAP_MB, LETHE
from benchmarks.against_kafka.plan import LARGE, TARGET_PEAK_MB, TARGETS
from benchmarks.against_kafka.results import Document, PhaseMedians

METHOD: Final = Path(__file__).with_name("method.md")
NOTES: Final = Path(__file__).with_name("notes.md")
LOAD: Final = (
    "Load average between {least:.0f} and {greatest:.0f}, the run's own processes counted; where nothing else runs, "
    "below 4."
)
NAMES: Final = {KAFKA: "Kafka", LETHE: "Lethe"}


def page(found: Document) -> str:
    """Return the section as Markdown."""
    loads = results.loads(found)
    return "\n".join(
        [
            "## Lethe's controller and Kafka's, side by side",
            "",
            results.measured_on(found, "processor", "memory", "system", "disk"),
            "",
            LOAD.format(least=loads[0], greatest=loads[1]),
            "",
            "![median times of both controllers](benchmarks.svg)",
            "",
            table(found),
            "",
            METHOD.read_text().format(kafka=found["versions"]["Kafka"], heap_mb=KAFKA_HEAP_MB).strip(),
            "",
            NOTES.read_text().strip(),
            "",
        ]
    )


# --- the table ----------------------------------------------------------------------------------------------------


def table(found: Document) -> str:
    """Return tables of times, costs, memory and what others feel, as Markdown."""
    return "\n".join([_times(found), "", _costs(found), "", _memory(found), *_felt(found)])


def _times(found: Document) -> str:
    lines = [
        "| topics × partitions × replicas | | Kafka | Lethe | ratio | wanted |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for workload in results.workloads(found):
        for phase in results.phases(found, workload):
            kafka, lethe = (_seconds(found, workload, phase, name) for name in (KAFKA, LETHE))
            ratio = results.ratio(found, workload, phase)
            shown = "–" if ratio is None else f"**{ratio:.1f}×**"
            lines.append(f"| {workload} | {phase} | {kafka} | {lethe} | {shown} | {_target(workload, phase)} |")
    return "\n".join(lines)


def _seconds(found: Document, workload: str, phase: str, contestant: str) -> str:
    row = results.row(found, workload, phase, contestant)
    if row is None:
        return "–"
    spread = "" if row.rounds == 1 else f" ({row.fastest:.2f}–{row.slowest:.2f}, {row.rounds} runs)"
    return f"{row.seconds:.2f} s{spread}"


def _target(workload: str, phase: str) -> str:
    return next((str(each) for each in TARGETS if (each.workload.name, str(each.phase)) == (workload, phase)), "")


def _costs(found: Document) -> str:
    lines = [
        "| | | processor time | | ZooKeeper requests | | control bytes per partition | | control requests | |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        "| | |" + " Kafka | Lethe |" * 4,
    ]
    for workload in results.workloads(found):
        for phase in results.phases(found, workload):
            rows = [results.row(found, workload, phase, name) for name in CONTESTANTS]
            cells = [
                *("–" if row is None else f"{row.cpu_s:.2f} s" for row in rows),
                *("–" if row is None else f"{row.zookeeper_requests:,.0f}" for row in rows),
                *("–" if row is None else f"{row.bytes_per_partition:,.0f}" for row in rows),
                *("–" if row is None else f"{row.control_requests:,.0f}" for row in rows),
            ]
            lines.append(f"| {workload} | {phase} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _memory(found: Document) -> str:
    lines = ["| most memory (resident) | Kafka | Lethe | wanted |", "|---|---:|---:|---:|"]
    for workload in results.workloads(found):
        peaks = [results.peak_mb(found, workload, name) for name in CONTESTANTS]
        cells = ["–" if peak is None else f"{peak:,.0f} MB" for peak in peaks]
        wanted = f"≤ {TARGET_PEAK_MB} MB" if workload == LARGE.name else ""
        lines.append(f"| {workload} | {' | '.join(cells)} | {wanted} |")
    return "\n".join(lines)


def _felt(found: Document) -> list[str]:
    """Return a table of ZooKeeper's heap and a bystander's latencies; nothing where no run has measured them."""
    lines = []
    for workload in results.workloads(found):
        for phase in results.phases(found, workload):
            rows = [results.row(found, workload, phase, name) for name in CONTESTANTS]
            if any(row is not None and row.bystander_ms is not None for row in rows):
                cells = [*map(_heap, rows), *map(_waited, rows)]
                lines.append(f"| {workload} | {phase} | {' | '.join(cells)} |")
    head = [
        "",
        "| felt by others | | ZooKeeper's heap | | a bystander's median, p99, worst | |",
        "|---|---|---:|---:|---:|---:|",
        "| | |" + " Kafka | Lethe |" * 2,
    ]
    return [*head, *lines] if lines else []


def _heap(row: PhaseMedians | None) -> str:
    return "–" if row is None or row.zookeeper_mb is None else f"+{row.zookeeper_mb:,.0f} MB"


def _waited(row: PhaseMedians | None) -> str:
    return "–" if row is None or row.bystander_ms is None else "{:,.0f}, {:,.0f}, {:,.0f} ms".format(*row.bystander_ms)
