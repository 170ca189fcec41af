"""A small cluster whose control requests are recorded: two brokers, and over them Kafka's controller or ours.

The brokers are real ones, or, where no release of Kafka is given but only the version to speak, agents.

Theory of operation. Every member advertises a recording proxy of its own, so that whatever the others send it passes
there. The controller has an id of its own and no replicas: Kafka's is a third broker, ours an advertised controller,
both with the same id. It starts alone, for a real broker takes control wherever it is free. Nothing happens of its own
accord: no automatic balance, no automatic topics, one log directory each.

What is recorded is what a controller and its brokers say to each other. The rest that passes, the copying of records
and the questions of clients, is not kept.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import psutil

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import OnWatch, ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.cluster.daemons import ANY_PORT, BrokerDaemon, ControllerDaemon, DaemonFailed, Member
from lethe.cluster.kafka import KafkaBroker, ibp_property, internal_topics
from lethe.cluster.kafka_fetch import KafkaDistribution, KafkaVersion
from lethe.cluster.loopback_server import Address
from lethe.cluster.recording_proxy import FindAddress, Frame, RecordingProxy
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings
from lethe.protocol.kafka.control import ApiKey
from tests.wire.recording import FROM_CONTROLLER, Exchange, Who

BROKERS: Final = (1, 2)
CONTROLLER: Final = 3
SESSION_TIMEOUT_MS: Final = 10_000
"""Of real brokers, which are stopped for a while; agents, which are quicker in everything, have half of it."""
START_LIMIT_S: Final = 180.0
LIMIT_S: Final = 90.0
POLL_S: Final = 0.05
_QUIET_S: Final = 1.5
_UNANSWERED_S: Final = 5.0
_KEYS: Final = struct.Struct(">hhi")
TO_CONTROLLER: Final = (
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.API_VERSIONS,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
)
"""What is kept of requests to the controller; of the greetings of each broker the first."""

Broker = KafkaBroker | BrokerDaemon
Brokers = KafkaDistribution | KafkaVersion
"""A release of Kafka, or the version that agents are to speak."""


class RecordingFailed(Exception):
    """The history could not be recorded; says what did not happen."""


class RecordedCluster:
    """The members and what has passed between them. Made by `recorded_cluster`."""

    def __init__(
        self, who: Who, brokers: Brokers, work_dir: Path, zookeeper: str, proxies: dict[int, RecordingProxy]
    ) -> None:
        self.version: Final = brokers.version if isinstance(brokers, KafkaDistribution) else brokers
        self._kafka = brokers if isinstance(brokers, KafkaDistribution) else None
        self._session_timeout_ms = SESSION_TIMEOUT_MS // 2 if self._kafka is None else SESSION_TIMEOUT_MS
        self.zookeeper_connect: Final = zookeeper
        self._proxies: Final = proxies
        self._work_dir = work_dir
        self._phases: list[tuple[int, str]] = []
        self.brokers: Final[dict[int, Broker]] = {
            number: self._agent(number) if self._kafka is None else self._kafka_broker(number) for number in BROKERS
        }
        self.controller: Final[Member] = (
            self._kafka_broker(CONTROLLER) if who is Who.KAFKA else self._lethe_controller()
        )

    @property
    def has_agents(self) -> bool:
        """Whether the brokers are agents."""
        return self._kafka is None

    def _agent(self, number: int) -> BrokerDaemon:
        properties = {
            **self._common(number),
            "broker.rack": "a",
            "replica.catch.up.delay.ms": "500",
            **ibp_property(self.version),
        }
        return BrokerDaemon(number, self._work_dir / f"broker-{number}", 1, properties)

    def _kafka_broker(self, number: int) -> KafkaBroker:
        if self._kafka is None:
            raise ValueError("Kafka's controller is a broker of Kafka: a release of it has to be given")
        properties = {
            **self._common(number),
            "auto.create.topics.enable": "false",
            "broker.rack": "a",
            "auto.leader.rebalance.enable": "false",
            **internal_topics(len(BROKERS)),
        }
        directory = self._work_dir / f"broker-{number}"
        return KafkaBroker(self._kafka, number, directory, 1, properties, self.session)

    def _lethe_controller(self) -> ControllerDaemon:
        properties = {
            "listeners": ANY_PORT,
            **self._common(CONTROLLER),
            "auto.leader.rebalance.enable": "false",
            **ibp_property(self.version),
        }
        return ControllerDaemon(CONTROLLER, self._work_dir / f"controller-{CONTROLLER}", properties)

    def _common(self, number: int) -> dict[str, str]:
        """Properties of every member."""
        return {
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.session.timeout.ms": str(self._session_timeout_ms),
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._proxies[number].port}",
        }

    @asynccontextmanager
    async def session(self, on_watch: OnWatch = lambda _: None) -> AsyncIterator[ZooKeeperSession]:
        """A ZooKeeper session of one's own."""
        config = ZooKeeperConfig(parse_connect_string(self.zookeeper_connect))
        async with open_session(config, on_watch) as session:
            yield session

    async def address(self, number: int) -> Address:
        """Where that member really listens; waited for. Raises OSError."""
        member = self.controller if number == CONTROLLER else self.brokers[number]
        try:
            if isinstance(member, KafkaBroker | BrokerDaemon):
                return await member.listener(START_LIMIT_S)
            assert isinstance(member, ControllerDaemon)
            return "127.0.0.1", await _listening_port(member)
        except DaemonFailed as failed:
            raise OSError(str(failed)) from failed

    # --- what was recorded ----------------------------------------------------------------------------------------

    async def begin(self, phase: str) -> None:
        """What passes from now on belongs to that phase; waits until nothing passes any more. Raises
        RecordingFailed."""
        await self.quiet()
        self._phases.append((time.time_ns(), phase))

    @property
    def phase(self) -> str:
        """The one that has begun last."""
        return self._phases[-1][1] if self._phases else ""

    async def quiet(self) -> None:
        """Wait until nothing has passed for a while and every request is answered. Raises RecordingFailed."""

        async def is_quiet() -> bool:
            found = self._timed((*BROKERS, CONTROLLER))
            passed_s = (time.time_ns() - max((time_ns for time_ns, _ in found), default=0)) / 1e9
            # Who is dead never answers.
            has_answers = all(each.response for _, each in found if each.phase == self.phase)
            return passed_s > (_QUIET_S if has_answers else _UNANSWERED_S) / (2 if self.has_agents else 1)

        await until(is_quiet, "controller and brokers did not come to rest")

    def exchanges(self, brokers: Collection[int] = BROKERS) -> list[Exchange]:
        """Everything between the controller and these brokers since the first phase began, in order."""
        return [each for _, each in self._timed(brokers)]

    def _timed(self, members: Collection[int]) -> list[tuple[int, Exchange]]:
        """The same, each with the time at which its request passed, in nanoseconds since 1970."""
        found = [(time_ns, each) for number in members for time_ns, each in self._of(number) if each.phase]
        return sorted(found, key=lambda timed: timed[0])

    def _of(self, member: int) -> Iterator[tuple[int, Exchange]]:
        """What its proxy saw of the requests of controllers, and what it asked the controller."""
        greeted = False
        for server in dict.fromkeys((member, CONTROLLER)):
            frames = self._proxies[server].frames
            answers = {(f.connection, f.payload[:4]): f.payload for f in frames if not f.to_server}
            for frame in frames:
                if not frame.to_server:
                    continue
                key, version, _ = _KEYS.unpack_from(frame.payload)
                is_told = key in FROM_CONTROLLER and server == member
                asks = key in TO_CONTROLLER and server == CONTROLLER and _client(frame) == member
                if is_told or (asks and not (greeted and key == ApiKey.API_VERSIONS)):
                    greeted = greeted or key == ApiKey.API_VERSIONS
                    answer = answers.get((frame.connection, frame.payload[4:8]))
                    phase = self._phase(frame.time_ns)
                    yield frame.time_ns, Exchange(phase, member, ApiKey(key), version, frame.payload, answer)

    def _phase(self, time_ns: int) -> str:
        return next((name for since, name in reversed(self._phases) if time_ns >= since), "")


