"""Jars from the public Maven repository, fetched once and kept in a cache.

Theory of operation. PySpark's jars contain Ivy, which finds Maven artifacts, fetches them with their dependencies and
verifies their checksums. So no further installation is needed. The jars of one fetch share a directory in the cache.

The directory is filled under another name and renamed at the end, so a directory under its final name is complete. A
lock file lets one process fetch while others wait; the kernel releases it when its holder ends. The lock's holder
removes the remains of an interrupted fetch.

The cache is `$LETHE_KAFKA_CACHE`, or `lethe/kafka` in `$XDG_CACHE_HOME` or `~/.cache`. `$LETHE_IVY_SETTINGS` names a
settings file for Ivy, for example with another repository.
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

from lethe.adapters.user_cache import user_cache
from lethe.cluster.java import java_executable, pyspark_jars
from lethe.cluster.process import die_with_parent
from lethe.protocol.counting import counted

CACHE_VARIABLE: Final = "LETHE_KAFKA_CACHE"
SETTINGS_VARIABLE: Final = "LETHE_IVY_SETTINGS"
_IVY: Final = "org.apache.ivy.Main"
_UNREACHABLE: Final = re.compile(
    r"UnknownHost|Connection (?:refused|timed out|reset)|ConnectException|SocketTimeout|NoRouteToHost"
    r"|Host \S+ not found|Server access error|SSLHandshake|Network is unreachable"
)

OnProgress = Callable[[str], None]
"""Receives progress, one sentence at a time; must not block."""


class NotFetched(Exception):
    """Ivy failed; the message is its output."""


class Artifact(NamedTuple):
    """One set of jars, fetched in one call of Ivy."""

    name: str
    """Name in messages: `Kafka 3.9.1`."""
    directory: str
    """Name of its directory in the cache."""
    module: str
    """Text of Ivy's module file, which lists what to fetch."""
    jar: str
    """A jar that proves that the fetch is complete."""
    size: str
    """Approximate size, in words."""


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the cache, which holds one directory per fetch. Raises OSError if the user has no home."""
    if chosen := environment.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute()
    return user_cache(environment) / "kafka"


def fetch(wanted: Artifact, tell: OnProgress, environment: Mapping[str, str]) -> Path:
    """Return the directory of the jars, fetching them if they are not cached. Blocks, possibly for minutes.

    Raises NotFetched, JavaUnusable, and OSError if the cache cannot be written.
    """
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
    """Return whether Ivy's output says that it reached no repository."""
    return _UNREACHABLE.search(output) is not None


def ivy_command(java: str, pyspark: Path, work_dir: Path, settings: str | None = None) -> list[str]:
    """Return the command that fetches the jars of `work_dir/ivy.xml` into `work_dir/jars`; Ivy writes nowhere else."""
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
    """Return the progress in a line of Ivy's output; None if there is none."""
    if found := re.search(r"\[SUCCESSFUL \] \S+!(\S+)\.\w+(?:\(\w+\))? \((\d+)ms\)", line):
        return f"  {found[1]}"
    return None


def _fetch(wanted: Artifact, final: Path, tell: OnProgress, environment: Mapping[str, str]) -> None:
    """Fetch while holding the lock, so no other process uses the temporary directory."""
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


def _run(command: Sequence[str], tell: OnProgress) -> tuple[int, str]:
    """Run the command; return its exit code and output. The kernel ends it with this process."""
    lines: list[str] = []
    process = subprocess.Popen(
        die_with_parent(command),
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
