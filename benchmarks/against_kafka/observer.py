"""Observes a cluster from outside, in the same way for both controllers: ZooKeeper's znodes and counters, the agents'
journals, the memory of the controller's process.

An agent's journal has one event record per control request that it has applied. An agent's metric has the bytes of
these requests. ZooKeeper counts requests per connection (`cons`) and numbers transactions (`srvr`).
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import aiohttp

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.daemons import BrokerDaemon
from lethe.cluster.zookeeper import EmbeddedZooKeeper, four_letter_word
from lethe.protocol.journal import EventRecordType, JournalEntry, decode_lines
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, Exists, GetData, Present
from lethe.protocol.zookeeper.znodes import decode_controller, decode_controller_epoch

_CONTROL: tuple[str, ...] = (ApiKey.LEADER_AND_ISR.name, ApiKey.UPDATE_METADATA.name, ApiKey.STOP_REPLICA.name)
_REQUEST_BYTES = re.compile(r'^lethe_agent_request_bytes_total\{api="(\w+)"\} (\S+)$', re.MULTILINE)


class AppliedRequest(NamedTuple):
    """A control request that an agent has applied."""

    time_ms: int
    api: str
    controller_epoch: int
    partitions: int


class JournalTail:
    """New records of an agent's journal."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._offsets: dict[Path, int] = {}

    def read(self) -> list[AppliedRequest]:
        """Return the control requests since the last call, in order."""
        found: list[AppliedRequest] = []
        for path in sorted(self._directory.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._offsets[path] = self._offsets.get(path, 0) + len(whole)
            lines = [line for line in whole.splitlines() if b"lethe.request" in line]
            found += [_applied_request(entry) for entry in decode_lines(lines) if isinstance(entry, JournalEntry)]
        return found


def _applied_request(entry: JournalEntry) -> AppliedRequest:
    assert entry.record.type is EventRecordType.REQUEST
    data = entry.record.data
    epoch, partitions = data["controller_epoch"], data["partitions"]
    assert isinstance(epoch, int)
    assert isinstance(partitions, int)
    return AppliedRequest(entry.time_ms, str(data["api"]), epoch, partitions)


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """All counters at one moment."""

    zookeeper_requests: int
    """Of the controller's session; a multi counts once."""
    transactions: int
    """Of ZooKeeper, by all writers."""
    control_bytes: int
    """Of the control requests that the agents received."""
    control_requests: int
    cpu_s: float
    """Processor time of the controller's process."""

    def since(self, before: CounterSnapshot) -> CounterSnapshot:
        """Return the difference from an earlier snapshot."""
        return CounterSnapshot(
            self.zookeeper_requests - before.zookeeper_requests,
            self.transactions - before.transactions,
            self.control_bytes - before.control_bytes,
            self.control_requests - before.control_requests,
            self.cpu_s - before.cpu_s,
        )


class ActiveController(NamedTuple):
    """The owner of `/controller`."""

    broker_id: int
    session_id: int
    since_ms: int
    czxid: int


class Observer:
    """Observes one ZooKeeper and its agents."""

    def __init__(self, zookeeper: EmbeddedZooKeeper, session: ZooKeeperSession, agents: Sequence[BrokerDaemon]) -> None:
        self._zookeeper = zookeeper
        self._session = session
        self._agents = tuple(agents)
        self._tails = [JournalTail(agent.journal_dir) for agent in agents]
        self._requests = 0
        self._unseen: dict[int, None] = {}

    # --- the agents -----------------------------------------------------------------------------------------------

    def applied_requests(self) -> list[list[AppliedRequest]]:
        """Return the requests that each agent applied since the last call."""
        found = [tail.read() for tail in self._tails]
        self._requests += sum(map(len, found))
        return found

    def leave_out(self, agent: int) -> None:
        """Count nothing of this agent from now on, because it is killed; `count_again` ends that."""
        self._unseen[agent] = None

    def count_again(self) -> None:
        self._unseen.clear()

    async def settled(self) -> bool:
        """Return True when no agent has partitions left to catch up."""
        for agent in self._agents:
            text = await self._metrics(agent)
            waiting = re.findall(r"^lethe_agent_catching_up_partitions\{.*\} (\S+)$", text, re.MULTILINE)
            if not waiting or any(float(each) for each in waiting):
                return False
        return True

    async def _metrics(self, agent: BrokerDaemon) -> str:
        url = agent.http_url
        assert url is not None
        async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as response:
            return await response.text()

    # --- ZooKeeper ------------------------------------------------------------------------------------------------

    async def holder(self) -> ActiveController | None:
        """Return the owner of `/controller`, or None."""
        (found,) = await self._session.read([GetData(paths.CONTROLLER)])
        if not isinstance(found, Data):
            return None
        znode = decode_controller(found.data)
        return ActiveController(znode.broker_id, found.stat.ephemeral_owner, znode.timestamp_ms, found.stat.czxid)

    async def is_registered(self, broker: int) -> bool:
        """Return whether the broker's registration exists."""
        (found,) = await self._session.read([Exists(paths.broker_id(BrokerId(broker)))])
        return isinstance(found, Present)

    async def controller_epoch(self) -> int:
        """Return the epoch of the last election; 0 before the first one."""
        (found,) = await self._session.read([GetData(paths.controller_epoch())])
        return decode_controller_epoch(found.data) if isinstance(found, Data) else 0

    async def left(self) -> tuple[int, int]:
        """Return the number of topics and of deletion markers."""
        topics, marks = await self._session.read([Exists(paths.BROKER_TOPICS), Exists(paths.DELETE_TOPICS)])
        return (
            topics.stat.num_children if isinstance(topics, Present) else 0,
            marks.stat.num_children if isinstance(marks, Present) else 0,
        )

    async def live_heap_mb(self) -> float | None:
        """Return the size of ZooKeeper's live objects, after a full collection; None without jcmd."""
        pid, jcmd = self._zookeeper.pid, shutil.which("jcmd")
        if jcmd is None or pid is None:
            return None
        asked = [jcmd, str(pid), "GC.class_histogram"]
        return live_mb((await asyncio.to_thread(subprocess.run, asked, capture_output=True, text=True)).stdout)

    async def counts(self, controller_session: int, controller_pid: int) -> CounterSnapshot:
        """Return all counters now, for a controller with that ZooKeeper session and process."""
        host, port = self._zookeeper.settings.host, self._zookeeper.port
        connections = four_letter_word(host, port, "cons")
        received = re.search(rf"recved=(\d+),sent=\d+,sid=0x{controller_session:x},", connections)
        zxid = re.search(r"^Zxid: 0x([0-9a-f]+)$", four_letter_word(host, port, "srvr"), re.MULTILINE)
        texts = [await self._metrics(agent) for n, agent in enumerate(self._agents) if n not in self._unseen]
        bytes_by_api: Counter[str] = Counter()
        for text in texts:
            for api, size in _REQUEST_BYTES.findall(text):
                bytes_by_api[api] += int(float(size))
        assert zxid is not None, "ZooKeeper does not answer srvr"
        return CounterSnapshot(
            int(received[1]) if received else 0,
            int(zxid[1], 16),
            sum(bytes_by_api[api] for api in _CONTROL),
            self._requests,
            processor_s(controller_pid),
        )


def live_mb(histogram: str) -> float | None:
    """Return the total of jcmd's class histogram, which has live objects only; None if there is none."""
    found = re.search(r"^Total\s+\d+\s+(\d+)$", histogram, re.MULTILINE)
    return int(found[1]) / 1e6 if found else None


def processor_s(pid: int) -> float:
    """Return the processor time of the process since its start, of all threads. Raises OSError, as below."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory_mb(pid: int) -> float:
    """Return the peak memory of the process (VmHWM). Raises OSError without /proc."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0