def _client(frame: Frame) -> int:
    """Brokers give their id as client id."""
    (size,) = struct.unpack_from(">h", frame.payload, 8)
    text = frame.payload[10 : 10 + max(size, 0)]
    return int(text) if text.isdigit() else -1


async def _listening_port(controller: ControllerDaemon) -> int:
    """The port of its listener, which is told to nobody: brokers are told that of the proxy."""
    pid, http = controller.pid, controller.http_url
    if pid is None or http is None:
        raise OSError(f"{controller.name} is not running")
    for each in psutil.Process(pid).net_connections(kind="tcp"):
        if each.status == psutil.CONN_LISTEN and each.laddr.port != int(http.rpartition(":")[2]):
            return int(each.laddr.port)
    raise OSError(f"{controller.name} does not listen")


async def until(condition: Callable[[], Awaitable[bool]], problem: str, limit_s: float = LIMIT_S) -> None:
    """Wait for the condition. Raises RecordingFailed, saying what the problem is where it does not come."""
    deadline = time.monotonic() + limit_s
    while not await condition():
        if time.monotonic() > deadline:
            raise RecordingFailed(f"{problem} within {limit_s:g} s")
        await asyncio.sleep(POLL_S)


@asynccontextmanager
async def recorded_cluster(who: Who, brokers: Brokers, work_dir: Path) -> AsyncIterator[RecordedCluster]:
    """ZooKeeper runs, and nothing else yet; everything is gone when the block is left, but for logs and data."""
    made: list[RecordedCluster] = []

    def finder(number: int) -> FindAddress:
        async def find() -> Address:
            return await made[0].address(number)

        return find

    async with AsyncExitStack() as stack:
        server = EmbeddedZooKeeper(ZooKeeperSettings(data_dir=work_dir / "zookeeper"))
        stack.callback(server.close)
        await server.start_async()
        proxies = {
            number: await stack.enter_async_context(RecordingProxy(f"member {number}", finder(number)))
            for number in (*BROKERS, CONTROLLER)
        }
        cluster = RecordedCluster(who, brokers, work_dir, server.connect_string, proxies)
        made.append(cluster)
        for member in (*cluster.brokers.values(), cluster.controller):
            stack.callback(member.process.close)
        yield cluster
