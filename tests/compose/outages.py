"""One ZooKeeper, the active controller and one agent go in turn, stopped and killed; each time all recovers."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.compose import cluster
from tests.compose.cluster import AGENTS, CONTROLLERS, CORE
from tests.compose.progress import say, until
from tests.compose.project import Container, Project

GONE_LIMIT_S: Final = 120.0
RESTART_LIMIT_S: Final = 60.0

Leave = Callable[[Project, str], Callable[[], None]]
"""Has a container go, and answers what has it back."""


def all_in_turn(project: Project) -> None:
    """Each is stopped (`docker-compose stop`) and started again after a deletion was asked for; then each is killed,
    where its process is one of this machine's, and comes back by its restart policy. Raises Failed."""
    ways: dict[str, Leave] = {"stopped": _stopped}
    if _is_ours(project.container(AGENTS[0])):
        ways["killed"] = _killed
    else:
        say("the containers' processes are not this user's or this machine's, so none is killed")
    for way, leave in ways.items():
        zookeeper_leader(project, way, leave)
        active_controller(project, way, leave)
        one_agent(project, way, leave)


def zookeeper_leader(project: Project, way: str, leave: Leave) -> None:
    """The leader of the ensemble: the other two elect one, sessions move over, a deletion goes on."""
    leader = cluster.wait_ensemble(project)
    asked, topic = CONTROLLERS[0], f"zookeeper-{way}"
    cluster.create(project, asked, topic)
    cluster.wait_online(project, asked, (topic,))
    before = cluster.wait_in_control(project)
    with _outage(project, leader, leave):
        took_s = cluster.delete(project, asked, topic)
    _all_well(project)
    after = cluster.wait_in_control(project)
    control = "keeps control" if after == before else f"has lost control to {after}"
    say(
        f"{leader}, leader of the ensemble, {way}: a deletion took {took_s:.1f} s meanwhile, {before} {control}; "
        "all well"
    )


def active_controller(project: Project, way: str, leave: Leave) -> None:
    """The active controller: the other one takes over and deletes."""
    active = cluster.wait_in_control(project)
    topic = f"controller-{way}"
    (other,) = (service for service in CONTROLLERS if service != active)
    cluster.create(project, other, topic)
    cluster.wait_online(project, other, (topic,))
    with _outage(project, active, leave):
        took_s = cluster.delete(project, other, topic)
    _all_well(project)
    now = cluster.wait_in_control(project)
    say(
        f"{active}, the active controller, {way}: a deletion took {took_s:.1f} s meanwhile; {now} has control; all well"
    )


def one_agent(project: Project, way: str, leave: Leave) -> None:
    """An agent: what it holds no replica of is deleted meanwhile, what it does waits for it and says so."""
    agent, asked = AGENTS[2], CONTROLLERS[0]
    topic, elsewhere = f"agent-{way}", f"agent-{way}-elsewhere"
    cluster.create(project, asked, topic)
    project.lethe(asked, "topics", "create", "--topic", elsewhere, "--replica-assignment", "1:2,2:1")
    cluster.wait_online(project, asked, (topic, elsewhere))
    with _outage(project, agent, leave):
        cluster.mark(project, asked, topic)
        took_s = cluster.delete(project, asked, elsewhere)
    waited_s = cluster.wait_gone(project, asked, (topic,), GONE_LIMIT_S)
    _all_well(project)
    say(
        f"{agent}, an agent, {way}: what it holds nothing of was deleted in {took_s:.1f} s meanwhile, "
        f"the rest {waited_s:.0f} s after it was on its way back; all well"
    )


def _all_well(project: Project) -> None:
    project.wait_healthy((*CORE, *AGENTS))
    cluster.wait_ensemble(project)
    cluster.wait_in_control(project)


# --- two ways to go -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _outage(project: Project, service: str, leave: Leave) -> Iterator[None]:
    """The container is gone, or on its way back, while the block lasts."""
    have_back = leave(project, service)
    yield
    have_back()


def _stopped(project: Project, service: str) -> Callable[[], None]:
    project.compose("stop", service)
    return lambda: _start(project, service)


def _start(project: Project, service: str) -> None:
    project.compose("start", service)


def _killed(project: Project, service: str) -> Callable[[], None]:
    container = project.container(service)
    os.kill(container.pid, signal.SIGKILL)
    return lambda: _wait_restarted(project, container)


def _wait_restarted(project: Project, before: Container) -> None:
    until(
        lambda: project.container(before.service).restarts > before.restarts,
        RESTART_LIMIT_S,
        lambda: f"{before.service} was killed, and its restart policy should have started it again",
    )


def _is_ours(container: Container) -> bool:
    """Its process is one of this machine's, and we may end it."""
    try:
        return os.geteuid() == 0 and container.id in Path(f"/proc/{container.pid}/cgroup").read_text()
    except OSError:
        return False
