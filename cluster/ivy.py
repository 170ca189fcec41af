"""Jars from the public Maven repository, fetched once and kept in a cache.

Theory of operation. PySpark's jars contain Ivy, which knows where Maven artifacts are, fetches them with everything
that they need and checks their checksums; so nothing has to be installed beyond what the embedded ZooKeeper needs. What
is fetched together has a directory of its own in the cache. It is filled under another name and renamed when it is
whole, so that a directory with the right name is always complete; a lock file, which the kernel releases whatever
becomes of its holder, lets one process fetch while others wait for it, and whoever holds it removes what an interrupted
fetch has left.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from lethe.cluster.java import java_executable, pyspark_jars
from lethe.cluster.process import tied_to_us
from lethe.protocol.counting import counted

CACHE_VARIABLE: Final = "LETHE_KAFKA_CACHE"
SETTINGS_VARIABLE: Final = "LETHE_IVY_SETTINGS"
_IVY: Final = "org.apache.ivy.Main"
_UNREACHABLE: Final = re.compile(
    r"UnknownHost|Connection (?:refused|timed out|reset)|ConnectException|SocketTimeout|NoRouteToHost"
    r"|Host \S+ not found|Server access error|SSLHandshake|Network is unreachable"
)

Progress = Callable[[str], None]
"""Told what goes on, a sentence at a time; must not block."""


class NotFetched(Exception):
    """Ivy could not have it: what it printed."""


class Artifact(NamedTuple):
    """One set of jars, fetched in one call of Ivy."""

    name: str
    """As it is told: `Kafka 3.9.1`."""
    directory: str
    """In the cache."""
    module: str
    """The file that tells Ivy what to fetch."""
    jar: str
    """One of them, without which it is not whole."""
    size: str
    """About how much it is, in words."""


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where what was fetched is kept, each in a directory of its own."""
    if chosen := environment.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute()
    base = environment.get("XDG_CACHE_HOME")
    # As the specification has it, a path that is not absolute is ignored.
    root = Path(base) if base and os.path.isabs(base) else Path("~/.cache").expanduser()
    return root / "lethe" / "kafka"


def fetch(wanted: Artifact, tell: Progress, environment: Mapping[str, str]) -> Path:
    """The directory of its jars, fetched now where they are not in the cache yet. Blocks; may take minutes. Raises
    NotFetched, JavaUnusable, and OSError where the cache cannot be written."""
    cache = cache_directory(environment)
    final = cache / wanted.directory
    if not final.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        waiting = f"another process is fetching {wanted.name}"
        with _locked(cache / f"{wanted.directory}.lock", lambda: tell(waiting)):
            if not final.is_dir():
                _fetch(wanted, final, tell, environment)
    return final


def is_unreachable(output: str) -> bool:
    """Whether what Ivy printed says that it came to no repository."""
    return _UNREACHABLE.search(output) is not None


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


def progress(line: str) -> str | None:
    """What a line of Ivy's tells about how far it is; None where that is nothing."""
    if found := re.search(r"\[SUCCESSFUL \] \S+!(\S+)\.\w+(?:\(\w+\))? \((\d+)ms\)", line):
        return f"  {found[1]}"
    return None


def _fetch(wanted: Artifact, final: Path, tell: Progress, environment: Mapping[str, str]) -> None:
    """Holding the lock: whatever lies under the temporary name, nobody is at work on it."""
    needed_by = f"fetching {wanted.name}"
    java = java_executable(needed_by)
    pyspark = pyspark_jars("ivy", needed_by, "bring a filled cache")
    work_dir = final.with_name(f"{final.name}.partial")
    shutil.rmtree(work_dir, ignore_errors=True)
    work_dir.mkdir()
    try:
        (work_dir / "ivy.xml").write_text(wanted.module)
        tell(f"fetching {wanted.name} into {final} (once; {wanted.size})")
        began = time.monotonic()
        code, output = _run(ivy_command(java, pyspark, work_dir, environment.get(SETTINGS_VARIABLE)), tell)
        jars = work_dir / "jars"
        if code != 0 or not (jars / wanted.jar).is_file():
            raise NotFetched(output)
        found = [jar.stat().st_size for jar in jars.iterdir()]
        os.rename(jars, final)
        tell(f"fetched {counted(len(found), 'jar')}, {sum(found) / 1e6:.0f} MB, in {time.monotonic() - began:.0f} s")
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
