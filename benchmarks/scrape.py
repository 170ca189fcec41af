"""Cost of a scrape of the controller's metrics, with few partitions and with many."""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from typing import Final

from benchmarks.canned_cluster import CannedCluster
from lethe.adapters.clock import SystemClock
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.controller.core import controller, events
from lethe.controller.core.controller_state import ControllerState
from lethe.controller.runtime.loop import ControllerLoop
from lethe.controller.runtime.metrics import ChannelCounts, ChannelView, ControllerMetrics
from lethe.controller.runtime.perform import Performer
from lethe.controller.runtime.sessions import SessionKeeper
from lethe.controller.runtime.sources import sources
from lethe.controller.runtime.timers import Timers

SCRAPES: Final = 41
APIS: Final = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")
CASES: Final = ((1_000, 3), (10_000, 3), (100_000, 3), (100_000, 30), (100_000, 100))
"""(partitions, brokers)"""


@dataclass(frozen=True, slots=True)
class Scrape:
    partitions: int
    topics: int
    deletions: int
    brokers: int
    series: int
    text_bytes: int
    loop_ms: float
    """Time of the event loop: collecting the numbers."""
    median_ms: float
    """Whole time; formatting runs on another thread."""
    longest_ms: float


def loaded(partitions: int, brokers: int = 3) -> ControllerMetrics:
    """Return metrics of a controller that leads so many partitions and deletes every other topic."""
    world = CannedCluster(partitions)
    world.put_topics(with_states=True)
    world.run(events.SessionEstablished(1, bytes(32)))
    world.mark_topics(world.topics[::2])
    world.answering = False
    world.run(events.TopicDeletionsRequested())
    return metrics_over(world, brokers)


def metrics_over(world: CannedCluster, brokers: int) -> ControllerMetrics:
    """Return the real metric sources over this core's memory; nothing else runs."""
    metrics, clock = ControllerMetrics(), SystemClock()
    views = [_channel(number) for number in range(brokers)]
    sessions = SessionKeeper(open_nothing, post=ignore, overtake=ignore, prepare=prepare_nothing)
    timers = Timers(clock, ignore)
    performer = Performer(sessions, NoChannels(), timers, ignore, metrics.note_zookeeper, "controller/1000")
    loop = ControllerLoop(
        world.context, controller.step, controller.after_fault, performer, clock, metrics, metrics.note_record
    )
    for kind in events.External.__args__:
        metrics.event_began(kind.__name__, ControllerState.IDLE, 0.001)
        metrics.event_ended(kind.__name__, ControllerState.IDLE, 0.002, "handled")
    metrics.sources = sources(loop, sessions, lambda: views, clock, None, None)
    return metrics


def scrape(partitions: int, brokers: int) -> Scrape:
    """Measure one case."""
    metrics = loaded(partitions, brokers)
    gc.collect()
    gc.freeze()
    took_ms = list(_times(metrics.text))
    loop_ms = list(_times(metrics.gathered))
    gc.unfreeze()
    text = metrics.text()
    assert metrics.sources.gauges is not None
    gauges = metrics.sources.gauges()
    return Scrape(
        gauges.global_partition_count,
        gauges.global_topic_count,
        gauges.topics_to_delete_count,
        brokers,
        sum(not line.startswith(b"#") for line in text.splitlines()),
        len(text),
        round(statistics.median(loop_ms), 2),
        round(statistics.median(took_ms), 2),
        round(max(took_ms), 2),
    )


def _times(act: Callable[[], object]) -> Iterator[float]:
    for _ in range(SCRAPES):
        started_s = time.thread_time()
        act()
        yield (time.thread_time() - started_s) * 1000


def _channel(number: int) -> ChannelView:
    counts = ChannelCounts()
    for n in range(2_000):
        counts.queue_time_ms.add(n % 17)
    for api in APIS:
        counts.note_latency(api, 0.01)
    return ChannelView(number, counts, 0.0, 0.0)


class NoChannels:
    def open(self, effect: object) -> None: ...
    def close(self, broker: int) -> None: ...
    def send(self, effect: object) -> None: ...
    def close_all(self) -> None: ...


def ignore(_: object) -> None: ...


def open_nothing(_: object) -> AbstractAsyncContextManager[ZooKeeperSession]:
    raise RuntimeError("no session is opened here")


async def prepare_nothing(_: object) -> None: ...


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = [scrape(*case) for case in CASES]
    if options.json:
        print(json.dumps([asdict(each) for each in found], indent=2))
        return
    columns = (("partitions", 10), ("topics", 8), ("deleting", 10), ("brokers", 9), ("series", 8), ("bytes", 10))
    print("".join(f"{name:>{width}}" for name, width in (*columns, ("loop ms", 9), ("all ms", 8), ("longest", 9))))
    for each in found:
        print(
            f"{each.partitions:>10}{each.topics:>8}{each.deletions:>10}{each.brokers:>9}{each.series:>8}"
            f"{each.text_bytes:>10}{each.loop_ms:>9}{each.median_ms:>8}{each.longest_ms:>9}"
        )


if __name__ == "__main__":
    main()
