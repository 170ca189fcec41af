"""What is asked of the cluster in the containers, and the topics that come and go in it."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.compose.progress import Failed, expect, say, until
from tests.compose.project import Project

ENSEMBLE: Final = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
CONTROLLERS: Final = ("controller-1", "controller-2")
AGENTS: Final = ("broker-1", "broker-2", "broker-3")
KAFKA: Final = ("kafka-1", "kafka-2", "kafka-3")
CORE: Final = (*ENSEMBLE, *CONTROLLERS, "prometheus")
CONTROL_LIMIT_S: Final = 90.0
DELETION_LIMIT_MS: Final = 120_000
DELETED: Final[list[str]] = []
"""Topics that were deleted so far, for those who look for them later."""

_ASK_SERVER: Final = """\
import socket, sys
with socket.create_connection(("127.0.0.1", 2181), 3) as connection:
    connection.sendall(b"srvr")
    sys.stdout.write(connection.makefile("rb").read().decode())
"""
_ASK_STATE: Final = """\
import os, ssl, sys, urllib.request
url, headers, context = "http://127.0.0.1:8080/state", {}, None
if token := os.environ.get("LETHE_HTTP_TOKEN_FILE"):
    url = f"https://{os.uname().nodename}:8080/state"
    headers = {"Authorization": f"Bearer {open(token).read().strip()}"}
    context = ssl.create_default_context(cafile=os.environ["LETHE_HTTP_CA_FILE"])
asked = urllib.request.Request(url, headers=headers)
sys.stdout.write(urllib.request.urlopen(asked, timeout=5, context=context).read().decode())
"""


def modes(project: Project) -> dict[str, str]:
    """What each server of the ensemble is: leader, follower, or nothing that it would say."""
    found = {}
    for service in ENSEMBLE:
        said = project.inside(service, "python", "-c", _ASK_SERVER).output
        found[service] = next((line[6:] for line in said.splitlines() if line.startswith("Mode: ")), "none")
    return found


def roles(project: Project, controllers: tuple[str, ...] = CONTROLLERS) -> dict[str, str]:
    """What each controller says that it is; `none` for one that does not answer."""
    found = {}
    for service in controllers:
        said = project.inside(service, "python", "-c", _ASK_STATE)
        found[service] = str(json.loads(said.output).get("role")) if said.code == 0 else "none"
    return found


def wait_in_control(project: Project, among: tuple[str, ...] = CONTROLLERS) -> str:
    """The one controller of ours that is active, waited for. Raises Failed."""
    seen: dict[str, str] = {}

    def one_is() -> bool:
        seen.clear()
        seen.update(roles(project, among))
        active = [service for service, role in seen.items() if role == "active"]
        return len(active) == 1 and active[0] in among

    until(one_is, CONTROL_LIMIT_S, lambda: f"one of {', '.join(among)} should be active: {seen}")
    return next(service for service, role in seen.items() if role == "active")


def wait_ensemble(project: Project, servers: int = 3) -> str:
    """The leader of an ensemble of which so many serve, waited for. Raises Failed."""
    seen: dict[str, str] = {}

    def is_whole() -> bool:
        seen.clear()
        seen.update(modes(project))
        kinds = sorted(mode for mode in seen.values() if mode != "none")
        return kinds == ["follower"] * (servers - 1) + ["leader"]

    until(is_whole, CONTROL_LIMIT_S, lambda: f"{servers} servers should serve: {seen}")
    return next(service for service, mode in seen.items() if mode == "leader")


def create(project: Project, asked: str, topic: str) -> None:
    """A topic with a replica on each of three brokers, asked for in that container. Raises Failed."""
    shape = ("--partitions", "4", "--replication-factor", "3")
    project.lethe(asked, "topics", "create", "--topic", topic, *shape)


def wait_online(project: Project, asked: str, topics: tuple[str, ...]) -> None:
    """Waits until each partition of these topics has a leader, and all its replicas in sync. Raises Failed."""
    said = ""

    def all_are() -> bool:
        nonlocal said
        described = [project.try_lethe(asked, "topics", "describe", "--topic", topic) for topic in topics]
        said = "".join(each.output for each in described)
        lines = [line for line in said.splitlines() if "Leader:" in line]
        return bool(lines) and all(_is_online(line) for line in lines)

    until(all_are, CONTROL_LIMIT_S, lambda: f"{', '.join(topics)} should be online:\n{said}")


def _is_online(line: str) -> bool:
    """Of `Partition: 0 Leader: 1 Replicas: 1,2,3 Isr: 1,2,3`."""
    words = line.split()
    value = {name: words[at + 1] for at, name in enumerate(words[:-1]) if name.endswith(":")}
    replicas, in_sync = value.get("Replicas:", ""), value.get("Isr:", "")
    return value.get("Leader:", "none") not in ("none", "-1") and sorted(replicas) == sorted(in_sync)


def delete(project: Project, asked: str, topic: str) -> float:
    """Deletes it and waits for the end, asked for in that container; the seconds that took. Raises Failed."""
    wait = ("--wait", "--timeout-ms", str(DELETION_LIMIT_MS), "--json")
    said = project.try_lethe(asked, "topics", "delete", "--topic", topic, *wait)
    rows: list[dict[str, Any]] = json.loads(said.output) if said.code in (0, 3, 4) else []
    expect(said.code == 0, f"topic {topic} is not deleted:\n{said.said}")
    DELETED.append(topic)
    phases = ("zookeeper_clean_after_ms", "caches_clean_after_ms", "logs_clean_after_ms")
    return max(int(row[phase] or 0) for row in rows for phase in phases) / 1000


def mark(project: Project, asked: str, topic: str) -> None:
    """Marks it for deletion and does not wait. Raises Failed."""
    project.lethe(asked, "topics", "delete", "--topic", topic)
    DELETED.append(topic)


def wait_gone(project: Project, asked: str, topics: tuple[str, ...], limit_s: float) -> float:
    """Waits until ZooKeeper has none of them; the seconds that took. Raises Failed with what the first waits for."""

    def all_are() -> bool:
        listed = {row["topic"] for row in json.loads(project.lethe(asked, "topics", "list", "--json"))}
        return not listed.intersection(topics)

    return until(
        all_are,
        limit_s,
        lambda: f"{', '.join(topics)} should be gone:\n{project.try_lethe(asked, 'explain', '--all').said}",
    )


def run_demo(project: Project, *profiles: str, service: str = "demo") -> str:
    """The profile `demo` does what it is for: all three places are clean at its end. Return what it has printed. Raises
    Failed."""
    named = [word for profile in profiles for word in ("--profile", profile)]
    ran = project.try_compose(*named, "run", "--rm", service)
    if ran.code != 0 or "Nothing is left over." not in ran.output:
        raise Failed(f"the demo ended with {ran.code}:\n{ran.said}")
    gone = [
        line.removeprefix("Created topic ").removesuffix(".")
        for line in ran.output.splitlines()
        if line.startswith("Created topic ")
    ]
    expect(gone, f"the demo has deleted nothing:\n{ran.said}")
    DELETED.extend(gone)
    say(f"demo: {len(gone)} topics came and went; nothing is left in ZooKeeper, in caches, on disks")
    return ran.output
