"""The section of docs/benchmarks.md about Lethe's controller with many agents as processes."""

from __future__ import annotations

from typing import Final

from benchmarks.against_kafka.results import Document, loads, measured_on

JSON_NAME: Final = "benchmarks-agents.json"
METHOD: Final = """\
As above, with agents as processes on the machine of the controller, which they keep busy: times are upper bounds. Heap
is in MB, latency in ms. A broker fails by SIGKILL; the time counts from the end of its session. `make bench
BENCH="--workloads fifty,fifty-directories --runs 1"`."""


def page(found: Document) -> str:
    """Return the section as Markdown."""
    versions = {name: found["versions"][name] for name in ("Lethe", "Python")}
    least, greatest = loads(found)
    lines = [
        "|||seconds|processor|ZooKeeper requests|requests to agents|MB|ZooKeeper's heap|bystander's median/p99/worst|",
        "|---|---|" + "---:|" * 7,
    ]
    for turn in found["turns"]:
        for phase in turn["phases"]:
            waited = phase["bystander"]
            cells = [
                f"{phase['seconds']:.2f}",
                f"{phase['cpu_s']:.2f}",
                f"{phase['zookeeper_requests']:,}",
                f"{phase['control_requests']:,}",
                f"{phase['control_bytes'] / 1e6:,.0f}",
                "–" if phase["zookeeper_mb"] is None else f"+{phase['zookeeper_mb']:,.0f}",
                "–" if waited is None else "/".join(f"{waited[of]:,.0f}" for of in ("median_ms", "p99_ms", "worst_ms")),
            ]
            lines.append(f"|{turn['workload']}|{phase['phase']}|{'|'.join(cells)}|")
    peaks = "; ".join(f"{turn['workload']}: {turn['peak_mb']:,.0f} MB" for turn in found["turns"])
    return "\n".join(
        [
            "## Lethe's controller with many agents",
            "",
            measured_on(found | {"versions": versions}, "processor", "memory", "disk")
            + f" Load average between {least:.0f} and {greatest:.0f}, other work on the machine included.",
            "",
            *lines,
            "",
            f"Most memory of the controller: {peaks}.",
            "",
            METHOD,
            "",
        ]
    )
