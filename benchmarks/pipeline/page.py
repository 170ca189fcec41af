"""The section of docs/benchmarks.md about the pipeline, from its results and the text beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from benchmarks.documents import Document
from benchmarks.pipeline import results
from benchmarks.provenance import MEASURED, Origin, told

METHOD: Final = Path(__file__).with_name("method.md")


def page(found: Document) -> str:
    """Return the section as Markdown."""
    return "\n".join(
        [
            "## The data pipeline",
            "",
            *told(_origins(found), "processor", "memory", "system"),
            "",
            "Spark has two cores, `local[2]`.",
            "",
            "![time by lines](benchmarks-pipeline.svg)",
            "",
            _sizes(found["runs"]),
            "",
            _growth(found["runs"]),
            "",
            "### Where the time goes",
            "",
            "Seconds by stage, and the ratio of the largest run to the smallest.",
            "",
            _stages(found["runs"]),
            "",
            "### A cluster instead of one process",
            "",
            _cluster(found["cluster"]),
            "",
            METHOD.read_text().strip(),
            "",
        ]
    )


def _origins(found: Document) -> list[tuple[Origin, str]]:
    runs = [(run[MEASURED], f"{run['lines']:,} lines") for run in found["runs"]]
    cluster = found["cluster"]
    return runs if cluster is None else [*runs, (cluster[MEASURED], "the cluster")]


def _sizes(runs: list[dict[str, Any]]) -> str:
    head = "| Lines | Directories | Read | Time | Lines a second | Most memory | As planted |"
    rows = [
        f"| {run['lines']:,} | {run['directories']:,} | {run['size_bytes'] / 1e9:.1f} GB | {_time(run['seconds'])} | "
        f"{run['lines'] / run['seconds']:,.0f} | {run['peak_bytes'] / 1e9:.1f} GB | "
        f"{'all of it' if not run['wrong'] else '; '.join(run['wrong'])} |"
        for run in runs
    ]
    return "\n".join([head, "|---:|---:|---:|---:|---:|---:|---|", *rows])


def _growth(runs: list[dict[str, Any]]) -> str:
    """Return a sentence: how the time grows with the lines."""
    if len(runs) < 2:
        return ""
    small, large = runs[0], runs[-1]
    lines, seconds = large["lines"] / small["lines"], large["seconds"] / small["seconds"]
    return f"{lines:.1f} times the lines take {seconds:.1f} times as long: {seconds / lines:.2f} of what is linear."


def _stages(runs: list[dict[str, Any]]) -> str:
    by_run = [results.stage_seconds(run) for run in runs]
    names = dict.fromkeys(name for stages in by_run for name in stages)
    head = "| Stage |" + "".join(f" {run['lines'] / 1e6:,.1f} M |" for run in runs) + " |"
    rows = []
    for name in names:
        cells = "".join(f" {stages[name]:,.1f} |" if name in stages else " – |" for stages in by_run)
        first, last = by_run[0].get(name), by_run[-1].get(name)
        times = f"{last / first:.1f}" if len(by_run) > 1 and first and last else ""
        rows.append(f"| {name} |{cells} {times} |")
    return "\n".join([head, "|---|" + "---:|" * (len(runs) + 1), *rows])


def _cluster(run: dict[str, Any] | None) -> str:
    if run is None:
        return "Not measured."
    tables = run["tables"]
    verdict = "the same rows in every table" if not run["wrong"] else "; ".join(run["wrong"])
    alone = run["local"]
    times = f"`local[2]` ({_time(alone['seconds'])}) and through a standalone cluster ({_time(run['seconds'])})"
    return (
        f"{run['lines']:,} lines and {run['directories']:,} directories through {times}, a master and two workers of "
        f"one core each: {verdict} ({len(tables)} tables, compared by a hash of every row)."
    )


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
