"""Looks at a cluster from outside, the same way whoever controls it: ZooKeeper's znodes and counters, what the agents
have written down, and the memory of the controller's process.

What an agent was told, and when, stands in its journal: one fact for each control request that it has carried out.
What its requests took on the wire is a metric of it. ZooKeeper counts requests by connection (`cons`) and numbers
transactions (`srvr`).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import aiohttp

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.daemons import BrokerDaemon
from lethe.cluster.zookeeper import EmbeddedZooKeeper, four_letter_word
from lethe.protocol.journal import Entry, FactType, decode_lines
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, Exists, GetData, Present
from lethe.protocol.zookeeper.znodes import decode_controller, decode_controller_epoch

_CONTROL: tuple[str, ...] = (ApiKey.LEADER_AND_ISR.name, ApiKey.UPDATE_METADATA.name, ApiKey.STOP_REPLICA.name)
_REQUEST_BYTES = re.compile(r'^lethe_agent_request_bytes_total\{api="(\w+)"\} (\S+)$', re.MULTILINE)


class Told(NamedTuple):
    """A control request that an agent has carried out."""

    time_ms: int
    api: str
    controller_epoch: int
    partitions: int


class JournalTail:
    """What an agent has written down since it was last looked at."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._offsets: dict[Path, int] = {}

    def read(self) -> list[Told]:
        """The control requests since the last call, in order."""
        found: list[Told] = []
        for path in sorted(self._directory.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._offsets[path] = self._offsets.get(path, 0) + len(whole)
            lines = [line for line in whole.splitlines() if b"lethe.request" in line]
            found += [_told(entry) for entry in decode_lines(lines) if isinstance(entry, Entry)]
        return found


def _told(entry: Entry) -> Told:
    assert entry.fact.type is FactType.REQUEST
    data = entry.fact.data
    epoch, partitions = data["controller_epoch"], data["partitions"]
    assert isinstance(epoch, int)
    assert isinstance(partitions, int)
    return Told(entry.time_ms, str(data["api"]), epoch, partitions)


@dataclass(frozen=True, slots=True)
class Counts:
    """What has been counted up to a moment."""

    zookeeper_requests: int
    """Of the controller's session; a multi is one."""
    transactions: int
    """Of ZooKeeper, whoever wrote."""
    control_bytes: int
    """Of the control requests that the agents have received."""
    control_requests: int
    cpu_s: float
    """Processor time of the controller's process."""

    def since(self, before: Counts) -> Counts:
        """What came after an earlier moment."""
        return Counts(
            self.zookeeper_requests - before.zookeeper_requests,
            self.transactions - before.transactions,
            self.control_bytes - before.control_bytes,
            self.control_requests - before.control_requests,
            self.cpu_s - before.cpu_s,
        )


class Holder(NamedTuple):
    """Who is the controller."""

    broker_id: int
    session_id: int
    since_ms: int
    czxid: int


class Observer:
    """Of one ZooKeeper and its agents."""

    def __init__(self, zookeeper: EmbeddedZooKeeper, session: ZooKeeperSession, agents: Sequence[BrokerDaemon]) -> None:
        self._zookeeper = zookeeper
        self._session = session
        self._agents = tuple(agents)
        self._tails = [JournalTail(agent.journal_dir) for agent in agents]
        self._requests = 0

    # --- the agents -----------------------------------------------------------------------------------------------

    def told(self) -> list[list[Told]]:
        """By agent: what it was told since the last call."""
        found = [tail.read() for tail in self._tails]
        self._requests += sum(map(len, found))
        return found

    async def settled(self) -> bool:
        """True when no agent has anything left to fill or to propose."""
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

    async def holder(self) -> Holder | None:
        """Who holds `/controller`; None where nobody does."""
        (found,) = await self._session.read([GetData(paths.CONTROLLER)])
        if not isinstance(found, Data):
            return None
        znode = decode_controller(found.data)
        return Holder(znode.broker_id, found.stat.ephemeral_owner, znode.timestamp_ms, found.stat.czxid)

    async def controller_epoch(self) -> int:
        """The epoch of the last election; 0 where there was none."""
        (found,) = await self._session.read([GetData(paths.controller_epoch())])
        return decode_controller_epoch(found.data) if isinstance(found, Data) else 0

    async def left(self) -> tuple[int, int]:
        """How many topics and deletion markers there are."""
        topics, marks = await self._session.read([Exists(paths.BROKER_TOPICS), Exists(paths.DELETE_TOPICS)])
        return (
            topics.stat.num_children if isinstance(topics, Present) else 0,
            marks.stat.num_children if isinstance(marks, Present) else 0,
        )

    async def counts(self, controller_session: int, controller_pid: int) -> Counts:
        """Everything that is counted, now, of a controller with that ZooKeeper session and that process."""
        host, port = self._zookeeper.settings.host, self._zookeeper.port
        connections = four_letter_word(host, port, "cons")
        received = re.search(rf"recved=(\d+),sent=\d+,sid=0x{controller_session:x},", connections)
        zxid = re.search(r"^Zxid: 0x([0-9a-f]+)$", four_letter_word(host, port, "srvr"), re.MULTILINE)
        texts = [await self._metrics(agent) for agent in self._agents]
        bytes_by_api: Counter[str] = Counter()
        for text in texts:
            for api, size in _REQUEST_BYTES.findall(text):
                bytes_by_api[api] += int(float(size))
        assert zxid is not None, "ZooKeeper does not answer srvr"
        return Counts(
            int(received[1]) if received else 0,
            int(zxid[1], 16),
            sum(bytes_by_api[api] for api in _CONTROL),
            self._requests,
            processor_s(controller_pid),
        )


def processor_s(pid: int) -> float:
    """Processor time that a process has taken since it began, all threads together. Raises OSError as below."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory_mb(pid: int) -> float:
    """The most that a process has had in memory since it began (VmHWM). Raises OSError where there is no /proc."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0
