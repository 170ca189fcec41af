"""A Docker engine to run on: the one that can be reached, or one of our own.

Our own keeps everything (images, sockets, its process id) below one directory. Layers are overlay mounts where the
kernel allows them there, and copies of plain files elsewhere, which take minutes on a busy disk. It ends with us: on
the way out, and through the kernel where we are killed. What it did to the machine's packet filter and bridges is taken
back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.compose.progress import NoEngine, say

START_LIMIT_S: Final = 60.0
STOP_LIMIT_S: Final = 60.0
BRIDGE: Final = "docker0"
NEEDED: Final = {
    "dockerd": "docker.io",
    "containerd": "containerd",
    "iptables": "iptables",
    "ip": "iproute2",
    "setpriv": "util-linux",
}
"""Programs of an engine of our own, and Debian's packages for them."""


def reachable(environment: Mapping[str, str]) -> bool:
    """An engine answers where DOCKER_HOST, or the usual socket, says."""
    if shutil.which("docker", path=environment.get("PATH")) is None:
        return False
    asked = subprocess.run(
        ["docker", "version", "--format", "{{.Server.Version}}"],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return asked.returncode == 0


@contextlib.contextmanager
def engine(work_dir: Path, data: Path, *, own: bool) -> Iterator[dict[str, str]]:
    """The environment in which `docker` finds it. `own`: start one even where another can be reached. `data` is where
    our own keeps images. Raises NoEngine."""
    environment = dict(os.environ)
    if not own and reachable(environment):
        say("the Docker engine that can be reached is used")
        yield environment
        return
    with _our_own(work_dir, data, environment) as found:
        yield found


@contextlib.contextmanager
def _our_own(work_dir: Path, data: Path, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    _demand()
    log = work_dir / "dockerd.log"
    socket = work_dir / "docker.sock"
    found = {**environment, "DOCKER_HOST": f"unix://{socket}"}
    with _network_as_it_was(), log.open("wb") as output:
        process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "TERM", "dockerd"),
                *("--host", found["DOCKER_HOST"], "--pidfile", str(work_dir / "dockerd.pid")),
                *("--data-root", str(data), "--exec-root", str(work_dir / "exec")),
                *("--storage-driver", storage_driver(data), "--log-level", "warn"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_ready(process, found, log)
            say(f"a Docker engine of our own runs (process {process.pid}, images in {data})")
            yield found
        finally:
            _end(process, work_dir)


def storage_driver(data: Path) -> str:
    """Return overlay2 if overlays of directories in `data` can be mounted, and vfs, which works everywhere, if not."""
    data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="overlay-", dir=data) as name:
        lower, upper, work, merged = (Path(name) / each for each in ("lower", "upper", "work", "merged"))
        for each in (lower, upper, work, merged):
            each.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(merged)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            return "vfs"
        subprocess.run(["umount", str(merged)], capture_output=True, check=True)
    return "overlay2"


def _demand() -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        raise NoEngine(
            "no Docker engine can be reached, and one of our own needs Linux and root: start Docker and look at "
            "`docker version`, or run this as root"
        )
    missing = {package for program, package in NEEDED.items() if shutil.which(program) is None}
    if missing:
        raise NoEngine(
            "no Docker engine can be reached, and one of our own needs more than is installed: "
            f"apt-get install {' '.join(sorted(missing))}, or start Docker"
        )


def _wait_ready(process: subprocess.Popen[bytes], environment: Mapping[str, str], log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while not reachable(environment):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise NoEngine(f"no Docker engine can be reached, and one of our own does not start; it says:\n{tail}")
        time.sleep(0.5)


def _end(process: subprocess.Popen[bytes], work_dir: Path) -> None:
    """The engine, and whatever it started: all of that names the directory on its command line."""
    process.terminate()
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for number in _named(str(work_dir / "exec")):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def _named(text: str) -> list[int]:
    """Processes that have the text on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


@contextlib.contextmanager
def _network_as_it_was() -> Iterator[None]:
    """The engine sets up a bridge, a packet filter and forwarding, and leaves them."""
    forwarding = Path("/proc/sys/net/ipv4/ip_forward")
    forwarded = forwarding.read_text()
    had_bridge = Path(f"/sys/class/net/{BRIDGE}").exists()
    rules = subprocess.run(["iptables-save"], capture_output=True, check=False).stdout
    try:
        yield
    finally:
        if not had_bridge:
            subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True, check=False)
            _restore(rules)
            forwarding.write_text(forwarded)


def _restore(rules: bytes) -> None:
    """The packet filter of before: tables that were empty then are flushed."""
    for table in ("filter", "nat"):
        if f"*{table}".encode() not in rules:
            rules += _EMPTY[table]
    subprocess.run(["iptables-restore"], input=rules, capture_output=True, check=False)


_EMPTY: Final = {
    "filter": b"*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n",
    "nat": (
        b"*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n"
        b":POSTROUTING ACCEPT [0:0]\nCOMMIT\n"
    ),
}
