"""What the controller's core costs: loading, taking over, creating and deleting many partitions, and single steps.

`python -m benchmarks.core [--partitions 100000] [--brokers 3 30 1000] [--json]`. 50 partitions to a topic, replication
factor 3, three brokers; with `--brokers`, the phases alone for each of these numbers. ZooKeeper and brokers are played
by canned results that are made before the clock runs: only the core is measured, not the wire and not ZooKeeper. Times
are processor time of one run each, so that a busy machine shows little, once with Python's cyclic garbage collector as
it is by default and once without it. Memory is that of the whole process (resident) and of what the core has allocated
(tracemalloc, in a run of its own, since it slows everything down).
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import tracemalloc
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lethe.controller.core import controller, events
from lethe.controller.core.config import CoreConfig
from lethe.controller.core.context import Context
from lethe.controller.core.effects import Effect, ProbeBrokers, ReadZnodes, Send, WriteZnodes
from lethe.controller.core.events import Event
from lethe.protocol.kafka.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicError,
    TopicIdError,
    UpdateMetadataResponse,
)
from lethe.protocol.kafka.queries import ChannelRequest, DescribeLogDirsRequest, DescribeLogDirsResponse, LogDir
from lethe.protocol.kafka.versions import LATEST
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicId,
)
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Exists,
    Read,
    ReadFailed,
    ReadOutcome,
    SetData,
    Stat,
    ZkError,
)
from lethe.protocol.zookeeper.packing import GroupDone

PARTITIONS_PER_TOPIC = 50
BROKERS = 3
REPLICATION_FACTOR = 3
SMALL_STEPS = 20_000
_APPLIED = Stat(1, 1, 0, 0)


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


class CannedZooKeeper:
    """Answers from a prepared dict; every write succeeds."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.children: dict[str, tuple[str, ...]] = {}

    def read(self, read: Read) -> ReadOutcome:
        path = read.path
        if path in self.children:
            return Children(self.children[path])
        data = self.data.get(path)
        if data is None or isinstance(read, Exists):
            return ReadFailed(ZkError.NO_NODE)
        return Data(data, _APPLIED)

    @staticmethod
    def write(effect: WriteZnodes) -> events.ZnodesWritten:
        outcomes = tuple(
            GroupDone(tuple(Stat(1, 1, op.version + 1, 0) if isinstance(op, SetData) else None for op in group))
            for group in effect.groups
        )
        return events.ZnodesWritten(effect.id, outcomes)


