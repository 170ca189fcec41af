"""The results, as stored in docs/benchmarks-pipeline.json and its neighbour."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from benchmarks.documents import Document
from benchmarks.provenance import DOCS, MEASURED, Origin

JSON_NAME: Final = "benchmarks-pipeline.json"
TURNS_NAME: Final = "benchmarks-pipeline-turns.json"
JSON: Final = DOCS / JSON_NAME


def document(runs: list[dict[str, Any]], cluster: dict[str, Any] | None, measured: Origin) -> Document:
    """Return the results of one run, each with its origin."""
    return {
        "runs": [{**run, MEASURED: measured} for run in runs],
        "cluster": None if cluster is None else {**cluster, MEASURED: measured},
    }


def merge_runs(earlier: Document, found: Document) -> Document:
    """Return the new results, and earlier ones of sizes that were not measured again, by size."""
    again = {run["lines"] for run in found["runs"]}
    runs = [*found["runs"], *(run for run in earlier["runs"] if run["lines"] not in again)]
    return {
        **found,
        "runs": sorted(runs, key=lambda run: int(run["lines"])),
        "cluster": found["cluster"] or earlier["cluster"],
    }


def stage_seconds(run: dict[str, Any]) -> dict[str, float]:
    """Return the duration of each stage, in order; a stage lasts until the next one begins."""
    stages = run["stages"]
    seconds: dict[str, float] = {}
    for (name, begun), (_, next_begun) in pairwise(stages):
        seconds[name] = seconds.get(name, 0.0) + next_begun - begun
    return seconds
