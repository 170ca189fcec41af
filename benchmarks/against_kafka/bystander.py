"""A bystander: another client of ZooKeeper, as a broker is, that sends a small read every 20 ms and notes how long the
answer took.

    python -m benchmarks.against_kafka.bystander HOST:PORT SAMPLES

It is a process of its own with a session of its own. A read is due every `INTERVAL_S`, whether the one before it is
answered or not, and its latency counts from then: a stall of one second costs fifty samples, not one. SAMPLES gets one
line for each answer: when the read was due (milliseconds since 1970) and its latency in milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.cluster.process import ChildProcess
from lethe.protocol.zookeeper.operations import Exists

INTERVAL_S: Final = 0.02
_MODULE: Final = "benchmarks.against_kafka.bystander"
_ROOT: Final = Path(__file__).parents[2]
_SESSION_TIMEOUT_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies of the reads that were due in a phase, in milliseconds."""

    median_ms: float
    p99_ms: float
    worst_ms: float
    reads: int


class Sample(NamedTuple):
    """One answered read."""

    due_ms: float
    latency_ms: float


class Bystander:
    """The process, and what it has measured."""

    def __init__(self, connect_string: str, directory: Path) -> None:
        self._samples = directory / "samples"
        command = [sys.executable, "-m", _MODULE, connect_string, str(self._samples)]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        self._process = ChildProcess(
            "the bystander", command, log_file=directory / "bystander.log", environment=environment
        )

    def start(self) -> None:
        """Start the process."""
        self._process.start()

    def close(self) -> None:
        """Kill the process."""
        self._process.close()

    @property
    def problem(self) -> str | None:
        """Why it does not measure any more; None while it does."""
        return None if self._process.is_running else f"the bystander has ended: {self._process.output_tail()}"

    def latencies(self, since_ms: float, until_ms: float) -> Latencies | None:
        """Return the latencies of the reads that were due in that time and are answered; None if there are none."""
        text = self._samples.read_text() if self._samples.exists() else ""
        return summary(samples(text), since_ms, until_ms)


def samples(text: str) -> list[Sample]:
    """Return the samples of the complete lines."""
    rows = (line.split() for line in text[: text.rfind("\n") + 1].splitlines())
    return [Sample(float(due), float(latency)) for due, latency in rows]


def summary(found: Sequence[Sample], since_ms: float, until_ms: float) -> Latencies | None:
    """Return the latencies of the reads that were due in that time; None if there are none."""
    chosen = sorted(each.latency_ms for each in found if since_ms <= each.due_ms <= until_ms)
    if not chosen:
        return None
    p99 = chosen[min(len(chosen) - 1, len(chosen) * 99 // 100)]
    return Latencies(statistics.median(chosen), p99, chosen[-1], len(chosen))


# --- the process --------------------------------------------------------------------------------------------------


async def watch(connect_string: str, out: TextIO) -> None:
    """Read and write samples until the session is lost. Raises SessionLost."""
    config = ZooKeeperConfig(parse_connect_string(connect_string), session_timeout_ms=_SESSION_TIMEOUT_MS)
    async with open_session(config, lambda _: None) as session, asyncio.TaskGroup() as group:
        due_s = time.time()
        while True:
            group.create_task(_read(session, due_s, out), name="read")
            due_s += INTERVAL_S
            await asyncio.sleep(due_s - time.time())


async def _read(session: ZooKeeperSession, due_s: float, out: TextIO) -> None:
    await session.read([Exists("/")])
    out.write(f"{due_s * 1000:.1f} {(time.time() - due_s) * 1000:.3f}\n")
    out.flush()


if __name__ == "__main__":
    with Path(sys.argv[2]).open("w") as samples_file:
        asyncio.run(watch(sys.argv[1], samples_file))
