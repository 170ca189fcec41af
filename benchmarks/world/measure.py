"""What one size of cluster costs the core, ZooKeeper and the wire, phase by phase, in a process of its own.

`python -m benchmarks.world.measure TOPICS PARTITIONS_PER_TOPIC BROKERS failover|topics|memory|calls` prints JSON. The
core is the controller's; ZooKeeper and brokers answer at once (`benchmarks.canned_cluster`). Bytes are those of the
frames that the codec makes of the core's requests, and multis those of the packing. Time is processor time within
`step`, without the garbage collector, which the runtime stops for a step too.
"""

from __future__ import annotations

import cProfile
import gc
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.canned_cluster import CannedCluster
from benchmarks.core import resident_mb, traced
from benchmarks.world.plan import Size
from lethe.controller.core import controller, events
from lethe.controller.core.effects import Effect, ReadZnodes, Send, WriteZnodes
from lethe.controller.runtime.bodies import encoded_parts
from lethe.protocol.kafka.parts import DEFAULT_MAX_BYTES
from lethe.protocol.kafka.queries import ChannelRequest, api_of_sent
from lethe.protocol.kafka.versions import LATEST, control_versions
from lethe.protocol.vocabulary import NO_EPOCH
from lethe.protocol.zookeeper.packing import MultiPlan

SESSION = events.SessionEstablished(1, bytes(32))
PARTS = ("failover", "topics")
"""Failover and a broker's failure; creation and deletion."""
MEMORY = "memory"
"""Part without phases: what the core has allocated by partition. Tracing slows everything, so it is apart."""
CALLS = "calls"
"""Part that counts function calls by phase: work that no other load of the machine changes. Counting slows as well."""
CLIENT_ID = "1000"


@dataclass(slots=True)
class Cost:
    """What one phase cost. `peak_mb` and `held_mb` count from before the phases, with the canned data in memory."""

    phase: str
    core_s: float = 0.0
    events: int = 0
    effects: int = 0
    requests: int = 0
    frames: int = 0
    wire_bytes: int = 0
    largest_frame_bytes: int = 0
    reads: int = 0
    operations: int = 0
    multis: int = 0
    peak_mb: float = 0.0
    held_mb: float = 0.0


@dataclass(slots=True)
class Meter:
    """Counts effects into the current phase's cost."""

    cost: Cost = field(default_factory=lambda: Cost("before"))
    _last: ChannelRequest | None = None
    _last_frames: tuple[int, ...] = ()

    def note(self, effect: Effect) -> None:
        """Count one effect."""
        cost = self.cost
        match effect:
            case ReadZnodes(reads=reads):
                cost.reads += len(reads)
            case WriteZnodes(groups=groups, fence=fence):
                plan = MultiPlan(groups, fence)
                while (multi := plan.next_multi()) is not None:
                    cost.multis += 1
                    cost.operations += len(multi.operations)
            case Send(request=request):
                frames = self._frames(request)
                cost.requests += 1
                cost.frames += len(frames)
                cost.wire_bytes += sum(frames)
                cost.largest_frame_bytes = max(cost.largest_frame_bytes, *frames)
            case _:
                pass

    def forget(self) -> None:
        """Release the last request."""
        self._last = None

    def _frames(self, request: ChannelRequest) -> tuple[int, ...]:
        """Return the sizes of the request's frames. Brokers with the same request come one after the other."""
        if request is not self._last:
            version = control_versions(LATEST).of(api_of_sent(request))
            bodies = encoded_parts(request, version, DEFAULT_MAX_BYTES)
            self._last_frames = tuple(sum(map(len, body.frame(0, CLIENT_ID, NO_EPOCH))) for body in bodies)
            self._last = request
        return self._last_frames


def measure(size: Size, part: str) -> list[Cost]:
    """Return the costs of this part's phases."""
    meter = Meter()
    world = CannedCluster(
        size.partitions, size.brokers, partitions_per_topic=size.partitions_per_topic, observe=meter.note
    )
    costs = []
    gc.collect()
    gc.disable()
    base_mb = resident_mb()
    for name, act in _phases(world, part):
        gc.collect()
        reset_peak()
        meter.cost = cost = Cost(name)
        core_s, steps, effects = world.core_s, world.steps, world.effects
        act()
        cost.core_s = round(world.core_s - core_s, 3)
        cost.events, cost.effects = world.steps - steps, world.effects - effects
        cost.peak_mb = round(peak_mb() - base_mb, 1)
        meter.forget()
        gc.collect()
        cost.held_mb = round(resident_mb() - base_mb, 1)
        costs.append(cost)
    gc.enable()
    return costs


def memory(size: Size) -> dict[str, float]:
    """Return the bytes by partition that the core holds after a failover, and their peak meanwhile (tracemalloc)."""
    held_mb, peak_mb = traced(size.partitions, size.brokers, partitions_per_topic=size.partitions_per_topic)
    return {
        "traced_held_bytes": round(held_mb * 1e6 / size.partitions, 1),
        "traced_peak_bytes": round(peak_mb * 1e6 / size.partitions, 1),
    }


def calls(size: Size) -> dict[str, int]:
    """Return the number of function calls within the core's steps, by phase, with those of the interpreter's own."""
    found = {}
    for part in PARTS:
        world = CannedCluster(size.partitions, size.brokers, partitions_per_topic=size.partitions_per_topic)
        for name, act in _phases(world, part):
            profile = cProfile.Profile()
            world.step = partial(profile.runcall, controller.step)  # type: ignore[call-arg]  # partial's, not runcall's
            act()
            found[name] = sum(entry.callcount for entry in profile.getstats())
    return found


Phases = list[tuple[str, Callable[[], None]]]


def _phases(world: CannedCluster, part: str) -> Phases:
    return _failover(world) if part == "failover" else _topics(world)


def _failover(world: CannedCluster) -> Phases:
    world.put_topics(with_states=True)

    def lose_broker() -> None:
        world.stop_broker(world.brokers[0])
        world.run(events.BrokersChanged())

    return [("failover", lambda: world.run(SESSION)), ("broker failure", lose_broker)]


def _topics(world: CannedCluster) -> Phases:
    def delete() -> None:
        world.mark_topics()
        world.run(events.TopicDeletionsRequested())
        if world.context.cluster.topics:
            raise RuntimeError(f"{len(world.context.cluster.topics)} topics are left")

    world.run(SESSION)
    world.put_topics(with_states=False)
    return [("creation", lambda: world.run(events.TopicsChanged())), ("deletion", delete)]


# --- memory -------------------------------------------------------------------------------------------------------


def reset_peak() -> None:
    """Let the peak of this process's resident memory begin anew; nothing without /proc."""
    refs = Path("/proc/self/clear_refs")
    if refs.exists():
        refs.write_text("5")


def peak_mb() -> float:
    """Return the peak since `reset_peak`; 0 without /proc."""
    return resident_mb("VmHWM")


def main(arguments: list[str]) -> None:
    """Measure one part of one size, and print it as JSON."""
    *numbers, part = arguments
    size = Size(*map(int, numbers))
    if part == MEMORY:
        print(json.dumps(memory(size)))
    elif part == CALLS:
        print(json.dumps(calls(size)))
    elif part in PARTS:
        print(json.dumps([asdict(cost) for cost in measure(size, part)]))
    else:
        raise SystemExit(f"no such part: {part} (there are: {', '.join((*PARTS, MEMORY, CALLS))})")


if __name__ == "__main__":
    main(sys.argv[1:])
