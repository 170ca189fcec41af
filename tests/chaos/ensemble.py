"""A ZooKeeper ensemble of child processes, and ports that no other process is given by chance."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lethe.cluster.java import java_executable, pyspark_jars
from lethe.cluster.process import ChildProcess
from lethe.cluster.zookeeper import four_letter_word

HOST: Final = "127.0.0.1"
TICK_MS: Final = 500
HEAP_MB: Final = 256
START_LIMIT_S: Final = 60.0
_NAME: Final = "a ZooKeeper ensemble"
_MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_EPHEMERAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


class EnsembleFailed(Exception):
    """A server does not serve in time; the message names its log."""


def free_ports() -> Iterator[int]:
    """Yield free ports that the kernel gives to no other process: a member keeps its port while it is down."""
    lowest = int(_EPHEMERAL_RANGE.read_text().split()[0])
    port = lowest - 2_000 - os.getpid() % 8_000
    while port < lowest:
        port += 1
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        yield port
    raise EnsembleFailed("no port is free")


class Server:
    """One server of the ensemble; its number counts from 1."""

    def __init__(self, number: int, directory: Path, port: int, servers: str) -> None:
        self.id: Final = number
        self.port: Final = port
        self.directory: Final = directory
        self.transactions: Final = directory / "data" / "version-2"
        data = directory / "data"
        data.mkdir(parents=True)
        (data / "myid").write_text(str(number))
        config = directory / "zoo.cfg"
        config.write_text(_configuration(data, port, servers))
        jars = pyspark_jars("zookeeper", _NAME, "run no chaos")
        flags = [f"-Xmx{HEAP_MB}m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        flags += ["-Djava.awt.headless=true", "-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024"]
        command = [java_executable(_NAME), *flags, "-cp", f"{jars}/*", _MAIN_CLASS, str(config)]
        self.process: Final = ChildProcess(f"zookeeper {number}", command, log_file=directory / "zookeeper.log")

    @property
    def name(self) -> str:
        return self.process.name

    def mode(self) -> str:
        """Return leader or follower; empty where it does not serve. Blocks for two seconds at most."""
        if not self.process.is_running:
            return ""
        for line in four_letter_word(HOST, self.port, "srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return ""

    async def wait_serving(self, limit_s: float = START_LIMIT_S) -> None:
        """Wait until it leads or follows. Raises EnsembleFailed."""
        deadline = time.monotonic() + limit_s
        while not await asyncio.to_thread(self.mode):
            if time.monotonic() > deadline or not self.process.is_running:
                raise EnsembleFailed(f"{self.name} does not serve; see {self.process.log_file}")
            await asyncio.sleep(0.1)


class Ensemble:
    """Some servers on loopback. Their data and ports stay the same between runs."""

    def __init__(self, directory: Path, ports: Iterator[int], count: int = 3) -> None:
        numbers = range(1, count + 1)
        servers = "".join(f"server.{number}={HOST}:{next(ports)}:{next(ports)}\n" for number in numbers)
        self.servers: Final = tuple(
            Server(number, directory / f"zookeeper-{number}", next(ports), servers) for number in numbers
        )

    @property
    def connect_string(self) -> str:
        return ",".join(f"{HOST}:{server.port}" for server in self.servers)

    async def start(self) -> None:
        """Start all, and wait until all serve. Raises EnsembleFailed."""
        for server in self.servers:
            server.process.start()
        await asyncio.gather(*(server.wait_serving() for server in self.servers))

    async def leader(self) -> Server | None:
        """Return the server that leads now; None where none says so."""
        modes = await asyncio.gather(*(asyncio.to_thread(server.mode) for server in self.servers))
        return next((each for each, mode in zip(self.servers, modes, strict=True) if mode == "leader"), None)

    def close(self) -> None:
        for server in self.servers:
            server.process.close()


def _configuration(data: Path, port: int, servers: str) -> str:
    return (
        f"tickTime={TICK_MS}\ninitLimit=20\nsyncLimit=8\n"
        f"minSessionTimeout={2 * TICK_MS}\nmaxSessionTimeout={120 * TICK_MS}\n"
        f"dataDir={data}\nclientPort={port}\nclientPortAddress={HOST}\n"
        "admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n"
        # The checker reads the transaction logs of the whole run.
        f"autopurge.purgeInterval=0\n{servers}"
    )
