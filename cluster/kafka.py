"""A real Kafka broker in ZooKeeper mode as a child process.

Theory of operation. It is a Kafka release in a JVM with a small heap. Its output goes to `broker.log`, its controller's
log to `controller.log`, and the state changes of replicas to `state-change.log`. Each run listens on another free port
and registers it. It is ready when it prints that it has started, which is after its registration.

If the registration of its last run still exists, as after a SIGKILL, a broker ends at once. So `start` first waits for
the end of the old session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.daemons import ANY_PORT, START_LIMIT_S, Member, write_properties
from lethe.cluster.java import java_executable, java_release
from lethe.cluster.kafka_fetch import KafkaDistribution, KafkaVersion
from lethe.cluster.process import ChildProcess
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Exists, Present

HEAP_MB: Final = 256
CONTROLLED_SHUTDOWN_LIMIT_S: Final = 60.0
"""Three attempts of a controlled shutdown, and the closing of the logs."""
SMALL_AND_QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM flags for tests: start fast, use little memory."""
AS_RELEASED: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
)
"""The flags of Kafka's own start scripts, as in production."""
_MAIN_CLASS: Final = "kafka.Kafka"
_STARTED: Final = "started (kafka.server.KafkaServer)"
_LISTENS: Final = re.compile(r"Awaiting socket connections on (?:\S*/)?([\w.]+):(\d+)\.")
_COMPLAINT: Final = re.compile(r"^\[[^]]*\] (?:ERROR|FATAL) .*(?:\n[^\[\s].*)?", re.MULTILINE)
_SMALL: Final = {
    "listeners": ANY_PORT,
    "background.threads": "4",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.segment.delete.delay.ms": "1000",
    # Since 3.8; older brokers start to remove deleted directories half a minute after their start.
    "log.initial.task.delay.ms": "1000",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}
_LOGGING: Final = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.appender.controller=org.apache.log4j.FileAppender
log4j.appender.controller.File=controller.log
log4j.appender.controller.layout=org.apache.log4j.PatternLayout
log4j.appender.controller.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.appender.state=org.apache.log4j.FileAppender
log4j.appender.state.File=state-change.log
log4j.appender.state.layout=org.apache.log4j.PatternLayout
log4j.appender.state.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.kafka.controller=INFO, controller
log4j.logger.state.change.logger=INFO, state
log4j.additivity.state.change.logger=false
"""

OpenSession = Callable[[], AbstractAsyncContextManager[ZooKeeperSession]]


def ibp_property(version: KafkaVersion) -> dict[str, str]:
    """Return the property with which a controller or an agent uses this version's inter-broker protocol."""
    return {"inter.broker.protocol.version": version.inter_broker_protocol}


def racks(names: Sequence[str], index: int) -> dict[str, str]:
    """Return the rack of the broker at this index; the names are used in turn."""
    return {"broker.rack": names[index % len(names)]} if names else {}


def internal_topics(brokers: int) -> dict[str, str]:
    """Return replication settings with which Kafka's internal topics fit on this number of brokers."""
    copies = str(min(brokers, 3))
    return {
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": str(min(brokers, 2)),
    }


