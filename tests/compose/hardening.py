"""What each container may do, as the engine enforces it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.compose.progress import Failed, say
from tests.compose.project import Container, Project

PUBLISHED: Final = {
    "controller-1": {"8080/tcp"},
    "controller-2": {"8080/tcp"},
    "prometheus": {"9090/tcp"},
    "grafana": {"3000/tcp"},
    "secure-controller-1": {"8080/tcp"},
    "secure-controller-2": {"8080/tcp"},
    "secure-prometheus": {"9090/tcp"},
}
"""Pages for people, and nothing else."""
WRITABLE_ROOT: Final = ("grafana",)


def check(project: Project) -> None:
    """Raises Failed with everything that is not as docs/compose.md says."""
    found = project.containers()
    problems = [f"{container.service}: {problem}" for container in found for problem in _problems(project, container)]
    if problems:
        raise Failed("\n".join(problems))
    say(f"{len(found)} containers: not root, read-only, no capability, limited; pages for people on 127.0.0.1 alone")


def _problems(project: Project, container: Container) -> Iterator[str]:
    host: dict[str, Any] = container.shown["HostConfig"]
    image = str(container.shown["Config"]["Image"])
    tag = image.rpartition("/")[2].partition(":")[2]
    if tag in ("", "latest"):
        yield f"its image {image} is of no particular version"
    if not host["ReadonlyRootfs"] and container.service not in WRITABLE_ROOT:
        yield "its root file system can be written"
    if host["CapDrop"] != ["ALL"] or host["CapAdd"]:
        yield f"it keeps capabilities (drops {host['CapDrop']}, adds {host['CapAdd']})"
    if not any(option.startswith("no-new-privileges") for option in host["SecurityOpt"] or ()):
        yield "it may gain privileges"
    if host["Privileged"]:
        yield "it is privileged"
    if not host["Memory"] or not host["NanoCpus"] or not host["PidsLimit"]:
        yield f"it has no limit of memory ({host['Memory']}), CPU ({host['NanoCpus']}) or processes"
    is_over = container.health == "exited"
    if host["RestartPolicy"]["Name"] != ("no" if container.is_one_off or is_over else "unless-stopped"):
        yield f"its restart policy is {host['RestartPolicy']['Name']}"
    if not is_over and not container.shown["Config"].get("Healthcheck"):
        yield "nobody looks after its health"
    yield from _user(project, container)
    yield from _ports(container)


def _user(project: Project, container: Container) -> Iterator[str]:
    if container.health == "exited":
        user = str(container.shown["Config"]["User"])
    else:
        user = project.docker("exec", container.id, "id", "-u").strip()
    if user in ("0", "root", ""):
        yield "it runs as root"


def _ports(container: Container) -> Iterator[str]:
    ports = {port: where for port, where in container.shown["NetworkSettings"]["Ports"].items() if where}
    if set(ports) != PUBLISHED.get(container.service, set()):
        yield f"it publishes {sorted(ports)}"
    for port, where in ports.items():
        if {each["HostIp"] for each in where} != {"127.0.0.1"}:
            yield f"it publishes {port} beyond 127.0.0.1: {where}"