class SimulatedCluster:
    """One core. Results and answers are made outside the measured time."""

    def __init__(self, partitions: int, brokers: int = BROKERS, *, answering: bool = True) -> None:
        self.context = Context(CoreConfig(BrokerId(1000), LATEST))
        self.zookeeper = CannedZooKeeper()
        self.answering = answering
        self.topics = [f"topic-{n:05d}" for n in range(max(1, partitions // PARTITIONS_PER_TOPIC))]
        self.core_s = 0.0
        self.steps = 0
        self.effects = 0
        self._events: deque[Event] = deque()
        self._answers: dict[int, tuple[ChannelRequest, object]] = {}
        self.brokers = range(1, brokers + 1)
        for broker in self.brokers:
            znode = Broker(BrokerId(broker), BrokerEpoch(-1), (Endpoint("PLAINTEXT", "127.0.0.1", 9092),))
            self.zookeeper.data[paths.broker_id(broker)] = znodes.encode_broker(znode, timestamp_ms=0)
        self.zookeeper.children[paths.broker_ids()] = tuple(map(str, self.brokers))
        self.zookeeper.data[paths.controller_epoch()] = b"1"
        self.zookeeper.children[paths.broker_topics()] = ()
        self.zookeeper.children[paths.delete_topics()] = ()

    def put_topics(self, *, with_states: bool) -> None:
        """Add the topics' znodes and the states of their partitions."""
        for n, name in enumerate(self.topics):
            assignments = {p: self._assignment(n * PARTITIONS_PER_TOPIC + p) for p in range(PARTITIONS_PER_TOPIC)}
            topic_id = TopicId(uuid.UUID(int=(n + 1) << 64))
            self.zookeeper.data[paths.topic(name)] = znodes.encode_topic(znodes.TopicZnode(assignments, topic_id))
            if with_states:
                for p, assignment in assignments.items():
                    state = LeaderAndIsr(assignment.replicas[0], 0, assignment.replicas, ControllerEpoch(1))
                    self.zookeeper.data[paths.partition_state(name, p)] = znodes.encode_state(state)
        self.zookeeper.children[paths.broker_topics()] = tuple(self.topics)

    def _assignment(self, number: int) -> ReplicaAssignment:
        """The replicas of the partition with this number among all: on neighbours, each broker in turn the first."""
        return ReplicaAssignment(
            tuple(self.brokers[(number + r) % len(self.brokers)] for r in range(REPLICATION_FACTOR))
        )

    def mark_topics(self) -> None:
        self.zookeeper.children[paths.delete_topics()] = tuple(self.topics)

    def run(self, event: Event) -> None:
        """Run the event and everything that follows from it, including answers."""
        self._events.append(event)
        while self._events:
            following = self._events.popleft()
            started_s = time.thread_time()
            effects = controller.step(self.context, following, self.steps)
            self.core_s += time.thread_time() - started_s
            self.steps += 1
            self.effects += len(effects)
            self._perform(effects)

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, ReadZnodes):
                outcomes = tuple(map(self.zookeeper.read, effect.reads))
                self._events.appendleft(events.ZnodesRead(effect.id, outcomes))
            elif isinstance(effect, WriteZnodes):
                queue = self._events.append if effect.in_background else self._events.appendleft
                queue(self.zookeeper.write(effect))
            elif isinstance(effect, ProbeBrokers):
                accepted = tuple(events.ProbeOutcome(each.broker, 0, None) for each in effect.targets)
                self._events.appendleft(events.ProbesCompleted(effect.id, accepted))
            elif isinstance(effect, Send) and self.answering:
                self._events.append(_answer(effect))


def _answer(send: Send) -> Event:
    broker, epoch, request_id, request = send
    if isinstance(request, LeaderAndIsrRequest):
        rows = tuple(TopicIdError(None, t.topic_id, row.partition, 0) for t in request.topics for row in t.partitions)
        return events.LeaderAndIsrResponseReceived(broker, epoch, request_id, LeaderAndIsrResponse(0, rows))
    if isinstance(request, StopReplicaRequest):
        stopped = tuple(TopicError(t.topic, row.partition, 0) for t in request.topics for row in t.partitions)
        return events.StopReplicaResponseReceived(broker, epoch, request_id, StopReplicaResponse(0, stopped))
    if isinstance(request, DescribeLogDirsRequest):
        return events.LogDirsDescribed(broker, epoch, request_id, DescribeLogDirsResponse((LogDir(0, "/a", ()),)))
    return events.UpdateMetadataResponseReceived(broker, epoch, request_id, UpdateMetadataResponse(0))


# --- the phases ---------------------------------------------------------------------------------------------------


def _measured(world: SimulatedCluster, name: str, act: Callable[[], None]) -> Phase:
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
    world = SimulatedCluster(partitions, brokers)
    world.put_topics(with_states=True)
    return _measured(world, "load and take over", lambda: world.run(events.SessionEstablished(1, bytes(32))))


def phases(partitions: int, brokers: int = BROKERS) -> tuple[Phase, ...]:
    """Measure loading and takeover of a cluster, then creation and deletion of the same topics in a second one."""
    found = [_take_over(partitions, brokers)]
    world = SimulatedCluster(partitions, brokers)
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
    world = SimulatedCluster(partitions)
    world.put_topics(with_states=True)
    world.run(events.SessionEstablished(1, bytes(32)))
    started_s, steps = world.core_s, world.steps
    for n in range(SMALL_STEPS):
        world.run(events.TopicsModified((f"gone-{n}",)))
    return round((world.steps - steps) / (world.core_s - started_s))


def traced(partitions: int) -> tuple[float, float]:
    """Return memory after loading and its peak in MB, from the point at which the prepared answers exist."""
    world = SimulatedCluster(partitions, answering=False)
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


def resident_mb() -> float:
    """Return the resident memory of this process; 0 without /proc."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
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
    parser.add_argument("--brokers", type=int, nargs="+", help="measure the phases with each of these numbers")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.brokers:
        _by_brokers(options.partitions, options.brokers, as_json=options.json)
        return
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


def _by_brokers(partitions: int, numbers: Sequence[int], *, as_json: bool) -> None:
    """Print each phase with each number of brokers, as a table or as one JSON object for each number."""
    if not as_json:
        print(f"{partitions} partitions, replication factor {REPLICATION_FACTOR}, without garbage collection")
        print(f"{'brokers':>7}  {'phase':<20}{'core ms':>10}{'steps':>8}{'effects':>10}{'resident MB':>13}")
    gc.disable()
    for brokers in numbers:
        for phase in phases(partitions, brokers):
            if as_json:
                print(json.dumps({"brokers": brokers, **asdict(phase)}), flush=True)
                continue
            print(
                f"{brokers:>7}  {phase.name:<20}{phase.core_ms:>10}{phase.steps:>8}{phase.effects:>10}"
                f"{phase.resident_mb:>13}",
                flush=True,
            )
        gc.collect()
    gc.enable()


if __name__ == "__main__":
    main()
