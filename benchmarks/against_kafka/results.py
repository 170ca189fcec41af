"""The results of a run as a JSON document, and medians of them."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.against_kafka.contestants import KAFKA, LETHE
from benchmarks.against_kafka.measure import TurnResult
from lethe.cluster.java import java_executable

Document = dict[str, Any]
_ROOT: Final = Path(__file__).parents[2]
JSON_NAME: Final = "benchmarks.json"
JSON: Final = _ROOT / "docs" / JSON_NAME


def document(turns: Sequence[TurnResult], kafka: str) -> Document:
    """Return all measurements, with the machine and the versions."""
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "versions": _versions(kafka),
        "turns": [asdict(turn) for turn in turns],
    }


def write(found: Document, path: Path) -> None:
    """Write the document as indented JSON."""
    path.write_text(json.dumps(found, indent=1) + "\n")


def read(path: Path) -> Document:
    """Return the document that `write` wrote."""
    found: Document = json.loads(path.read_text())
    return found


# --- medians ------------------------------------------------------------------------------------------------------


class PhaseMedians(NamedTuple):
    """One phase of one workload and one controller: medians over its rounds."""

    seconds: float
    fastest: float
    slowest: float
    rounds: int
    zookeeper_requests: float
    bytes_per_partition: float
    control_requests: float
    cpu_s: float
    zookeeper_mb: float | None
    """What ZooKeeper holds after the phase; None if no round has seen it."""
    bystander_ms: tuple[float, float, float] | None
    """A bystander's median and p99, medians over the rounds, and its worst of all rounds."""


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
        statistics.median(measured["control_requests"] for measured in each),
        statistics.median(measured["cpu_s"] for measured in each),
        statistics.median(heaps) if heaps else None,
        _bystander_ms(seen) if seen else None,
    )


def _bystander_ms(seen: Sequence[dict[str, float]]) -> tuple[float, float, float]:
    middle, p99 = (statistics.median(found[name] for found in seen) for name in ("median_ms", "p99_ms"))
    return middle, p99, max(found["worst_ms"] for found in seen)


def ratio(found: Document, workload: str, phase: str) -> float | None:
    """Return Kafka's median time divided by Lethe's."""
    kafka, lethe = (row(found, workload, phase, name) for name in (KAFKA, LETHE))
    return None if kafka is None or lethe is None else kafka.seconds / lethe.seconds


def peak_mb(found: Document, workload: str, contestant: str) -> float | None:
    """Return the peak memory over all rounds."""
    peaks = [
        turn["peak_mb"] for turn in found["turns"] if (turn["workload"], turn["contestant"]) == (workload, contestant)
    ]
    return max(peaks, default=None)


def loads(found: Document) -> tuple[float, float]:
    """Return the least and the greatest load average at the end of a phase, including the run's own processes."""
    each = [phase["load"] for turn in found["turns"] for phase in turn["phases"]]
    return min(each), max(each)


# --- where --------------------------------------------------------------------------------------------------------


def measured_on(found: Document, *parts: str) -> str:
    """Return a sentence: the day, these parts of the machine, and all versions."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"Measured on {found['when']}: {', '.join(found['machine'][part] for part in parts)}; {versions}."


def machine() -> dict[str, str]:
    memory = re.search(r"^MemTotal:\s+(\d+) kB$", _text("/proc/meminfo"), re.MULTILINE)
    model = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return {
        "processor": f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores",
        "memory": f"{int(memory[1]) / 2**20:.0f} GB" if memory else "unknown",
        "system": f"{platform.system()} {platform.release()}",
        "disk": f"{_forced_write_ms():.2g} ms to force a write to the disk",
    }


def _forced_write_ms() -> float:
    """Return the median time of a forced write, on the disk of the run's files."""
    took_s = []
    # A file with a name: one without may never reach the disk.
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(25):
            file.write(bytes(512))
            file.flush()
            began_s = time.perf_counter()
            os.fdatasync(file.fileno())
            took_s.append(time.perf_counter() - began_s)
    return statistics.median(took_s) * 1000


def _versions(kafka: str) -> dict[str, str]:
    java = subprocess.run([java_executable("the benchmark"), "-version"], capture_output=True, text=True, check=False)
    said = re.search(r'version "([^"]+)"', java.stderr)
    return {
        "Kafka": kafka,
        "Lethe": commit(),
        "Python": platform.python_version(),
        "Java": said[1] if said else "unknown",
        "ZooKeeper": "3.9, as PySpark brings it",
    }


def commit() -> str:
    """Return the measured commit. Pages in docs/, which the run itself writes, do not make it dirty."""
    git = ["git", "-C", str(_ROOT)]
    try:
        name, changed = (
            subprocess.run([*git, *asked], capture_output=True, text=True, check=True).stdout.strip()
            for asked in (["describe", "--always"], ["status", "--porcelain", "--", ":/", ":(top,exclude)docs"])
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name}-dirty" if changed else name


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
