"""Prometheus as the compose file runs it: its targets, its rules, and an answer to every query of every dashboard."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.compose.progress import Failed, expect, say, until
from tests.compose.project import ROOT, Project
from tests.fakes.dashboards import DASHBOARDS, expressions

LIMIT_S: Final = 240.0
CALM_S: Final = 45.0
ROUNDS: Final = 1_000


class Prometheus:
    """One that is published."""

    def __init__(self, project: Project, service: str = "prometheus") -> None:
        self._url = project.container(service).port(9090)

    def get(self, path: str, **query: str) -> Any:
        """The `data` of an answer of its API. Raises Failed."""
        url = f"{self._url}/api/v1/{path}"
        try:
            with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise Failed(f"{url} {query}: {error.read().decode(errors='replace')}") from error
        except OSError as error:
            raise Failed(f"{url}: {error}") from error

    def targets(self) -> dict[str, str]:
        """Whether each target is up, by its address."""
        active = self.get("targets", state="active")["activeTargets"]
        return {target["labels"]["instance"]: target["health"] for target in active}

    def has_answer(self, expression: str) -> bool:
        """There are series, and not of nothing but NaN."""
        found = self.get("query", query=expression)["result"]
        return any(isinstance(each.get("value"), list) and each["value"][1] != "NaN" for each in found)


def check_targets(project: Project, service: str = "prometheus") -> None:
    """Every target is up, every rule can be evaluated. Raises Failed."""
    prometheus = Prometheus(project, service)
    until(
        lambda: set(prometheus.targets().values()) == {"up"},
        60.0,
        lambda: f"all targets should be up: {prometheus.targets()}",
    )
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    bad = [rule["name"] for rule in rules if rule["health"] == "err"]
    expect(len(rules) > 10 and not bad, f"{len(rules)} alerts are there, and these cannot be evaluated: {bad}")
    say(f"Prometheus: all {len(prometheus.targets())} targets are up, {len(rules)} alerts are evaluated")


def check_dashboards(project: Project) -> None:
    """Every query of every dashboard has an answer, while topics come and go and then two brokers make trouble; but for
    those about surveys, which rest on what happens to be left over. Leaves topics that cannot be deleted. Raises
    Failed."""
    asked = {
        (path.stem, *each)
        for path in DASHBOARDS
        for each in expressions(json.loads(path.read_text()))
        if not _rests_on_surveys(each[1])
    }
    expect(len(asked) > 50, f"only {len(asked)} queries were found in {len(DASHBOARDS)} dashboards")
    prometheus = Prometheus(project)
    left = sorted(asked)

    def ask() -> bool:
        left[:] = [each for each in left if not prometheus.has_answer(each[2])]
        return not left

    def done() -> bool:
        return prometheus.has_answer('rate(lethe_controller_deletion_phase_seconds_count{phase="done"}[1m]) > 0')

    with _beside(project, "demo", {"DEMO_ROUNDS": str(ROUNDS)}):
        until(done, LIMIT_S, lambda: "deletions should come to their end")
        # Rates and quantiles need some scrapes; what only trouble shows is not there yet.
        calm_until = time.monotonic() + CALM_S
        until(lambda: ask() or time.monotonic() > calm_until, LIMIT_S, lambda: "")
        say(f"dashboards: {len(asked) - len(left)} of {len(asked)} queries have an answer while topics come and go")
        with _beside(project, "demo", {}, "python", "-m", "tests.compose.trouble"):
            until(ask, LIMIT_S, _unanswered(left))
    say(f"dashboards: all {len(asked)} queries have an answer, the rest of them while two brokers make trouble")


def _rests_on_surveys(expression: str) -> bool:
    return "lethe_survey_" in expression or 'alertname=~"Lethe(Leftovers' in expression


def _unanswered(left: list[tuple[str, str, str]]) -> Callable[[], str]:
    return lambda: "no series for\n" + "\n".join(" | ".join(each) for each in left)


@contextlib.contextmanager
def _beside(project: Project, service: str, variables: Mapping[str, str], *command: str) -> Iterator[None]:
    """A container of that service for the time of the block, with a command of its own where one is given: that one
    finds this repository in /src."""
    options = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
    if command:
        options += ["--volume", f"{ROOT}:/src:ro", "--workdir", "/src", "--entrypoint", command[0]]
    name = project.compose("run", "--detach", "--no-deps", *options, service, *command[1:]).split()[-1]
    try:
        yield
    finally:
        said = project.docker("logs", "--tail", "20", name)
        project.docker("rm", "--force", name)
        if "Traceback" in said:
            raise Failed(f"{service} {' '.join(command)} has failed:\n{said}")
