"""`python -m tests.compose`; exit code 0: all is well, 1: something is not, 3: there is no engine to run it on."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests import compose
from tests.compose import cluster, hardening, monitoring, outages, places, profiles, secure, stand_ins
from tests.compose.cluster import AGENTS, CORE
from tests.compose.engine import engine
from tests.compose.progress import Failed, NoEngine, chapter, say
from tests.compose.project import BUILD_LIMIT_S, Project

NO_ENGINE = 3
PYTHON_IMAGE = "python:3.12.11-slim-bookworm"
"""As docker-compose.yml has it; whether it can be had decides whether stand-ins are needed."""

BUILT_FOR: Final[Mapping[str | None, tuple[str, ...]]] = {
    None: ("controller-1", "zookeeper-1", "kafka-1", "pipeline"),
    "agents": ("controller-1", "zookeeper-1", "pipeline"),
    "kafka": ("controller-1", "zookeeper-1", "kafka-1"),
    "secure": ("controller-1", "zookeeper-1", "kafka-1"),
}
"""One service of each image that a part needs: the others take what is built then."""


def main(arguments: list[str] | None = None) -> int:
    """The exit code."""
    options = _parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    work_dir = Path(tempfile.mkdtemp(prefix="lethe-compose-"))
    try:
        data = options.data.resolve() if options.data else work_dir / "images"
        with engine(work_dir, data, own=options.own_engine) as environment:
            _all(environment, work_dir, options)
    except NoEngine as missing:
        sys.stderr.write(f"compose-test: {missing}\n")
        return NO_ENGINE
    except Failed as problem:
        sys.stderr.write(f"compose-test: FAILED: {problem}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("compose-test: interrupted; everything that was started has been ended\n")
        return 130
    finally:
        places.remove(work_dir)
    say("all is well")
    return 0


def _all(environment: dict[str, str], work_dir: Path, options: argparse.Namespace) -> None:
    chapter("Images")
    pulled = stand_ins.can_pull(environment, environment.get("PYTHON_IMAGE", PYTHON_IMAGE))
    if not pulled:
        say("no image can be pulled: Debian stands in, and Grafana is left out")
        environment |= stand_ins.make(environment, work_dir)
    with _project(environment, grafana=pulled) as project:
        profiles_of_all = ("--profile", "agents", "--profile", "pipeline", "--profile", "kafka")
        for service in () if options.no_build else BUILT_FOR[options.only]:
            project.compose(*profiles_of_all, "build", service, limit_s=BUILD_LIMIT_S)
            say(f"the image of {service} is built")
        if options.only in (None, "agents"):
            _agents(project, work_dir)
        if options.only in (None, "kafka"):
            chapter("Real brokers: profile kafka")
            profiles.kafka(project)
            project.down()
        if options.only in (None, "secure"):
            chapter("TLS, logins and rights: profile secure")
            secure.agents(project)
            chapter("Real brokers with TLS, logins and rights: profile secure-kafka")
            secure.kafka(project)


def _agents(project: Project, work_dir: Path) -> None:
    chapter("docker-compose up")
    project.up((*CORE, *AGENTS, *(("grafana",) if project.has_grafana else ())))
    leader, active = cluster.wait_ensemble(project), cluster.wait_in_control(project)
    say(f"{leader} leads the ensemble, {active} has control")
    hardening.check(project)
    monitoring.check_targets(project)
    chapter("Topics come and go: profile demo")
    cluster.run_demo(project)
    chapter("Each kind goes in turn")
    outages.all_in_turn(project)
    chapter("The page: profile pipeline")
    profiles.pipeline(project, work_dir)
    chapter("Dashboards")
    monitoring.check_targets(project)
    monitoring.check_dashboards(project)
    project.down()


@contextlib.contextmanager
def _project(environment: dict[str, str], *, grafana: bool) -> Iterator[Project]:
    project = Project(f"lethe-test-{os.getpid()}", environment, grafana=grafana)
    try:
        yield project
    finally:
        project.clean_up()


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.compose", description=compose.__doc__)
    parser.add_argument("--own-engine", action="store_true", help="start an engine even where another can be reached")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep our own engine's images there, for the next run")
    parser.add_argument("--no-build", action="store_true", help="take the images that are there, with --data")
    parser.add_argument("--only", choices=[each for each in BUILT_FOR if each is not None], help="one part of it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
