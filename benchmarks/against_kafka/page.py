"""The section of docs/benchmarks.md about both controllers, from their results and the texts beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.against_kafka import results
from benchmarks.against_kafka.contestants import CONTESTANTS, KAFKA, KAFKA_HEAP_MB, LETHE
from benchmarks.against_kafka.plan import (
    KEPT_TRANSACTIONS,
    LARGE,
    TARGET_PEAK_MB,
    TARGETS,
    WANTED_ROUNDS,
    Phase,
    verdict,
    wanted_heap,
    wanted_p99,
)
from benchmarks.against_kafka.results import PhaseMedians
from benchmarks.documents import Document
from benchmarks.provenance import MEASURED, told

METHOD: Final = Path(__file__).with_name("method.md")
NOTES: Final = Path(__file__).with_name("notes.md")
LOAD: Final = "Load average at the ends of phases: {least:.1f} to {greatest:.1f}, the run's own processes counted."
GREATEST: Final = "but the most memory and a bystander's greatest wait, which are the greatest of all rounds"
NAMES: Final = {KAFKA: "Kafka", LETHE: "Lethe"}


def page(found: Document) -> str:
    """Return the section as Markdown."""
    loads = results.loads(found)
    return "\n".join(
        [
            "## Lethe's controller and Kafka's, side by side",
            "",
            *told(results.origins(found["turns"]), "processor", "memory", "system", "disk"),
            "",
            _rounds(found),
            "",
            LOAD.format(least=loads[0], greatest=loads[1]),
            "",
            "![median times of both controllers](benchmarks.svg)",
            "",
            table(found),
            "",
            _method(found),
            "",
            NOTES.read_text().strip(),
            "",
        ]
    )


def _method(found: Document) -> str:
    text = METHOD.read_text().strip()
    return text.format(
        kafka=", ".join(_kafkas(found)),
        heap_mb=KAFKA_HEAP_MB,
        transactions=KEPT_TRANSACTIONS,
        reads=results.READS_OF_A_P99,
    )


def _kafkas(found: Document) -> list[str]:
    return list(dict.fromkeys(turn[MEASURED]["versions"]["Kafka"] for turn in found["turns"]))


def _rounds(found: Document) -> str:
    """Say how many rounds each workload has, and which have fewer than are wanted."""
    each = {workload: results.rounds(found, workload) for workload in results.workloads(found)}
    if all(count == WANTED_ROUNDS for counts in each.values() for count in counts.values()):
        return f"Figures are medians of {WANTED_ROUNDS} rounds (fastest–slowest), {GREATEST}."
    told_of = "; ".join(
        f"{workload}: " + ", ".join(f"{NAMES[name]} {count}" for name, count in counts.items())
        for workload, counts in each.items()
    )
    medians = f"Figures are medians of these rounds (fastest–slowest), {GREATEST}"
    return f"{medians}. {WANTED_ROUNDS} rounds are wanted, and there are, of {told_of}."


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
            lines.append(f"| {workload} | {phase} | {kafka} | {lethe} | {shown} | {_target(found, workload, phase)} |")
    return "\n".join(lines)


def _seconds(found: Document, workload: str, phase: str, contestant: str) -> str:
    row = results.row(found, workload, phase, contestant)
    if row is None:
        return "–"
    spread = "1 run" if row.rounds == 1 else f"{row.fastest:.2f}–{row.slowest:.2f}, {row.rounds} runs"
    return f"{row.seconds:.2f} s ({spread})"


def _target(found: Document, workload: str, phase: str) -> str:
    row = results.row(found, workload, phase, LETHE)
    seconds, ratio = None if row is None else row.seconds, results.ratio(found, workload, phase)
    judged = (
        each.judged(seconds, ratio) for each in TARGETS if (each.workload.name, str(each.phase)) == (workload, phase)
    )
    return next(judged, "")


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
        wanted = _wanted_peak(results.peak_mb(found, workload, LETHE)) if workload == LARGE.name else ""
        lines.append(f"| {workload} | {' | '.join(cells)} | {wanted} |")
    return "\n".join(lines)


def _wanted_peak(peak_mb: float | None) -> str:
    return f"≤ {TARGET_PEAK_MB} MB {verdict(None if peak_mb is None else peak_mb <= TARGET_PEAK_MB)}"


def _felt(found: Document) -> list[str]:
    """Return a table of ZooKeeper's heap and a bystander's latencies; nothing where no run has measured them."""
    lines = []
    for workload in results.workloads(found):
        for phase in results.phases(found, workload):
            rows = [results.row(found, workload, phase, name) for name in CONTESTANTS]
            if any(row is not None and row.bystander is not None for row in rows):
                extra_mb = results.extra_heap_mb(found, workload, phase)
                more = "–" if extra_mb is None else f"{extra_mb:+,.0f} MB"
                cells = [*map(_heap, rows), more, *map(_waited, rows), _wanted_of_others(found, workload, phase)]
                lines.append(f"| {workload} | {phase} | {' | '.join(cells)} |")
    head = [
        "",
        "| felt by others | | ZooKeeper's heap | | extra | a bystander's median, p99, greatest (reads) | | wanted |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
        "| | | Kafka | Lethe | | Kafka | Lethe | |",
    ]
    return [*head, *lines] if lines else []


def _wanted_of_others(found: Document, workload: str, phase: str) -> str:
    if workload != LARGE.name:
        return ""
    said = [wanted_heap(results.extra_heap_mb(found, workload, phase))]
    if phase == Phase.DELETION:
        row = results.row(found, workload, phase, LETHE)
        said.append(wanted_p99(None if row is None or row.bystander is None else row.bystander.p99_ms))
    return ", ".join(said)


def _heap(row: PhaseMedians | None) -> str:
    return "–" if row is None or row.zookeeper_mb is None else f"+{row.zookeeper_mb:,.0f} MB"


def _waited(row: PhaseMedians | None) -> str:
    if row is None or (waits := row.bystander) is None:
        return "–"
    p99 = "–" if waits.p99_ms is None else f"{waits.p99_ms:,.0f}"
    return f"{waits.median_ms:,.0f}, {p99}, {waits.greatest_ms:,.0f} ms ({waits.reads:,})"
