"""What connections cost: how many a controller's listener accepts, and how long a controller logs in at many brokers.

A client opens a connection, logs in, asks for versions and closes; eight do that at a time. Client and server share the
machine, so the processor time of each is measured for itself.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.against_kafka.observer import processor_s
from benchmarks.against_kafka.testbed import BenchmarkFailed
from benchmarks.security.kinds import Kind, Material
from lethe.adapters.kafka.client_errors import ConnectionFailed
from lethe.adapters.kafka.config_reach import load_client_reach
from lethe.cluster.daemons import write_properties
from lethe.controller.core.effects import ProbeBrokers, ProbeTarget
from lethe.controller.runtime.configuration import load_controller_config
from lethe.controller.runtime.configured import connector, prober
from lethe.controller.runtime.probing import NO_ANSWER
from lethe.protocol.kafka.control import probe_request
from lethe.protocol.vocabulary import BrokerId, Endpoint

AT_A_TIME: Final = 8


@dataclass(frozen=True, slots=True)
class Accepted:
    """Connections of one kind that a controller's listener accepted in one round."""

    kind: str
    round: int
    connections: int
    seconds: float
    server_s: float
    """Processor time of the controller's process."""
    client_s: float
    """Processor time of the process that connects."""


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """One round of a controller that connects to all brokers and asks each whether it would obey."""

    kind: str
    round: int
    brokers: int
    unanswered: int
    """Brokers whose answer had not arrived when the controller stopped waiting."""
    seconds: float
    controller_s: float
    """Processor time of the controller's part."""


async def accept(
    material: Material, kind: Kind, endpoint: Endpoint, pid: int, connections: int, number: int, directory: Path
) -> Accepted:
    """Open so many connections to the endpoint of the process with that id. Raises BenchmarkFailed."""
    file = directory / "client.properties"
    write_properties(file, material.client(kind))
    reach = load_client_reach(file)
    left = iter(range(connections))

    async def connect() -> None:
        for _ in left:
            async with await reach.open(endpoint, "bench") as connection:
                await connection.api_versions()

    server_s, client_s, began_s = processor_s(pid), time.process_time(), time.perf_counter()
    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_A_TIME):
                tasks.create_task(connect(), name="client")
    except* ConnectionFailed as failed:
        raise BenchmarkFailed(f"{kind.name}: {failed.exceptions[0]}") from failed
    seconds = time.perf_counter() - began_s
    return Accepted(
        kind.name,
        number,
        connections,
        round(seconds, 3),
        round(processor_s(pid) - server_s, 3),
        round(time.process_time() - client_s, 3),
    )


async def log_in(
    material: Material, kind: Kind, endpoint: Endpoint, brokers: int, number: int, directory: Path
) -> LoggedIn:
    """Probe so many brokers as a controller does before it takes control; all of them are the one at the endpoint."""
    file = directory / "controller.properties"
    own = {"broker.id": "1001", "zookeeper.connect": "127.0.0.1:1", "lethe.http.port": "0"}
    write_properties(file, own | material.between_brokers(kind))
    config = load_controller_config(file, {})
    targets = tuple(ProbeTarget(BrokerId(each + 1), endpoint) for each in range(brokers))
    probe = ProbeBrokers(1, probe_request(config.controller_id), targets)
    client_s, began_s = time.process_time(), time.perf_counter()
    outcomes = await prober(config, connector(config)).probe(probe)
    seconds, used_s = time.perf_counter() - began_s, time.process_time() - client_s
    unanswered = [each for each in outcomes if each.error is None]
    if refused := [each.problem for each in unanswered if each.problem != NO_ANSWER]:
        raise BenchmarkFailed(f"{kind.name}: {len(refused)} of {brokers} connections failed; the first: {refused[0]}")
    return LoggedIn(kind.name, number, brokers, len(unanswered), round(seconds, 3), round(used_s, 3))
