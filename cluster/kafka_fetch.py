"""Real Apache Kafka of one version: fetched once from the public Maven repository, kept in a cache.

Theory of operation. PySpark's jars contain Ivy, which knows where Maven artifacts are, fetches them with everything
that they need and checks their checksums; so nothing has to be installed beyond what the embedded ZooKeeper needs. A
version has a directory of its own in the cache. It is filled under another name and renamed when it is whole, so that a
directory with the right name is always complete; a lock file, which the kernel releases whatever becomes of its holder,
lets one process fetch while others wait for it, and whoever holds it removes what an interrupted fetch has left.

The cache is `$LETHE_KAFKA_CACHE`, or `lethe/kafka` in `$XDG_CACHE_HOME` or `~/.cache`. `$LETHE_IVY_SETTINGS` names a
settings file for Ivy where artifacts come from a repository of one's own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from cluster.java import JavaUnusable, java_executable, pyspark_jars
from cluster.process import tied_to_us

SCALA: Final = "2.13"
LOGGING_MODULE: Final = ("org.slf4j", "slf4j-reload4j", "1.7.36")
"""Kafka brings an interface for logs and leaves it to its scripts to bring what writes them."""
CACHE_VARIABLE: Final = "LETHE_KAFKA_CACHE"
SETTINGS_VARIABLE: Final = "LETHE_IVY_SETTINGS"
_IVY: Final = "org.apache.ivy.Main"
_NEEDED_BY: Final = "fetching Kafka"
_UNREACHABLE: Final = re.compile(
    r"UnknownHost|Connection (?:refused|timed out|reset)|ConnectException|SocketTimeout|NoRouteToHost"
    r"|Host \S+ not found|Server access error|SSLHandshake|Network is unreachable"
)

_TOOL_PACKAGES: Final = (
    *("org/apache/kafka/tools", "org/apache/kafka/tools/consumer", "org/apache/kafka/tools/consumer/group"),
    *("kafka/admin", "kafka/tools", "org/apache/zookeeper"),
)

Progress = Callable[[str], None]
"""Told what goes on, a sentence at a time; must not block."""


class KafkaUnavailable(Exception):
    """That Kafka cannot be had: says why, and what to do about it."""


class KafkaVersion(NamedTuple):
    """A release of Kafka that has brokers in ZooKeeper mode. Build it with `parse`."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `3.9.1`. Raises ValueError that names the text and what is accepted."""
        found = re.fullmatch(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})", text.strip())
        if found is None:
            raise ValueError(f"{text!r} is no version of Kafka: give all three numbers, such as 3.9.1")
        version = cls(*map(int, found.groups()))
        if version >= (4, 0, 0):
            raise ValueError(f"Kafka {version} has no ZooKeeper mode: choose a version from 2.5.0 to 3.9.x")
        if version < (2, 5, 0):
            raise ValueError(f"Kafka {version} is too old to be run here: choose a version from 2.5.0 to 3.9.x")
        return version

    @property
    def inter_broker_protocol(self) -> str:
        """The newest that it speaks, and its default: `3.9`."""
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


