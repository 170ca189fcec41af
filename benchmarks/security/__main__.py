"""What TLS and logins cost: `python -m benchmarks.security`, or `make bench-security`.

Three parts, each by turns: connections that a controller's listener accepts; a controller that logs in at many brokers;
and the life of up to 100,000 partitions with each protocol of the controller's connections to brokers. `--quick` runs
everything once in small sizes, as a smoke test. Results go to docs/benchmarks-security.json,
docs/benchmarks.md and its plot.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import page as whole_page
from benchmarks.against_kafka.measure import TurnResult, run_turn
from benchmarks.against_kafka.plan import BROKERS, QUICK, QUICK_WARM_UP, WARM_UP, WORKLOADS, AgentMode, Workload
from benchmarks.against_kafka.testbed import BenchmarkFailed, FurtherProperties, Testbed, testbed
from benchmarks.documents import Document, write
from benchmarks.provenance import DOCS, origin, refusal
from benchmarks.rounds import Progress, by_turns
from benchmarks.security import page, plot, results
from benchmarks.security.connections import Accepted, LoggedIn, accept, log_in
from benchmarks.security.kinds import CHANNELS, KINDS, Kind, Material, write_user
from lethe.adapters.zookeeper.interface import SessionLost, WriteRefused, ZooKeeperUnavailable
from lethe.cluster.daemons import ControllerDaemon, DaemonFailed
from lethe.cluster.zookeeper import ZooKeeperStartFailed
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, Endpoint
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData
from lethe.protocol.zookeeper.znodes import decode_broker

FAILURES: Final = (
    *(ZooKeeperStartFailed, ZooKeeperUnavailable, SessionLost, WriteRefused, DaemonFailed, BenchmarkFailed),
)
LISTENING: Final = "listening"
"""Name of the controller whose listener accepts connections."""
_LISTENERS: Final = re.compile(r"brokers find the controller at (.*), among")
_LISTENER: Final = re.compile(r"(\w+)://127\.0\.0\.1:(\d+)")
WARM_UP_CONNECTIONS: Final = 20
PARTS: Final = ("connections", "logins", "topics")


@dataclass(frozen=True, slots=True)
class Options:
    """What to run."""

    parts: tuple[str, ...]
    channels: dict[str, Kind]
    workloads: tuple[Workload, ...]
    warm_up: Workload
    rounds: int
    connections: int
    """In each round, of each kind."""
    brokers: tuple[int, ...]
    """At how many of them a controller logs in."""
    output: Path | None
    """Directory of the page; None: no page is written."""


class Benchmark:
    """All rounds of one run."""

    def __init__(self, options: Options, directory: Path) -> None:
        self._options = options
        self._directory = directory
        self._material = Material(directory)
        self._tell = Progress().tell
        self._origin = origin()
        self.accepted: list[Accepted] = []
        self.logged_in: list[LoggedIn] = []
        self.turns: list[TurnResult] = []
        self.load: list[float] = []

    async def run(self) -> None:
        """Run all parts with the same agents."""
        own = {name: self._material.between_brokers(kind) for name, kind in self._options.channels.items()}
        further = FurtherProperties(self._material.server(), {**own, LISTENING: self._material.server()})
        async with testbed(None, AgentMode.NONE, len(BROKERS), None, further) as here:
            await write_user(here.session)
            if "connections" in self._options.parts:
                await self._connections(here)
            if "logins" in self._options.parts:
                await self._logins(here)
            if "topics" in self._options.parts:
                for workload in self._options.workloads:
                    await self._topics(here, workload)

    async def _connections(self, here: Testbed) -> None:
        async with here.turn(LISTENING, 1) as (member, _):
            assert isinstance(member, ControllerDaemon)
            assert member.pid is not None
            ports = listening_at(member.process.output())
            for number in range(self._options.rounds + 1):
                # Round 0 warms both sides up.
                count = self._options.connections if number else WARM_UP_CONNECTIONS
                for kind in by_turns(KINDS, number):
                    endpoint = Endpoint(kind.listener, "127.0.0.1", ports[kind.listener], kind.protocol)
                    found = await accept(self._material, kind, endpoint, member.pid, count, number, self._directory)
                    if number:
                        self.accepted.append(found)
                        self._keep(found)

    async def _logins(self, here: Testbed) -> None:
        endpoints = await endpoints_of(here, BROKERS[0])
        for number in range(1, self._options.rounds + 1):
            for brokers in self._options.brokers:
                for kind in by_turns(tuple(self._options.channels.values()), number):
                    endpoint = endpoints[kind.listener]
                    self.logged_in.append(
                        await log_in(self._material, kind, endpoint, brokers, number, self._directory)
                    )
                    self._keep(self.logged_in[-1])

    async def _topics(self, here: Testbed, workload: Workload) -> None:
        for number in range(1, self._options.rounds + 1):
            for name in by_turns(tuple(self._options.channels), number):
                self._tell(f"{workload.name}, round {number}: {name}")
                self.turns.append(await run_turn(here, name, number, workload, self._options.warm_up, self._tell))
                if complaints := self.turns[-1].complaints:
                    raise BenchmarkFailed(f"the controller with {name} complains: {complaints[0][:200]}")
                self._keep(None)

    def document(self) -> Document:
        """Return all measurements so far."""
        return results.document(self.accepted, self.logged_in, self.turns, self.load, self._origin)

    def _keep(self, shown: object) -> None:
        """Store the results so far, so that an aborted run keeps them."""
        self.load.append(os.getloadavg()[0])
        if shown is not None:
            self._tell(str(shown))
        if self._options.output is not None:
            found = self.document()
            write(found, self._options.output / results.JSON_NAME)
            (self._options.output / page.SVG_NAME).write_text(plot.svg(found))
            (self._options.output / whole_page.NAME).write_text(whole_page.page(self._options.output))


def listening_at(log: str) -> dict[str, int]:
    """Return the ports of a controller by listener, from what it has logged. Raises BenchmarkFailed."""
    line = _LISTENERS.search(log)
    if line is None:
        raise BenchmarkFailed("the controller does not say where brokers find it")
    return {listener: int(port) for listener, port in _LISTENER.findall(line[1])}


async def endpoints_of(here: Testbed, agent: int) -> dict[str, Endpoint]:
    """Return the agent's endpoints by listener. Raises BenchmarkFailed."""
    (found,) = await here.session.read([GetData(paths.broker_id(BrokerId(agent)))])
    if not isinstance(found, Data):
        raise BenchmarkFailed(f"the registration of broker {agent} cannot be read: {found}")
    broker = decode_broker(agent, BrokerEpoch(found.stat.czxid), found.data)
    return {endpoint.listener: endpoint for endpoint in broker.endpoints}


