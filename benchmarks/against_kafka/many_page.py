"""The section of docs/benchmarks.md about Lethe's controller with many agents as processes."""

from __future__ import annotations

from typing import Final

from benchmarks.against_kafka.results import Document

JSON_NAME: Final = "benchmarks-agents.json"
METHOD: Final = """\
As above, with agents as processes on the machine of the controller, which they keep busy: times are upper bounds. A
broker fails by SIGKILL; the time counts from the end of its session. `make bench BENCH="--workloads
fifty,fifty-directories --runs 1"`."""


def page(found: Document) -> str:
    """Return the section as Markdown."""
    machine, versions = found["machine"], found["versions"]
    lines = [
        (
            "| topics × partitions × replicas | | time | processor | ZooKeeper requests | requests to agents | MB | "
            "ZooKeeper's heap | a bystander's median, p99, worst |"
        ),
        "|---|---|" + "---:|" * 7,
    ]
    for turn in found["turns"]:
        for phase in turn["phases"]:
            waited = phase["bystander"]
            cells = [
                f"{phase['seconds']:.2f} s",
                f"{phase['cpu_s']:.2f} s",
                f"{phase['zookeeper_requests']:,}",
                f"{phase['control_requests']:,}",
                f"{phase['control_bytes'] / 1e6:,.0f}",
                "–" if phase["zookeeper_mb"] is None else f"+{phase['zookeeper_mb']:,.0f} MB",
                "–"
                if waited is None
                else f"{waited['median_ms']:,.0f}, {waited['p99_ms']:,.0f}, {waited['worst_ms']:,.0f} ms",
            ]
            lines.append(f"| {turn['workload']} | {phase['phase']} | {' | '.join(cells)} |")
    peaks = "; ".join(f"{turn['workload']}: {turn['peak_mb']:,.0f} MB" for turn in found["turns"])
    return "\n".join(
        [
            "## Lethe's controller with many agents",
            "",
            (
                f"Measured on {found['when']}: {machine['processor']}, {machine['memory']}, {machine['disk']}; "
                f"Lethe {versions['Lethe']}, Python {versions['Python']}."
            ),
            "",
            *lines,
            "",
            f"Most memory of the controller: {peaks}.",
            "",
            METHOD,
            "",
        ]
    )
