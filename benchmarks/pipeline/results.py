"""The results, as stored in docs/benchmarks-pipeline.json."""

from __future__ import annotations

import datetime
import json
import platform
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from benchmarks.against_kafka.results import machine

Document = dict[str, Any]
JSON_NAME: Final = "benchmarks-pipeline.json"
JSON: Final = Path(__file__).parents[2] / "docs" / JSON_NAME


def document(runs: list[dict[str, Any]], cluster: dict[str, Any] | None) -> Document:
    """Return all results, with time and machine."""
    return {
        "when": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "versions": {"Spark": version("pyspark"), "Python": platform.python_version()},
        "runs": runs,
        "cluster": cluster,
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


def write(found: Document, path: Path) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n")


def read(path: Path) -> Document:
    """Raises OSError and ValueError."""
    found = json.loads(path.read_text())
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no object")
    return found


def stage_seconds(run: dict[str, Any]) -> dict[str, float]:
    """Return the duration of each stage, in order; a stage lasts until the next one begins."""
    stages = run["stages"]
    seconds: dict[str, float] = {}
    for (name, begun), (_, next_begun) in pairwise(stages):
        seconds[name] = seconds.get(name, 0.0) + next_begun - begun
    return seconds