def quick_flags(kafka: KafkaDistribution, java: str) -> tuple[str, ...]:
    """Return JVM flags for tests: SMALL_AND_QUICK, and the archive of Kafka's classes if there is one."""
    archive = kafka.class_archive(java_release(java))
    return (*SMALL_AND_QUICK, *([f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []))


def kafka_command(
    java: str,
    classpath: str,
    directory: Path,
    heap_mb: int,
    arguments: Sequence[str],
    jvm_flags: Sequence[str] = SMALL_AND_QUICK,
) -> list[str]:
    """Return the command of one of Kafka's main classes, the first argument; `_LOGGING` sets the log files."""
    return [
        java,
        f"-Xmx{heap_mb}m",
        f"-Xms{min(heap_mb, 64)}m",
        *jvm_flags,
        "-Xshare:auto",
        "-Djava.awt.headless=true",
        f"-Dlog4j.configuration=file:{directory / 'log4j.properties'}",
        "-cp",
        classpath,
        *arguments,
    ]


class KafkaBroker(Member):
    """One broker, with its log directories inside its own directory. Properties are Kafka's."""

    kind = "broker"

    def __init__(
        self,
        kafka: KafkaDistribution,
        number: int,
        directory: Path,
        log_dirs: int,
        properties: Mapping[str, str],
        open_session: OpenSession,
        *,
        heap_mb: int = HEAP_MB,
        jvm_flags: Sequence[str] | None = None,
        more_jvm_flags: Sequence[str] = (),
    ) -> None:
        """`properties` must contain `zookeeper.connect`; `open_session` opens a session there. None: `quick_flags`.

        Raises JavaUnusable.
        """
        self.kafka: Final = kafka
        self.log_dirs: Final = tuple(directory / f"logs-{index}" for index in range(log_dirs))
        self.config_file: Final = directory / "server.properties"
        self.controller_log: Final = directory / "controller.log"
        self.state_change_log: Final = directory / "state-change.log"
        self.properties: dict[str, str] = {
            **_SMALL,
            "broker.id": str(number),
            "log.dirs": ",".join(map(str, self.log_dirs)),
            **properties,
        }
        """Configuration of the next start."""
        self._open_session = open_session
        arguments = (_MAIN_CLASS, str(self.config_file))
        java = java_executable("a Kafka broker")
        flags = (*(quick_flags(kafka, java) if jvm_flags is None else jvm_flags), *more_jvm_flags)
        command = kafka_command(java, kafka.classpath, directory.resolve(), heap_mb, arguments, flags)
        super().__init__(
            number, directory, ChildProcess(f"broker {number}", command, log_file=directory / "broker.log")
        )

    def write_configuration(self) -> None:
        write_properties(self.config_file, self.properties)
        (self.directory / "log4j.properties").write_text(_LOGGING)

    async def is_ready(self) -> bool:
        return _STARTED in self.process.output()

    async def start(self, limit_s: float = START_LIMIT_S) -> None:
        """Start it after its old registration is gone, and wait until it is ready. Raises DaemonFailed."""
        await self.wait_forgotten(limit_s)
        await super().start(limit_s)

    async def wait_forgotten(self, limit_s: float = START_LIMIT_S) -> None:
        """Wait until it is not registered. Raises DaemonFailed."""
        async with self._open_session() as session:

            async def is_forgotten() -> bool:
                (found,) = await session.read([Exists(paths.broker_id(self.id))])
                return not isinstance(found, Present)

            await self.wait_until(is_forgotten, "forgotten by ZooKeeper", limit_s, must_run=False)

    async def stop(self, limit_s: float = CONTROLLED_SHUTDOWN_LIMIT_S) -> int | None:
        """Send SIGTERM, which starts a controlled shutdown, then SIGKILL after the limit; return the exit code."""
        return await super().stop(limit_s)

    async def listener(self, limit_s: float = START_LIMIT_S) -> tuple[str, int]:
        """Wait for host and port of its listener and return them. Raises DaemonFailed."""

        async def is_said() -> bool:
            return self.address is not None

        await self.wait_until(is_said, "listening", limit_s)
        assert self.address is not None
        return self.address

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port of this run; None until it has logged them."""
        found = _LISTENS.search(self.process.output())
        return (found[1], int(found[2])) if found else None

    def errors(self) -> list[str]:
        """Return the ERROR and FATAL lines of all runs in `controller.log` and `state-change.log`, each with its
        exception, if any."""
        found = []
        for path in (self.controller_log, self.state_change_log):
            if path.exists():
                text = path.read_text(errors="replace")
                found += [f"{path.name}: {line.replace(chr(10), ': ')}" for line in _COMPLAINT.findall(text)]
        return found