def parse(arguments: Sequence[str] | None) -> Options:
    """Return the options of the command line. Exits on invalid ones."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.security", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--quick", action="store_true", help="everything once, in small; writes no page")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="only these parts")
    parser.add_argument(
        "--security", nargs="+", choices=list(CHANNELS), default=list(CHANNELS), help="protocols to brokers (all)"
    )
    parser.add_argument(
        "--workloads", nargs="+", choices=["small", "large"], default=["large"], help="topics of 4 or of 50 partitions"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each part (3)")
    parser.add_argument("--connections", type=int, default=1_000, help="connections of each kind in a round (1,000)")
    parser.add_argument("--brokers", type=int, nargs="+", default=[100, 300], help="brokers to log in at (100 300)")
    parser.add_argument("--output", type=Path, default=DOCS, help="directory of the page; the project's docs")
    given = parser.parse_args(arguments)
    if min(given.rounds, given.connections, *given.brokers) < 1:
        parser.error("--rounds, --connections and --brokers must be above 0")
    if not given.quick and not given.output.is_dir():
        parser.error(f"--output {given.output}: there is no such directory")
    channels = {name: kind for name, kind in CHANNELS.items() if name in given.security}
    parts = tuple(part for part in PARTS if part in given.parts)
    if given.quick:
        return Options(parts, channels, (QUICK["small"],), QUICK_WARM_UP, 1, 20, (5,), None)
    workloads = tuple(WORKLOADS[name] for name in ("small", "large") if name in given.workloads)
    return Options(
        parts, channels, workloads, WARM_UP, given.rounds, given.connections, tuple(given.brokers), given.output
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, store the results, and return an exit code."""
    options = parse(arguments)
    if (refused := refusal(options.output)) is not None:
        print(f"the benchmark does not start: {refused}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="lethe-bench-security-") as directory:
        benchmark = Benchmark(options, Path(directory))
        try:
            asyncio.run(benchmark.run())
        except FAILURES as failure:
            print(f"the benchmark has failed: {failure}", file=sys.stderr)
            return 1
    print(page.table(benchmark.document()))
    if options.output is not None:
        print(f"written: {options.output / results.JSON_NAME}, {page.SVG_NAME}, {whole_page.NAME}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