@dataclass(frozen=True, slots=True)
class KafkaDistribution:
    """A version whose jars, with all that they need, are in one directory."""

    version: KafkaVersion
    jars: Path

    @property
    def classpath(self) -> str:
        """For `java -cp`."""
        return f"{self.jars}/*"

    def tool(self, name: str) -> str:
        """The main class of a command-line tool: `TopicCommand`, `ConsoleProducer`, ... Kafka has moved them from one
        package to another over the years. Raises KafkaUnavailable where this version has none of that name."""
        wanted = {f"{package}/{name}.class": None for package in _TOOL_PACKAGES}
        for pattern in ("kafka-tools-[0-9]*.jar", f"kafka_{SCALA}-[0-9]*.jar"):
            for jar in self.jars.glob(pattern):
                with zipfile.ZipFile(jar) as archive:
                    names = frozenset(archive.namelist())
                for path in wanted:
                    if path in names:
                        return path.removesuffix(".class").replace("/", ".")
        raise KafkaUnavailable(f"Kafka {self.version} has no tool {name}")


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where fetched versions are kept, each in a directory that is named after it."""
    if chosen := environment.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute()
    base = environment.get("XDG_CACHE_HOME")
    # As the specification has it, a path that is not absolute is ignored.
    root = Path(base) if base and os.path.isabs(base) else Path("~/.cache").expanduser()
    return root / "lethe" / "kafka"


def modules(version: KafkaVersion) -> list[tuple[str, str, str]]:
    """Organisation, name and revision of what is fetched, besides what these need."""
    wanted = [("org.apache.kafka", f"kafka_{SCALA}", str(version))]
    if version >= (3, 6, 0):
        # The command-line tools left the broker's jar one after the other, beginning with this release.
        wanted.append(("org.apache.kafka", "kafka-tools", str(version)))
    return [*wanted, LOGGING_MODULE]


def ivy_module(version: KafkaVersion) -> str:
    """The file that tells Ivy what to fetch. A second writer of logs beside ours would be two too many."""
    needs = "".join(
        f'    <dependency org="{organisation}" name="{name}" rev="{revision}" conf="default->default"/>\n'
        for organisation, name, revision in modules(version)
    )
    return (
        '<ivy-module version="2.0">\n'
        f'  <info organisation="lethe" module="kafka-{version}" revision="1"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        "  <dependencies>\n"
        f"{needs}"
        '    <exclude org="log4j"/>\n'
        '    <exclude module="slf4j-log4j12"/>\n'
        '    <exclude org="ch.qos.logback"/>\n'
        "  </dependencies>\n"
        "</ivy-module>\n"
    )


def ivy_command(java: str, pyspark: Path, work_dir: Path, settings: str | None = None) -> list[str]:
    """Fetches what `work_dir/ivy.xml` says into `work_dir/jars`; everything that Ivy keeps stays in `work_dir`."""
    return [
        java,
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        f"-Divy.default.ivy.user.dir={work_dir / 'ivy'}",
        "-cp",
        f"{pyspark}/*",
        _IVY,
        *(["-settings", settings] if settings else []),
        "-ivy",
        str(work_dir / "ivy.xml"),
        "-confs",
        "default",
        "-retrieve",
        f"{work_dir}/jars/[artifact]-[revision](-[classifier]).[ext]",
    ]


def failure(version: KafkaVersion, output: str) -> str:
    """Why Ivy has fetched nothing, from what it printed."""
    tail = "\n".join(output.splitlines()[-15:])
    if _UNREACHABLE.search(output):
        return (
            f"Kafka {version} could not be fetched: the Maven repository cannot be reached. Connect to it, "
            f"name another one in a settings file for Ivy ({SETTINGS_VARIABLE}), or bring a filled cache "
            f"({CACHE_VARIABLE}). Ivy said:\n{tail}"
        )
    if f"kafka_{SCALA};{version}: not found" in output:
        return f"there is no Kafka {version} in the Maven repository: choose a version that was released, such as 3.9.1"
    return f"Kafka {version} could not be fetched. Ivy said:\n{tail}"


def fetch_kafka(
    version: KafkaVersion, tell: Progress, environment: Mapping[str, str] = os.environ
) -> KafkaDistribution:
    """That Kafka, fetched now where it is not in the cache yet. Blocks; may take minutes. Raises KafkaUnavailable."""
    cache = cache_directory(environment)
    final = cache / str(version)
    if not final.is_dir():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with _locked(cache / f"{version}.lock", lambda: tell(f"another process is fetching Kafka {version}")):
                if not final.is_dir():
                    _fetch(version, final, tell, environment)
        except OSError as error:
            raise KafkaUnavailable(f"Kafka {version} cannot be kept in {cache} ({CACHE_VARIABLE}): {error}") from error
    return KafkaDistribution(version, final)


def _fetch(version: KafkaVersion, final: Path, tell: Progress, environment: Mapping[str, str]) -> None:
    """Holding the lock: whatever lies under the temporary name, nobody is at work on it."""
    try:
        java = java_executable(_NEEDED_BY)
        pyspark = pyspark_jars("ivy", _NEEDED_BY, "bring a filled cache")
    except JavaUnusable as error:
        raise KafkaUnavailable(str(error)) from error
    work_dir = final.with_name(f"{final.name}.partial")
    shutil.rmtree(work_dir, ignore_errors=True)
    work_dir.mkdir()
    try:
        (work_dir / "ivy.xml").write_text(ivy_module(version))
        tell(f"fetching Kafka {version} into {final} (once; 30 to 60 MB)")
        began = time.monotonic()
        code, output = _run(ivy_command(java, pyspark, work_dir, environment.get(SETTINGS_VARIABLE)), tell)
        jars = work_dir / "jars"
        if code != 0 or not (jars / f"kafka_{SCALA}-{version}.jar").is_file():
            raise KafkaUnavailable(failure(version, output))
        found = [jar.stat().st_size for jar in jars.iterdir()]
        os.rename(jars, final)
        tell(f"fetched {len(found)} jars, {sum(found) / 1e6:.0f} MB, in {time.monotonic() - began:.0f} s")
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


def _run(command: Sequence[str], tell: Progress) -> tuple[int, str]:
    """Its exit code and output. It ends with us, however we end."""
    lines: list[str] = []
    process = subprocess.Popen(
        tied_to_us(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if told := progress(line):
                tell(told)
        return process.wait(), "".join(lines)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def progress(line: str) -> str | None:
    """What a line of Ivy's tells about how far it is; None where that is nothing."""
    if found := re.search(r"\[SUCCESSFUL \] \S+!(\S+)\.\w+(?:\(\w+\))? \((\d+)ms\)", line):
        return f"  {found[1]}"
    return None


@contextlib.contextmanager
def _locked(path: Path, when_waiting: Callable[[], None]) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            when_waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
