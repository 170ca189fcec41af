"""The compose project under test: `docker-compose` and `docker` as a user calls them, and what they answer."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.compose.progress import Failed, NoEngine, say, until

ROOT: Final = Path(__file__).parents[2]
LIMIT_S: Final = 300.0
HEALTHY_LIMIT_S: Final = 240.0
BUILD_LIMIT_S: Final = 3600.0
WITHOUT_GRAFANA: Final = "tests/compose/without-grafana.yml"
PORTS: Final = (
    *("BOARD_1_PORT", "BOARD_2_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT"),
    *("SECURE_BOARD_1_PORT", "SECURE_BOARD_2_PORT", "SECURE_PROMETHEUS_PORT"),
)
PROFILES: Final = ("agents", "demo", "pipeline", "kafka", "secure", "secure-kafka", "secure-demo")
_ONE_OFF: Final = "com.docker.compose.oneoff"
_SERVICE: Final = "com.docker.compose.service"
_PROJECT: Final = "com.docker.compose.project"


class Ran(NamedTuple):
    """What a command answered."""

    code: int
    output: str
    errors: str

    @property
    def said(self) -> str:
        """The end of all of it, for messages."""
        return "\n".join((self.output + self.errors).splitlines()[-25:])


@dataclass(frozen=True, slots=True)
class Container:
    """One container, as `docker inspect` shows it."""

    shown: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.shown["Id"])

    @property
    def service(self) -> str:
        return str(self.shown["Config"]["Labels"].get(_SERVICE, ""))

    @property
    def is_one_off(self) -> bool:
        """Started by `run`."""
        return str(self.shown["Config"]["Labels"].get(_ONE_OFF, "")).lower() == "true"

    @property
    def health(self) -> str:
        """`healthy`, `starting`, `unhealthy`, or what it is without: `running`, `exited`, ..."""
        state = self.shown["State"]
        is_watched = state["Status"] == "running" and state.get("Health")
        return str(state["Health"]["Status"] if is_watched else state["Status"])

    @property
    def exit_code(self) -> int:
        return int(self.shown["State"]["ExitCode"])

    @property
    def pid(self) -> int:
        return int(self.shown["State"]["Pid"])

    @property
    def restarts(self) -> int:
        """How often its restart policy has started it again."""
        return int(self.shown["RestartCount"])

    def port(self, inside: int) -> str:
        """`http://address:port` under which that port is published. Raises Failed where it is not."""
        published = self.shown["NetworkSettings"]["Ports"].get(f"{inside}/tcp")
        if not published:
            raise Failed(f"{self.service} publishes no port {inside}")
        return f"http://{published[0]['HostIp']}:{published[0]['HostPort']}"


class Project:
    """docker-compose.yml under a project name of its own."""

    def __init__(self, name: str, environment: Mapping[str, str], *, grafana: bool) -> None:
        """`environment` finds the engine and says which images to take. Raises NoEngine without docker-compose."""
        self.name: Final = name
        self.has_grafana: Final = grafana
        self._command = _compose_command(environment)
        # A profile that is set where this runs would hide what .env says; ports are whichever are free.
        kept = {key: value for key, value in environment.items() if key not in ("COMPOSE_PROFILES", "COMPOSE_FILE")}
        ports = dict.fromkeys(PORTS, "0")
        files = "docker-compose.yml" if grafana else f"docker-compose.yml{os.pathsep}{WITHOUT_GRAFANA}"
        # Of docker-compose 1: an engine on a busy machine takes longer than its 60 s to create containers.
        patient = {"COMPOSE_HTTP_TIMEOUT": "600"}
        names = {"COMPOSE_FILE": files, "COMPOSE_PROJECT_NAME": name}
        self.environment: Final = {**patient, **kept, **ports, **names}

    # --- commands -------------------------------------------------------------------------------------------------

    def try_compose(self, *arguments: str, given: str = "", limit_s: float = LIMIT_S) -> Ran:
        """`docker compose ARGUMENTS`."""
        return self._run([*self._command, *arguments], given, limit_s)

    def compose(self, *arguments: str, given: str = "", limit_s: float = LIMIT_S) -> str:
        """What it prints. Raises Failed where its exit code is not 0."""
        ran = self.try_compose(*arguments, given=given, limit_s=limit_s)
        if ran.code != 0:
            raise Failed(f"docker-compose {shlex.join(arguments)} ended with {ran.code}:\n{ran.said}")
        return ran.output

    def try_lethe(self, service: str, *arguments: str, limit_s: float = LIMIT_S) -> Ran:
        """`lethe ARGUMENTS` in the container of that service."""
        return self.inside(service, "lethe", *arguments, limit_s=limit_s)

    def inside(self, service: str, *command: str, limit_s: float = LIMIT_S) -> Ran:
        """What `docker compose exec` does, without its start, for all that is asked often."""
        label = ("--filter", f"label={_PROJECT}={self.name}", "--filter", f"label={_SERVICE}={service}")
        found = self.docker("ps", "--quiet", *label, "--filter", f"label={_ONE_OFF}=False").split()
        if not found:
            return Ran(1, "", f"{service} does not run")
        return self._run(["docker", "exec", found[0], *command], "", limit_s)

    def lethe(self, service: str, *arguments: str, limit_s: float = LIMIT_S) -> str:
        """What it prints. Raises Failed where its exit code is not 0."""
        ran = self.try_lethe(service, *arguments, limit_s=limit_s)
        if ran.code != 0:
            raise Failed(f"lethe {shlex.join(arguments)} in {service} ended with {ran.code}:\n{ran.said}")
        return ran.output

    def docker(self, *arguments: str) -> str:
        """What `docker ARGUMENTS` prints. Raises Failed where its exit code is not 0."""
        return self.docker_ran(*arguments).output

    def docker_ran(self, *arguments: str) -> Ran:
        """What became of `docker ARGUMENTS`, which ended well. Raises Failed where its exit code is not 0."""
        ran = self._run(["docker", *arguments], "", LIMIT_S)
        if ran.code != 0:
            raise Failed(f"docker {shlex.join(arguments)} ended with {ran.code}:\n{ran.said}")
        return ran

    def _run(self, command: Sequence[str], given: str, limit_s: float) -> Ran:
        try:
            ran = subprocess.run(
                command,
                env=self.environment,
                cwd=ROOT,
                input=given,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as over:
            raise Failed(f"{shlex.join(command)} has not ended within {limit_s:g} s") from over
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    # --- what is there --------------------------------------------------------------------------------------------

    def containers(self) -> list[Container]:
        """All of the project, by service; those that `run` started among them."""
        ids = self.docker("ps", "--all", "--quiet", "--filter", f"label={_PROJECT}={self.name}").split()
        if not ids:
            return []
        found = [Container(shown) for shown in json.loads(self.docker("inspect", *ids))]
        return sorted(found, key=lambda container: (container.service, container.id))

    def container(self, service: str) -> Container:
        """The one of that service. Raises Failed where there is none."""
        for container in self.containers():
            if container.service == service and not container.is_one_off:
                return container
        raise Failed(f"there is no container of {service}")

    def logs(self, service: str, lines: int = 30) -> str:
        """The end of what it has said."""
        return self.try_compose("logs", "--no-color", "--tail", str(lines), service).said

    def left(self) -> list[str]:
        """Containers, volumes and networks of the project."""
        label = ("--filter", f"label={_PROJECT}={self.name}", "--quiet")
        return [
            *(f"container {each}" for each in self.docker("ps", "--all", *label).split()),
            *(f"volume {each}" for each in self.docker("volume", "ls", *label).split()),
            *(f"network {each}" for each in self.docker("network", "ls", *label).split()),
        ]

    # --- life -----------------------------------------------------------------------------------------------------

    def wait_healthy(self, services: Sequence[str], limit_s: float = HEALTHY_LIMIT_S) -> float:
        """Waits until the containers of these services are healthy; the seconds that took. Raises Failed."""
        seen: dict[str, str] = {}

        def all_are() -> bool:
            seen.clear()
            seen.update({c.service: c.health for c in self.containers() if not c.is_one_off})
            return all(seen.get(service) == "healthy" for service in services)

        def what() -> str:
            bad = [service for service in services if seen.get(service) != "healthy"]
            said = "\n".join(f"--- {service}: {seen.get(service)}\n{self.logs(service)}" for service in bad)
            return f"{', '.join(bad)} should be healthy\n{said}"

        return until(all_are, limit_s, what)

    def up(self, services: Sequence[str], *profiles: str, once: Sequence[str] = ()) -> None:
        """`up --detach` with these profiles (none: what .env says), until the services, which should be all that come
        up, are healthy. Those in `once` have ended with exit code 0 by then. Raises Failed."""
        named = [word for profile in profiles for word in ("--profile", profile)]
        self.compose(*named, "up", "--detach", limit_s=BUILD_LIMIT_S)
        took_s = self.wait_healthy(services)
        there = sorted(c.service for c in self.containers() if not c.is_one_off)
        if there != sorted((*services, *once)):
            raise Failed(f"there are containers of {there}, not of {sorted((*services, *once))}")
        for service in once:
            container = self.container(service)
            if container.health != "exited" or container.exit_code != 0:
                raise Failed(f"{service} should have ended well:\n{self.logs(service)}")
        say(f"up: {len(services)} containers, all healthy {took_s:.0f} s after `up` had returned")

    def down(self) -> None:
        """`down --volumes`, after which nothing is left. Raises Failed."""
        profiles = [word for profile in PROFILES for word in ("--profile", profile)]
        self.compose(*profiles, "down", "--volumes", "--remove-orphans")
        if left := self.left():
            raise Failed(f"`down --volumes` leaves {', '.join(left)}")
        say("down --volumes: no container, no volume, no network is left")

    def clean_up(self) -> None:
        """Whatever is left, by force; for the way out."""
        label = ("--filter", f"label={_PROJECT}={self.name}", "--quiet")
        for listing, removal in (
            (("ps", "--all", *label), ("rm", "--force", "--volumes")),
            (("volume", "ls", *label), ("volume", "rm", "--force")),
            (("network", "ls", *label), ("network", "rm")),
        ):
            found = self._run(["docker", *listing], "", LIMIT_S).output.split()
            if found:
                self._run(["docker", *removal, *found], "", LIMIT_S)


def _compose_command(environment: Mapping[str, str]) -> list[str]:
    """`$COMPOSE`, or docker-compose, or Docker's plug-in."""
    if chosen := environment.get("COMPOSE"):
        return shlex.split(chosen)
    if shutil.which("docker-compose") is not None:
        return ["docker-compose"]
    asked = subprocess.run(["docker", "compose", "version"], env=dict(environment), capture_output=True, check=False)
    if asked.returncode == 0:
        return ["docker", "compose"]
    raise NoEngine("there is no docker-compose: apt-get install docker-compose, or Docker's compose plug-in")
