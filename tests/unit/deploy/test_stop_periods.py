"""Compose, systemd and Kubernetes each give a daemon the time that it needs to stop in order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from lethe.broker.runtime import app as agent
from lethe.broker.runtime.configuration import load_broker_config
from lethe.broker.runtime.controlled_shutdown import SOCKET_TIMEOUT_MS
from lethe.controller.runtime import app as controller
from tests.unit.deploy.kubernetes import workloads

ROOT: Final = Path(__file__).parents[3]
SECONDS: Final = {"s": 1, "min": 60}


def needed_s(daemon: str) -> float:
    """What a stop takes at worst: for an agent, a controller that takes each of its requests and never answers."""
    if daemon == "controller":
        return controller.STEP_DOWN_LIMIT_S + controller.LISTENER_GRACE_MS / 1000
    required = {"KAFKA_BROKER_ID": "1", "KAFKA_ZOOKEEPER_CONNECT": "zk:2181", "KAFKA_LOG_DIRS": "/x"}
    shutdown = load_broker_config(None, required).controlled_shutdown
    tries_ms = shutdown.max_retries * SOCKET_TIMEOUT_MS + (shutdown.max_retries - 1) * shutdown.retry_backoff_ms
    return (tries_ms + agent.STOP_GRACE_MS) / 1000


def in_compose(anchor: str) -> int:
    text = (ROOT / "docker-compose.yml").read_text()
    found = re.search(
        rf"^x-{anchor}: &{anchor}\n(?:[ #].*\n|\n(?= ))*?  stop_grace_period: (\d+)s$", text, re.MULTILINE
    )
    assert found is not None, anchor
    return int(found[1])


def in_systemd(daemon: str) -> int:
    text = (ROOT / "deploy" / "systemd" / f"lethe-{daemon}.service").read_text()
    found = re.search(r"^TimeoutStopSec=(\d+)(s|min)$", text, re.MULTILINE)
    assert found is not None, daemon
    return int(found[1]) * SECONDS[found[2]]


def in_kubernetes(daemon: str) -> int:
    period = workloads()[daemon].pod["terminationGracePeriodSeconds"]
    assert isinstance(period, int)
    return period


@pytest.mark.parametrize("daemon", ["controller", "broker"])
def test_there_is_time_to_stop_in_order(daemon: str) -> None:
    given = {
        "compose": in_compose("agent" if daemon == "broker" else daemon),
        "systemd": in_systemd(daemon),
        "kubernetes": in_kubernetes(daemon),
    }
    assert {place: s for place, s in given.items() if s <= needed_s(daemon)} == {}


def test_a_broker_of_kafkas_has_what_an_agent_needs_and_more_for_its_logs() -> None:
    assert in_compose("kafka") > in_compose("agent") > needed_s("broker") > 100
