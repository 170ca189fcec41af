"""What the controller's core costs: loading, taking over, creating and deleting many partitions, and single steps.

`python -m benchmarks.core [--partitions 100000] [--json]`. 50 partitions to a topic, replication factor 3, three
brokers; `benchmarks.world` has other numbers. ZooKeeper and brokers are played by canned results, which are made while
the clock stands: only the core is measured, not the wire and not ZooKeeper. Times are processor time of one run each,
so that a busy machine shows little, once with Python's cyclic garbage collector as it is by default and once without
it. Memory is that of the whole process (resident) and of what the core has allocated (tracemalloc, in a run of its own,
since it slows everything down).
"""

from __future__ import annotations

import argparse
import gc
import json
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.canned_cluster import BROKERS, PARTITIONS_PER_TOPIC, REPLICATION_FACTOR, CannedCluster
from lethe.controller.core import events

SMALL_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase. `core_ms` is time within `step` only, `collected_ms` the same with the garbage collector running.
    Memory is what is in use after the phase."""

    name: str
    core_ms: float
    collected_ms: float
    steps: int
    effects: int
    resident_mb: float


@dataclass(frozen=True, slots=True)
class CoreReport:
    partitions: int
    brokers: int
    phases: tuple[Phase, ...]
    small_steps_per_second: int
    traced_mb_loaded: float
    """Memory of the core with a loaded cluster, by tracemalloc."""
    traced_peak_mb_taking_over: float


# --- the phases ---------------------------------------------------------------------------------------------------


def _measured(world: CannedCluster, name: str, act: Callable[[], None]) -> Phase:
    gc.collect()
    core_s, steps, effects = world.core_s, world.steps, world.effects
    act()
    return Phase(
        name,
        round((world.core_s - core_s) * 1000, 1),
        0.0,
        world.steps - steps,
        world.effects - effects,
        round(resident_mb(), 1),
    )


def _take_over(partitions: int, brokers: int) -> Phase:
    world = CannedCluster(partitions, brokers)
    world.put_topics(with_states=True)
    return _measured(world, "load and take over", lambda: world.run(events.SessionEstablished(1, bytes(32))))


def phases(partitions: int, brokers: int = BROKERS) -> tuple[Phase, ...]:
    """Measure loading and takeover of a cluster, then creation and deletion of the same topics in a second one."""
    found = [_take_over(partitions, brokers)]
    world = CannedCluster(partitions, brokers)
    world.run(events.SessionEstablished(1, bytes(32)))
    world.put_topics(with_states=False)
    found.append(_measured(world, "create", lambda: world.run(events.TopicsChanged())))

    def delete() -> None:
        world.mark_topics()
        world.run(events.TopicDeletionsRequested())

    found.append(_measured(world, "delete", delete))
    if world.context.cluster.topics:
        raise RuntimeError(f"{len(world.context.cluster.topics)} topics are left")
    return tuple(found)


def small_steps_per_second(partitions: int) -> int:
    """Return the rate of answers to small requests while many partitions are loaded: the base cost of one event."""
    world = CannedCluster(partitions)
    world.put_topics(with_states=True)
    world.run(events.SessionEstablished(1, bytes(32)))
    started_s, steps = world.core_s, world.steps
    for n in range(SMALL_STEPS):
        world.run(events.TopicsModified((f"gone-{n}",)))
    return round((world.steps - steps) / (world.core_s - started_s))


def traced(
    partitions: int, brokers: int = BROKERS, *, partitions_per_topic: int = PARTITIONS_PER_TOPIC
) -> tuple[float, float]:
    """Return memory after loading and its peak in MB, from the point at which the prepared answers exist."""
    world = CannedCluster(partitions, brokers, partitions_per_topic=partitions_per_topic, answering=False)
    world.put_topics(with_states=True)
    gc.collect()
    tracemalloc.start()
    world.run(events.SessionEstablished(1, bytes(32)))
    _, peak = tracemalloc.get_traced_memory()
    world.context.cluster.outstanding.clear()
    world.zookeeper.data.clear()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(held / 1e6, 1), round(peak / 1e6, 1)


def resident_mb(what: str = "VmRSS", pid: int | None = None) -> float:
    """Return the resident memory of this process or another one, or its peak (VmHWM); 0 without /proc."""
    status = Path(f"/proc/{'self' if pid is None else pid}/status")
    if not status.exists():
        return 0.0
    line = next(line for line in status.read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) / 1024


def measure(partitions: int) -> CoreReport:
    """Return all measurements; takes about half a minute with 100,000 partitions."""
    collected = phases(partitions)
    gc.disable()
    try:
        plain = phases(partitions)
    finally:
        gc.enable()
    found = tuple(replace(a, collected_ms=b.core_ms) for a, b in zip(plain, collected, strict=True))
    held, peak = traced(partitions)
    return CoreReport(partitions, BROKERS, found, small_steps_per_second(partitions), held, peak)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    report = measure(options.partitions)
    if options.json:
        print(json.dumps(asdict(report), indent=2))
        return
    print(f"{report.partitions} partitions, replication factor {REPLICATION_FACTOR}, {report.brokers} brokers")
    print(f"{'phase':<20}{'core ms':>10}{'with gc':>10}{'steps':>8}{'effects':>10}{'resident MB':>13}")
    for phase in report.phases:
        print(
            f"{phase.name:<20}{phase.core_ms:>10}{phase.collected_ms:>10}{phase.steps:>8}{phase.effects:>10}"
            f"{phase.resident_mb:>13}"
        )
    print(f"small steps per second: {report.small_steps_per_second}")
    print(f"traced: {report.traced_mb_loaded} MB held after loading, peak {report.traced_peak_mb_taking_over} MB")


if __name__ == "__main__":
    main()
